//===- AttachEncodings.cpp - encodings of a file to tensors ---------------===//

#include "qtranspose/Analysis/Elementwise.h"
#include "qtranspose/Analysis/StaticOperand.h"
#include "qtranspose/Analysis/VirtualTensor.h"
#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/ContractionFusion.h"
#include "qtranspose/Utils/DerivedConstants.h"
#include "qtranspose/Utils/EncodingDocument.h"
#include "qtranspose/Utils/Encodings.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_ATTACHENCODINGS
#include "qtranspose/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral passName = "qtranspose-attach-encodings";

/// What carries an encoding: an op (a constant, a global, or what computes an
/// activation), or an argument of a function.
struct Carrier {
  Operation *op = nullptr;
  BlockArgument argument;

  static Carrier of(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return {nullptr, argument};
    return {value.getDefiningOp(), {}};
  }

  const void *getKey() const {
    return op ? static_cast<const void *>(op) : argument.getAsOpaquePointer();
  }
  Operation *getOp() const {
    return op ? op : argument.getOwner()->getParentOp();
  }
  RankedTensorType getType() const {
    if (auto global = dyn_cast_or_null<ml_program::GlobalOp>(op))
      return dyn_cast<RankedTensorType>(global.getType());
    return dyn_cast<RankedTensorType>(op ? op->getResult(0).getType()
                                         : argument.getType());
  }
  void set(DictionaryAttr encoding) const {
    if (op)
      op->setAttr(encodingAttrName, encoding);
    else
      cast<FunctionOpInterface>(argument.getOwner()->getParentOp())
          .setArgAttr(argument.getArgNumber(), encodingAttrName, encoding);
  }
};

using Carriers = llvm::SmallVector<Carrier, 1>;

/// What the contractions of a program do with a stored tensor.
struct WeightUse {
  /// Dims along which only the weight varies: its channels.
  llvm::SmallVector<unsigned> channels;
  llvm::SmallVector<unsigned> summed;
};

/// The function argument that `value` is, if it is one.
BlockArgument asArgument(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  bool ofFunction =
      argument && argument.getOwner()->isEntryBlock() &&
      isa<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return ofFunction ? argument : BlockArgument();
}

/// Looks past what only moves elements.
Value skipLayout(Value value) {
  while (true) {
    Value source = skipViews(value);
    if (std::optional<Transpose> transpose =
            matchTranspose(source.getDefiningOp());
        transpose && transpose->isOnTensors())
      source = transpose->source;
    if (source == value)
      return value;
    value = source;
  }
}

/// The name that a location gives, or nothing.
llvm::StringRef getName(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName();
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return getName(call.getCallee());
  // What was fused has a name if all parts that have one agree.
  llvm::StringRef found;
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations()) {
      llvm::StringRef name = getName(part);
      if (!name.empty() && !found.empty() && name != found)
        return {};
      if (!name.empty())
        found = name;
    }
  return found;
}

/// The name in an encoding that was attached before: locations do not survive
/// printing, attributes do.
llvm::StringRef getEncodingName(Attribute encoding) {
  auto entries = dyn_cast_or_null<DictionaryAttr>(encoding);
  auto name = entries ? entries.getAs<StringAttr>("name") : StringAttr();
  return name ? name.getValue() : llvm::StringRef();
}

/// Names of the tensors of a program.
struct Names {
  llvm::StringMap<Carriers> stored;    ///< by resource key or symbol
  llvm::StringMap<Carriers> derived;   ///< by what they were derived from
  llvm::StringMap<Carriers> arguments; ///< by attribute or location
  llvm::StringMap<Carriers> constants; ///< by location
  /// By location, or by what a function calls its result.
  llvm::StringMap<llvm::SmallVector<Value, 1>> values;
  llvm::StringMap<llvm::SmallVector<Operation *, 1>> ops; ///< by location

  explicit Names(ModuleOp module);

private:
  void addFunction(FunctionOpInterface function);
  void addOp(Operation *op);
};

/// Calls `add` for every string that attributes give as a name.
void forEachString(Attribute attribute,
                   llvm::function_ref<void(llvm::StringRef)> add) {
  if (auto string = dyn_cast_or_null<StringAttr>(attribute))
    add(string.getValue());
  if (auto array = dyn_cast_or_null<ArrayAttr>(attribute))
    for (Attribute element : array)
      forEachString(element, add);
  if (auto dictionary = dyn_cast_or_null<DictionaryAttr>(attribute))
    for (NamedAttribute entry : dictionary)
      forEachString(entry.getValue(), add);
}
} // namespace

Names::Names(ModuleOp module) {
  module->walk([&](Operation *op) {
    if (auto function = dyn_cast<FunctionOpInterface>(op))
      addFunction(function);
    else
      addOp(op);
  });
}

void Names::addFunction(FunctionOpInterface function) {
  if (function.isExternal())
    return;
  Block &entry = function.getFunctionBody().front();
  auto add = [&](BlockArgument argument, llvm::StringRef name) {
    if (!isa<RankedTensorType>(argument.getType()) || name.empty())
      return;
    Carriers &carriers = arguments[name];
    if (carriers.empty() || carriers.back().argument != argument)
      carriers.push_back({nullptr, argument});
  };
  for (BlockArgument argument : entry.getArguments()) {
    if (DictionaryAttr attributes =
            function.getArgAttrDict(argument.getArgNumber()))
      for (NamedAttribute attribute : attributes)
        if (attribute.getName() != encodingAttrName)
          forEachString(attribute.getValue(),
                        [&](llvm::StringRef name) { add(argument, name); });
    add(argument, getName(argument.getLoc()));
  }
  // TensorFlow's converters: {inputs = "x,y", outputs = "z"}.
  auto interface = function->getAttrOfType<DictionaryAttr>("tf.entry_function");
  llvm::SmallVector<llvm::StringRef> inputs, outputs;
  if (interface) {
    if (auto list = interface.getAs<StringAttr>("inputs"))
      list.getValue().split(inputs, ',');
    if (auto list = interface.getAs<StringAttr>("outputs"))
      list.getValue().split(outputs, ',');
  }
  for (auto [argument, name] : llvm::zip(entry.getArguments(), inputs))
    add(argument, name.trim());
  Operation *terminator = entry.getTerminator();
  for (auto [index, result] : llvm::enumerate(terminator->getOperands())) {
    if (index < outputs.size())
      values[outputs[index].trim()].push_back(result);
    if (index >= function.getNumResults())
      continue;
    if (DictionaryAttr attributes = function.getResultAttrDict(index))
      for (NamedAttribute attribute : attributes)
        forEachString(attribute.getValue(), [&](llvm::StringRef name) {
          values[name].push_back(result);
        });
  }
}

void Names::addOp(Operation *op) {
  if (auto global = dyn_cast<ml_program::GlobalOp>(op)) {
    if (isa<RankedTensorType>(global.getType()))
      stored[global.getSymName()].push_back({op, {}});
    return;
  }
  llvm::StringRef name = getName(op->getLoc());
  if (name.empty())
    name = getEncodingName(op->getAttr(encodingAttrName));
  if (op->getNumResults() != 1 ||
      !isa<RankedTensorType>(op->getResult(0).getType())) {
    if (!name.empty())
      ops[name].push_back(op);
    return;
  }
  if (!op->hasTrait<OpTrait::ConstantLike>()) {
    if (!name.empty()) {
      ops[name].push_back(op);
      values[name].push_back(op->getResult(0));
    }
    return;
  }
  Attribute constant;
  matchPattern(op, m_Constant(&constant));
  auto provenance = op->getAttrOfType<DictionaryAttr>(derivedAttrName);
  if (provenance) {
    auto source = provenance.getAs<StringAttr>("source");
    llvm::StringRef sourceName =
        source ? source.getValue()
               : getEncodingName(provenance.get("encoding"));
    if (!sourceName.empty())
      derived[sourceName].push_back({op, {}});
  }
  if (auto resource = dyn_cast_or_null<DenseResourceElementsAttr>(constant))
    stored[resource.getRawHandle().getKey()].push_back({op, {}});
  if (!name.empty() && !provenance)
    constants[name].push_back({op, {}});
}

//===----------------------------------------------------------------------===//
// Dataflow
//===----------------------------------------------------------------------===//

namespace {
/// What contractions read: weights with their channels, and run-time operands.
class Dataflow {
public:
  explicit Dataflow(ModuleOp module) {
    module->walk([&](linalg::LinalgOp op) {
      if (isContraction(op))
        visit(op, module);
    });
  }

  /// How contractions use what `key` (see Carrier) stores.
  llvm::DenseMap<const void *, WeightUse> uses;
  struct Operand {
    linalg::LinalgOp op;
    Value value; ///< behind layout ops
  };
  /// Operands that are not made from constants, in order.
  llvm::SmallVector<Operand> dynamicOperands;

private:
  void visit(linalg::LinalgOp op, ModuleOp module);
};
} // namespace

static const void *getStorageKey(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return Carrier::of(value).getKey();
  if (isa<ml_program::GlobalLoadOp, ml_program::GlobalLoadConstOp>(op))
    if (auto symbol = op->getAttrOfType<SymbolRefAttr>("global"))
      if (Operation *global = SymbolTable::lookupNearestSymbolFrom(op, symbol))
        return global;
  return op;
}

void Dataflow::visit(linalg::LinalgOp op, ModuleOp module) {
  ExprPool pool(op->getContext());
  Tracer tracer(pool, module);
  llvm::SmallVector<int64_t> extents = getLoopExtents(op);
  auto iterators = op.getIteratorTypesArray();
  for (OpOperand *input : op.getDpsInputOperands()) {
    if (!isa<RankedTensorType>(input->get().getType()))
      continue;
    AffineMap map = op.getMatchingIndexingMap(input);
    Expr expr = tracer.trace(input->get(), map.getResults());
    bool isEncoded;
    if (getStaticness(expr, extents, isEncoded) == Staticness::RunTime)
      dynamicOperands.push_back({op, skipLayout(input->get())});
    auto isChannel = [&](unsigned dim) {
      return iterators[dim] == utils::IteratorType::parallel &&
             llvm::none_of(op.getDpsInputOperands(), [&](OpOperand *other) {
               return other != input &&
                      op.getMatchingIndexingMap(other).isFunctionOfDim(dim);
             });
    };
    walkExpr(expr, [&](Expr leaf) {
      if (!leaf->is(ScalarExpr::Kind::Leaf) || !leaf->value)
        return;
      WeightUse use;
      for (auto [dim, coordinate] : llvm::enumerate(leaf->coordinates)) {
        bool isSummed = coordinate != nullptr, isOfWeight = isSummed;
        bool varies = false;
        if (coordinate)
          coordinate.walk([&](AffineExpr part) {
            auto loop = dyn_cast<AffineDimExpr>(part);
            if (!loop)
              return;
            varies = true;
            isSummed &=
                iterators[loop.getPosition()] == utils::IteratorType::reduction;
            isOfWeight &= isChannel(loop.getPosition());
          });
        if (varies && isSummed)
          use.summed.push_back(dim);
        if (varies && isOfWeight)
          use.channels.push_back(dim);
      }
      auto [known, isNew] = uses.try_emplace(getStorageKey(leaf->value), use);
      if (isNew)
        return;
      // What its uses disagree on is not known.
      auto intersect = [](auto &dims, const auto &others) {
        llvm::erase_if(dims, [&](unsigned dim) {
          return !llvm::is_contained(others, dim);
        });
      };
      intersect(known->second.channels, use.channels);
      intersect(known->second.summed, use.summed);
    });
  }
}

//===----------------------------------------------------------------------===//
// Attaching
//===----------------------------------------------------------------------===//

namespace {
class Attacher {
public:
  Attacher(ModuleOp module, EncodingDocument document, llvm::StringRef text)
      : module(module), document(std::move(document)), text(text),
        names(module), dataflow(module), builder(module.getContext()) {}

  void run();

private:
  /// A tensor whose dims the encoding is in terms of: the carrier itself, or
  /// one that is traced to it.
  struct Target {
    Carrier carrier;
    /// From the dims of the carrier to the named tensor's; none: the same.
    std::optional<AffineMap> map;
    RankedTensorType type; ///< of the named tensor
  };

  std::optional<Refusal> planParameter(const Encoding &encoding);
  std::optional<Refusal> planActivation(const Encoding &encoding);
  std::variant<llvm::SmallVector<Target, 1>, Refusal>
  findParameter(const Encoding &encoding);
  std::variant<Value, Refusal> findActivation(const Encoding &encoding);
  std::optional<Target> traceToStorage(Value value);
  std::optional<Refusal> planByRole(const Encoding &encoding);
  std::optional<Refusal> place(const Encoding &encoding, const Target &target);
  DictionaryAttr describe(const Encoding &encoding, std::optional<int64_t> axis,
                          std::optional<int64_t> blockAxis);
  std::variant<std::monostate, int64_t, Refusal>
  findAxis(const Encoding &encoding, const Target &target,
           std::optional<int64_t> &blockAxis);

  ModuleOp module;
  EncodingDocument document;
  llvm::StringRef text;
  Names names;
  Dataflow dataflow;
  Builder builder;
  struct Attachment {
    Carrier carrier;
    DictionaryAttr encoding;
    bool isParameter;
    bool isDerived; ///< the encoding joins the provenance of the constant
  };
  llvm::MapVector<const void *, Attachment> attachments;
};
} // namespace

static Refusal unmatched(const Encoding &encoding) {
  return Refusal{Reason::EncodingUnmatched,
                 "no tensor is named '" + encoding.name + "'"};
}

static Refusal doesNotFit(const Encoding &encoding, const llvm::Twine &why) {
  return Refusal{Reason::EncodingDoesNotFit,
                 ("'" + llvm::Twine(encoding.name) + "' " + why).str()};
}

/// The one constant or argument that `value` is dequantized from or moved.
std::optional<Attacher::Target> Attacher::traceToStorage(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  ExprPool pool(module.getContext());
  Tracer tracer(pool, module);
  llvm::SmallVector<AffineExpr> dims;
  for (unsigned dim = 0; dim < type.getRank(); ++dim)
    dims.push_back(builder.getAffineDimExpr(dim));
  Expr storage = nullptr;
  bool isUnique = true;
  walkExpr(tracer.trace(value, dims), [&](Expr leaf) {
    if (!leaf->is(ScalarExpr::Kind::Leaf) || !leaf->value ||
        leaf->getTensorType().getRank() < type.getRank() ||
        !(isConstantTensor(leaf->value) || asArgument(leaf->value)))
      return;
    isUnique &= !storage;
    storage = leaf;
  });
  if (!storage || !isUnique)
    return std::nullopt;
  // Which dim of the storage each dim of the value is.
  llvm::SmallVector<AffineExpr> results(type.getRank());
  for (auto [position, coordinate] : llvm::enumerate(storage->coordinates))
    if (auto dim = dyn_cast_or_null<AffineDimExpr>(coordinate))
      results[dim.getPosition()] = builder.getAffineDimExpr(position);
  Target target;
  target.type = type;
  Operation *op = storage->value.getDefiningOp();
  target.carrier = Carrier::of(storage->value);
  if (op && !op->hasTrait<OpTrait::ConstantLike>()) {
    auto symbol = op->getAttrOfType<SymbolRefAttr>("global");
    Operation *global =
        symbol ? SymbolTable::lookupNearestSymbolFrom(op, symbol) : nullptr;
    if (!global)
      return std::nullopt;
    target.carrier = {global, {}};
  }
  if (!llvm::is_contained(results, AffineExpr()))
    target.map = AffineMap::get(storage->coordinates.size(), 0, results,
                                module.getContext());
  else
    target.map = AffineMap();
  return target;
}

std::variant<llvm::SmallVector<Attacher::Target, 1>, Refusal>
Attacher::findParameter(const Encoding &encoding) {
  // What the program stores under the name counts first.
  Carriers carriers;
  for (const auto *map :
       {&names.stored, &names.arguments, &names.constants, &names.derived})
    if (auto found = map->find(encoding.name);
        carriers.empty() && found != map->end())
      carriers = found->second;
  llvm::SmallVector<Target, 1> targets;
  for (const Carrier &carrier : carriers) {
    if (carrier.getType() != carriers.front().getType())
      return Refusal{Reason::EncodingAmbiguous,
                     "different tensors are named '" + encoding.name + "'"};
    targets.push_back({carrier, std::nullopt, carrier.getType()});
  }
  if (!targets.empty())
    return targets;
  auto values = names.values.find(encoding.name);
  if (values == names.values.end())
    return unmatched(encoding);
  // A value that is computed from what is stored.
  llvm::DenseSet<const void *> seen;
  for (Value value : values->second)
    if (std::optional<Target> target = traceToStorage(value);
        target && seen.insert(target->carrier.getKey()).second)
      targets.push_back(*target);
  if (targets.empty())
    return unmatched(encoding);
  if (targets.size() > 1)
    return Refusal{Reason::EncodingAmbiguous,
                   "'" + encoding.name + "' is computed from several tensors"};
  return targets;
}

/// The axis of the named tensor's dims, and the dim that blocks lie along.
std::variant<std::monostate, int64_t, Refusal>
Attacher::findAxis(const Encoding &encoding, const Target &target,
                   std::optional<int64_t> &blockAxis) {
  if (!encoding.isPerChannel())
    return std::monostate();
  if (!target.type)
    return doesNotFit(encoding, "has channels, which the tensor has not");
  llvm::ArrayRef<int64_t> shape = target.type.getShape();
  int64_t rank = shape.size(), count = encoding.scales.size();

  // In terms of the named tensor.
  auto toNamed = [&](llvm::ArrayRef<unsigned> dims) {
    llvm::SmallVector<int64_t> named;
    for (unsigned dim : dims) {
      if (!target.map) {
        named.push_back(dim);
        continue;
      }
      if (!*target.map)
        continue;
      for (auto [position, result] : llvm::enumerate(target.map->getResults()))
        if (result == builder.getAffineDimExpr(dim))
          named.push_back(position);
    }
    return named;
  };
  auto use = dataflow.uses.find(target.carrier.getKey());
  bool isUsed = use != dataflow.uses.end();
  llvm::SmallVector<int64_t> channels, summed;
  if (isUsed) {
    channels = toNamed(use->second.channels);
    summed = toNamed(use->second.summed);
  }
  auto fits = [&](int64_t axis) {
    int64_t size = shape[axis];
    if (!encoding.blockSize)
      return size == count;
    blockAxis = std::nullopt;
    for (int64_t dim : summed)
      if (dim != axis && !ShapedType::isDynamic(size) &&
          !ShapedType::isDynamic(shape[dim]) &&
          size * llvm::divideCeilSigned(shape[dim], *encoding.blockSize) ==
              count)
        blockAxis = dim;
    return blockAxis.has_value();
  };
  if (encoding.axis) {
    int64_t axis = *encoding.axis < 0 ? *encoding.axis + rank : *encoding.axis;
    if (axis < 0 || axis >= rank || !fits(axis))
      return doesNotFit(encoding, llvm::Twine("has ") + llvm::Twine(count) +
                                      " scales along axis " +
                                      llvm::Twine(*encoding.axis));
    return axis;
  }
  // The channels are what the contraction says, whatever else has that size.
  llvm::SmallVector<int64_t> candidates;
  if (!isUsed)
    for (int64_t dim = 0; dim < rank; ++dim)
      channels.push_back(dim);
  for (int64_t dim : channels)
    if (fits(dim))
      candidates.push_back(dim);
  if (candidates.size() != 1)
    return doesNotFit(
        encoding, llvm::Twine("has ") + llvm::Twine(count) + " scales, and " +
                      (candidates.empty() ? "no axis" : "several axes") +
                      " for them");
  fits(candidates.front());
  return candidates.front();
}

DictionaryAttr Attacher::describe(const Encoding &encoding,
                                  std::optional<int64_t> axis,
                                  std::optional<int64_t> blockAxis) {
  NamedAttrList entries;
  entries.set("name", builder.getStringAttr(encoding.name));
  entries.set("role", builder.getStringAttr(
                          encoding.isParameter ? "parameter" : "activation"));
  entries.set("bitwidth", builder.getI64IntegerAttr(encoding.bitwidth));
  if (encoding.isFloat)
    entries.set("float", builder.getUnitAttr());
  if (encoding.isSymmetric)
    entries.set("symmetric", builder.getUnitAttr());
  if (!encoding.scales.empty())
    entries.set("scale", builder.getDenseF64ArrayAttr(encoding.scales));
  if (!encoding.offsets.empty())
    entries.set("offset", builder.getDenseI64ArrayAttr(encoding.offsets));
  if (axis)
    entries.set("axis", builder.getI64IntegerAttr(*axis));
  if (blockAxis) {
    entries.set("block_axis", builder.getI64IntegerAttr(*blockAxis));
    entries.set("block_size", builder.getI64IntegerAttr(*encoding.blockSize));
  }
  return entries.getDictionary(module.getContext());
}

/// Plans to attach `encoding` to `target`.
std::optional<Refusal> Attacher::place(const Encoding &encoding,
                                       const Target &target) {
  std::optional<int64_t> blockAxis;
  auto axis = findAxis(encoding, target, blockAxis);
  if (auto *refusal = std::get_if<Refusal>(&axis))
    return *refusal;
  std::optional<int64_t> channelAxis;
  if (auto *found = std::get_if<int64_t>(&axis))
    channelAxis = *found;
  DictionaryAttr described = describe(encoding, channelAxis, blockAxis);
  if (target.map && channelAxis) {
    if (*target.map)
      described = moveEncoding(described, *target.map, target.type.getShape(),
                               target.carrier.getType().getShape());
    if (!*target.map || !described)
      return doesNotFit(encoding, "has channels that are no dim of the tensor "
                                  "that is stored");
  }
  bool isDerived =
      target.carrier.op && target.carrier.op->hasAttr(derivedAttrName);
  auto [known, isNew] = attachments.insert(
      {target.carrier.getKey(),
       {target.carrier, described, encoding.isParameter, isDerived}});
  if (!isNew && known->second.encoding != described)
    return Refusal{Reason::EncodingAmbiguous,
                   "the tensor that '" + encoding.name +
                       "' names has another encoding already"};
  return std::nullopt;
}

std::optional<Refusal> Attacher::planParameter(const Encoding &encoding) {
  auto found = findParameter(encoding);
  if (auto *refusal = std::get_if<Refusal>(&found))
    return *refusal;
  for (const Target &target : std::get<llvm::SmallVector<Target, 1>>(found))
    if (std::optional<Refusal> refusal = place(encoding, target))
      return refusal;
  return std::nullopt;
}

/// Of values with one name, the one that the others lead to.
static std::variant<Value, Refusal> getLast(llvm::ArrayRef<Value> values,
                                            const Encoding &encoding) {
  Value last;
  for (Value value : values) {
    bool leadsOn = llvm::any_of(value.getUsers(), [&](Operation *user) {
      return llvm::any_of(values, [&](Value other) {
        return other != value && other.getDefiningOp() == user;
      });
    });
    if (leadsOn || value == last)
      continue;
    if (last)
      return Refusal{Reason::EncodingAmbiguous,
                     "several tensors are named '" + encoding.name + "'"};
    last = value;
  }
  if (!last)
    return unmatched(encoding);
  return last;
}

std::variant<Value, Refusal>
Attacher::findActivation(const Encoding &encoding) {
  if (encoding.port != Encoding::Port::None) {
    // A tensor of the layer of this name.
    auto ops = names.ops.find(encoding.name);
    if (ops == names.ops.end())
      return unmatched(encoding);
    if (encoding.port == Encoding::Port::Output) {
      llvm::SmallVector<Value> results;
      for (Operation *op : ops->second)
        llvm::append_range(results, op->getResults());
      return getLast(results, encoding);
    }
    // Inputs are numbered without the weight, which can be on either side.
    llvm::SmallVector<Value> inputs;
    linalg::LinalgOp contraction;
    for (Dataflow::Operand operand : dataflow.dynamicOperands) {
      if (!llvm::is_contained(ops->second, operand.op.getOperation()))
        continue;
      if (contraction && contraction != operand.op)
        return Refusal{Reason::EncodingAmbiguous,
                       "several contractions are named '" + encoding.name +
                           "'"};
      contraction = operand.op;
      inputs.push_back(operand.value);
    }
    if (encoding.portNumber >= inputs.size())
      return Refusal{Reason::EncodingUnmatched,
                     "'" + encoding.name + "' has no run-time input " +
                         std::to_string(encoding.portNumber)};
    return inputs[encoding.portNumber];
  }
  if (auto arguments = names.arguments.find(encoding.name);
      arguments != names.arguments.end()) {
    if (arguments->second.size() > 1)
      return Refusal{Reason::EncodingAmbiguous,
                     "several arguments are named '" + encoding.name + "'"};
    return Value(arguments->second.front().argument);
  }
  auto values = names.values.find(encoding.name);
  if (values == names.values.end())
    return unmatched(encoding);
  return getLast(values->second, encoding);
}

std::optional<Refusal> Attacher::planActivation(const Encoding &encoding) {
  auto found = findActivation(encoding);
  if (auto *refusal = std::get_if<Refusal>(&found))
    return *refusal;
  // Without channels, the encoding is that of what the tensor is moved from.
  Value value = std::get<Value>(found);
  if (!encoding.isPerChannel())
    value = skipLayout(value);
  if (BlockArgument argument = asArgument(value))
    return place(encoding, {{nullptr, argument},
                            std::nullopt,
                            dyn_cast<RankedTensorType>(argument.getType())});
  Operation *op = value.getDefiningOp();
  // Ops change their layout, which an axis would have to follow.
  if (!op || op->getNumResults() != 1 || encoding.isPerChannel())
    return doesNotFit(encoding, "is of a tensor that no op or argument of a "
                                "function stands for");
  return place(
      encoding,
      {{op, {}}, std::nullopt, dyn_cast<RankedTensorType>(value.getType())});
}

/// The only activation encoding that names nothing belongs to the only run-time
/// operand without one, on whichever side of its weight that is.
std::optional<Refusal> Attacher::planByRole(const Encoding &encoding) {
  llvm::SmallVector<Value, 1> candidates;
  for (const Dataflow::Operand &operand : dataflow.dynamicOperands)
    if (!attachments.count(Carrier::of(operand.value).getKey()) &&
        !llvm::is_contained(candidates, operand.value))
      candidates.push_back(operand.value);
  if (candidates.size() != 1 || encoding.port != Encoding::Port::None)
    return unmatched(encoding);
  Value value = candidates.front();
  BlockArgument argument = asArgument(value);
  Operation *op = value.getDefiningOp();
  if (!argument && (!op || op->getNumResults() != 1 || encoding.isPerChannel()))
    return unmatched(encoding);
  Carrier carrier = argument ? Carrier{nullptr, argument} : Carrier{op, {}};
  return place(encoding, {carrier, std::nullopt,
                          dyn_cast<RankedTensorType>(value.getType())});
}

void Attacher::run() {
  struct Missed {
    const Encoding *encoding;
    Refusal refusal;
  };
  llvm::SmallVector<Missed> missed;
  for (bool isParameter : {true, false})
    for (const Encoding &encoding : document.getEncodings()) {
      if (encoding.isParameter != isParameter)
        continue;
      std::optional<Refusal> refusal =
          isParameter ? planParameter(encoding) : planActivation(encoding);
      if (refusal)
        missed.push_back({&encoding, *refusal});
    }
  auto isNameless = [](const Missed &entry) {
    return !entry.encoding->isParameter &&
           entry.refusal.reason == Reason::EncodingUnmatched;
  };
  if (llvm::count_if(missed, isNameless) == 1) {
    auto *entry = llvm::find_if(missed, isNameless);
    if (!planByRole(*entry->encoding))
      missed.erase(entry);
  }

  // Apply.
  module->walk([](Operation *op) {
    op->removeAttr(encodingAttrName);
    if (auto derived = op->getAttrOfType<DictionaryAttr>(derivedAttrName)) {
      NamedAttrList entries(derived);
      if (entries.erase("encoding"))
        op->setAttr(derivedAttrName, entries.getDictionary(op->getContext()));
    }
    if (auto function = dyn_cast<FunctionOpInterface>(op))
      for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
        function.removeArgAttr(i, encodingAttrName);
  });
  for (const auto &[key, attachment] : attachments) {
    if (attachment.isDerived) {
      NamedAttrList provenance(
          attachment.carrier.op->getAttrOfType<DictionaryAttr>(
              derivedAttrName));
      provenance.set("encoding", attachment.encoding);
      attachment.carrier.op->setAttr(
          derivedAttrName, provenance.getDictionary(module.getContext()));
    } else {
      attachment.carrier.set(attachment.encoding);
    }
    auto axis = attachment.encoding.getAs<IntegerAttr>("axis");
    remarkPassed(attachment.carrier.getOp(), passName, "attached",
                 (attachment.isParameter ? "parameter '" : "activation '") +
                     attachment.encoding.getAs<StringAttr>("name").getValue() +
                     "'" +
                     (axis ? " along axis " + llvm::Twine(axis.getInt()) : ""));
  }
  llvm::SmallVector<Attribute> unmatchedParameters, unmatchedActivations;
  for (const Missed &entry : missed) {
    remarkRefused(module, passName, entry.refusal);
    (entry.encoding->isParameter ? unmatchedParameters : unmatchedActivations)
        .push_back(builder.getStringAttr(entry.encoding->name));
  }
  module->setAttr(
      encodingsAttrName,
      builder.getDictionaryAttr(
          {builder.getNamedAttr("document", builder.getStringAttr(text)),
           builder.getNamedAttr("unmatched_parameters",
                                builder.getArrayAttr(unmatchedParameters)),
           builder.getNamedAttr("unmatched_activations",
                                builder.getArrayAttr(unmatchedActivations))}));
}

llvm::Error attachEncodings(ModuleOp module, llvm::StringRef text) {
  llvm::Expected<EncodingDocument> document = EncodingDocument::parse(text);
  if (!document)
    return document.takeError();
  std::string compact = document->print(/*indent=*/0);
  Attacher(module, std::move(*document), compact).run();
  return llvm::Error::success();
}

namespace {
struct AttachEncodings : impl::AttachEncodingsBase<AttachEncodings> {
  using AttachEncodingsBase::AttachEncodingsBase;

  void runOnOperation() override {
    auto fail = [&](const llvm::Twine &message) {
      getOperation().emitError(message);
      signalPassFailure();
    };
    if (file.empty())
      return fail("qtranspose-attach-encodings needs a file");
    llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer =
        llvm::MemoryBuffer::getFile(file);
    if (!buffer)
      return fail(file + ": cannot read: " + buffer.getError().message());
    if (llvm::Error error =
            attachEncodings(getOperation(), (*buffer)->getBuffer()))
      fail(file + ": " + llvm::toString(std::move(error)));
  }
};
} // namespace

} // namespace mlir::qtranspose
