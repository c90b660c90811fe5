//===- DecomposeAggregates.cpp - ops that no later lowering takes ---------===//

#include "qtranspose/Passes.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"

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
              op) ||
          expandsIntoSeveralDynamicSizes(op))
        ops.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](Operation *op) { dropIfEmpty(rewriter, op); });
    getOperation()->walk([&](Operation *op) {
      llvm::TypeSwitch<Operation *>(op)
          .Case<tensor::ExtractSliceOp, tensor::InsertSliceOp,
                tensor::ParallelInsertSliceOp>(
              [&](auto slice) { dropIdleStrides(rewriter, slice); });
    });
    for (Operation *op : ops) {
      // Upstream decomposes tensors only, and does not check.
      if (llvm::any_of(op->getOperandTypes(), llvm::IsaPred<BaseMemRefType>)) {
        op->emitError("must be decomposed before it is bufferized");
        return signalPassFailure();
      }
      rewriter.setInsertionPoint(op);
      if (failed(decompose(rewriter, op))) {
        op->emitError("cannot be decomposed for the CPU target");
        return signalPassFailure();
      }
    }
  }

private:
  static bool isEmpty(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.hasStaticShape() && type.getNumElements() == 0;
  }

  /// A slice at the start of a dim of size 0 is out of its bounds for upstream,
  /// which bufferizes concatenations and slices to such.
  static void dropIfEmpty(RewriterBase &rewriter, Operation *op) {
    rewriter.setInsertionPoint(op);
    if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
      if (isEmpty(insert.getSource()))
        rewriter.replaceOp(op, insert.getDest());
      return;
    }
    if (!isa<tensor::ConcatOp, tensor::ExtractSliceOp>(op))
      return;
    if (isEmpty(op->getResult(0))) {
      rewriter.replaceOpWithNewOp<tensor::EmptyOp>(
          op, op->getResult(0).getType(), ValueRange());
      return;
    }
    auto concat = dyn_cast<tensor::ConcatOp>(op);
    SmallVector<Value> inputs;
    if (concat)
      llvm::copy_if(concat.getInputs(), std::back_inserter(inputs),
                    [](Value input) { return !isEmpty(input); });
    if (concat && inputs.size() != concat.getInputs().size())
      rewriter.replaceOpWithNewOp<tensor::ConcatOp>(op, concat.getType(),
                                                    concat.getDim(), inputs);
  }

  /// Which unit dims a slice drops is read off strides later, where a step that
  /// no element takes makes `fold-memref-alias-ops` abort.
  template <typename SliceOp>
  static void dropIdleStrides(RewriterBase &rewriter, SliceOp slice) {
    SmallVector<OpFoldResult> strides = slice.getMixedStrides();
    bool changed = false;
    for (auto [size, stride] : llvm::zip(slice.getMixedSizes(), strides)) {
      if (!isConstantIntValue(size, 1) || isConstantIntValue(stride, 1))
        continue;
      stride = rewriter.getIndexAttr(1);
      changed = true;
    }
    if (!changed)
      return;
    SmallVector<Value> dynamicStrides;
    SmallVector<int64_t> staticStrides;
    dispatchIndexOpFoldResults(strides, dynamicStrides, staticStrides);
    rewriter.modifyOpInPlace(slice, [&] {
      slice.getStridesMutable().assign(dynamicStrides);
      slice.setStaticStrides(staticStrides);
    });
  }

  /// `expand-strided-metadata` aborts on a group of two dynamic sizes, although
  /// the op gives both.
  static bool expandsIntoSeveralDynamicSizes(Operation *op) {
    auto expand = dyn_cast<tensor::ExpandShapeOp>(op);
    return expand &&
           llvm::any_of(expand.getReassociationIndices(),
                        [&](const ReassociationIndices &group) {
                          return llvm::count_if(group, [&](int64_t dim) {
                                   return expand.getResultType().isDynamicDim(
                                       dim);
                                 }) > 1;
                        });
  }

  static LogicalResult decompose(RewriterBase &rewriter, Operation *op) {
    if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
      Location loc = op->getLoc();
      SmallVector<Value> sizes = getValueOrCreateConstantIndexOp(
          rewriter, loc, expand.getMixedOutputShape());
      Value shape = tensor::FromElementsOp::create(rewriter, loc, sizes);
      rewriter.replaceOpWithNewOp<tensor::ReshapeOp>(op, expand.getResultType(),
                                                     expand.getSrc(), shape);
      return success();
    }
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
