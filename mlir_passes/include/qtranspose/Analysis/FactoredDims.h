//===- FactoredDims.h - what varies along the dims of a tensor ---*- C++
//-*-===//

#ifndef QTRANSPOSE_ANALYSIS_FACTOREDDIMS_H
#define QTRANSPOSE_ANALYSIS_FACTOREDDIMS_H

#include "qtranspose/Analysis/IndexSpace.h"

#include "llvm/ADT/SmallBitVector.h"

namespace mlir::qtranspose {

/// Along which dims of a tensor something varies, and how finely.
class Variation {
public:
  explicit Variation(unsigned rank) : sizes(rank, none) {}

  /// Constant within groups of `size` consecutive positions of `dim`.
  void setGroups(unsigned dim, int64_t size) { sizes[dim] = size; }
  void setIrregular(unsigned dim) { sizes[dim] = irregular; }

  /// Dims and group sizes; nothing if some positions of a dim differ from their
  /// neighbours and not from others.
  std::optional<llvm::SmallVector<std::pair<unsigned, int64_t>>>
  getGroups() const;

  /// Whether this varies at least as finely as `other` along every dim.
  bool covers(const Variation &other) const;
  /// Varies where either does.
  void join(const Variation &other);

  bool operator==(const Variation &other) const { return sizes == other.sizes; }

private:
  static constexpr int64_t none = 0, irregular = -1;
  llvm::SmallVector<int64_t, 4> sizes;
};

/// The dims of a tensor, split into factors over which given coordinates are
/// linear.
class FactoredDims {
public:
  using Set = llvm::SmallBitVector; ///< of factors

  /// Extents may be dynamic. Nothing if some coordinate is null, or not linear
  /// over any split.
  static std::optional<FactoredDims>
  make(MLIRContext *context, llvm::ArrayRef<AffineExpr> coordinates,
       llvm::ArrayRef<int64_t> shape);

  unsigned size() const { return space.getFactors().size(); }
  const IndexSpace::Factor &operator[](unsigned factor) const {
    return space.getFactors()[factor];
  }

  // For the given coordinates only:

  /// Factors that `coordinate` depends on.
  Set getDependence(AffineExpr coordinate) const;
  Variation getVariation(const Set &set) const;
  /// Whether `coordinate` is in [low, high) everywhere.
  bool isWithin(AffineExpr coordinate, int64_t low, int64_t high) const;
  /// The value of `coordinate` where factors have the given values; nothing if
  /// it depends on factors outside `known`.
  std::optional<int64_t> evaluate(AffineExpr coordinate, const Set &known,
                                  llvm::ArrayRef<int64_t> values) const;

private:
  FactoredDims(IndexSpace &&space, unsigned rank)
      : space(std::move(space)), rank(rank) {}

  IndexSpace space;
  unsigned rank;
};

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_ANALYSIS_FACTOREDDIMS_H
