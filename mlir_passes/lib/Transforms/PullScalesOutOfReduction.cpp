//===- PullScalesOutOfReduction.cpp - one scale per sum of a group --------===//
//
//   y = sum_g sum_k x * ((q - z) * s)
//   y = sum_g s * (sum_k x * q - z * sum_k x)
//
// The terms of a sum are written as sums of products; the factors of a product
// that do not depend on the inner dims are multiplied after summing over them.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Analysis/Elementwise.h"
#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/ContractionFusion.h"
#include "qtranspose/Utils/EmitExpr.h"
#include "qtranspose/Utils/Remarks.h"

#include "llvm/ADT/SmallBitVector.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_PULLSCALESOUTOFREDUCTION
#include "qtranspose/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral passName =
    "qtranspose-pull-scales-out-of-reduction";

/// A sum of at most this many terms may be taken over values that are not
/// centered yet. In longer ones the zero points stay inside: what they take
/// away would have cost accuracy.
constexpr int64_t maxUncentered = 512;

/// Products that a term may have: `x * ((q - z) * s + b)` has three.
constexpr size_t maxProducts = 4;

//===----------------------------------------------------------------------===//
// Terms as sums of products
//===----------------------------------------------------------------------===//

/// A value of the body as a number of the accumulator's type: extended, or
/// converted by an op like `conversion` (`sitofp`, `uitofp`) if there is one.
struct Factor {
  Value value;
  Operation *conversion = nullptr;

  bool operator==(const Factor &other) const {
    return value == other.value && conversion == other.conversion;
  }
};
using Factors = llvm::SmallVector<Factor, 2>;

/// What is multiplied before summing over the inner dims, and after.
struct Product {
  bool isNegative = false;
  Factors outer, inner;
};
using Products = llvm::SmallVector<Product>;

/// Reads the terms of a contraction. With `excessPrecision`, intermediate
/// results that are rounded to a narrower type count as not rounded.
class TermReader {
public:
  TermReader(linalg::LinalgOp op, FloatType type, bool excessPrecision);

  /// The terms, for a sum over `innerDims` first.
  Products read(const llvm::SmallBitVector &innerDims);

  llvm::SmallBitVector getDims(Value value) const {
    auto it = dims.find(value);
    return it == dims.end() ? llvm::SmallBitVector(numDims) : it->second;
  }
  llvm::SmallBitVector getDims(llvm::ArrayRef<Factor> factors) const {
    llvm::SmallBitVector found(numDims);
    for (const Factor &factor : factors)
      found |= getDims(factor.value);
    return found;
  }
  /// The body has a `linalg.index`, which knows dims by their numbers.
  bool usesIndex = false;

private:
  Products visit(Value value);
  Products visitSum(Value whole, Value a, Value b, bool isDifference);
  Products visitConversion(Operation *op);
  bool isRounded(Value value);
  bool isOuter(Value value) const { return !getDims(value).anyCommon(inner); }
  Products atom(Value value, Operation *conversion = nullptr) const {
    Product product;
    (isOuter(value) ? product.outer : product.inner)
        .push_back({value, conversion});
    return {product};
  }
  bool isNarrower(Value value) {
    auto other = dyn_cast<FloatType>(value.getType());
    return other && other.getWidth() <= type.getWidth();
  }

  FloatType type;
  bool excessPrecision;
  unsigned numDims;
  Value term;
  llvm::DenseMap<Value, llvm::SmallBitVector> dims;
  llvm::SmallBitVector inner;
  llvm::SmallVector<int64_t> extents;
  bool isShort = false; ///< the sum over the inner dims
};

TermReader::TermReader(linalg::LinalgOp op, FloatType type,
                       bool excessPrecision)
    : type(type), excessPrecision(excessPrecision), numDims(op.getNumLoops()),
      extents(op.getStaticLoopRanges()) {
  for (OpOperand &operand : op->getOpOperands()) {
    llvm::SmallBitVector found(numDims);
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (unsigned dim = 0; dim < numDims; ++dim)
      if (map.isFunctionOfDim(dim))
        found.set(dim);
    dims[op.getMatchingBlockArgument(&operand)] = found;
  }
  Block *body = op.getBlock();
  for (Operation &inner : body->without_terminator()) {
    llvm::SmallBitVector found(numDims);
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      usesIndex = true;
      found.set(index.getDim());
    }
    for (Value operand : inner.getOperands())
      found |= getDims(operand);
    for (Value result : inner.getResults())
      dims[result] = found;
  }
  Operation *sum = body->getTerminator()->getOperand(0).getDefiningOp();
  bool isFirst = sum->getOperand(0) == body->getArguments().back();
  term = sum->getOperand(isFirst ? 1 : 0);
}

Products TermReader::read(const llvm::SmallBitVector &innerDims) {
  inner = innerDims;
  int64_t terms = 1;
  for (unsigned dim : inner.set_bits())
    terms = ShapedType::isDynamic(extents[dim]) || terms > maxUncentered
                ? maxUncentered + 1
                : terms * extents[dim];
  isShort = terms <= maxUncentered;
  return visit(term);
}

Products TermReader::visitSum(Value whole, Value a, Value b,
                              bool isDifference) {
  auto hasScale = [](const Product &product) {
    return !product.outer.empty() && !product.inner.empty();
  };
  Products products = visit(a), others = visit(b);
  bool isShift = isOuter(a) != isOuter(b);
  if (!(isShort && isShift) && llvm::none_of(products, hasScale) &&
      llvm::none_of(others, hasScale))
    return atom(whole);
  if (products.size() + others.size() > maxProducts)
    return atom(whole);
  for (Product &product : others) {
    product.isNegative ^= isDifference;
    products.push_back(product);
  }
  return products;
}

/// Integers widened before they are subtracted do not wrap, so they may be
/// converted before that.
Products TermReader::visitConversion(Operation *op) {
  Value value = op->getOperand(0);
  // Too big for the type that is left out: infinity.
  if (op->getResult(0).getType().isF16() &&
      value.getType().getIntOrFloatBitWidth() >= 16)
    return atom(op->getResult(0));
  auto difference = value.getDefiningOp<arith::SubIOp>();
  if (!difference || !isShort ||
      isOuter(difference.getLhs()) == isOuter(difference.getRhs()))
    return atom(value, op);
  Products products;
  for (Value side : difference->getOperands()) {
    Operation *extension = side.getDefiningOp();
    if (!isa_and_nonnull<arith::ExtSIOp, arith::ExtUIOp>(extension))
      return atom(value, op);
    products.append(atom(side, op));
  }
  products.back().isNegative = true;
  return products;
}

/// What is rounded to a narrower type stays rounded, if that changes it.
bool TermReader::isRounded(Value value) {
  auto narrow = dyn_cast<FloatType>(value.getType());
  if (excessPrecision || !narrow || narrow.getWidth() >= type.getWidth())
    return false;
  Operation *op = value.getDefiningOp();
  return !isa_and_nonnull<arith::SIToFPOp, arith::UIToFPOp>(op) ||
         op->getOperand(0).getType().getIntOrFloatBitWidth() >
             narrow.getFPMantissaWidth();
}

Products TermReader::visit(Value value) {
  Operation *op = value.getDefiningOp();
  if (isOuter(value) || !op || isa<BlockArgument>(value) || isRounded(value))
    return atom(value);
  if (auto sum = dyn_cast<arith::AddFOp>(op))
    return visitSum(value, sum.getLhs(), sum.getRhs(), false);
  if (auto difference = dyn_cast<arith::SubFOp>(op))
    return visitSum(value, difference.getLhs(), difference.getRhs(), true);
  if (auto product = dyn_cast<arith::MulFOp>(op)) {
    Products left = visit(product.getLhs()), right = visit(product.getRhs());
    if (left.size() * right.size() > maxProducts)
      return atom(value);
    Products products;
    for (const Product &a : left)
      for (const Product &b : right) {
        Product both = a;
        both.isNegative ^= b.isNegative;
        llvm::append_range(both.outer, b.outer);
        llvm::append_range(both.inner, b.inner);
        products.push_back(std::move(both));
      }
    return products;
  }
  if (isa<arith::ExtFOp, arith::TruncFOp>(op) && isNarrower(op->getOperand(0)))
    return visit(op->getOperand(0));
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op))
    return visitConversion(op);
  return atom(value);
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

/// A `linalg.generic` over some dims of another op, with parts of its body.
class PartialOp {
public:
  /// Of the dims, those in `sums` are summed over.
  PartialOp(linalg::LinalgOp op, const llvm::SmallBitVector &dims,
            const llvm::SmallBitVector &sums)
      : op(op), dims(dims), sums(sums) {}

  /// An input, by a map over the dims of the original op.
  BlockArgument addInput(Value value, AffineMap map) {
    inputs.push_back(value);
    maps.push_back(map);
    return body.addArgument(getElementTypeOrSelf(value), op.getLoc());
  }
  /// `factor` in the type of the accumulator.
  Value emit(OpBuilder &b, const Factor &factor, FloatType type) {
    Value value = clone(b, factor.value);
    if (factor.conversion) {
      Operation *conversion = b.clone(*factor.conversion);
      conversion->setOperand(0, value);
      conversion->getResult(0).setType(type);
      return conversion->getResult(0);
    }
    if (value.getType() == type)
      return value;
    return arith::ExtFOp::create(b, op.getLoc(), type, value);
  }
  /// The product of `factors`, times `times`; null if there is none of them.
  Value emit(OpBuilder &b, llvm::ArrayRef<Factor> factors, FloatType type,
             Value product = {}) {
    for (const Factor &factor : factors) {
      Value value = emit(b, factor, type);
      product = product ? arith::MulFOp::create(b, op.getLoc(), product, value)
                        : value;
    }
    return product;
  }
  OpBuilder getBodyBuilder() {
    OpBuilder b(op.getContext());
    b.setInsertionPointToEnd(&body);
    return b;
  }

  /// `yield` makes the value that is yielded from the present output.
  Value finish(RewriterBase &rewriter, Value init, AffineMap map,
               llvm::function_ref<Value(OpBuilder &, Value)> yield) {
    BlockArgument output = addInput(init, map);
    inputs.pop_back();
    llvm::SmallVector<unsigned> number(dims.size());
    llvm::SmallVector<utils::IteratorType> iterators;
    for (unsigned dim : dims.set_bits()) {
      number[dim] = iterators.size();
      iterators.push_back(sums.test(dim) ? utils::IteratorType::reduction
                                         : utils::IteratorType::parallel);
    }
    llvm::SmallVector<AffineMap> compressed;
    for (AffineMap old : maps) {
      llvm::SmallVector<AffineExpr> results;
      for (AffineExpr result : old.getResults())
        results.push_back(rewriter.getAffineDimExpr(
            number[cast<AffineDimExpr>(result).getPosition()]));
      compressed.push_back(
          AffineMap::get(iterators.size(), 0, results, rewriter.getContext()));
    }
    OpBuilder b = getBodyBuilder();
    linalg::YieldOp::create(b, op.getLoc(), yield(b, output));
    auto made = linalg::GenericOp::create(rewriter, op.getLoc(), init.getType(),
                                          inputs, init, compressed, iterators);
    Region &region = made.getRegion();
    region.push_back(new Block());
    Block &target = region.front();
    for (BlockArgument argument : body.getArguments())
      argument.replaceAllUsesWith(
          target.addArgument(argument.getType(), argument.getLoc()));
    target.getOperations().splice(target.end(), body.getOperations());
    return made.getResult(0);
  }

private:
  Value clone(OpBuilder &b, Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Value made;
    if (auto argument = dyn_cast<BlockArgument>(value);
        argument && argument.getOwner() == op.getBlock()) {
      OpOperand &operand = op->getOpOperand(argument.getArgNumber());
      made = addInput(operand.get(), op.getMatchingIndexingMap(&operand));
    } else if (Operation *inner = value.getDefiningOp();
               inner && inner->getBlock() == op.getBlock()) {
      for (Value operand : inner->getOperands())
        mapping.map(operand, clone(b, operand));
      made = b.clone(*inner, mapping)->getResult(0);
    } else {
      made = value;
    }
    mapping.map(value, made);
    return made;
  }

  linalg::LinalgOp op;
  llvm::SmallBitVector dims, sums;
  llvm::SmallVector<Value> inputs;
  llvm::SmallVector<AffineMap> maps;
  IRMapping mapping;
  Block body;
};

struct Plan {
  llvm::SmallBitVector inner; ///< dims that are summed over first
  Products products;
  /// Per product, how many equal terms its sum stands for.
  llvm::SmallVector<int64_t> times;
};

class ScalePuller {
public:
  ScalePuller(linalg::LinalgOp op, FloatType type, bool excessPrecision)
      : op(op), type(type), reader(op, type, excessPrecision),
        extents(op.getStaticLoopRanges()) {}

  /// Nothing if the op has no scale per group; nothing is changed.
  std::optional<Plan> find();
  std::optional<Refusal> check(Plan &plan);
  void apply(RewriterBase &rewriter, const Plan &plan);

private:
  linalg::LinalgOp op;
  FloatType type;
  TermReader reader;
  llvm::SmallVector<int64_t> extents;
};

std::optional<Plan> ScalePuller::find() {
  llvm::SmallBitVector sums(extents.size());
  for (auto [dim, iterator] : llvm::enumerate(op.getIteratorTypesArray()))
    if (iterator == utils::IteratorType::reduction)
      sums.set(dim);
  // What some operand does not have, the most first.
  llvm::SmallVector<llvm::SmallBitVector> candidates;
  for (OpOperand *input : op.getDpsInputOperands()) {
    llvm::SmallBitVector missing = sums;
    missing.reset(reader.getDims(op.getMatchingBlockArgument(input)));
    if (missing.any() && !llvm::is_contained(candidates, missing))
      candidates.push_back(missing);
  }
  llvm::stable_sort(candidates, [](const auto &a, const auto &b) {
    return a.count() > b.count();
  });
  for (const llvm::SmallBitVector &candidate : candidates) {
    Products products = reader.read(candidate);
    if (llvm::any_of(products, [&](const Product &product) {
          return !product.inner.empty() && reader.getDims(product.outer).any();
        }))
      return Plan{candidate, products, {}};
  }
  return std::nullopt;
}

std::optional<Refusal> ScalePuller::check(Plan &plan) {
  if (reader.usesIndex)
    return Refusal{Reason::SumNotSeparable,
                   "the body depends on the position of the element"};
  if (type != getElementTypeOrSelf(op.getDpsInits()[0].getType()))
    return Refusal{Reason::SumNotSeparable,
                   "the sum is kept in less than 32 bits"};
  for (OpOperand &operand : op->getOpOperands()) {
    auto tensor = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!op.getMatchingIndexingMap(&operand).isProjectedPermutation() ||
        (tensor && tensor.getEncoding()))
      return Refusal{Reason::SumNotSeparable,
                     "an operand is not indexed by single dims"};
  }
  llvm::SmallBitVector bound = plan.inner;
  for (const Product &product : plan.products) {
    bound |= reader.getDims(product.outer);
    bound |= reader.getDims(product.inner);
    llvm::SmallBitVector missing = plan.inner;
    missing.reset(reader.getDims(product.inner));
    int64_t times = 1;
    for (unsigned dim : missing.set_bits()) {
      if (ShapedType::isDynamic(extents[dim]))
        return Refusal{Reason::SumNotSeparable,
                       "the number of equal terms is not static"};
      times *= extents[dim];
    }
    plan.times.push_back(times);
  }
  for (auto [dim, iterator] : llvm::enumerate(op.getIteratorTypesArray()))
    if (iterator == utils::IteratorType::reduction && !bound.test(dim))
      return Refusal{Reason::SumNotSeparable,
                     "only an operand that is not used has one of the dims"};
  return std::nullopt;
}

void ScalePuller::apply(RewriterBase &rewriter, const Plan &plan) {
  Location loc = op.getLoc();
  rewriter.setInsertionPoint(op);
  llvm::SmallVector<Range> ranges = op.createLoopRanges(rewriter, loc);
  llvm::SmallBitVector outerDims(extents.size(), true);
  outerDims.reset(plan.inner);
  llvm::SmallBitVector outerSums = outerDims;
  for (auto [dim, iterator] : llvm::enumerate(op.getIteratorTypesArray()))
    if (iterator == utils::IteratorType::parallel)
      outerSums.reset(dim);
  PartialOp outer(op, outerDims, outerSums);

  Factors common = plan.products.front().outer;
  for (const Product &product : plan.products)
    llvm::erase_if(common, [&](const Factor &factor) {
      return !llvm::is_contained(product.outer, factor);
    });

  // The sums over the inner dims, which the outer op reads.
  llvm::SmallVector<Value> sums;
  for (const Product &product : plan.products) {
    if (product.inner.empty()) {
      sums.push_back({});
      continue;
    }
    llvm::SmallBitVector dims = reader.getDims(product.inner);
    llvm::SmallVector<OpFoldResult> sizes;
    llvm::SmallVector<AffineExpr> results;
    for (unsigned dim : dims.set_bits())
      if (!plan.inner.test(dim)) {
        sizes.push_back(ranges[dim].size);
        results.push_back(rewriter.getAffineDimExpr(dim));
      }
    AffineMap map =
        AffineMap::get(extents.size(), 0, results, rewriter.getContext());
    Value zero =
        arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type));
    Value empty = tensor::EmptyOp::create(rewriter, loc, sizes, type);
    Value init =
        linalg::FillOp::create(rewriter, loc, zero, empty).getResult(0);
    PartialOp inner(op, dims, plan.inner);
    OpBuilder b = inner.getBodyBuilder();
    Value term = inner.emit(b, product.inner, type);
    Value sum = inner.finish(
        rewriter, init, map, [&](OpBuilder &b, Value output) -> Value {
          return arith::AddFOp::create(b, loc, output, term);
        });
    sums.push_back(outer.addInput(sum, map));
  }

  OpBuilder b = outer.getBodyBuilder();
  Value total;
  for (auto [product, sum, times] :
       llvm::zip_equal(plan.products, sums, plan.times)) {
    Factors own = product.outer;
    for (const Factor &factor : common)
      own.erase(llvm::find(own, factor));
    Value value = outer.emit(b, own, type, sum);
    if (times != 1 || !value) {
      Value count = arith::ConstantOp::create(
          b, loc, b.getFloatAttr(type, static_cast<double>(times)));
      value = value ? arith::MulFOp::create(b, loc, value, count) : count;
    }
    if (!total)
      total = product.isNegative ? arith::NegFOp::create(b, loc, value) : value;
    else if (product.isNegative)
      total = arith::SubFOp::create(b, loc, total, value);
    else
      total = arith::AddFOp::create(b, loc, total, value);
  }
  total = outer.emit(b, common, type, total);
  OpOperand *init = op.getDpsInitOperand(0);
  Value result =
      outer.finish(rewriter, init->get(), op.getMatchingIndexingMap(init),
                   [&](OpBuilder &b, Value output) -> Value {
                     return arith::AddFOp::create(b, loc, output, total);
                   });
  for (NamedAttribute attribute : getDiscardableAttrs(op))
    result.getDefiningOp()->setDiscardableAttr(attribute.getName(),
                                               attribute.getValue());
  llvm::SmallVector<Value> operands(op->getOperands());
  rewriter.replaceOp(op, result);
  eraseIfDead(rewriter, operands);
}

struct PullScalesOutOfReduction
    : impl::PullScalesOutOfReductionBase<PullScalesOutOfReduction> {
  using PullScalesOutOfReductionBase::PullScalesOutOfReductionBase;

  void runOnOperation() override {
    llvm::SmallVector<linalg::LinalgOp> ops;
    getOperation()->walk([&](linalg::LinalgOp op) {
      if (isContraction(op) &&
          isa<FloatType>(getElementTypeOrSelf(op.getDpsInits()[0].getType())))
        ops.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (linalg::LinalgOp op : ops) {
      auto type =
          cast<FloatType>(getElementTypeOrSelf(op.getDpsInits()[0].getType()));
      if (type.getWidth() < 32)
        type = rewriter.getF32Type();
      ScalePuller puller(op, type, excessPrecision);
      std::optional<Plan> plan = puller.find();
      if (!plan) {
        if (!excessPrecision && ScalePuller(op, type, true).find())
          remarkRefused(
              op, passName,
              {Reason::ReassociationNotAllowed, "excess-precision is not set"});
        continue;
      }
      std::optional<Refusal> refusal = puller.check(*plan);
      if (!refusal && !allowReassociation)
        refusal = Refusal{Reason::ReassociationNotAllowed,
                          "allow-reassociation is not set"};
      if (refusal) {
        remarkRefused(op, passName, *refusal);
        continue;
      }
      remarkPassed(op, passName, "pulled", "");
      puller.apply(rewriter, *plan);
    }
  }
};
} // namespace
} // namespace mlir::qtranspose
