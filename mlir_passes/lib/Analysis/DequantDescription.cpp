//===- DequantDescription.cpp - what a dequantization means ---------------===//

#include "qtranspose/Analysis/DequantDescription.h"

#include "qtranspose/Analysis/AffineReader.h"
#include "qtranspose/Analysis/IndexSpace.h"
#include "qtranspose/Analysis/PieceUnification.h"
#include "qtranspose/Analysis/SymbolicBits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SmallBitVector.h"

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
// Factors
//===----------------------------------------------------------------------===//

namespace {
/// The dims of the described tensor, split into factors over which every
/// coordinate of an expression is linear; expressions here are over factors.
class Factors {
public:
  using Set = llvm::SmallBitVector;

  /// Nothing if some coordinate is not linear over any split.
  static std::optional<Factors> make(MLIRContext *context, Expr expr,
                                     llvm::ArrayRef<int64_t> shape) {
    // No coordinate is reduced by the bound of a dynamic dim: none divides by
    // that much.
    constexpr int64_t unbounded = int64_t(1) << 32;
    llvm::SmallVector<int64_t> extents(shape);
    for (int64_t &extent : extents)
      if (ShapedType::isDynamic(extent))
        extent = unbounded;
    llvm::SmallVector<AffineExpr> coordinates;
    walkExpr(expr, [&](Expr node) {
      llvm::append_range(coordinates, node->coordinates);
      if (int64_t size = getPieceSize(node))
        coordinates.push_back(node->coordinates[0]
                                  ? node->coordinates[0].floorDiv(size)
                                  : AffineExpr());
    });
    if (llvm::is_contained(coordinates, AffineExpr()))
      return std::nullopt;
    llvm::SmallVector<int64_t> multiples(shape.size(), 1);
    for (;;) {
      IndexSpace space(context, extents);
      std::optional<IndexSpace::Ragged> ragged;
      if (llvm::all_of(coordinates, [&](AffineExpr coordinate) {
            return space.makeLinear(coordinate, &ragged);
          })) {
        if (!llvm::all_of(coordinates, [&](AffineExpr coordinate) {
              return space.getLinearForm(coordinate).has_value();
            }))
          return std::nullopt;
        return Factors(context, std::move(space));
      }
      // Groups that do not divide a dim do divide a longer one.
      constexpr int64_t maxMultiple = int64_t(1) << 20;
      if (!ragged || ragged->group > maxMultiple)
        return std::nullopt;
      int64_t &multiple = multiples[ragged->dim];
      int64_t longer = std::lcm(multiple, ragged->group);
      if (longer == multiple || longer > maxMultiple)
        return std::nullopt;
      multiple = longer;
      extents[ragged->dim] =
          llvm::alignTo(extents[ragged->dim], uint64_t(multiple));
    }
  }

  unsigned size() const { return space.getFactors().size(); }
  const IndexSpace::Factor &operator[](unsigned factor) const {
    return space.getFactors()[factor];
  }

  /// The size of the pieces of a concatenation if they are equal, else 0.
  static int64_t getPieceSize(Expr expr) {
    if (!expr->is(ScalarExpr::Kind::Pieces))
      return 0;
    int64_t size = expr->breaks[1];
    for (unsigned p = 1; p < expr->breaks.size(); ++p)
      if (expr->breaks[p] - expr->breaks[p - 1] != size)
        return 0;
    return size;
  }

  AffineExpr fromDims(AffineExpr coordinate) const {
    return space.toAffine(*space.getLinearForm(coordinate));
  }

  LinearForm getForm(AffineExpr coordinate) const {
    return *flat.getLinearForm(coordinate);
  }

  /// `position floordiv size`; nothing if that is not linear.
  std::optional<AffineExpr> divide(AffineExpr position, int64_t size) const {
    std::optional<LinearForm> form =
        flat.getLinearForm(position.floorDiv(size));
    return form ? std::optional(flat.toAffine(*form)) : std::nullopt;
  }

  /// Whether `position` is in [low, high) everywhere.
  bool isWithin(AffineExpr position, int64_t low, int64_t high) const {
    auto [smallest, largest] = flat.getRange(getForm(position));
    return smallest >= low && largest && *largest < high;
  }

  /// Factors that `coordinate` depends on.
  Set getDependence(AffineExpr coordinate) const {
    Set set(size());
    for (auto [factor, coefficient] :
         llvm::enumerate(getForm(coordinate).coefficients))
      if (coefficient != 0)
        set.set(factor);
    return set;
  }

  /// The groups of positions that differ in `set`; nothing if positions next to
  /// each other differ in it, but some further apart do not.
  std::optional<llvm::SmallVector<AxisGroup>> getGroups(const Set &set) const {
    llvm::SmallVector<AxisGroup> groups;
    for (unsigned factor = 0; factor < size(); ++factor) {
      const IndexSpace::Factor &part = (*this)[factor];
      bool isFirst = factor == 0 || (*this)[factor - 1].dim != part.dim;
      if (!set.test(factor))
        continue;
      if (!isFirst && !set.test(factor - 1))
        return std::nullopt;
      if (isFirst)
        groups.push_back({part.dim, part.stride});
      groups.back().size = part.stride;
    }
    return groups;
  }

  /// A coordinate over factors as one over dims.
  AffineExpr toDims(AffineExpr coordinate) const {
    LinearForm form = getForm(coordinate);
    AffineExpr sum = getAffineConstantExpr(form.constant, context);
    for (unsigned first = 0, last; first < size(); first = last + 1) {
      last = first;
      if (form.coefficients[first] == 0)
        continue;
      // Factors that are a part of their dim together.
      int64_t extent = (*this)[first].extent;
      while (last + 1 < size() && (*this)[last + 1].dim == (*this)[first].dim &&
             form.coefficients[last] ==
                 form.coefficients[last + 1] * (*this)[last + 1].extent)
        extent *= (*this)[++last].extent;
      const IndexSpace::Factor &inner = (*this)[last];
      AffineExpr part =
          getAffineDimExpr(inner.dim, context).floorDiv(inner.stride);
      if (first != 0 && (*this)[first - 1].dim == inner.dim)
        part = part % extent;
      sum = sum + part * form.coefficients[last];
    }
    return sum;
  }

private:
  Factors(MLIRContext *context, IndexSpace &&space)
      : context(context), space(std::move(space)),
        flat(context, getExtents(this->space)) {}

  static llvm::SmallVector<int64_t> getExtents(const IndexSpace &space) {
    return llvm::map_to_vector(
        space.getFactors(),
        [](const IndexSpace::Factor &factor) { return factor.extent; });
  }

  MLIRContext *context;
  IndexSpace space;
  IndexSpace flat; ///< whose dims are the factors
};

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

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

/// Describes expressions over factors.
class Reader {
public:
  Reader(ExprPool &pool, const Factors &factors)
      : pool(pool), factors(factors) {}

  /// `expr` without pieces where they are one expression; else null.
  Expr resolve(Expr expr);
  bool hasStorage(Expr expr);
  DequantDescription describe(Expr expr) { return finish(read(expr)); }

private:
  using Set = Factors::Set;

  // What expressions depend on.
  Set getDependence(Expr expr);
  bool variesMore(Expr lhs, Expr rhs);
  bool isLookup(Expr gather);
  std::optional<unsigned> findStored(Expr expr);

  // Readings, one per kind of expression.
  const Reading &read(Expr expr);
  Reading compute(Expr expr);
  Reading start(Kind kind, Expr expr);
  Reading fail(Expr expr) { return start(Kind::Expression, expr); }
  Expr findWord(Expr expr, Set &selectors);
  std::optional<Reading> readField(Expr expr);
  Reading readLookup(Expr expr);
  Reading readUnary(Expr expr);
  Reading readBinary(Expr expr, StepKind kind);

  // Changes of a reading.
  bool readAs(Reading &reading, Type type, bool isSigned);
  void addImplied(Reading &reading, StepKind kind, Type type, unsigned bit);
  void addStep(Reading &reading, StepKind kind, Type type, Expr operand);
  DequantDescription finish(Reading reading);
  std::shared_ptr<const DequantDescription> share(Expr expr);
  std::shared_ptr<const DequantDescription> shareConstant(TypedAttr value);

  /// `expr` over dims.
  Expr toDims(Expr expr) {
    return pool.mapCoordinates(expr, [&](AffineExpr coordinate) {
      return factors.toDims(coordinate);
    });
  }

  ExprPool &pool;
  const Factors &factors;
  llvm::DenseMap<Expr, Expr> resolved;
  llvm::DenseMap<Expr, Set> dependences;
  llvm::DenseMap<Expr, bool> storages;
  llvm::DenseMap<Expr, std::unique_ptr<Reading>> readings;
  llvm::DenseMap<Expr, std::shared_ptr<const DequantDescription>> shared;
};
} // namespace

Expr Reader::resolve(Expr root) {
  walkExpr(root, [&](Expr expr) {
    llvm::SmallVector<Expr> operands;
    for (Expr operand : expr->operands)
      operands.push_back(resolved.lookup(operand));
    Expr result = nullptr;
    if (!expr->is(ScalarExpr::Kind::Pieces)) {
      if (!llvm::is_contained(operands, nullptr))
        result = pool.withOperands(expr, operands);
    } else {
      AffineExpr position = expr->coordinates[0];
      for (auto [p, operand] : llvm::enumerate(operands))
        if (factors.isWithin(position, expr->breaks[p], expr->breaks[p + 1]))
          result = operand;
      int64_t size = Factors::getPieceSize(expr);
      if (!result && size != 0 && !llvm::is_contained(operands, nullptr))
        if (std::optional<AffineExpr> selector = factors.divide(position, size))
          result = unifyPieces(pool, *selector, operands);
    }
    resolved[expr] = result;
  });
  return resolved.lookup(root);
}

Reader::Set Reader::getDependence(Expr root) {
  if (!dependences.contains(root))
    walkExpr(root, [&](Expr expr) {
      if (dependences.contains(expr))
        return;
      Set set(factors.size());
      for (AffineExpr coordinate : expr->coordinates)
        set |= factors.getDependence(coordinate);
      for (Expr operand : expr->operands)
        set |= dependences.find(operand)->second;
      dependences[expr] = set;
    });
  return dependences.find(root)->second;
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

/// Whether the element is looked up at every position: the index tells apart
/// whatever else the table is indexed by.
bool Reader::isLookup(Expr gather) {
  std::optional<unsigned> path = findStored(gather);
  if (!path)
    return false;
  Set index = getDependence(gather->operands[*path]);
  Set others(factors.size());
  for (auto [i, operand] : llvm::enumerate(gather->operands))
    if (i != *path)
      others |= getDependence(operand);
  others.reset(index);
  return others.none();
}

bool Reader::hasStorage(Expr root) {
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

/// Whether `lhs` varies wherever `rhs` does, and elsewhere too.
bool Reader::variesMore(Expr lhs, Expr rhs) {
  Set left = getDependence(lhs), right = getDependence(rhs);
  return left != right && (left | right) == left;
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

Reading Reader::start(Kind kind, Expr expr) {
  Reading reading;
  reading.description.kind = kind;
  reading.description.expr = expr;
  reading.description.axes = factors.getGroups(getDependence(expr));
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
  if (getDependence(expr).none())
    if (std::optional<APInt> value = readConstant(
            expr, [&](AffineExpr coordinate) -> std::optional<int64_t> {
              return factors.getForm(coordinate).constant;
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
    if (!isStoredValue(expr) && isLookup(expr))
      return readLookup(expr);
    [[fallthrough]];
  case ScalarExpr::Kind::Leaf: {
    if (getIntegerWidth(expr->type) != 0)
      if (std::optional<Reading> field = readField(expr))
        return *field;
    if (!expr->type.isIntOrFloat())
      return fail(expr);
    Reading reading = start(Kind::Stored, expr);
    reading.description.field = StoredField{toDims(expr), expr->type, {}, {0}};
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
  return fail(expr);
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

/// The leaf that `expr` takes bits of, if shifts and the like are all there is
/// above it. `selectors` gets what the choice of the bits depends on.
Expr Reader::findWord(Expr expr, Set &selectors) {
  while (expr->is(ScalarExpr::Kind::Apply)) {
    unsigned path = 0;
    if (expr->operands.size() == 2) {
      Expr lhs = expr->operands[0], rhs = expr->operands[1];
      if (lhs->is(ScalarExpr::Kind::Constant) || variesMore(rhs, lhs))
        path = 1;
      selectors |= getDependence(expr->operands[1 - path]);
    } else if (expr->operands.size() != 1) {
      return nullptr;
    }
    expr = expr->operands[path];
  }
  bool isWord =
      expr->is(ScalarExpr::Kind::Leaf) || expr->is(ScalarExpr::Kind::Gather);
  return isWord && isa<IntegerType>(expr->type) ? expr : nullptr;
}

std::optional<Reading> Reader::readField(Expr expr) {
  Set selectors(factors.size());
  Expr word = findWord(expr, selectors);
  if (!word || selectors.anyCommon(getDependence(word)))
    return std::nullopt;

  StoredField field{toDims(word), Type(), {}, {}};
  constexpr int64_t maxElements = 256;
  int64_t count = 1;
  for (unsigned factor : selectors.set_bits()) {
    const IndexSpace::Factor &part = factors[factor];
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
  llvm::SmallVector<int64_t> position(factors.size(), 0);
  for (int64_t element = 0; element < count; ++element) {
    auto coordinate = [&](AffineExpr expr) -> std::optional<int64_t> {
      LinearForm form = factors.getForm(expr);
      int64_t value = form.constant;
      for (auto [factor, coefficient] : llvm::enumerate(form.coefficients)) {
        if (coefficient != 0 && !selectors.test(factor))
          return std::nullopt;
        value += coefficient * position[factor];
      }
      return value;
    };
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
      if (++position[factor] < factors[factor].extent)
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
    reading.description.axes = factors.getGroups(getDependence(word));
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
  if (reading.topInverted)
    addImplied(reading, isSigned ? StepKind::Subtract : StepKind::Add, type,
               width - 1);
  return true;
}

/// Adds or subtracts 2^bit.
void Reader::addImplied(Reading &reading, StepKind kind, Type type,
                        unsigned bit) {
  int64_t value = int64_t(1) << bit;
  // The type itself may not have this number.
  Type wide = IntegerType::get(pool.getContext(), 64);
  reading.description.steps.push_back(
      {StepKind::Subtract, type,
       shareConstant(IntegerAttr::get(
           wide, kind == StepKind::Subtract ? value : -value))});
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
    if (!found && (isSymmetric || getDependence(lhs) != getDependence(rhs)))
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
  addStep(reading, kind, expr->type, expr->operands[1 - path]);
  return reading;
}

Reading Reader::readLookup(Expr expr) {
  unsigned path = *findStored(expr);
  Reading reading = read(expr->operands[path]);
  if (reading.failed() ||
      !readAs(reading, expr->operands[path]->type, /*isSigned=*/true))
    return fail(expr);
  Set others(factors.size());
  for (auto [i, operand] : llvm::enumerate(expr->operands))
    if (i != path)
      others |= getDependence(operand);
  Expr element = toDims(expr);
  DequantDescription table;
  table.kind = Kind::Stored;
  table.expr = element;
  table.field = StoredField{element, expr->type, {}, {0}};
  table.axes = factors.getGroups(others);
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
  description->expr = toDims(expr);
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
  Expr folded = foldIndices(pool, expr);
  std::optional<Factors> factors =
      Factors::make(pool.getContext(), folded, shape);
  if (!factors)
    return found;
  Reader reader(pool, *factors);
  Expr resolved =
      reader.resolve(pool.mapCoordinates(folded, [&](AffineExpr coordinate) {
        return factors->fromDims(coordinate);
      }));
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
