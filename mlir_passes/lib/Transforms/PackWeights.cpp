//===- PackWeights.cpp - constant weights in the order kernels read -------===//
//
// Splits the output dim of a contraction's weight into blocks of lanes and
// stores the constants that have it as [..., block, ..., lane].
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Analysis/Elementwise.h"
#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/ContractionFusion.h"
#include "qtranspose/Utils/DerivedConstants.h"
#include "qtranspose/Utils/EmitExpr.h"
#include "qtranspose/Utils/HostVectors.h"
#include "qtranspose/Utils/Remarks.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_PACKWEIGHTS
#include "qtranspose/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral passName = "qtranspose-pack-weights";

//===----------------------------------------------------------------------===//
// Constants behind views
//===----------------------------------------------------------------------===//

/// A tensor whose elements are elements of a constant.
struct ConstantView {
  ConstantData data;
  int64_t offset = 0;
  llvm::SmallVector<int64_t> strides; ///< per dim of the tensor
};

llvm::SmallVector<int64_t> getStrides(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

/// Looks through reshapes and slices.
std::optional<ConstantView> getConstantView(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || type.getEncoding())
    return std::nullopt;
  if (std::optional<ConstantData> data = getConstantData(value))
    return ConstantView{*data, 0, getStrides(type.getShape())};
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
                       tensor::ExtractSliceOp>(op))
    return std::nullopt;
  std::optional<ConstantView> source = getConstantView(op->getOperand(0));
  if (!source)
    return std::nullopt;
  auto sourceType = cast<RankedTensorType>(op->getOperand(0).getType());
  ConstantView view{source->data, source->offset, {}};
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    view.strides.resize(type.getRank());
    for (auto [dim, group] :
         llvm::enumerate(expand.getReassociationIndices())) {
      int64_t stride = source->strides[dim];
      for (int64_t part : llvm::reverse(group)) {
        view.strides[part] = stride;
        stride *= type.getDimSize(part);
      }
    }
    return view;
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    for (llvm::ArrayRef<int64_t> group : collapse.getReassociationIndices()) {
      // Nothing: only unit dims so far.
      std::optional<int64_t> stride;
      int64_t extent = 1;
      for (int64_t part : llvm::reverse(group)) {
        if (sourceType.getDimSize(part) == 1)
          continue;
        if (!stride)
          stride = source->strides[part];
        else if (source->strides[part] != *stride * extent)
          return std::nullopt;
        extent *= sourceType.getDimSize(part);
      }
      view.strides.push_back(stride.value_or(1));
    }
    return view;
  }
  auto slice = cast<tensor::ExtractSliceOp>(op);
  if (ShapedType::isDynamicShape(slice.getStaticOffsets()) ||
      ShapedType::isDynamicShape(slice.getStaticStrides()))
    return std::nullopt;
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  for (int64_t dim = 0; dim < sourceType.getRank(); ++dim) {
    view.offset += slice.getStaticOffset(dim) * source->strides[dim];
    if (!dropped.test(dim))
      view.strides.push_back(slice.getStaticStride(dim) * source->strides[dim]);
  }
  return view;
}

/// From coordinates of a gather's result to those of a row-major tensor.
AffineMap getSourceMap(const StridedGather &gather,
                       llvm::ArrayRef<int64_t> shape, MLIRContext *context) {
  // The position is the sum of these dims times their strides, plus a constant.
  auto dims = llvm::to_vector(llvm::seq<unsigned>(0, gather.extents.size()));
  int64_t constant = gather.offset;
  auto getSum = [&](llvm::ArrayRef<unsigned> terms, int64_t unit) {
    AffineExpr sum = getAffineConstantExpr(0, context);
    for (unsigned dim : terms)
      sum = sum + getAffineDimExpr(dim, context) * (gather.strides[dim] / unit);
    return sum;
  };
  llvm::SmallVector<AffineExpr> coordinates;
  llvm::SmallVector<int64_t> strides = getStrides(shape);
  for (int64_t unit : strides) {
    llvm::SmallVector<unsigned> whole, rest;
    int64_t most = constant % unit;
    for (unsigned dim : dims) {
      bool isWhole = gather.strides[dim] % unit == 0;
      (isWhole ? whole : rest).push_back(dim);
      if (!isWhole)
        most += gather.strides[dim] * (gather.extents[dim] - 1);
    }
    if (most < unit) {
      coordinates.push_back(getSum(whole, unit) + constant / unit);
      dims = rest;
      constant %= unit;
      continue;
    }
    // Dims of the result run over borders of the source's: divide.
    AffineExpr position = getSum(dims, 1) + constant;
    while (coordinates.size() < shape.size()) {
      int64_t stride = strides[coordinates.size()];
      coordinates.push_back(position.floorDiv(stride));
      position = position % stride;
    }
    break;
  }
  return AffineMap::get(gather.extents.size(), 0, coordinates, context);
}

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

/// Part of a dim: `blocks` times `lanes` neighbours, from `offset` on.
struct Segment {
  int64_t offset, blocks, lanes;
  int64_t size() const { return blocks * lanes; }
};

/// An op with one dim split into blocks, which take its place, and lanes, the
/// last dim.
class SplitOp {
public:
  SplitOp(linalg::LinalgOp op, unsigned dim, const Segment &segment)
      : op(op), dim(dim), segment(segment) {}

  /// Nothing is changed. False if it cannot be done.
  bool plan(llvm::ArrayRef<unsigned> rank);
  /// The dims of its output are `outputDims`, then the lanes.
  linalg::GenericOp apply(RewriterBase &rewriter, DerivedConstants &constants,
                          Value init, AffineMap outputMap);
  /// Elements of constants that have the dim.
  int64_t packed = 0;

  unsigned getLane() { return op.getNumLoops(); }

private:
  struct Input {
    enum { Keep, Derive, Reshape, Produce } kind = Keep;
    AffineMap map;
    std::optional<DerivedSpec> derived;
    std::shared_ptr<SplitOp> producer;
    RankedTensorType type; ///< of a derived constant or a producer's result
    AffineMap producerMap;
  };
  bool planDerived(Value value, AffineMap map, llvm::ArrayRef<unsigned> rank,
                   Input &input);
  bool planProducer(Value value, AffineMap map, llvm::ArrayRef<unsigned> rank,
                    Input &input);
  llvm::SmallVector<unsigned> getOrderedResults(AffineMap map,
                                                llvm::ArrayRef<unsigned> rank);
  RankedTensorType getPackedType(RankedTensorType type, AffineMap map,
                                 llvm::ArrayRef<unsigned> results);
  AffineMap getPackedMap(AffineMap map, llvm::ArrayRef<unsigned> results);
  void restoreIndices(linalg::GenericOp made);

  linalg::LinalgOp op;
  unsigned dim;
  Segment segment;
  llvm::SmallVector<Input, 0> inputs;
};

/// The results of `map` by rising rank of their dims.
llvm::SmallVector<unsigned>
SplitOp::getOrderedResults(AffineMap map, llvm::ArrayRef<unsigned> rank) {
  auto results = llvm::to_vector(llvm::seq<unsigned>(0, map.getNumResults()));
  llvm::sort(results, [&](unsigned a, unsigned b) {
    return rank[map.getDimPosition(a)] < rank[map.getDimPosition(b)];
  });
  return results;
}

RankedTensorType SplitOp::getPackedType(RankedTensorType type, AffineMap map,
                                        llvm::ArrayRef<unsigned> results) {
  llvm::SmallVector<int64_t> shape;
  for (unsigned result : results)
    shape.push_back(map.getDimPosition(result) == dim
                        ? segment.blocks
                        : type.getDimSize(result));
  shape.push_back(segment.lanes);
  return RankedTensorType::get(shape, type.getElementType());
}

AffineMap SplitOp::getPackedMap(AffineMap map,
                                llvm::ArrayRef<unsigned> results) {
  llvm::SmallVector<AffineExpr> exprs;
  for (unsigned result : results)
    exprs.push_back(map.getResult(result));
  exprs.push_back(getAffineDimExpr(getLane(), map.getContext()));
  return AffineMap::get(op.getNumLoops() + 1, 0, exprs, map.getContext());
}

bool SplitOp::planDerived(Value value, AffineMap map,
                          llvm::ArrayRef<unsigned> rank, Input &input) {
  std::optional<ConstantView> view = getConstantView(value);
  if (!view)
    return false;
  auto results = getOrderedResults(map, rank);
  input.kind = Input::Derive;
  input.type =
      getPackedType(cast<RankedTensorType>(value.getType()), map, results);
  input.map = getPackedMap(map, results);
  DerivedSpec spec;
  spec.source = view->data;
  spec.type = input.type;
  spec.gather.extents = llvm::to_vector(input.type.getShape());
  spec.gather.offset = view->offset;
  for (unsigned result : results) {
    bool isSplit = map.getDimPosition(result) == dim;
    int64_t stride = view->strides[result];
    if (isSplit)
      spec.gather.offset += segment.offset * stride;
    spec.gather.strides.push_back(isSplit ? stride * segment.lanes : stride);
  }
  spec.gather.strides.push_back(view->strides[*map.getResultPosition(
      getAffineDimExpr(dim, map.getContext()))]);
  spec.map = getSourceMap(
      spec.gather, cast<ShapedType>(view->data.elements.getType()).getShape(),
      value.getContext());
  input.derived = std::move(spec);
  packed += input.type.getNumElements();
  return true;
}

/// A dequantization that is computed per tile is split along with its reader.
bool SplitOp::planProducer(Value value, AffineMap map,
                           llvm::ArrayRef<unsigned> rank, Input &input) {
  auto producer = value.getDefiningOp<linalg::GenericOp>();
  if (!producer || !producer->hasAttr(tileFusedAttrName) ||
      !value.hasOneUse() || producer->getNumResults() != 1 ||
      producer.getNumReductionLoops() != 0 ||
      producer.payloadUsesValueFromOperand(producer.getDpsInitOperand(0)))
    return false;
  auto type = cast<RankedTensorType>(value.getType());
  AffineMap outputMap =
      producer.getMatchingIndexingMap(producer.getDpsInitOperand(0));
  if (!type.hasStaticShape() || type.getEncoding() ||
      !outputMap.isPermutation())
    return false;
  llvm::SmallVector<unsigned> producerRank(producer.getNumLoops());
  unsigned split = 0;
  for (unsigned result = 0; result < map.getNumResults(); ++result) {
    unsigned own = outputMap.getDimPosition(result);
    producerRank[own] = rank[map.getDimPosition(result)];
    if (map.getDimPosition(result) == dim)
      split = own;
  }
  auto made = std::make_shared<SplitOp>(
      cast<linalg::LinalgOp>(producer.getOperation()), split, segment);
  if (!made->plan(producerRank))
    return false;
  auto results = getOrderedResults(map, rank);
  input.kind = Input::Produce;
  input.type = getPackedType(type, map, results);
  input.map = getPackedMap(map, results);
  input.producerMap = made->getPackedMap(outputMap, results);
  input.producer = std::move(made);
  packed += input.producer->packed;
  return true;
}

bool SplitOp::plan(llvm::ArrayRef<unsigned> rank) {
  for (OpOperand *operand : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(operand);
    if (!map.isProjectedPermutation())
      return false;
    Input input;
    AffineExpr split = getAffineDimExpr(dim, map.getContext());
    std::optional<unsigned> position = map.getResultPosition(split);
    if (!position) {
      input.map = AffineMap::get(op.getNumLoops() + 1, 0, map.getResults(),
                                 map.getContext());
    } else if (!planDerived(operand->get(), map, rank, input) &&
               !planProducer(operand->get(), map, rank, input)) {
      auto type = dyn_cast<RankedTensorType>(operand->get().getType());
      if (!type || type.getEncoding())
        return false;
      input.kind = Input::Reshape;
      llvm::SmallVector<AffineExpr> exprs(map.getResults());
      exprs.insert(exprs.begin() + *position + 1,
                   getAffineDimExpr(getLane(), map.getContext()));
      input.map =
          AffineMap::get(op.getNumLoops() + 1, 0, exprs, map.getContext());
    }
    inputs.push_back(std::move(input));
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Applying
//===----------------------------------------------------------------------===//

/// The slice of `value` that `segment` of dim `dim` is.
Value takeSegment(OpBuilder &b, Location loc, Value value, unsigned dim,
                  const Segment &segment) {
  auto type = cast<RankedTensorType>(value.getType());
  if (segment.size() == type.getDimSize(dim))
    return value;
  llvm::SmallVector<OpFoldResult> offsets(type.getRank(), b.getIndexAttr(0));
  llvm::SmallVector<OpFoldResult> strides(type.getRank(), b.getIndexAttr(1));
  llvm::SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, value);
  offsets[dim] = b.getIndexAttr(segment.offset);
  sizes[dim] = b.getIndexAttr(segment.size());
  return tensor::ExtractSliceOp::create(b, loc, value, offsets, sizes, strides);
}

/// Neighbouring dims with dim `dim` standing for two.
llvm::SmallVector<ReassociationIndices> getReassociation(int64_t rank,
                                                         unsigned dim) {
  llvm::SmallVector<ReassociationIndices> groups;
  for (int64_t position = 0; position < rank; ++position) {
    int64_t part = position + (position > dim);
    groups.push_back(position == dim ? ReassociationIndices{part, part + 1}
                                     : ReassociationIndices{part});
  }
  return groups;
}

/// `value` with dim `dim` as blocks and lanes.
Value splitDim(OpBuilder &b, Location loc, Value value, unsigned dim,
               const Segment &segment) {
  value = takeSegment(b, loc, value, dim, segment);
  auto type = cast<RankedTensorType>(value.getType());
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape[dim] = segment.blocks;
  shape.insert(shape.begin() + dim + 1, segment.lanes);
  return tensor::ExpandShapeOp::create(
      b, loc, RankedTensorType::get(shape, type.getElementType()), value,
      getReassociation(type.getRank(), dim));
}

/// Undoes splitDim(): writes `value` into its slice of `target`.
Value putSegment(OpBuilder &b, Location loc, Value value, Value target,
                 unsigned dim, const Segment &segment) {
  auto type = cast<RankedTensorType>(target.getType());
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape[dim] = segment.size();
  value = tensor::CollapseShapeOp::create(
      b, loc, RankedTensorType::get(shape, type.getElementType()), value,
      getReassociation(type.getRank(), dim));
  if (segment.size() == type.getDimSize(dim))
    return value;
  llvm::SmallVector<OpFoldResult> offsets(type.getRank(), b.getIndexAttr(0));
  llvm::SmallVector<OpFoldResult> strides(type.getRank(), b.getIndexAttr(1));
  llvm::SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, target);
  offsets[dim] = b.getIndexAttr(segment.offset);
  sizes[dim] = b.getIndexAttr(segment.size());
  return tensor::InsertSliceOp::create(b, loc, value, target, offsets, sizes,
                                       strides);
}

linalg::GenericOp SplitOp::apply(RewriterBase &rewriter,
                                 DerivedConstants &constants, Value init,
                                 AffineMap outputMap) {
  Location loc = op.getLoc();
  llvm::SmallVector<Value> operands;
  llvm::SmallVector<AffineMap> maps;
  for (auto [number, input] : llvm::enumerate(inputs)) {
    Value value = op.getDpsInputs()[number];
    switch (input.kind) {
    case Input::Keep:
      break;
    case Input::Derive:
      value = constants.get(rewriter, op, value.getLoc(), *input.derived);
      break;
    case Input::Reshape:
      value = splitDim(
          rewriter, loc, value,
          *op.getMatchingIndexingMap(op.getDpsInputOperand(number))
               .getResultPosition(getAffineDimExpr(dim, rewriter.getContext())),
          segment);
      break;
    case Input::Produce: {
      Value empty = tensor::EmptyOp::create(rewriter, value.getLoc(),
                                            input.type.getShape(),
                                            input.type.getElementType());
      value =
          input.producer->apply(rewriter, constants, empty, input.producerMap)
              .getResult(0);
      break;
    }
    }
    operands.push_back(value);
    maps.push_back(input.map);
  }
  maps.push_back(outputMap);
  llvm::SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  iterators.push_back(utils::IteratorType::parallel);
  auto made = linalg::GenericOp::create(rewriter, loc, init.getType(), operands,
                                        init, maps, iterators);
  for (NamedAttribute attribute : getDiscardableAttrs(op))
    made->setDiscardableAttr(attribute.getName(), attribute.getValue());
  IRMapping mapping;
  op->getRegion(0).cloneInto(&made.getRegion(), mapping);
  restoreIndices(made);
  return made;
}

/// Positions along the dim are those of the original op.
void SplitOp::restoreIndices(linalg::GenericOp made) {
  llvm::SmallVector<linalg::IndexOp> indices;
  made.getRegion().walk([&](linalg::IndexOp index) {
    if (index.getDim() == dim)
      indices.push_back(index);
  });
  for (linalg::IndexOp index : indices) {
    OpBuilder b(index);
    Location loc = index.getLoc();
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantIndexOp::create(b, loc, value);
    };
    Value block = linalg::IndexOp::create(b, loc, dim);
    Value lane = linalg::IndexOp::create(b, loc, getLane());
    Value first = arith::MulIOp::create(b, loc, block, constant(segment.lanes));
    Value position = arith::AddIOp::create(
        b, loc, arith::AddIOp::create(b, loc, first, lane),
        constant(segment.offset));
    index.replaceAllUsesWith(position);
    index.erase();
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

struct PackWeights : impl::PackWeightsBase<PackWeights> {
  using PackWeightsBase::PackWeightsBase;

  /// Elements of constants read through `value` that depend on `dim`.
  static int64_t countConstants(linalg::LinalgOp op, unsigned dim) {
    int64_t count = 0;
    for (OpOperand *operand : op.getDpsInputOperands()) {
      AffineMap map = op.getMatchingIndexingMap(operand);
      if (!map.isFunctionOfDim(dim))
        continue;
      Value value = operand->get();
      if (getConstantView(value)) {
        count += cast<ShapedType>(value.getType()).getNumElements();
        continue;
      }
      auto producer = value.getDefiningOp<linalg::GenericOp>();
      if (!producer || !producer->hasAttr(tileFusedAttrName))
        continue;
      std::optional<unsigned> position =
          map.getResultPosition(getAffineDimExpr(dim, map.getContext()));
      AffineMap outputMap =
          producer.getMatchingIndexingMap(producer.getDpsInitOperand(0));
      if (position && outputMap.isPermutation())
        count += countConstants(cast<linalg::LinalgOp>(producer.getOperation()),
                                outputMap.getDimPosition(*position));
    }
    return count;
  }

  /// True if `dim` is the lanes of what is packed already.
  bool isPacked(linalg::LinalgOp op, unsigned dim,
                llvm::ArrayRef<int64_t> extents) {
    return extents[dim] <= lanes &&
           llvm::all_of(op.getDpsInputOperands(), [&](OpOperand *operand) {
             AffineMap map = op.getMatchingIndexingMap(operand);
             return !map.isFunctionOfDim(dim) ||
                    map.getResults().back() ==
                        getAffineDimExpr(dim, map.getContext());
           });
  }

  /// The output dim of the weight, if there is one that is worth it.
  std::optional<unsigned> chooseDim(linalg::LinalgOp op) {
    llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
    AffineMap outputMap = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
    std::optional<unsigned> best;
    int64_t most = 0;
    for (AffineExpr result : outputMap.getResults()) {
      auto expr = dyn_cast<AffineDimExpr>(result);
      if (!expr)
        continue;
      unsigned dim = expr.getPosition();
      if (ShapedType::isDynamic(extents[dim]) || extents[dim] < 8)
        continue;
      int64_t count = countConstants(op, dim);
      if (count > 0 && count >= most) {
        most = count;
        best = dim;
      }
    }
    // A vector (a bias) is not a weight, and lanes need no further split.
    if (!best || most < 2 * extents[*best] || isPacked(op, *best, extents))
      return std::nullopt;
    return best;
  }

  std::optional<Refusal> pack(IRRewriter &rewriter, DerivedConstants &constants,
                              linalg::LinalgOp op, unsigned dim) {
    llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
    OpOperand *init = op.getDpsInitOperand(0);
    AffineMap outputMap = op.getMatchingIndexingMap(init);
    auto type = dyn_cast<RankedTensorType>(init->get().getType());
    if (!type || type.getEncoding() || !outputMap.isProjectedPermutation())
      return refuse(Reason::NotPackable,
                    "the output is not a plain tensor of output dims");
    unsigned position =
        *outputMap.getResultPosition(getAffineDimExpr(dim, op.getContext()));

    llvm::SmallVector<Segment> segments;
    int64_t whole = extents[dim] / lanes * lanes;
    if (whole > 0)
      segments.push_back({0, whole / lanes, lanes});
    if (whole < extents[dim])
      segments.push_back({whole, 1, extents[dim] - whole});

    // Output dims first, then what is summed, each in the order of the loops.
    llvm::SmallVector<unsigned> rank(extents.size());
    for (auto [number, iterator] : llvm::enumerate(op.getIteratorTypesArray()))
      rank[number] =
          number +
          (iterator == utils::IteratorType::reduction ? extents.size() : 0);

    llvm::SmallVector<SplitOp> parts;
    for (const Segment &segment : segments) {
      parts.emplace_back(op, dim, segment);
      if (!parts.back().plan(rank))
        return refuse(Reason::NotPackable,
                      "an operand is not indexed by single dims");
    }

    rewriter.setInsertionPoint(op);
    Location loc = op.getLoc();
    llvm::SmallVector<AffineExpr> results(outputMap.getResults());
    results.insert(results.begin() + position + 1,
                   getAffineDimExpr(extents.size(), op.getContext()));
    AffineMap packedMap =
        AffineMap::get(extents.size() + 1, 0, results, op.getContext());
    auto fill = init->get().getDefiningOp<linalg::FillOp>();
    // A sum that starts as a fill is written over; any other is added to.
    Value source = fill ? fill.getOutputs()[0] : init->get();
    Value target = source;
    for (auto [segment, part] : llvm::zip_equal(segments, parts)) {
      Value split = splitDim(rewriter, loc, source, position, segment);
      if (fill)
        split = linalg::FillOp::create(rewriter, fill.getLoc(),
                                       fill.getInputs()[0], split)
                    .getResult(0);
      Value result =
          part.apply(rewriter, constants, split, packedMap).getResult(0);
      target = putSegment(rewriter, loc, result, target, position, segment);
    }
    remarkPassed(op, passName, "packed",
                 "dim " + llvm::Twine(dim) + " in blocks of " +
                     llvm::Twine(int64_t(lanes)));
    llvm::SmallVector<Value> operands(op->getOperands());
    rewriter.replaceOp(op, target);
    eraseIfDead(rewriter, operands);
    return std::nullopt;
  }

  void runOnOperation() override {
    if (lanes < 0) {
      getOperation()->emitError(passName) << ": lanes must not be negative";
      return signalPassFailure();
    }
    if (lanes == 0)
      lanes = 4 * getHostVectorBits() / 32;
    llvm::SmallVector<linalg::LinalgOp> ops;
    getOperation()->walk([&](linalg::LinalgOp op) {
      if (isContraction(op))
        ops.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    DerivedConstants constants;
    for (linalg::LinalgOp op : ops)
      if (std::optional<unsigned> dim = chooseDim(op))
        if (std::optional<Refusal> refusal =
                pack(rewriter, constants, op, *dim))
          remarkRefused(op, passName, *refusal);
  }
};
} // namespace
} // namespace mlir::qtranspose
