//===- Relayout.cpp - a traced value in another dim order -----------------===//

#include "qtranspose/Utils/Relayout.h"

#include "qtranspose/Analysis/PieceUnification.h"
#include "qtranspose/Utils/EmitExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

namespace mlir::qtranspose {

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

std::optional<int64_t> getGroupExtent(llvm::ArrayRef<int64_t> extents,
                                      llvm::ArrayRef<unsigned> group) {
  int64_t product = 1;
  bool isDynamic = false, isEmpty = false;
  for (unsigned dim : group) {
    if (ShapedType::isDynamic(extents[dim])) {
      isDynamic = true;
      continue;
    }
    isEmpty |= extents[dim] == 0;
    if (extents[dim] != 0 && llvm::MulOverflow(product, extents[dim], product))
      return std::nullopt;
  }
  // Also where the whole is dynamic: it is a multiple of the static part.
  if (isDynamic)
    return ShapedType::kDynamic;
  return isEmpty ? 0 : product;
}

Value transpose(OpBuilder &builder, Location loc, Value value,
                llvm::ArrayRef<int64_t> permutation) {
  if (isIdentityPermutation(permutation))
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  llvm::SmallVector<OpFoldResult> sizes =
      applyPermutation(tensor::getMixedSizes(builder, loc, value), permutation);
  Value empty =
      tensor::EmptyOp::create(builder, loc, sizes, type.getElementType());
  return linalg::TransposeOp::create(builder, loc, value, empty, permutation)
      ->getResult(0);
}

Value mergeDims(OpBuilder &builder, Location loc, Value value,
                llvm::ArrayRef<unsigned> counts) {
  if (llvm::all_of(counts, [](unsigned count) { return count == 1; }))
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  llvm::SmallVector<ReassociationIndices> merged;
  llvm::SmallVector<int64_t> shape;
  int64_t next = 0;
  for (unsigned count : counts) {
    if (count == 0)
      continue;
    merged.emplace_back(llvm::to_vector<2>(llvm::seq(next, next + count)));
    next += count;
    int64_t size = 1;
    for (int64_t dim : merged.back())
      size = ShapedType::isDynamic(size) || type.isDynamicDim(dim)
                 ? ShapedType::kDynamic
                 : size * type.getDimSize(dim);
    shape.push_back(size);
  }
  if (static_cast<int64_t>(merged.size()) != type.getRank()) {
    RankedTensorType mergedType = type.clone(shape);
    auto expand = value.getDefiningOp<tensor::ExpandShapeOp>();
    if (expand && expand.getSrcType() == mergedType &&
        llvm::equal(expand.getReassociationIndices(), merged))
      value = expand.getSrc();
    else
      value = tensor::CollapseShapeOp::create(builder, loc, mergedType, value,
                                              merged);
  }
  if (!llvm::is_contained(counts, 0u))
    return value;

  // Unit dims join the dim after them; those at the end the last one.
  llvm::SmallVector<OpFoldResult> outputShape;
  llvm::SmallVector<int64_t> fullShape;
  llvm::SmallVector<ReassociationIndices> expansion;
  ReassociationIndices pending;
  unsigned source = 0;
  for (auto [dim, count] : llvm::enumerate(counts)) {
    pending.push_back(dim);
    if (count == 0) {
      fullShape.push_back(1);
      outputShape.push_back(builder.getIndexAttr(1));
      continue;
    }
    fullShape.push_back(shape[source]);
    outputShape.push_back(tensor::getMixedSize(builder, loc, value, source));
    ++source;
    expansion.push_back(std::exchange(pending, {}));
  }
  if (!expansion.empty())
    llvm::append_range(expansion.back(), pending);
  return tensor::ExpandShapeOp::create(builder, loc, type.clone(fullShape),
                                       value, expansion, outputShape);
}

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

llvm::SmallVector<unsigned> Relayout::getLocalFactors() const {
  llvm::SmallVector<unsigned> factors;
  for (const auto &group : groups)
    llvm::append_range(factors, group);
  return factors;
}

bool Relayout::coversGroups(const Forms &forms) const {
  return llvm::all_of(getLocalFactors(), [&](unsigned factor) {
    return llvm::any_of(forms, [&](const LinearForm &form) {
      return form.coefficients[factor] != 0;
    });
  });
}

/// `dims`: the factors of each dim of the result, all of which `forms` read.
std::optional<DerivedSpec>
Relayout::planDerived(Expr leaf, const Forms &forms,
                      llvm::ArrayRef<llvm::SmallVector<unsigned>> dims) const {
  std::optional<ConstantData> data =
      leaf->value ? getConstantData(leaf->value) : std::nullopt;
  if (!data)
    return std::nullopt;
  auto sourceType = cast<RankedTensorType>(leaf->getTensorType());
  llvm::SmallVector<int64_t> strides = computeStrides(sourceType.getShape());
  DerivedSpec spec;
  spec.source = *data;
  for (auto [form, size, stride] :
       llvm::zip_equal(forms, sourceType.getShape(), strides)) {
    auto [low, high] = space.getRange(form);
    bool isInside = low >= 0 && high && (*high < size || size == 0);
    if (!isInside)
      return std::nullopt;
    spec.gather.offset += form.constant * stride;
  }
  MLIRContext *context = pool->getContext();
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<AffineExpr> coordinates;
  for (const LinearForm &form : forms)
    coordinates.push_back(getAffineConstantExpr(form.constant, context));
  for (auto [dim, factors] : llvm::enumerate(dims)) {
    // Extents of what lies inside each factor.
    int64_t size = 1;
    llvm::SmallVector<int64_t> inner(factors.size());
    for (unsigned i = factors.size(); i-- > 0;) {
      inner[i] = size;
      size *= space.getFactors()[factors[i]].extent;
    }
    shape.push_back(size);
    for (unsigned factor : factors) {
      spec.gather.extents.push_back(space.getFactors()[factor].extent);
      int64_t &sum = spec.gather.strides.emplace_back(0);
      for (auto [form, stride] : llvm::zip_equal(forms, strides))
        sum += form.coefficients[factor] * stride;
    }
    AffineExpr position = getAffineDimExpr(dim, context);
    for (auto [form, coordinate] : llvm::zip_equal(forms, coordinates)) {
      if (factors.empty())
        continue;
      int64_t unit = form.coefficients[factors.back()];
      bool isWhole = true;
      for (auto [factor, stride] : llvm::zip_equal(factors, inner))
        isWhole &= form.coefficients[factor] == unit * stride;
      if (isWhole) {
        coordinate = coordinate + position * unit;
        continue;
      }
      for (auto [i, factor] : llvm::enumerate(factors)) {
        AffineExpr part = position.floorDiv(inner[i]);
        if (i != 0)
          part = part % space.getFactors()[factor].extent;
        coordinate = coordinate + part * form.coefficients[factor];
      }
    }
  }
  spec.type = RankedTensorType::get(shape, sourceType.getElementType());
  spec.map = AffineMap::get(dims.size(), 0, coordinates, context);
  return spec;
}

/// Whether a gather reads the source out of order.
static bool isReordered(const StridedGather &gather) {
  int64_t last = std::numeric_limits<int64_t>::max();
  for (auto [extent, stride] : llvm::zip_equal(gather.extents, gather.strides))
    if (extent > 1) {
      if (stride > last)
        return true;
      last = stride;
    }
  return false;
}

std::optional<Refusal> Relayout::planInput(Expr leaf, const Forms &forms) {
  MLIRContext *context = pool->getContext();
  Input input{leaf, {}, std::nullopt};
  // One dim per group that the leaf reads anything of.
  llvm::SmallVector<llvm::SmallVector<unsigned>> dims;
  for (const auto &group : groups) {
    llvm::SmallVector<unsigned> read;
    for (unsigned factor : group)
      if (llvm::any_of(forms, [&](const LinearForm &form) {
            return form.coefficients[factor] != 0;
          }))
        read.push_back(factor);
    if (!read.empty())
      dims.push_back(read);
  }
  std::optional<TensorView> view;
  std::optional<DerivedSpec> derived = planDerived(leaf, forms, dims);
  if (derived && isReordered(derived->gather)) {
    Forms derivedForms;
    for (const auto &factors : dims) {
      LinearForm &form = derivedForms.emplace_back();
      form.coefficients.resize(space.getFactors().size());
      int64_t size = 1;
      for (unsigned factor : llvm::reverse(factors)) {
        form.coefficients[factor] = size;
        size *= space.getFactors()[factor].extent;
      }
    }
    view = planView(derived->type, derivedForms, space, context,
                    /*allowDirect=*/false);
    if (view)
      input.derived = std::move(derived);
  }
  if (!view)
    view = planView(leaf->getTensorType(), forms, space, context,
                    /*allowDirect=*/true);
  if (!view)
    return refuse(Reason::NotFactorable,
                  "a leaf cannot be seen over the factored dims");
  input.view = *view;
  inputs.push_back(std::move(input));
  return std::nullopt;
}

/// `root` with coordinates over the factors, and one expression for pieces that
/// differ in a shift or a constant. Null if a coordinate is not linear.
Expr Relayout::overFactors(Expr root) {
  llvm::DenseMap<Expr, Expr> mapped;
  bool isLinear = true;
  auto toFactors = [&](AffineExpr coordinate) {
    std::optional<LinearForm> form = space.getLinearForm(coordinate);
    isLinear &= form.has_value();
    return form ? space.toAffine(*form) : coordinate;
  };
  walkExpr(root, [&](Expr node) {
    auto operands = llvm::map_to_vector(
        node->operands, [&](Expr operand) { return mapped.lookup(operand); });
    if (!node->is(ScalarExpr::Kind::Pieces)) {
      Expr rebuilt = pool->withOperands(node, operands);
      mapped[node] = node->coordinates.empty()
                         ? rebuilt
                         : pool->mapCoordinates(rebuilt, toFactors);
      return;
    }
    AffineExpr selected =
        toFactors(node->coordinates[0].floorDiv(getPieceSize(node)));
    Expr unified = isLinear ? unifyPieces(*pool, selected, operands) : nullptr;
    auto breaks = llvm::to_vector(llvm::seq<int64_t>(0, operands.size() + 1));
    mapped[node] = unified ? unified : pool->pieces(selected, breaks, operands);
  });
  return isLinear ? mapped.lookup(root) : nullptr;
}

OrRefusal<Relayout> Relayout::plan(ExprPool &pool, Expr expr,
                                   llvm::ArrayRef<int64_t> extents,
                                   llvm::ArrayRef<DimGroup> dimGroups) {
  MLIRContext *context = pool.getContext();
  IndexSpace space(context, extents);
  bool isLinear = true, isEncoded = false;
  walkExpr(expr, [&](Expr node) {
    if (node->is(ScalarExpr::Kind::Leaf))
      if (auto type = dyn_cast<RankedTensorType>(node->getTensorType()))
        isEncoded |= static_cast<bool>(type.getEncoding());
    for (AffineExpr coordinate : node->coordinates) {
      isLinear = isLinear && coordinate && space.makeLinear(coordinate);
      if (!isLinear || !node->is(ScalarExpr::Kind::Pieces))
        continue;
      int64_t size = getPieceSize(node);
      isLinear = size > 0 && space.makeLinear(coordinate.floorDiv(size));
    }
  });
  auto notFactorable = [](const llvm::Twine &detail) {
    return refuse(Reason::NotFactorable, detail);
  };
  if (isEncoded)
    return refuse(Reason::TensorEncoding, "a tensor that would be moved");
  if (!isLinear)
    return notFactorable("no split of the iteration dims makes every "
                         "coordinate linear");

  Relayout layout(pool, expr, space);
  llvm::SmallVector<int64_t> shape;
  for (const DimGroup &group : dimGroups) {
    std::optional<int64_t> extent = getGroupExtent(extents, group);
    if (!extent)
      return refuse(Reason::ShapeOverflow,
                    "the product of the sizes that become one dim exceeds 64 "
                    "bits");
    shape.push_back(*extent);
    auto &factors = layout.groups.emplace_back();
    for (unsigned dim : group)
      for (auto [number, factor] : llvm::enumerate(space.getFactors()))
        if (factor.dim == dim)
          factors.push_back(number);
  }
  layout.type = RankedTensorType::get(shape, expr->type);

  layout.expr = layout.overFactors(expr);
  if (!layout.expr)
    return notFactorable("no split of the iteration dims makes every "
                         "coordinate linear");
  llvm::SmallVector<unsigned> local = layout.getLocalFactors();
  llvm::MapVector<Expr, Forms> leaves;
  bool isReadable = true;
  walkExpr(layout.expr, [&](Expr node) {
    Forms forms;
    for (AffineExpr coordinate : node->coordinates) {
      LinearForm &form = forms.emplace_back(
          readLinearForm(coordinate, space.getFactors().size()));
      for (auto [factor, coefficient] : llvm::enumerate(form.coefficients))
        isReadable &= coefficient == 0 || llvm::is_contained(local, factor);
    }
    if (node->is(ScalarExpr::Kind::Leaf))
      leaves[node] = forms;
  });
  if (!isReadable)
    return notFactorable("a coordinate is one of a dim that is dropped");
  for (auto &[leaf, forms] : leaves)
    for (auto [dim, form] : llvm::enumerate(forms))
      if (std::optional<unsigned> factor = form.asSingleFactor();
          factor && leaf->value)
        layout.sizes.try_emplace(*factor, leaf->value, dim);
  for (unsigned factor : local)
    if (ShapedType::isDynamic(space.getFactors()[factor].extent) &&
        !layout.sizes.contains(factor))
      return notFactorable("no tensor that is read has the size of a dynamic "
                           "dim");

  if (layout.expr->is(ScalarExpr::Kind::Constant) ||
      layout.expr->is(ScalarExpr::Kind::Scalar)) {
    layout.kind = Kind::Splat;
    return layout;
  }
  if (layout.expr->is(ScalarExpr::Kind::Leaf) && layout.expr->value &&
      layout.coversGroups(leaves.front().second)) {
    auto &[leaf, forms] = leaves.front();
    std::optional<DerivedSpec> derived =
        layout.planDerived(leaf, forms, layout.groups);
    std::optional<TensorView> view =
        planView(leaf->getTensorType(), forms, space, context,
                 /*allowDirect=*/false);
    // A constant that is as wanted already stays.
    if (derived && view && derived->type == leaf->getTensorType() &&
        !isReordered(derived->gather))
      derived.reset();
    if (derived || view) {
      layout.kind = derived ? Kind::Derive : Kind::Move;
      layout.inputs.push_back({leaf, view.value_or(TensorView()), derived});
      return layout;
    }
  }
  layout.kind = Kind::Compute;
  for (auto &[leaf, forms] : leaves)
    if (std::optional<Refusal> refusal = layout.planInput(leaf, forms))
      return *refusal;
  return layout;
}

llvm::SmallVector<int64_t> Relayout::getPermutation() const {
  llvm::SmallVector<unsigned> present;
  for (AffineExpr result : inputs.front().view.map.getResults())
    present.push_back(cast<AffineDimExpr>(result).getPosition());
  llvm::SmallVector<int64_t> permutation;
  for (unsigned factor : getLocalFactors())
    permutation.push_back(llvm::find(present, factor) - present.begin());
  return permutation;
}

bool Relayout::isTransposed() const {
  return kind == Kind::Move && !isIdentityPermutation(getPermutation());
}

//===----------------------------------------------------------------------===//
// Applying
//===----------------------------------------------------------------------===//

OpFoldResult Relayout::getFactorSize(OpBuilder &builder, Location loc,
                                     unsigned factor) const {
  int64_t extent = space.getFactors()[factor].extent;
  if (!ShapedType::isDynamic(extent))
    return builder.getIndexAttr(extent);
  auto [value, dim] = sizes.lookup(factor);
  return tensor::getMixedSize(builder, loc, value, dim);
}

Value Relayout::regroup(OpBuilder &builder, Location loc, Value value) const {
  llvm::SmallVector<unsigned> counts;
  for (const auto &group : groups)
    counts.push_back(group.size());
  return mergeDims(builder, loc, value, counts);
}

Value Relayout::buildInput(RewriterBase &rewriter, Location loc,
                           Operation *user, const Input &input,
                           DerivedConstants &constants) const {
  Value source;
  if (input.derived)
    source = constants.get(rewriter, user, loc, *input.derived);
  else if (input.leaf->value)
    source = localize(rewriter, input.leaf->value);
  else
    source = arith::ConstantOp::create(rewriter, loc,
                                       cast<TypedAttr>(input.leaf->attribute));
  return buildView(rewriter, loc, source, input.view);
}

Value Relayout::applyMove(RewriterBase &rewriter, Location loc,
                          Value source) const {
  const Input &input = inputs.front();
  if (!source)
    source = localize(rewriter, input.leaf->value);
  Value view = buildView(rewriter, loc, source, input.view);
  return regroup(rewriter, loc,
                 transpose(rewriter, loc, view, getPermutation()));
}

void Relayout::describe(Value source, llvm::ArrayRef<NamedAttribute> entries) {
  for (Input &input : inputs)
    if (input.derived && input.leaf->value == source)
      llvm::append_range(input.derived->description, entries);
}

Value Relayout::applyCompute(RewriterBase &rewriter, Location loc,
                             Operation *user,
                             DerivedConstants &constants) const {
  MLIRContext *context = rewriter.getContext();
  llvm::SmallVector<unsigned> factors = getLocalFactors();
  unsigned rank = factors.size();
  llvm::SmallVector<AffineExpr> toLocal(space.getFactors().size(),
                                        getAffineConstantExpr(0, context));
  llvm::SmallVector<OpFoldResult> shape;
  for (auto [local, factor] : llvm::enumerate(factors)) {
    toLocal[factor] = getAffineDimExpr(local, context);
    shape.push_back(getFactorSize(rewriter, loc, factor));
  }
  auto overLocal = [&](AffineExpr coordinate) {
    return coordinate.replaceDims(toLocal);
  };

  llvm::SmallVector<Value> values;
  llvm::SmallVector<AffineMap> maps;
  for (const Input &input : inputs) {
    values.push_back(buildInput(rewriter, loc, user, input, constants));
    maps.push_back(input.view.map.replaceDimsAndSymbols(toLocal, {}, rank, 0));
  }
  maps.push_back(AffineMap::getMultiDimIdentityMap(rank, context));
  Expr local =
      localizeTables(rewriter, *pool, pool->mapCoordinates(expr, overLocal));
  Value empty = tensor::EmptyOp::create(rewriter, loc, shape, local->type);
  auto generic = linalg::GenericOp::create(
      rewriter, loc, empty.getType(), values, empty, maps,
      llvm::SmallVector<utils::IteratorType>(rank,
                                             utils::IteratorType::parallel),
      [&](OpBuilder &builder, Location bodyLoc, ValueRange arguments) {
        llvm::DenseMap<Expr, Value> known;
        for (auto [input, argument] : llvm::zip(inputs, arguments))
          known[pool->mapCoordinates(input.leaf, overLocal)] = argument;
        linalg::YieldOp::create(builder, bodyLoc,
                                emitExpr(builder, bodyLoc, local, known));
      });
  for (NamedAttribute attribute : attributes)
    generic->setDiscardableAttr(attribute.getName(), attribute.getValue());
  return regroup(rewriter, loc, generic.getResult(0));
}

Value Relayout::apply(RewriterBase &rewriter, Location loc, Operation *user,
                      DerivedConstants &constants, Value source) const {
  switch (kind) {
  case Kind::Splat: {
    if (expr->is(ScalarExpr::Kind::Constant) && type.hasStaticShape())
      return arith::ConstantOp::create(
          rewriter, loc, DenseElementsAttr::get(type, expr->attribute));
    Value scalar = expr->value;
    if (!scalar)
      scalar = arith::ConstantOp::create(rewriter, loc,
                                         cast<TypedAttr>(expr->attribute));
    Value empty = tensor::EmptyOp::create(rewriter, loc, type.getShape(),
                                          type.getElementType());
    return linalg::FillOp::create(rewriter, loc, scalar, empty).getResult(0);
  }
  case Kind::Derive:
    return constants.get(rewriter, user, loc, *inputs.front().derived);
  case Kind::Move:
    return applyMove(rewriter, loc, source);
  case Kind::Compute:
    return applyCompute(rewriter, loc, user, constants);
  }
  llvm_unreachable("all kinds are covered");
}

} // namespace mlir::qtranspose
