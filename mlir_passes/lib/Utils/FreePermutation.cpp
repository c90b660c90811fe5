//===- FreePermutation.cpp - values permuted where they are computed ------===//

#include "qtranspose/Utils/FreePermutation.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

namespace mlir::qtranspose {

namespace {

class Planner {
public:
  Planner(const Uses &served, Location cause) : served(served), cause(cause) {}

  OrRefusal<PermutationRecipe> plan(Value value, ArrayRef<int64_t> permutation,
                                    unsigned depth = 0);

private:
  using Result = OrRefusal<PermutationRecipe>;
  using Permutation = SmallVector<int64_t>;

  Result planOp(Operation *op, ArrayRef<int64_t> permutation, unsigned depth);
  Result planStructured(linalg::LinalgOp op, ArrayRef<int64_t> permutation,
                        unsigned depth);
  Result planConcat(tensor::ConcatOp op, ArrayRef<int64_t> permutation,
                    unsigned depth);
  bool isServed(Value value, bool isRoot) const;

  const Uses &served;
  Location cause;
};

} // namespace

static Refusal refuseFixed(const Twine &detail) {
  return refuse(Reason::LayoutFixedOnBothSides, detail);
}

static RankedTensorType permuted(Type type, ArrayRef<int64_t> permutation) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.clone(applyPermutation(tensor.getShape(), permutation));
}

static Value castTo(RewriterBase &rewriter, Location loc, Value value,
                    RankedTensorType type) {
  return value.getType() == type
             ? value
             : tensor::CastOp::create(rewriter, loc, type, value).getResult();
}

/// Lets `tensor.dim` ops read the sizes of `value` off `replacement`.
static void moveDims(RewriterBase &rewriter, Value value, Value replacement,
                     ArrayRef<int64_t> permutation) {
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    auto dimOp = dyn_cast<tensor::DimOp>(user);
    std::optional<int64_t> dim =
        dimOp ? dimOp.getConstantIndex() : std::nullopt;
    if (!dim || *dim < 0 || *dim >= static_cast<int64_t>(permutation.size()))
      continue;
    rewriter.setInsertionPoint(dimOp);
    rewriter.replaceOpWithNewOp<tensor::DimOp>(
        dimOp, replacement,
        std::distance(permutation.begin(), llvm::find(permutation, *dim)));
  }
}

bool Planner::isServed(Value value, bool isRoot) const {
  bool isRead = isRoot;
  for (OpOperand &use : value.getUses()) {
    if (isa<tensor::DimOp>(use.getOwner()))
      continue;
    // Below the root there is one reader: the op that this search comes from.
    if (isRoot ? !served.contains(&use) : std::exchange(isRead, true))
      return false;
  }
  return true;
}

Planner::Result Planner::plan(Value value, ArrayRef<int64_t> permutation,
                              unsigned depth) {
  constexpr unsigned maxDepth = 32;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getEncoding())
    return refuse(Reason::TensorEncoding,
                  "what would be permuted has an encoding");
  if (isIdentityPermutation(permutation))
    return PermutationRecipe([value](RewriterBase &) { return value; });
  Operation *op = value.getDefiningOp();
  if (!op)
    return refuseFixed("the source is a block argument");
  if (depth > maxDepth)
    return refuseFixed("the source is computed by a long chain of ops");

  // Without contents, or the same everywhere: nothing to move, however often
  // it is used.
  if (auto empty = dyn_cast<tensor::EmptyOp>(op))
    return PermutationRecipe(
        [=, cause = cause,
         permutation = Permutation(permutation)](RewriterBase &rewriter) {
          OpBuilder::InsertionGuard guard(rewriter);
          tensor::EmptyOp source = empty;
          rewriter.setInsertionPoint(source);
          return tensor::EmptyOp::create(
                     rewriter, rewriter.getFusedLoc({source.getLoc(), cause}),
                     applyPermutation(source.getMixedSizes(), permutation),
                     type.getElementType())
              .getResult();
        });
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
      return PermutationRecipe([=, cause = cause,
                                permutation = Permutation(permutation)](
                                   RewriterBase &rewriter) -> Value {
        OpBuilder::InsertionGuard guard(rewriter);
        rewriter.setInsertionPoint(op);
        return arith::ConstantOp::create(
            rewriter, rewriter.getFusedLoc({op->getLoc(), cause}),
            SplatElementsAttr(splat).resizeSplat(permuted(type, permutation)));
      });
  if (auto fill = dyn_cast<linalg::FillOp>(op);
      fill && fill.getNumResults() == 1) {
    Result init = plan(fill.getDpsInits()[0], permutation, depth + 1);
    if (std::holds_alternative<Refusal>(init))
      return init;
    return PermutationRecipe(
        [=, cause = cause, init = std::get<PermutationRecipe>(init)](
            RewriterBase &rewriter) -> Value {
          OpBuilder::InsertionGuard guard(rewriter);
          Value permutedInit = init(rewriter);
          rewriter.setInsertionPoint(op);
          linalg::FillOp source = fill;
          auto created = linalg::FillOp::create(
              rewriter, rewriter.getFusedLoc({op->getLoc(), cause}),
              source.getInputs(), permutedInit);
          created->setDiscardableAttrs(getDiscardableAttrs(op));
          return created.getResult(0);
        });
  }

  if (std::optional<Transpose> inner = matchTransparentTranspose(value)) {
    Permutation composed =
        applyPermutation(ArrayRef(inner->permutation), permutation);
    // A source that is read as it stands may be read by others too.
    if (isIdentityPermutation(composed))
      return PermutationRecipe(
          [source = inner->source](RewriterBase &) { return source; });
    if (!isServed(value, depth == 0))
      return refuseFixed("the source is used elsewhere too");
    return plan(inner->source, composed, depth + 1);
  }

  if (!isServed(value, depth == 0))
    return refuseFixed("the source is used elsewhere too");
  Result result = planOp(op, permutation, depth);
  if (std::holds_alternative<Refusal>(result))
    return result;
  return PermutationRecipe(
      [value, recipe = std::get<PermutationRecipe>(result),
       permutation = Permutation(permutation)](RewriterBase &rewriter) {
        OpBuilder::InsertionGuard guard(rewriter);
        Value replacement = recipe(rewriter);
        moveDims(rewriter, value, replacement, permutation);
        return replacement;
      });
}

Planner::Result Planner::planOp(Operation *op, ArrayRef<int64_t> permutation,
                                unsigned depth) {
  if (auto concat = dyn_cast<tensor::ConcatOp>(op))
    return planConcat(concat, permutation, depth);
  if (auto source = dyn_cast<tensor::CastOp>(op)) {
    if (!isa<RankedTensorType>(source.getSource().getType()))
      return refuseFixed("the source was unranked");
    Result inner = plan(source.getSource(), permutation, depth + 1);
    if (std::holds_alternative<Refusal>(inner))
      return inner;
    return PermutationRecipe(
        [=, cause = cause, inner = std::get<PermutationRecipe>(inner),
         type =
             permuted(source.getType(), permutation)](RewriterBase &rewriter) {
          Value value = inner(rewriter);
          rewriter.setInsertionPoint(op);
          return castTo(rewriter, rewriter.getFusedLoc({op->getLoc(), cause}),
                        value, type);
        });
  }
  OrRefusal<Elementwise> match = matchElementwise(op);
  if (auto *elementwise = std::get_if<Elementwise>(&match))
    return PermutationRecipe(
        [cause = cause,
         plan = reindex(*elementwise, permutation)](RewriterBase &rewriter) {
          return createReindexed(rewriter, plan, RankedTensorType(), cause,
                                 llvm::DenseMap<Value, Value>());
        });
  if (auto structured = dyn_cast<linalg::LinalgOp>(op))
    return planStructured(structured, permutation, depth);
  return refuseFixed("the source is the result of '" +
                     op->getName().getStringRef() + "'");
}

Planner::Result Planner::planStructured(linalg::LinalgOp op,
                                        ArrayRef<int64_t> permutation,
                                        unsigned depth) {
  Block *body = op.getBlock();
  auto generic = dyn_cast<linalg::GenericOp>(op.getOperation());
  if (!op.hasPureTensorSemantics() || op->getNumResults() != 1 || !body ||
      body->getNumArguments() != op->getNumOperands())
    return refuseFixed("the source is the result of '" +
                       op->getName().getStringRef() + "'");
  if (generic && generic.getLibraryCall())
    return refuse(Reason::LibraryCall, "what computes the source");
  // Convolutions are named for the layouts that backends have kernels for.
  if (!generic && llvm::any_of(op.getIndexingMapsArray(), [](AffineMap map) {
        return !map.isProjectedPermutation();
      }))
    return refuseFixed("the source is the result of '" +
                       op->getName().getStringRef() + "'");

  Value init = op.getDpsInits()[0];
  bool isRead = !body->getArguments().back().use_empty();
  PermutationRecipe initRecipe;
  if (isRead || isa_and_present<tensor::EmptyOp>(init.getDefiningOp())) {
    Result planned = plan(init, permutation, depth + 1);
    if (std::holds_alternative<Refusal>(planned))
      return planned;
    initRecipe = std::get<PermutationRecipe>(planned);
  }
  return PermutationRecipe(
      [=, cause = cause, permutation = Permutation(permutation)](
          RewriterBase &rewriter) -> Value {
        linalg::LinalgOp source = op;
        Location loc = rewriter.getFusedLoc({source->getLoc(), cause});
        Value newInit;
        if (initRecipe)
          newInit = initRecipe(rewriter);
        rewriter.setInsertionPoint(source);
        if (!newInit)
          newInit = tensor::EmptyOp::create(
              rewriter, loc,
              applyPermutation(tensor::getMixedSizes(rewriter, loc, init),
                               permutation),
              getElementTypeOrSelf(init.getType()));
        SmallVector<AffineMap> maps = source.getIndexingMapsArray();
        maps.back() = permuteResults(maps.back(), permutation);
        StringRef doc;
        if (auto original = dyn_cast<linalg::GenericOp>(source.getOperation()))
          doc = original.getDoc().value_or("");
        auto created = linalg::GenericOp::create(
            rewriter, loc, TypeRange(newInit.getType()), source.getDpsInputs(),
            newInit, maps, source.getIteratorTypesArray(), doc,
            /*libraryCall=*/"");
        created->setDiscardableAttrs(getDiscardableAttrs(source));
        rewriter.cloneRegionBefore(source->getRegion(0), created.getRegion(),
                                   created.getRegion().end());
        return created.getResult(0);
      });
}

Planner::Result Planner::planConcat(tensor::ConcatOp op,
                                    ArrayRef<int64_t> permutation,
                                    unsigned depth) {
  SmallVector<PermutationRecipe> recipes;
  for (Value input : op.getInputs()) {
    Result planned = plan(input, permutation, depth + 1);
    if (std::holds_alternative<Refusal>(planned))
      return planned;
    recipes.push_back(std::get<PermutationRecipe>(planned));
  }
  int64_t dim =
      std::distance(permutation.begin(),
                    llvm::find(permutation, static_cast<int64_t>(op.getDim())));
  return PermutationRecipe(
      [=, cause = cause, type = permuted(op.getType(), permutation)](
          RewriterBase &rewriter) -> Value {
        SmallVector<Value> values;
        for (const PermutationRecipe &recipe : recipes)
          values.push_back(recipe(rewriter));
        tensor::ConcatOp source = op;
        rewriter.setInsertionPoint(source);
        return tensor::ConcatOp::create(
            rewriter, rewriter.getFusedLoc({source->getLoc(), cause}), type,
            dim, values);
      });
}

OrRefusal<PermutationRecipe> planFreePermutation(Value value,
                                                 ArrayRef<int64_t> permutation,
                                                 const Uses &served,
                                                 Location cause) {
  return Planner(served, cause).plan(value, permutation);
}

} // namespace mlir::qtranspose
