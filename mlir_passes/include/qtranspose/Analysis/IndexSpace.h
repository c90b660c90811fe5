//===- IndexSpace.h - iteration dims split into factors ----------*- C++
//-*-===//
//
// Reshapes around a weight leave divisions in its coordinates: row `n`, column
// `k` of a packed weight is word `k floordiv 8`, nibble `k mod 8`, group
// `k floordiv 32`. An index space splits each iteration dim into factors
// (`k` = group x word x nibble, outermost first) until every coordinate is a
// linear form over the factors. Splitting keeps the iteration order, so a sum
// over the factors in order adds the same terms in the same order.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_ANALYSIS_INDEXSPACE_H
#define QTRANSPOSE_ANALYSIS_INDEXSPACE_H

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace mlir::qtranspose {

/// True if `expr` cannot be negative where no dim is.
bool isNonNegative(AffineExpr expr);

/// `constant + sum_f coefficients[f] * factor_f`.
struct LinearForm {
  llvm::SmallVector<int64_t> coefficients;
  int64_t constant = 0;

  /// The only factor that occurs, with coefficient 1 and no constant.
  std::optional<unsigned> asSingleFactor() const;
};

/// The coefficients of `expr`, which is linear over `numFactors` factors.
LinearForm readLinearForm(AffineExpr expr, unsigned numFactors);

class IndexSpace {
public:
  /// A part of an iteration dim: `dim = sum_f stride_f * f` over its factors.
  struct Factor {
    unsigned dim;
    int64_t extent; ///< ShapedType::kDynamic for an unsplit dynamic dim.
    int64_t stride;
  };

  /// Dims of the given extents (ShapedType::kDynamic if unknown), not split.
  /// Dims of extent 1 have no factor, except `keptDim`.
  IndexSpace(MLIRContext *context, llvm::ArrayRef<int64_t> extents,
             std::optional<unsigned> keptDim = std::nullopt);

  /// A dim whose extent is not a multiple of a group on it.
  struct Ragged {
    unsigned dim;
    int64_t group;
  };

  /// Splits dims until `expr`, an expression over the iteration dims, is a
  /// linear form; false if no split can do that. `ragged` is set if that is
  /// because a group does not divide a dim that is still whole.
  bool makeLinear(AffineExpr expr, std::optional<Ragged> *ragged = nullptr);

  /// The linear form of `expr`; only after makeLinear() succeeded for it and
  /// every other expression. Nothing if it is not linear in these factors.
  std::optional<LinearForm> getLinearForm(AffineExpr expr) const;

  /// Splits iteration dim `dim` so that a factor boundary lies at `stride`.
  bool splitAt(unsigned dim, int64_t stride);

  llvm::ArrayRef<Factor> getFactors() const { return factors; }

  /// Smallest and largest value of `form` (no largest if unbounded).
  std::pair<int64_t, std::optional<int64_t>>
  getRange(const LinearForm &form) const;

  /// `form` as an affine expression whose dims are the factors.
  AffineExpr toAffine(const LinearForm &form) const;

private:
  struct Split {
    unsigned factor;
    int64_t inner; ///< extent of the inner part
    bool divides;  ///< false: of every inner part but the last
  };
  /// Evaluates `expr`; on a division that needs a split, `split` says which.
  std::optional<LinearForm> evaluate(AffineExpr expr,
                                     std::optional<Split> &split) const;
  std::optional<LinearForm> divide(const LinearForm &form, int64_t divisor,
                                   bool remainder,
                                   std::optional<Split> &split) const;

  MLIRContext *context;
  llvm::SmallVector<Factor> factors;
};

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_ANALYSIS_INDEXSPACE_H
