//===- Reindex.cpp - permuting a value by re-indexing its producers -------===//

#include "qtranspose/Utils/Reindex.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::qtranspose {

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

ReindexedOp reindex(const Elementwise &source, ArrayRef<int64_t> permutation) {
  ReindexedOp op{source, llvm::to_vector(permutation), {}};
  MLIRContext *context = source.op->getContext();
  unsigned rank = permutation.size();
  SmallVector<AffineExpr> newLoops(rank);
  for (auto [i, dim] : llvm::enumerate(permutation))
    newLoops[source.outputMap.getDimPosition(dim)] =
        getAffineDimExpr(i, context);
  for (auto [input, map] : llvm::zip(source.inputs, source.inputMaps)) {
    Read read{input, map.replaceDimsAndSymbols(newLoops, {}, rank, 0)};
    if (isa<RankedTensorType>(input.getType()))
      lookThroughTransposes(read.value, read.map);
    op.reads.push_back(read);
  }
  return op;
}

/// The permutation of the dimensions of a value read by `map` that makes `map`
/// read them in the order of the loops.
static SmallVector<int64_t> getLoopOrder(AffineMap map) {
  auto order = llvm::to_vector(llvm::seq<int64_t>(map.getNumResults()));
  llvm::sort(order, [&](int64_t a, int64_t b) {
    return map.getDimPosition(a) < map.getDimPosition(b);
  });
  return order;
}

AffineMap permuteResults(AffineMap map, ArrayRef<int64_t> permutation) {
  return AffineMap::get(map.getNumDims(), 0,
                        applyPermutation(map.getResults(), permutation),
                        map.getContext());
}

namespace {
/// Decides which ops above a value are re-indexed when it is permuted, given
/// which uses of it are going to be served by the permuted value.
class Planner {
public:
  Planner(MultiUse multiUse, const Uses &served)
      : multiUse(multiUse), served(served) {}

  OrRefusal<FoldPlan> plan(Value root, ArrayRef<int64_t> permutation,
                           RankedTensorType type);

  /// Whether `op` is needed after the rewrite.
  bool staysAlive(Operation *op);

private:
  void collect(const Elementwise &elementwise, ArrayRef<int64_t> permutation);

  MultiUse multiUse;
  const Uses &served;
  std::vector<ReindexedOp> ops;
  llvm::DenseMap<Operation *, SmallVector<int64_t>> permutations;
  llvm::DenseMap<Operation *, bool> alive;
  /// Ops that are read as they are.
  llvm::SmallPtrSet<Operation *, 4> barred;
  bool restart = false;
};

} // namespace

bool Planner::staysAlive(Operation *op) {
  auto [it, inserted] = alive.try_emplace(op, false);
  if (!inserted)
    return it->second;
  bool result = llvm::any_of(op->getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    // Sizes are taken from elsewhere, see `replaceDims`.
    if (served.contains(&use) || isOpTriviallyDead(user) ||
        isa<tensor::DimOp>(user))
      return false;
    std::optional<Transpose> transpose = matchTranspose(user);
    bool mayDie =
        permutations.contains(user) || (transpose && transpose->isOnTensors());
    return !mayDie || staysAlive(user);
  });
  return alive[op] = result;
}

bool favoursClone(MultiUse multiUse, Value value) {
  if (multiUse != MultiUse::Auto)
    return multiUse == MultiUse::Clone;
  OrRefusal<DequantCone> cone = matchDequantization(value);
  auto *found = std::get_if<DequantCone>(&cone);
  return found &&
         getBitsReadPerElement(*found, value) < getElementBits(value.getType());
}

void Planner::collect(const Elementwise &elementwise,
                      ArrayRef<int64_t> permutation) {
  auto [it, inserted] =
      permutations.try_emplace(elementwise.op, llvm::to_vector(permutation));
  if (!inserted) {
    // Two orders of one value: compute it once, read it in both.
    if (ArrayRef(it->second) != permutation)
      restart |= barred.insert(elementwise.op).second;
    return;
  }
  ReindexedOp op = reindex(elementwise, permutation);
  for (Read &read : op.reads) {
    Operation *producer = read.value.getDefiningOp();
    if (!producer || barred.contains(producer) ||
        !getSplat(read.value).isNull() || !read.map.isProjectedPermutation())
      continue;
    SmallVector<int64_t> order = getLoopOrder(read.map);
    if (isIdentityPermutation(order))
      continue;
    OrRefusal<Elementwise> match = matchElementwise(producer);
    auto *input = std::get_if<Elementwise>(&match);
    if (!input)
      continue;
    collect(*input, order);
    read.map = permuteResults(read.map, order);
  }
  ops.push_back(std::move(op));
}

OrRefusal<FoldPlan> Planner::plan(Value root, ArrayRef<int64_t> permutation,
                                  RankedTensorType type) {
  OrRefusal<DequantCone> cone = matchDequantization(root);
  if (auto *refusal = std::get_if<Refusal>(&cone))
    return *refusal;
  Operation *rootOp = root.getDefiningOp();
  auto rootMatch = std::get<Elementwise>(matchElementwise(rootOp));
  FoldPlan plan;
  do {
    restart = false;
    ops.clear();
    permutations.clear();
    alive.clear();
    plan.cloned.clear();
    collect(rootMatch, permutation);
    // Consumers first: what is read ends the search below it.
    for (const ReindexedOp &op : llvm::reverse(ops)) {
      if (restart)
        break;
      Operation *source = op.source.op;
      if (!staysAlive(source))
        continue;
      plan.cloned.insert(source);
      if (favoursClone(multiUse, source->getResult(0)))
        continue;
      if (source == rootOp)
        return refuse(Reason::MultiUse,
                      "computing the value a second time moves no fewer bytes "
                      "than the transpose does, or was not asked for");
      barred.insert(source);
      restart = true;
    }
  } while (restart);
  plan.ops = std::move(ops);
  plan.type = type;
  plan.rootAttrs = getDiscardableAttrs(rootOp);
  return plan;
}

OrRefusal<FoldPlan> planPermuted(Value root, ArrayRef<int64_t> permutation,
                                 RankedTensorType type, const Uses &served,
                                 MultiUse multiUse) {
  return Planner(multiUse, served).plan(root, permutation, type);
}

//===----------------------------------------------------------------------===//
// Applying a plan
//===----------------------------------------------------------------------===//

/// The size of dimension `dim` of `value`, without using the result of an op
/// that a plan replaces.
static OpFoldResult getSize(OpBuilder &builder, Location loc, Value value,
                            int64_t dim) {
  auto type = cast<RankedTensorType>(value.getType());
  if (!type.isDynamicDim(dim))
    return builder.getIndexAttr(type.getDimSize(dim));
  Operation *op = value.getDefiningOp();
  if (auto empty = dyn_cast_or_null<tensor::EmptyOp>(op))
    return empty.getMixedSizes()[dim];
  if (auto splat = dyn_cast_or_null<tensor::SplatOp>(op))
    return splat.getDynamicSizes()[type.getDynamicDimIndex(dim)];
  if (auto structured = dyn_cast_or_null<linalg::LinalgOp>(op))
    return getSize(builder, loc,
                   structured.getTiedOpOperand(cast<OpResult>(value))->get(),
                   dim);
  if (op && OpTrait::hasElementwiseMappableTraits(op))
    for (Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()))
        return getSize(builder, loc, operand, dim);
  return tensor::DimOp::create(builder, loc, value, dim).getResult();
}

/// Creates the region of the op that replaces `source`.
static void cloneBody(RewriterBase &rewriter, const Elementwise &source,
                      linalg::GenericOp op) {
  if (isa<linalg::LinalgOp>(source.op)) {
    rewriter.cloneRegionBefore(source.op->getRegion(0), op.getRegion(),
                               op.getRegion().end());
    return;
  }
  SmallVector<Type> types;
  for (Value operand : op->getOperands())
    types.push_back(getElementTypeOrSelf(operand));
  SmallVector<Location> locs(types.size(), op.getLoc());
  Block *body =
      rewriter.createBlock(&op.getRegion(), op.getRegion().end(), types, locs);
  IRMapping mapping;
  for (auto [operand, argument] :
       llvm::zip(source.op->getOperands(), body->getArguments()))
    mapping.map(operand, argument);
  Operation *scalar = rewriter.clone(*source.op, mapping);
  scalar->setDiscardableAttrs(ArrayRef<NamedAttribute>());
  scalar->getResult(0).setType(types.back());
  linalg::YieldOp::create(rewriter, op.getLoc(), scalar->getResults());
}

/// Creates the re-indexed op before the op it replaces. An empty `type` stands
/// for the permuted type.
/// The outs operand of the op that replaces `op`; its elements are not read.
static Value createInit(OpBuilder &builder, Location loc, const ReindexedOp &op,
                        RankedTensorType type) {
  if (auto structured = dyn_cast<linalg::LinalgOp>(op.source.op)) {
    Value init = structured.getDpsInits()[0];
    bool hasSameSizes =
        type.hasStaticShape() || isIdentityPermutation(op.permutation);
    if (init.getType() == type && hasSameSizes)
      return init;
  }
  Value result = op.source.op->getResult(0);
  SmallVector<Value> sizes;
  for (auto [i, dim] : llvm::enumerate(op.permutation))
    if (type.isDynamicDim(i))
      sizes.push_back(getValueOrCreateConstantIndexOp(
          builder, loc, getSize(builder, loc, result, dim)));
  return tensor::EmptyOp::create(builder, loc, type, sizes);
}

Value createReindexed(RewriterBase &rewriter, const ReindexedOp &op,
                      RankedTensorType type, Location cause,
                      const llvm::DenseMap<Value, Value> &replaced) {
  Operation *source = op.source.op;
  rewriter.setInsertionPoint(source);
  Location loc = rewriter.getFusedLoc({source->getLoc(), cause});
  RankedTensorType oldType = op.source.getType();
  if (!type)
    type = oldType.clone(applyPermutation(oldType.getShape(), op.permutation));

  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  for (const Read &read : op.reads) {
    OpFoldResult splat = isa<RankedTensorType>(read.value.getType())
                             ? getSplat(read.value)
                             : OpFoldResult();
    if (splat.isNull()) {
      inputs.push_back(replaced.lookup_or(read.value, read.value));
      maps.push_back(read.map);
      continue;
    }
    // A scalar has no layout.
    if (auto attr = dyn_cast<Attribute>(splat))
      inputs.push_back(
          arith::ConstantOp::create(rewriter, loc, cast<TypedAttr>(attr)));
    else
      inputs.push_back(cast<Value>(splat));
    maps.push_back(AffineMap::get(type.getRank(), 0, rewriter.getContext()));
  }
  maps.push_back(rewriter.getMultiDimIdentityMap(type.getRank()));

  Value init = createInit(rewriter, loc, op, type);
  StringRef doc;
  if (auto generic = dyn_cast<linalg::GenericOp>(source))
    doc = generic.getDoc().value_or("");
  SmallVector<utils::IteratorType> iterators(type.getRank(),
                                             utils::IteratorType::parallel);
  auto generic =
      linalg::GenericOp::create(rewriter, loc, TypeRange(type), inputs, init,
                                maps, iterators, doc, /*libraryCall=*/"");
  generic->setDiscardableAttrs(getDiscardableAttrs(source));
  OpBuilder::InsertionGuard guard(rewriter);
  cloneBody(rewriter, op.source, generic);
  return generic.getResult(0);
}

linalg::LinalgOp setOperand(RewriterBase &rewriter, linalg::LinalgOp op,
                            unsigned number, Value value, AffineMap map,
                            Location cause) {
  // Other named ops fix the layout of their operands.
  unsigned rank = map.getNumResults();
  bool isFree = isa<linalg::ContractOp, linalg::GenericOp>(op.getOperation()) ||
                (isa<linalg::MatmulOp>(op.getOperation()) && rank == 2) ||
                (isa<linalg::BatchMatmulOp>(op.getOperation()) && rank == 3 &&
                 map.getResult(0) == getAffineDimExpr(0, op.getContext()));
  if (!isFree) {
    SmallVector<NamedAttribute> attrs = getDiscardableAttrs(op);
    rewriter.setInsertionPoint(op);
    op = *linalg::generalizeNamedOp(rewriter, op);
    op->setDiscardableAttrs(attrs);
  }
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  maps[number] = map;
  ArrayAttr attr = rewriter.getAffineMapArrayAttr(maps);
  rewriter.modifyOpInPlace(op, [&] {
    op->setOperand(number, value);
    llvm::TypeSwitch<Operation *>(op)
        .Case<linalg::MatmulOp, linalg::BatchMatmulOp, linalg::ContractOp,
              linalg::GenericOp>(
            [&](auto concrete) { concrete.setIndexingMapsAttr(attr); });
    op->setLoc(rewriter.getFusedLoc({op->getLoc(), cause}));
  });
  return op;
}

/// Returns the permuted root. The replaced ops are left to the caller.
Value applyPlan(RewriterBase &rewriter, const FoldPlan &plan, Location cause) {
  llvm::DenseMap<Value, Value> replaced;
  Value result;
  for (const ReindexedOp &op : plan.ops) {
    bool isRoot = &op == &plan.ops.back();
    result = createReindexed(
        rewriter, op, isRoot ? plan.type : RankedTensorType(), cause, replaced);
    replaced[op.source.op->getResult(0)] = result;
  }
  result.getDefiningOp()->setDiscardableAttrs(plan.rootAttrs);
  return result;
}

/// Takes the sizes of results that are about to go from elsewhere.
void replaceDims(RewriterBase &rewriter, const FoldPlan &plan) {
  for (const ReindexedOp &op : plan.ops) {
    if (plan.cloned.contains(op.source.op))
      continue;
    Value old = op.source.op->getResult(0);
    for (Operation *user : llvm::make_early_inc_range(old.getUsers())) {
      auto dimOp = dyn_cast<tensor::DimOp>(user);
      std::optional<int64_t> dim =
          dimOp ? dimOp.getConstantIndex() : std::nullopt;
      if (!dim || *dim < 0 || *dim >= op.source.getType().getRank())
        continue;
      rewriter.setInsertionPoint(op.source.op);
      Location loc = dimOp.getLoc();
      rewriter.replaceOp(dimOp,
                         getValueOrCreateConstantIndexOp(
                             rewriter, loc, getSize(rewriter, loc, old, *dim)));
    }
  }
}

/// Erases `op` if nothing uses it, and what only it used.
void eraseIfDead(RewriterBase &rewriter, ArrayRef<Operation *> ops) {
  llvm::SetVector<Operation *> candidates;
  candidates.insert(ops.begin(), ops.end());
  while (!candidates.empty()) {
    Operation *dead = candidates.pop_back_val();
    if (!isOpTriviallyDead(dead))
      continue;
    dead->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          if (!dead->isAncestor(producer))
            candidates.insert(producer);
    });
    rewriter.eraseOp(dead);
  }
}

} // namespace mlir::qtranspose
