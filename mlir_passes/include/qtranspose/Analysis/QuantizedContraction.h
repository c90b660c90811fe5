//===- QuantizedContraction.h - sums of (A - za)(W - zw) ---------*- C++
//-*-===//
//
// Recognizes a contraction that adds up products of two stored integers less
// their zero points, wherever these are subtracted: by the op itself
// (`linalg.quantized_matmul`, a convolution with a `_q`), in the body of a
// generic, or by producers that tracing looks through. If the sum is a float
// one, the factors have scales as well.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_ANALYSIS_QUANTIZEDCONTRACTION_H
#define QTRANSPOSE_ANALYSIS_QUANTIZEDCONTRACTION_H

#include "qtranspose/Analysis/Elementwise.h"
#include "qtranspose/Analysis/VirtualTensor.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <array>

namespace mlir::qtranspose {

/// The integers from `low` to `high`.
struct IntegerRange {
  int64_t low, high;

  /// The largest absolute value.
  uint64_t getMagnitude() const;
  /// Whether all of them are integers of `width` bits.
  bool fits(unsigned width, bool isSigned) const;
};

/// The values an integer of this type can have; none if it has over 32 bits.
std::optional<IntegerRange> getTypeRange(Type type, bool isSigned);

/// `stored - zero point`, over the iteration dims of a contraction.
struct QuantizedFactor {
  /// What is stored, an integer, not yet extended.
  Expr stored;
  bool isSigned = true;
  /// What is subtracted. Signed integers that do not depend on a dim that is
  /// summed over.
  struct Term {
    Expr value;
    bool isAdded; ///< to the stored value, that is
  };
  llvm::SmallVector<Term, 1> zeroPoint;
  /// The values of `stored - zero point`. Without one it may wrap around.
  std::optional<IntegerRange> range;
};

/// `init + sum factors[0] * factors[1] * scales`.
struct QuantizedContraction {
  linalg::LinalgOp op;
  llvm::SmallVector<int64_t> extents; ///< of the iteration dims
  llvm::SmallVector<unsigned> summed; ///< iteration dims
  std::array<QuantizedFactor, 2> factors;
  /// Of a float sum; they do not depend on a dim that is summed over.
  llvm::SmallVector<Expr, 2> scales;
  /// The ops whose computation is part of the above.
  llvm::SmallVector<Operation *> tracedOps;

  Type getSumType() const {
    return getElementTypeOrSelf(op->getResult(0).getType());
  }
};

/// Recognizes `op`: nothing if it does not multiply and add quantized values,
/// a refusal if it does so in a way that cannot be written as above. Nothing
/// outside of `root` (if given) is read.
std::variant<std::monostate, QuantizedContraction, Refusal>
matchQuantizedContraction(linalg::LinalgOp op, ExprPool &pool,
                          Operation *root = nullptr);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_ANALYSIS_QUANTIZEDCONTRACTION_H
