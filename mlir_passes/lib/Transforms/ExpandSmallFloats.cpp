//===- ExpandSmallFloats.cpp - small floats in f32 and integer arithmetic -===//
//
// Computes on floats of at most 8 bits and on bfloat16 in f32, and writes the
// conversions, and f64 to f16, as exact integer and f32/f64 arithmetic. LLVM
// has no 8-bit floats, and calls runtime functions that need not exist for the
// others.
//
// All conversions round once, to nearest, ties to even. So do the basic
// operations: f32 has more than twice the digits of the formats in question,
// so rounding its result again gives the correctly rounded one.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"

#include "mlir/IR/Builders.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_EXPANDSMALLFLOATS
#include "qtranspose/Passes.h.inc"

namespace {

bool isSmall(Type type) {
  auto number = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return number && number.getWidth() <= 8;
}
bool isBF16(Type type) { return isa<BFloat16Type>(getElementTypeOrSelf(type)); }

/// Values of a scalar type, or elementwise of a vector type.
struct Emitter {
  OpBuilder &b;
  Location loc;
  /// The vector type that gives the shape, or null.
  VectorType shape;

  Emitter(OpBuilder &b, Location loc, Type type)
      : b(b), loc(loc), shape(dyn_cast<VectorType>(type)) {}

  Type of(Type element) const {
    return shape ? Type(VectorType(shape).clone(element)) : element;
  }
  Value constant(TypedAttr scalar) const {
    if (!shape)
      return arith::ConstantOp::create(b, loc, scalar);
    auto type = cast<ShapedType>(of(scalar.getType()));
    return arith::ConstantOp::create(b, loc,
                                     DenseElementsAttr::get(type, scalar));
  }
  Value integer(unsigned width, uint64_t bits) const {
    return constant(b.getIntegerAttr(b.getIntegerType(width),
                                     APInt(width, bits, false,
                                           /*implicitTrunc=*/true)));
  }
  Value bitcast(Type element, Value value) const {
    return arith::BitcastOp::create(b, loc, of(element), value);
  }
  Value shl(Value value, unsigned by) const {
    return arith::ShLIOp::create(b, loc, value, integer(widthOf(value), by));
  }
  Value shr(Value value, unsigned by) const {
    return arith::ShRUIOp::create(b, loc, value, integer(widthOf(value), by));
  }
  Value mask(Value value, uint64_t bits) const {
    return arith::AndIOp::create(b, loc, value, integer(widthOf(value), bits));
  }
  Value compare(arith::CmpIPredicate predicate, Value value,
                uint64_t bits) const {
    return arith::CmpIOp::create(b, loc, predicate, value,
                                 integer(widthOf(value), bits));
  }
  Value select(Value condition, Value yes, Value no) const {
    return arith::SelectOp::create(b, loc, condition, yes, no);
  }
  static unsigned widthOf(Value value) {
    return getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
  }
};

/// What the integer arithmetic needs to know about a float format.
struct Format {
  const llvm::fltSemantics &semantics;
  unsigned width, mantissa;
  int bias, minExponent;

  explicit Format(FloatType type)
      : semantics(type.getFloatSemantics()), width(type.getWidth()),
        mantissa(APFloat::semanticsPrecision(semantics) - 1),
        bias(1 - APFloat::semanticsMinExponent(semantics)),
        minExponent(APFloat::semanticsMinExponent(semantics)) {}

  bool isSigned() const { return APFloat::semanticsHasSignedRepr(semantics); }
  bool hasInf() const { return APFloat::semanticsHasInf(semantics); }
  bool hasNaN() const { return APFloat::semanticsHasNaN(semantics); }
  uint64_t signBit() const { return isSigned() ? 1ull << (width - 1) : 0; }

  uint64_t largest() const {
    return APFloat::getLargest(semantics).bitcastToAPInt().getZExtValue();
  }
  /// NaN without a sign; formats without one take their largest value.
  uint64_t nan() const {
    return hasNaN() ? APFloat::getNaN(semantics).bitcastToAPInt().getZExtValue()
                    : largest();
  }
  /// What becomes of numbers that are too big.
  uint64_t overflow() const {
    return hasInf() ? APFloat::getInf(semantics).bitcastToAPInt().getZExtValue()
                    : nan();
  }
  /// The FNUZ formats: one NaN, where negative zero would be.
  bool nanIsNegativeZero() const {
    return isSigned() && hasNaN() && nan() == signBit();
  }
  /// Unsigned powers of two without a zero.
  bool isE8M0() const { return !isSigned(); }
};

/// The value of a small float as f32, exactly.
Value smallToF32(const Emitter &e, Value value) {
  OpBuilder &b = e.b;
  Format format(cast<FloatType>(getElementTypeOrSelf(value.getType())));
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  Value bits = e.bitcast(b.getIntegerType(format.width), value);
  bits = arith::ExtUIOp::create(b, e.loc, e.of(i32), bits);
  Value nan = e.integer(32, 0x7FC00000);
  if (format.isE8M0()) {
    Value power = e.shl(bits, 23);
    power = e.select(e.compare(arith::CmpIPredicate::eq, bits, 0),
                     e.integer(32, 0x00400000), power);
    power = e.select(e.compare(arith::CmpIPredicate::eq, bits, format.nan()),
                     nan, power);
    return e.bitcast(f32, power);
  }
  Value magnitude = e.mask(bits, format.signBit() - 1);
  Value sign = e.shl(e.mask(bits, format.signBit()), 32 - format.width);
  // With the fields in the f32's place the value is off by a power of two,
  // for subnormals as well.
  Value scaled = e.bitcast(f32, e.shl(magnitude, 23 - format.mantissa));
  APFloat power =
      scalbn(APFloat(1.0f), 127 - format.bias, APFloat::rmNearestTiesToEven);
  scaled = arith::MulFOp::create(b, e.loc, scaled,
                                 e.constant(b.getFloatAttr(f32, power)));
  Value result = e.bitcast(i32, scaled);
  if (format.hasInf()) {
    uint64_t inf = format.overflow();
    result = e.select(e.compare(arith::CmpIPredicate::eq, magnitude, inf),
                      e.integer(32, 0x7F800000), result);
    result = e.select(e.compare(arith::CmpIPredicate::ugt, magnitude, inf), nan,
                      result);
  } else if (format.nanIsNegativeZero()) {
    result =
        e.select(e.compare(arith::CmpIPredicate::eq, bits, format.signBit()),
                 nan, result);
  } else if (format.hasNaN()) {
    result =
        e.select(e.compare(arith::CmpIPredicate::eq, magnitude, format.nan()),
                 nan, result);
  }
  return e.bitcast(f32, arith::OrIOp::create(b, e.loc, result, sign));
}

/// f32 or f64 rounded to a format of fewer mantissa bits.
Value roundTo(const Emitter &e, Value value, FloatType target) {
  OpBuilder &b = e.b;
  Type sourceElement = getElementTypeOrSelf(value.getType());
  Format from(cast<FloatType>(sourceElement)), to(target);
  Type bitsType = b.getIntegerType(from.width);
  Value bits = e.bitcast(bitsType, value);
  Value magnitude = e.mask(bits, from.signBit() - 1);
  unsigned drop = from.mantissa - to.mantissa;

  // Normal results: move the exponent, add just under half a unit (half, if
  // the kept part is odd), cut off. A carry into the exponent is right.
  uint64_t rebias = static_cast<uint64_t>(from.bias - to.bias) << from.mantissa;
  Value moved =
      arith::SubIOp::create(b, e.loc, magnitude, e.integer(from.width, rebias));
  Value odd = e.mask(e.shr(moved, drop), 1);
  Value rounded = arith::AddIOp::create(
      b, e.loc, moved, e.integer(from.width, (1ull << (drop - 1)) - 1));
  rounded = arith::AddIOp::create(b, e.loc, rounded, odd);
  Value code = e.shr(rounded, drop);

  // Subnormal results: adding a power of two whose last bit weighs as much as
  // the format's last bit lets the hardware round.
  if (from.bias != to.bias) {
    APFloat magic =
        scalbn(APFloat(from.semantics, 1),
               to.minExponent - int(to.mantissa) + int(from.mantissa),
               APFloat::rmNearestTiesToEven);
    Value sum =
        arith::AddFOp::create(b, e.loc, e.bitcast(sourceElement, magnitude),
                              e.constant(b.getFloatAttr(sourceElement, magic)));
    Value small = arith::SubIOp::create(
        b, e.loc, e.bitcast(bitsType, sum),
        e.integer(from.width, magic.bitcastToAPInt().getZExtValue()));
    APFloat minNormal = scalbn(APFloat(from.semantics, 1), to.minExponent,
                               APFloat::rmNearestTiesToEven);
    code = e.select(e.compare(arith::CmpIPredicate::ult, magnitude,
                              minNormal.bitcastToAPInt().getZExtValue()),
                    small, code);
  }

  code = e.select(e.compare(arith::CmpIPredicate::ugt, code, to.largest()),
                  e.integer(from.width, to.overflow()), code);
  uint64_t inf =
      APFloat::getInf(from.semantics).bitcastToAPInt().getZExtValue();
  code = e.select(e.compare(arith::CmpIPredicate::ugt, magnitude, inf),
                  e.integer(from.width, to.nan()), code);
  Value sign = e.mask(e.shr(bits, from.width - to.width), to.signBit());
  Value result = arith::OrIOp::create(b, e.loc, code, sign);
  if (to.nanIsNegativeZero())
    result = e.select(e.compare(arith::CmpIPredicate::eq, code, 0),
                      e.integer(from.width, 0), result);
  result = arith::TruncIOp::create(b, e.loc, e.of(b.getIntegerType(to.width)),
                                   result);
  return e.bitcast(target, result);
}

/// The integer with at most 53 digits, which an f64 holds: where digits are
/// lost, the last one that stays is 1, so that rounding once more to a format
/// of far fewer digits gives what rounding the integer itself does.
Value roundToOdd(const Emitter &e, Value value, bool isSigned) {
  constexpr unsigned digits = 53;
  unsigned width = Emitter::widthOf(value);
  if (width <= digits)
    return value;
  OpBuilder &b = e.b;
  unsigned drop = width - digits;
  Value kept = e.shl(e.shr(value, drop), drop);
  Value lost = arith::XOrIOp::create(b, e.loc, value, kept);
  Value last = e.select(e.compare(arith::CmpIPredicate::ne, lost, 0),
                        e.shl(e.integer(width, 1), drop), e.integer(width, 0));
  Value odd = arith::OrIOp::create(b, e.loc, kept, last);
  uint64_t limit = 1ull << digits;
  Value offset = value;
  if (isSigned)
    offset = arith::AddIOp::create(b, e.loc, value, e.integer(width, limit));
  Value isSmall = e.compare(arith::CmpIPredicate::ule, offset,
                            isSigned ? 2 * limit : limit);
  return e.select(isSmall, value, odd);
}

/// Any float to any other, through f32 where that loses nothing.
Value convert(const Emitter &e, Value value, FloatType target) {
  OpBuilder &b = e.b;
  auto source = cast<FloatType>(getElementTypeOrSelf(value.getType()));
  if (source == target)
    return value;
  if (isSmall(source))
    return convert(e, smallToF32(e, value), target);
  // Not as an op: LLVM would pull it through f32 operations and compute those
  // in bf16, with calls for the rounding.
  if (isBF16(source)) {
    Type i32 = e.of(b.getI32Type());
    Value bits =
        arith::ExtUIOp::create(b, e.loc, i32, e.bitcast(b.getI16Type(), value));
    return convert(e, e.bitcast(b.getF32Type(), e.shl(bits, 16)), target);
  }
  // Half precision goes through f32, which holds it exactly.
  if (source.isF16() && !target.isF32())
    return convert(e,
                   arith::ExtFOp::create(b, e.loc, e.of(b.getF32Type()), value),
                   target);
  if (source.getWidth() < target.getWidth())
    return arith::ExtFOp::create(b, e.loc, e.of(target), value);
  bool native = target.isF32() || (source.isF32() && target.isF16());
  return native ? Value(arith::TruncFOp::create(b, e.loc, e.of(target), value))
                : roundTo(e, value, target);
}

/// True for conversions that `convert` leaves as one op.
bool isNative(FloatType source, FloatType target) {
  if (isSmall(source) || isSmall(target))
    return false;
  return !isBF16(source) && !isBF16(target) &&
         !(source.isF64() && target.isF16());
}

/// True if `op` computes in a format that has no arithmetic of its own. The
/// functions of the math dialect exist for f32 and f64 only.
bool computesInSmallFloat(Operation *op) {
  if (!isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
      isa<arith::ConstantOp, arith::BitcastOp, arith::SelectOp>(op) ||
      isa<CastOpInterface>(op))
    return false;
  bool isMath = isa<math::MathDialect>(op->getDialect());
  auto small = [&](Type type) {
    return isSmall(type) || isBF16(type) ||
           (isMath && isa<Float16Type>(getElementTypeOrSelf(type)));
  };
  return llvm::any_of(op->getOperandTypes(), small) ||
         llvm::any_of(op->getResultTypes(), small);
}

struct ExpandSmallFloats : impl::ExpandSmallFloatsBase<ExpandSmallFloats> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    WalkResult result = getOperation()->walk([&](Operation *op) -> WalkResult {
      if (op->getNumResults() != 1 ||
          isa<TensorType>(op->getResult(0).getType()))
        return WalkResult::advance();
      Type to = op->getResult(0).getType();
      if (isa<arith::ExtFOp, arith::TruncFOp>(op)) {
        auto source =
            cast<FloatType>(getElementTypeOrSelf(op->getOperand(0).getType()));
        auto target = cast<FloatType>(getElementTypeOrSelf(to));
        if (isNative(source, target))
          return WalkResult::advance();
        if (isSmall(target) && Format(target).isE8M0())
          return op->emitError("conversion to ")
                 << target << " is not supported";
        if (auto trunc = dyn_cast<arith::TruncFOp>(op);
            trunc && trunc.getRoundingmode().value_or(
                         arith::RoundingMode::to_nearest_even) !=
                         arith::RoundingMode::to_nearest_even)
          return op->emitError("conversion to ")
                 << target << " only rounds to nearest even";
        ops.push_back(op);
      } else if (isa<arith::SIToFPOp, arith::UIToFPOp>(op)) {
        if (!isSmall(to) && !isBF16(to))
          return WalkResult::advance();
        if (isSmall(to) &&
            Format(cast<FloatType>(getElementTypeOrSelf(to))).isE8M0())
          return op->emitError("conversion to ") << to << " is not supported";
        ops.push_back(op);
      } else if (isa<arith::FPToSIOp, arith::FPToUIOp>(op)) {
        Type from = op->getOperand(0).getType();
        if (isSmall(from) || isBF16(from))
          ops.push_back(op);
      } else if ((isa<arith::ConstantOp>(op) && isSmall(to)) ||
                 computesInSmallFloat(op)) {
        if (!isa<arith::ConstantOp>(op) && isSmall(to) &&
            Format(cast<FloatType>(getElementTypeOrSelf(to))).isE8M0())
          return op->emitError("conversion to ") << to << " is not supported";
        ops.push_back(op);
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    for (Operation *op : ops)
      expand(op);
  }

private:
  static void expand(Operation *op) {
    OpBuilder b(op);
    Type type = op->getResult(0).getType();
    Emitter e(b, op->getLoc(), type);
    Value result;
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto element = cast<FloatType>(getElementTypeOrSelf(type));
      Type bits = e.of(b.getIntegerType(element.getWidth()));
      TypedAttr attr;
      if (auto scalar = dyn_cast<FloatAttr>(constant.getValue()))
        attr = IntegerAttr::get(bits, scalar.getValue().bitcastToAPInt());
      else
        attr = cast<DenseElementsAttr>(constant.getValue())
                   .bitcast(getElementTypeOrSelf(bits));
      result = e.bitcast(element, arith::ConstantOp::create(b, e.loc, attr));
    } else if (isa<arith::SIToFPOp, arith::UIToFPOp>(op)) {
      // Through the smallest float that holds the integer, else f64.
      Value integer = op->getOperand(0);
      bool isSigned = isa<arith::SIToFPOp>(op);
      bool fits = Emitter::widthOf(integer) <= 24;
      Type wide = e.of(fits ? b.getF32Type() : b.getF64Type());
      integer = roundToOdd(e, integer, isSigned);
      Value number =
          isSigned ? Value(arith::SIToFPOp::create(b, e.loc, wide, integer))
                   : Value(arith::UIToFPOp::create(b, e.loc, wide, integer));
      result = convert(e, number, cast<FloatType>(getElementTypeOrSelf(type)));
    } else if (isa<arith::FPToSIOp, arith::FPToUIOp>(op)) {
      op->setOperand(0, convert(e, op->getOperand(0), b.getF32Type()));
      return;
    } else if (computesInSmallFloat(op)) {
      for (OpOperand &operand : op->getOpOperands())
        if (isa<FloatType>(getElementTypeOrSelf(operand.get())))
          operand.set(convert(e, operand.get(), b.getF32Type()));
      auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
      if (!element)
        return;
      b.setInsertionPointAfter(op);
      Value wide = op->getResult(0);
      wide.setType(e.of(b.getF32Type()));
      // Filled in once the conversions back exist, which use `wide` too.
      SmallVector<OpOperand *> uses = llvm::map_to_vector(
          wide.getUses(), [](OpOperand &use) { return &use; });
      Value narrow = convert(e, wide, element);
      for (OpOperand *use : uses)
        use->set(narrow);
      return;
    } else {
      result = convert(e, op->getOperand(0),
                       cast<FloatType>(getElementTypeOrSelf(type)));
    }
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
};
} // namespace
} // namespace mlir::qtranspose
