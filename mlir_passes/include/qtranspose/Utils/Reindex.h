//===- Reindex.h - permuting a value by re-indexing its producers -*- C++
//-*-===//
//
// A value that elementwise ops compute is permuted by letting these ops iterate
// in another order. `planPermuted` decides which, without touching IR; then
// `applyPlan` creates the new ops. New ops take the place of the ops they
// replace, which settles dominance and keeps work outside of loops.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_UTILS_REINDEX_H
#define QTRANSPOSE_UTILS_REINDEX_H

#include "qtranspose/Analysis/Elementwise.h"
#include "qtranspose/Transforms/FoldTransposeIntoDequant.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::qtranspose {

using Uses = llvm::SmallPtrSet<OpOperand *, 4>;

/// How a re-indexed op reads one of its inputs.
struct Read {
  Value value;
  /// From the new loops.
  AffineMap map;
};

/// An elementwise op, re-indexed so that its loops are the dimensions of its
/// permuted result, in order.
struct ReindexedOp {
  Elementwise source;
  SmallVector<int64_t> permutation;
  SmallVector<Read> reads;
};

/// Ops to re-index, producers first; the last one computes the root.
struct FoldPlan {
  std::vector<ReindexedOp> ops;
  RankedTensorType type;
  SmallVector<NamedAttribute> rootAttrs;
  /// Ops that stay for the sake of other uses.
  llvm::SmallPtrSet<Operation *, 4> cloned;
};

/// Re-indexes one op such that `dim(new result, i) = dim(result,
/// permutation[i])`. Inputs are read past transposes.
ReindexedOp reindex(const Elementwise &source, ArrayRef<int64_t> permutation);

/// Plans the computation of the dequantized value `root`, permuted and with the
/// given type, for the uses in `served`, which are those of `root` or of
/// transposes of it.
OrRefusal<FoldPlan> planPermuted(Value root, ArrayRef<int64_t> permutation,
                                 RankedTensorType type, const Uses &served,
                                 MultiUse multiUse);

/// Whether a value that is used elsewhere too should be computed once more
/// rather than read.
bool favoursClone(MultiUse multiUse, Value value);

/// `map` with its results in the order `permutation`.
AffineMap permuteResults(AffineMap map, ArrayRef<int64_t> permutation);

/// Creates the re-indexed op before the op it replaces. An empty `type` stands
/// for the permuted type; operands in `replaced` are exchanged.
Value createReindexed(RewriterBase &rewriter, const ReindexedOp &op,
                      RankedTensorType type, Location cause,
                      const llvm::DenseMap<Value, Value> &replaced);

/// Makes `op` read operand `number` as `value` through `map`. A named op that
/// fixes the layout of its operands becomes generic. Returns the op that reads.
linalg::LinalgOp setOperand(RewriterBase &rewriter, linalg::LinalgOp op,
                            unsigned number, Value value, AffineMap map,
                            Location cause);

/// Returns the permuted root. The replaced ops are left to the caller.
Value applyPlan(RewriterBase &rewriter, const FoldPlan &plan, Location cause);

/// Takes the sizes of what a plan replaces from what it is made from, so that
/// it can go.
void replaceDims(RewriterBase &rewriter, const FoldPlan &plan);

/// Erases what of `ops` nothing uses, and then what only that used.
void eraseIfDead(RewriterBase &rewriter, ArrayRef<Operation *> ops);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_REINDEX_H
