//===- EmitExpr.h - expressions as scalar ops --------------------*- C++
//-*-===//

#ifndef QTRANSPOSE_UTILS_EMITEXPR_H
#define QTRANSPOSE_UTILS_EMITEXPR_H

#include "qtranspose/Analysis/VirtualTensor.h"

#include "mlir/IR/Builders.h"

namespace mlir::qtranspose {

/// Emits expressions into the body of a linalg op whose dims are the dims of
/// the expressions' coordinates. `known` maps leaves to block arguments and is
/// extended with what was emitted. Values that a Gather reads, or a Scalar is,
/// must dominate the linalg op; see localize().
Value emitExpr(OpBuilder &builder, Location loc, Expr expr,
               llvm::DenseMap<Expr, Value> &known);

/// `tensor`, or a copy of it at the insertion point if it is a constant of
/// another function (the weight of a callee that was traced through).
Value localize(OpBuilder &builder, Value tensor);

/// `expr` with the tables that it reads by computed indices localized.
Expr localizeTables(OpBuilder &builder, ExprPool &pool, Expr expr);

/// Erases `roots` and what only they used, if nothing uses them any more. Calls
/// count as dead if the function is inside `root` and has no side effects.
void eraseIfDead(RewriterBase &rewriter, llvm::ArrayRef<Value> roots,
                 Operation *root = nullptr);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_EMITEXPR_H
