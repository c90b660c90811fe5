//===- EmitExpr.cpp - expressions as scalar ops ---------------------------===//

#include "qtranspose/Utils/EmitExpr.h"

#include "qtranspose/Analysis/IndexSpace.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::qtranspose {

/// An affine expression over the dims of the surrounding linalg op.
static Value emitIndex(OpBuilder &builder, Location loc, AffineExpr expr) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return arith::ConstantIndexOp::create(builder, loc, constant.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return linalg::IndexOp::create(builder, loc, dim.getPosition());
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value lhs = emitIndex(builder, loc, binary.getLHS());
  Value rhs = emitIndex(builder, loc, binary.getRHS());
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::Mul:
    return arith::MulIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::FloorDiv:
    if (isNonNegative(binary.getLHS()))
      return arith::DivUIOp::create(builder, loc, lhs, rhs);
    return arith::FloorDivSIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::CeilDiv:
    return arith::CeilDivSIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::Mod: {
    if (isNonNegative(binary.getLHS()))
      return arith::RemUIOp::create(builder, loc, lhs, rhs);
    Value quotient = arith::FloorDivSIOp::create(builder, loc, lhs, rhs);
    Value product = arith::MulIOp::create(builder, loc, quotient, rhs);
    return arith::SubIOp::create(builder, loc, lhs, product);
  }
  default:
    llvm_unreachable("coordinates have no symbols");
  }
}

Value localize(OpBuilder &builder, Value tensor) {
  Operation *definition = tensor.getDefiningOp();
  if (!definition || !definition->hasTrait<OpTrait::ConstantLike>())
    return tensor;
  Operation *here = builder.getInsertionBlock()->getParentOp();
  if (definition->getParentOp()->isAncestor(here))
    return tensor;
  return builder.clone(*definition)->getResult(0);
}

Expr localizeTables(OpBuilder &builder, ExprPool &pool, Expr root) {
  llvm::DenseMap<Value, Value> local;
  llvm::DenseMap<Expr, Expr> mapped;
  walkExpr(root, [&](Expr expr) {
    auto operands = llvm::map_to_vector(
        expr->operands, [&](Expr operand) { return mapped.lookup(operand); });
    if (!expr->is(ScalarExpr::Kind::Gather)) {
      mapped[expr] = pool.withOperands(expr, operands);
      return;
    }
    Value &table = local[expr->value];
    if (!table)
      table = localize(builder, expr->value);
    mapped[expr] = pool.gather(table, operands);
  });
  return mapped.lookup(root);
}

Value emitExpr(OpBuilder &builder, Location loc, Expr root,
               llvm::DenseMap<Expr, Value> &known) {
  walkExpr(root, [&](Expr expr) {
    if (known.contains(expr))
      return;
    auto operands = llvm::map_to_vector(
        expr->operands, [&](Expr operand) { return known.lookup(operand); });
    Value value;
    switch (expr->kind) {
    case ScalarExpr::Kind::Constant:
      value = arith::ConstantOp::create(builder, loc,
                                        cast<TypedAttr>(expr->attribute));
      break;
    case ScalarExpr::Kind::Scalar:
      value = expr->value;
      break;
    case ScalarExpr::Kind::Index:
      value = emitIndex(builder, loc, expr->coordinates[0]);
      break;
    case ScalarExpr::Kind::Leaf: {
      // A leaf that is not an operand is read where it is.
      llvm::SmallVector<Value> indices;
      for (AffineExpr coordinate : expr->coordinates)
        indices.push_back(emitIndex(builder, loc, coordinate));
      value = tensor::ExtractOp::create(builder, loc, expr->value, indices);
      break;
    }
    case ScalarExpr::Kind::Gather:
      value = tensor::ExtractOp::create(builder, loc, expr->value, operands);
      break;
    case ScalarExpr::Kind::Apply: {
      OperationState state(loc, *expr->name, operands, {expr->type},
                           cast<DictionaryAttr>(expr->attribute).getValue());
      value = builder.create(state)->getResult(0);
      break;
    }
    case ScalarExpr::Kind::Pieces: {
      Value position = emitIndex(builder, loc, expr->coordinates[0]);
      value = operands.back();
      for (unsigned p = operands.size() - 1; p-- > 0;) {
        Value end =
            arith::ConstantIndexOp::create(builder, loc, expr->breaks[p + 1]);
        Value inside = arith::CmpIOp::create(
            builder, loc, arith::CmpIPredicate::ult, position, end);
        value =
            arith::SelectOp::create(builder, loc, inside, operands[p], value);
      }
      break;
    }
    }
    known[expr] = value;
  });
  return known.lookup(root);
}

/// True if `op` calls a function inside `root` that has no side effects. A
/// function that is met twice is taken for a recursive one, which may not end.
static bool isPureCall(Operation *op, Operation *root,
                       llvm::SmallPtrSetImpl<Operation *> &entered) {
  auto call = dyn_cast<CallOpInterface>(op);
  auto function =
      dyn_cast_or_null<func::FuncOp>(call ? call.resolveCallable() : nullptr);
  if (!function || function.isExternal() || !root->isAncestor(function) ||
      !entered.insert(function).second)
    return false;
  WalkResult result = function.getBody().walk([&](Operation *inner) {
    bool isPure = inner->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
                  isMemoryEffectFree(inner) || wouldOpBeTriviallyDead(inner) ||
                  isPureCall(inner, root, entered);
    return isPure ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !result.wasInterrupted();
}

static bool isDead(Operation *op, Operation *root) {
  llvm::SmallPtrSet<Operation *, 4> entered;
  return isOpTriviallyDead(op) ||
         (root && op->use_empty() && isPureCall(op, root, entered));
}

void eraseIfDead(RewriterBase &rewriter, llvm::ArrayRef<Value> roots,
                 Operation *root) {
  llvm::SmallVector<Value> worklist(roots);
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || !isDead(op, root))
      continue;
    llvm::SetVector<Value> read(op->operand_begin(), op->operand_end());
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getDefiningOp() && !op->isAncestor(operand.getDefiningOp()))
          read.insert(operand);
    });
    // The same value can be queued twice; an erased op must not be.
    llvm::erase_if(worklist,
                   [&](Value value) { return value.getDefiningOp() == op; });
    rewriter.eraseOp(op);
    llvm::append_range(worklist, read);
  }
}

} // namespace mlir::qtranspose
