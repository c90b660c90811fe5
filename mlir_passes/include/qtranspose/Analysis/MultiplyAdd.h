//===- MultiplyAdd.h - bodies that multiply and add --------------*- C++
//-*-===//

#ifndef QTRANSPOSE_ANALYSIS_MULTIPLYADD_H
#define QTRANSPOSE_ANALYSIS_MULTIPLYADD_H

#include "qtranspose/Analysis/Elementwise.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace mlir::qtranspose {

/// A body `accumulator + x * y`: each factor is computed from inputs of its own
/// (and from what is defined outside), with conversions allowed anywhere but on
/// the accumulator.
struct MultiplyAdd {
  /// Numbers of the inputs that each factor is computed from, in order.
  llvm::SmallVector<unsigned> factors[2];
  /// The conversion of a named contraction (`linalg.matmul`, ...) with this
  /// body, if there is one: both factors are inputs, converted at most.
  std::optional<linalg::TypeFn> namedCast;

  /// The factor that input `number` belongs to.
  unsigned getFactorOf(unsigned number) const {
    return llvm::is_contained(factors[0], number) ? 0 : 1;
  }
};

/// Matches the body of `op`; every input must belong to a factor.
OrRefusal<MultiplyAdd> matchMultiplyAdd(linalg::LinalgOp op);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_ANALYSIS_MULTIPLYADD_H
