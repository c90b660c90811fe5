//===- StaticLhsToRhs.cpp - weights move to the right ---------------------===//

#include "qtranspose/Transforms/StaticLhsToRhs.h"
#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/StaticLhsPlan.h"
#include "qtranspose/Utils/EmitExpr.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_STATICLHSTORHS
#include "qtranspose/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral passName = "qtranspose-static-lhs-to-rhs";

/// Plans the rewrite of `plan`'s contraction and reports what comes of it.
bool planAndReport(StaticLhsPlan &plan, linalg::LinalgOp op) {
  std::optional<Refusal> refusal;
  if (!plan.matchWeight(refusal))
    return false;
  if (!refusal)
    refusal = plan.plan();
  if (refusal) {
    remarkRefused(op, passName, *refusal);
    return false;
  }
  remarkPassed(op, passName, "static-lhs-to-rhs", plan.describe());
  if (plan.getTailStop())
    remarkRefused(op, passName, *plan.getTailStop());
  return true;
}

struct StaticLhsPattern : OpInterfaceRewritePattern<linalg::LinalgOp> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(linalg::LinalgOp op,
                                PatternRewriter &rewriter) const override {
    StaticLhsPlan plan(op, StaticLhsOptions(),
                       op->getParentOfType<FunctionOpInterface>());
    if (!planAndReport(plan, op))
      return failure();
    DerivedConstants constants;
    MovedWeights moved;
    llvm::SmallVector<Value> read;
    plan.apply(rewriter, constants, moved, read);
    return success();
  }
};

/// Private globals of `root` that something uses.
llvm::SmallVector<ml_program::GlobalOp> getUsedGlobals(Operation *root) {
  llvm::SmallVector<ml_program::GlobalOp> globals;
  root->walk([&](ml_program::GlobalOp global) {
    Operation *table = global->getParentOp();
    if (global != root && global.isPrivate() &&
        !SymbolTable::symbolKnownUseEmpty(global, table))
      globals.push_back(global);
  });
  return globals;
}

struct StaticLhsToRhs : impl::StaticLhsToRhsBase<StaticLhsToRhs> {
  using StaticLhsToRhsBase::StaticLhsToRhsBase;

  void runOnOperation() override {
    llvm::SmallVector<linalg::LinalgOp> contractions;
    getOperation()->walk([&](linalg::LinalgOp op) {
      if (op.getNumReductionLoops() != 0)
        contractions.push_back(op);
    });
    llvm::SmallVector<ml_program::GlobalOp> globals =
        getUsedGlobals(getOperation());
    StaticLhsOptions options{batch, pairedBatches, failAt};
    IRRewriter rewriter(&getContext());
    DerivedConstants constants;
    MovedWeights moved;
    llvm::SmallVector<Value> read;
    // Contractions in program order: the transposes after one are looked
    // through by the next. What dies stays until the end, since it is known by
    // its address.
    for (linalg::LinalgOp op : contractions) {
      StaticLhsPlan plan(op, options, getOperation());
      if (planAndReport(plan, op))
        plan.apply(rewriter, constants, moved, read);
    }
    eraseIfDead(rewriter, read, getOperation());
    // A global whose transpose took its place would only take up space.
    for (ml_program::GlobalOp global : globals)
      if (SymbolTable::symbolKnownUseEmpty(global, global->getParentOp()))
        rewriter.eraseOp(global);
  }
};
} // namespace

void populateStaticLhsToRhsPatterns(RewritePatternSet &patterns) {
  patterns.add<StaticLhsPattern>(patterns.getContext());
}

} // namespace mlir::qtranspose
