//===- StaticOperand.cpp - which operand is the weight --------------------===//

#include "qtranspose/Analysis/StaticOperand.h"

#include "mlir/Dialect/Quant/IR/Quant.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::qtranspose {

/// Number of dims longer than one that `node` itself varies along.
static int countDims(Expr node, llvm::ArrayRef<int64_t> extents) {
  llvm::SmallDenseSet<unsigned> dims;
  for (AffineExpr coordinate : node->coordinates)
    if (coordinate)
      coordinate.walk([&](AffineExpr part) {
        if (auto dim = dyn_cast<AffineDimExpr>(part);
            dim && extents[dim.getPosition()] != 1)
          dims.insert(dim.getPosition());
      });
  return dims.size();
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
  // Largest number of dims of a tensor of each degree; -1: there is none.
  int runTime = -1, argument = -1, constant = -1;
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
        runTime = extents.size();
      constant = std::max(constant, 0);
      return;
    }
    if (!node->is(ScalarExpr::Kind::Leaf))
      return;
    int dims = countDims(node, extents);
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
      constant = std::max(constant, dims);
    } else if (isConstant && !stopReason) {
      constant = std::max(constant, dims);
    } else if (!stopReason && !picks.contains(node) &&
               cast<ShapedType>(value.getType()).getRank() >= 2 &&
               hasQuantizedStorage(value.getType())) {
      argument = std::max(argument, dims);
    } else {
      runTime = std::max(runTime, dims);
    }
  });
  if (runTime >= std::max(constant, argument))
    return runTime < 0 && !hasScalar ? Staticness::Constant
                                     : Staticness::RunTime;
  return constant >= argument ? Staticness::Constant
                              : Staticness::QuantizedArgument;
}

} // namespace mlir::qtranspose
