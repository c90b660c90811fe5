//===- Elementwise.cpp - transposes, elementwise ops, dequantizations -----===//

#include "qtranspose/Analysis/Elementwise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Quant/IR/Quant.h"
#include "mlir/Dialect/Quant/IR/QuantTypes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

namespace mlir::qtranspose {

static std::string quoted(Operation *op) {
  return ("'" + op->getName().getStringRef() + "'").str();
}

Refusal refuse(Reason reason, const llvm::Twine &detail) {
  return {reason, detail.str()};
}

//===----------------------------------------------------------------------===//
// Transposes
//===----------------------------------------------------------------------===//

std::optional<Transpose> matchTranspose(Operation *op) {
  if (auto transpose = dyn_cast_or_null<linalg::TransposeOp>(op))
    return Transpose{op, transpose.getInput(),
                     llvm::to_vector(transpose.getPermutation())};
  auto generic = dyn_cast_or_null<linalg::GenericOp>(op);
  if (!generic || !generic.isSingleYieldOp() || !generic.isAllParallelLoops())
    return std::nullopt;
  AffineMap in = generic.getIndexingMapsArray()[0];
  AffineMap out = generic.getIndexingMapsArray()[1];
  if (in == out || !in.isPermutation() || !out.isPermutation())
    return std::nullopt;
  AffineMap inverse = inversePermutation(in);
  SmallVector<int64_t> permutation;
  for (unsigned i = 0, e = out.getNumResults(); i != e; ++i)
    permutation.push_back(inverse.getDimPosition(out.getDimPosition(i)));
  return Transpose{op, generic.getInputs()[0], permutation};
}

static bool hasEncoding(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getEncoding();
}

SmallVector<NamedAttribute> getDiscardableAttrs(Operation *op) {
  return llvm::to_vector(llvm::make_filter_range(
      op->getDiscardableAttrs(), [](NamedAttribute attr) {
        return attr.getName() !=
               linalg::LinalgDialect::kMemoizedIndexingMapsAttrName;
      }));
}

std::optional<Transpose> matchTransparentTranspose(Value value) {
  std::optional<Transpose> transpose = matchTranspose(value.getDefiningOp());
  if (!transpose || hasEncoding(transpose->source.getType()) ||
      hasEncoding(value.getType()) ||
      !getDiscardableAttrs(transpose->op).empty())
    return std::nullopt;
  return transpose;
}

void lookThroughTransposes(Value &value, AffineMap &map) {
  while (std::optional<Transpose> inner = matchTransparentTranspose(value)) {
    SmallVector<AffineExpr> results(map.getNumResults());
    for (auto [i, dim] : llvm::enumerate(inner->permutation))
      results[dim] = map.getResult(i);
    map = AffineMap::get(map.getNumDims(), 0, results, map.getContext());
    value = inner->source;
  }
}

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

bool isStorageType(Type element) {
  return isa<IntegerType>(element) ||
         (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32);
}

/// Whether `op` converts a value from a storage type.
static bool isStorageConversion(Operation &op) {
  if (isa<arith::SIToFPOp, arith::UIToFPOp, arith::ExtSIOp, arith::ExtUIOp,
          arith::ScalingExtFOp>(op))
    return true;
  return isa<arith::ExtFOp>(op) &&
         isStorageType(getElementTypeOrSelf(op.getOperand(0)));
}

/// Why the body of a structured op is not a function of single elements.
static std::optional<Refusal> checkBody(Block &body) {
  std::optional<Refusal> refusal;
  body.walk([&](Operation *op) {
    if (isa<linalg::IndexOp>(op))
      refusal = refuse(Reason::UsesIndex, "the body has a 'linalg.index'");
    else if (llvm::any_of(op->getOperandTypes(), llvm::IsaPred<ShapedType>))
      refusal = refuse(Reason::GathersElements,
                       "the body reads a tensor through " + quoted(op));
    else if (!isMemoryEffectFree(op))
      refusal = refuse(Reason::SideEffectsInBody,
                       quoted(op) + " in the body may have side effects");
    return refusal ? WalkResult::interrupt() : WalkResult::advance();
  });
  return refusal;
}

static OrRefusal<Elementwise> matchStructured(linalg::LinalgOp op) {
  std::string name = quoted(op);
  if (!op.hasPureTensorSemantics())
    return refuse(Reason::MemrefOperands, name + " works on memrefs");
  Block *body = op.getBlock();
  if (op.getNumParallelLoops() != op.getNumLoops())
    return refuse(body && llvm::any_of(*body, isStorageConversion)
                      ? Reason::NotElementwise
                      : Reason::NotADequantization,
                  name + " has a reduction");
  if (op->getNumResults() != 1)
    return refuse(Reason::SeveralResults,
                  name + " has " + Twine(op->getNumResults()) + " results");
  AffineMap outputMap = op.getIndexingMapsArray().back();
  if (!outputMap.isPermutation())
    return refuse(Reason::NotElementwise,
                  name + " does not write each element exactly once");
  if (!body || body->getNumArguments() != op->getNumOperands())
    return refuse(Reason::NotElementwise, name + " has no elementwise body");
  if (!body->getArguments().back().use_empty())
    return refuse(Reason::ReadsInit, name + " reads its outs operand");
  if (auto generic = dyn_cast<linalg::GenericOp>(op.getOperation());
      generic && generic.getLibraryCallAttr())
    return refuse(Reason::LibraryCall,
                  name + " calls '" + *generic.getLibraryCall() + "'");
  if (std::optional<Refusal> refusal = checkBody(*body))
    return *refusal;
  return Elementwise{
      op, op.getDpsInputs(),
      llvm::to_vector(ArrayRef(op.getIndexingMapsArray()).drop_back()),
      outputMap};
}

static OrRefusal<Elementwise> matchTensorOp(Operation *op) {
  if (op->getNumResults() != 1)
    return refuse(Reason::SeveralResults, quoted(op) + " has " +
                                              Twine(op->getNumResults()) +
                                              " results");
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  MLIRContext *context = op->getContext();
  AffineMap identity =
      AffineMap::getMultiDimIdentityMap(type.getRank(), context);
  SmallVector<AffineMap> maps;
  for (Type operand : op->getOperandTypes())
    maps.push_back(isa<ShapedType>(operand)
                       ? identity
                       : AffineMap::get(type.getRank(), 0, context));
  return Elementwise{op, op->getOperands(), maps, identity};
}

OrRefusal<Elementwise> matchElementwise(Operation *op) {
  if (!op)
    return refuse(Reason::NotADequantization,
                  "the value is an argument as it stands");
  std::string name = quoted(op);
  bool quantized =
      isa<quant::DequantizeCastOp>(op) ||
      llvm::any_of(op->getResultTypes(), [](Type type) {
        return isa<quant::QuantizedType>(getElementTypeOrSelf(type));
      });
  if (quantized)
    return refuse(Reason::QuantizedElementType,
                  name + " has a quantized element type");
  if (isDataMovement(op))
    return refuse(Reason::DataMovementInBetween,
                  name + " stands above the transpose");
  bool isTensorOp = OpTrait::hasElementwiseMappableTraits(op) &&
                    op->getNumResults() != 0 &&
                    isa<RankedTensorType>(op->getResult(0).getType());
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  if (!isTensorOp && !linalgOp)
    return refuse(Reason::NotADequantization,
                  "the value is produced by " + name);
  if (llvm::any_of(op->getResultTypes(), hasEncoding))
    return refuse(Reason::TensorEncoding,
                  "the result of " + name + " has an encoding");
  return linalgOp ? matchStructured(linalgOp) : matchTensorOp(op);
}

OpFoldResult getSplat(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto splat = dyn_cast_or_null<tensor::SplatOp>(op))
    return splat.getInput();
  if (auto fill = dyn_cast_or_null<linalg::FillOp>(op)) {
    Value scalar = fill.getInputs()[0];
    if (scalar.getType() == getElementTypeOrSelf(value))
      return scalar;
  }
  // Constants of other dialects may have types that `arith` has not.
  if (auto constant = dyn_cast_or_null<arith::ConstantOp>(op))
    if (auto attr = dyn_cast<SplatElementsAttr>(constant.getValue()))
      if (auto element = dyn_cast<TypedAttr>(attr.getSplatValue<Attribute>()))
        return element;
  return {};
}

bool isDataMovement(Operation *op) {
  bool relayout = isa_and_present<tensor::TensorDialect>(op->getDialect()) ||
                  isa<linalg::PackOp, linalg::UnPackOp>(op);
  return relayout && op->getNumResults() == 1 &&
         isa<ShapedType>(op->getResult(0).getType()) &&
         llvm::any_of(op->getOperandTypes(), llvm::IsaPred<ShapedType>);
}

//===----------------------------------------------------------------------===//
// Dequantizations
//===----------------------------------------------------------------------===//

bool isParameter(Value value) {
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (unsigned i = 0; i != reached.size(); ++i) {
    auto argument = dyn_cast<BlockArgument>(reached[i]);
    if (argument) {
      Operation *parent = argument.getOwner()->getParentOp();
      if (!argument.getOwner()->isEntryBlock() ||
          !isa_and_present<FunctionOpInterface>(parent))
        return false;
      continue;
    }
    Operation *op = reached[i].getDefiningOp();
    // Sources: constants, and whatever a frontend loads its parameters with.
    if (op->getNumOperands() == 0)
      continue;
    if (isa<tensor::EmptyOp, tensor::DimOp>(op))
      continue;
    auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
    bool isElementByElement =
        linalgOp ? linalgOp.getNumReductionLoops() == 0
                 : op->getNumRegions() == 0 || isa<tensor::PadOp>(op);
    if (!isElementByElement || isa<CallOpInterface>(op) ||
        !isMemoryEffectFree(op))
      return false;
    reached.insert(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), reached);
  }
  return true;
}

namespace {
/// What reaches a value: an element of the weight, and whether it has been
/// converted from its storage type.
struct Flow {
  bool weight = false;
  bool converted = false;

  void join(Flow other) {
    weight |= other.weight;
    converted |= other.converted;
  }
};

/// Follows elements through the cone above a value.
class ConeBuilder {
public:
  /// Collects the ops of the cone above `value`, producers first.
  void collect(Value value);
  Flow follow();

  std::vector<Elementwise> ops;
  llvm::SetVector<Value> leaves;
  /// A leaf that an op computes, but not element by element.
  Value blocked;

private:
  llvm::DenseSet<Value> visited;
};
} // namespace

static Value lookThroughTransposes(Value value) {
  while (std::optional<Transpose> inner = matchTransparentTranspose(value))
    value = inner->source;
  return value;
}

void ConeBuilder::collect(Value value) {
  value = lookThroughTransposes(value);
  if (!visited.insert(value).second)
    return;
  if (!getSplat(value).isNull() || !isa<RankedTensorType>(value.getType())) {
    leaves.insert(value);
    return;
  }
  OrRefusal<Elementwise> match = matchElementwise(value.getDefiningOp());
  if (auto *refusal = std::get_if<Refusal>(&match)) {
    if (refusal->reason != Reason::NotADequantization && !blocked)
      blocked = value;
    leaves.insert(value);
    return;
  }
  auto &elementwise = std::get<Elementwise>(match);
  for (Value input : elementwise.inputs)
    collect(input);
  getUsedValuesDefinedAbove(elementwise.op->getRegions(), leaves);
  ops.push_back(std::move(elementwise));
}

/// The number of dimensions that are not statically one.
static int64_t getEffectiveRank(Value value) {
  auto type = dyn_cast<ShapedType>(value.getType());
  return type && type.hasRank()
             ? llvm::count_if(type.getShape(), [](int64_t d) { return d != 1; })
             : 0;
}

/// What `op`, whose inputs carry `inputs`, yields.
static Flow followThrough(const Elementwise &elementwise,
                          ArrayRef<Flow> inputs) {
  Operation *op = elementwise.op;
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  if (!linalgOp) {
    Flow flow;
    for (Flow input : inputs)
      flow.join(input);
    flow.converted |= flow.weight && isStorageConversion(*op);
    return flow;
  }
  llvm::DenseMap<Value, Flow> flows;
  for (auto [argument, flow] :
       llvm::zip(linalgOp.getBlock()->getArguments(), inputs))
    flows[argument] = flow;
  for (Operation &nested : *linalgOp.getBlock()) {
    Flow flow;
    // Ops with regions yield something of what is used inside.
    nested.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        flow.join(flows.lookup(operand));
      flow.converted |= flow.weight && isStorageConversion(*inner);
    });
    if (nested.hasTrait<OpTrait::IsTerminator>())
      return flow;
    for (Value result : nested.getResults())
      flows[result] = flow;
  }
  return {};
}

Flow ConeBuilder::follow() {
  // The weight has the highest rank of what is read; scales and zero points
  // are per tensor, axis or block. A weight may be constant, but it is not made
  // from a scalar.
  auto isCandidate = [](Value leaf) {
    return isa<RankedTensorType>(leaf.getType()) && !isa<Value>(getSplat(leaf));
  };
  int64_t rank = 0;
  for (Value leaf : leaves)
    if (isCandidate(leaf))
      rank = std::max(rank, getEffectiveRank(leaf));
  llvm::DenseMap<Value, Flow> flows;
  for (Value leaf : leaves)
    flows[leaf].weight = isCandidate(leaf) && getEffectiveRank(leaf) == rank;
  Flow result;
  for (const Elementwise &elementwise : ops) {
    SmallVector<Flow> inputs;
    for (Value input : elementwise.inputs)
      inputs.push_back(flows.lookup(lookThroughTransposes(input)));
    result = followThrough(elementwise, inputs);
    flows[elementwise.op->getResult(0)] = result;
  }
  return result;
}

/// Whether converted elements reach a data movement, moved or not on the way.
static bool movesConverted(Operation *movement) {
  llvm::SetVector<Operation *> reached;
  reached.insert(movement);
  for (unsigned i = 0; i != reached.size(); ++i) {
    Operation *op = reached[i];
    auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
    bool isTensorOp = OpTrait::hasElementwiseMappableTraits(op);
    if (linalgOp ? linalgOp.getNumReductionLoops() != 0
                 : !isTensorOp && !isDataMovement(op))
      continue;
    bool converts = isStorageConversion(*op);
    if (linalgOp && linalgOp.getBlock())
      converts = llvm::any_of(*linalgOp.getBlock(), isStorageConversion);
    if (converts)
      return true;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        reached.insert(producer);
  }
  return false;
}

OrRefusal<DequantCone> matchDequantization(Value value) {
  value = lookThroughTransposes(value);
  Operation *op = value.getDefiningOp();
  OrRefusal<Elementwise> match = matchElementwise(op);
  if (auto *refusal = std::get_if<Refusal>(&match)) {
    if (refusal->reason == Reason::DataMovementInBetween && !movesConverted(op))
      return refuse(Reason::NotADequantization,
                    "the value is produced by " + quoted(op));
    return *refusal;
  }
  ConeBuilder builder;
  builder.collect(value);
  if (!builder.follow().converted) {
    // The most precise reason is that of the op at which the cone ends.
    if (Value end = builder.blocked)
      if (auto below = matchDequantization(end);
          auto *refusal = std::get_if<Refusal>(&below))
        return *refusal;
    return refuse(Reason::NotADequantization,
                  "no stored value is converted above the transpose");
  }
  for (Value leaf : builder.leaves)
    if (!isParameter(leaf)) {
      Operation *producer = leaf.getDefiningOp();
      return refuse(Reason::NotADequantization,
                    producer ? "depends on the result of " + quoted(producer)
                             : "depends on a value carried by a loop or block");
    }
  return DequantCone{builder.leaves};
}

bool convertsStoredValue(OpOperand &use) {
  OrRefusal<Elementwise> match = matchElementwise(use.getOwner());
  auto *elementwise = std::get_if<Elementwise>(&match);
  if (!elementwise || use.getOperandNumber() >= elementwise->inputs.size())
    return false;
  SmallVector<Flow> inputs(elementwise->inputs.size());
  inputs[use.getOperandNumber()].weight = true;
  Flow flow = followThrough(*elementwise, inputs);
  if (flow.converted || !flow.weight)
    return flow.converted;
  Value result = use.getOwner()->getResult(0);
  return result.hasOneUse() && convertsStoredValue(*result.getUses().begin());
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

unsigned getElementBits(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
}

double getBitsReadPerElement(const DequantCone &cone, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  double bits = 0;
  for (Value leaf : cone.leaves) {
    auto leafType = dyn_cast<RankedTensorType>(leaf.getType());
    if (!leafType || !getSplat(leaf).isNull())
      continue;
    if (leafType.hasStaticShape() && type.hasStaticShape())
      bits += double(getElementBits(leafType)) * leafType.getNumElements() /
              std::max<int64_t>(type.getNumElements(), 1);
    else if (getEffectiveRank(leaf) >= getEffectiveRank(value))
      bits += getElementBits(leafType);
  }
  return bits;
}

} // namespace mlir::qtranspose
