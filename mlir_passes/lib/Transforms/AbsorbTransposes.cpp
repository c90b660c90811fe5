//===- AbsorbTransposes.cpp - remaining transposes go away ----------------===//
//
// A transpose is absorbed by what reads it, all of it, or else by what computes
// its source. Either way it disappears, so the pass ends, and a second run
// finds nothing that the first one left for other reasons than a refusal.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Transforms/AbsorbTransposes.h"
#include "qtranspose/Analysis/Elementwise.h"
#include "qtranspose/Analysis/VirtualTensor.h"
#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/ContractionFusion.h"
#include "qtranspose/Utils/FreePermutation.h"
#include "qtranspose/Utils/Reindex.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Iterators.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_ABSORBTRANSPOSES
#include "qtranspose/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral passName = "qtranspose-absorb-transposes";

Refusal refuseFixed(const Twine &detail) {
  return refuse(Reason::LayoutFixedOnBothSides, detail);
}

std::string quoted(Operation *op) {
  return ("'" + op->getName().getStringRef() + "'").str();
}

//===----------------------------------------------------------------------===//
// Readers
//===----------------------------------------------------------------------===//

/// What reads the elements of a transposed value, behind ops that only move
/// them.
struct Readers {
  llvm::SetVector<Operation *> ops;
  /// Ops in between.
  llvm::SetVector<Operation *> movers;
  /// Sizes of the transposed value itself.
  SmallVector<tensor::DimOp> dims;
};

OrRefusal<Readers> findReaders(Operation *transpose) {
  Readers readers;
  readers.movers.insert(transpose);
  for (unsigned i = 0; i != readers.movers.size(); ++i) {
    Value value = readers.movers[i]->getResult(0);
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (auto dimOp = dyn_cast<tensor::DimOp>(user);
          dimOp && i == 0 && dimOp.getConstantIndex()) {
        readers.dims.push_back(dimOp);
        continue;
      }
      auto destination = dyn_cast<DestinationStyleOpInterface>(user);
      if (destination && !destination.isDpsInput(&use))
        return refuseFixed(quoted(user) + " takes it as its outs operand");
      auto type = user->getNumResults() == 1
                      ? dyn_cast<RankedTensorType>(user->getResultTypes()[0])
                      : RankedTensorType();
      bool isMover = getMovedOperand(user) == &use && type &&
                     !type.getEncoding() && getDiscardableAttrs(user).empty();
      if (isMover)
        readers.movers.insert(user);
      else
        readers.ops.insert(user);
    }
  }
  if (readers.ops.empty())
    return refuse(Reason::NoUsers, "nothing reads the transposed value");
  return readers;
}

/// Makes one op read the sources of the transposes behind its operands.
class ReaderRewrite {
public:
  ReaderRewrite(Operation *op, const llvm::SetVector<Operation *> &movers)
      : op(op), movers(movers), pool(op->getContext()) {}

  /// Nothing is changed.
  std::optional<Refusal> plan(bool intoContractions);
  void apply(RewriterBase &rewriter, Location cause);

private:
  struct Direct {
    unsigned number;
    Value value;
    AffineMap map;
  };

  bool readsTransposed(Value operand) const {
    return movers.contains(operand.getDefiningOp());
  }
  bool planDirect(linalg::LinalgOp linalgOp);
  std::optional<Refusal> planFactored(linalg::LinalgOp linalgOp);

  Operation *op;
  const llvm::SetVector<Operation *> &movers;
  ExprPool pool;
  SmallVector<Direct> direct;
  std::optional<ReindexedOp> reindexed;
  std::optional<ContractionFusion> factored;
};

} // namespace

std::optional<Refusal> ReaderRewrite::plan(bool intoContractions) {
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  if (!linalgOp) {
    // Arithmetic on whole tensors.
    OrRefusal<Elementwise> match = matchElementwise(op);
    auto *elementwise = std::get_if<Elementwise>(&match);
    bool isBehindTransposesOnly =
        llvm::all_of(op->getOperands(), [&](Value operand) {
          return !readsTransposed(operand) ||
                 matchTransparentTranspose(operand);
        });
    if (!elementwise || !isBehindTransposesOnly)
      return refuseFixed(quoted(op) + " reads it");
    reindexed = reindex(*elementwise, llvm::to_vector(llvm::seq<int64_t>(
                                          elementwise->getType().getRank())));
    return std::nullopt;
  }
  Block *body = linalgOp.getBlock();
  if (!linalgOp.hasPureTensorSemantics() || !body ||
      body->getNumArguments() != op->getNumOperands())
    return refuseFixed(quoted(op) + " reads it");
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    if (generic.getLibraryCall())
      return refuse(Reason::LibraryCall, "what reads it");
  } else if (llvm::any_of(linalgOp.getIndexingMapsArray(), [](AffineMap map) {
               return !map.isProjectedPermutation();
             })) {
    // Convolutions are named for the layouts that backends have kernels for.
    return refuseFixed(quoted(op) + " reads it");
  }
  if (!intoContractions && isContraction(op))
    return refuseFixed(quoted(op) +
                       " reads it, and `into-contractions` is off");
  if (planDirect(linalgOp))
    return std::nullopt;
  direct.clear();
  return planFactored(linalgOp);
}

/// Where nothing but transposes lies in between, a map is all that changes.
bool ReaderRewrite::planDirect(linalg::LinalgOp linalgOp) {
  for (OpOperand *input : linalgOp.getDpsInputOperands()) {
    Value value = input->get();
    if (!readsTransposed(value))
      continue;
    AffineMap map = linalgOp.getMatchingIndexingMap(input);
    lookThroughTransposes(value, map);
    if (value == input->get() || readsTransposed(value))
      return false;
    direct.push_back({input->getOperandNumber(), value, map});
  }
  return true;
}

/// Reshapes and slices in between are undone by splitting the loops.
std::optional<Refusal> ReaderRewrite::planFactored(linalg::LinalgOp linalgOp) {
  if (op->getNumResults() != 1 || linalgOp.getNumDpsInits() != 1)
    return refuseFixed(quoted(op) + " has several results");
  if (llvm::any_of(*linalgOp.getBlock(),
                   [](Operation &inner) { return inner.getNumRegions() != 0; }))
    return refuseFixed(quoted(op) + " has control flow in its body");
  Tracer tracer(pool, /*root=*/nullptr, TraceScope::Layout);
  SmallVector<TracedOperand, 0> operands;
  SmallVector<OperandFusion> decisions;
  for (OpOperand *input : linalgOp.getDpsInputOperands()) {
    if (!readsTransposed(input->get()))
      continue;
    TracedOperand &operand = operands.emplace_back();
    operand.operand = input;
    operand.expr = tracer.trace(
        input->get(), linalgOp.getMatchingIndexingMap(input).getResults());
    if (!operand.isLayoutOnly() || readsTransposed(operand.expr->value))
      return refuseFixed(quoted(op) + " reads it behind an op that moves it");
    decisions.push_back(OperandFusion::Element);
  }
  factored.emplace(linalgOp, pool);
  if (std::optional<Refusal> refusal = factored->plan(operands, decisions))
    return refusal;
  if (factored->movesElements())
    return refuse(Reason::NotFactorable,
                  quoted(op) + " would have to be cut into pieces");
  return std::nullopt;
}

void ReaderRewrite::apply(RewriterBase &rewriter, Location cause) {
  OpBuilder::InsertionGuard guard(rewriter);
  if (reindexed) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    Value created = createReindexed(rewriter, *reindexed, type, cause,
                                    llvm::DenseMap<Value, Value>());
    rewriter.replaceOp(op, created);
    return;
  }
  if (factored) {
    factored->apply(rewriter, rewriter.getFusedLoc({op->getLoc(), cause}));
    return;
  }
  auto linalgOp = cast<linalg::LinalgOp>(op);
  for (const Direct &read : direct)
    linalgOp = setOperand(rewriter, linalgOp, read.number, read.value, read.map,
                          cause);
}

//===----------------------------------------------------------------------===//
// Sources behind reshapes
//===----------------------------------------------------------------------===//

namespace {
/// A transposed value as what is left of it once the reshapes and transposes
/// above it are looked through: `base`, whose dims are split into factors that
/// change places.
class FactoredTranspose {
public:
  explicit FactoredTranspose(const Transpose &transpose)
      : transpose(transpose), pool(transpose.op->getContext()) {}

  /// Nothing is changed.
  std::optional<Refusal> plan();
  /// True if the factors stay where they are: it is a reshape.
  bool isReshape() const { return baseView->map.isIdentity(); }
  Value applyReshape(RewriterBase &rewriter);

  /// Plans to let the op that computes `base` write the factors in order.
  std::optional<Refusal> planSource();
  Value applySource(RewriterBase &rewriter);

private:
  /// The transposed value, whose factors are in order in `result`.
  Value regroup(RewriterBase &rewriter, Value result);

  const Transpose &transpose;
  ExprPool pool;
  Value base;
  std::optional<TensorView> baseView, resultView;
  /// Of each part of a dim of `base`: the dim, how many of its elements lie
  /// between two elements of the part, and how many the part has.
  SmallVector<std::pair<unsigned, int64_t>> strides;
  SmallVector<int64_t> extents;
  std::optional<ContractionFusion> source;
};
} // namespace

std::optional<Refusal> FactoredTranspose::plan() {
  Value value = transpose.getResult();
  auto type = cast<RankedTensorType>(value.getType());
  MLIRContext *context = value.getContext();
  SmallVector<AffineExpr> dims;
  for (int64_t dim = 0; dim != type.getRank(); ++dim)
    dims.push_back(getAffineDimExpr(dim, context));
  Expr expr =
      Tracer(pool, /*root=*/nullptr, TraceScope::Layout).trace(value, dims);
  auto refuseMoved = [] {
    return refuseFixed("the source is behind an op that moves its elements");
  };
  if (!expr->is(ScalarExpr::Kind::Leaf) || !expr->value || expr->value == value)
    return refuseMoved();
  base = expr->value;
  auto baseType = cast<RankedTensorType>(base.getType());
  if (baseType.getEncoding())
    return refuse(Reason::TensorEncoding, "the source of the transpose");
  // A view that is cut, or repeats elements, is not all of its source.
  if (baseType.hasStaticShape() != type.hasStaticShape() ||
      (type.hasStaticShape() &&
       baseType.getNumElements() != type.getNumElements()))
    return refuseMoved();

  IndexSpace space(context, type.getShape());
  for (AffineExpr coordinate : expr->coordinates)
    if (!coordinate || !space.makeLinear(coordinate))
      return refuse(Reason::NotFactorable,
                    "a reshape above the transpose cannot be split");
  auto formsOf = [&](ArrayRef<AffineExpr> coordinates) {
    SmallVector<LinearForm> forms;
    for (AffineExpr coordinate : coordinates)
      forms.push_back(*space.getLinearForm(coordinate));
    return forms;
  };
  SmallVector<LinearForm> baseForms = formsOf(expr->coordinates);
  baseView = planView(baseType, baseForms, space, context,
                      /*allowDirect=*/false);
  resultView =
      planView(type, formsOf(dims), space, context, /*allowDirect=*/false);
  if (!baseView || !resultView || baseView->needsSlice ||
      resultView->needsSlice || !baseView->map.isPermutation() ||
      !resultView->map.isIdentity())
    return refuseMoved();
  for (auto [dim, view] : llvm::enumerate(baseView->dims))
    for (const TensorView::Part &part : view.parts) {
      if (!part.factor)
        return refuseMoved();
      strides.push_back({dim, baseForms[dim].coefficients[*part.factor]});
      extents.push_back(part.extent);
    }
  return std::nullopt;
}

Value FactoredTranspose::regroup(RewriterBase &rewriter, Value result) {
  Value like = cast<DestinationStyleOpInterface>(transpose.op).getDpsInits()[0];
  Location loc = transpose.op->getLoc();
  rewriter.setInsertionPoint(transpose.op);
  Value value = buildInverseView(rewriter, loc, result, *resultView, like);
  Type type = transpose.getResult().getType();
  return value.getType() == type
             ? value
             : tensor::CastOp::create(rewriter, loc, type, value).getResult();
}

Value FactoredTranspose::applyReshape(RewriterBase &rewriter) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(transpose.op);
  return regroup(rewriter,
                 buildView(rewriter, transpose.op->getLoc(), base, *baseView));
}

std::optional<Refusal> FactoredTranspose::planSource() {
  auto op = dyn_cast_or_null<linalg::LinalgOp>(base.getDefiningOp());
  if (!op)
    return refuseFixed("the source is " +
                       (base.getDefiningOp()
                            ? "the result of " + quoted(base.getDefiningOp())
                            : std::string("a block argument")));
  // Everything from the source down to the transpose goes.
  for (Value value = transpose.source;;
       value = getMovedOperand(value.getDefiningOp())->get()) {
    if (!value.hasOneUse())
      return refuseFixed("the source is used elsewhere too");
    if (value == base)
      break;
  }
  Block *body = op.getBlock();
  bool isNamedConvolution =
      !isa<linalg::GenericOp>(op.getOperation()) &&
      llvm::any_of(op.getIndexingMapsArray(),
                   [](AffineMap map) { return !map.isProjectedPermutation(); });
  if (!op.hasPureTensorSemantics() || op->getNumResults() != 1 || !body ||
      body->getNumArguments() != op->getNumOperands() || isNamedConvolution ||
      llvm::any_of(*body,
                   [](Operation &inner) { return inner.getNumRegions() != 0; }))
    return refuseFixed("the source is the result of " + quoted(op));
  source.emplace(op, pool);
  AffineMap map = op.getIndexingMapsArray().back();
  for (auto [dim, stride] : strides) {
    auto loop = dyn_cast<AffineDimExpr>(map.getResult(dim));
    if (!loop)
      return refuseFixed("the source is the result of " + quoted(op));
    source->splitAt(loop.getPosition(), stride);
  }
  if (!source->startsUniform())
    return refuseFixed("the source is accumulated on a given value");
  if (std::optional<Refusal> refusal = source->plan({}, {}))
    return refusal;
  if (source->movesElements())
    return refuse(Reason::NotFactorable,
                  quoted(op) + " would have to be cut into pieces");
  if (source->getOutputFactors() != extents)
    return refuse(Reason::NotFactorable,
                  quoted(op) + " has to split the dims further");
  return std::nullopt;
}

Value FactoredTranspose::applySource(RewriterBase &rewriter) {
  OpBuilder::InsertionGuard guard(rewriter);
  // Of each factor, in order: where `base` has it.
  SmallVector<int64_t> permutation;
  for (AffineExpr factor : inversePermutation(baseView->map).getResults())
    permutation.push_back(cast<AffineDimExpr>(factor).getPosition());
  Value result = source->applyPermuted(
      rewriter,
      rewriter.getFusedLoc(
          {base.getDefiningOp()->getLoc(), transpose.op->getLoc()}),
      permutation);
  return regroup(rewriter, result);
}

//===----------------------------------------------------------------------===//
// One transpose
//===----------------------------------------------------------------------===//

namespace {
class Absorber {
public:
  Absorber(RewriterBase &rewriter, bool intoContractions, bool leaveDead)
      : rewriter(rewriter), intoContractions(intoContractions),
        leaveDead(leaveDead) {}

  std::optional<Refusal> absorb(const Transpose &transpose);

private:
  std::optional<Refusal> intoReaders(const Transpose &transpose);
  std::optional<Refusal> intoSource(const Transpose &transpose);
  void erase(ArrayRef<Operation *> ops) {
    if (!leaveDead)
      eraseIfDead(rewriter, ops);
  }
  void replace(Operation *transpose, Value value) {
    rewriter.replaceAllUsesWith(transpose->getResult(0), value);
    erase(transpose);
  }

  RewriterBase &rewriter;
  bool intoContractions;
  bool leaveDead;
};
} // namespace

std::optional<Refusal> Absorber::absorb(const Transpose &transpose) {
  if (!transpose.isOnTensors())
    return refuse(Reason::MemrefOperands, "the transpose works on memrefs");
  if (cast<RankedTensorType>(transpose.source.getType()).getEncoding() ||
      cast<RankedTensorType>(transpose.getResult().getType()).getEncoding())
    return refuse(Reason::TensorEncoding, "an operand of the transpose");
  if (!getDiscardableAttrs(transpose.op).empty())
    return refuse(Reason::DiscardableAttribute,
                  "'" + getDiscardableAttrs(transpose.op)[0].getName().str() +
                      "' of the transpose");
  if (transpose.getResult().use_empty())
    return refuse(Reason::NoUsers, "nothing reads the transposed value");
  FactoredTranspose factored(transpose);
  std::optional<Refusal> notFactored = factored.plan();
  if (!notFactored && factored.isReshape()) {
    remarkPassed(transpose.op, passName, "absorbed",
                 "no element changes its place");
    replace(transpose.op, factored.applyReshape(rewriter));
    return std::nullopt;
  }
  std::optional<Refusal> readers = intoReaders(transpose);
  if (!readers)
    return std::nullopt;
  std::optional<Refusal> source = intoSource(transpose);
  if (!source)
    return std::nullopt;
  if (!notFactored && !(notFactored = factored.planSource())) {
    remarkPassed(transpose.op, passName, "absorbed",
                 "the source is written in this order");
    replace(transpose.op, factored.applySource(rewriter));
    return std::nullopt;
  }
  // Where one side is refused for a reason of its own, that is what to change.
  bool isReadersFault = readers->reason != Reason::LayoutFixedOnBothSides;
  Refusal refusal = isReadersFault ? *readers : *source;
  refusal.detail = readers->detail + "; " + source->detail;
  return refusal;
}

/// Identity transposes, and those that undo what stands above them, go too.
std::optional<Refusal> Absorber::intoSource(const Transpose &transpose) {
  Transpose last = transpose;
  SmallVector<int64_t> permutation = transpose.permutation;
  while (std::optional<Transpose> inner =
             matchTransparentTranspose(last.source)) {
    SmallVector<int64_t> composed =
        applyPermutation(ArrayRef(inner->permutation), permutation);
    // What others read stays, and can be read from there.
    if (!last.source.hasOneUse() && !isIdentityPermutation(composed))
      break;
    permutation = composed;
    last = *inner;
  }
  Value base = last.source;
  Type type = transpose.getResult().getType();
  Uses served;
  SmallVector<Operation *> replaced{transpose.op};
  for (OpOperand &use : base.getUses()) {
    Operation *user = use.getOwner();
    bool isInput = user->getNumResults() == 1 && use.getOperandNumber() == 0;
    std::optional<Transpose> twin =
        isInput ? matchTransparentTranspose(user->getResult(0)) : std::nullopt;
    if (user == last.op && isInput) {
      served.insert(&use);
    } else if (twin && twin->permutation == permutation &&
               twin->getResult().getType() == type) {
      // Transposes that do the same go together.
      served.insert(&use);
      replaced.push_back(user);
    }
  }
  OrRefusal<PermutationRecipe> planned =
      planFreePermutation(base, permutation, served, transpose.op->getLoc());
  if (auto *refusal = std::get_if<Refusal>(&planned))
    return *refusal;
  StringRef what = isIdentityPermutation(permutation)
                       ? "nothing is left to permute"
                       : "the source is written in this order";
  for (Operation *op : replaced)
    remarkPassed(op, passName, "absorbed", what);
  OpBuilder::InsertionGuard guard(rewriter);
  Value result = std::get<PermutationRecipe>(planned)(rewriter);
  if (result.getType() != type) {
    rewriter.setInsertionPointAfterValue(result);
    result =
        tensor::CastOp::create(rewriter, transpose.op->getLoc(), type, result);
  }
  for (Operation *op : replaced)
    rewriter.replaceAllUsesWith(op->getResult(0), result);
  erase(replaced);
  return std::nullopt;
}

std::optional<Refusal> Absorber::intoReaders(const Transpose &transpose) {
  OrRefusal<Readers> found = findReaders(transpose.op);
  if (auto *refusal = std::get_if<Refusal>(&found))
    return *refusal;
  auto &readers = std::get<Readers>(found);
  for (Operation *op : readers.ops)
    if (std::optional<Refusal> refusal =
            ReaderRewrite(op, readers.movers).plan(intoContractions))
      return refusal;
  remarkPassed(transpose.op, passName, "absorbed",
               "read in this order by " + Twine(readers.ops.size()) +
                   (readers.ops.size() == 1 ? " op" : " ops"));
  Location cause = transpose.op->getLoc();
  for (tensor::DimOp dimOp : readers.dims) {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(dimOp);
    rewriter.replaceOpWithNewOp<tensor::DimOp>(
        dimOp, transpose.source,
        transpose.permutation[*dimOp.getConstantIndex()]);
  }
  // A plan names the values that its op reads, which a rewrite before it may
  // have replaced: each is made once more.
  for (Operation *op : readers.ops) {
    ReaderRewrite rewrite(op, readers.movers);
    if (!rewrite.plan(intoContractions))
      rewrite.apply(rewriter, cause);
  }
  erase(readers.movers.getArrayRef());
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The pass and its pattern
//===----------------------------------------------------------------------===//

namespace {
struct AbsorbTransposes : impl::AbsorbTransposesBase<AbsorbTransposes> {
  using AbsorbTransposesBase::AbsorbTransposesBase;

  void runOnOperation() override {
    struct : RewriterBase::Listener {
      llvm::SetVector<Operation *> transposes;
      llvm::MapVector<Operation *, Refusal> refused;
      void notifyOperationErased(Operation *op) override {
        transposes.remove(op);
        refused.erase(op);
      }
    } listener;
    auto &transposes = listener.transposes;
    auto &refused = listener.refused;
    IRRewriter rewriter(&getContext(), &listener);
    Absorber absorber(rewriter, intoContractions, /*leaveDead=*/false);
    // Consumers first: a chain of transposes ends in one that is read. What one
    // transpose leaves behind can be what another one waits for, and a copy
    // that takes one up becomes one itself.
    bool changed = true;
    while (changed) {
      changed = false;
      refused.clear();
      // In unreachable blocks, a value may depend on itself.
      getOperation()->walk<WalkOrder::PreOrder, ForwardDominanceIterator<>>(
          [&](Operation *op) {
            if (matchTranspose(op))
              transposes.insert(op);
          });
      while (!transposes.empty()) {
        Operation *op = transposes.pop_back_val();
        if (auto refusal = absorber.absorb(*matchTranspose(op)))
          refused.insert({op, *refusal});
        else
          changed = true;
      }
    }
    for (auto &[op, refusal] : refused)
      remarkRefused(op, passName, refusal);
  }
};

struct AbsorbPattern : RewritePattern {
  AbsorbPattern(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    std::optional<Transpose> transpose = matchTranspose(op);
    if (!transpose)
      return failure();
    Absorber absorber(rewriter, /*intoContractions=*/true, /*leaveDead=*/true);
    if (std::optional<Refusal> refusal = absorber.absorb(*transpose))
      return rewriter.notifyMatchFailure(op, refusal->detail);
    return success();
  }
};
} // namespace

void populateAbsorbTransposesPatterns(RewritePatternSet &patterns) {
  patterns.add<AbsorbPattern>(patterns.getContext());
}

} // namespace mlir::qtranspose
