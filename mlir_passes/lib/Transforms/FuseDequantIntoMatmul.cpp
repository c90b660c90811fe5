//===- FuseDequantIntoMatmul.cpp - contractions read quantized leaves -----===//

#include "qtranspose/Transforms/FuseDequantIntoMatmul.h"
#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/ContractionFusion.h"
#include "qtranspose/Utils/EmitExpr.h"

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

/// How weights are fused; the options of the pass.
struct FusionOptions {
  int64_t fewRows = 8;
  FusionDecision decision = FusionDecision::Auto;
  ProducerLayout layout = ProducerLayout::AsIterated;

  OperandFusion decide(const TracedOperand &operand) const {
    if (operand.isLayoutOnly() || isIntegerWidening(operand.expr))
      return OperandFusion::Element;
    switch (decision) {
    case FusionDecision::Element:
      return OperandFusion::Element;
    case FusionDecision::Tile:
      return OperandFusion::Tile;
    case FusionDecision::Materialize:
      return OperandFusion::Materialize;
    case FusionDecision::Auto:
      return operand.reuse && *operand.reuse <= fewRows ? OperandFusion::Element
                                                        : OperandFusion::Tile;
    }
    llvm_unreachable("all decisions are covered");
  }
};

llvm::StringRef nameOf(OperandFusion fusion) {
  switch (fusion) {
  case OperandFusion::Keep:
    return "kept";
  case OperandFusion::Element:
    return "per element";
  case OperandFusion::Tile:
    return "per tile";
  case OperandFusion::Materialize:
    return "materialized";
  }
  llvm_unreachable("all fusions are covered");
}

/// Fuses the weights of `op`; false if there is nothing to fuse or it is
/// refused, with `op` untouched.
bool fuse(RewriterBase &rewriter, linalg::LinalgOp op,
          const FusionOptions &options) {
  ExprPool pool(op->getContext());
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
    decisions.back() = options.decide(operand);
  }
  if (llvm::all_of(decisions, [](OperandFusion decision) {
        return decision == OperandFusion::Keep;
      }))
    return false;

  ContractionFusion fusion(op, pool);
  if (std::optional<Refusal> refusal =
          fusion.plan(operands, decisions, options.layout)) {
    remarkRefused(op, passName, *refusal);
    return false;
  }
  std::string forms;
  llvm::raw_string_ostream os(forms);
  for (auto [operand, decision] : llvm::zip(operands, decisions)) {
    if (decision == OperandFusion::Keep)
      continue;
    os << (forms.empty() ? "" : "; ") << nameOf(decision) << " (used ";
    if (operand.reuse)
      os << *operand.reuse << " times";
    else
      os << "a dynamic number of times";
    os << "): ";
    printExpr(operand.expr, os);
  }
  remarkPassed(op, passName, "fused", forms);
  llvm::SmallVector<Location> locations{op->getLoc()};
  for (Operation *traced : tracer.getTracedOps())
    locations.push_back(traced->getLoc());
  fusion.apply(rewriter, rewriter.getFusedLoc(locations));
  return true;
}

struct FusePattern : OpInterfaceRewritePattern<linalg::LinalgOp> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(linalg::LinalgOp op,
                                PatternRewriter &rewriter) const override {
    return success(isContraction(op) && fuse(rewriter, op, FusionOptions()));
  }
};

struct FuseDequantIntoMatmul
    : impl::FuseDequantIntoMatmulBase<FuseDequantIntoMatmul> {
  using FuseDequantIntoMatmulBase::FuseDequantIntoMatmulBase;

  void runOnOperation() override {
    llvm::SmallVector<linalg::LinalgOp> contractions;
    getOperation()->walk([&](linalg::LinalgOp op) {
      if (isContraction(op))
        contractions.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    FusionOptions options{fewRows, decision, consumerLayout};
    for (linalg::LinalgOp op : contractions) {
      llvm::SmallVector<Value> operands(op->getOperands());
      if (fuse(rewriter, op, options))
        eraseIfDead(rewriter, operands);
    }
  }
};
} // namespace

void populateFuseDequantIntoMatmulPatterns(RewritePatternSet &patterns) {
  patterns.add<FusePattern>(patterns.getContext());
}

} // namespace mlir::qtranspose
