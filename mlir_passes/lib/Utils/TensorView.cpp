//===- TensorView.cpp - tensors seen over the factors of a space ----------===//

#include "qtranspose/Utils/TensorView.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace mlir::qtranspose {

/// Fills `dim` for one source dim of extent `size` read at `form`.
static bool planDim(TensorView::SourceDim &dim, int64_t size,
                    const LinearForm &form, const IndexSpace &space) {
  struct Term {
    int64_t coefficient;
    unsigned factor;
    int64_t extent;
  };
  llvm::SmallVector<Term> terms;
  for (auto [factor, coefficient] : llvm::enumerate(form.coefficients)) {
    if (coefficient < 0)
      return false;
    if (coefficient > 0)
      terms.push_back({coefficient, static_cast<unsigned>(factor),
                       space.getFactors()[factor].extent});
  }
  dim.offset = form.constant;
  dim.size = 1;
  if (form.constant < 0)
    return false;
  if (terms.empty())
    return ShapedType::isDynamic(size) || form.constant < size;
  // A dynamic dim of a known extent (another operand says it) is cut to that.
  bool anyDynamic = llvm::any_of(terms, [](const Term &term) {
    return ShapedType::isDynamic(term.extent);
  });
  if (terms.size() == 1 && (anyDynamic || terms.front().coefficient > 1)) {
    const Term &term = terms.front();
    if (anyDynamic &&
        (term.coefficient != 1 || form.constant != 0 || term.extent != size))
      return false;
    if (!anyDynamic && !ShapedType::isDynamic(size) && term.extent > 0 &&
        form.constant + (term.extent - 1) * term.coefficient >= size)
      return false;
    dim.size = term.extent;
    dim.stride = term.extent == 1 ? 1 : term.coefficient;
    dim.parts.push_back({term.extent, term.factor});
    return true;
  }
  if (anyDynamic)
    return false;

  // Innermost first: each factor starts where the ones inside it end; a gap is
  // a dim of its own, read at one index.
  llvm::stable_sort(terms, [](const Term &a, const Term &b) {
    return a.coefficient < b.coefficient;
  });
  int64_t covered = 1;
  for (const Term &term : terms) {
    if (covered == 0 || term.coefficient < covered ||
        term.coefficient % covered != 0)
      return false;
    if (int64_t gap = term.coefficient / covered; gap > 1) {
      int64_t index = (dim.offset / covered) % gap;
      dim.offset -= index * covered;
      dim.parts.push_back({gap, std::nullopt, index});
    }
    dim.parts.push_back({term.extent, term.factor});
    covered = term.coefficient * term.extent;
  }
  std::reverse(dim.parts.begin(), dim.parts.end());
  dim.size = covered;
  return ShapedType::isDynamic(size) || dim.offset + dim.size <= size;
}

std::optional<TensorView> planView(ShapedType type,
                                   llvm::ArrayRef<LinearForm> coordinates,
                                   const IndexSpace &space,
                                   MLIRContext *context, bool allowDirect) {
  TensorView view;
  llvm::SmallVector<AffineExpr> results;
  for (auto [size, form] : llvm::zip_equal(type.getShape(), coordinates)) {
    TensorView::SourceDim &dim = view.dims.emplace_back();
    if (view.isDirect || !planDim(dim, size, form, space)) {
      // A map may not leave the tensor, not even where what it reads there is
      // not used.
      auto [low, high] = space.getRange(form);
      bool isEmpty =
          size == 0 && high == 0 &&
          llvm::any_of(form.coefficients, [](int64_t c) { return c != 0; });
      bool isInside = low >= 0 && (ShapedType::isDynamic(size) || !high ||
                                   *high < size || isEmpty);
      if (!allowDirect || !isInside)
        return std::nullopt;
      view.isDirect = true;
      continue;
    }
    view.needsSlice |= dim.offset != 0 || dim.stride != 1 || dim.size != size;
    for (const TensorView::Part &part : dim.parts)
      if (part.factor)
        results.push_back(getAffineDimExpr(*part.factor, context));
  }
  if (view.isDirect) {
    results.clear();
    for (const LinearForm &form : coordinates)
      results.push_back(space.toAffine(form));
  }
  view.map = AffineMap::get(space.getFactors().size(), 0, results, context);
  return view;
}

bool TensorView::isIdentity() const {
  return isDirect || (!needsSlice && llvm::all_of(dims, [](const auto &dim) {
           return dim.parts.size() == 1;
         }));
}

static RankedTensorType shaped(Value like, llvm::ArrayRef<int64_t> shape) {
  return RankedTensorType::get(
      shape, cast<RankedTensorType>(like.getType()).getElementType());
}

/// Groups the dims of a shape so that every kept dim has a group, the others
/// joining the group before them (the first ones: after them).
static llvm::SmallVector<ReassociationIndices>
groupKept(llvm::ArrayRef<bool> kept) {
  llvm::SmallVector<ReassociationIndices> groups;
  ReassociationIndices leading;
  for (auto [dim, keep] : llvm::enumerate(kept)) {
    if (keep) {
      groups.emplace_back();
      std::swap(groups.back(), leading);
    }
    (groups.empty() ? leading : groups.back()).push_back(dim);
  }
  return groups;
}

Value buildView(OpBuilder &builder, Location loc, Value source,
                const TensorView &view) {
  if (view.isIdentity())
    return source;

  llvm::SmallVector<bool> kept;
  llvm::SmallVector<int64_t> keptShape, expandedShape;
  llvm::SmallVector<ReassociationIndices> expansion;
  bool dropsDims = false, expands = false, hasGaps = false;
  for (const TensorView::SourceDim &dim : view.dims) {
    kept.push_back(!dim.parts.empty());
    dropsDims |= dim.parts.empty();
    if (dim.parts.empty())
      continue;
    keptShape.push_back(dim.size);
    ReassociationIndices &group = expansion.emplace_back();
    for (const TensorView::Part &part : dim.parts) {
      group.push_back(expandedShape.size());
      expandedShape.push_back(part.extent);
      hasGaps |= !part.factor;
    }
    expands |= dim.parts.size() > 1;
  }

  if (view.needsSlice) {
    llvm::SmallVector<OpFoldResult> offsets, sizes, strides;
    for (auto [index, dim] : llvm::enumerate(view.dims)) {
      offsets.push_back(builder.getIndexAttr(dim.offset));
      strides.push_back(builder.getIndexAttr(dim.stride));
      sizes.push_back(ShapedType::isDynamic(dim.size)
                          ? tensor::getMixedSize(builder, loc, source, index)
                          : builder.getIndexAttr(dim.size));
    }
    source =
        tensor::ExtractSliceOp::create(builder, loc, shaped(source, keptShape),
                                       source, offsets, sizes, strides);
  } else if (dropsDims) {
    source = tensor::CollapseShapeOp::create(
        builder, loc, shaped(source, keptShape), source,
        expansion.empty() ? llvm::SmallVector<ReassociationIndices>()
                          : groupKept(kept));
  }
  if (expands) {
    llvm::SmallVector<OpFoldResult> outputShape;
    for (auto [index, group] : llvm::enumerate(expansion))
      for (int64_t position : group) {
        int64_t size = expandedShape[position];
        outputShape.push_back(
            ShapedType::isDynamic(size)
                ? tensor::getMixedSize(builder, loc, source, index)
                : OpFoldResult(builder.getIndexAttr(size)));
      }
    source = tensor::ExpandShapeOp::create(builder, loc,
                                           shaped(source, expandedShape),
                                           source, expansion, outputShape);
  }
  if (hasGaps) {
    llvm::SmallVector<OpFoldResult> offsets, sizes,
        strides(expandedShape.size(), builder.getIndexAttr(1));
    llvm::SmallVector<int64_t> shape;
    for (const TensorView::SourceDim &dim : view.dims)
      for (const TensorView::Part &part : dim.parts) {
        offsets.push_back(builder.getIndexAttr(part.index));
        int64_t size = part.factor ? part.extent : 1;
        sizes.push_back(
            ShapedType::isDynamic(size)
                ? tensor::getMixedSize(builder, loc, source, sizes.size())
                : OpFoldResult(builder.getIndexAttr(size)));
        if (part.factor)
          shape.push_back(size);
      }
    source = tensor::ExtractSliceOp::create(builder, loc, shaped(source, shape),
                                            source, offsets, sizes, strides);
  }
  return source;
}

Value buildInverseView(OpBuilder &builder, Location loc, Value result,
                       const TensorView &view, Value like) {
  if (view.isIdentity())
    return result;
  llvm::SmallVector<bool> kept;
  llvm::SmallVector<int64_t> keptShape, fullShape;
  llvm::SmallVector<ReassociationIndices> expansion;
  unsigned position = 0;
  bool expanded = false, dropped = false;
  for (const TensorView::SourceDim &dim : view.dims) {
    kept.push_back(!dim.parts.empty());
    fullShape.push_back(dim.size);
    dropped |= dim.parts.empty();
    if (dim.parts.empty())
      continue;
    keptShape.push_back(dim.size);
    expanded |= dim.parts.size() > 1;
    ReassociationIndices &group = expansion.emplace_back();
    for (unsigned part = 0; part < dim.parts.size(); ++part)
      group.push_back(position++);
  }
  if (expanded)
    result = tensor::CollapseShapeOp::create(
        builder, loc, shaped(result, keptShape), result, expansion);
  if (dropped) {
    llvm::SmallVector<OpFoldResult> outputShape;
    for (auto [index, size] : llvm::enumerate(fullShape))
      outputShape.push_back(
          ShapedType::isDynamic(size)
              ? tensor::getMixedSize(builder, loc, like, index)
              : OpFoldResult(builder.getIndexAttr(size)));
    result = tensor::ExpandShapeOp::create(
        builder, loc, shaped(result, fullShape), result,
        keptShape.empty() ? llvm::SmallVector<ReassociationIndices>()
                          : groupKept(kept),
        outputShape);
  }
  return result;
}

} // namespace mlir::qtranspose
