//===- QuantizedContraction.cpp - sums of (A - za)(W - zw) ----------------===//

#include "qtranspose/Analysis/QuantizedContraction.h"

#include "qtranspose/Analysis/ConstantSum.h"
#include "qtranspose/Transforms/ContractionFusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/SaveAndRestore.h"

namespace mlir::qtranspose {

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

uint64_t IntegerRange::getMagnitude() const {
  return std::max(low < 0 ? -uint64_t(low) : uint64_t(low),
                  high < 0 ? -uint64_t(high) : uint64_t(high));
}

bool IntegerRange::fits(unsigned width, bool isSigned) const {
  if (isSigned)
    return llvm::isIntN(width, low) && llvm::isIntN(width, high);
  return low >= 0 && llvm::isUIntN(width, high);
}

std::optional<IntegerRange> getTypeRange(Type type, bool isSigned) {
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer || integer.getWidth() > 32)
    return std::nullopt;
  unsigned width = integer.getWidth();
  return isSigned ? IntegerRange{llvm::minIntN(width), llvm::maxIntN(width)}
                  : IntegerRange{0, int64_t(llvm::maxUIntN(width))};
}

static std::optional<IntegerRange> subtract(std::optional<IntegerRange> lhs,
                                            std::optional<IntegerRange> rhs) {
  IntegerRange result;
  if (!lhs || !rhs || llvm::SubOverflow(lhs->low, rhs->high, result.low) ||
      llvm::SubOverflow(lhs->high, rhs->low, result.high))
    return std::nullopt;
  return result;
}

static std::optional<IntegerRange> add(std::optional<IntegerRange> lhs,
                                       std::optional<IntegerRange> rhs) {
  IntegerRange result;
  if (!lhs || !rhs || llvm::AddOverflow(lhs->low, rhs->low, result.low) ||
      llvm::AddOverflow(lhs->high, rhs->high, result.high))
    return std::nullopt;
  return result;
}

//===----------------------------------------------------------------------===//
// Where tracing ends
//===----------------------------------------------------------------------===//

/// Whether `op` only converts, shifts or scales a value.
static bool isAffineStep(Operation &op, Type result) {
  if (isa<arith::ExtSIOp, arith::ExtUIOp, linalg::YieldOp>(op) ||
      op.hasTrait<OpTrait::ConstantLike>())
    return true;
  // Of eight bits or less, a sum is not a number less a zero point: it wraps.
  if (result.isInteger())
    return result.getIntOrFloatBitWidth() > 8 &&
           isa<arith::AddIOp, arith::SubIOp, arith::TruncIOp>(op);
  return isa<arith::AddIOp, arith::SubIOp, arith::TruncIOp, arith::SIToFPOp,
             arith::UIToFPOp, arith::ExtFOp, arith::TruncFOp, arith::AddFOp,
             arith::SubFOp, arith::MulFOp>(op);
}

/// Whether `value` is computed by more than conversions, zero points and
/// scales, which is then done once and not in a contraction.
static bool isComputed(Value value) {
  Operation *op = value.getDefiningOp();
  Type element = getElementTypeOrSelf(value);
  if (!op || !element.isIntOrFloat())
    return false;
  // An integer constant may be a weight even if all its elements are equal.
  if (op->hasTrait<OpTrait::ConstantLike>())
    return element.isInteger();
  // What is stored is read as it is, unless the layout behind it can be read.
  bool isStored = element.isInteger() && element.getIntOrFloatBitWidth() <= 16;
  if (isDataMovement(op))
    return isStored ||
           isa<tensor::InsertSliceOp, tensor::ConcatOp, tensor::PadOp>(op);
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
    Block *body = linalgOp.getBlock();
    return !body || !llvm::all_of(*body, [&](Operation &inner) {
      return isAffineStep(inner, element);
    });
  }
  return OpTrait::hasElementwiseMappableTraits(op) &&
         !isAffineStep(*op, element);
}

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

namespace {
class Matcher {
public:
  Matcher(linalg::LinalgOp op, ExprPool &pool, Operation *root)
      : pool(pool), tracer(pool, root) {
    tracer.stopAt(isComputed);
    tracer.enterDecided();
    result.op = op;
    result.extents = getLoopExtents(op);
    op.getReductionDims(result.summed);
  }

  std::variant<std::monostate, QuantizedContraction, Refusal> match();

private:
  using Factor = std::optional<QuantizedFactor>;

  Expr readBody(Value value);
  bool matchIntegers(Expr term);
  bool matchFloats(Expr term);
  QuantizedFactor matchInteger(Expr expr, bool isSigned);
  Factor matchFloat(Expr expr);
  Factor subtractZero(QuantizedFactor factor, Expr zero, bool isAdded,
                      unsigned precision);
  Expr asInteger(Expr zero);
  bool isSummed(Expr expr) const {
    return llvm::any_of(getUsedDims(expr), [&](unsigned dim) {
      return llvm::is_contained(result.summed, dim);
    });
  }
  std::optional<IntegerRange> getRange(Expr expr) const;
  void refuse(Reason reason, const llvm::Twine &detail) {
    if (!refusal)
      refusal = Refusal{reason, detail.str()};
  }

  ExprPool &pool;
  Tracer tracer;
  QuantizedContraction result;
  llvm::DenseMap<Value, Expr> known;
  std::optional<Refusal> refusal;
};
} // namespace

/// A value of the body as an expression over the iteration dims, or null.
Expr Matcher::readBody(Value value) {
  if (Expr expr = known.lookup(value))
    return expr;
  linalg::LinalgOp op = result.op;
  Block *body = op.getBlock();
  Expr expr = nullptr;
  auto argument = dyn_cast<BlockArgument>(value);
  TypedAttr constant;
  if (argument && argument.getOwner() == body) {
    OpOperand &operand = op->getOpOperand(argument.getArgNumber());
    if (isa<TensorType>(operand.get().getType()))
      expr = tracer.trace(operand.get(),
                          op.getMatchingIndexingMap(&operand).getResults());
    else if (matchPattern(operand.get(), m_Constant(&constant)))
      expr = pool.constant(constant);
    else
      expr = pool.scalar(operand.get());
  } else if (matchPattern(value, m_Constant(&constant))) {
    expr = pool.constant(constant);
  } else if (argument || value.getDefiningOp()->getBlock() != body) {
    expr = pool.scalar(value);
  } else {
    Operation *inner = value.getDefiningOp();
    if (inner->getNumResults() != 1 || inner->getNumRegions() != 0 ||
        inner->getNumOperands() == 0 || !isPure(inner))
      return nullptr;
    llvm::SmallVector<Expr> operands;
    for (Value operand : inner->getOperands()) {
      operands.push_back(readBody(operand));
      if (!operands.back())
        return nullptr;
    }
    expr = pool.apply(inner->getName(), inner->getAttrDictionary(),
                      value.getType(), operands);
  }
  return known[value] = expr;
}

std::optional<IntegerRange> Matcher::getRange(Expr expr) const {
  llvm::SmallVector<unsigned> dims = getUsedDims(expr);
  if (auto values = foldSum(expr, result.extents, dims, {});
      values && !values->empty()) {
    auto [low, high] = std::minmax_element(values->begin(), values->end());
    return IntegerRange{*low, *high};
  }
  if (expr->isApply("arith.extsi") || expr->isApply("arith.extui"))
    if (std::optional<IntegerRange> inner = getRange(expr->operands[0]);
        inner && inner->fits(expr->operands[0]->type.getIntOrFloatBitWidth(),
                             expr->isApply("arith.extsi")))
      return inner;
  if (expr->isApply("arith.extui"))
    return getTypeRange(expr->operands[0]->type, /*isSigned=*/false);
  if (expr->is(ScalarExpr::Kind::Scalar)) {
    if (auto extension = expr->value.getDefiningOp<arith::ExtUIOp>())
      return getTypeRange(extension.getIn().getType(), /*isSigned=*/false);
    if (auto extension = expr->value.getDefiningOp<arith::ExtSIOp>())
      return getTypeRange(extension.getIn().getType(), /*isSigned=*/true);
  }
  return getTypeRange(expr->type, /*isSigned=*/true);
}

/// `expr`, whose value is read as signed or unsigned.
QuantizedFactor Matcher::matchInteger(Expr expr, bool isSigned) {
  unsigned width = expr->type.getIntOrFloatBitWidth();
  QuantizedFactor whole{expr, isSigned, {}, getTypeRange(expr->type, isSigned)};
  bool extendsSigned = expr->isApply("arith.extsi");
  if (extendsSigned || expr->isApply("arith.extui")) {
    Expr inner = expr->operands[0];
    QuantizedFactor factor = matchInteger(inner, extendsSigned);
    if (factor.zeroPoint.empty() ||
        (factor.range && factor.range->fits(inner->type.getIntOrFloatBitWidth(),
                                            extendsSigned)))
      return factor;
    refuse(Reason::ZeroPointNotBounded,
           "a difference of " +
               llvm::Twine(inner->type.getIntOrFloatBitWidth()) +
               " bits, which may wrap around, is extended");
    return whole;
  }
  if (expr->isApply("arith.trunci")) {
    QuantizedFactor factor = matchInteger(expr->operands[0], /*isSigned=*/true);
    if (factor.zeroPoint.empty())
      return whole;
    if (factor.range && !factor.range->fits(width, isSigned))
      factor.range.reset();
    return factor;
  }
  bool isAdded = expr->isApply("arith.addi");
  if (!isAdded && !expr->isApply("arith.subi"))
    return whole;
  Expr number = expr->operands[0], zero = expr->operands[1];
  if (isSummed(zero) && isAdded)
    std::swap(number, zero);
  if (isSummed(zero)) {
    // Without a summed dim in it, it is a value of its own.
    if (isSummed(number) && !isAdded)
      refuse(Reason::ZeroPointAlongReduction,
             "what is subtracted changes along the sum");
    return whole;
  }
  QuantizedFactor factor = matchInteger(number, isSigned);
  std::optional<IntegerRange> range = getRange(zero);
  range = isAdded ? add(factor.range, range) : subtract(factor.range, range);
  // Below 32 bits, a sum that wraps around is not taken apart.
  bool isExact =
      range && (range->fits(width, true) || range->fits(width, false));
  if (!isExact && width < 32)
    return whole;
  factor.zeroPoint.push_back({zero, isAdded});
  factor.range = isExact ? range : std::nullopt;
  return factor;
}

/// The integer that the float `zero` is, or null.
Expr Matcher::asInteger(Expr zero) {
  Type i32 = IntegerType::get(pool.getContext(), 32);
  if (zero->isApply("arith.extf"))
    return asInteger(zero->operands[0]);
  if (zero->isApply("arith.sitofp") || zero->isApply("arith.uitofp")) {
    Expr inner = zero->operands[0];
    auto precision = APFloat::semanticsPrecision(
        cast<FloatType>(zero->type).getFloatSemantics());
    unsigned width = inner->type.getIntOrFloatBitWidth();
    if (width > precision && !inner->is(ScalarExpr::Kind::Constant))
      return nullptr;
    if (width >= 32)
      return zero->isApply("arith.sitofp") ? inner : nullptr;
    return pool.apply(zero->isApply("arith.sitofp") ? "arith.extsi"
                                                    : "arith.extui",
                      i32, {inner});
  }
  // The values of a constant, if they are integers.
  llvm::SmallVector<unsigned> dims = getUsedDims(zero);
  auto values = foldSum(zero, result.extents, dims, {});
  if (!values || !llvm::all_of(*values, [](int64_t value) {
        return llvm::isInt<32>(value);
      }))
    return nullptr;
  if (dims.empty())
    return pool.integer(i32, values->front());
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<AffineExpr> coordinates;
  for (unsigned dim : dims) {
    shape.push_back(result.extents[dim]);
    coordinates.push_back(getAffineDimExpr(dim, pool.getContext()));
  }
  llvm::SmallVector<int32_t> elements(values->begin(), values->end());
  return pool.table(DenseElementsAttr::get(RankedTensorType::get(shape, i32),
                                           llvm::ArrayRef(elements)),
                    coordinates);
}

Matcher::Factor Matcher::subtractZero(QuantizedFactor factor, Expr zero,
                                      bool isAdded, unsigned precision) {
  if (isSummed(zero)) {
    refuse(Reason::ZeroPointAlongReduction,
           "what is subtracted changes along the sum");
    return std::nullopt;
  }
  Expr integer = asInteger(zero);
  if (!integer) {
    refuse(Reason::ZeroPointNotAnInteger,
           "what is subtracted is not known to be an integer");
    return std::nullopt;
  }
  std::optional<IntegerRange> range = getRange(integer);
  factor.range =
      isAdded ? add(factor.range, range) : subtract(factor.range, range);
  if (!factor.range || !factor.range->fits(precision + 1, true)) {
    refuse(Reason::ZeroPointNotBounded,
           "the float may round the difference from the zero point");
    return std::nullopt;
  }
  factor.zeroPoint.push_back({integer, isAdded});
  return factor;
}

/// A float that is an integer less a zero point; nothing if it is not.
Matcher::Factor Matcher::matchFloat(Expr expr) {
  auto type = cast<FloatType>(expr->type);
  unsigned precision = APFloat::semanticsPrecision(type.getFloatSemantics());
  if (expr->isApply("arith.extf"))
    return matchFloat(expr->operands[0]);
  bool isSigned = expr->isApply("arith.sitofp");
  if (isSigned || expr->isApply("arith.uitofp")) {
    Expr inner = expr->operands[0];
    QuantizedFactor factor = matchInteger(inner, isSigned);
    unsigned width = inner->type.getIntOrFloatBitWidth();
    if (!factor.range || !factor.range->fits(width, isSigned) ||
        !factor.range->fits(precision + 1, true)) {
      refuse(Reason::ZeroPointNotBounded,
             "the float may round the difference from the zero point");
      return std::nullopt;
    }
    return factor;
  }
  bool isAdded = expr->isApply("arith.addf");
  if (!isAdded && !expr->isApply("arith.subf"))
    return std::nullopt;
  Expr number = expr->operands[0], zero = expr->operands[1];
  if (isAdded && isSummed(zero) && !isSummed(number))
    std::swap(number, zero);
  // A scaled value less something: an offset that is not in steps of the
  // stored integer.
  if (number->isApply("arith.mulf")) {
    bool isScaled = llvm::any_of(number->operands, [&](Expr factor) {
      llvm::SaveAndRestore keep(refusal);
      return isSummed(factor) && matchFloat(factor);
    });
    if (isScaled)
      refuse(Reason::ZeroPointNotAnInteger, "it is subtracted after scaling");
    return std::nullopt;
  }
  Factor factor = matchFloat(number);
  return factor ? subtractZero(*factor, zero, isAdded, precision)
                : std::nullopt;
}

bool Matcher::matchIntegers(Expr term) {
  // Extended after multiplying: the product must not wrap around.
  unsigned exactWidth = 0;
  bool isSigned = true;
  while (term->isApply("arith.extsi") || term->isApply("arith.extui") ||
         term->isApply("arith.trunci")) {
    if (!term->isApply("arith.trunci")) {
      isSigned = term->isApply("arith.extsi");
      exactWidth = term->operands[0]->type.getIntOrFloatBitWidth();
    }
    term = term->operands[0];
  }
  if (!term->isApply("arith.muli"))
    return false;
  bool isQuantized = false;
  for (auto [factor, operand] : llvm::zip(result.factors, term->operands)) {
    factor = matchInteger(operand, /*isSigned=*/true);
    isQuantized |= !factor.zeroPoint.empty();
  }
  if (!isQuantized && !refusal)
    return false;
  if (exactWidth != 0) {
    const auto &a = result.factors[0].range, &b = result.factors[1].range;
    int64_t bound;
    bool isExact =
        a && b &&
        !llvm::MulOverflow(int64_t(a->getMagnitude()),
                           int64_t(b->getMagnitude()), bound) &&
        IntegerRange{isSigned ? -bound : 0, bound}.fits(exactWidth, isSigned) &&
        (isSigned || (a->low >= 0 && b->low >= 0));
    if (!isExact)
      refuse(Reason::ZeroPointNotBounded,
             "a product that may wrap around is extended");
  }
  return true;
}

bool Matcher::matchFloats(Expr term) {
  llvm::SmallVector<Expr, 2> worklist{term}, numbers;
  while (!worklist.empty()) {
    Expr expr = worklist.pop_back_val();
    if (expr->isApply("arith.mulf")) {
      worklist.append({expr->operands[1], expr->operands[0]});
      continue;
    }
    (isSummed(expr) ? numbers : result.scales).push_back(expr);
  }
  // Where one term is summed, its index is a constant.
  for (Expr *scale = result.scales.begin();
       numbers.size() < 2 && scale != result.scales.end();) {
    if ((*scale)->isApply("arith.sitofp") ||
        (*scale)->isApply("arith.uitofp") || (*scale)->isApply("arith.subf")) {
      numbers.push_back(*scale);
      scale = result.scales.erase(scale);
    } else {
      ++scale;
    }
  }
  llvm::SmallVector<QuantizedFactor> quantized;
  unsigned numIntegers = 0;
  std::optional<Refusal> first;
  for (Expr number : numbers) {
    Factor factor = matchFloat(number);
    if (factor)
      quantized.push_back(*factor);
    numIntegers += factor || refusal;
    if (refusal && !first)
      first = refusal;
    refusal.reset();
  }
  if (numIntegers < 2) {
    // Only the weight is quantized.
    if (numIntegers == 1)
      refuse(Reason::ActivationNotQuantized,
             "the other factor is not an integer that was dequantized");
    return numIntegers == 1;
  }
  refusal = first;
  if (refusal)
    return true;
  if (numbers.size() > 2) {
    refuse(Reason::ScaleAlongReduction, "a scale changes along the sum");
    return true;
  }
  result.factors = {quantized[0], quantized[1]};
  return true;
}

std::variant<std::monostate, QuantizedContraction, Refusal> Matcher::match() {
  linalg::LinalgOp op = result.op;
  Block *body = op.getBlock();
  Operation *sum = body->getTerminator()->getOperand(0).getDefiningOp();
  Value accumulator = body->getArguments().back();
  Value value = sum->getOperand(sum->getOperand(0) == accumulator ? 1 : 0);
  Expr term = value == accumulator ? nullptr : readBody(value);
  if (!term || !isa<IntegerType, FloatType>(term->type))
    return std::monostate();
  bool isFloat = isa<FloatType>(term->type);
  if (!(isFloat ? matchFloats(term) : matchIntegers(term)))
    return std::monostate();
  if (refusal)
    return *refusal;
  llvm::append_range(result.tracedOps, tracer.getTracedOps());
  return std::move(result);
}

std::variant<std::monostate, QuantizedContraction, Refusal>
matchQuantizedContraction(linalg::LinalgOp op, ExprPool &pool,
                          Operation *root) {
  if (!isContraction(op)) {
    bool subtracts = op.hasPureBufferSemantics() &&
                     op.getNumReductionLoops() != 0 && op.getBlock() &&
                     llvm::any_of(*op.getBlock(), llvm::IsaPred<arith::SubIOp>);
    if (subtracts)
      return Refusal{Reason::MemrefOperands, "the op works on memrefs"};
    return std::monostate();
  }
  return Matcher(op, pool, root).match();
}

} // namespace mlir::qtranspose
