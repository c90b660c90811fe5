//===- FuseDequantIntoMatmul.cpp - contractions read quantized leaves -----===//

#include "qtranspose/Transforms/FuseDequantIntoMatmul.h"
#include "qtranspose/Analysis/DequantDescription.h"
#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/ContractionFusion.h"
#include "qtranspose/Utils/EmitExpr.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_FUSEDEQUANTINTOMATMUL
#include "qtranspose/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral passName = "qtranspose-fuse-dequant-into-matmul";

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

/// What is fused and how: decisions, descriptions and expressions, over the
/// dims of each operand.
std::string describeForms(llvm::ArrayRef<TracedOperand> operands,
                          llvm::ArrayRef<OperandFusion> decisions,
                          ExprPool &pool, Tracer &tracer) {
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
    Value value = operand.operand->get();
    auto type = cast<RankedTensorType>(value.getType());
    Expr expr = tracer.trace(value, AffineMap::getMultiDimIdentityMap(
                                        type.getRank(), pool.getContext())
                                        .getResults());
    std::optional<DequantDescription> description =
        describeDequantization(pool, expr, type.getShape());
    if (description &&
        description->kind != DequantDescription::Kind::Expression) {
      printDescription(*description, type.getShape(), os);
      os << ": ";
    }
    printExpr(expr, os);
  }
  return forms;
}

/// Plans `wanted`; where that is refused as a whole, as many of its operands as
/// possible, one after the other. What is planned is returned.
llvm::SmallVector<OperandFusion>
planFusion(ContractionFusion &fusion, llvm::ArrayRef<TracedOperand> operands,
           llvm::ArrayRef<OperandFusion> wanted, ProducerLayout layout) {
  llvm::SmallVector<OperandFusion> planned(wanted);
  std::optional<Refusal> refusal = fusion.plan(operands, wanted, layout);
  if (!refusal)
    return planned;
  planned.assign(wanted.size(), OperandFusion::Keep);
  bool several = wanted.size() - llvm::count(wanted, OperandFusion::Keep) > 1;
  for (auto [index, decision] : llvm::enumerate(wanted)) {
    if (decision == OperandFusion::Keep)
      continue;
    planned[index] = decision;
    if (several)
      refusal = fusion.plan(operands, planned, layout);
    if (!refusal)
      continue;
    planned[index] = OperandFusion::Keep;
    remarkRefused(operands[index].operand->getOwner(), passName, *refusal);
  }
  if (several && llvm::count(planned, OperandFusion::Keep) <
                     static_cast<int64_t>(planned.size()))
    fusion.plan(operands, planned, layout);
  return planned;
}

/// Fuses the weights of `op`; false if there is nothing to fuse or it is
/// refused, with `op` untouched. Nothing outside `root` is read.
bool fuse(RewriterBase &rewriter, linalg::LinalgOp op,
          const FusionOptions &options, Operation *root = nullptr) {
  ExprPool pool(op->getContext());
  Tracer tracer(pool, root);
  llvm::SmallVector<TracedOperand, 0> operands =
      traceOperands(op, pool, tracer);
  llvm::SmallVector<OperandFusion> decisions;
  for (const TracedOperand &operand : operands) {
    decisions.push_back(OperandFusion::Keep);
    if (operand.refusal)
      remarkRefused(op, passName, *operand.refusal);
    else if (!operand.storage.empty() && !operand.isView())
      decisions.back() = options.decide(operand);
  }
  auto isKept = [](OperandFusion decision) {
    return decision == OperandFusion::Keep;
  };
  if (llvm::all_of(decisions, isKept))
    return false;

  ContractionFusion fusion(op, pool);
  decisions = planFusion(fusion, operands, decisions, options.layout);
  if (llvm::all_of(decisions, isKept))
    return false;
  if (op->getContext()->getRemarkEngine())
    remarkPassed(op, passName, "fused",
                 describeForms(operands, decisions, pool, tracer));
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
    // Erasing what a contraction no longer reads can take another one along.
    struct : RewriterBase::Listener {
      llvm::SmallPtrSet<Operation *, 8> erased;
      void notifyOperationErased(Operation *op) override { erased.insert(op); }
    } listener;
    IRRewriter rewriter(&getContext(), &listener);
    FusionOptions options{fewRows, decision, consumerLayout};
    for (linalg::LinalgOp op : contractions) {
      if (listener.erased.contains(op))
        continue;
      llvm::SmallVector<Value> operands(op->getOperands());
      if (fuse(rewriter, op, options, getOperation()))
        eraseIfDead(rewriter, operands, getOperation());
    }
  }
};
} // namespace

void populateFuseDequantIntoMatmulPatterns(RewritePatternSet &patterns) {
  patterns.add<FusePattern>(patterns.getContext());
}

} // namespace mlir::qtranspose
