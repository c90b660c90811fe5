//===- ContractionFusion.cpp - contractions over virtual tensors ----------===//

#include "qtranspose/Transforms/ContractionFusion.h"

#include "qtranspose/Analysis/Elementwise.h"
#include "qtranspose/Analysis/PieceUnification.h"
#include "qtranspose/Utils/EmitExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

namespace mlir::qtranspose {

// Cutting a contraction pays for a few concatenated weights; more would
// replace one contraction by a long chain of small ones.
static constexpr unsigned maxParts = 16;

bool isContraction(Operation *operation) {
  auto op = dyn_cast<linalg::LinalgOp>(operation);
  if (!op || !op.hasPureTensorSemantics() || op.getNumReductionLoops() == 0 ||
      op->getNumResults() != 1 || op.getNumDpsInits() != 1)
    return false;
  Block *body = op.getBlock();
  if (!body || body->getNumArguments() != op->getNumOperands())
    return false;
  Value accumulator = body->getArguments().back();
  Operation *sum = body->getTerminator()->getOperand(0).getDefiningOp();
  return sum && isa<arith::AddFOp, arith::AddIOp>(sum) &&
         llvm::is_contained(sum->getOperands(), accumulator) &&
         accumulator.hasOneUse();
}

llvm::SmallVector<int64_t> getLoopExtents(linalg::LinalgOp op) {
  llvm::SmallVector<int64_t> extents(op.getNumLoops(), ShapedType::kDynamic);
  for (OpOperand &operand : op->getOpOperands())
    for (auto [result, size] :
         llvm::zip(op.getMatchingIndexingMap(&operand).getResults(),
                   op.getShape(&operand)))
      if (auto dim = dyn_cast<AffineDimExpr>(result);
          dim && !ShapedType::isDynamic(size))
        extents[dim.getPosition()] = size;
  return extents;
}

static bool hasEncoding(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getEncoding();
}

static std::string describeSource(Expr leaf) {
  Operation *definition = leaf->value.getDefiningOp();
  if (!definition)
    return "reads a block argument";
  return ("reads the result of '" + definition->getName().getStringRef() + "'")
      .str();
}

static std::optional<Refusal> checkLeaves(const TracedOperand &traced,
                                          unsigned numStorageDims) {
  std::optional<Refusal> refusal;
  walkExpr(traced.expr, [&](Expr node) {
    if (refusal || !node->is(ScalarExpr::Kind::Leaf))
      return;
    if (node->stopReason == Reason::TensorEncoding ||
        (node->value && hasEncoding(node->value))) {
      refusal = Refusal{Reason::TensorEncoding, "an operand of the weight"};
      return;
    }
    if (!node->stopReason)
      return;
    // A run-time vector (an activation in `sum(x * w)`) may be read in place; a
    // run-time tensor as large as the weight means that the weight itself is
    // computed.
    llvm::SmallDenseSet<unsigned> dims;
    for (AffineExpr coordinate : node->coordinates)
      if (coordinate)
        coordinate.walk([&](AffineExpr part) {
          if (auto dim = dyn_cast<AffineDimExpr>(part))
            dims.insert(dim.getPosition());
        });
    if (dims.size() < numStorageDims)
      return;
    refusal = Refusal{*node->stopReason, describeSource(node)};
  });
  return refusal;
}

/// The values that `value` is computed from, one step back.
static void appendSources(Value value, llvm::SmallVectorImpl<Value> &sources) {
  if (Operation *definition = value.getDefiningOp()) {
    llvm::append_range(sources, definition->getOperands());
    return;
  }
  auto argument = cast<BlockArgument>(value);
  Block *block = argument.getOwner();
  if (auto loop = dyn_cast<LoopLikeOpInterface>(block->getParentOp()))
    if (OpOperand *init = loop.getTiedLoopInit(argument))
      sources.push_back(init->get());
  for (auto it = block->pred_begin(), end = block->pred_end(); it != end; ++it)
    if (auto branch = dyn_cast<BranchOpInterface>((*it)->getTerminator()))
      if (Value passed = branch.getSuccessorOperands(
              it.getSuccessorIndex())[argument.getArgNumber()])
        sources.push_back(passed);
}

/// True if a stored weight lies not far behind `value`, where tracing stopped:
/// the refusal is then worth reporting.
static bool hidesWeight(Value value) {
  constexpr unsigned maxValues = 64;
  llvm::SetVector<Value> seen;
  seen.insert(value);
  for (unsigned next = 0; next < seen.size() && next < maxValues; ++next) {
    Value current = seen[next];
    auto type = dyn_cast<RankedTensorType>(current.getType());
    bool isSource =
        isa<BlockArgument>(current) ||
        current.getDefiningOp()->hasTrait<OpTrait::ConstantLike>() ||
        isa<ml_program::GlobalLoadOp>(current.getDefiningOp());
    // Token ids and masks are integers too.
    unsigned bits = type ? getElementBits(type) : 0;
    if (isSource && type && type.getRank() >= 2 && hasQuantizedStorage(type) &&
        bits > 1 && bits <= 32)
      return true;
    // What was contracted already is an activation.
    if (Operation *definition = current.getDefiningOp())
      if (isContraction(definition))
        continue;
    llvm::SmallVector<Value> sources;
    appendSources(current, sources);
    seen.insert_range(sources);
  }
  return false;
}

/// Why an operand in which no storage was found is not fused, if a weight lies
/// behind the place where tracing stopped.
static std::optional<Refusal> findHiddenWeight(Expr expr) {
  std::optional<Refusal> refusal;
  walkExpr(expr, [&](Expr node) {
    if (refusal || !node->is(ScalarExpr::Kind::Leaf) || !node->stopReason ||
        node->stopReason == Reason::AlreadyDecided ||
        node->stopReason == Reason::ComputedAtRunTime ||
        !hidesWeight(node->value))
      return;
    refusal = Refusal{*node->stopReason, describeSource(node)};
  });
  return refusal;
}

llvm::SmallVector<TracedOperand, 0>
traceOperands(linalg::LinalgOp op, ExprPool &pool, Tracer &tracer) {
  llvm::SmallVector<TracedOperand, 0> operands;
  llvm::SmallVector<int64_t> extents = getLoopExtents(op);
  auto iterators = op.getIteratorTypesArray();
  for (OpOperand *operand : op.getDpsInputOperands()) {
    if (!isa<RankedTensorType>(operand->get().getType()))
      continue;
    AffineMap map = op.getMatchingIndexingMap(operand);
    TracedOperand traced;
    traced.operand = operand;
    traced.expr = tracer.trace(operand->get(), map.getResults());
    traced.reuse = 1;
    for (auto [dim, extent] : llvm::enumerate(extents)) {
      if (map.isFunctionOfDim(dim) ||
          iterators[dim] != utils::IteratorType::parallel || extent == 1)
        continue;
      traced.reuse = traced.reuse && !ShapedType::isDynamic(extent)
                         ? std::optional(*traced.reuse * extent)
                         : std::nullopt;
    }
    llvm::SmallDenseSet<unsigned> storageDims;
    walkExpr(traced.expr, [&](Expr node) {
      if (!node->value || node->is(ScalarExpr::Kind::Scalar) ||
          node->getTensorType().getRank() < 2)
        return;
      Value source = skipViews(node->value);
      bool isArgument = isa<BlockArgument>(source) && !node->stopReason;
      if (!isConstantTensor(node->value) &&
          !(isArgument && hasQuantizedStorage(node->value.getType())))
        return;
      traced.storage.push_back(node);
      for (AffineExpr coordinate : node->coordinates)
        if (coordinate)
          coordinate.walk([&](AffineExpr part) {
            if (auto dim = dyn_cast<AffineDimExpr>(part))
              storageDims.insert(dim.getPosition());
          });
    });
    traced.refusal =
        traced.storage.empty()
            ? findHiddenWeight(traced.expr)
            : checkLeaves(traced, std::max<size_t>(storageDims.size(), 2));
    operands.push_back(std::move(traced));
  }
  return operands;
}

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

/// Elements of the tensor that a leaf reads; dynamic extents count as one.
static int64_t numStoredElements(Expr leaf) {
  int64_t count = 1;
  for (int64_t extent : leaf->getTensorType().getShape())
    count *= ShapedType::isDynamic(extent) ? 1 : extent;
  return count;
}

namespace {
/// Rewrites expressions over iteration dims into expressions over factors,
/// choosing or unifying pieces on the way.
class Resolver {
public:
  Resolver(ExprPool &pool, const IndexSpace &space,
           llvm::ArrayRef<AffineExpr> shifted)
      : pool(pool), space(space), shifted(shifted) {}

  /// Elements of the largest tensor that the expressions read.
  int64_t largestLeaf = 0;
  /// True if a sum has terms past its end.
  bool extended = false;
  /// True for leaves that get zeros for those terms.
  std::function<bool(Expr)> isPadded;

  std::optional<std::pair<unsigned, llvm::SmallVector<int64_t>>> cut;
  std::optional<Refusal> refusal;

  Expr resolve(Expr expr) {
    if (Expr done = memo.lookup(expr))
      return done;
    Expr result = expr->is(ScalarExpr::Kind::Pieces) ? resolvePieces(expr)
                                                     : resolveOther(expr);
    if (result)
      memo[expr] = result;
    return result;
  }

private:
  std::optional<LinearForm> linear(AffineExpr coordinate) {
    if (!coordinate)
      return std::nullopt;
    return space.getLinearForm(coordinate.replaceDims(shifted));
  }

  Expr refuse(const llvm::Twine &detail) {
    if (!refusal)
      refusal = Refusal{Reason::NotFactorable, detail.str()};
    return nullptr;
  }

  Expr resolveOther(Expr expr) {
    llvm::SmallVector<Expr> operands;
    for (Expr operand : expr->operands) {
      operands.push_back(resolve(operand));
      if (!operands.back())
        return nullptr;
    }
    Expr rebuilt = pool.withOperands(expr, operands);
    if (expr->coordinates.empty())
      return rebuilt;
    bool allLinear = true;
    for (auto [dim, coordinate] : llvm::enumerate(expr->coordinates)) {
      std::optional<LinearForm> form = linear(coordinate);
      allLinear &= form && (expr->is(ScalarExpr::Kind::Index) ||
                            isInside(*form, expr, dim));
    }
    if (allLinear)
      return pool.mapCoordinates(rebuilt, [&](AffineExpr coordinate) {
        return space.toAffine(*linear(coordinate));
      });
    if (llvm::is_contained(expr->coordinates, AffineExpr()))
      return refuse("a coordinate divides by a dynamic extent");
    // A parameter whose groups do not nest with those of the weight is read by
    // computed indices; the weight itself never is.
    if (expr->is(ScalarExpr::Kind::Leaf) && expr->value &&
        numStoredElements(expr) < largestLeaf) {
      llvm::SmallVector<Expr> indices;
      for (auto [dim, coordinate] : llvm::enumerate(expr->coordinates)) {
        Expr index = pool.index(overFactors(coordinate));
        // In an extended sum the index can run past the end, where the term is
        // zero whatever is read.
        int64_t size = expr->getTensorType().getDimSize(dim);
        if (extended && !ShapedType::isDynamic(size))
          index = pool.apply("arith.minui", index->type,
                             {index, pool.integer(index->type, size - 1)});
        indices.push_back(index);
      }
      return pool.gather(expr->value, indices);
    }
    return refuse("no split of the iteration dims makes a coordinate linear");
  }

  /// False if `form` runs past the end of a dim, as it may in an extended sum.
  bool isInside(const LinearForm &form, Expr leaf, unsigned dim) {
    int64_t size = leaf->getTensorType().getDimSize(dim);
    auto [low, high] = space.getRange(form);
    return !extended || ShapedType::isDynamic(size) || !high || *high < size ||
           isPadded(leaf);
  }

  /// `coordinate` with every dim written over its factors.
  AffineExpr overFactors(AffineExpr coordinate) {
    llvm::SmallVector<AffineExpr> dims;
    for (AffineExpr dim : shifted)
      dims.push_back(space.toAffine(*space.getLinearForm(dim)));
    return coordinate.replaceDims(dims);
  }

  Expr resolvePieces(Expr expr) {
    AffineExpr position = expr->coordinates[0];
    std::optional<LinearForm> form = linear(position);
    if (!form)
      return refuse("the position in a concatenation is not linear");
    auto [low, high] = space.getRange(*form);
    unsigned count = expr->operands.size();
    for (unsigned p = 0; p < count; ++p)
      if (low >= expr->breaks[p] && high && *high < expr->breaks[p + 1])
        return resolve(expr->operands[p]);

    if (int64_t size = getPieceSize(expr)) {
      std::optional<LinearForm> selector = linear(position.floorDiv(size));
      llvm::SmallVector<Expr> pieces;
      for (Expr operand : expr->operands)
        pieces.push_back(selector ? resolve(operand) : nullptr);
      if (!llvm::is_contained(pieces, nullptr)) {
        AffineExpr selected = space.toAffine(*selector);
        if (Expr unified = unifyPieces(pool, selected, pieces))
          return unified;
        if (!asCut(position, expr->breaks)) {
          llvm::SmallVector<int64_t> breaks;
          for (unsigned p = 0; p <= count; ++p)
            breaks.push_back(p);
          return pool.pieces(selected, breaks, pieces);
        }
      }
    }
    if (auto wanted = asCut(position, expr->breaks)) {
      cut = wanted;
      return nullptr;
    }
    return refuse("the pieces of a concatenation differ");
  }

  /// The cut of an iteration dim that separates pieces by `position`.
  std::optional<std::pair<unsigned, llvm::SmallVector<int64_t>>>
  asCut(AffineExpr position, llvm::ArrayRef<int64_t> breaks) {
    std::optional<unsigned> dim;
    bool several = false;
    position.walk([&](AffineExpr part) {
      if (auto found = dyn_cast<AffineDimExpr>(part)) {
        several |= dim && *dim != found.getPosition();
        dim = found.getPosition();
      }
    });
    if (!dim || several)
      return std::nullopt;
    // position = dim + constant, in this part of the iteration space
    AffineExpr offset =
        simplifyAffineExpr(position.replaceDims(shifted) -
                               getAffineDimExpr(*dim, pool.getContext()),
                           shifted.size(), 0);
    auto constant = dyn_cast<AffineConstantExpr>(offset);
    if (!constant)
      return std::nullopt;
    llvm::SmallVector<int64_t> positions;
    for (int64_t position : breaks.drop_front().drop_back())
      positions.push_back(position - constant.getValue());
    return std::pair(*dim, positions);
  }

  ExprPool &pool;
  const IndexSpace &space;
  llvm::ArrayRef<AffineExpr> shifted;
  llvm::DenseMap<Expr, Expr> memo;
};
} // namespace

/// The distinct leaves of `expr` that become operands, in order of appearance.
static void collectLeaves(Expr expr, llvm::SetVector<Expr> &leaves) {
  walkExpr(expr, [&](Expr node) {
    if (node->is(ScalarExpr::Kind::Leaf))
      leaves.insert(node);
  });
}

/// The multiplication of a body `accumulator + a * b` whose factors are its two
/// inputs up to conversions, so that a zero input makes a zero term.
static bool multipliesInputs(linalg::LinalgOp op) {
  Block *body = op.getBlock();
  if (body->getNumArguments() != 3)
    return false;
  auto behindCasts = [](Value value) {
    while (Operation *definition = value.getDefiningOp()) {
      if (!isa<CastOpInterface>(definition))
        break;
      value = definition->getOperand(0);
    }
    return value;
  };
  Operation *sum = body->getTerminator()->getOperand(0).getDefiningOp();
  for (Value term : sum->getOperands()) {
    Operation *product = term.getDefiningOp();
    if (!product || !isa<arith::MulFOp, arith::MulIOp>(product))
      continue;
    Value lhs = behindCasts(product->getOperand(0));
    Value rhs = behindCasts(product->getOperand(1));
    return (lhs == body->getArgument(0) && rhs == body->getArgument(1)) ||
           (lhs == body->getArgument(1) && rhs == body->getArgument(0));
  }
  return false;
}

/// `expr` where the sum really has a term, and zero past its end.
Expr ContractionFusion::maskExtension(Expr expr, const IndexSpace &space,
                                      llvm::ArrayRef<int64_t> extents,
                                      llvm::ArrayRef<int64_t> padding) {
  Type boolean = IntegerType::get(op->getContext(), 1);
  for (auto [dim, zeros] : llvm::enumerate(padding)) {
    if (zeros == 0)
      continue;
    Expr index = pool.index(space.toAffine(
        *space.getLinearForm(getAffineDimExpr(dim, op->getContext()))));
    auto predicate = DictionaryAttr::get(
        op->getContext(),
        NamedAttribute(StringAttr::get(op->getContext(), "predicate"),
                       arith::CmpIPredicateAttr::get(
                           op->getContext(), arith::CmpIPredicate::ult)));
    Expr inside = pool.apply(
        OperationName("arith.cmpi", op->getContext()), predicate, boolean,
        {index, pool.integer(index->type, extents[dim] - zeros)});
    Expr zero = pool.constant(
        cast<TypedAttr>(Builder(op->getContext()).getZeroAttr(expr->type)));
    expr = pool.apply("arith.select", expr->type, {inside, expr, zero});
  }
  return expr;
}

bool ContractionFusion::canExtend(unsigned dim,
                                  llvm::ArrayRef<TracedOperand> operands,
                                  llvm::ArrayRef<OperandFusion> decisions) {
  if (op.getIteratorTypesArray()[dim] != utils::IteratorType::reduction ||
      !isContraction(op) || !multipliesInputs(op))
    return false;
  // Operands that stay must read the dim as it is, to be extended with zeros.
  for (auto [operand, decision] : llvm::zip(operands, decisions)) {
    if (decision != OperandFusion::Keep)
      continue;
    for (AffineExpr result :
         op.getMatchingIndexingMap(operand.operand).getResults())
      if (result.isFunctionOfDim(dim) && !isa<AffineDimExpr>(result))
        return false;
  }
  return true;
}

static llvm::SmallVector<unsigned> reductionDims(linalg::LinalgOp op) {
  llvm::SmallVector<unsigned> dims;
  op.getReductionDims(dims);
  return dims;
}

ContractionFusion::PartResult ContractionFusion::planPart(
    llvm::ArrayRef<TracedOperand> operands,
    llvm::ArrayRef<OperandFusion> decisions, llvm::ArrayRef<int64_t> offsets,
    llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<int64_t> padding) {
  MLIRContext *context = op->getContext();
  llvm::SmallVector<AffineExpr> shifted;
  for (auto [dim, offset] : llvm::enumerate(offsets))
    shifted.push_back(getAffineDimExpr(dim, context) + offset);

  // What each input's body argument is: its traced expression, or itself.
  llvm::SmallVector<Expr> raw;
  llvm::SmallVector<OperandFusion> fusion;
  for (OpOperand *input : op.getDpsInputOperands()) {
    const auto *traced = llvm::find_if(
        operands, [&](const TracedOperand &t) { return t.operand == input; });
    OperandFusion decision = traced == operands.end()
                                 ? OperandFusion::Keep
                                 : decisions[traced - operands.begin()];
    fusion.push_back(decision);
    if (!isa<TensorType>(input->get().getType()))
      raw.push_back(pool.scalar(input->get()));
    else if (decision == OperandFusion::Keep)
      raw.push_back(pool.leaf(input->get(),
                              op.getMatchingIndexingMap(input).getResults()));
    else
      raw.push_back(traced->expr);
  }

  // A contraction stays one: if every sum has one term, one sum is kept.
  std::optional<unsigned> keptDim;
  bool sums = false;
  for (unsigned dim : reductionDims(op)) {
    sums |= extents[dim] != 1;
    keptDim = dim;
  }
  if (sums)
    keptDim = std::nullopt;
  Part part{llvm::SmallVector<int64_t>(offsets),
            IndexSpace(context, extents, keptDim),
            {},
            {},
            {},
            {},
            {}};
  // Splits are made for all coordinates before any of them is read off, for the
  // largest tensors first: where two groupings do not nest, it is the smaller
  // tensor that is read by computed indices.
  llvm::SmallVector<std::pair<int64_t, AffineExpr>> coordinates;
  for (Expr expr : raw)
    walkExpr(expr, [&](Expr node) {
      int64_t size = 0;
      if (node->is(ScalarExpr::Kind::Leaf))
        size = numStoredElements(node);
      if (node->is(ScalarExpr::Kind::Pieces)) {
        walkExpr(node, [&](Expr inner) {
          if (inner->is(ScalarExpr::Kind::Leaf))
            size = std::max(size, numStoredElements(inner));
        });
        if (int64_t piece = getPieceSize(node))
          coordinates.push_back({size, node->coordinates[0].floorDiv(piece)});
      }
      for (AffineExpr coordinate : node->coordinates)
        if (coordinate)
          coordinates.push_back({size, coordinate});
    });
  llvm::stable_sort(coordinates, [](const auto &a, const auto &b) {
    return a.first > b.first;
  });
  for (auto &[size, coordinate] : coordinates) {
    // Only the weight itself is worth changing the iteration space for.
    std::optional<IndexSpace::Ragged> ragged;
    part.space.makeLinear(coordinate.replaceDims(shifted), &ragged);
    if (!ragged || size < coordinates.front().first)
      continue;
    int64_t extent = extents[ragged->dim];
    int64_t whole = extent - extent % ragged->group;
    if (padding[ragged->dim] == 0 &&
        extent == getLoopExtents(op)[ragged->dim] &&
        canExtend(ragged->dim, operands, decisions))
      return Extension{ragged->dim, whole + ragged->group};
    return Cut{ragged->dim, {whole}};
  }

  for (auto [dim, stride] : splits)
    if (!part.space.splitAt(dim, stride))
      return Refusal{Reason::NotFactorable,
                     "the result cannot be split where it would have to be"};

  Resolver resolver(pool, part.space, shifted);
  resolver.extended = llvm::any_of(padding, [](int64_t p) { return p != 0; });
  llvm::DenseSet<Expr> padded;
  for (auto [expr, decision] : llvm::zip(raw, fusion))
    if (resolver.extended && decision == OperandFusion::Keep)
      padded.insert(expr);
  resolver.isPadded = [&](Expr leaf) { return padded.contains(leaf); };
  llvm::DenseMap<Expr, llvm::SmallVector<int64_t>> paddingOf;
  for (Expr expr : raw) {
    resolver.largestLeaf = 0;
    walkExpr(expr, [&](Expr node) {
      if (node->is(ScalarExpr::Kind::Leaf))
        resolver.largestLeaf =
            std::max(resolver.largestLeaf, numStoredElements(node));
    });
    Expr resolved = resolver.resolve(expr);
    if (resolver.cut)
      return Cut{resolver.cut->first, resolver.cut->second};
    if (!resolved)
      return *resolver.refusal;
    if (padded.contains(expr) && expr->is(ScalarExpr::Kind::Leaf)) {
      for (AffineExpr coordinate : expr->coordinates) {
        auto dim = dyn_cast<AffineDimExpr>(coordinate);
        paddingOf[resolved].push_back(dim ? padding[dim.getPosition()] : 0);
      }
    } else if (resolver.extended) {
      resolved = maskExtension(resolved, part.space, extents, padding);
    }
    part.bodyOperands.push_back(resolved);
  }

  unsigned numFactors = part.space.getFactors().size();
  auto planInputs = [&](const llvm::SetVector<Expr> &leaves,
                        llvm::SmallVector<Input, 0> &inputs,
                        bool allowDirect) -> bool {
    for (Expr leaf : leaves) {
      llvm::SmallVector<LinearForm> forms;
      for (AffineExpr coordinate : leaf->coordinates) {
        LinearForm form = readLinearForm(coordinate, numFactors);
        forms.push_back(std::move(form));
      }
      llvm::SmallVector<int64_t> shape(leaf->getTensorType().getShape());
      llvm::SmallVector<int64_t> appended = paddingOf.lookup(leaf);
      for (auto [size, zeros] : llvm::zip(shape, appended))
        size += zeros;
      std::optional<TensorView> view =
          planView(leaf->getTensorType().clone(shape), forms, part.space,
                   context, allowDirect);
      if (!view)
        return false;
      if (llvm::all_of(appended, [](int64_t zeros) { return zeros == 0; }))
        appended.clear();
      inputs.push_back({leaf, *view, appended});
    }
    return true;
  };

  // Tile-fused operands become producers of their own.
  llvm::SetVector<Expr> bodyLeaves;
  for (auto [index, expr] : llvm::enumerate(part.bodyOperands)) {
    part.producerOf.push_back(-1);
    if (fusion[index] == OperandFusion::Keep ||
        fusion[index] == OperandFusion::Element) {
      collectLeaves(expr, bodyLeaves);
      continue;
    }
    Producer producer;
    producer.mark = fusion[index] == OperandFusion::Tile ? tileFusedAttrName
                                                         : materializedAttrName;
    producer.expr = expr;
    llvm::SetVector<Expr> leaves;
    collectLeaves(expr, leaves);
    if (!planInputs(leaves, producer.inputs, /*allowDirect=*/false))
      return Refusal{Reason::NotFactorable,
                     "a leaf cannot be seen over the factored dims"};
    llvm::SmallDenseSet<unsigned> used;
    walkExpr(expr, [&](Expr node) {
      for (AffineExpr coordinate : node->coordinates)
        coordinate.walk([&](AffineExpr piece) {
          if (auto dim = dyn_cast<AffineDimExpr>(piece))
            used.insert(dim.getPosition());
        });
    });
    for (unsigned f = 0; f < part.space.getFactors().size(); ++f)
      if (used.contains(f))
        producer.factors.push_back(f);
    if (layout != ProducerLayout::AsIterated)
      llvm::stable_sort(producer.factors, [&](unsigned a, unsigned b) {
        auto isSummed = [&](unsigned factor) {
          return op.getIteratorTypesArray()[part.space.getFactors()[factor]
                                                .dim] ==
                 utils::IteratorType::reduction;
        };
        return layout == ProducerLayout::KN ? isSummed(a) > isSummed(b)
                                            : isSummed(a) < isSummed(b);
      });
    part.producerOf.back() = part.producers.size();
    part.producers.push_back(std::move(producer));
  }
  if (!planInputs(bodyLeaves, part.inputs, /*allowDirect=*/true))
    return Refusal{Reason::NotFactorable,
                   "a leaf cannot be seen over the factored dims"};

  OpOperand *init = op.getDpsInitOperand(0);
  llvm::SmallVector<LinearForm> outputForms;
  for (AffineExpr result : op.getMatchingIndexingMap(init).getResults()) {
    std::optional<LinearForm> form =
        part.space.getLinearForm(result.replaceDims(shifted));
    if (!form)
      return Refusal{Reason::NotFactorable, "the result is not factorable"};
    outputForms.push_back(*form);
  }
  std::optional<TensorView> output =
      planView(cast<ShapedType>(init->get().getType()), outputForms, part.space,
               context, /*allowDirect=*/false);
  if (!output)
    return Refusal{Reason::NotFactorable,
                   "the result cannot be seen over the factored dims"};
  // The result cannot be put back between elements that it does not cover.
  for (const TensorView::SourceDim &dim : output->dims)
    if (llvm::any_of(dim.parts, [](const TensorView::Part &piece) {
          return !piece.factor;
        }))
      return Refusal{Reason::NotFactorable,
                     "the result cannot be seen over the factored dims"};
  part.output = *output;

  // The sizes of the loops are read off the operands.
  llvm::SmallVector<AffineMap> maps{part.output.map};
  for (const Input &input : part.inputs)
    maps.push_back(input.view.map);
  for (const Producer &producer : part.producers)
    maps.push_back(AffineMap::getMultiDimMapWithTargets(
        numFactors, producer.factors, context));
  if (!inversePermutation(concatAffineMaps(maps, context)))
    return Refusal{Reason::NotFactorable,
                   "no operand has the size of an iteration dim"};
  parts.push_back(std::move(part));
  return std::monostate();
}

std::optional<Refusal>
ContractionFusion::plan(llvm::ArrayRef<TracedOperand> operands,
                        llvm::ArrayRef<OperandFusion> decisions,
                        ProducerLayout producerLayout) {
  layout = producerLayout;
  if (auto generic = dyn_cast<linalg::GenericOp>(op.getOperation()))
    if (generic.getLibraryCall())
      return Refusal{Reason::LibraryCall, "the contraction"};
  for (Value operand : op->getOperands())
    if (hasEncoding(operand))
      return Refusal{Reason::TensorEncoding, "an operand of the contraction"};
  struct Box {
    /// `padding` of each extent are terms past the end of a sum.
    llvm::SmallVector<int64_t> offsets, extents, padding;
  };
  llvm::SmallVector<int64_t> extents = getLoopExtents(op);
  llvm::SmallVector<int64_t> zeros(extents.size(), 0);
  llvm::SmallVector<Box> worklist{{zeros, extents, zeros}};
  parts.clear();
  while (!worklist.empty()) {
    Box box = worklist.pop_back_val();
    PartResult result =
        planPart(operands, decisions, box.offsets, box.extents, box.padding);
    while (auto *extension = std::get_if<Extension>(&result)) {
      int64_t &extent = box.extents[extension->dim];
      box.padding[extension->dim] = extension->extent - extent;
      extent = extension->extent;
      result =
          planPart(operands, decisions, box.offsets, box.extents, box.padding);
    }
    if (auto *refusal = std::get_if<Refusal>(&result))
      return *refusal;
    auto *cut = std::get_if<Cut>(&result);
    if (!cut)
      continue;
    if (parts.size() + worklist.size() + cut->positions.size() + 1 > maxParts)
      return Refusal{Reason::NotFactorable,
                     "the weight is concatenated from too many pieces"};
    // The first part is planned first, so that sums stay in order.
    llvm::SmallVector<Box> pieces;
    // An extension that a cut would come to lie in is given up.
    int64_t padding = std::exchange(box.padding[cut->dim], 0);
    int64_t start = 0, extent = box.extents[cut->dim] -= padding;
    cut->positions.push_back(extent);
    for (int64_t end : cut->positions) {
      end = std::min(end, extent);
      if (end <= start)
        continue;
      Box &piece = pieces.emplace_back(box);
      piece.offsets[cut->dim] += start;
      piece.extents[cut->dim] = end - start;
      start = end;
    }
    if (pieces.size() < 2)
      return Refusal{Reason::NotFactorable,
                     "the pieces of a concatenation differ"};
    llvm::append_range(worklist, llvm::reverse(pieces));
  }
  return std::nullopt;
}

bool ContractionFusion::movesElements() const {
  if (parts.size() != 1 || parts.front().output.needsSlice)
    return true;
  bool gathers = false;
  for (Expr expr : parts.front().bodyOperands)
    walkExpr(expr,
             [&](Expr node) { gathers |= node->is(ScalarExpr::Kind::Gather); });
  return gathers || llvm::any_of(parts.front().inputs, [](const Input &input) {
           return !input.padding.empty();
         });
}

//===----------------------------------------------------------------------===//
// Applying
//===----------------------------------------------------------------------===//

OpFoldResult ContractionFusion::getFactorSize(OpBuilder &builder, Location loc,
                                              const Part &part,
                                              unsigned factor) {
  const IndexSpace::Factor &f = part.space.getFactors()[factor];
  if (!ShapedType::isDynamic(f.extent))
    return builder.getIndexAttr(f.extent);
  // A dynamic dim is never split, so it is a dim of some operand.
  llvm::SmallVector<std::pair<Value, unsigned>> found;
  op.mapIterationSpaceDimToAllOperandDims(f.dim, found);
  return tensor::getMixedSize(builder, loc, found.front().first,
                              found.front().second);
}

/// Values of `inputs`' leaves, seen over the factors.
template <typename Inputs>
static llvm::SmallVector<Value> buildInputs(OpBuilder &builder, Location loc,
                                            const Inputs &inputs) {
  llvm::SmallVector<Value> values;
  for (const auto &input : inputs) {
    Value source =
        input.leaf->value
            ? localize(builder, input.leaf->value)
            : arith::ConstantOp::create(builder, loc,
                                        cast<TypedAttr>(input.leaf->attribute))
                  .getResult();
    if (!input.padding.empty()) {
      auto type = cast<RankedTensorType>(source.getType());
      llvm::SmallVector<OpFoldResult> low(type.getRank(),
                                          builder.getIndexAttr(0));
      llvm::SmallVector<OpFoldResult> high;
      llvm::SmallVector<int64_t> shape(type.getShape());
      for (auto [size, zeros] : llvm::zip(shape, input.padding)) {
        high.push_back(builder.getIndexAttr(zeros));
        size += ShapedType::isDynamic(size) ? 0 : zeros;
      }
      Value zero = arith::ConstantOp::create(
          builder, loc, builder.getZeroAttr(type.getElementType()));
      source = tensor::PadOp::create(builder, loc, type.clone(shape), source,
                                     low, high, zero);
    }
    values.push_back(buildView(builder, loc, source, input.view));
  }
  return values;
}

Value ContractionFusion::emitProducer(RewriterBase &rewriter, Location loc,
                                      const Part &part,
                                      const Producer &producer) {
  MLIRContext *context = rewriter.getContext();
  unsigned numFactors = part.space.getFactors().size();
  llvm::SmallVector<AffineExpr> toLocal(numFactors,
                                        getAffineConstantExpr(0, context));
  llvm::SmallVector<OpFoldResult> sizes;
  for (auto [local, factor] : llvm::enumerate(producer.factors)) {
    toLocal[factor] = getAffineDimExpr(local, context);
    sizes.push_back(getFactorSize(rewriter, loc, part, factor));
  }
  unsigned rank = producer.factors.size();

  llvm::SmallVector<Value> inputs =
      buildInputs(rewriter, loc, llvm::ArrayRef(producer.inputs));
  llvm::SmallVector<AffineMap> maps;
  for (const Input &input : producer.inputs)
    maps.push_back(input.view.map.replaceDimsAndSymbols(toLocal, {}, rank, 0));
  maps.push_back(AffineMap::getMultiDimIdentityMap(rank, context));

  Expr local = pool.mapCoordinates(producer.expr, [&](AffineExpr coordinate) {
    return coordinate.replaceDims(toLocal);
  });
  local = localizeTables(rewriter, pool, local);
  Value empty = tensor::EmptyOp::create(rewriter, loc, sizes, local->type);
  auto generic = linalg::GenericOp::create(
      rewriter, loc, empty.getType(), inputs, empty, maps,
      llvm::SmallVector<utils::IteratorType>(rank,
                                             utils::IteratorType::parallel),
      [&](OpBuilder &builder, Location bodyLoc, ValueRange arguments) {
        llvm::DenseMap<Expr, Value> known;
        for (auto [input, argument] : llvm::zip(producer.inputs, arguments))
          known[pool.mapCoordinates(input.leaf, [&](AffineExpr coordinate) {
            return coordinate.replaceDims(toLocal);
          })] = argument;
        linalg::YieldOp::create(builder, bodyLoc,
                                emitExpr(builder, bodyLoc, local, known));
      });
  generic->setAttr(producer.mark, rewriter.getUnitAttr());
  return generic.getResult(0);
}

linalg::GenericOp ContractionFusion::emitGeneric(RewriterBase &rewriter,
                                                 Location loc, const Part &part,
                                                 Value init,
                                                 AffineMap outputMap) {
  MLIRContext *context = rewriter.getContext();
  unsigned numFactors = part.space.getFactors().size();

  // Operands come in the order of what they replace.
  llvm::SmallVector<Value> views =
      buildInputs(rewriter, loc, llvm::ArrayRef(part.inputs));
  llvm::SmallVector<Value> inputs;
  llvm::SmallVector<AffineMap> maps;
  llvm::DenseMap<Expr, unsigned> inputOf;
  llvm::SmallVector<unsigned> producerInput(part.producers.size());
  for (auto [index, expr] : llvm::enumerate(part.bodyOperands)) {
    if (int producer = part.producerOf[index]; producer >= 0) {
      producerInput[producer] = inputs.size();
      inputs.push_back(
          emitProducer(rewriter, loc, part, part.producers[producer]));
      maps.push_back(AffineMap::getMultiDimMapWithTargets(
          numFactors, part.producers[producer].factors, context));
      continue;
    }
    llvm::SetVector<Expr> leaves;
    collectLeaves(expr, leaves);
    for (Expr leaf : leaves) {
      if (!inputOf.try_emplace(leaf, inputs.size()).second)
        continue;
      const auto *input = llvm::find_if(
          part.inputs, [&](const Input &i) { return i.leaf == leaf; });
      inputs.push_back(views[input - part.inputs.begin()]);
      maps.push_back(input->view.map);
    }
  }
  maps.push_back(outputMap);

  auto bodyOperands = llvm::map_to_vector(part.bodyOperands, [&](Expr expr) {
    return localizeTables(rewriter, pool, expr);
  });
  llvm::SmallVector<utils::IteratorType> iterators;
  for (const IndexSpace::Factor &factor : part.space.getFactors())
    iterators.push_back(op.getIteratorTypesArray()[factor.dim]);
  auto generic = linalg::GenericOp::create(
      rewriter, loc, init.getType(), inputs, init, maps, iterators,
      [&](OpBuilder &builder, Location bodyLoc, ValueRange arguments) {
        llvm::DenseMap<Expr, Value> known;
        for (auto [leaf, position] : inputOf)
          known[leaf] = arguments[position];
        IRMapping mapping;
        Block *body = op.getBlock();
        for (auto [index, expr] : llvm::enumerate(bodyOperands)) {
          int producer = part.producerOf[index];
          mapping.map(body->getArgument(index),
                      producer >= 0 ? arguments[producerInput[producer]]
                                    : emitExpr(builder, bodyLoc, expr, known));
        }
        mapping.map(body->getArguments().back(), arguments.back());
        for (Operation &inner : *body) {
          auto index = dyn_cast<linalg::IndexOp>(inner);
          if (!index) {
            builder.clone(inner, mapping);
            continue;
          }
          AffineExpr coordinate = getAffineDimExpr(index.getDim(), context) +
                                  part.offsets[index.getDim()];
          Expr expr = pool.index(
              part.space.toAffine(*part.space.getLinearForm(coordinate)));
          mapping.map(index.getResult(),
                      emitExpr(builder, bodyLoc, expr, known));
        }
      });
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    if (attribute.getName() !=
        linalg::LinalgDialect::kMemoizedIndexingMapsAttrName)
      generic->setDiscardableAttr(attribute.getName(), attribute.getValue());

  return generic;
}

bool ContractionFusion::startsUniform() {
  Operation *init = op.getDpsInitOperand(0)->get().getDefiningOp();
  if (isa_and_present<tensor::EmptyOp, linalg::FillOp>(init))
    return true;
  auto constant = dyn_cast_or_null<arith::ConstantOp>(init);
  return constant && isa<SplatElementsAttr>(constant.getValue());
}

Value ContractionFusion::emitUniformInit(RewriterBase &rewriter, Location loc,
                                         const Part &part,
                                         AffineMap outputMap) {
  if (!startsUniform())
    return Value();
  Operation *init = op.getDpsInitOperand(0)->get().getDefiningOp();
  llvm::SmallVector<OpFoldResult> sizes;
  for (AffineExpr result : outputMap.getResults())
    sizes.push_back(getFactorSize(rewriter, loc, part,
                                  cast<AffineDimExpr>(result).getPosition()));
  Type element = getElementTypeOrSelf(init->getResult(0).getType());
  if (auto constant = dyn_cast<arith::ConstantOp>(init)) {
    auto splat = cast<SplatElementsAttr>(constant.getValue());
    llvm::SmallVector<int64_t> shape;
    for (OpFoldResult size : sizes)
      shape.push_back(getConstantIntValue(size).value_or(ShapedType::kDynamic));
    if (llvm::is_contained(shape, ShapedType::kDynamic))
      return Value();
    return arith::ConstantOp::create(
        rewriter, loc,
        splat.resizeSplat(RankedTensorType::get(shape, element)));
  }
  Value empty = tensor::EmptyOp::create(rewriter, loc, sizes, element);
  auto fill = dyn_cast<linalg::FillOp>(init);
  return fill ? linalg::FillOp::create(rewriter, loc, fill.getInputs(), empty)
                    .getResult(0)
              : empty;
}

llvm::SmallVector<int64_t> ContractionFusion::getOutputFactors() const {
  llvm::SmallVector<int64_t> extents;
  for (const TensorView::SourceDim &dim : parts.front().output.dims)
    for (const TensorView::Part &part : dim.parts)
      extents.push_back(part.extent);
  return extents;
}

Value ContractionFusion::applyPermuted(RewriterBase &rewriter, Location loc,
                                       llvm::ArrayRef<int64_t> permutation) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  const Part &part = parts.front();
  AffineMap map = part.output.map;
  map = AffineMap::get(map.getNumDims(), 0,
                       applyPermutation(map.getResults(), permutation),
                       map.getContext());
  Value init = emitUniformInit(rewriter, loc, part, map);
  return emitGeneric(rewriter, loc, part, init, map).getResult(0);
}

linalg::GenericOp ContractionFusion::applyPart(RewriterBase &rewriter,
                                               Location loc, const Part &part,
                                               Value &init) {
  // A fill is made in the new shape; any other init is seen in it.
  bool isFill =
      !part.output.isIdentity() && init.getDefiningOp<linalg::FillOp>();
  Value view = isFill ? emitUniformInit(rewriter, loc, part, part.output.map)
                      : buildView(rewriter, loc, init, part.output);
  linalg::GenericOp generic =
      emitGeneric(rewriter, loc, part, view, part.output.map);
  Value result = generic.getResult(0);
  if (!part.output.needsSlice) {
    init = buildInverseView(rewriter, loc, result, part.output, init);
    return generic;
  }
  result = buildInverseView(rewriter, loc, result, part.output, init);
  llvm::SmallVector<OpFoldResult> offsets, sizes, strides;
  for (auto [index, dim] : llvm::enumerate(part.output.dims)) {
    offsets.push_back(rewriter.getIndexAttr(dim.offset));
    strides.push_back(rewriter.getIndexAttr(dim.stride));
    sizes.push_back(ShapedType::isDynamic(dim.size)
                        ? tensor::getMixedSize(rewriter, loc, init, index)
                        : OpFoldResult(rewriter.getIndexAttr(dim.size)));
  }
  init = tensor::InsertSliceOp::create(rewriter, loc, result, init, offsets,
                                       sizes, strides);
  return generic;
}

llvm::SmallVector<linalg::GenericOp>
ContractionFusion::apply(RewriterBase &rewriter, Location loc) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  llvm::SmallVector<linalg::GenericOp> created;
  Value value = op.getDpsInitOperand(0)->get();
  for (const Part &part : parts)
    created.push_back(applyPart(rewriter, loc, part, value));
  rewriter.replaceOp(op, value);
  return created;
}

} // namespace mlir::qtranspose
