//===- FreePermutation.h - values permuted where they are computed -*- C++
//-*-===//
//
// A value is permuted without moving an element if whatever computes it can
// write it in the other order: the output map of a structured op, a fill, an
// empty tensor, a splat, and casts and concatenations of such values.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_UTILS_FREEPERMUTATION_H
#define QTRANSPOSE_UTILS_FREEPERMUTATION_H

#include "qtranspose/Analysis/Elementwise.h"
#include "qtranspose/Utils/Reindex.h"

#include "mlir/IR/PatternMatch.h"

#include <functional>

namespace mlir::qtranspose {

/// Creates the permuted value and returns it. What it replaces is left dead,
/// but for `tensor.dim` ops, which are answered by the new value.
using PermutationRecipe = std::function<Value(RewriterBase &)>;

/// Plans the computation of `value` with `dim(new, i) = dim(value,
/// permutation[i])`; nothing is changed. Refused
/// (`layout-fixed-on-both-sides`) if that would move elements or compute any
/// twice, given that the uses in `served` are going to read the new value. New
/// ops carry the location `cause` too.
OrRefusal<PermutationRecipe> planFreePermutation(Value value,
                                                 ArrayRef<int64_t> permutation,
                                                 const Uses &served,
                                                 Location cause);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_FREEPERMUTATION_H
