//===- ResultTail.cpp - what follows a contraction, permuted --------------===//

#include "qtranspose/Transforms/ResultTail.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

namespace mlir::qtranspose {

ResultTail::ResultTail(ExprPool &pool, Value result,
                       llvm::ArrayRef<int64_t> permutation,
                       llvm::ArrayRef<bool> isRow)
    : pool(pool), contraction(result.getDefiningOp()), value(result),
      permutation(permutation), isRow(isRow) {
  while (follow())
    ;
}

/// The dim whose size `user` takes from `value`, if it does only that.
static std::optional<int64_t> getSizeQuery(Operation *user, Value value) {
  auto dim = dyn_cast<tensor::DimOp>(user);
  std::optional<int64_t> index = dim ? dim.getConstantIndex() : std::nullopt;
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  return index && *index >= 0 && *index < rank ? index : std::nullopt;
}

/// The op that alone reads the elements of `value`. Sizes are taken from
/// elsewhere in the end, see replaceDims().
static Operation *getOnlyReader(Value value) {
  Operation *reader = nullptr;
  for (OpOperand &use : value.getUses()) {
    if (getSizeQuery(use.getOwner(), value))
      continue;
    if (reader)
      return nullptr;
    reader = use.getOwner();
  }
  return reader;
}

/// The size of dim `dim` of `value`, whose definition is to go.
static OpFoldResult getSize(OpBuilder &builder, Value value, int64_t dim) {
  auto type = cast<RankedTensorType>(value.getType());
  if (!type.isDynamicDim(dim))
    return builder.getIndexAttr(type.getDimSize(dim));
  Operation *op = value.getDefiningOp();
  if (auto style = dyn_cast<DestinationStyleOpInterface>(op)) {
    Value init = style.getTiedOpOperand(cast<OpResult>(value))->get();
    builder.setInsertionPoint(op);
    return tensor::getMixedSize(builder, op->getLoc(), init, dim);
  }
  // An elementwise op on tensors.
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType())) {
      builder.setInsertionPoint(op);
      return tensor::getMixedSize(builder, op->getLoc(), operand, dim);
    }
  llvm_unreachable("the tail consists of structured and elementwise ops");
}

static void replaceDims(RewriterBase &rewriter, Value value) {
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    std::optional<int64_t> dim = getSizeQuery(user, value);
    if (!dim)
      continue;
    OpBuilder::InsertionGuard guard(rewriter);
    OpFoldResult size = getSize(rewriter, value, *dim);
    rewriter.replaceOp(
        user, getValueOrCreateConstantIndexOp(rewriter, user->getLoc(), size));
  }
}

/// Takes the next op into the tail, if it can be.
bool ResultTail::follow() {
  Operation *user = getOnlyReader(value);
  if (!user || user->getNumResults() != 1 ||
      user->getBlock() != value.getDefiningOp()->getBlock())
    return false;
  if (auto transposed = matchTransparentTranspose(user->getResult(0));
      transposed && transposed->source == value) {
    llvm::SmallVector<int64_t> inverse =
        invertPermutationVector(transposed->permutation);
    for (int64_t &dim : permutation)
      dim = inverse[dim];
    steps.push_back({user, std::nullopt, 0, {}});
    value = user->getResult(0);
    return true;
  }
  std::optional<Step> step = mapElementwise(user);
  if (!step)
    return false;
  steps.push_back(std::move(*step));
  ++numMapped;
  value = user->getResult(0);
  return true;
}

std::optional<ResultTail::Step> ResultTail::mapElementwise(Operation *user) {
  OrRefusal<Elementwise> match = matchElementwise(user);
  auto *elementwise = std::get_if<Elementwise>(&match);
  if (!elementwise)
    return std::nullopt;
  unsigned source =
      llvm::find(elementwise->inputs, value) - elementwise->inputs.begin();
  // Otherwise it is the outs operand, which only gives the shape.
  if (source == elementwise->inputs.size())
    return std::nullopt;
  AffineMap map = elementwise->inputMaps[source];
  if (!map.isPermutation())
    return std::nullopt;

  // Result dims in the order of the permuted value's.
  AffineMap toResult = inversePermutation(elementwise->outputMap);
  llvm::SmallVector<int64_t> next;
  for (int64_t dim : permutation)
    next.push_back(toResult.getDimPosition(map.getDimPosition(dim)));
  Step step{user, reindex(*elementwise, next), source, {}};
  // Reindexing looked through the transposes of the tail.
  unsigned rank = next.size();
  step.elementwise->reads[source] = {
      value, AffineMap::getMultiDimIdentityMap(rank, user->getContext())};

  llvm::SmallVector<int64_t> extents = applyPermutation(
      elementwise->getType().getShape(), llvm::ArrayRef<int64_t>(next));
  for (auto [number, read] : llvm::enumerate(step.elementwise->reads)) {
    auto type = dyn_cast<RankedTensorType>(read.value.getType());
    if (!type || number == source)
      continue;
    if (type.getEncoding()) {
      stopReason = refuse(Reason::TensorEncoding,
                          "an operand of the op after the contraction");
      return std::nullopt;
    }
    // A tensor of both rows and columns is as large as the result.
    llvm::SmallVector<DimGroup> groups;
    bool hasRow = false, hasColumn = false;
    for (unsigned dim = 0; dim < rank; ++dim) {
      if (!read.map.isFunctionOfDim(dim))
        continue;
      groups.push_back({dim});
      if (extents[dim] != 1)
        (isRow[dim] ? hasRow : hasColumn) = true;
    }
    if (!hasRow || !hasColumn || !getSplat(read.value).isNull())
      continue;
    OrRefusal<Relayout> layout = Relayout::plan(
        pool, pool.leaf(read.value, read.map.getResults()), extents, groups);
    auto *planned = std::get_if<Relayout>(&layout);
    if (planned && planned->isDerived()) {
      step.constants.push_back({number, std::move(*planned)});
      continue;
    }
    if (planned && !planned->isTransposed() && !planned->isComputed())
      continue;
    stopReason = refuse(Reason::ResidualInOldLayout,
                        "an operand of '" + user->getName().getStringRef() +
                            "' has both kinds of dims and is computed at run "
                            "time");
    return std::nullopt;
  }
  permutation = next;
  return step;
}

void ResultTail::apply(RewriterBase &rewriter, Location loc, Value permuted,
                       DerivedConstants &constants,
                       llvm::SmallVectorImpl<Value> &read) {
  OpBuilder::InsertionGuard guard(rewriter);
  // Consumers first: a size of a later value may be one of an earlier one.
  for (const Step &step : llvm::reverse(steps))
    if (step.op->getResult(0) != value)
      replaceDims(rewriter, step.op->getResult(0));
  if (!steps.empty())
    replaceDims(rewriter, contraction->getResult(0));
  Value current = permuted;
  for (Step &step : steps) {
    if (!step.elementwise)
      continue;
    ReindexedOp &op = *step.elementwise;
    rewriter.setInsertionPoint(step.op);
    unsigned rank = op.permutation.size();
    for (auto &[number, layout] : step.constants) {
      Read &input = op.reads[number];
      llvm::SmallVector<AffineExpr> dims;
      for (unsigned dim = 0; dim < rank; ++dim)
        if (input.map.isFunctionOfDim(dim))
          dims.push_back(rewriter.getAffineDimExpr(dim));
      input.value = layout.apply(rewriter, loc, step.op, constants);
      input.map = AffineMap::get(rank, 0, dims, rewriter.getContext());
    }
    // The old operand, if any, may be gone by now.
    Read &source = op.reads[step.source];
    llvm::DenseMap<Value, Value> replaced{{source.value, current}};
    current = createReindexed(rewriter, op, RankedTensorType(), loc, replaced);
  }

  rewriter.setInsertionPointAfter(value.getDefiningOp());
  Value restored =
      transpose(rewriter, loc, current, invertPermutationVector(permutation));
  if (restored.getType() != value.getType())
    restored = tensor::CastOp::create(rewriter, loc, value.getType(), restored);
  rewriter.replaceAllUsesWith(value, restored);
  llvm::SmallPtrSet<Operation *, 4> erased{contraction};
  for (const Step &step : steps)
    erased.insert(step.op);
  for (Step &step : llvm::reverse(steps)) {
    for (Value operand : step.op->getOperands())
      if (!erased.contains(operand.getDefiningOp()))
        read.push_back(operand);
    rewriter.eraseOp(step.op);
  }
}

} // namespace mlir::qtranspose
