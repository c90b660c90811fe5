//===- ResultTail.h - what follows a contraction, permuted -------*- C++
//-*-===//
//
// A contraction whose result is computed with permuted dims is followed by a
// transpose that restores their order. Bias adds, activations and transposes
// that the result alone flows through are computed in the permuted order, so
// that the transpose comes after them, or cancels with one of them.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_TRANSFORMS_RESULTTAIL_H
#define QTRANSPOSE_TRANSFORMS_RESULTTAIL_H

#include "qtranspose/Utils/Reindex.h"
#include "qtranspose/Utils/Relayout.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

namespace mlir::qtranspose {

class ResultTail {
public:
  /// Follows `result`; `dim(permuted result, i) = dim(result, permutation[i])`.
  /// `isRow[i]` tells the dims that the weight does not have. Nothing is
  /// changed.
  ResultTail(ExprPool &pool, Value result, llvm::ArrayRef<int64_t> permutation,
             llvm::ArrayRef<bool> isRow);

  /// Number of elementwise ops that are computed in the permuted order.
  unsigned getNumMapped() const { return numMapped; }
  /// Whether a transpose is needed in the end.
  bool isTransposed() const { return !isIdentityPermutation(permutation); }
  /// Why the next op after the tail is not part of it, if that is an
  /// elementwise op.
  std::optional<Refusal> stopReason;

  /// Computes the tail from `permuted` and replaces it. The ops replaced are
  /// erased, but not the contraction; what they read is added to `read`.
  void apply(RewriterBase &rewriter, Location loc, Value permuted,
             DerivedConstants &constants, llvm::SmallVectorImpl<Value> &read);

private:
  struct Step {
    Operation *op;
    /// Nothing for a transpose, which only changes the permutation.
    std::optional<ReindexedOp> elementwise;
    unsigned source; ///< the input that the tail flows through
    /// Inputs, by number, that are constants of both kinds of dims.
    llvm::SmallVector<std::pair<unsigned, Relayout>, 0> constants;
  };
  bool follow();
  std::optional<Step> mapElementwise(Operation *user);

  ExprPool &pool;
  Operation *contraction;
  Value value; ///< up to where the tail is mapped
  llvm::SmallVector<int64_t> permutation;
  llvm::SmallVector<bool> isRow;
  std::vector<Step> steps;
  unsigned numMapped = 0;
};

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_TRANSFORMS_RESULTTAIL_H
