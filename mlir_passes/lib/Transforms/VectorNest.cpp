//===- VectorNest.cpp - linalg ops as vector loops -----------------------===//

#include "qtranspose/Transforms/VectorNest.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SmallBitVector.h"

#include <map>

namespace mlir::qtranspose {

bool hasVectorBody(linalg::LinalgOp op) {
  return llvm::all_of(op.getBlock()->without_terminator(),
                      [](Operation &inner) {
                        if (auto extract = dyn_cast<tensor::ExtractOp>(inner))
                          return extract.getTensor().getType().getRank() == 1;
                        if (isa<arith::ConstantOp, linalg::IndexOp>(inner))
                          return true;
                        return OpTrait::hasElementwiseMappableTraits(&inner) &&
                               llvm::all_of(inner.getResultTypes(),
                                            VectorType::isValidElementType);
                      });
}

namespace {

/// An offset per iteration dim, from the first point of the block at hand.
using Point = llvm::SmallVector<int64_t>;

/// A run of blocks of one dim: `size` neighbours at a time, once if not a loop.
struct Piece {
  OpFoldResult lower, upper;
  int64_t size;
  bool isLoop;
};

/// A loop body under construction. What it holds is inserted before the nested
/// loop, or at its end if that is not there yet.
struct Level {
  Block *block;
  Operation *before;
};

class NestEmitter {
public:
  NestEmitter(RewriterBase &rewriter, linalg::LinalgOp op,
              const VectorSchedule &schedule,
              llvm::SmallVectorImpl<Level> &levels)
      : b(rewriter), op(op), schedule(schedule), loc(op.getLoc()),
        levels(levels) {
    initialize();
  }

  void run();

private:
  /// A value of the body at some coordinates.
  using Key =
      std::pair<void *, llvm::SmallVector<std::pair<void *, int64_t>, 4>>;
  using Body =
      llvm::function_ref<llvm::SmallVector<Value>(llvm::ArrayRef<Value>)>;

  bool isReduction(unsigned dim) const {
    return iterators[dim] == utils::IteratorType::reduction;
  }
  bool isVector(const llvm::SmallBitVector &dims) const {
    return width > 1 && dims.test(schedule.lane);
  }
  unsigned getLevel(const llvm::SmallBitVector &dims) const {
    unsigned found = 0;
    for (unsigned dim : dims.set_bits())
      found = std::max(found, level[dim]);
    return found;
  }
  void insertAt(unsigned level) {
    if (levels[level].before)
      b.setInsertionPoint(levels[level].before);
    else
      b.setInsertionPointToEnd(levels[level].block);
  }
  void insertInnermost() { insertAt(levels.size() - 1); }

  void initialize();
  llvm::SmallVector<Piece> getPieces(unsigned dim, int64_t size);
  llvm::SmallVector<Value> forPiece(unsigned dim, const Piece &piece,
                                    llvm::ArrayRef<Value> carried, Body body);
  llvm::SmallVector<Value> emitParallel(unsigned depth,
                                        llvm::ArrayRef<Value> outputs);
  llvm::SmallVector<Value> emitBlock(llvm::ArrayRef<Value> outputs);
  llvm::SmallVector<Value> emitSums(llvm::ArrayRef<Point> points,
                                    llvm::ArrayRef<Value> outputs);
  llvm::SmallVector<Value> emitReduction(unsigned depth,
                                         llvm::ArrayRef<Point> points,
                                         llvm::ArrayRef<Value> sums);
  llvm::SmallVector<Value> emitTerms(llvm::ArrayRef<Point> points,
                                     llvm::ArrayRef<Value> sums);
  llvm::SmallVector<Point> getPoints(llvm::ArrayRef<unsigned> dims) const;
  llvm::ArrayRef<unsigned> getParallelDims() const {
    return llvm::ArrayRef(schedule.order).take_front(numParallel);
  }
  llvm::ArrayRef<unsigned> getSummedDims() const {
    return llvm::ArrayRef(schedule.order).drop_front(numParallel);
  }
  Value getSize(unsigned dim);

  Value evaluate(Value value, const Point &point, llvm::ArrayRef<Value> sums);
  const VectorSchedule *isComputed(unsigned number) const {
    for (const VectorSchedule &nested : schedule.sums)
      if (nested.input == number)
        return &nested;
    return nullptr;
  }
  Key getKey(Value value, const llvm::SmallBitVector &dims,
             const Point &point) const {
    Key key{value.getAsOpaquePointer(), {}};
    for (unsigned dim : dims.set_bits())
      key.second.push_back({base[dim].getAsOpaquePointer(), point[dim]});
    return key;
  }
  Value readSum(unsigned number, const Point &point);
  Value emitOp(Operation &inner, const Point &point,
               llvm::ArrayRef<Value> operands, bool isVector);
  Value getIndex(unsigned dim, int64_t offset);
  llvm::SmallVector<Value> getIndices(AffineMap map, const Point &point);
  Value read(Value tensor, AffineMap map, const Point &point);
  Value readInit(unsigned number, Value output, const Point &point);
  Value write(Value value, Value tensor, AffineMap map, const Point &point);
  Value broadcast(Value value) {
    if (width == 1 || isa<VectorType>(value.getType()))
      return value;
    return vector::BroadcastOp::create(
        b, loc, VectorType::get(width, value.getType()), value);
  }

  RewriterBase &b;
  linalg::LinalgOp op;
  const VectorSchedule &schedule;
  Location loc;

  llvm::SmallVector<utils::IteratorType> iterators;
  llvm::SmallVector<int64_t> extents;
  llvm::SmallVector<Value> sizes; ///< per dim; empty until asked for
  unsigned numParallel = 0;       ///< the first dims of the schedule's order
  llvm::DenseMap<Value, llvm::SmallBitVector> dimsOf; ///< body values
  llvm::DenseSet<Value> isSum; ///< body values that depend on the outputs

  /// The loops around, outermost first.
  llvm::SmallVectorImpl<Level> &levels;
  /// The block at hand.
  llvm::SmallVector<Value> base; ///< per dim; null: 0
  llvm::SmallVector<unsigned> level;
  llvm::SmallVector<int64_t> count;
  int64_t width = 1;
  /// What has been computed of the body, by value and coordinates.
  std::map<Key, Value> computed;
};

void NestEmitter::initialize() {
  unsigned numDims = op.getNumLoops();
  iterators = op.getIteratorTypesArray();
  extents = op.getStaticLoopRanges();
  base.assign(numDims, Value());
  level.assign(numDims, 0);
  count.assign(numDims, 1);
  while (numParallel < schedule.order.size() &&
         !isReduction(schedule.order[numParallel]))
    ++numParallel;
  for (OpOperand &operand : op->getOpOperands()) {
    llvm::SmallBitVector dims(numDims);
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (unsigned dim = 0; dim < numDims; ++dim)
      if (map.isFunctionOfDim(dim))
        dims.set(dim);
    BlockArgument argument = op.getMatchingBlockArgument(&operand);
    dimsOf[argument] = dims;
    if (op.isDpsInit(&operand))
      isSum.insert(argument);
  }
  for (Operation &inner : op.getBlock()->without_terminator()) {
    llvm::SmallBitVector dims(numDims);
    if (auto index = dyn_cast<linalg::IndexOp>(inner))
      dims.set(index.getDim());
    bool sum = false;
    for (Value operand : inner.getOperands()) {
      if (auto it = dimsOf.find(operand); it != dimsOf.end())
        dims |= it->second;
      sum |= isSum.contains(operand);
    }
    for (Value result : inner.getResults()) {
      dimsOf[result] = dims;
      if (sum)
        isSum.insert(result);
    }
  }
}

/// Whole blocks first, then what is left: in one block if its size is known,
/// else in ever smaller ones. Vectors are powers of two.
llvm::SmallVector<Piece> NestEmitter::getPieces(unsigned dim, int64_t size) {
  llvm::SmallVector<Piece> pieces;
  bool isLane = dim == schedule.lane;
  if (!ShapedType::isDynamic(extents[dim])) {
    int64_t lower = 0, extent = extents[dim];
    while (lower < extent) {
      int64_t blocks = (extent - lower) / size;
      if (blocks > 0)
        pieces.push_back({b.getIndexAttr(lower),
                          b.getIndexAttr(lower + blocks * size), size,
                          blocks > 1});
      lower += blocks * size;
      size = isLane && size > 8 ? size / 2 : extent - lower;
    }
    return pieces;
  }
  Value extent = getSize(dim);
  insertAt(0);
  AffineExpr lowerExpr = b.getAffineSymbolExpr(0);
  AffineExpr sizeExpr = b.getAffineSymbolExpr(1);
  OpFoldResult lower = b.getIndexAttr(0);
  while (true) {
    OpFoldResult upper = affine::makeComposedFoldedAffineApply(
        b, loc, lowerExpr + (sizeExpr - lowerExpr).floorDiv(size) * size,
        {lower, extent});
    pieces.push_back({lower, upper, size, /*isLoop=*/true});
    if (size == 1)
      return pieces;
    size = isLane ? 1 : size / 2;
    lower = upper;
  }
}

llvm::SmallVector<Value> NestEmitter::forPiece(unsigned dim, const Piece &piece,
                                               llvm::ArrayRef<Value> carried,
                                               Body body) {
  if (dim == schedule.lane)
    width = piece.size;
  else
    count[dim] = piece.size;
  insertAt(0);
  Value lower = getValueOrCreateConstantIndexOp(b, loc, piece.lower);
  if (!piece.isLoop) {
    bool isZero = isConstantIntValue(piece.lower, 0);
    base[dim] = isZero ? Value() : lower;
    level[dim] = 0;
    return body(carried);
  }
  Value upper = getValueOrCreateConstantIndexOp(b, loc, piece.upper);
  Value step = arith::ConstantIndexOp::create(b, loc, piece.size);
  insertInnermost();
  auto loop = scf::ForOp::create(b, loc, lower, upper, step, carried);
  Operation *before = levels.back().before;
  levels.back().before = loop;
  levels.push_back({loop.getBody(), nullptr});
  base[dim] = loop.getInductionVar();
  level[dim] = levels.size() - 1;
  llvm::SmallVector<Value> arguments(loop.getRegionIterArgs());
  llvm::SmallVector<Value> results = body(arguments);
  insertInnermost();
  scf::YieldOp::create(b, loc, results);
  levels.pop_back();
  levels.back().before = before;
  return llvm::to_vector_of<Value>(loop.getResults());
}

/// The points of the block at hand along `dims`.
llvm::SmallVector<Point>
NestEmitter::getPoints(llvm::ArrayRef<unsigned> dims) const {
  llvm::SmallVector<Point> points{Point(extents.size(), 0)};
  for (unsigned dim : dims) {
    if (dim == schedule.lane)
      continue;
    llvm::SmallVector<Point> next;
    for (const Point &point : points)
      for (int64_t offset = 0; offset < count[dim]; ++offset) {
        next.push_back(point);
        next.back()[dim] = offset;
      }
    points = std::move(next);
  }
  return points;
}

/// The extent of `dim` where it is not static.
Value NestEmitter::getSize(unsigned dim) {
  if (sizes.empty()) {
    insertAt(0);
    for (const Range &range : op.createLoopRanges(b, loc))
      sizes.push_back(getValueOrCreateConstantIndexOp(b, loc, range.size));
  }
  return sizes[dim];
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Value NestEmitter::getIndex(unsigned dim, int64_t offset) {
  if (!base[dim])
    return arith::ConstantIndexOp::create(b, loc, offset);
  if (offset == 0)
    return base[dim];
  return getValueOrCreateConstantIndexOp(
      b, loc,
      affine::makeComposedFoldedAffineApply(
          b, loc, b.getAffineDimExpr(0) + offset, {base[dim]}));
}

llvm::SmallVector<Value> NestEmitter::getIndices(AffineMap map,
                                                 const Point &point) {
  return llvm::map_to_vector(map.getResults(), [&](AffineExpr result) -> Value {
    if (auto constant = dyn_cast<AffineConstantExpr>(result))
      return arith::ConstantIndexOp::create(b, loc, constant.getValue());
    unsigned dim = cast<AffineDimExpr>(result).getPosition();
    return getIndex(dim, point[dim]);
  });
}

/// The position of the lane dim among the results of `map`.
static std::optional<unsigned> findLane(AffineMap map, unsigned lane) {
  return map.getResultPosition(getAffineDimExpr(lane, map.getContext()));
}

Value NestEmitter::read(Value tensor, AffineMap map, const Point &point) {
  if (!isa<RankedTensorType>(tensor.getType()))
    return tensor;
  llvm::SmallVector<Value> indices = getIndices(map, point);
  std::optional<unsigned> lane = findLane(map, schedule.lane);
  if (!lane || width == 1)
    return tensor::ExtractOp::create(b, loc, tensor, indices);
  Type element = getElementTypeOrSelf(tensor.getType());
  auto type = VectorType::get(width, element);
  if (*lane + 1 == map.getNumResults())
    return vector::TransferReadOp::create(b, loc, type, tensor, indices,
                                          /*padding=*/std::nullopt,
                                          llvm::ArrayRef<bool>{true});
  llvm::SmallVector<Value> elements;
  for (int64_t i = 0; i < width; ++i) {
    indices[*lane] = getIndex(schedule.lane, i);
    elements.push_back(tensor::ExtractOp::create(b, loc, tensor, indices));
  }
  return vector::FromElementsOp::create(b, loc, type, elements);
}

Value NestEmitter::readInit(unsigned number, Value output, const Point &point) {
  Value init = op.getDpsInits()[number];
  if (auto fill = init.getDefiningOp<linalg::FillOp>())
    return fill.getInputs()[0];
  return read(output, op.getMatchingIndexingMap(op.getDpsInitOperand(number)),
              point);
}

Value NestEmitter::write(Value value, Value tensor, AffineMap map,
                         const Point &point) {
  llvm::SmallVector<Value> indices = getIndices(map, point);
  std::optional<unsigned> lane = findLane(map, schedule.lane);
  if (!lane || width == 1)
    return tensor::InsertOp::create(b, loc, value, tensor, indices);
  value = broadcast(value);
  if (*lane + 1 == map.getNumResults()) {
    // Written as a slice of its own: 22.1.8 bufferizes a write of rank 1 at
    // index 0 as if it overwrote all of a tensor of higher rank.
    llvm::SmallVector<OpFoldResult> offsets = getAsOpFoldResult(indices);
    llvm::SmallVector<OpFoldResult> ones(indices.size(), b.getIndexAttr(1));
    llvm::SmallVector<OpFoldResult> sliceSizes = ones;
    sliceSizes.back() = b.getIndexAttr(width);
    auto type = RankedTensorType::get(width, getElementTypeOrSelf(value));
    Value slice = tensor::ExtractSliceOp::create(b, loc, type, tensor, offsets,
                                                 sliceSizes, ones);
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    Value written = vector::TransferWriteOp::create(b, loc, value, slice, zero,
                                                    llvm::ArrayRef<bool>{true})
                        .getResult();
    return tensor::InsertSliceOp::create(b, loc, written, tensor, offsets,
                                         sliceSizes, ones);
  }
  for (int64_t i = 0; i < width; ++i) {
    indices[*lane] = getIndex(schedule.lane, i);
    Value element = vector::ExtractOp::create(b, loc, value, i);
    tensor = tensor::InsertOp::create(b, loc, element, tensor, indices);
  }
  return tensor;
}

//===----------------------------------------------------------------------===//
// The body
//===----------------------------------------------------------------------===//

Value NestEmitter::emitOp(Operation &inner, const Point &point,
                          llvm::ArrayRef<Value> operands, bool isVector) {
  if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
    Value value = getIndex(index.getDim(), point[index.getDim()]);
    if (!isVector)
      return value;
    Value step = vector::StepOp::create(
        b, loc, VectorType::get(width, b.getIndexType()));
    return arith::AddIOp::create(b, loc, broadcast(value), step);
  }
  if (isa<tensor::ExtractOp>(inner) && isVector) {
    auto type = VectorType::get(width, inner.getResult(0).getType());
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    Value mask = arith::ConstantOp::create(
        b, loc,
        DenseElementsAttr::get(VectorType::get(width, b.getI1Type()), true));
    Value other = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    return vector::GatherOp::create(b, loc, type, operands[0], zero,
                                    broadcast(operands[1]), mask, other);
  }
  IRMapping mapping;
  for (auto [old, value] : llvm::zip_equal(inner.getOperands(), operands))
    mapping.map(old, isVector ? broadcast(value) : value);
  Operation *clone = b.clone(inner, mapping);
  if (isVector && !isa<arith::ConstantOp>(inner)) {
    Value result = clone->getResult(0);
    result.setType(VectorType::get(width, result.getType()));
  }
  if (isa<arith::MulFOp, arith::AddFOp>(clone)) {
    auto fast = cast<arith::ArithFastMathInterface>(clone);
    clone->setAttr(fast.getFastMathAttrName(),
                   arith::FastMathFlagsAttr::get(
                       b.getContext(), fast.getFastMathFlagsAttr().getValue() |
                                           schedule.flags));
  }
  return clone->getResult(0);
}

Value NestEmitter::evaluate(Value value, const Point &point,
                            llvm::ArrayRef<Value> sums) {
  auto it = dimsOf.find(value);
  if (it == dimsOf.end())
    return value;
  const llvm::SmallBitVector &dims = it->second;
  bool sum = isSum.contains(value);
  auto argument = dyn_cast<BlockArgument>(value);
  if (sum && argument)
    return sums[argument.getArgNumber() - op.getNumDpsInputs()];
  Key key;
  if (!sum) {
    key = getKey(value, dims, point);
    if (auto known = computed.find(key); known != computed.end())
      return known->second;
  }
  Value result;
  if (argument && isComputed(argument.getArgNumber()))
    return readSum(argument.getArgNumber(), point);
  if (argument) {
    insertAt(getLevel(dims));
    OpOperand &operand = op->getOpOperand(argument.getArgNumber());
    result = read(operand.get(), op.getMatchingIndexingMap(&operand), point);
  } else {
    Operation &inner = *value.getDefiningOp();
    llvm::SmallVector<Value> operands =
        llvm::map_to_vector(inner.getOperands(), [&](Value operand) {
          return evaluate(operand, point, sums);
        });
    // The lanes of a sum differ even if those of its terms do not.
    bool isVector = this->isVector(dims);
    if (sum) {
      insertInnermost();
      isVector = llvm::any_of(operands, [](Value operand) {
        return isa<VectorType>(operand.getType());
      });
    } else {
      insertAt(getLevel(dims));
    }
    result = emitOp(inner, point, operands, isVector);
  }
  if (!sum)
    computed[key] = result;
  return result;
}

/// Computes a sum at all points of the block at hand, where its coordinates
/// are known.
Value NestEmitter::readSum(unsigned number, const Point &point) {
  OpOperand &operand = op->getOpOperand(number);
  Value argument = op.getMatchingBlockArgument(&operand);
  const llvm::SmallBitVector &dims = dimsOf[argument];
  Key key = getKey(argument, dims, point);
  if (auto known = computed.find(key); known != computed.end())
    return known->second;

  unsigned depth = getLevel(dims);
  llvm::SmallVector<Level> outer(levels.begin(), levels.begin() + depth + 1);
  auto producer = cast<linalg::LinalgOp>(operand.get().getDefiningOp());
  NestEmitter nested(b, producer, *isComputed(number), outer);
  AffineMap map = op.getMatchingIndexingMap(&operand);
  AffineMap output =
      producer.getMatchingIndexingMap(producer.getDpsInitOperand(0));
  // The dim of this op that each parallel dim of the producer is.
  llvm::SmallVector<std::pair<unsigned, unsigned>> pairs;
  for (unsigned result = 0; result < map.getNumResults(); ++result) {
    unsigned own = map.getDimPosition(result);
    unsigned other = output.getDimPosition(result);
    pairs.push_back({own, other});
    nested.base[other] = base[own];
    nested.level[other] = level[own];
    nested.count[other] = count[own];
  }
  nested.width = width;
  llvm::SmallVector<Point> points =
      nested.getPoints(llvm::to_vector(llvm::make_second_range(pairs)));
  llvm::SmallVector<Value> sums = nested.emitSums(points, {Value()});
  for (auto [at, sum] : llvm::zip_equal(points, sums)) {
    Point own(extents.size(), 0);
    for (auto [here, there] : pairs)
      own[here] = at[there];
    computed[getKey(argument, dims, own)] = sum;
  }
  return computed.at(key);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// New values of `sums`, which are ordered by point, then output.
llvm::SmallVector<Value> NestEmitter::emitTerms(llvm::ArrayRef<Point> points,
                                                llvm::ArrayRef<Value> sums) {
  llvm::SmallVector<Value> results(sums);
  unsigned outputs = op.getNumDpsInits();
  Operation *yield = op.getBlock()->getTerminator();
  for (const Point &term : getPoints(getSummedDims()))
    for (auto [number, block] : llvm::enumerate(points)) {
      Point point = block;
      for (auto [coordinate, offset] : llvm::zip_equal(point, term))
        coordinate += offset;
      llvm::MutableArrayRef<Value> own =
          llvm::MutableArrayRef(results).slice(number * outputs, outputs);
      llvm::SmallVector<Value> next =
          llvm::map_to_vector(yield->getOperands(), [&](Value value) {
            return evaluate(value, point, own);
          });
      llvm::copy(next, own.begin());
    }
  return results;
}

/// The sums of a lane dim that is summed over come once per piece of it.
llvm::SmallVector<Value>
NestEmitter::emitReduction(unsigned depth, llvm::ArrayRef<Point> points,
                           llvm::ArrayRef<Value> sums) {
  if (depth == schedule.order.size())
    return emitTerms(points, sums);
  unsigned dim = schedule.order[depth];
  bool isLane = dim == schedule.lane;
  llvm::SmallVector<Value> results(sums);
  unsigned perPiece = points.size() * op.getNumDpsInits();
  for (auto [number, piece] : llvm::enumerate(
           getPieces(dim, isLane ? schedule.width : schedule.block[dim]))) {
    auto own = isLane
                   ? llvm::ArrayRef(results).slice(number * perPiece, perPiece)
                   : llvm::ArrayRef(results);
    llvm::SmallVector<Value> next =
        forPiece(dim, piece, own, [&](llvm::ArrayRef<Value> carried) {
          return emitReduction(depth + 1, points, carried);
        });
    llvm::copy(next, results.begin() + (isLane ? number * perPiece : 0));
  }
  return results;
}

llvm::SmallVector<Value> NestEmitter::emitSums(llvm::ArrayRef<Point> points,
                                               llvm::ArrayRef<Value> outputs) {
  llvm::SmallVector<Value> initial;
  for (const Point &point : points)
    for (auto [number, output] : llvm::enumerate(outputs)) {
      insertInnermost();
      initial.push_back(readInit(number, output, point));
    }
  if (!isReduction(schedule.lane)) {
    insertInnermost();
    for (Value &value : initial)
      value = broadcast(value);
    return emitReduction(numParallel, points, initial);
  }
  llvm::SmallVector<Value> sums;
  for (const Piece &piece : getPieces(schedule.lane, schedule.width)) {
    insertInnermost();
    for (Value value : initial) {
      Type type = value.getType();
      if (piece.size > 1)
        type = VectorType::get(piece.size, type);
      sums.push_back(arith::ConstantOp::create(
          b, loc, type, cast<TypedAttr>(b.getZeroAttr(type))));
    }
  }
  sums = emitReduction(numParallel, points, sums);
  insertInnermost();
  for (auto [number, sum] : llvm::enumerate(sums)) {
    if (isa<VectorType>(sum.getType()))
      sum = vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD, sum,
                                        arith::FastMathFlags::reassoc);
    Value &total = initial[number % initial.size()];
    if (isa<FloatType>(total.getType()))
      total = arith::AddFOp::create(b, loc, total, sum);
    else
      total = arith::AddIOp::create(b, loc, total, sum);
  }
  width = 1;
  return initial;
}

llvm::SmallVector<Value> NestEmitter::emitBlock(llvm::ArrayRef<Value> outputs) {
  llvm::SmallVector<Point> points = getPoints(getParallelDims());
  llvm::SmallVector<Value> results(outputs);
  llvm::SmallVector<Value> values;
  if (numParallel < schedule.order.size()) {
    values = emitSums(points, outputs);
  } else {
    for (const Point &point : points)
      for (auto [number, output] : llvm::enumerate(outputs)) {
        insertInnermost();
        bool isRead =
            op.payloadUsesValueFromOperand(op.getDpsInitOperand(number));
        values.push_back(isRead ? readInit(number, output, point) : Value());
      }
    values = emitTerms(points, values);
  }
  insertInnermost();
  for (auto [number, value] : llvm::enumerate(values)) {
    unsigned output = number % outputs.size();
    results[output] =
        write(value, results[output],
              op.getMatchingIndexingMap(op.getDpsInitOperand(output)),
              points[number / outputs.size()]);
  }
  return results;
}

llvm::SmallVector<Value>
NestEmitter::emitParallel(unsigned depth, llvm::ArrayRef<Value> outputs) {
  if (depth == numParallel)
    return emitBlock(outputs);
  unsigned dim = schedule.order[depth];
  llvm::SmallVector<Value> results(outputs);
  for (const Piece &piece : getPieces(
           dim, dim == schedule.lane ? schedule.width : schedule.block[dim]))
    results = forPiece(dim, piece, results, [&](llvm::ArrayRef<Value> carried) {
      return emitParallel(depth + 1, carried);
    });
  return results;
}

void NestEmitter::run() {
  llvm::SmallVector<Value> outputs =
      llvm::map_to_vector(op.getDpsInits(), [](Value init) -> Value {
        if (auto fill = init.getDefiningOp<linalg::FillOp>())
          return fill.getOutputs()[0];
        return init;
      });
  b.replaceOp(op, emitParallel(0, outputs));
}
} // namespace

void emitVectorNest(RewriterBase &rewriter, linalg::LinalgOp op,
                    const VectorSchedule &schedule) {
  llvm::SmallVector<Level> levels{{op->getBlock(), op}};
  NestEmitter(rewriter, op, schedule, levels).run();
}

} // namespace mlir::qtranspose
