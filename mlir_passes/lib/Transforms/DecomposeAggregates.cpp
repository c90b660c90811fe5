//===- DecomposeAggregates.cpp - linalg ops without a loop body -----------===//

#include "qtranspose/Passes.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_DECOMPOSEAGGREGATES
#include "qtranspose/Passes.h.inc"

namespace {
struct DecomposeAggregates
    : impl::DecomposeAggregatesBase<DecomposeAggregates> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      if (isa<linalg::AggregatedOpInterface, linalg::PackOp, linalg::UnPackOp>(
              op))
        ops.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (Operation *op : ops) {
      rewriter.setInsertionPoint(op);
      if (failed(decompose(rewriter, op))) {
        op->emitError("cannot be decomposed for the CPU target");
        return signalPassFailure();
      }
    }
  }

private:
  static LogicalResult decompose(RewriterBase &rewriter, Operation *op) {
    // Both erase the op they are given.
    if (auto pack = dyn_cast<linalg::PackOp>(op))
      return linalg::lowerPack(rewriter, pack);
    if (auto unpack = dyn_cast<linalg::UnPackOp>(op))
      return linalg::lowerUnPack(rewriter, unpack);
    FailureOr<SmallVector<Value>> results =
        cast<linalg::AggregatedOpInterface>(op).decomposeOperation(rewriter);
    if (failed(results))
      return failure();
    rewriter.replaceOp(op, *results);
    return success();
  }
};
} // namespace
} // namespace mlir::qtranspose
