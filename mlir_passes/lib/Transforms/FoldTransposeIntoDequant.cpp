//===- FoldTransposeIntoDequant.cpp ---------------------------------------===//
//
// Every rewrite is planned in full before the first op is created, so that a
// refusal leaves the module as it was.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Transforms/FoldTransposeIntoDequant.h"
#include "qtranspose/Analysis/Elementwise.h"
#include "qtranspose/Passes.h"
#include "qtranspose/Utils/Reindex.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Iterators.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_FOLDTRANSPOSEINTODEQUANT
#include "qtranspose/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral passName =
    "qtranspose-fold-transpose-into-dequant";

/// The attributes of the op that replaces both `producer` and `transpose`.
OrRefusal<SmallVector<NamedAttribute>> mergeAttrs(Operation *producer,
                                                  Operation *transpose) {
  SmallVector<NamedAttribute> attrs = getDiscardableAttrs(producer);
  for (NamedAttribute attr : getDiscardableAttrs(transpose)) {
    Attribute present = producer->getDiscardableAttr(attr.getName());
    if (!present)
      attrs.push_back(attr);
    else if (present != attr.getValue())
      return refuse(Reason::DiscardableAttribute,
                    "'" + attr.getName().getValue() +
                        "' differs between the transpose and the op that "
                        "produces its input");
  }
  return attrs;
}

//===----------------------------------------------------------------------===//
// Consumers
//===----------------------------------------------------------------------===//

/// Collects the contractions that `use` reaches through casts, broadcasts and
/// reshapes; fails if it reaches anything else.
LogicalResult collectContractions(OpOperand &use,
                                  SmallVectorImpl<OpOperand *> &contractions) {
  Operation *owner = use.getOwner();
  auto linalgOp = dyn_cast<linalg::LinalgOp>(owner);
  if (linalgOp && linalg::isaContractionOpInterface(linalgOp) &&
      linalgOp.isDpsInput(&use)) {
    contractions.push_back(&use);
    return success();
  }
  bool isUnary = false;
  OrRefusal<Elementwise> match = matchElementwise(owner);
  if (auto *elementwise = std::get_if<Elementwise>(&match))
    isUnary = elementwise->inputs.size() == 1;
  if ((!isUnary && !isDataMovement(owner)) || owner->use_empty())
    return failure();
  for (OpOperand &next : owner->getUses())
    if (failed(collectContractions(next, contractions)))
      return failure();
  return success();
}

/// Why a contraction is not a matrix-vector product with `weight`.
std::optional<Refusal> checkMatvec(OpOperand &use) {
  auto contraction = cast<linalg::LinalgOp>(use.getOwner());
  if (use.getOperandNumber() != 1)
    return refuse(Reason::WeightOnTheLeft, "the weight is the left operand");
  OpOperand *lhs = contraction.getDpsInputOperand(0);
  auto type = cast<ShapedType>(lhs->get().getType());
  if (type.getRank() < 2)
    return refuse(Reason::LhsRankBelowTwo,
                  "the left operand has rank " + Twine(type.getRank()));
  FailureOr<linalg::ContractionDimensions> dims =
      linalg::inferContractionDims(contraction);
  AffineMap map = contraction.getMatchingIndexingMap(lhs);
  // Further row dimensions are what a frontend calls batches.
  std::optional<unsigned> rows;
  if (succeeded(dims))
    for (unsigned i = 0, e = map.getNumResults(); i != e; ++i)
      if (auto dim = dyn_cast<AffineDimExpr>(map.getResult(i));
          dim && llvm::is_contained(dims->m, dim.getPosition()))
        rows = i;
  if (!rows)
    return refuse(Reason::MoreThanOneRow,
                  "the left operand has no row dimension of its own");
  if (type.isDynamicDim(*rows))
    return refuse(Reason::RowCountNotStatic, "the number of rows is dynamic");
  if (type.getDimSize(*rows) != 1)
    return refuse(Reason::MoreThanOneRow, "the left operand has " +
                                              Twine(type.getDimSize(*rows)) +
                                              " rows");
  return std::nullopt;
}

/// The policy of `matvec-only` for one use of a transposed weight.
std::optional<Refusal> checkMatvecUse(OpOperand &use) {
  if (cast<ShapedType>(use.get().getType()).getRank() != 2)
    return refuse(Reason::WeightNot2D, "the weight is not a matrix");
  SmallVector<OpOperand *> contractions;
  if (failed(collectContractions(use, contractions)))
    return refuse(Reason::NotAContraction,
                  "'" + use.getOwner()->getName().getStringRef() +
                      "' reads the transposed value");
  for (OpOperand *contraction : contractions)
    if (std::optional<Refusal> refusal = checkMatvec(*contraction))
      return refusal;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Folding one transpose
//===----------------------------------------------------------------------===//

/// A transpose together with what stands above it once transposes in between
/// are looked through.
struct Composed {
  Transpose transpose;
  Value base;
  SmallVector<int64_t> permutation;

  bool isIdentity() const { return isIdentityPermutation(permutation); }
  bool isComposed() const { return base != transpose.source; }
};

Composed compose(const Transpose &transpose) {
  Composed composed{transpose, transpose.source, transpose.permutation};
  while (auto inner = matchTransparentTranspose(composed.base)) {
    composed.permutation =
        applyPermutation(inner->permutation, composed.permutation);
    composed.base = inner->source;
  }
  return composed;
}

void remarkFolded(Operation *transpose, const FoldPlan &plan) {
  remarkPassed(transpose, passName, "fold-transpose",
               Twine(plan.ops.size()) + " op(s) write the transposed layout" +
                   (plan.cloned.empty()
                        ? Twine("")
                        : ", " + Twine(plan.cloned.size()) + " cloned"));
}

/// Folds transposes with one rewriter and one set of options. The functions
/// return why nothing was done, if nothing was.
class Folder {
public:
  /// `leaveDead` keeps the ops that are replaced, apart from the transpose.
  Folder(RewriterBase &rewriter, MultiUse multiUse, bool matvecOnly,
         bool leaveDead)
      : rewriter(rewriter), multiUse(multiUse), matvecOnly(matvecOnly),
        leaveDead(leaveDead) {}

  /// Removes a transpose that does not change the order of dimensions.
  std::optional<Refusal> forwardIdentity(const Composed &composed);
  /// Folds into the dequantization that produces the transposed value.
  std::optional<Refusal> foldIntoProducer(const Composed &composed);
  /// Folds the transposes that `op` reads and converts from storage into it.
  std::optional<Refusal> foldIntoConverter(Operation *op);
  /// Replaces transposes that meet by a single one.
  std::optional<Refusal> mergeTransposes(const Composed &composed);
  /// Stores the dequantized weight that a contraction reads as its operand
  /// `number`, if it is one, as `[batch, N, K]`. Returns the contraction.
  linalg::LinalgOp storeAsNK(linalg::LinalgOp op, unsigned number);

  /// Adds the uses of the transposed value that the options allow to be served
  /// to `uses`; refused if there are none.
  std::optional<Refusal> selectUses(const Transpose &transpose, Uses &uses);
  /// Other transposes of `base` that yield the same value, to be served with
  /// it; their uses are added to `uses`.
  SmallVector<Operation *> findTwins(Value base, ArrayRef<int64_t> permutation,
                                     RankedTensorType type, Operation *except,
                                     Uses &uses);
  /// Serves `uses` with `value`, then erases what of `ops` nothing uses any
  /// more and, unless dead code is left, what only that used.
  void serve(const Uses &uses, Value value, ArrayRef<Operation *> ops);

private:
  RewriterBase &rewriter;
  MultiUse multiUse;
  bool matvecOnly;
  bool leaveDead;
};

std::optional<Refusal> Folder::selectUses(const Transpose &transpose,
                                          Uses &uses) {
  Value value = transpose.getResult();
  if (value.use_empty())
    return refuse(Reason::NoUsers, "nothing uses the transposed value");
  std::optional<Refusal> refusal;
  for (OpOperand &use : value.getUses()) {
    std::optional<Refusal> policy =
        matvecOnly ? checkMatvecUse(use) : std::nullopt;
    if (!policy)
      uses.insert(&use);
    else
      refusal = policy;
  }
  return uses.empty() ? refusal : std::nullopt;
}

void Folder::serve(const Uses &uses, Value value, ArrayRef<Operation *> ops) {
  for (OpOperand *use : uses)
    rewriter.modifyOpInPlace(use->getOwner(), [&] { use->set(value); });
  if (!leaveDead)
    return eraseIfDead(rewriter, ops);
  for (Operation *op : ops)
    if (op->use_empty())
      rewriter.eraseOp(op);
}

SmallVector<Operation *> Folder::findTwins(Value base,
                                           ArrayRef<int64_t> permutation,
                                           RankedTensorType type,
                                           Operation *except, Uses &uses) {
  SmallVector<Operation *> twins;
  if (leaveDead || matvecOnly)
    return twins;
  for (Operation *user : base.getUsers()) {
    std::optional<Transpose> transpose = matchTranspose(user);
    if (!transpose || user == except || !transpose->isOnTensors() ||
        user->use_empty() || ArrayRef(transpose->permutation) != permutation ||
        transpose->getResult().getType() != type ||
        !getDiscardableAttrs(user).empty())
      continue;
    twins.push_back(user);
    for (OpOperand &use : transpose->getResult().getUses())
      uses.insert(&use);
  }
  return twins;
}

std::optional<Refusal> Folder::forwardIdentity(const Composed &composed) {
  Operation *op = composed.transpose.op;
  Value result = composed.transpose.getResult();
  auto type = cast<RankedTensorType>(result.getType());
  auto baseType = cast<RankedTensorType>(composed.base.getType());
  if (result.use_empty())
    return refuse(Reason::NoUsers, "nothing uses the transposed value");
  if (!getDiscardableAttrs(op).empty())
    return refuse(Reason::DiscardableAttribute,
                  "the transpose cancels, but its attributes have no other op");
  if (type.getEncoding() != baseType.getEncoding())
    return refuse(Reason::TensorEncoding,
                  "the transpose cancels, but its result's encoding differs");
  remarkPassed(op, passName,
               composed.isComposed() ? "cancel-transposes" : "forward-identity",
               "the dimensions are in order without it");
  Value value = composed.base;
  if (type != baseType) {
    rewriter.setInsertionPoint(op);
    value = tensor::CastOp::create(rewriter, op->getLoc(), type, value);
  }
  Uses uses;
  for (OpOperand &use : result.getUses())
    uses.insert(&use);
  serve(uses, value, composed.transpose.op);
  return std::nullopt;
}

std::optional<Refusal> Folder::foldIntoProducer(const Composed &composed) {
  const Transpose &transpose = composed.transpose;
  auto type = cast<RankedTensorType>(transpose.getResult().getType());
  if (OrRefusal<DequantCone> cone = matchDequantization(composed.base);
      auto *refusal = std::get_if<Refusal>(&cone))
    return *refusal;
  Uses uses;
  if (std::optional<Refusal> refusal = selectUses(transpose, uses))
    return refusal;
  SmallVector<Operation *> folds =
      findTwins(composed.base, composed.permutation, type, transpose.op, uses);
  folds.push_back(transpose.op);

  OrRefusal<FoldPlan> planned =
      planPermuted(composed.base, composed.permutation, type, uses, multiUse);
  if (auto *refusal = std::get_if<Refusal>(&planned))
    return *refusal;
  auto &plan = std::get<FoldPlan>(planned);
  auto attrs = mergeAttrs(plan.ops.back().source.op, transpose.op);
  if (auto *refusal = std::get_if<Refusal>(&attrs))
    return *refusal;
  plan.rootAttrs = std::get<SmallVector<NamedAttribute>>(attrs);

  Value folded = applyPlan(rewriter, plan, transpose.op->getLoc());
  // Before the transposes go, since they may use sizes of what is replaced.
  if (!leaveDead)
    replaceDims(rewriter, plan);
  for (Operation *op : folds)
    remarkFolded(op, plan);
  serve(uses, folded, folds);
  return std::nullopt;
}

std::optional<Refusal> Folder::foldIntoConverter(Operation *op) {
  if (isDataMovement(op))
    return refuse(Reason::NotADequantization, "elements are moved again");
  OrRefusal<Elementwise> match = matchElementwise(op);
  if (auto *refusal = std::get_if<Refusal>(&match))
    return *refusal;
  llvm::SetVector<Operation *> transposes;
  for (OpOperand &use : op->getOpOperands()) {
    std::optional<Transpose> transpose = matchTransparentTranspose(use.get());
    if (!transpose || !convertsStoredValue(use) ||
        !isParameter(transpose->source))
      continue;
    if (matvecOnly)
      if (std::optional<Refusal> refusal = checkMatvecUse(use))
        return refusal;
    transposes.insert(transpose->op);
  }
  if (transposes.empty() || op->use_empty())
    return refuse(Reason::NotADequantization,
                  "no transposed stored value is converted");
  for (Operation *transpose : transposes)
    remarkPassed(transpose, passName, "fold-transpose",
                 "the op that converts the stored value reads it in permuted "
                 "order");
  auto &elementwise = std::get<Elementwise>(match);
  auto identity =
      llvm::to_vector(llvm::seq<int64_t>(0, elementwise.getType().getRank()));
  rewriter.replaceOp(
      op, createReindexed(rewriter, reindex(elementwise, identity),
                          elementwise.getType(), transposes[0]->getLoc(),
                          llvm::DenseMap<Value, Value>()));
  if (!leaveDead)
    eraseIfDead(rewriter, transposes.getArrayRef());
  return std::nullopt;
}

std::optional<Refusal> Folder::mergeTransposes(const Composed &composed) {
  const Transpose &transpose = composed.transpose;
  auto type = cast<RankedTensorType>(transpose.getResult().getType());
  auto baseType = cast<RankedTensorType>(composed.base.getType());
  bool isExact = type.getShape() ==
                 ArrayRef<int64_t>(applyPermutation(baseType.getShape(),
                                                    composed.permutation));
  if (!composed.isComposed() || !isExact)
    return refuse(Reason::NotADequantization, "nothing to merge with");
  remarkPassed(transpose.op, passName, "merge-transposes",
               "one transpose does the work of several");
  rewriter.setInsertionPoint(transpose.op);
  auto merged = linalg::TransposeOp::create(
      rewriter,
      rewriter.getFusedLoc({transpose.op->getLoc(), transpose.source.getLoc()}),
      composed.base,
      cast<DestinationStyleOpInterface>(transpose.op).getDpsInits()[0],
      composed.permutation, getDiscardableAttrs(transpose.op));
  Uses uses;
  for (OpOperand &use : transpose.getResult().getUses())
    uses.insert(&use);
  serve(uses, merged->getResult(0), transpose.op);
  return std::nullopt;
}

linalg::LinalgOp Folder::storeAsNK(linalg::LinalgOp op, unsigned number) {
  OpOperand &use = op->getOpOperand(number);
  auto dims = linalg::inferContractionDims(op);
  AffineMap map = op.getMatchingIndexingMap(&use);
  if (failed(dims) || !map.isProjectedPermutation())
    return op;
  Value base = use.get();
  lookThroughTransposes(base, map);
  if (OrRefusal<DequantCone> cone = matchDequantization(base);
      std::holds_alternative<Refusal>(cone))
    return op;

  auto getGroup = [&](unsigned loop) {
    return llvm::is_contained(dims->batch, loop) ? 0
           : llvm::is_contained(dims->k, loop)   ? 2
                                                 : 1;
  };
  auto order = llvm::to_vector(llvm::seq<int64_t>(map.getNumResults()));
  llvm::sort(order, [&](int64_t a, int64_t b) {
    unsigned loopA = map.getDimPosition(a), loopB = map.getDimPosition(b);
    return std::pair(getGroup(loopA), loopA) <
           std::pair(getGroup(loopB), loopB);
  });
  bool isInOrder = isIdentityPermutation(order);
  if (isInOrder && base == use.get())
    return op;

  std::optional<Refusal> refusal;
  if (matvecOnly)
    refusal = map.getNumResults() == 2
                  ? checkMatvec(use)
                  : refuse(Reason::WeightNot2D, "the weight is not a matrix");
  FoldPlan plan;
  Uses uses;
  SmallVector<Operation *> served;
  if (!refusal && !isInOrder) {
    auto type = cast<RankedTensorType>(base.getType());
    type = type.clone(applyPermutation(type.getShape(), order));
    served = findTwins(base, order, type, /*except=*/nullptr, uses);
    uses.insert(&use);
    auto planned = planPermuted(base, order, type, uses, multiUse);
    if (auto *found = std::get_if<Refusal>(&planned))
      refusal = *found;
    else
      plan = std::get<FoldPlan>(planned);
  }
  if (refusal) {
    remarkRefused(op, passName, *refusal);
    return op;
  }

  remarkPassed(op, passName, "store-as-nk",
               "operand " + Twine(number) + " is stored as [batch, N, K]");
  Operation *reader = use.get().getDefiningOp();
  Location cause = reader->getLoc();
  if (!isInOrder) {
    base = applyPlan(rewriter, plan, op.getLoc());
    replaceDims(rewriter, plan);
    map = permuteResults(map, order);
  }
  uses.erase(&use);
  op = setOperand(rewriter, op, number, base, map, cause);
  for (Operation *twin : served)
    remarkFolded(twin, plan);
  served.push_back(reader);
  serve(uses, base, served);
  return op;
}

//===----------------------------------------------------------------------===//
// Dequantizations in functions of their own
//===----------------------------------------------------------------------===//

/// Whether `value` has uses other than `served`, looking past transposes that
/// have none either.
bool hasOtherUses(Value value, const Uses &served) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    if (served.contains(&use))
      return false;
    std::optional<Transpose> transpose = matchTranspose(use.getOwner());
    return !transpose || transpose->source != value ||
           !transpose->isOnTensors() || transpose->getResult().use_empty() ||
           hasOtherUses(transpose->getResult(), served);
  });
}

/// Folds transposes of what private functions return into copies of these.
class CalleeFolder {
public:
  CalleeFolder(Operation *scope, RewriterBase &rewriter, Folder &folder,
               MultiUse multiUse)
      : scope(scope), rewriter(rewriter), folder(folder), multiUse(multiUse) {}

  std::optional<Refusal> fold(const Composed &composed);

private:
  OrRefusal<func::FuncOp> getCallee(func::CallOp call);
  bool isRecursive(func::FuncOp function);
  std::optional<Refusal> rewriteReturn(func::FuncOp function, unsigned number,
                                       ArrayRef<int64_t> permutation,
                                       RankedTensorType type, Location cause,
                                       bool apply);

  /// A copy of a function that returns one result permuted.
  struct Copy {
    func::FuncOp original;
    unsigned number;
    SmallVector<int64_t> permutation;
    RankedTensorType type;
    func::FuncOp function;
  };

  Operation *scope;
  RewriterBase &rewriter;
  Folder &folder;
  MultiUse multiUse;
  SymbolTableCollection symbols;
  std::vector<Copy> copies;
};

bool CalleeFolder::isRecursive(func::FuncOp function) {
  llvm::SetVector<Operation *> reached;
  reached.insert(function);
  for (unsigned i = 0; i != reached.size(); ++i) {
    bool callsItself = false;
    reached[i]->walk([&](CallOpInterface call) {
      Operation *callee = call.resolveCallableInTable(&symbols);
      callsItself |= callee == function;
      if (callee)
        reached.insert(callee);
    });
    if (callsItself)
      return true;
  }
  return false;
}

OrRefusal<func::FuncOp> CalleeFolder::getCallee(func::CallOp call) {
  Operation *table = SymbolTable::getNearestSymbolTable(call);
  if (!table || !scope->isAncestor(table))
    return refuse(Reason::CalleeOutOfScope, "'" + call.getCallee() + "'");
  auto function =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  std::string name = ("'" + call.getCallee() + "'").str();
  if (!function || function.isExternal())
    return refuse(Reason::CalleeIsExternal, name + " has no body");
  if (!function.isPrivate())
    return refuse(Reason::CalleeNotPrivate, name + " is visible outside");
  if (!llvm::hasSingleElement(function.getBody()) ||
      !isa<func::ReturnOp>(function.getBody().front().getTerminator()))
    return refuse(Reason::CalleeHasControlFlow, name + " has several blocks");
  if (isRecursive(function))
    return refuse(Reason::CalleeIsRecursive, name + " calls itself");
  return function;
}

/// Makes `function` return result `number` permuted, or only says whether it
/// could.
std::optional<Refusal>
CalleeFolder::rewriteReturn(func::FuncOp function, unsigned number,
                            ArrayRef<int64_t> permutation,
                            RankedTensorType type, Location cause, bool apply) {
  Operation *terminator = function.getBody().front().getTerminator();
  Value returned = terminator->getOperand(number);
  Value base = returned;
  auto order = llvm::to_vector(permutation);
  while (auto inner = matchTransparentTranspose(base)) {
    order = applyPermutation(inner->permutation, order);
    base = inner->source;
  }
  OrRefusal<DequantCone> cone = matchDequantization(base);
  if (auto *refusal = std::get_if<Refusal>(&cone))
    return *refusal;
  Value value = base;
  if (!isIdentityPermutation(order)) {
    Uses uses;
    uses.insert(&terminator->getOpOperand(number));
    OrRefusal<FoldPlan> planned =
        planPermuted(base, order, type, uses, multiUse);
    if (auto *refusal = std::get_if<Refusal>(&planned))
      return *refusal;
    if (!apply)
      return std::nullopt;
    value = applyPlan(rewriter, std::get<FoldPlan>(planned), cause);
    replaceDims(rewriter, std::get<FoldPlan>(planned));
  } else if (!apply) {
    return std::nullopt;
  } else if (base.getType() != type) {
    rewriter.setInsertionPoint(terminator);
    value = tensor::CastOp::create(rewriter, cause, type, base);
  }
  terminator->setOperand(number, value);
  SmallVector<Type> results(function.getResultTypes());
  results[number] = type;
  function.setType(
      rewriter.getFunctionType(function.getArgumentTypes(), results));
  if (Operation *producer = returned.getDefiningOp())
    eraseIfDead(rewriter, producer);
  return std::nullopt;
}

std::optional<Refusal> CalleeFolder::fold(const Composed &composed) {
  const Transpose &transpose = composed.transpose;
  auto call = composed.base.getDefiningOp<func::CallOp>();
  unsigned number = cast<OpResult>(composed.base).getResultNumber();
  auto type = cast<RankedTensorType>(transpose.getResult().getType());
  OrRefusal<func::FuncOp> callee = getCallee(call);
  if (auto *refusal = std::get_if<Refusal>(&callee))
    return *refusal;
  auto original = std::get<func::FuncOp>(callee);
  if (!getDiscardableAttrs(transpose.op).empty())
    return refuse(Reason::DiscardableAttribute,
                  "the transpose goes, and its attributes have no other op");
  auto baseType = cast<RankedTensorType>(composed.base.getType());
  if (type.getEncoding() || baseType.getEncoding())
    return refuse(Reason::TensorEncoding,
                  "the function would return an encoded tensor");
  if (std::optional<Refusal> refusal =
          rewriteReturn(original, number, composed.permutation, type,
                        transpose.op->getLoc(), /*apply=*/false))
    return refusal;
  Uses uses;
  if (std::optional<Refusal> refusal = folder.selectUses(transpose, uses))
    return refusal;
  bool isCalledTwice = hasOtherUses(composed.base, uses);
  if (isCalledTwice) {
    Block &body = original.getBody().front();
    if (!llvm::all_of(body.without_terminator(),
                      [](Operation &op) { return isMemoryEffectFree(&op); }))
      return refuse(Reason::CalleeHasSideEffects,
                    "the result of the call is used elsewhere too");
    if (!favoursClone(multiUse, body.getTerminator()->getOperand(number)))
      return refuse(Reason::MultiUse,
                    "calling the function a second time moves no fewer bytes "
                    "than the transpose does, or was not asked for");
  }

  auto copy = llvm::find_if(copies, [&](const Copy &copy) {
    return copy.original == original && copy.number == number &&
           copy.permutation == composed.permutation && copy.type == type;
  });
  Location cause = transpose.op->getLoc();
  if (copy == copies.end()) {
    auto clone = cast<func::FuncOp>(original->clone());
    clone.setName((original.getName() + "_transposed").str());
    clone->setLoc(rewriter.getFusedLoc({original.getLoc(), cause}));
    symbols.getSymbolTable(SymbolTable::getNearestSymbolTable(original))
        .insert(clone, std::next(Block::iterator(original)));
    (void)rewriteReturn(clone, number, composed.permutation, type, cause,
                        /*apply=*/true);
    copies.push_back({original, number, composed.permutation, type, clone});
    copy = std::prev(copies.end());
  }
  remarkPassed(transpose.op, passName, "fold-into-callee",
               "'" + copy->function.getName() + "' returns it transposed");

  rewriter.setInsertionPoint(call);
  auto newCall = cast<func::CallOp>(rewriter.clone(*call));
  newCall->setLoc(rewriter.getFusedLoc({call.getLoc(), cause}));
  newCall.setCallee(copy->function.getName());
  newCall.getResult(number).setType(type);
  folder.serve(uses, newCall.getResult(number), transpose.op);
  if (isCalledTwice)
    return std::nullopt;
  for (auto [old, result] : llvm::zip(call.getResults(), newCall.getResults()))
    if (old != composed.base)
      rewriter.replaceAllUsesWith(old, result);
  rewriter.eraseOp(call);
  Operation *table = SymbolTable::getNearestSymbolTable(original);
  if (SymbolTable::symbolKnownUseEmpty(original, table)) {
    llvm::erase_if(copies, [&](const Copy &copy) {
      return copy.original == original || copy.function == original;
    });
    symbols.getSymbolTable(table).remove(original);
    rewriter.eraseOp(original);
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// The ops to visit, from which erased ones disappear.
struct Worklist : RewriterBase::Listener {
  void notifyOperationErased(Operation *op) override {
    ops.remove(op);
    visited.erase(op);
    refusals.erase(op);
    if (current == op)
      current = nullptr;
  }

  Operation *pop() { return current = ops.pop_back_val(); }

  llvm::SetVector<Operation *> ops;
  /// The op being visited, unless it has been erased.
  Operation *current = nullptr;
  /// Transposes that were visited already.
  llvm::DenseSet<Operation *> visited;
  /// What stood in the way of folding a transpose into a function.
  llvm::DenseMap<Operation *, Refusal> refusals;
};

struct FoldTransposeIntoDequant
    : impl::FoldTransposeIntoDequantBase<FoldTransposeIntoDequant> {
  using FoldTransposeIntoDequantBase::FoldTransposeIntoDequantBase;

  void runOnOperation() override {
    Worklist worklist;
    IRRewriter rewriter(&getContext(), &worklist);
    Folder folder(rewriter, multiUse, matvecOnly, /*leaveDead=*/false);
    foldIntoCallees(worklist, rewriter, folder);
    if (consumerLayout == ConsumerLayout::NK)
      storeAsNK(worklist, folder);
    // Consumers first: transposes that meet are composed before they fold. A
    // copy that writes the transposed layout is a transpose from then on.
    for (collectTransposes(worklist); !worklist.ops.empty();
         collectTransposes(worklist))
      while (!worklist.ops.empty())
        visit(worklist, folder);
  }

private:
  /// In unreachable blocks, a value may depend on itself.
  void walkReachable(function_ref<void(Operation *)> visit) {
    getOperation()->walk<WalkOrder::PreOrder, ForwardDominanceIterator<>>(
        visit);
  }
  void collectTransposes(Worklist &worklist);
  void foldIntoCallees(Worklist &worklist, RewriterBase &rewriter,
                       Folder &folder);
  void storeAsNK(Worklist &worklist, Folder &folder);
  void visit(Worklist &worklist, Folder &folder);
};

void FoldTransposeIntoDequant::collectTransposes(Worklist &worklist) {
  walkReachable([&](Operation *op) {
    if (matchTranspose(op) && !worklist.visited.contains(op))
      worklist.ops.insert(op);
  });
}

void FoldTransposeIntoDequant::foldIntoCallees(Worklist &worklist,
                                               RewriterBase &rewriter,
                                               Folder &folder) {
  CalleeFolder calleeFolder(getOperation(), rewriter, folder, multiUse);
  bool changed = true;
  // A copy of a function may in turn transpose the result of a call.
  while (changed) {
    changed = false;
    collectTransposes(worklist);
    while (!worklist.ops.empty()) {
      Operation *op = worklist.pop();
      Transpose transpose = *matchTranspose(op);
      if (!transpose.isOnTensors() || worklist.refusals.contains(op))
        continue;
      Composed composed = compose(transpose);
      if (composed.isIdentity() || !composed.base.getDefiningOp<func::CallOp>())
        continue;
      std::optional<Refusal> refusal = calleeFolder.fold(composed);
      changed |= !refusal;
      // What the options keep from being served is left.
      Uses uses;
      if (!refusal && worklist.current)
        refusal = folder.selectUses(transpose, uses);
      if (refusal)
        worklist.refusals.try_emplace(op, *refusal);
    }
  }
}

void FoldTransposeIntoDequant::storeAsNK(Worklist &worklist, Folder &folder) {
  walkReachable([&](Operation *op) {
    auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
    if (linalgOp && linalgOp.hasPureTensorSemantics() &&
        linalg::isaContractionOpInterface(linalgOp))
      worklist.ops.insert(op);
  });
  while (!worklist.ops.empty()) {
    auto op = cast<linalg::LinalgOp>(worklist.pop());
    op = folder.storeAsNK(op, 0);
    folder.storeAsNK(op, 1);
  }
}

void FoldTransposeIntoDequant::visit(Worklist &worklist, Folder &folder) {
  Operation *op = worklist.pop();
  worklist.visited.insert(op);
  Transpose transpose = *matchTranspose(op);
  std::optional<Refusal> refusal;
  if (!transpose.isOnTensors()) {
    refusal = refuse(Reason::MemrefOperands, "the transpose works on memrefs");
  } else if (Composed composed = compose(transpose); composed.isIdentity()) {
    refusal = folder.forwardIdentity(composed);
  } else {
    refusal = folder.foldIntoProducer(composed);
    if (auto it = worklist.refusals.find(op); it != worklist.refusals.end())
      refusal = it->second;
    bool isUsed = refusal && refusal->reason != Reason::NoUsers;
    if (isUsed)
      for (Operation *user :
           llvm::SetVector<Operation *>(op->user_begin(), op->user_end()))
        // What keeps a stored value from being folded into the op that
        // converts it is more to the point than that it is a stored value.
        if (auto found = folder.foldIntoConverter(user);
            found && found->reason != Reason::NotADequantization &&
            found->reason != Reason::NotElementwise &&
            refusal->reason == Reason::NotADequantization &&
            isStorageType(getElementTypeOrSelf(transpose.source)))
          refusal = found;
    if (isUsed && worklist.current && !folder.mergeTransposes(composed))
      return;
    // What the options keep from being served is left.
    Uses uses;
    if (!refusal && worklist.current)
      refusal = folder.selectUses(transpose, uses);
  }
  if (refusal && worklist.current)
    remarkRefused(op, passName, *refusal);
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

struct FoldTransposePattern : RewritePattern {
  FoldTransposePattern(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    Folder folder(rewriter, MultiUse::Auto, /*matvecOnly=*/false,
                  /*leaveDead=*/true);
    std::optional<Refusal> refusal;
    std::optional<Transpose> transpose = matchTranspose(op);
    if (!transpose) {
      refusal = folder.foldIntoConverter(op);
    } else if (transpose->isOnTensors()) {
      Composed composed = compose(*transpose);
      if (composed.isIdentity()) {
        refusal = folder.forwardIdentity(composed);
      } else {
        refusal = folder.foldIntoProducer(composed);
        if (refusal && refusal->reason != Reason::NoUsers &&
            !folder.mergeTransposes(composed))
          refusal = std::nullopt;
      }
    } else {
      refusal = refuse(Reason::MemrefOperands, "memrefs");
    }
    if (!refusal)
      return success();
    return rewriter.notifyMatchFailure(op, refusal->detail);
  }
};

} // namespace

void populateFoldTransposeIntoDequantPatterns(RewritePatternSet &patterns) {
  patterns.add<FoldTransposePattern>(patterns.getContext());
}

} // namespace mlir::qtranspose
