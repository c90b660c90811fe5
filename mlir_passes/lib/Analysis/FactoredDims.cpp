//===- FactoredDims.cpp - what varies along the dims of a tensor ----------===//

#include "qtranspose/Analysis/FactoredDims.h"

#include "mlir/IR/BuiltinTypeInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

namespace mlir::qtranspose {

//===----------------------------------------------------------------------===//
// Variation
//===----------------------------------------------------------------------===//

std::optional<llvm::SmallVector<std::pair<unsigned, int64_t>>>
Variation::getGroups() const {
  llvm::SmallVector<std::pair<unsigned, int64_t>> groups;
  for (auto [dim, size] : llvm::enumerate(sizes)) {
    if (size == irregular)
      return std::nullopt;
    if (size != none)
      groups.push_back({dim, size});
  }
  return groups;
}

bool Variation::covers(const Variation &other) const {
  return llvm::all_of(llvm::zip_equal(sizes, other.sizes), [](auto pair) {
    auto [own, others] = pair;
    return others == none || own == 1 || own == others ||
           (own > 0 && others > 0 && own <= others);
  });
}

void Variation::join(const Variation &other) {
  for (auto [own, others] : llvm::zip_equal(sizes, other.sizes)) {
    if (own == none || others == 1)
      own = others;
    else if (others == none || own == 1 || own == others)
      continue;
    else if (own > 0 && others > 0 && own % others == 0)
      own = others;
    else if (own < 0 || others < 0 || others % own != 0)
      own = irregular;
  }
}

//===----------------------------------------------------------------------===//
// FactoredDims
//===----------------------------------------------------------------------===//

std::optional<FactoredDims>
FactoredDims::make(MLIRContext *context, llvm::ArrayRef<AffineExpr> coordinates,
                   llvm::ArrayRef<int64_t> shape) {
  if (llvm::is_contained(coordinates, AffineExpr()))
    return std::nullopt;
  // No coordinate is reduced by the bound of a dynamic dim: none divides by
  // that much.
  constexpr int64_t unbounded = int64_t(1) << 32;
  llvm::SmallVector<int64_t> extents(shape);
  for (int64_t &extent : extents)
    if (ShapedType::isDynamic(extent))
      extent = unbounded;
  llvm::SmallVector<int64_t> multiples(shape.size(), 1);
  for (;;) {
    IndexSpace space(context, extents);
    std::optional<IndexSpace::Ragged> ragged;
    auto makeLinear = [&](AffineExpr coordinate) {
      return space.makeLinear(coordinate, &ragged);
    };
    auto isLinear = [&](AffineExpr coordinate) {
      return space.getLinearForm(coordinate).has_value();
    };
    if (llvm::all_of(coordinates, makeLinear)) {
      if (!llvm::all_of(coordinates, isLinear))
        return std::nullopt;
      return FactoredDims(std::move(space), shape.size());
    }
    // Groups that do not divide a dim do divide a longer one.
    constexpr int64_t maxMultiple = int64_t(1) << 20;
    if (!ragged || ragged->group > maxMultiple)
      return std::nullopt;
    int64_t &multiple = multiples[ragged->dim];
    int64_t longer = std::lcm(multiple, ragged->group);
    if (longer == multiple || longer > maxMultiple)
      return std::nullopt;
    multiple = longer;
    extents[ragged->dim] =
        llvm::alignTo(extents[ragged->dim], uint64_t(multiple));
  }
}

FactoredDims::Set FactoredDims::getDependence(AffineExpr coordinate) const {
  Set set(size());
  LinearForm form = *space.getLinearForm(coordinate);
  for (auto [factor, coefficient] : llvm::enumerate(form.coefficients))
    if (coefficient != 0)
      set.set(factor);
  return set;
}

Variation FactoredDims::getVariation(const Set &set) const {
  Variation variation(rank);
  for (unsigned factor : set.set_bits()) {
    const IndexSpace::Factor &part = (*this)[factor];
    bool isOutermost = factor == 0 || (*this)[factor - 1].dim != part.dim;
    // Outer factors come first, so the last one decides.
    if (isOutermost || set.test(factor - 1))
      variation.setGroups(part.dim, part.stride);
  }
  for (unsigned factor : set.set_bits()) {
    bool isOutermost =
        factor == 0 || (*this)[factor - 1].dim != (*this)[factor].dim;
    if (!isOutermost && !set.test(factor - 1))
      variation.setIrregular((*this)[factor].dim);
  }
  return variation;
}

bool FactoredDims::isWithin(AffineExpr coordinate, int64_t low,
                            int64_t high) const {
  auto [smallest, largest] = space.getRange(*space.getLinearForm(coordinate));
  return smallest >= low && largest && *largest < high;
}

std::optional<int64_t>
FactoredDims::evaluate(AffineExpr coordinate, const Set &known,
                       llvm::ArrayRef<int64_t> values) const {
  LinearForm form = *space.getLinearForm(coordinate);
  int64_t value = form.constant;
  for (auto [factor, coefficient] : llvm::enumerate(form.coefficients)) {
    if (coefficient != 0 && !known.test(factor))
      return std::nullopt;
    value += coefficient * (coefficient != 0 ? values[factor] : 0);
  }
  return value;
}

} // namespace mlir::qtranspose
