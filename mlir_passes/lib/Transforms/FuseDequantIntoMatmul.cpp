//===- FuseDequantIntoMatmul.cpp - contractions read quantized leaves -----===//

#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/ContractionFusion.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_FUSEDEQUANTINTOMATMUL
#include "qtranspose/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral passName = "fuse-dequant-into-matmul";

/// True if `expr` only widens integers: a conversion that the contraction's
/// own multiply does anyway, at no cost per element.
bool isIntegerWidening(Expr expr) {
  while (expr->isApply("arith.extsi") || expr->isApply("arith.extui"))
    expr = expr->operands[0];
  return expr->is(ScalarExpr::Kind::Leaf);
}

struct FuseDequantIntoMatmul
    : impl::FuseDequantIntoMatmulBase<FuseDequantIntoMatmul> {
  using FuseDequantIntoMatmulBase::FuseDequantIntoMatmulBase;

  OperandFusion decide(const TracedOperand &operand) {
    if (operand.isLayoutOnly() || isIntegerWidening(operand.expr))
      return OperandFusion::Element;
    if (decision == FusionDecision::Element)
      return OperandFusion::Element;
    if (decision == FusionDecision::Tile)
      return OperandFusion::Tile;
    return operand.reuse && *operand.reuse <= fewRows ? OperandFusion::Element
                                                      : OperandFusion::Tile;
  }

  void rewrite(IRRewriter &rewriter, linalg::LinalgOp op) {
    ExprPool pool(&getContext());
    Tracer tracer(pool);
    llvm::SmallVector<TracedOperand, 0> operands =
        traceOperands(op, pool, tracer);
    llvm::SmallVector<OperandFusion> decisions;
    for (const TracedOperand &operand : operands) {
      decisions.push_back(OperandFusion::Keep);
      if (operand.storage.empty() || operand.isView())
        continue;
      if (operand.refusal) {
        remarkRefused(op, passName, *operand.refusal);
        continue;
      }
      decisions.back() = decide(operand);
    }
    if (llvm::all_of(decisions, [](OperandFusion decision) {
          return decision == OperandFusion::Keep;
        }))
      return;

    ContractionFusion fusion(op, pool);
    if (std::optional<Refusal> refusal = fusion.plan(operands, decisions)) {
      remarkRefused(op, passName, *refusal);
      return;
    }
    std::string forms;
    llvm::raw_string_ostream os(forms);
    llvm::SmallVector<Location> locations{op->getLoc()};
    for (auto [operand, decision] : llvm::zip(operands, decisions)) {
      if (decision == OperandFusion::Keep)
        continue;
      os << (forms.empty() ? "" : "; ")
         << (decision == OperandFusion::Tile ? "per tile: " : "per element: ");
      printExpr(operand.expr, os);
    }
    for (Operation *traced : tracer.getTracedOps())
      locations.push_back(traced->getLoc());
    remarkPassed(op, passName, "fused", forms);
    fusion.apply(rewriter, rewriter.getFusedLoc(locations));
  }

  void runOnOperation() override {
    llvm::SmallVector<linalg::LinalgOp> contractions;
    getOperation()->walk([&](linalg::LinalgOp op) {
      if (isContraction(op))
        contractions.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (linalg::LinalgOp op : contractions)
      rewrite(rewriter, op);
  }
};
} // namespace
} // namespace mlir::qtranspose
