//===- DequantDescription.cpp - what a dequantization means ---------------===//

#include "qtranspose/Analysis/DequantDescription.h"

#include "qtranspose/Analysis/AffineReader.h"
#include "qtranspose/Analysis/FactoredDims.h"
#include "qtranspose/Analysis/PieceUnification.h"
#include "qtranspose/Analysis/SymbolicBits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <numeric>

namespace mlir::qtranspose {

using Kind = DequantDescription::Kind;
using StepKind = DequantStep::Kind;

bool StoredField::isWholeWord() const {
  return getWidth() == word->type.getIntOrFloatBitWidth();
}

llvm::SmallVector<unsigned> StoredField::getOrder() const {
  llvm::SmallVector<unsigned> order(bitOffsets.size());
  std::iota(order.begin(), order.end(), 0u);
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return bitOffsets[a] < bitOffsets[b];
  });
  for (unsigned offset : bitOffsets)
    if (offset % getWidth() != 0)
      return {};
  return order;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
/// Values of an integer.
struct Range {
  int64_t low, high;

  static Range ofBits(unsigned width, bool isSigned) {
    if (width >= 63)
      return {isSigned ? std::numeric_limits<int64_t>::min() : 0,
              std::numeric_limits<int64_t>::max()};
    return isSigned ? Range{-(int64_t(1) << (width - 1)),
                            (int64_t(1) << (width - 1)) - 1}
                    : Range{0, (int64_t(1) << width) - 1};
  }
  bool isWithin(Range other) const {
    return low >= other.low && high <= other.high;
  }
};

/// A description of a number, and what is known of it as an integer.
struct Reading {
  DequantDescription description;
  /// Nothing for floats, and where it could be anything.
  std::optional<Range> range;
  /// The field is a whole integer and nothing has read its sign yet.
  bool isUndecided = false;
  /// Undecided, with the top bit inverted.
  bool topInverted = false;
  /// Operations in it, each as often as it is used.
  unsigned size = 1;
  /// The last step undoes the inversion of a top bit, and may be undone itself.
  bool lastStepIsImplied = false;

  bool failed() const { return description.kind == Kind::Expression; }
  bool isConstant() const {
    return description.kind == Kind::Constant && description.steps.empty();
  }
};

/// Describes expressions over the dims of a tensor.
class Reader {
public:
  Reader(ExprPool &pool, llvm::ArrayRef<int64_t> shape)
      : pool(pool), shape(shape) {}

  /// `expr` without pieces where they are one expression; else null.
  Expr resolve(Expr expr);
  bool hasStorage(Expr expr);
  DequantDescription describe(Expr expr) { return finish(read(expr)); }

private:
  // How expressions vary.
  const FactoredDims *getFactors(Expr expr);
  Variation getVariation(Expr expr);
  bool variesMore(Expr lhs, Expr rhs);
  bool isLookup(Expr gather);
  std::optional<unsigned> findStored(Expr expr);

  // Readings, one per kind of expression.
  const Reading &read(Expr expr);
  Reading compute(Expr expr);
  Reading start(Kind kind, Expr expr);
  Reading fail(Expr expr) { return start(Kind::Expression, expr); }
  Expr findWord(Expr expr, llvm::SetVector<Expr> &selectors);
  std::optional<Reading> readField(Expr expr);
  Reading readLookup(Expr expr);
  Reading readUnary(Expr expr);
  Reading readBinary(Expr expr, StepKind kind);
  Reading readScaledExtension(Expr expr);

  // Changes of a reading.
  bool readAs(Reading &reading, Type type, bool isSigned);
  void addImplied(Reading &reading, Type type, int64_t subtrahend);
  Type getStepType(const Reading &reading, Type type);
  void addStep(Reading &reading, StepKind kind, Type type, Expr operand);
  DequantDescription finish(Reading reading);
  std::shared_ptr<const DequantDescription> share(Expr expr);
  std::shared_ptr<const DequantDescription> shareConstant(TypedAttr value);

  ExprPool &pool;
  llvm::ArrayRef<int64_t> shape;
  llvm::DenseMap<Expr, std::unique_ptr<FactoredDims>> factors;
  llvm::DenseMap<Expr, Variation> variations;
  llvm::DenseMap<Expr, bool> storages;
  llvm::DenseMap<Expr, std::unique_ptr<Reading>> readings;
  llvm::DenseMap<Expr, std::shared_ptr<const DequantDescription>> shared;
};
} // namespace

Expr Reader::resolve(Expr root) {
  llvm::DenseMap<Expr, Expr> resolved;
  walkExpr(root, [&](Expr expr) {
    llvm::SmallVector<Expr> operands;
    for (Expr operand : expr->operands)
      operands.push_back(resolved.lookup(operand));
    bool isComplete = !llvm::is_contained(operands, nullptr);
    Expr &result = resolved[expr];
    if (!expr->is(ScalarExpr::Kind::Pieces)) {
      result = isComplete ? pool.withOperands(expr, operands) : nullptr;
      return;
    }
    AffineExpr position = expr->coordinates[0];
    if (auto dims = FactoredDims::make(pool.getContext(), position, shape))
      for (auto [p, operand] : llvm::enumerate(operands))
        if (dims->isWithin(position, expr->breaks[p], expr->breaks[p + 1]))
          result = operand;
    int64_t size = getPieceSize(expr);
    if (!result && position && size != 0 && isComplete)
      result = unifyPieces(pool, position.floorDiv(size), operands);
  });
  return resolved.lookup(root);
}

//===----------------------------------------------------------------------===//
// Variation
//===----------------------------------------------------------------------===//

/// The dims as factors of every coordinate in `expr`, or null.
const FactoredDims *Reader::getFactors(Expr expr) {
  auto [known, isNew] = factors.try_emplace(expr);
  if (!isNew)
    return known->second.get();
  llvm::SmallSetVector<AffineExpr, 8> coordinates;
  walkExpr(expr, [&](Expr node) {
    coordinates.insert(node->coordinates.begin(), node->coordinates.end());
  });
  if (std::optional<FactoredDims> dims = FactoredDims::make(
          pool.getContext(), coordinates.getArrayRef(), shape))
    known->second = std::make_unique<FactoredDims>(std::move(*dims));
  return known->second.get();
}

Variation Reader::getVariation(Expr expr) {
  if (auto known = variations.find(expr); known != variations.end())
    return known->second;
  Variation variation(shape.size());
  if (const FactoredDims *dims = getFactors(expr)) {
    FactoredDims::Set set(dims->size());
    walkExpr(expr, [&](Expr node) {
      for (AffineExpr coordinate : node->coordinates)
        set |= dims->getDependence(coordinate);
    });
    variation = dims->getVariation(set);
  } else if (llvm::is_contained(expr->coordinates, AffineExpr()) ||
             expr->operands.empty()) {
    for (unsigned dim = 0; dim < shape.size(); ++dim)
      variation.setIrregular(dim);
  } else {
    for (Expr operand : expr->operands)
      variation.join(getVariation(operand));
  }
  variations.try_emplace(expr, variation);
  return variation;
}

/// Whether `lhs` varies wherever `rhs` does, and more.
bool Reader::variesMore(Expr lhs, Expr rhs) {
  Variation left = getVariation(lhs), right = getVariation(rhs);
  return left.covers(right) && !right.covers(left);
}

/// Whether `element` is what quantized values are stored as. Wider integers are
/// indices or sums, single bits are masks.
static bool isStorageElement(Type element) {
  if (auto integer = dyn_cast<IntegerType>(element))
    return integer.getWidth() >= 2 && integer.getWidth() <= 32;
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() <= 8;
}

/// Whether a Leaf or Gather reads stored values, not ones that are computed.
static bool isStoredValue(Expr expr) {
  if (!isStorageElement(expr->type) || expr->stopReason)
    return false;
  if (expr->is(ScalarExpr::Kind::Leaf))
    return true;
  auto argument = dyn_cast<BlockArgument>(skipViews(expr->value));
  return isConstantTensor(expr->value) ||
         (argument && argument.getOwner()->isEntryBlock() &&
          isa<FunctionOpInterface>(argument.getOwner()->getParentOp()));
}

/// Whether a stored number selects the element, at every position, from a table
/// that has an entry for each such number. (Other gathers are permutations, or
/// embeddings.)
bool Reader::isLookup(Expr gather) {
  std::optional<unsigned> path = findStored(gather);
  if (!path)
    return false;
  const std::optional<Range> &range = read(gather->operands[*path]).range;
  int64_t entries = gather->getTensorType().getDimSize(*path);
  if (!range || !range->isWithin({0, entries - 1}))
    return false;
  Variation index = getVariation(gather->operands[*path]);
  for (auto [i, operand] : llvm::enumerate(gather->operands))
    if (i != *path && !index.covers(getVariation(operand)))
      return false;
  return true;
}

bool Reader::hasStorage(Expr root) {
  if (auto known = storages.find(root); known != storages.end())
    return known->second;
  walkExpr(root, [&](Expr expr) {
    if (storages.contains(expr))
      return;
    bool has = false;
    if (expr->is(ScalarExpr::Kind::Leaf))
      has = isStoredValue(expr);
    else if (expr->is(ScalarExpr::Kind::Gather))
      has = isStoredValue(expr) || isLookup(expr);
    else
      for (Expr operand : expr->operands)
        has |= storages.lookup(operand);
    storages[expr] = has;
  });
  return storages.lookup(root);
}

/// The operand of `expr` that stored values come in through, if that is one:
/// of several, the one that varies most.
std::optional<unsigned> Reader::findStored(Expr expr) {
  std::optional<unsigned> found;
  bool isUnique = true;
  for (auto [i, operand] : llvm::enumerate(expr->operands)) {
    if (!hasStorage(operand))
      continue;
    if (!found || variesMore(operand, expr->operands[*found])) {
      isUnique = true;
      found = i;
    } else {
      isUnique &= variesMore(expr->operands[*found], operand);
    }
  }
  return isUnique ? found : std::nullopt;
}

static void setAxes(DequantDescription &description,
                    const Variation &variation) {
  description.axes.reset();
  auto groups = variation.getGroups();
  if (!groups)
    return;
  description.axes.emplace();
  for (auto [dim, size] : *groups)
    description.axes->push_back({dim, size});
}

Reading Reader::start(Kind kind, Expr expr) {
  Reading reading;
  reading.description.kind = kind;
  reading.description.expr = expr;
  setAxes(reading.description, getVariation(expr));
  return reading;
}

const Reading &Reader::read(Expr expr) {
  // Computing a reading adds others, so the entry is made afterwards.
  if (auto known = readings.find(expr); known != readings.end())
    return *known->second;
  auto reading = std::make_unique<Reading>(compute(expr));
  return *(readings[expr] = std::move(reading));
}

Reading Reader::compute(Expr expr) {
  if (getIntegerWidth(expr->type) != 0)
    if (std::optional<APInt> value = readConstant(
            expr, [&](AffineExpr coordinate) -> std::optional<int64_t> {
              auto constant = dyn_cast<AffineConstantExpr>(coordinate);
              return constant ? std::optional(constant.getValue())
                              : std::nullopt;
            })) {
      Reading reading = start(Kind::Constant, expr);
      reading.description.constant = IntegerAttr::get(expr->type, *value);
      if (std::optional<int64_t> number = value->trySExtValue())
        reading.range = Range{*number, *number};
      return reading;
    }
  switch (expr->kind) {
  case ScalarExpr::Kind::Constant: {
    Reading reading = start(Kind::Constant, expr);
    reading.description.constant = cast<TypedAttr>(expr->attribute);
    return reading;
  }
  case ScalarExpr::Kind::Scalar:
    return start(Kind::Scalar, expr);
  case ScalarExpr::Kind::Index:
  case ScalarExpr::Kind::Pieces:
    return fail(expr);
  case ScalarExpr::Kind::Gather:
    if (isLookup(expr))
      return readLookup(expr);
    [[fallthrough]];
  case ScalarExpr::Kind::Leaf: {
    if (getIntegerWidth(expr->type) != 0)
      if (std::optional<Reading> field = readField(expr))
        return *field;
    if (!expr->type.isIntOrFloat())
      return fail(expr);
    Reading reading = start(Kind::Stored, expr);
    reading.description.field = StoredField{expr, expr->type, {}, {0}};
    return reading;
  }
  case ScalarExpr::Kind::Apply:
    break;
  }

  if (getIntegerWidth(expr->type) != 0)
    if (std::optional<Reading> field = readField(expr))
      return *field;
  bool isTooWide = isa<IntegerType>(expr->type) && !getIntegerWidth(expr->type);
  if (expr->operands.size() == 1 && !isTooWide)
    return readUnary(expr);
  if (expr->operands.size() != 2 || isTooWide)
    return fail(expr);
  llvm::StringRef op = expr->name->getStringRef();
  if (op == "arith.addf" || op == "arith.addi")
    return readBinary(expr, StepKind::Add);
  if (op == "arith.subf" || op == "arith.subi")
    return readBinary(expr, StepKind::Subtract);
  if (op == "arith.mulf" || op == "arith.muli")
    return readBinary(expr, StepKind::Multiply);
  if (op == "arith.divf")
    return readBinary(expr, StepKind::Divide);
  if (op == "arith.scaling_extf")
    return readScaledExtension(expr);
  return fail(expr);
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

/// The leaf that `expr` takes bits of, if shifts and the like are all there is
/// above it. `selectors` gets what chooses the bits.
Expr Reader::findWord(Expr expr, llvm::SetVector<Expr> &selectors) {
  while (expr->is(ScalarExpr::Kind::Apply)) {
    unsigned path = 0;
    if (expr->isApply("arith.select")) {
      // Bits of one word, one way or the other.
      path = 1;
      if (selectors.insert(expr->operands[0]) &&
          findWord(expr->operands[1], selectors) !=
              findWord(expr->operands[2], selectors))
        return nullptr;
    } else if (expr->operands.size() == 2) {
      Expr lhs = expr->operands[0], rhs = expr->operands[1];
      if (lhs->is(ScalarExpr::Kind::Constant) || variesMore(rhs, lhs))
        path = 1;
      selectors.insert(expr->operands[1 - path]);
    } else if (expr->operands.size() != 1) {
      return nullptr;
    }
    expr = expr->operands[path];
  }
  bool isWord =
      expr->is(ScalarExpr::Kind::Leaf) || expr->is(ScalarExpr::Kind::Gather);
  return isWord && isa<IntegerType>(expr->type) ? expr : nullptr;
}

/// Factors that coordinates in `expr`, a part of what `dims` is made for,
/// depend on.
static FactoredDims::Set getDependence(const FactoredDims &dims, Expr expr) {
  FactoredDims::Set set(dims.size());
  walkExpr(expr, [&](Expr node) {
    for (AffineExpr coordinate : node->coordinates)
      set |= dims.getDependence(coordinate);
  });
  return set;
}

std::optional<Reading> Reader::readField(Expr expr) {
  llvm::SetVector<Expr> selectorExprs;
  Expr word = findWord(expr, selectorExprs);
  const FactoredDims *dims = word ? getFactors(expr) : nullptr;
  if (!dims)
    return std::nullopt;
  FactoredDims::Set selectors(dims->size());
  for (Expr selector : selectorExprs)
    selectors |= getDependence(*dims, selector);
  if (selectors.anyCommon(getDependence(*dims, word)))
    return std::nullopt;

  StoredField field{word, Type(), {}, {}};
  constexpr int64_t maxElements = 256;
  int64_t count = 1;
  for (unsigned factor : selectors.set_bits()) {
    const IndexSpace::Factor &part = (*dims)[factor];
    if (part.extent > maxElements || (count *= part.extent) > maxElements)
      return std::nullopt;
    StoredField::Lane *outer =
        field.lanes.empty() ? nullptr : &field.lanes.back();
    if (outer && outer->axis == part.dim &&
        outer->stride == part.stride * part.extent) {
      outer->stride = part.stride;
      outer->count *= part.extent;
    } else {
      field.lanes.push_back({part.dim, part.stride, part.extent});
    }
  }

  std::optional<BitsOfWord> first;
  llvm::SmallVector<int64_t> position(dims->size(), 0);
  auto coordinate = [&](AffineExpr expr) {
    return dims->evaluate(expr, selectors, position);
  };
  for (int64_t element = 0; element < count; ++element) {
    std::optional<BitsOfWord> bits = readBits(expr, word, coordinate);
    if (!bits)
      return std::nullopt;
    field.bitOffsets.push_back(bits->offset);
    if (!first)
      first = bits;
    bits->offset = first->offset;
    if (!(*bits == *first))
      return std::nullopt;
    for (int factor = selectors.find_last(); factor >= 0;
         factor = selectors.find_prev(factor)) {
      if (++position[factor] < (*dims)[factor].extent)
        break;
      position[factor] = 0;
    }
  }
  llvm::SmallDenseSet<unsigned> distinct(field.bitOffsets.begin(),
                                         field.bitOffsets.end());
  if (distinct.size() == 1) {
    field.lanes.clear();
    field.bitOffsets.truncate(1);
  } else if (distinct.size() != field.bitOffsets.size()) {
    return std::nullopt;
  }

  Reading reading = start(Kind::Stored, expr);
  if (field.lanes.empty())
    setAxes(reading.description, getVariation(word));
  unsigned width = first->width;
  auto setType = [&](IntegerType::SignednessSemantics sign) {
    field.type = IntegerType::get(pool.getContext(), width, sign);
  };
  reading.description.field = field;
  reading.isUndecided = true;
  reading.topInverted = first->topInverted;
  reading.description.field->type =
      IntegerType::get(pool.getContext(), first->width);
  if (first->extension != BitsOfWord::Extension::None)
    readAs(reading, expr->type,
           first->extension == BitsOfWord::Extension::Sign);
  return reading;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Reads an integer of `type` as a signed or unsigned one; false if it may not
/// be the same number then.
bool Reader::readAs(Reading &reading, Type type, bool isSigned) {
  if (!reading.isUndecided) {
    if (!reading.range)
      return isSigned || reading.description.kind == Kind::Scalar;
    return reading.range->isWithin(
        Range::ofBits(getIntegerWidth(type), isSigned));
  }
  StoredField &field = *reading.description.field;
  unsigned width = field.getWidth();
  // An unsigned number whose top bit is inverted is the signed number of the
  // bits as they are, plus half of the range; and the other way around.
  bool storesSigned = isSigned != reading.topInverted;
  field.type = IntegerType::get(pool.getContext(), width,
                                storesSigned ? IntegerType::Signed
                                             : IntegerType::Unsigned);
  reading.isUndecided = false;
  if (width <= 32)
    reading.range = Range::ofBits(width, isSigned);
  if (reading.topInverted) {
    int64_t half = int64_t(1) << (width - 1);
    addImplied(reading, type, isSigned ? half : -half);
  }
  return true;
}

/// `type`, unsigned if the number only fits then.
Type Reader::getStepType(const Reading &reading, Type type) {
  unsigned width = getIntegerWidth(type);
  if (!isa<IntegerType>(type) || !reading.range ||
      reading.range->isWithin(Range::ofBits(width, true)))
    return type;
  return IntegerType::get(pool.getContext(), width, IntegerType::Unsigned);
}

void Reader::addImplied(Reading &reading, Type type, int64_t subtrahend) {
  // The type itself may not have this number.
  Type wide = IntegerType::get(pool.getContext(), 64);
  reading.description.steps.push_back(
      {StepKind::Subtract, getStepType(reading, type),
       shareConstant(IntegerAttr::get(wide, subtrahend))});
  reading.lastStepIsImplied = true;
}

/// `-constant`, if there is such a number.
static TypedAttr negate(TypedAttr constant) {
  if (auto integer = dyn_cast<IntegerAttr>(constant);
      integer && !integer.getValue().isMinSignedValue())
    return IntegerAttr::get(integer.getType(), -integer.getValue());
  if (auto real = dyn_cast<FloatAttr>(constant))
    return FloatAttr::get(real.getType(), -real.getValue());
  return TypedAttr();
}

void Reader::addStep(Reading &reading, StepKind kind, Type type, Expr operand) {
  std::shared_ptr<const DequantDescription> description = share(operand);
  std::vector<DequantStep> &steps = reading.description.steps;
  bool isSum = kind == StepKind::Add || kind == StepKind::Subtract;
  if (isSum && read(operand).isConstant()) {
    // Constants are zero points before they are scaled, and offsets then.
    bool isScaled = llvm::any_of(steps, [](const DequantStep &step) {
      return step.kind == StepKind::Multiply || step.kind == StepKind::Divide;
    });
    StepKind usual = isScaled ? StepKind::Add : StepKind::Subtract;
    TypedAttr negative = negate(description->constant);
    if (kind != usual && negative) {
      kind = usual;
      description = shareConstant(negative);
    }
    auto integer = dyn_cast<IntegerAttr>(description->constant);
    if (reading.lastStepIsImplied && integer && kind == StepKind::Subtract &&
        cast<IntegerAttr>(steps.back().operand->constant).getInt() ==
            -integer.getValue().getSExtValue()) {
      steps.pop_back();
      reading.lastStepIsImplied = false;
      return;
    }
  }
  steps.push_back({kind, type, std::move(description)});
  reading.lastStepIsImplied = false;
}

/// `constant` converted to a float type.
static TypedAttr convertConstant(TypedAttr constant, FloatType type,
                                 bool isSigned) {
  APFloat value(type.getFloatSemantics());
  if (auto integer = dyn_cast<IntegerAttr>(constant)) {
    value.convertFromAPInt(integer.getValue(), isSigned,
                           APFloat::rmNearestTiesToEven);
  } else {
    bool losesInfo;
    value = cast<FloatAttr>(constant).getValue();
    value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
  }
  return FloatAttr::get(type, value);
}

Reading Reader::readUnary(Expr expr) {
  Expr operand = expr->operands[0];
  Reading reading = read(operand);
  if (reading.failed())
    return fail(expr);
  llvm::StringRef op = expr->name->getStringRef();
  bool isSigned =
      op == "arith.sitofp" || op == "arith.extsi" || op == "arith.index_cast";
  if (auto type = dyn_cast<FloatType>(expr->type)) {
    bool fromInteger = op == "arith.sitofp" || op == "arith.uitofp";
    if (fromInteger || op == "arith.extf" || op == "arith.truncf") {
      if (reading.isConstant() &&
          isa<IntegerAttr, FloatAttr>(reading.description.constant)) {
        reading.description.constant =
            convertConstant(reading.description.constant, type, isSigned);
        return reading;
      }
      if (fromInteger && !readAs(reading, operand->type, isSigned))
        return fail(expr);
      reading.range.reset();
      reading.lastStepIsImplied = false;
      reading.description.steps.push_back({StepKind::Cast, type, nullptr});
      return reading;
    }
    if (op == "arith.negf") {
      reading.description.steps.push_back({StepKind::Negate, type, nullptr});
      return reading;
    }
    if (op == "arith.bitcast" && reading.isUndecided && !reading.topInverted) {
      reading.description.field->type = type;
      reading.isUndecided = false;
      return reading;
    }
    return fail(expr);
  }
  if (op != "arith.extsi" && op != "arith.extui" && op != "arith.trunci" &&
      op != "arith.index_cast" && op != "arith.index_castui")
    return fail(expr);
  unsigned from = getIntegerWidth(operand->type);
  unsigned to = getIntegerWidth(expr->type);
  if (from == 0 || to == 0)
    return fail(expr);
  if (to >= from)
    return readAs(reading, operand->type, isSigned) ? reading : fail(expr);
  bool fits =
      reading.range && (reading.range->isWithin(Range::ofBits(to, true)) ||
                        reading.range->isWithin(Range::ofBits(to, false)));
  return fits ? reading : fail(expr);
}

/// The values of `lhs kind rhs` in an integer type; false if they leave it.
static bool combineRanges(Reading &lhs, const Reading &rhs, StepKind kind,
                          Type type) {
  if (!lhs.range || !rhs.range || kind == StepKind::Multiply) {
    lhs.range.reset();
    return true;
  }
  Range a = *lhs.range, b = *rhs.range, result;
  bool overflows;
  if (kind == StepKind::Add)
    overflows = llvm::AddOverflow(a.low, b.low, result.low) ||
                llvm::AddOverflow(a.high, b.high, result.high);
  else if (kind == StepKind::Subtract)
    overflows = llvm::SubOverflow(a.low, b.high, result.low) ||
                llvm::SubOverflow(a.high, b.low, result.high);
  else
    overflows = llvm::SubOverflow(b.low, a.high, result.low) ||
                llvm::SubOverflow(b.high, a.low, result.high);
  lhs.range = result;
  unsigned width = getIntegerWidth(type);
  return !overflows && (result.isWithin(Range::ofBits(width, true)) ||
                        result.isWithin(Range::ofBits(width, false)));
}

Reading Reader::readBinary(Expr expr, StepKind kind) {
  Expr lhs = expr->operands[0], rhs = expr->operands[1];
  unsigned path = 0;
  if (hasStorage(lhs) && hasStorage(rhs)) {
    // Of two stored values that vary alike, the one that is not subtracted.
    std::optional<unsigned> found = findStored(expr);
    bool isSymmetric = kind == StepKind::Add || kind == StepKind::Multiply;
    if (!found && (isSymmetric || !(getVariation(lhs) == getVariation(rhs))))
      return fail(expr);
    path = found.value_or(0);
  } else if (hasStorage(lhs) || hasStorage(rhs)) {
    path = hasStorage(lhs) ? 0 : 1;
  } else if (read(lhs).isConstant() || variesMore(rhs, lhs)) {
    path = 1;
  }
  if (path == 1 && kind == StepKind::Divide)
    return fail(expr);
  if (path == 1 && kind == StepKind::Subtract)
    kind = StepKind::SubtractFrom;

  Reading reading = read(expr->operands[path]);
  const Reading &other = read(expr->operands[1 - path]);
  // A description is a tree, which can be much larger than an expression.
  constexpr unsigned maxSize = 64;
  reading.size += other.size;
  if (reading.failed() || reading.size > maxSize)
    return fail(expr);
  if (unsigned width = getIntegerWidth(expr->type)) {
    // In so narrow a type, what wraps around depends on the sign.
    constexpr unsigned safeWidth = 32;
    if (reading.isUndecided &&
        (width < safeWidth || !readAs(reading, expr->type, /*isSigned=*/true)))
      return fail(expr);
    if (!combineRanges(reading, other, kind, expr->type))
      return fail(expr);
  }
  addStep(reading, kind, getStepType(reading, expr->type),
          expr->operands[1 - path]);
  return reading;
}

/// A microscaling element: the stored float times its scale.
Reading Reader::readScaledExtension(Expr expr) {
  Reading reading = read(expr->operands[0]);
  if (reading.failed())
    return fail(expr);
  reading.size += read(expr->operands[1]).size;
  reading.description.steps.push_back({StepKind::Cast, expr->type, nullptr});
  addStep(reading, StepKind::Multiply, expr->type, expr->operands[1]);
  return reading;
}

Reading Reader::readLookup(Expr expr) {
  unsigned path = *findStored(expr);
  Reading reading = read(expr->operands[path]);
  if (reading.failed() ||
      !readAs(reading, expr->operands[path]->type, /*isSigned=*/true))
    return fail(expr);
  Variation others(shape.size());
  for (auto [i, operand] : llvm::enumerate(expr->operands))
    if (i != path)
      others.join(getVariation(operand));
  DequantDescription table;
  table.kind = Kind::Stored;
  table.expr = expr;
  table.field = StoredField{expr, expr->type, {}, {0}};
  setAxes(table, others);
  reading.range.reset();
  reading.lastStepIsImplied = false;
  reading.description.steps.push_back(
      {StepKind::Lookup, expr->type,
       std::make_shared<DequantDescription>(std::move(table))});
  return reading;
}

DequantDescription Reader::finish(Reading reading) {
  // A shift of the whole range only makes sense as one to signed numbers.
  if (reading.isUndecided && reading.topInverted)
    readAs(reading, reading.description.expr->type, /*isSigned=*/true);
  return std::move(reading.description);
}

std::shared_ptr<const DequantDescription> Reader::share(Expr expr) {
  if (auto known = shared.lookup(expr))
    return known;
  auto description = std::make_shared<DequantDescription>(finish(read(expr)));
  description->expr = expr;
  shared[expr] = description;
  return description;
}

std::shared_ptr<const DequantDescription>
Reader::shareConstant(TypedAttr value) {
  auto description = std::make_shared<DequantDescription>();
  description->kind = Kind::Constant;
  description->expr = pool.constant(value);
  description->constant = value;
  description->axes.emplace();
  return description;
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

namespace {
/// A description, and whether it reads quantized storage.
struct Found {
  DequantDescription description;
  bool hasStorage;
};

/// Positions at which an axis is cut.
struct Cut {
  unsigned axis;
  llvm::SmallVector<int64_t> breaks; ///< with both ends

  bool operator==(const Cut &other) const {
    return axis == other.axis && breaks == other.breaks;
  }
};
} // namespace

/// `root` with its index arithmetic written as affine coordinates.
static Expr foldIndices(ExprPool &pool, Expr root) {
  AffineReader reader(pool.getContext());
  llvm::DenseMap<Expr, Expr> folded;
  walkExpr(root, [&](Expr expr) {
    if (isa<IndexType>(expr->type) && expr->is(ScalarExpr::Kind::Apply))
      if (AffineExpr affine = reader.read(expr)) {
        folded[expr] = pool.index(affine);
        return;
      }
    llvm::SmallVector<Expr> operands;
    for (Expr operand : expr->operands)
      operands.push_back(folded.lookup(operand));
    folded[expr] = pool.withOperands(expr, operands);
  });
  return folded.lookup(root);
}

/// Describes `expr` as one number.
static Found describeNumber(ExprPool &pool, Expr expr,
                            llvm::ArrayRef<int64_t> shape) {
  Found found{{}, true};
  found.description.kind = Kind::Expression;
  found.description.expr = expr;
  Reader reader(pool, shape);
  Expr resolved = reader.resolve(foldIndices(pool, expr));
  if (!resolved)
    return found;
  found.hasStorage = reader.hasStorage(resolved);
  found.description = reader.describe(resolved);
  found.description.expr = expr;
  return found;
}

/// The cuts that separate the pieces of `expr` along one axis.
static llvm::SmallVector<Cut> findCuts(Expr expr,
                                       llvm::ArrayRef<int64_t> shape) {
  constexpr unsigned maxCuts = 4;
  constexpr unsigned maxParts = 16;
  llvm::SmallVector<Cut> cuts;
  walkExpr(expr, [&](Expr node) {
    if (!node->is(ScalarExpr::Kind::Pieces) || !node->coordinates[0])
      return;
    AffineExpr position = node->coordinates[0];
    int64_t offset = 0;
    if (position.getKind() == AffineExprKind::Add) {
      auto sum = cast<AffineBinaryOpExpr>(position);
      if (auto constant = dyn_cast<AffineConstantExpr>(sum.getRHS())) {
        position = sum.getLHS();
        offset = constant.getValue();
      }
    }
    auto dim = dyn_cast<AffineDimExpr>(position);
    if (!dim || ShapedType::isDynamic(shape[dim.getPosition()]))
      return;
    Cut cut{dim.getPosition(), {0}};
    int64_t extent = shape[cut.axis];
    for (int64_t position : node->breaks)
      if (position - offset > cut.breaks.back() && position - offset < extent)
        cut.breaks.push_back(position - offset);
    cut.breaks.push_back(extent);
    if (cut.breaks.size() > 2 && cut.breaks.size() <= maxParts + 1 &&
        cuts.size() < maxCuts && !llvm::is_contained(cuts, cut))
      cuts.push_back(cut);
  });
  return cuts;
}

static Found describe(ExprPool &pool, Expr expr, llvm::ArrayRef<int64_t> shape,
                      unsigned depth);

/// Describes the parts that `cut` makes of `expr`; nothing if that is not
/// possible for each of them.
static std::optional<Found> describeParts(ExprPool &pool, Expr expr,
                                          llvm::ArrayRef<int64_t> shape,
                                          const Cut &cut, unsigned depth) {
  Found found{{}, false};
  found.description.kind = Kind::Concatenation;
  found.description.expr = expr;
  found.description.axis = cut.axis;
  found.description.breaks = cut.breaks;
  for (unsigned p = 0; p + 1 < cut.breaks.size(); ++p) {
    llvm::SmallVector<int64_t> partShape(shape);
    partShape[cut.axis] = cut.breaks[p + 1] - cut.breaks[p];
    AffineExpr dim = getAffineDimExpr(cut.axis, pool.getContext());
    Found part = describe(pool,
                          pool.mapCoordinates(expr,
                                              [&](AffineExpr coordinate) {
                                                return coordinate.replace(
                                                    dim, dim + cut.breaks[p]);
                                              }),
                          partShape, depth + 1);
    if (part.description.kind == Kind::Expression)
      return std::nullopt;
    found.hasStorage |= part.hasStorage;
    found.description.parts.push_back(
        {partShape,
         std::make_shared<DequantDescription>(std::move(part.description))});
  }
  return found;
}

static Found describe(ExprPool &pool, Expr expr, llvm::ArrayRef<int64_t> shape,
                      unsigned depth) {
  constexpr unsigned maxDepth = 2;
  Found whole = describeNumber(pool, expr, shape);
  if (whole.description.kind == Kind::Expression && depth < maxDepth)
    for (const Cut &cut : findCuts(expr, shape))
      if (std::optional<Found> parts =
              describeParts(pool, expr, shape, cut, depth))
        return std::move(*parts);
  return whole;
}

std::optional<DequantDescription>
describeDequantization(ExprPool &pool, Expr expr,
                       llvm::ArrayRef<int64_t> shape) {
  constexpr unsigned maxNodes = 2048;
  unsigned nodes = 0;
  bool hasStorage = false;
  walkExpr(expr, [&](Expr node) {
    ++nodes;
    if (node->is(ScalarExpr::Kind::Leaf) || node->is(ScalarExpr::Kind::Gather))
      hasStorage |= isStoredValue(node);
  });
  if (!hasStorage)
    return std::nullopt;
  if (nodes > maxNodes) {
    DequantDescription description;
    description.kind = Kind::Expression;
    description.expr = expr;
    return description;
  }
  Found found = describe(pool, expr, shape, /*depth=*/0);
  return found.hasStorage ? std::optional(std::move(found.description))
                          : std::nullopt;
}

} // namespace mlir::qtranspose
