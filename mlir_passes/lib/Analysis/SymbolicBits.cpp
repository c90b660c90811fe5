//===- SymbolicBits.cpp - integers as bits of a stored word ---------------===//

#include "qtranspose/Analysis/SymbolicBits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringSwitch.h"

namespace mlir::qtranspose {

unsigned getIntegerWidth(Type type) {
  if (isa<IndexType>(type))
    return IndexType::kInternalStorageBitWidth;
  auto integer = dyn_cast<IntegerType>(type);
  return integer && integer.getWidth() <= 64 ? integer.getWidth() : 0;
}

/// The element of a small constant at `indices`.
static std::optional<APInt> readElement(Expr leaf,
                                        llvm::ArrayRef<int64_t> indices) {
  constexpr int64_t maxElements = 1 << 10;
  Attribute attribute = leaf->attribute;
  if (leaf->value) {
    auto constant = leaf->value.getDefiningOp<arith::ConstantOp>();
    if (!constant)
      return std::nullopt;
    attribute = constant.getValue();
  }
  ShapedType type = leaf->getTensorType();
  auto integer = dyn_cast<IntegerType>(type.getElementType());
  if (!integer || !type.hasStaticShape() || type.getNumElements() > maxElements)
    return std::nullopt;
  int64_t position = 0;
  for (auto [index, size] : llvm::zip_equal(indices, type.getShape())) {
    if (index < 0 || index >= size)
      return std::nullopt;
    position = position * size + index;
  }
  if (auto dense = dyn_cast<DenseElementsAttr>(attribute))
    return dense.getValues<APInt>()[position];
  auto resource = dyn_cast<DenseResourceElementsAttr>(attribute);
  AsmResourceBlob *blob =
      resource ? resource.getRawHandle().getBlob() : nullptr;
  unsigned bytes = integer.getWidth() / 8;
  if (!blob || integer.getWidth() % 8 != 0 ||
      blob->getData().size() != type.getNumElements() * bytes)
    return std::nullopt;
  APInt element(integer.getWidth(), 0);
  llvm::LoadIntFromMemory(element,
                          reinterpret_cast<const uint8_t *>(
                              blob->getData().data() + position * bytes),
                          bytes);
  return element;
}

namespace {

/// Zero, one, a bit of the word, or the inverse of one.
class Bit {
public:
  static Bit constant(bool value) { return Bit(value); }
  static Bit ofWord(unsigned index) { return Bit(2 + 2 * index); }

  bool isConstant() const { return code < 2; }
  bool isZero() const { return code == 0; }
  bool isOne() const { return code == 1; }
  Bit inverted() const { return Bit(code ^ 1); }
  bool operator==(Bit other) const { return code == other.code; }

private:
  explicit Bit(unsigned code) : code(code) {}
  unsigned code;
};

using Bits = llvm::SmallVector<Bit, 64>; ///< lowest first

Bits constantBits(const APInt &value) {
  Bits bits;
  for (unsigned i = 0; i < value.getBitWidth(); ++i)
    bits.push_back(Bit::constant(value[i]));
  return bits;
}

std::optional<APInt> asConstant(llvm::ArrayRef<Bit> bits) {
  APInt value(bits.size(), 0);
  for (auto [i, bit] : llvm::enumerate(bits)) {
    if (!bit.isConstant())
      return std::nullopt;
    if (bit.isOne())
      value.setBit(i);
  }
  return value;
}

std::optional<APInt> foldArithmetic(llvm::StringRef op, const APInt &lhs,
                                    const APInt &rhs) {
  if (op == "arith.addi")
    return lhs + rhs;
  if (op == "arith.subi")
    return lhs - rhs;
  if (op == "arith.muli")
    return lhs * rhs;
  if (rhs.isZero() || (lhs.isMinSignedValue() && rhs.isAllOnes()))
    return std::nullopt;
  if (op == "arith.divui")
    return lhs.udiv(rhs);
  if (op == "arith.divsi")
    return lhs.sdiv(rhs);
  if (op == "arith.floordivsi")
    return llvm::APIntOps::RoundingSDiv(lhs, rhs, APInt::Rounding::DOWN);
  if (op == "arith.remui")
    return lhs.urem(rhs);
  if (op == "arith.remsi")
    return lhs.srem(rhs);
  return std::nullopt;
}

class Evaluator {
public:
  Evaluator(Expr word, CoordinateValue coordinate)
      : word(word), coordinate(coordinate) {}

  std::optional<Bits> evaluate(Expr expr) {
    auto [known, isNew] = memo.try_emplace(expr);
    if (!isNew)
      return known->second;
    std::optional<Bits> bits = compute(expr);
    return memo[expr] = bits;
  }

private:
  std::optional<Bits> compute(Expr expr) {
    unsigned width = getIntegerWidth(expr->type);
    if (width == 0)
      return std::nullopt;
    if (expr == word) {
      Bits bits;
      for (unsigned i = 0; i < width; ++i)
        bits.push_back(Bit::ofWord(i));
      return bits;
    }
    switch (expr->kind) {
    case ScalarExpr::Kind::Constant:
      if (auto integer = dyn_cast<IntegerAttr>(expr->attribute))
        return constantBits(integer.getValue());
      return std::nullopt;
    case ScalarExpr::Kind::Index:
      if (std::optional<int64_t> value = coordinateAt(expr->coordinates[0]))
        return constantBits(APInt(width, *value));
      return std::nullopt;
    case ScalarExpr::Kind::Leaf: {
      llvm::SmallVector<int64_t> indices;
      for (AffineExpr index : expr->coordinates) {
        std::optional<int64_t> value = coordinateAt(index);
        if (!value)
          return std::nullopt;
        indices.push_back(*value);
      }
      if (std::optional<APInt> element = readElement(expr, indices))
        return constantBits(*element);
      return std::nullopt;
    }
    case ScalarExpr::Kind::Apply:
      return computeApply(expr, width);
    default:
      return std::nullopt;
    }
  }

  std::optional<int64_t> coordinateAt(AffineExpr expr) {
    return expr ? coordinate(expr) : std::nullopt;
  }

  std::optional<Bits> computeApply(Expr expr, unsigned width) {
    llvm::SmallVector<Bits, 3> operands;
    for (Expr operand : expr->operands) {
      std::optional<Bits> bits = evaluate(operand);
      if (!bits)
        return std::nullopt;
      operands.push_back(std::move(*bits));
    }
    llvm::StringRef op = expr->name->getStringRef();
    if (operands.size() == 1)
      return resize(op, operands[0], width);
    std::optional<APInt> lhs = asConstant(operands[0]);
    if (op == "arith.select")
      return lhs ? std::optional(operands[lhs->isOne() ? 1 : 2]) : std::nullopt;
    if (operands.size() != 2 || operands[0].size() != operands[1].size())
      return std::nullopt;
    std::optional<APInt> rhs = asConstant(operands[1]);
    if (op == "arith.andi" || op == "arith.ori" || op == "arith.xori")
      return combine(op, operands[0], operands[1]);
    if (lhs && rhs) {
      if (op == "arith.cmpi")
        return compare(expr, *lhs, *rhs);
      if (std::optional<APInt> value = foldArithmetic(op, *lhs, *rhs))
        return constantBits(*value);
    }
    if (rhs)
      return applyConstant(op, operands[0], *rhs);
    if (lhs && op == "arith.addi")
      return applyConstant(op, operands[1], *lhs);
    return std::nullopt;
  }

  static std::optional<Bits> compare(Expr expr, const APInt &lhs,
                                     const APInt &rhs) {
    auto predicate = dyn_cast_or_null<arith::CmpIPredicateAttr>(
        cast<DictionaryAttr>(expr->attribute).get("predicate"));
    if (!predicate)
      return std::nullopt;
    return Bits{Bit::constant(
        arith::applyCmpPredicate(predicate.getValue(), lhs, rhs))};
  }

  static std::optional<Bits> resize(llvm::StringRef op, Bits bits,
                                    unsigned width) {
    bool isSigned = op == "arith.extsi" || op == "arith.index_cast";
    if (!isSigned && op != "arith.extui" && op != "arith.index_castui" &&
        op != "arith.trunci")
      return std::nullopt;
    Bit fill = isSigned ? bits.back() : Bit::constant(false);
    bits.resize(width, fill);
    return bits;
  }

  static std::optional<Bits> combine(llvm::StringRef op,
                                     llvm::ArrayRef<Bit> lhs,
                                     llvm::ArrayRef<Bit> rhs) {
    Bits bits;
    for (auto [a, b] : llvm::zip_equal(lhs, rhs)) {
      if (!a.isConstant() && !b.isConstant()) {
        if (op == "arith.xori" || !(a == b))
          return std::nullopt;
        bits.push_back(a);
        continue;
      }
      bool constant = a.isConstant() ? a.isOne() : b.isOne();
      Bit other = a.isConstant() ? b : a;
      if (op == "arith.xori")
        bits.push_back(constant ? other.inverted() : other);
      else // 0 & x = 0, 1 | x = 1; else x
        bits.push_back((op == "arith.ori") == constant ? Bit::constant(constant)
                                                       : other);
    }
    return bits;
  }

  /// `op(bits, constant)` where that only moves or inverts bits.
  static std::optional<Bits> applyConstant(llvm::StringRef op, Bits bits,
                                           const APInt &constant) {
    unsigned width = bits.size();
    // Adding the sign bit is inverting it.
    if ((op == "arith.addi" || op == "arith.subi") &&
        constant.isMinSignedValue()) {
      bits.back() = bits.back().inverted();
      return bits;
    }
    if (op == "arith.remui" && constant.isPowerOf2()) {
      std::fill(bits.begin() + constant.logBase2(), bits.end(),
                Bit::constant(false));
      return bits;
    }
    std::optional<uint64_t> amount;
    if (op == "arith.shli" || op == "arith.shrui" || op == "arith.shrsi")
      amount = constant.getLimitedValue();
    else if ((op == "arith.divui" || op == "arith.floordivsi") &&
             constant.isPowerOf2() && !constant.isMinSignedValue())
      amount = constant.logBase2();
    if (!amount || *amount >= width)
      return std::nullopt;
    if (op == "arith.shli") {
      bits.resize(width - *amount, Bit::constant(false));
      bits.insert(bits.begin(), *amount, Bit::constant(false));
      return bits;
    }
    bool isSigned = op == "arith.shrsi" || op == "arith.floordivsi";
    Bit fill = isSigned ? bits.back() : Bit::constant(false);
    bits.erase(bits.begin(), bits.begin() + *amount);
    bits.resize(width, fill);
    return bits;
  }

  Expr word;
  CoordinateValue coordinate;
  llvm::DenseMap<Expr, std::optional<Bits>> memo;
};

} // namespace

std::optional<BitsOfWord> readBits(Expr expr, Expr word,
                                   CoordinateValue coordinate) {
  std::optional<Bits> bits = Evaluator(word, coordinate).evaluate(expr);
  if (!bits)
    return std::nullopt;
  unsigned wordWidth = getIntegerWidth(word->type);
  for (unsigned offset = 0; offset < wordWidth; ++offset) {
    if (!((*bits)[0] == Bit::ofWord(offset)))
      continue;
    unsigned width = 1;
    while (width < bits->size() &&
           (*bits)[width] == Bit::ofWord(offset + width))
      ++width;
    bool topInverted = width < bits->size() &&
                       (*bits)[width] == Bit::ofWord(offset + width).inverted();
    if (topInverted)
      ++width;
    auto rest = llvm::ArrayRef(*bits).drop_front(width);
    auto extension = BitsOfWord::Extension::None;
    if (!rest.empty() &&
        llvm::all_of(rest, [](Bit bit) { return bit.isZero(); }))
      extension = BitsOfWord::Extension::Zero;
    else if (!rest.empty() && llvm::all_of(rest, [&](Bit bit) {
               return bit == (*bits)[width - 1];
             }))
      extension = BitsOfWord::Extension::Sign;
    else if (!rest.empty())
      return std::nullopt;
    return BitsOfWord{offset, width, extension, topInverted};
  }
  return std::nullopt;
}

std::optional<APInt> readConstant(Expr expr, CoordinateValue coordinate) {
  std::optional<Bits> bits = Evaluator(nullptr, coordinate).evaluate(expr);
  return bits ? asConstant(*bits) : std::nullopt;
}

} // namespace mlir::qtranspose
