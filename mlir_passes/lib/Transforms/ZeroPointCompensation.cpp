//===- ZeroPointCompensation.cpp - what zero points add to a sum ----------===//

#include "qtranspose/Transforms/ZeroPointCompensation.h"

#include "qtranspose/Analysis/ConstantSum.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"

namespace mlir::qtranspose {

Value convertInteger(OpBuilder &builder, Location loc, Value value, Type type,
                     bool isSigned) {
  unsigned from = value.getType().getIntOrFloatBitWidth();
  unsigned to = type.getIntOrFloatBitWidth();
  if (from > to)
    return arith::TruncIOp::create(builder, loc, type, value);
  if (from == to)
    return value;
  if (isSigned)
    return arith::ExtSIOp::create(builder, loc, type, value);
  return arith::ExtUIOp::create(builder, loc, type, value);
}

llvm::SmallVector<unsigned> getUncoveredLoops(unsigned numLoops,
                                              llvm::ArrayRef<AffineMap> maps) {
  llvm::SmallBitVector covered(numLoops);
  for (AffineMap map : maps)
    for (AffineExpr result : map.getResults())
      if (auto dim = dyn_cast<AffineDimExpr>(result))
        covered.set(dim.getPosition());
  llvm::SmallVector<unsigned> uncovered;
  for (unsigned loop = 0; loop < numLoops; ++loop)
    if (!covered.test(loop))
      uncovered.push_back(loop);
  return uncovered;
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

/// `combine` of two grids on the loops of the larger; nothing if the loops of
/// neither include those of the other.
static std::optional<ConstantGrid>
combineGrids(const ConstantGrid &a, const ConstantGrid &b,
             llvm::ArrayRef<int64_t> extents,
             llvm::function_ref<uint64_t(uint64_t, uint64_t)> combine) {
  const ConstantGrid &large = a.loops.size() >= b.loops.size() ? a : b;
  const ConstantGrid &small = &large == &a ? b : a;
  if (!llvm::all_of(small.loops, [&](unsigned loop) {
        return llvm::is_contained(large.loops, loop);
      }))
    return std::nullopt;
  llvm::SmallVector<int64_t> strides(large.loops.size(), 0);
  int64_t stride = 1;
  for (unsigned loop : llvm::reverse(small.loops)) {
    strides[llvm::find(large.loops, loop) - large.loops.begin()] = stride;
    stride *= extents[loop];
  }
  ConstantGrid result{large.loops, {}};
  for (auto [index, value] : llvm::enumerate(large.values)) {
    int64_t rest = index, position = 0;
    for (unsigned dim = large.loops.size(); dim-- > 0;) {
      position += rest % extents[large.loops[dim]] * strides[dim];
      rest /= extents[large.loops[dim]];
    }
    int64_t other = small.values[position];
    result.values.push_back(static_cast<int64_t>(
        &large == &a ? combine(value, other) : combine(other, value)));
  }
  return result;
}

static bool isZeroGrid(const ConstantGrid &grid, unsigned width) {
  return llvm::all_of(grid.values, [&](int64_t value) {
    return llvm::SignExtend64(value, width) == 0;
  });
}

Expr ZeroPointCompensation::asExpr(const ConstantGrid &grid) {
  unsigned width = sum.type.getWidth();
  llvm::SmallVector<APInt> elements;
  for (int64_t value : grid.values)
    elements.push_back(APInt(width, value, /*isSigned=*/true,
                             /*implicitTrunc=*/true));
  if (!elements.empty() && llvm::all_equal(elements))
    return pool.constant(IntegerAttr::get(sum.type, elements.front()));
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<AffineExpr> coordinates;
  for (unsigned loop : grid.loops) {
    shape.push_back(sum.extents[loop]);
    coordinates.push_back(getAffineDimExpr(loop, pool.getContext()));
  }
  return pool.table(
      DenseElementsAttr::get(RankedTensorType::get(shape, sum.type), elements),
      coordinates);
}

void ZeroPointCompensation::add(const ConstantGrid &grid) {
  unsigned width = sum.type.getWidth();
  ConstantGrid total = grid;
  for (auto *it = constants.begin(); it != constants.end(); ++it)
    if (auto combined =
            combineGrids(*it, grid, sum.extents, std::plus<uint64_t>())) {
      total = *combined;
      constants.erase(it);
      break;
    }
  if (!isZeroGrid(total, width))
    constants.push_back(total);
}

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

std::optional<ConstantGrid>
ZeroPointCompensation::foldZeroPoint(unsigned operand) {
  ConstantGrid total{{}, {0}};
  for (const QuantizedFactor::Term &term : sum.operands[operand].zeroPoint) {
    ConstantGrid grid{getUsedDims(term.value), {}};
    auto values = foldSum(term.value, sum.extents, grid.loops, {});
    if (!values)
      return std::nullopt;
    grid.values = *values;
    if (!grid.values.empty() && llvm::all_equal(grid.values))
      grid = {{}, {grid.values.front()}};
    auto combined =
        term.isAdded
            ? combineGrids(total, grid, sum.extents, std::minus<uint64_t>())
            : combineGrids(total, grid, sum.extents, std::plus<uint64_t>());
    if (!combined)
      return std::nullopt;
    total = *combined;
  }
  return total;
}

Expr ZeroPointCompensation::getZeroPoint(unsigned operand) {
  Expr total = nullptr;
  for (const QuantizedFactor::Term &term : sum.operands[operand].zeroPoint) {
    Expr value = term.value;
    unsigned width = value->type.getIntOrFloatBitWidth();
    if (width != sum.type.getWidth())
      value = pool.apply(width > sum.type.getWidth() ? "arith.trunci"
                                                     : "arith.extsi",
                         sum.type, {value});
    if (!total && !term.isAdded)
      total = value;
    else
      total = pool.apply(term.isAdded ? "arith.subi" : "arith.addi", sum.type,
                         {total ? total : pool.integer(sum.type, 0), value});
  }
  return total;
}

std::optional<Refusal>
ZeroPointCompensation::planSum(unsigned number, Product &product,
                               std::optional<ConstantGrid> &folded) {
  const CompensatedOperand &operand = sum.operands[number];
  MLIRContext *context = pool.getContext();
  product.operand = number;
  llvm::SmallVector<unsigned> kept, summed, used = getUsedDims(operand.stored);
  for (unsigned loop : used)
    (llvm::is_contained(sum.summed, loop) ? summed : kept).push_back(loop);
  // An operand that does not change along a loop is added up as often.
  int64_t multiplicity = 1;
  for (unsigned loop : sum.summed) {
    if (llvm::is_contained(used, loop))
      continue;
    if (ShapedType::isDynamic(sum.extents[loop]) ||
        llvm::MulOverflow(multiplicity, sum.extents[loop], multiplicity))
      return Refusal{Reason::NotFactorable,
                     "an operand does not have a dynamic dim of the sum"};
  }

  Type i64 = IntegerType::get(context, 64);
  Expr extended = operand.folded;
  if (extended->type.getIntOrFloatBitWidth() < 64)
    extended = pool.apply(operand.isSigned ? "arith.extsi" : "arith.extui", i64,
                          {extended});
  if (auto values = foldSum(extended, sum.extents, kept, summed)) {
    folded = ConstantGrid{kept, std::move(*values)};
    for (int64_t &value : folded->values)
      value = static_cast<int64_t>(uint64_t(value) * uint64_t(multiplicity));
    return std::nullopt;
  }

  // Reduce in the order in which the operand is stored.
  RunTimeSum reduction{kept, {},          {}, nullptr, operand.isSigned,
                       {},   multiplicity};
  walkExpr(operand.stored, [&](Expr node) {
    for (AffineExpr coordinate : node->coordinates)
      if (coordinate)
        coordinate.walk([&](AffineExpr part) {
          if (auto dim = dyn_cast<AffineDimExpr>(part))
            if (!llvm::is_contained(reduction.loops, dim.getPosition()))
              reduction.loops.push_back(dim.getPosition());
        });
  });
  llvm::SmallVector<AffineExpr> toLocal(sum.extents.size(),
                                        getAffineConstantExpr(0, context));
  llvm::SmallVector<int64_t> extents;
  for (auto [local, loop] : llvm::enumerate(reduction.loops)) {
    toLocal[loop] = getAffineDimExpr(local, context);
    extents.push_back(sum.extents[loop]);
  }
  reduction.stored =
      pool.mapCoordinates(operand.stored, [&](AffineExpr coordinate) {
        return coordinate.replaceDims(toLocal);
      });
  auto inputs = planInputs(reduction.stored, extents, context);
  if (!inputs)
    return Refusal{Reason::NotFactorable,
                   "a leaf cannot be seen over the loops of its sum"};
  reduction.inputs = std::move(*inputs);
  llvm::SmallVector<AffineExpr> results;
  for (unsigned loop : kept)
    results.push_back(toLocal[loop]);
  llvm::SmallVector<AffineMap> maps{
      AffineMap::get(extents.size(), 0, results, context)};
  for (const LoopInput &input : reduction.inputs)
    maps.push_back(input.map);
  reduction.uncovered = getUncoveredLoops(extents.size(), maps);
  for (unsigned loop : reduction.uncovered)
    if (ShapedType::isDynamic(extents[loop]))
      return Refusal{Reason::NotFactorable,
                     "no operand has the size of a loop of its sum"};
  product.sum = std::move(reduction);
  return std::nullopt;
}

std::optional<Refusal> ZeroPointCompensation::plan() {
  unsigned width = sum.type.getWidth();
  std::array<std::optional<ConstantGrid>, 2> zeros{foldZeroPoint(0),
                                                   foldZeroPoint(1)};
  auto isZero = [&](unsigned operand) {
    return zeros[operand] && isZeroGrid(*zeros[operand], width);
  };
  bool isLengthKnown = true;
  uint64_t length = 1; // modulo 2^64, like everything else
  for (unsigned loop : sum.summed) {
    isLengthKnown &= !ShapedType::isDynamic(sum.extents[loop]);
    length *= uint64_t(sum.extents[loop]);
  }

  // The term with both zero points goes with the sum of the weight, which is
  // more likely to be constant.
  for (unsigned operand : {sum.weight, 1 - sum.weight}) {
    unsigned other = 1 - operand;
    if (isZero(other))
      continue;
    Product product;
    std::optional<ConstantGrid> total;
    if (std::optional<Refusal> refusal = planSum(operand, product, total))
      return refusal;
    bool takesLength = operand == sum.weight && !isZero(operand);
    if (takesLength && total && zeros[operand] && isLengthKnown) {
      ConstantGrid scaled = *zeros[operand];
      for (int64_t &value : scaled.values)
        value = static_cast<int64_t>(uint64_t(value) * length);
      if (auto centered = combineGrids(*total, scaled, sum.extents,
                                       std::minus<uint64_t>())) {
        total = centered;
        takesLength = false;
      }
    }
    if (total && !takesLength && zeros[other])
      if (auto constant =
              combineGrids(*total, *zeros[other], sum.extents,
                           [](uint64_t a, uint64_t z) { return -(a * z); })) {
        foldedOperands.push_back(operand);
        add(*constant);
        continue;
      }
    product.zero = zeros[other] ? asExpr(*zeros[other]) : getZeroPoint(other);
    if (takesLength)
      product.lengthZero =
          zeros[operand] ? asExpr(*zeros[operand]) : getZeroPoint(operand);
    if (total)
      product.constant = asExpr(*total);
    if (total && !takesLength && isZeroGrid(*total, width))
      continue;
    products.push_back(std::move(product));
  }

  // The generic that adds everything up must be able to read its inputs.
  llvm::SmallVector<Expr> exprs;
  for (const Product &product : products)
    for (Expr expr : {product.zero, product.constant, product.lengthZero})
      if (expr)
        exprs.push_back(expr);
  if (!planInputs(exprs, sum.extents, pool.getContext()))
    return Refusal{Reason::NotFactorable,
                   "a zero point cannot be seen over the loops"};
  return std::nullopt;
}

OrRefusal<ZeroPointCompensation>
ZeroPointCompensation::plan(const CompensatedSum &sum, ExprPool &pool) {
  ZeroPointCompensation compensation(sum, pool);
  if (std::optional<Refusal> refusal = compensation.plan())
    return *refusal;
  return compensation;
}

void ZeroPointCompensation::describe(llvm::raw_ostream &os) const {
  llvm::SmallVector<std::string> terms;
  auto name = [&](unsigned operand) {
    return operand == sum.weight ? "weight" : "input";
  };
  for (unsigned operand : foldedOperands)
    terms.push_back(
        (llvm::Twine("sum of the ") + name(operand) + " folded").str());
  for (const Product &product : products)
    terms.push_back((llvm::Twine("sum of the ") + name(product.operand) +
                     (product.sum ? " at run time" : " folded"))
                        .str());
  if (terms.empty())
    os << "no compensation";
  llvm::interleaveComma(terms, os);
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

Value ZeroPointCompensation::emitSum(
    OpBuilder &builder, Location loc, const RunTimeSum &reduction,
    llvm::function_ref<OpFoldResult(OpBuilder &, unsigned)> getSize) const {
  MLIRContext *context = builder.getContext();
  unsigned numLoops = reduction.loops.size();
  llvm::SmallVector<OpFoldResult> sizes;
  llvm::SmallVector<AffineExpr> results;
  for (unsigned loop : reduction.kept) {
    sizes.push_back(getSize(builder, loop));
    results.push_back(getAffineDimExpr(
        llvm::find(reduction.loops, loop) - reduction.loops.begin(), context));
  }
  llvm::SmallVector<utils::IteratorType> iterators;
  for (unsigned loop : reduction.loops)
    iterators.push_back(llvm::is_contained(sum.summed, loop)
                            ? utils::IteratorType::reduction
                            : utils::IteratorType::parallel);
  llvm::SmallVector<std::pair<Value, AffineMap>> shape;
  if (!reduction.uncovered.empty()) {
    llvm::SmallVector<int64_t> window;
    for (unsigned local : reduction.uncovered)
      window.push_back(sum.extents[reduction.loops[local]]);
    shape.push_back({tensor::EmptyOp::create(builder, loc, window, sum.type),
                     AffineMap::getMultiDimMapWithTargets(
                         numLoops, reduction.uncovered, context)});
  }
  Value empty = tensor::EmptyOp::create(builder, loc, sizes, sum.type);
  Value zero = arith::ConstantIntOp::create(builder, loc, sum.type, 0);
  Value init = linalg::FillOp::create(builder, loc, zero, empty).getResult(0);
  auto generic = buildGeneric(
      builder, loc, reduction.inputs, reduction.stored, shape, init,
      AffineMap::get(numLoops, 0, results, context), iterators,
      [&](OpBuilder &b, Location bodyLoc, llvm::ArrayRef<Value> values,
          ValueRange, Value accumulator) -> Value {
        Value term =
            convertInteger(b, bodyLoc, values[0], sum.type, reduction.isSigned);
        return arith::AddIOp::create(b, bodyLoc, accumulator, term);
      });
  return generic.getResult(0);
}

Value ZeroPointCompensation::emitLength(
    OpBuilder &builder, Location loc,
    llvm::function_ref<OpFoldResult(OpBuilder &, unsigned)> getSize) const {
  uint64_t known = 1;
  Value dynamic;
  for (unsigned loop : sum.summed) {
    if (!ShapedType::isDynamic(sum.extents[loop])) {
      known *= uint64_t(sum.extents[loop]);
      continue;
    }
    Value size =
        getValueOrCreateConstantIndexOp(builder, loc, getSize(builder, loop));
    size = arith::IndexCastOp::create(builder, loc, sum.type, size);
    dynamic =
        dynamic ? arith::MulIOp::create(builder, loc, dynamic, size) : size;
  }
  if (dynamic && known == 1)
    return dynamic;
  Value length = arith::ConstantOp::create(
      builder, loc,
      IntegerAttr::get(sum.type, APInt(sum.type.getWidth(), known,
                                       /*isSigned=*/false,
                                       /*implicitTrunc=*/true)));
  return dynamic ? arith::MulIOp::create(builder, loc, length, dynamic)
                 : length;
}

Value ZeroPointCompensation::emit(
    OpBuilder &builder, Location loc, Value init, Value empty,
    llvm::function_ref<OpFoldResult(OpBuilder &, unsigned)> getSize) const {
  MLIRContext *context = builder.getContext();
  unsigned rank = sum.output.getNumResults();
  AffineMap identity = AffineMap::getMultiDimIdentityMap(rank, context);
  llvm::SmallVector<AffineExpr> toLocal(sum.extents.size(),
                                        getAffineConstantExpr(0, context));
  llvm::SmallVector<int64_t> extents;
  for (unsigned result = 0; result < rank; ++result) {
    unsigned loop = sum.output.getDimPosition(result);
    toLocal[loop] = getAffineDimExpr(result, context);
    extents.push_back(sum.extents[loop]);
  }

  // Values of the body: expressions, then sums and the init.
  llvm::SmallVector<Expr> exprs;
  auto addExpr = [&](Expr expr) -> std::optional<unsigned> {
    if (!expr)
      return std::nullopt;
    exprs.push_back(pool.mapCoordinates(expr, [&](AffineExpr coordinate) {
      return coordinate.replaceDims(toLocal);
    }));
    return exprs.size() - 1;
  };
  struct Factors {
    std::optional<unsigned> zero, constant, sum, lengthZero;
    int64_t multiplicity = 1;
  };
  llvm::SmallVector<Factors> factors;
  llvm::SmallVector<std::pair<Value, AffineMap>> extras;
  Value length;
  for (const Product &product : products) {
    Factors &factor = factors.emplace_back();
    factor.zero = addExpr(product.zero);
    factor.constant = addExpr(product.constant);
    factor.lengthZero = addExpr(product.lengthZero);
    if (product.sum) {
      factor.sum = extras.size();
      factor.multiplicity = product.sum->multiplicity;
      llvm::SmallVector<AffineExpr> results;
      for (unsigned loop : product.sum->kept)
        results.push_back(toLocal[loop]);
      extras.push_back({emitSum(builder, loc, *product.sum, getSize),
                        AffineMap::get(rank, 0, results, context)});
    }
    if (product.lengthZero)
      length = emitLength(builder, loc, getSize);
  }
  std::optional<unsigned> initInput;
  if (init) {
    initInput = extras.size();
    extras.push_back({init, identity});
  }
  unsigned firstConstant = exprs.size();
  for (const ConstantGrid &grid : constants)
    addExpr(const_cast<ZeroPointCompensation *>(this)->asExpr(grid));

  auto inputs = planInputs(exprs, extents, context);
  auto generic = buildGeneric(
      builder, loc, *inputs, exprs, extras, empty, identity,
      llvm::SmallVector<utils::IteratorType>(rank,
                                             utils::IteratorType::parallel),
      [&](OpBuilder &b, Location bodyLoc, llvm::ArrayRef<Value> values,
          ValueRange extraValues, Value) -> Value {
        Value total = initInput ? extraValues[*initInput] : Value();
        for (Value constant : values.drop_front(firstConstant))
          total = total ? arith::AddIOp::create(b, bodyLoc, total, constant)
                        : constant;
        for (const Factors &factor : factors) {
          Value base;
          if (factor.constant)
            base = values[*factor.constant];
          if (factor.sum) {
            base = extraValues[*factor.sum];
            if (factor.multiplicity != 1)
              base = arith::MulIOp::create(
                  b, bodyLoc, base,
                  arith::ConstantOp::create(
                      b, bodyLoc,
                      IntegerAttr::get(sum.type, APInt(sum.type.getWidth(),
                                                       factor.multiplicity,
                                                       true, true))));
          }
          if (factor.lengthZero) {
            Value both = arith::MulIOp::create(b, bodyLoc, length,
                                               values[*factor.lengthZero]);
            base = arith::SubIOp::create(b, bodyLoc, base, both);
          }
          Value term =
              arith::MulIOp::create(b, bodyLoc, base, values[*factor.zero]);
          if (!total)
            total = arith::ConstantIntOp::create(b, bodyLoc, sum.type, 0);
          total = arith::SubIOp::create(b, bodyLoc, total, term);
        }
        return total;
      });
  return generic.getResult(0);
}

} // namespace mlir::qtranspose
