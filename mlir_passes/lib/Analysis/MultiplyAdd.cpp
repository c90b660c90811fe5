//===- MultiplyAdd.cpp - bodies that multiply and add ---------------------===//

#include "qtranspose/Analysis/MultiplyAdd.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Complex/IR/Complex.h"
#include "mlir/Interfaces/CastInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::qtranspose {

/// On booleans, `or` and `and` add and multiply, as in upstream's named ops.
static bool isBoolean(Operation *op) {
  return op->getResult(0).getType().isInteger(1);
}

static bool isSum(Operation *op) {
  return isa<arith::AddFOp, arith::AddIOp, complex::AddOp>(op) ||
         (isa<arith::OrIOp>(op) && isBoolean(op));
}

static bool isProduct(Operation *op) {
  return isa<arith::MulFOp, arith::MulIOp, complex::MulOp>(op) ||
         (isa<arith::AndIOp>(op) && isBoolean(op));
}

/// Whether `op` has no attribute but what a named op's body would have.
static bool isPlain(Operation *op) {
  if (auto fast = dyn_cast<arith::ArithFastMathInterface>(op);
      fast && fast.getFastMathFlagsAttr() &&
      fast.getFastMathFlagsAttr().getValue() != arith::FastMathFlags::none)
    return false;
  if (auto wrap = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op);
      wrap &&
      wrap.getOverflowAttr().getValue() != arith::IntegerOverflowFlags::none)
    return false;
  return llvm::all_of(op->getAttrs(), [](NamedAttribute attribute) {
    return attribute.getName() == "fastmath" ||
           attribute.getName() == "overflowFlags";
  });
}

/// The signedness of the conversion of a named op's factor.
static bool matchNamedFactor(Value factor, Value argument,
                             std::optional<linalg::TypeFn> &cast) {
  if (factor == argument)
    return true;
  Operation *op = factor.getDefiningOp();
  if (!op || op->getNumOperands() != 1 || op->getOperand(0) != argument ||
      !isPlain(op))
    return false;
  std::optional<linalg::TypeFn> needed;
  if (isa<arith::ExtSIOp, arith::SIToFPOp, arith::FPToSIOp>(op))
    needed = linalg::TypeFn::cast_signed;
  else if (isa<arith::ExtUIOp, arith::UIToFPOp, arith::FPToUIOp>(op))
    needed = linalg::TypeFn::cast_unsigned;
  else if (!isa<arith::ExtFOp, arith::TruncFOp, arith::TruncIOp>(op))
    return false;
  if (needed && cast && *cast != *needed)
    return false;
  if (needed)
    cast = needed;
  return true;
}

/// Adds the block arguments that `value` is computed from.
static void collectArguments(Value value, Block *body,
                             llvm::SetVector<unsigned> &arguments) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  for (unsigned next = 0; next < seen.size(); ++next) {
    Value current = seen[next];
    if (auto argument = dyn_cast<BlockArgument>(current)) {
      if (argument.getOwner() == body)
        arguments.insert(argument.getArgNumber());
    } else if (current.getDefiningOp()->getBlock() == body) {
      current.getDefiningOp()->walk([&](Operation *inner) {
        seen.insert(inner->operand_begin(), inner->operand_end());
      });
    }
  }
}

OrRefusal<MultiplyAdd> matchMultiplyAdd(linalg::LinalgOp op) {
  auto no = [](const llvm::Twine &detail) {
    return refuse(Reason::BodyNotMultiplyAdd, detail);
  };
  Block *body = op.getBlock();
  if (!body || body->getNumArguments() != op->getNumOperands())
    return no("the op has no scalar body");
  std::optional<Refusal> refusal;
  body->walk([&](Operation *inner) {
    if (isa<linalg::IndexOp>(inner))
      refusal = refuse(Reason::UsesIndex, "the body has a 'linalg.index'");
    else if (!isMemoryEffectFree(inner))
      refusal = refuse(Reason::SideEffectsInBody,
                       "'" + inner->getName().getStringRef() +
                           "' in the body may have side effects");
    return refusal ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (refusal)
    return *refusal;

  Value accumulator = body->getArguments().back();
  Operation *sum = body->getTerminator()->getOperand(0).getDefiningOp();
  if (!sum || !isSum(sum) || !accumulator.hasOneUse() ||
      !llvm::is_contained(sum->getOperands(), accumulator))
    return no("it does not add to the accumulator");
  Value term = sum->getOperand(sum->getOperand(0) == accumulator);
  Operation *product = term.getDefiningOp();
  bool isConverted = false;
  while (product && isa<CastOpInterface>(product)) {
    isConverted = true;
    product = product->getOperand(0).getDefiningOp();
  }
  if (!product || !isProduct(product))
    return no("what it adds is not a product");

  MultiplyAdd match;
  llvm::SetVector<unsigned> arguments[2];
  for (unsigned i : {0, 1}) {
    collectArguments(product->getOperand(i), body, arguments[i]);
    match.factors[i] = llvm::to_vector(arguments[i]);
    llvm::sort(match.factors[i]);
  }
  unsigned accumulatorNumber = body->getNumArguments() - 1;
  for (unsigned number = 0; number <= accumulatorNumber; ++number) {
    unsigned count =
        arguments[0].contains(number) + arguments[1].contains(number);
    if (count != (number == accumulatorNumber ? 0 : 1))
      return no("its factors are not computed from inputs of their own");
  }
  if (match.factors[0].size() != 1 || match.factors[1].size() != 1 ||
      isConverted || !isPlain(sum) || !isPlain(product))
    return match;
  std::optional<linalg::TypeFn> cast;
  bool isNamed = true;
  for (unsigned i : {0, 1})
    isNamed &=
        matchNamedFactor(product->getOperand(i),
                         body->getArgument(match.factors[i].front()), cast);
  if (isNamed)
    match.namedCast = cast.value_or(linalg::TypeFn::cast_signed);
  return match;
}

} // namespace mlir::qtranspose
