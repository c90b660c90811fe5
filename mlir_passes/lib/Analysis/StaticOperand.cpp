//===- StaticOperand.cpp - which operand is the weight --------------------===//

#include "qtranspose/Analysis/StaticOperand.h"

#include "mlir/Dialect/Quant/IR/Quant.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <limits>

namespace mlir::qtranspose {

/// How much a tensor holds: dims of unknown extent, and elements without them.
using Amount = std::pair<int, double>;
static constexpr Amount kNone = {-1, 0};

/// How much of its tensor `node` reads. It does not depend on how loops are
/// split or merged.
static Amount countElements(Expr node, llvm::ArrayRef<int64_t> extents) {
  Amount amount = {0, 1};
  auto type = cast<ShapedType>(node->getTensorType());
  for (auto [coordinate, size] :
       llvm::zip(node->coordinates, type.getShape())) {
    if (!coordinate)
      continue;
    bool varies = false, isDynamic = false;
    double steps = 1;
    coordinate.walk([&](AffineExpr part) {
      auto dim = dyn_cast<AffineDimExpr>(part);
      if (!dim || extents[dim.getPosition()] == 1)
        return;
      varies = true;
      isDynamic |= ShapedType::isDynamic(extents[dim.getPosition()]);
      steps *= extents[dim.getPosition()];
    });
    if (!varies)
      continue;
    if (!isDynamic)
      amount.second *=
          ShapedType::isDynamic(size) ? steps : std::min<double>(size, steps);
    else if (ShapedType::isDynamic(size))
      ++amount.first;
    else
      amount.second *= size;
  }
  return amount;
}

/// Whether `tensor` is a constant or an argument of the function, seen through
/// views.
static bool isSource(Value tensor) {
  if (isConstantTensor(tensor))
    return true;
  auto argument = dyn_cast<BlockArgument>(skipViews(tensor));
  return argument && argument.getOwner()->isEntryBlock() &&
         isa<FunctionOpInterface>(argument.getOwner()->getParentOp());
}

Staticness getStaticness(Expr expr, llvm::ArrayRef<int64_t> extents,
                         bool &isEncoded) {
  isEncoded = false;
  // The largest tensor of each degree.
  Amount runTime = kNone, argument = kNone, constant = kNone;
  bool hasScalar = false;
  // Rows that the program picks from a table are not a weight.
  llvm::DenseSet<Expr> picks;
  walkExpr(expr, [&](Expr node) {
    if (node->is(ScalarExpr::Kind::Gather) &&
        node->getTensorType().getRank() >= 2)
      for (Expr index : node->operands)
        walkExpr(index, [&](Expr inner) { picks.insert(inner); });
  });
  walkExpr(expr, [&](Expr node) {
    hasScalar |= node->is(ScalarExpr::Kind::Scalar);
    if (node->is(ScalarExpr::Kind::Gather)) {
      if (!isConstantTensor(node->value) || node->stopReason)
        runTime = {std::numeric_limits<int>::max(), 0};
      constant = std::max(constant, Amount{0, 0});
      return;
    }
    if (!node->is(ScalarExpr::Kind::Leaf))
      return;
    Amount amount = countElements(node, extents);
    // A tensor of a quantized type is what it is dequantized from.
    Value value = node->value;
    std::optional<Reason> stopReason = node->stopReason;
    auto dequantize = value ? value.getDefiningOp<quant::DequantizeCastOp>()
                            : quant::DequantizeCastOp();
    if (dequantize && isSource(dequantize.getInput())) {
      value = dequantize.getInput();
      stopReason = std::nullopt;
    }
    bool isConstant = !value || isConstantTensor(value);
    if (isConstant && stopReason == Reason::TensorEncoding) {
      isEncoded = true;
      constant = std::max(constant, amount);
    } else if (isConstant && !stopReason) {
      constant = std::max(constant, amount);
    } else if (!stopReason && !picks.contains(node) &&
               cast<ShapedType>(value.getType()).getRank() >= 2 &&
               hasQuantizedStorage(value.getType())) {
      argument = std::max(argument, amount);
    } else {
      runTime = std::max(runTime, amount);
    }
  });
  if (runTime >= std::max(constant, argument))
    return runTime == kNone && !hasScalar ? Staticness::Constant
                                          : Staticness::RunTime;
  return constant >= argument ? Staticness::Constant
                              : Staticness::QuantizedArgument;
}

} // namespace mlir::qtranspose
