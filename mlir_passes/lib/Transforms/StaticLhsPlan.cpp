//===- StaticLhsPlan.cpp - the rewrite of one contraction, planned --------===//

#include "qtranspose/Transforms/StaticLhsPlan.h"

#include "qtranspose/Analysis/DequantDescription.h"
#include "qtranspose/Analysis/StaticOperand.h"
#include "qtranspose/Utils/QuantizedTypes.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Quant/IR/Quant.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

namespace mlir::qtranspose {

//===----------------------------------------------------------------------===//
// Which operand is the weight
//===----------------------------------------------------------------------===//

static bool hasEncoding(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getEncoding();
}

/// Whether the left operand of a contraction of buffers is a constant.
static bool hasConstantBuffer(linalg::LinalgOp op) {
  if (!op.hasPureBufferSemantics() || op.getNumReductionLoops() == 0 ||
      op.getNumDpsInputs() < 2)
    return false;
  auto load =
      op.getDpsInputOperand(0)->get().getDefiningOp<memref::GetGlobalOp>();
  if (!load)
    return false;
  auto global = SymbolTable::lookupNearestSymbolFrom<memref::GlobalOp>(
      load, load.getNameAttr());
  return global && global.getConstant();
}

/// Why tracing stopped short of a weight that is not a matter of the program
/// computing it.
static bool hidesWeight(const TracedOperand &traced) {
  return traced.storage.empty() && traced.refusal;
}

/// Whether `value` is an argument of a private function inside `root` that
/// every call gives a constant of its own function.
static bool isConstantOfCallers(Value value, Operation *root) {
  auto argument = dyn_cast<BlockArgument>(skipViews(value));
  if (!root || !argument || !argument.getOwner()->isEntryBlock())
    return false;
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  if (!function || !function.isPrivate() || function == root)
    return false;
  std::optional<SymbolTable::UseRange> uses =
      SymbolTable::getSymbolUses(function, root);
  return uses && !uses->empty() &&
         llvm::all_of(*uses, [&](const SymbolTable::SymbolUse &use) {
           auto call = dyn_cast<CallOpInterface>(use.getUser());
           if (!call || argument.getArgNumber() >= call.getArgOperands().size())
             return false;
           Value given = call.getArgOperands()[argument.getArgNumber()];
           return isa<RankedTensorType>(given.getType()) &&
                  isConstantTensor(given);
         });
}

llvm::SmallVector<AffineExpr>
StaticLhsPlan::getCoordinates(OpOperand &operand) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  llvm::SmallVector<AffineExpr> coordinates;
  for (AffineExpr result : map.getResults()) {
    for (unsigned dim : unitDims)
      result = result.replace(getAffineDimExpr(dim, op->getContext()),
                              getAffineConstantExpr(0, op->getContext()));
    coordinates.push_back(simplifyAffineExpr(result, map.getNumDims(), 0));
  }
  return coordinates;
}

Expr StaticLhsPlan::substituteUnits(Expr expr) {
  if (unitDims.empty())
    return expr;
  return pool.mapCoordinates(expr, [&](AffineExpr coordinate) {
    for (unsigned dim : unitDims)
      coordinate =
          coordinate.replace(getAffineDimExpr(dim, op->getContext()),
                             getAffineConstantExpr(0, op->getContext()));
    return coordinate;
  });
}

/// Whether the result has a dim that only the weight has before one that it
/// does not have.
bool StaticLhsPlan::isWeightLeftOfRows() {
  AffineMap weightDims = op.getMatchingIndexingMap(weight);
  AffineMap activationDims = op.getMatchingIndexingMap(activation);
  bool sawColumn = false;
  for (AffineExpr result : op.getIndexingMapsArray().back().getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(result);
    if (!dim || extents[dim.getPosition()] == 1)
      continue;
    bool inWeight = weightDims.isFunctionOfDim(dim.getPosition());
    bool inActivation = activationDims.isFunctionOfDim(dim.getPosition());
    if (sawColumn && inActivation && !inWeight)
      return true;
    sawColumn |= inWeight && !inActivation;
  }
  return false;
}

bool StaticLhsPlan::variesAlongDimsOf(OpOperand *operand, OpOperand *other) {
  AffineMap map = op.getMatchingIndexingMap(operand);
  AffineMap otherMap = op.getMatchingIndexingMap(other);
  for (auto [dim, extent] : llvm::enumerate(extents))
    if (extent != 1 && otherMap.isFunctionOfDim(dim) &&
        !map.isFunctionOfDim(dim))
      return false;
  return true;
}

bool StaticLhsPlan::matchWeight(std::optional<Refusal> &refusal) {
  if (hasConstantBuffer(op)) {
    refusal = refuse(Reason::MemrefOperands,
                     "the contraction works on memrefs: run the pass before "
                     "bufferization");
    return true;
  }
  if (!op.hasPureTensorSemantics() || op.getNumReductionLoops() == 0 ||
      op->getNumResults() == 0 || op.getNumDpsInputs() < 2)
    return false;
  extents = getLoopExtents(op);
  // Convolutions call the weight their second operand.
  bool isConvolution = linalg::isaConvolutionOpInterface(op);
  weight = op.getDpsInputOperand(isConvolution ? 1 : 0);
  llvm::SmallVector<TracedOperand, 0> operands =
      traceOperands(op, pool, tracer);
  llvm::DenseMap<OpOperand *, Staticness> degrees;
  bool isEncoded = false;
  const TracedOperand *traced = nullptr;
  for (const TracedOperand &operand : operands) {
    bool encoded;
    degrees[operand.operand] = getStaticness(operand.expr, extents, encoded);
    if (operand.operand != weight)
      continue;
    traced = &operand;
    isEncoded = encoded;
  }
  if (!traced)
    return false;
  Staticness degree = degrees.lookup(weight);
  bool isHidden = degree == Staticness::RunTime && hidesWeight(*traced);
  if (degree == Staticness::RunTime && !isHidden) {
    if (isConvolution || !isConstantOfCallers(weight->get(), root))
      return false;
    refusal = refuse(Reason::ConstantOfCallers, "inline the function first");
    return true;
  }
  weightExpr = traced->expr;

  OrRefusal<MultiplyAdd> match = matchMultiplyAdd(op);
  unsigned number = weight->getOperandNumber();
  llvm::SmallVector<OpOperand *> factor, dynamic;
  bool anyEqual = false;
  if (auto *matched = std::get_if<MultiplyAdd>(&match))
    body = *matched;
  for (const TracedOperand &operand : operands) {
    bool isFactor = operand.operand != weight;
    if (std::holds_alternative<MultiplyAdd>(match))
      isFactor &= body.getFactorOf(operand.operand->getOperandNumber()) !=
                  body.getFactorOf(number);
    if (!isFactor)
      continue;
    factor.push_back(operand.operand);
    Staticness other = degrees.lookup(operand.operand);
    if (other == Staticness::RunTime || other < degree)
      dynamic.push_back(operand.operand);
    anyEqual |= other == degree;
  }
  // What is stored may have scales that are computed at run time.
  bool isWeight =
      degree != Staticness::RunTime &&
      llvm::any_of(factor, [&](OpOperand *operand) {
        return degrees.lookup(operand) >= degree &&
               isStorageType(getElementTypeOrSelf(operand->get())) &&
               llvm::all_of(factor, [&](OpOperand *other) {
                 return variesAlongDimsOf(operand, other);
               });
      });
  if (dynamic.empty() || isWeight) {
    if ((anyEqual || isWeight) && !isConvolution)
      refusal = refuse(Reason::BothOperandsStatic,
                       degree == Staticness::Constant
                           ? "both operands are constant"
                           : "both operands are arguments of quantized "
                             "storage");
    return refusal.has_value();
  }
  activation = dynamic.front();
  if (isConvolution && !isWeightLeftOfRows())
    return false;
  if (isHidden)
    refusal = traced->refusal;
  else if (isEncoded)
    refusal = refuse(Reason::TensorEncoding, "the weight has an encoding");
  else if (isa<linalg::Mmt4DOp, linalg::BatchMmt4DOp>(op))
    refusal = refuse(Reason::PackedContraction,
                     "'" + op->getName().getStringRef() + "' works on tiles");
  else if (op->getNumResults() != 1)
    refusal = refuse(Reason::SeveralResults, "the contraction has " +
                                                 Twine(op->getNumResults()) +
                                                 " results");
  else if (auto *mismatch = std::get_if<Refusal>(&match))
    refusal = *mismatch;
  else if (dynamic.size() > 1)
    refusal = refuse(Reason::NotAMatmul, "several operands are dynamic");
  else if (auto generic = dyn_cast<linalg::GenericOp>(op.getOperation());
           generic && generic.getLibraryCall())
    refusal = refuse(Reason::LibraryCall, "the contraction");
  else if (llvm::any_of(op->getOperands(), hasEncoding))
    refusal = refuse(Reason::TensorEncoding, "an operand of the contraction");
  return true;
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

/// The iteration dims that `expr` varies along.
static llvm::SmallDenseSet<unsigned> getDims(Expr expr,
                                             llvm::ArrayRef<int64_t> extents) {
  llvm::SmallDenseSet<unsigned> dims;
  walkExpr(expr, [&](Expr node) {
    for (AffineExpr coordinate : node->coordinates)
      if (coordinate)
        coordinate.walk([&](AffineExpr part) {
          if (auto dim = dyn_cast<AffineDimExpr>(part);
              dim && extents[dim.getPosition()] != 1)
            dims.insert(dim.getPosition());
        });
  });
  return dims;
}

/// Reads coordinates that are distinct dims, or zero. False if they are not.
static bool asDistinctDims(llvm::ArrayRef<AffineExpr> coordinates,
                           llvm::SmallDenseSet<unsigned> &dims) {
  for (AffineExpr coordinate : coordinates) {
    if (coordinate == getAffineConstantExpr(0, coordinate.getContext()))
      continue;
    auto dim = dyn_cast<AffineDimExpr>(coordinate);
    if (!dim || !dims.insert(dim.getPosition()).second)
      return false;
  }
  return true;
}

StaticLhsPlan::Groups
StaticLhsPlan::group(llvm::ArrayRef<unsigned> dims) const {
  if (dims.empty())
    return {};
  if (isFlat)
    return {DimGroup(dims)};
  return llvm::map_to_vector(dims, [](unsigned dim) { return DimGroup{dim}; });
}

StaticLhsPlan::Groups StaticLhsPlan::join(const Groups &a, const Groups &b,
                                          const Groups &c) const {
  Groups joined(a);
  llvm::append_range(joined, b);
  llvm::append_range(joined, c);
  return joined;
}

/// The groups of an operand that has the given coordinates. Dims that are one
/// of the factor's other operands only are none of it.
StaticLhsPlan::Groups
StaticLhsPlan::keepOwn(Groups groups,
                       llvm::ArrayRef<AffineExpr> coordinates) const {
  if (!isFlat)
    llvm::erase_if(groups, [&](const DimGroup &dims) {
      return !llvm::is_contained(
          coordinates, getAffineDimExpr(dims.front(), pool.getContext()));
    });
  return groups;
}

StaticLhsPlan::Groups StaticLhsPlan::getWeightGroups() const {
  return keepOwn(join(pairs, sums, columns), weightMap);
}

StaticLhsPlan::Groups
StaticLhsPlan::getActivationGroups(const Groups &rowGroups) const {
  return keepOwn(join(pairs, rowGroups, sums), activationMap);
}

/// Sorts the iteration dims by role. If not `traced`, the weight is taken as
/// the tensor it is, copies for every batch included.
std::optional<Refusal> StaticLhsPlan::planShapes(bool traced) {
  auto no = [](const llvm::Twine &detail) {
    return refuse(Reason::NotAMatmul, detail);
  };
  auto iterators = op.getIteratorTypesArray();
  for (AffineMap map : op.getIndexingMapsArray())
    for (AffineExpr result : map.getResults())
      if (!isa<AffineDimExpr>(result))
        for (auto [dim, iterator] : llvm::enumerate(iterators))
          if (iterator == utils::IteratorType::reduction && extents[dim] == 1 &&
              result.isFunctionOfDim(dim))
            unitDims.insert(dim);
  weightMap = getCoordinates(*weight);
  activationMap = getCoordinates(*activation);
  llvm::SmallDenseSet<unsigned> weightDims, activationDims;
  if (!asDistinctDims(activationMap, activationDims))
    return no("the dynamic operand is read through a window, with a stride or "
              "along a diagonal");
  if (!asDistinctDims(weightMap, weightDims))
    return no("the weight is read along a diagonal");

  resultMap.clear();
  llvm::SmallDenseSet<unsigned> resultDims;
  for (AffineExpr result : op.getIndexingMapsArray().back().getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(result);
    if (!dim || !resultDims.insert(dim.getPosition()).second)
      return no("an element of the result is not written by one sum");
    resultMap.push_back(dim.getPosition());
  }

  weightExpr = traced ? substituteUnits(weightExpr)
                      : pool.leaf(weight->get(), weightMap);
  llvm::SmallDenseSet<unsigned> varies = getDims(weightExpr, extents);
  for (OpOperand *other : others) {
    bool ofWeight = body.getFactorOf(other->getOperandNumber()) ==
                    body.getFactorOf(weight->getOperandNumber());
    llvm::SmallDenseSet<unsigned> dims =
        getDims(pool.leaf(other->get(), getCoordinates(*other)), extents);
    (ofWeight ? weightDims : activationDims).insert_range(dims);
    if (ofWeight)
      varies.insert_range(dims);
  }
  pairDims.clear();
  rowDims.clear();
  columnDims.clear();
  sumDims.clear();
  for (unsigned dim : resultMap) {
    // A dim of neither operand is one along which the weight is repeated.
    if (!activationDims.contains(dim))
      columnDims.push_back(dim);
    else
      (varies.contains(dim) ? pairDims : rowDims).push_back(dim);
  }
  for (unsigned dim = 0; dim < extents.size(); ++dim) {
    if (resultDims.contains(dim) || unitDims.contains(dim))
      continue;
    if (iterators[dim] != utils::IteratorType::reduction)
      return no("an element of the result is not written by one sum");
    bool inWeight = weightDims.contains(dim);
    bool inActivation = activationDims.contains(dim);
    if (inWeight && inActivation)
      sumDims.push_back(dim);
    else if (extents[dim] != 1)
      return no("an operand is summed on its own");
    else
      unitDims.insert(dim);
  }
  if (sumDims.empty())
    return no("nothing is summed over both operands");
  if (!pairDims.empty() && options.pairedBatches == PairedBatches::Refuse)
    return refuse(Reason::WeightDiffersPerBatch, "the weight varies along " +
                                                     Twine(pairDims.size()) +
                                                     " batch dim(s)");
  weightMap = getCoordinates(*weight);
  activationMap = getCoordinates(*activation);
  pairs = group(pairDims);
  columns = group(columnDims);
  sums = group(sumDims);
  return planRows();
}

/// Whether an attribute would be lost where the traced ops are not read.
static bool losesAttributes(const Tracer &tracer) {
  return llvm::any_of(tracer.getTracedOps(), [](Operation *traced) {
    return !getDiscardableAttrs(traced).empty();
  });
}

/// Chooses the order of the rows and the tensor that is read as the activation
/// such that the fewest transposes remain.
std::optional<Refusal> StaticLhsPlan::planRows() {
  Dims inActivation;
  for (AffineExpr coordinate : activationMap)
    if (auto dim = dyn_cast<AffineDimExpr>(coordinate))
      if (llvm::is_contained(rowDims, dim.getPosition()))
        inActivation.push_back(dim.getPosition());
  // Rows of the factor's other operands only come last.
  for (unsigned dim : rowDims)
    if (!llvm::is_contained(inActivation, dim))
      inActivation.push_back(dim);

  Value value = activation->get();
  AffineMap map =
      AffineMap::get(extents.size(), 0, activationMap, op->getContext());
  lookThroughTransposes(value, map);
  Expr direct = pool.leaf(value, map.getResults());
  // What is behind the reshapes and transposes of the activation, if all of it
  // is moved and nothing computed.
  Tracer behind(pool, op->getParentOfType<FunctionOpInterface>());
  Expr origin = behind.trace(activation->get(), activationMap);
  unsigned numUpstream =
      llvm::count_if(behind.getTracedOps(), [](Operation *traced) {
        return matchTranspose(traced).has_value();
      });
  bool hasOrigin = origin->is(ScalarExpr::Kind::Leaf) && origin->value &&
                   origin->value != value && !hasEncoding(origin->value) &&
                   !losesAttributes(behind);

  std::optional<RowOrder> best;
  std::optional<Refusal> refusal;
  auto consider = [&](llvm::ArrayRef<unsigned> order, Expr source,
                      unsigned upstream) {
    std::optional<RowOrder> planned =
        planRowOrder(order, source, upstream, refusal);
    if (planned && (!best || planned->numTransposes < best->numTransposes))
      best.emplace(std::move(*planned));
  };
  for (const Dims &order : {rowDims, inActivation}) {
    consider(order, direct, hasOrigin ? numUpstream : 0);
    if (hasOrigin)
      consider(order, origin, 0);
  }
  if (!best)
    return refusal;
  rows = best->rows;
  activationLayout = best->activation;
  tail.emplace(std::move(best->tail));
  return std::nullopt;
}

std::optional<StaticLhsPlan::RowOrder>
StaticLhsPlan::planRowOrder(llvm::ArrayRef<unsigned> order, Expr source,
                            unsigned numUpstream,
                            std::optional<Refusal> &refusal) {
  Groups rowGroups = group(order);
  // The last row dim is kept apart, the others are batches that share W.
  bool hasBatches = options.batch == BatchForm::Batched && pairs.empty() &&
                    rowGroups.size() == 1 &&
                    llvm::any_of(order.drop_back(), [&](unsigned dim) {
                      return extents[dim] != 1;
                    });
  if (hasBatches)
    rowGroups = {DimGroup(order.drop_back()), DimGroup{order.back()}};
  OrRefusal<Relayout> layout =
      Relayout::plan(pool, source, extents, getActivationGroups(rowGroups));
  if (auto *refused = std::get_if<Refusal>(&layout)) {
    refusal = *refused;
    return std::nullopt;
  }
  auto &planned = std::get<Relayout>(layout);
  bool isDirect = skipViews(source->value) == skipViews(activation->get());
  if (!isDirect && !planned.isBijection())
    return std::nullopt;

  llvm::SmallVector<int64_t> permutation;
  llvm::SmallVector<bool> isRow;
  for (const DimGroup &dims : join(pairs, rowGroups, columns))
    for (unsigned dim : dims) {
      permutation.push_back(llvm::find(resultMap, dim) - resultMap.begin());
      isRow.push_back(llvm::is_contained(order, dim));
    }
  ResultTail tail(pool, op->getResult(0), permutation, isRow);
  unsigned numTransposes =
      planned.isTransposed() + tail.isTransposed() + numUpstream;
  return RowOrder{rowGroups, planned, tail, numTransposes};
}

//===----------------------------------------------------------------------===//
// The other steps
//===----------------------------------------------------------------------===//

std::optional<Refusal> StaticLhsPlan::planWeight() {
  OrRefusal<Relayout> layout =
      Relayout::plan(pool, weightExpr, extents, getWeightGroups());
  if (auto *refusal = std::get_if<Refusal>(&layout))
    return *refusal;
  weightLayout = std::get<Relayout>(layout);
  return planAttributes();
}

/// Attributes of the ops that compute the weight stay on the op that does.
std::optional<Refusal> StaticLhsPlan::planAttributes() {
  if (weightExpr->is(ScalarExpr::Kind::Leaf) &&
      weightExpr->value == weight->get())
    return std::nullopt;
  Tracer ofWeight(pool);
  ofWeight.enterDecided();
  ofWeight.trace(weight->get(), weightMap);
  NamedAttrList attributes;
  for (Operation *traced : ofWeight.getTracedOps())
    for (NamedAttribute attribute : getDiscardableAttrs(traced)) {
      Attribute present = attributes.get(attribute.getName());
      if (quantized || !weightLayout->isComputed() ||
          (present && present != attribute.getValue()))
        return refuse(Reason::DiscardableAttribute,
                      "'" + attribute.getName().getValue() +
                          "' on an op that the transposed weight replaces");
      attributes.set(attribute.getName(), attribute.getValue());
    }
  llvm::append_range(weightLayout->attributes, attributes.getAttrs());
  return std::nullopt;
}

/// A weight that is nothing but a dequantized tensor of a quantized type stays
/// one, if its axes can be told in the new order.
bool StaticLhsPlan::planQuantizedWeight() {
  quantized.reset();
  Tracer ofWeight(pool);
  ofWeight.keepQuantized();
  Expr dequantized = ofWeight.trace(weight->get(), weightMap);
  dequantized = substituteUnits(dequantized);
  auto dequantize =
      dequantized->is(ScalarExpr::Kind::Leaf) && dequantized->value
          ? dequantized->value.getDefiningOp<quant::DequantizeCastOp>()
          : quant::DequantizeCastOp();
  if (!dequantize)
    return false;
  Value value = dequantize.getInput();
  auto type = dyn_cast<quant::QuantizedType>(getElementTypeOrSelf(value));
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !tensor || tensor.getEncoding() ||
      llvm::is_contained(dequantized->coordinates, AffineExpr()))
    return false;
  Groups groups = getWeightGroups();
  llvm::SmallVector<std::optional<unsigned>> newDims;
  for (AffineExpr coordinate : dequantized->coordinates) {
    std::optional<unsigned> &newDim = newDims.emplace_back();
    auto dim = dyn_cast<AffineDimExpr>(coordinate);
    for (auto [number, dims] : llvm::enumerate(groups)) {
      llvm::SmallVector<unsigned> sized;
      for (unsigned other : dims)
        if (extents[other] != 1)
          sized.push_back(other);
      if (dim && sized == llvm::ArrayRef(dim.getPosition()))
        newDim = number;
    }
  }
  quant::QuantizedType moved = moveQuantizedAxes(type, newDims, groups.size());
  if (!moved)
    return false;
  // The stored tensor, if it is seen as quantized here only.
  auto seen = value.getDefiningOp<quant::StorageCastOp>();
  Expr stored = seen ? tracer.trace(seen.getInput(), dequantized->coordinates)
                     : pool.leaf(value, dequantized->coordinates);
  OrRefusal<Relayout> layout = Relayout::plan(pool, stored, extents, groups);
  auto *planned = std::get_if<Relayout>(&layout);
  if (!planned)
    return false;
  weightLayout = *planned;
  quantized = Quantized{value, tensor.clone(type.getStorageType()), moved};
  return true;
}

/// The scales and zero points of a derived weight, with the axes of the weight
/// in its new order.
void StaticLhsPlan::planDescription() {
  llvm::SmallVector<AffineExpr> positions(
      extents.size(), getAffineConstantExpr(0, op->getContext()));
  llvm::ArrayRef<int64_t> shape = weightLayout->getType().getShape();
  if (quantized || llvm::any_of(shape, ShapedType::isDynamic))
    return;
  for (auto [number, dims] : llvm::enumerate(getWeightGroups())) {
    AffineExpr rest = getAffineDimExpr(number, op->getContext());
    for (auto [i, dim] : llvm::enumerate(llvm::reverse(dims))) {
      positions[dim] = i + 1 == dims.size()
                           ? rest
                           : rest % std::max<int64_t>(extents[dim], 1);
      rest = rest.floorDiv(std::max<int64_t>(extents[dim], 1));
    }
  }
  Expr moved = pool.mapCoordinates(weightExpr, [&](AffineExpr coordinate) {
    return coordinate.replaceDims(positions);
  });
  std::optional<DequantDescription> description =
      describeDequantization(pool, moved, shape);
  if (!description || description->kind != DequantDescription::Kind::Stored ||
      !description->field->word->value)
    return;
  Builder builder(op->getContext());
  llvm::SmallVector<Attribute> steps;
  for (const DequantStep &step : description->steps) {
    llvm::StringRef role;
    switch (step.kind) {
    case DequantStep::Kind::Subtract:
      role = "zero_point";
      break;
    case DequantStep::Kind::Multiply:
      role = "scale";
      break;
    case DequantStep::Kind::Lookup:
      role = "codebook";
      break;
    default:
      role = "other";
    }
    if (!step.operand || !step.operand->axes)
      continue;
    llvm::SmallVector<int64_t> axes, groups;
    for (AxisGroup group : *step.operand->axes) {
      axes.push_back(group.axis);
      groups.push_back(group.size);
    }
    steps.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("role", builder.getStringAttr(role)),
         builder.getNamedAttr("axes", builder.getDenseI64ArrayAttr(axes)),
         builder.getNamedAttr("groups",
                              builder.getDenseI64ArrayAttr(groups))}));
  }
  if (!steps.empty())
    weightLayout->describe(
        description->field->word->value,
        builder.getNamedAttr("quantization", builder.getArrayAttr(steps)));
}

std::optional<Refusal> StaticLhsPlan::planInit() {
  Value init = op.getDpsInits()[0];
  initLayout.reset();
  if (init.getDefiningOp<linalg::FillOp>() ||
      init.getDefiningOp<tensor::EmptyOp>())
    return std::nullopt;
  llvm::SmallVector<AffineExpr> coordinates;
  for (unsigned dim : resultMap)
    coordinates.push_back(getAffineDimExpr(dim, op->getContext()));
  Groups groups = join(pairs, rows, columns);
  // A broadcast bias is broadcast in the new order; what is computed at full
  // size is not computed again.
  Tracer ofInit(pool, op->getParentOfType<FunctionOpInterface>());
  Expr traced = ofInit.trace(init, coordinates);
  int64_t numDims = getDims(pool.leaf(init, coordinates), extents).size();
  bool isCheap = true;
  walkExpr(traced, [&](Expr node) {
    isCheap &= !node->is(ScalarExpr::Kind::Leaf) || !node->value ||
               isConstantTensor(node->value) ||
               static_cast<int64_t>(getDims(node, extents).size()) < numDims;
  });
  if (!losesAttributes(ofInit) &&
      (isCheap || traced->is(ScalarExpr::Kind::Leaf))) {
    OrRefusal<Relayout> layout = Relayout::plan(pool, traced, extents, groups);
    if (auto *planned = std::get_if<Relayout>(&layout)) {
      initLayout = *planned;
      return std::nullopt;
    }
  }
  OrRefusal<Relayout> layout =
      Relayout::plan(pool, pool.leaf(init, coordinates), extents, groups);
  if (auto *refusal = std::get_if<Refusal>(&layout))
    return *refusal;
  initLayout = std::get<Relayout>(layout);
  return std::nullopt;
}

void StaticLhsPlan::planLowering() {
  namedOp = NamedOp::None;
  bool isQuantized =
      isa<linalg::QuantizedMatmulOp, linalg::QuantizedBatchMatmulOp>(op);
  if (isQuantized && rows.size() == 1 && columns.size() == 1) {
    namedOp = pairs.empty() ? NamedOp::QuantizedMatmul
                            : NamedOp::QuantizedBatchMatmul;
    return;
  }
  if (!body.namedCast || !others.empty())
    return;
  bool isSigned = *body.namedCast == linalg::TypeFn::cast_signed;
  if (!pairs.empty()) {
    if (rows.size() == 1 && columns.size() == 1)
      namedOp = NamedOp::BatchMatmul;
    else if (isSigned && rows.empty() && !columns.empty())
      namedOp = NamedOp::BatchVecmat;
    else if (isSigned && !rows.empty() && columns.empty())
      namedOp = NamedOp::BatchMatvec;
  } else if (rows.size() == 2) {
    if (columns.size() == 1)
      namedOp = NamedOp::BatchMatmul;
  } else if (!rows.empty() && !columns.empty()) {
    namedOp = NamedOp::Matmul;
  } else if (isSigned) {
    namedOp = !columns.empty() ? NamedOp::Vecmat
              : !rows.empty()  ? NamedOp::Matvec
                               : NamedOp::Dot;
  }
}

std::optional<Refusal> StaticLhsPlan::plan() {
  auto fails = [&](PlanStep step) { return options.failAt == step; };
  auto injected = [](llvm::StringRef step) {
    return refuse(Reason::InjectedFailure, "at " + step);
  };
  for (OpOperand *input : op.getDpsInputOperands())
    if (input != weight && input != activation)
      others.push_back(input);
  // Further tensor operands are read by their own maps over single dims.
  isFlat = llvm::none_of(others, [](OpOperand *other) {
    return isa<RankedTensorType>(other->get().getType());
  });

  // A weight that cannot be computed in another order is moved as a tensor.
  std::optional<Refusal> refusal = planShapes(/*traced=*/true);
  if (fails(PlanStep::ShapePlan))
    return injected("shape-plan");
  if (refusal)
    return refusal;
  if (planQuantizedWeight())
    refusal = planAttributes();
  else if ((refusal = planWeight()) &&
           refusal->reason == Reason::NotFactorable &&
           !planShapes(/*traced=*/false))
    refusal = planWeight();
  if (fails(PlanStep::DerivedWeight))
    return injected("derived-weight");
  if (refusal)
    return refusal;
  planDescription();
  if (fails(PlanStep::QuantizationLookup))
    return injected("quantization-lookup");
  if (fails(PlanStep::Compensation))
    return injected("compensation");
  refusal = planInit();
  if (fails(PlanStep::BiasMapping))
    return injected("bias-mapping");
  if (refusal)
    return refusal;
  planLowering();
  if (fails(PlanStep::WeightLowering))
    return injected("weight-lowering");
  return std::nullopt;
}

} // namespace mlir::qtranspose
