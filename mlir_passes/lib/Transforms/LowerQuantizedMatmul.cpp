//===- LowerQuantizedMatmul.cpp - integer matmul plus compensation --------===//

#include "qtranspose/Transforms/LowerQuantizedMatmul.h"

#include "qtranspose/Analysis/ConstantSum.h"
#include "qtranspose/Analysis/QuantizedContraction.h"
#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/ZeroPointCompensation.h"
#include "qtranspose/Utils/EmitExpr.h"
#include "qtranspose/Utils/LoopNest.h"

#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_LOWERQUANTIZEDMATMUL
#include "qtranspose/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral passName = "qtranspose-lower-quantized-matmul";

bool hasEncoding(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getEncoding();
}

/// Whether every element is zero (of either sign).
bool isZero(Value init) {
  OpFoldResult splat = getSplat(init);
  Attribute element = dyn_cast_if_present<Attribute>(splat);
  if (auto scalar = dyn_cast_if_present<Value>(splat))
    matchPattern(scalar, m_Constant(&element));
  if (auto integer = dyn_cast_or_null<IntegerAttr>(element))
    return integer.getValue().isZero();
  auto floating = dyn_cast_or_null<FloatAttr>(element);
  return floating && floating.getValue().isZero();
}

/// The rewrite of one contraction.
class Lowering {
public:
  Lowering(QuantizedContraction contraction, ExprPool &pool, Operation *root)
      : contraction(std::move(contraction)), op(this->contraction.op),
        pool(pool), tracer(pool, root) {}

  /// Plans without touching IR.
  std::optional<Refusal> plan(bool allowReassociation);
  std::string describe() const;
  Value apply(RewriterBase &rewriter, Location loc);

private:
  std::optional<Refusal> checkSum(bool allowReassociation);
  void planLoops();
  Expr toLoops(Expr expr);
  CompensatedOperand planOperand(const QuantizedFactor &factor);
  void foldInit();
  OpFoldResult getSize(OpBuilder &builder, unsigned loop);
  Value createEmpty(OpBuilder &builder, Location loc, Type element);
  Value emitSum(OpBuilder &builder, Location loc, Value init);
  Value emitResult(OpBuilder &builder, Location loc, Value integerSum);

  bool isFloat() const { return isa<FloatType>(contraction.getSumType()); }
  /// Whether the integer sum is the result, of the same type.
  bool isResult() const { return sum.type == contraction.getSumType(); }

  QuantizedContraction contraction;
  linalg::LinalgOp op;
  ExprPool &pool;
  Tracer tracer;

  llvm::SmallVector<unsigned> dims;     ///< the iteration dim of each loop
  llvm::SmallVector<AffineExpr> loopOf; ///< of each iteration dim
  CompensatedSum sum;
  std::optional<ZeroPointCompensation> compensation;
  llvm::SmallVector<LoopInput, 0> inputs;
  llvm::SmallVector<unsigned> uncovered; ///< loops no operand has
  llvm::SmallVector<Expr> scales;
  bool hasInit = false; ///< that is not zero or part of the compensation
};
} // namespace

/// Loops are iteration dims without the unit dims that are summed over, which
/// a 1x1 convolution has, as long as one sum remains.
void Lowering::planLoops() {
  MLIRContext *context = op->getContext();
  auto isUnitSum = [&](unsigned dim) {
    return contraction.extents[dim] == 1 &&
           llvm::is_contained(contraction.summed, dim);
  };
  bool dropsAll = llvm::all_of(contraction.summed, isUnitSum);
  for (unsigned dim = 0; dim < contraction.extents.size(); ++dim) {
    bool isKept = dropsAll && !contraction.summed.empty() &&
                  dim == contraction.summed.back();
    if (isUnitSum(dim) && !isKept) {
      loopOf.push_back(getAffineConstantExpr(0, context));
      continue;
    }
    loopOf.push_back(getAffineDimExpr(dims.size(), context));
    if (llvm::is_contained(contraction.summed, dim))
      sum.summed.push_back(dims.size());
    sum.extents.push_back(contraction.extents[dim]);
    dims.push_back(dim);
  }
  sum.output = op.getMatchingIndexingMap(op.getDpsInitOperand(0))
                   .replaceDimsAndSymbols(loopOf, {}, dims.size(), 0);
}

Expr Lowering::toLoops(Expr expr) {
  return pool.mapCoordinates(expr, [&](AffineExpr coordinate) {
    return coordinate.replaceDims(loopOf);
  });
}

/// Looks past the layout of what is stored, and computation on constants.
CompensatedOperand Lowering::planOperand(const QuantizedFactor &factor) {
  llvm::DenseMap<Expr, Expr> stored, folded;
  Expr root = toLoops(factor.stored);
  walkExpr(root, [&](Expr expr) {
    auto rebuild = [&](const llvm::DenseMap<Expr, Expr> &map) {
      llvm::SmallVector<Expr> operands;
      for (Expr operand : expr->operands)
        operands.push_back(map.lookup(operand));
      return pool.withOperands(expr, operands);
    };
    stored[expr] = rebuild(stored);
    folded[expr] = rebuild(folded);
    if (!expr->is(ScalarExpr::Kind::Leaf) || !expr->value)
      return;
    Expr traced = tracer.trace(expr->value, expr->coordinates);
    folded[expr] = traced;
    if (traced->is(ScalarExpr::Kind::Leaf) && traced->value &&
        isReadWhole(traced, sum.extents) && !hasEncoding(traced->value))
      stored[expr] = traced;
  });
  return {stored.lookup(root), folded.lookup(root), factor.isSigned,
          factor.zeroPoint};
}

std::optional<Refusal> Lowering::checkSum(bool allowReassociation) {
  if (isFloat() && !allowReassociation)
    return Refusal{Reason::ReassociatesFloatSum,
                   "the products are added up as floats"};
  auto integer = dyn_cast<IntegerType>(contraction.getSumType());
  if (integer && integer.getWidth() <= 32) {
    sum.type = integer;
    return std::nullopt;
  }
  // The program adds in another type: the sum has to fit.
  sum.type = IntegerType::get(op->getContext(), 32);
  uint64_t bound = 1;
  for (const QuantizedFactor &factor : contraction.factors) {
    if (!factor.range)
      return Refusal{Reason::ZeroPointNotBounded,
                     "the values of a factor are not bounded"};
    bound = llvm::SaturatingMultiply(bound, factor.range->getMagnitude());
  }
  uint64_t length = 1;
  for (unsigned dim : contraction.summed) {
    int64_t extent = contraction.extents[dim];
    if (ShapedType::isDynamic(extent))
      return Refusal{Reason::SumLengthNotStatic,
                     "a dim that is summed over is dynamic"};
    length = llvm::SaturatingMultiply(length, uint64_t(extent));
  }
  uint64_t largest = uint64_t(llvm::maxIntN(32)) / std::max<uint64_t>(bound, 1);
  if (length > largest)
    return Refusal{Reason::AccumulatorMayOverflow,
                   ("the sum has " + llvm::Twine(length) +
                    " terms; 32 bits hold " + llvm::Twine(largest))
                       .str()};
  return std::nullopt;
}

/// An init that is constant along a dim of the result joins the compensation.
void Lowering::foldInit() {
  Value init = op.getDpsInitOperand(0)->get();
  hasInit = !isZero(init);
  if (!hasInit || !isResult())
    return;
  Expr expr = tracer.trace(init, sum.output.getResults());
  ConstantGrid grid{getUsedDims(expr), {}};
  if (grid.loops.size() >= sum.output.getNumResults())
    return;
  auto values = foldSum(expr, sum.extents, grid.loops, {});
  if (!values)
    return;
  grid.values = std::move(*values);
  compensation->add(grid);
  hasInit = false;
}

std::optional<Refusal> Lowering::plan(bool allowReassociation) {
  MLIRContext *context = op->getContext();
  if (std::optional<Refusal> refusal = checkSum(allowReassociation))
    return refusal;
  if (auto generic = dyn_cast<linalg::GenericOp>(op.getOperation()))
    if (generic.getLibraryCall())
      return Refusal{Reason::LibraryCall, "the contraction"};
  for (Value operand : op->getOperands())
    if (hasEncoding(operand))
      return Refusal{Reason::TensorEncoding, "an operand of the contraction"};
  planLoops();
  if (!sum.output.isProjectedPermutation())
    return Refusal{Reason::NotFactorable,
                   "the dims of the result are not dims of the sum"};
  llvm::SmallVector<Expr> stored;
  for (unsigned side = 0; side < 2; ++side) {
    for (QuantizedFactor::Term &term : contraction.factors[side].zeroPoint)
      term.value = toLoops(term.value);
    sum.operands[side] = planOperand(contraction.factors[side]);
    stored.push_back(sum.operands[side].stored);
  }
  auto isWeight = [&](unsigned side) {
    bool isConstant = true;
    walkExpr(sum.operands[side].folded, [&](Expr node) {
      isConstant &= !node->value || isConstantTensor(node->value);
    });
    return isConstant;
  };
  sum.weight = isWeight(0) && !isWeight(1) ? 0 : 1;

  for (Expr expr : contraction.scales)
    scales.push_back(toLoops(expr));
  llvm::SmallVector<Expr> exprs(stored);
  llvm::append_range(exprs, scales);
  bool isEncoded = false;
  for (Expr expr : exprs)
    walkExpr(expr, [&](Expr node) {
      isEncoded |= node->value && hasEncoding(node->value);
    });
  if (isEncoded)
    return Refusal{Reason::TensorEncoding, "an operand of a factor"};

  OrRefusal<ZeroPointCompensation> planned =
      ZeroPointCompensation::plan(sum, pool);
  if (auto *refusal = std::get_if<Refusal>(&planned))
    return *refusal;
  compensation.emplace(std::get<ZeroPointCompensation>(std::move(planned)));

  auto read = planInputs(stored, sum.extents, context);
  if (!read || !planInputs(scales, sum.extents, context))
    return Refusal{Reason::NotFactorable,
                   "a leaf cannot be seen over the loops"};
  inputs = std::move(*read);
  llvm::SmallVector<AffineMap> maps{sum.output};
  for (const LoopInput &input : inputs)
    maps.push_back(input.map);
  uncovered = getUncoveredLoops(sum.extents.size(), maps);
  for (unsigned loop : uncovered)
    if (ShapedType::isDynamic(sum.extents[loop]))
      return Refusal{Reason::NotFactorable,
                     "no operand has the size of a loop"};
  foldInit();
  return std::nullopt;
}

std::string Lowering::describe() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  printExpr(sum.operands[0].stored, os);
  os << " x ";
  printExpr(sum.operands[1].stored, os);
  os << " in " << sum.type << "; ";
  compensation->describe(os);
  if (isFloat())
    os << "; the float sum is reassociated";
  return text;
}

OpFoldResult Lowering::getSize(OpBuilder &builder, unsigned loop) {
  if (int64_t extent = sum.extents[loop]; !ShapedType::isDynamic(extent))
    return builder.getIndexAttr(extent);
  llvm::SmallVector<std::pair<Value, unsigned>> found;
  op.mapIterationSpaceDimToAllOperandDims(dims[loop], found);
  return tensor::getMixedSize(builder, op.getLoc(), found.front().first,
                              found.front().second);
}

/// An uninitialized tensor of the shape of the result.
Value Lowering::createEmpty(OpBuilder &builder, Location loc, Type element) {
  Value init = op.getDpsInitOperand(0)->get();
  if (auto fill = init.getDefiningOp<linalg::FillOp>())
    init = fill.getOutputs()[0];
  if (init.getDefiningOp<tensor::EmptyOp>() &&
      getElementTypeOrSelf(init) == element)
    return init;
  return tensor::EmptyOp::create(
      builder, loc, tensor::getMixedSizes(builder, loc, init), element);
}

/// The sum of products of what is stored, on top of `init`.
Value Lowering::emitSum(OpBuilder &builder, Location loc, Value init) {
  unsigned numLoops = dims.size();
  llvm::SmallVector<utils::IteratorType> iterators;
  for (unsigned dim : dims)
    iterators.push_back(op.getIteratorTypesArray()[dim]);
  llvm::SmallVector<std::pair<Value, AffineMap>> shape;
  if (!uncovered.empty()) {
    llvm::SmallVector<int64_t> window;
    for (unsigned loop : uncovered)
      window.push_back(sum.extents[loop]);
    shape.push_back({tensor::EmptyOp::create(builder, loc, window, sum.type),
                     AffineMap::getMultiDimMapWithTargets(
                         numLoops, uncovered, builder.getContext())});
  }
  auto generic = buildGeneric(
      builder, loc, inputs, {sum.operands[0].stored, sum.operands[1].stored},
      shape, init, sum.output, iterators,
      [&](OpBuilder &b, Location bodyLoc, llvm::ArrayRef<Value> values,
          ValueRange, Value accumulator) -> Value {
        Value lhs = convertInteger(b, bodyLoc, values[0], sum.type,
                                   sum.operands[0].isSigned);
        Value rhs = convertInteger(b, bodyLoc, values[1], sum.type,
                                   sum.operands[1].isSigned);
        Value product = arith::MulIOp::create(b, bodyLoc, lhs, rhs);
        return arith::AddIOp::create(b, bodyLoc, accumulator, product);
      });
  for (NamedAttribute attribute : getDiscardableAttrs(op))
    generic->setDiscardableAttr(attribute.getName(), attribute.getValue());
  return generic.getResult(0);
}

/// The integer sum as the program's type: widened, or scaled, plus the init.
Value Lowering::emitResult(OpBuilder &builder, Location loc, Value integerSum) {
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
  llvm::SmallVector<Expr> exprs;
  for (Expr scale : scales)
    exprs.push_back(pool.mapCoordinates(scale, [&](AffineExpr coordinate) {
      return coordinate.replaceDims(toLocal);
    }));
  auto scaleInputs = planInputs(exprs, extents, context);
  llvm::SmallVector<std::pair<Value, AffineMap>> extras{{integerSum, identity}};
  Value init = op.getDpsInitOperand(0)->get();
  if (hasInit)
    extras.push_back({init, identity});
  Type type = contraction.getSumType();
  auto generic = buildGeneric(
      builder, loc, *scaleInputs, exprs, extras,
      createEmpty(builder, loc, type), identity,
      llvm::SmallVector<utils::IteratorType>(rank,
                                             utils::IteratorType::parallel),
      [&](OpBuilder &b, Location bodyLoc, llvm::ArrayRef<Value> values,
          ValueRange extraValues, Value) -> Value {
        if (!isFloat()) {
          Value wide = arith::ExtSIOp::create(b, bodyLoc, type, extraValues[0]);
          return hasInit
                     ? arith::AddIOp::create(b, bodyLoc, extraValues[1], wide)
                     : wide;
        }
        // An unscaled sum may be too large for less than 32 bits.
        Type compute =
            type.getIntOrFloatBitWidth() < 32 ? Type(b.getF32Type()) : type;
        Value result =
            arith::SIToFPOp::create(b, bodyLoc, compute, extraValues[0]);
        for (Value scale : values) {
          if (compute != type)
            scale = arith::ExtFOp::create(b, bodyLoc, compute, scale);
          result = arith::MulFOp::create(b, bodyLoc, result, scale);
        }
        if (compute != type)
          result = arith::TruncFOp::create(b, bodyLoc, type, result);
        return hasInit
                   ? arith::AddFOp::create(b, bodyLoc, extraValues[1], result)
                   : result;
      });
  return generic.getResult(0);
}

Value Lowering::apply(RewriterBase &rewriter, Location loc) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Value init = hasInit && isResult() ? op.getDpsInitOperand(0)->get() : Value();
  if (!compensation->isZero()) {
    init = compensation->emit(rewriter, loc, init,
                              createEmpty(rewriter, loc, sum.type),
                              [&](OpBuilder &builder, unsigned loop) {
                                return getSize(builder, loop);
                              });
  } else if (!init) {
    Value zero = arith::ConstantIntOp::create(rewriter, loc, sum.type, 0);
    init = linalg::FillOp::create(rewriter, loc, zero,
                                  createEmpty(rewriter, loc, sum.type))
               .getResult(0);
  }
  Value result = emitSum(rewriter, loc, init);
  if (!isResult())
    result = emitResult(rewriter, loc, result);
  rewriter.replaceOp(op, result);
  return result;
}

/// Lowers `op`; false if it is not quantized or it is refused, with `op`
/// untouched. Nothing outside `root` is read.
static bool lower(RewriterBase &rewriter, linalg::LinalgOp op,
                  bool allowReassociation, Operation *root = nullptr) {
  ExprPool pool(op->getContext());
  auto match = matchQuantizedContraction(op, pool, root);
  if (auto *refusal = std::get_if<Refusal>(&match))
    remarkRefused(op, passName, *refusal);
  auto *contraction = std::get_if<QuantizedContraction>(&match);
  if (!contraction)
    return false;
  llvm::SmallVector<Location> locations{op->getLoc()};
  for (Operation *traced : contraction->tracedOps)
    locations.push_back(traced->getLoc());
  Lowering lowering(std::move(*contraction), pool, root);
  if (std::optional<Refusal> refusal = lowering.plan(allowReassociation)) {
    remarkRefused(op, passName, *refusal);
    return false;
  }
  remarkPassed(op, passName, "lowered", lowering.describe());
  lowering.apply(rewriter, rewriter.getFusedLoc(locations));
  return true;
}

namespace {
struct LowerPattern : OpInterfaceRewritePattern<linalg::LinalgOp> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(linalg::LinalgOp op,
                                PatternRewriter &rewriter) const override {
    return success(lower(rewriter, op, /*allowReassociation=*/false));
  }
};

struct LowerQuantizedMatmul
    : impl::LowerQuantizedMatmulBase<LowerQuantizedMatmul> {
  using LowerQuantizedMatmulBase::LowerQuantizedMatmulBase;

  void runOnOperation() override {
    llvm::SmallVector<linalg::LinalgOp> ops;
    getOperation()->walk([&](linalg::LinalgOp op) { ops.push_back(op); });
    // Erasing what a contraction no longer reads can take another one along.
    struct : RewriterBase::Listener {
      llvm::SmallPtrSet<Operation *, 8> erased;
      void notifyOperationErased(Operation *op) override { erased.insert(op); }
    } listener;
    IRRewriter rewriter(&getContext(), &listener);
    for (linalg::LinalgOp op : ops) {
      if (listener.erased.contains(op))
        continue;
      llvm::SmallVector<Value> operands(op->getOperands());
      if (lower(rewriter, op, allowReassociation, getOperation()))
        eraseIfDead(rewriter, operands, getOperation());
    }
  }
};
} // namespace

void populateLowerQuantizedMatmulPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerPattern>(patterns.getContext());
}

} // namespace mlir::qtranspose
