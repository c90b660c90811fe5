//===- LowerQuantCasts.cpp - quant dialect to arith and linalg ------------===//
//
// Replaces `quant.dcast`, `quant.qcast` and `quant.scast` by `linalg.generic`
// (or scalar arith) on the storage integers and every `!quant.uniform` type by
// its storage integer.
//
// The upstream `lower-quant-ops` is not used because it mis-prints unsigned
// zero points above 127, truncates in qcast and aborts on sub-channel types
// with negative zero points.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Quant/IR/Quant.h"
#include "mlir/Dialect/Quant/IR/QuantTypes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Builders.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_LOWERQUANTCASTS
#include "qtranspose/Passes.h.inc"

namespace {
using namespace quant;

/// The signless integer that holds a value of the quantized type.
IntegerType storageType(QuantizedType type) {
  return IntegerType::get(type.getContext(),
                          type.getStorageTypeIntegralWidth());
}

/// How one quantized tensor is laid out for its cast. Every tensor dim is one
/// loop, or two (block, position in block) where blocks divide it, so that all
/// maps are projected permutations.
struct QuantLayout {
  /// One value per block; a single value when it is the same everywhere.
  SmallVector<double> scales;
  SmallVector<int64_t> zeroPoints;
  /// Shape of `scales` without its unit dims, and the loops it is indexed by.
  SmallVector<int64_t> paramShape;
  SmallVector<unsigned> paramLoops;
  /// The shape of the tensor with blocked dims split; dynamic dims stay.
  SmallVector<int64_t> loopShape;
  SmallVector<ReassociationIndices> reassociation;

  bool splits() const { return loopShape.size() != reassociation.size(); }
};

/// The block layout of `type` on a tensor of `shape` (empty for a scalar).
FailureOr<QuantLayout> getLayout(Operation *op, QuantizedType type,
                                 ArrayRef<int64_t> shape) {
  QuantLayout layout;
  SmallVector<int64_t> blocks(shape.size(), 0), counts(shape.size(), 1);
  if (auto perLayer = dyn_cast<UniformQuantizedType>(type)) {
    layout.scales = {perLayer.getScale()};
    layout.zeroPoints = {perLayer.getZeroPoint()};
  } else if (auto perAxis = dyn_cast<UniformQuantizedPerAxisType>(type)) {
    layout.scales = llvm::to_vector(perAxis.getScales());
    layout.zeroPoints = llvm::to_vector(perAxis.getZeroPoints());
    blocks[perAxis.getQuantizedDimension()] = 1;
    counts[perAxis.getQuantizedDimension()] = layout.scales.size();
  } else if (auto sub = dyn_cast<UniformQuantizedSubChannelType>(type)) {
    for (const APFloat &scale : sub.getScales().getValues<APFloat>()) {
      APFloat value = scale;
      bool losesInfo;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                    &losesInfo);
      layout.scales.push_back(value.convertToDouble());
    }
    for (const APInt &zeroPoint : sub.getZeroPoints().getValues<APInt>())
      layout.zeroPoints.push_back(type.isSigned() ? zeroPoint.getSExtValue()
                                                  : zeroPoint.getZExtValue());
    for (auto [axis, block] : sub.getBlockSizeInfo())
      blocks[axis] = block;
    counts = llvm::to_vector(sub.getScales().getType().getShape());
    if (counts.size() != shape.size())
      return op->emitError("sub-channel scales of rank ")
             << counts.size() << " on a tensor of rank " << shape.size();
  } else {
    return op->emitError("unsupported quantized type ") << type;
  }

  for (auto [dim, size] : llvm::enumerate(shape)) {
    ReassociationIndices group{static_cast<int64_t>(layout.loopShape.size())};
    if (counts[dim] != 1) {
      layout.paramShape.push_back(counts[dim]);
      layout.paramLoops.push_back(layout.loopShape.size());
    }
    if (counts[dim] == 1 || blocks[dim] == 1) {
      layout.loopShape.push_back(size);
    } else {
      layout.loopShape.append({counts[dim], blocks[dim]});
      group.push_back(group.front() + 1);
    }
    layout.reassociation.push_back(group);
  }
  return layout;
}

/// Builds the arithmetic of one cast; scales and zero points are handed in.
struct CastArithmetic {
  QuantizedType type;
  FloatType expressed;
  /// Wide enough for `stored - zero point`, and a float that is exact there.
  IntegerType wide;
  FloatType compute;

  explicit CastArithmetic(QuantizedType type)
      : type(type), expressed(cast<FloatType>(type.getExpressedType())) {
    MLIRContext *ctx = type.getContext();
    bool narrow = type.getStorageTypeIntegralWidth() <= 16;
    wide = IntegerType::get(ctx, narrow ? 32 : 64);
    compute = narrow && expressed.getWidth() <= 32
                  ? FloatType(Float32Type::get(ctx))
                  : FloatType(Float64Type::get(ctx));
  }

  /// The scale as the expressed type holds it, in the compute type.
  APFloat scaleValue(double scale) const {
    APFloat value(scale);
    bool losesInfo;
    value.convert(expressed.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    value.convert(compute.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    return value;
  }

  Value toWide(OpBuilder &b, Location loc, Value stored) const {
    if (type.isSigned())
      return arith::ExtSIOp::create(b, loc, wide, stored);
    return arith::ExtUIOp::create(b, loc, wide, stored);
  }

  /// (stored - zero point) * scale; the subtraction is exact. `zeroPoint` may
  /// be null.
  Value dequantize(OpBuilder &b, Location loc, Value stored, Value scale,
                   Value zeroPoint) const {
    Value number;
    if (zeroPoint) {
      Value centered =
          arith::SubIOp::create(b, loc, toWide(b, loc, stored), zeroPoint);
      number = arith::SIToFPOp::create(b, loc, compute, centered);
    } else if (type.isSigned()) {
      number = arith::SIToFPOp::create(b, loc, compute, stored);
    } else {
      number = arith::UIToFPOp::create(b, loc, compute, stored);
    }
    Value real = arith::MulFOp::create(b, loc, number, scale);
    return convertFloat(b, loc, real, expressed);
  }

  /// clamp(roundeven(real / scale) + zero point). The clamp comes before the
  /// conversion to integer, which is undefined outside the integer's range;
  /// NaN becomes the storage minimum.
  Value quantize(OpBuilder &b, Location loc, Value real, Value scale,
                 Value zeroPoint) const {
    Value number = convertFloat(b, loc, real, compute);
    number = arith::DivFOp::create(b, loc, number, scale);
    number = math::RoundEvenOp::create(b, loc, number);
    auto bound = [&](int64_t limit) -> Value {
      Value value = arith::ConstantOp::create(
          b, loc, b.getFloatAttr(compute, static_cast<double>(limit)));
      if (!zeroPoint)
        return value;
      Value offset = arith::SIToFPOp::create(b, loc, compute, zeroPoint);
      return arith::SubFOp::create(b, loc, value, offset);
    };
    number = arith::MaxNumFOp::create(b, loc, number,
                                      bound(type.getStorageTypeMin()));
    number = arith::MinNumFOp::create(b, loc, number,
                                      bound(type.getStorageTypeMax()));
    Value integer = arith::FPToSIOp::create(b, loc, wide, number);
    if (zeroPoint)
      integer = arith::AddIOp::create(b, loc, integer, zeroPoint);
    return arith::TruncIOp::create(b, loc, storageType(type), integer);
  }

private:
  static Value convertFloat(OpBuilder &b, Location loc, Value value,
                            FloatType to) {
    auto from = cast<FloatType>(value.getType());
    if (from == to)
      return value;
    if (from.getWidth() < to.getWidth())
      return arith::ExtFOp::create(b, loc, to, value);
    return arith::TruncFOp::create(b, loc, to, value);
  }
};

/// Lowers one dcast or qcast whose quantized side is `type`. `input` is the
/// stored integer (dcast) or the real number (qcast).
Value lowerCast(OpBuilder &b, Location loc, QuantizedType type,
                const QuantLayout &layout, Value input, Type resultType) {
  CastArithmetic arithmetic(type);
  Type resultElement = getElementTypeOrSelf(resultType);
  bool dequantize = isa<FloatType>(resultElement);
  auto compute = [&](OpBuilder &b, Value value, Value scale, Value zeroPoint) {
    return dequantize ? arithmetic.dequantize(b, loc, value, scale, zeroPoint)
                      : arithmetic.quantize(b, loc, value, scale, zeroPoint);
  };

  // Parameters that do not vary are scalar constants, others operands.
  bool varyingScale = !llvm::all_equal(layout.scales);
  bool varyingZeroPoint = !llvm::all_equal(layout.zeroPoints);
  Value scale, zeroPoint;
  if (varyingScale) {
    SmallVector<APFloat> values = llvm::map_to_vector(
        layout.scales, [&](double s) { return arithmetic.scaleValue(s); });
    auto tensor = RankedTensorType::get(layout.paramShape, arithmetic.compute);
    scale = arith::ConstantOp::create(b, loc,
                                      DenseElementsAttr::get(tensor, values));
  } else {
    scale = arith::ConstantOp::create(
        b, loc,
        b.getFloatAttr(arithmetic.compute,
                       arithmetic.scaleValue(layout.scales.front())));
  }
  if (varyingZeroPoint) {
    SmallVector<APInt> values =
        llvm::map_to_vector(layout.zeroPoints, [&](int64_t z) {
          return APInt(arithmetic.wide.getWidth(), z, /*isSigned=*/true);
        });
    auto tensor = RankedTensorType::get(layout.paramShape, arithmetic.wide);
    zeroPoint = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(tensor, values));
  } else if (layout.zeroPoints.front() != 0) {
    zeroPoint = arith::ConstantOp::create(
        b, loc, b.getIntegerAttr(arithmetic.wide, layout.zeroPoints.front()));
  }

  auto inputType = dyn_cast<RankedTensorType>(input.getType());
  if (!inputType)
    return compute(b, input, scale, zeroPoint);

  // Split blocked dims. Their size is known from the quantized type even where
  // the tensor type leaves it dynamic.
  Value source = input;
  RankedTensorType unsplitType = inputType;
  if (layout.splits()) {
    SmallVector<int64_t> known = llvm::to_vector(inputType.getShape());
    for (auto [dim, group] : llvm::enumerate(layout.reassociation))
      if (group.size() == 2)
        known[dim] = layout.loopShape[group[0]] * layout.loopShape[group[1]];
    unsplitType = RankedTensorType::get(known, inputType.getElementType());
    if (unsplitType != inputType)
      source = tensor::CastOp::create(b, loc, unsplitType, source);
    source = tensor::ExpandShapeOp::create(
        b, loc,
        RankedTensorType::get(layout.loopShape, inputType.getElementType()),
        source, layout.reassociation);
  }

  unsigned loops = layout.loopShape.size();
  AffineMap identity = b.getMultiDimIdentityMap(loops);
  AffineMap paramMap = AffineMap::get(
      loops, 0,
      llvm::map_to_vector(layout.paramLoops,
                          [&](unsigned d) { return b.getAffineDimExpr(d); }),
      b.getContext());
  SmallVector<Value> inputs{source};
  SmallVector<AffineMap> maps{identity};
  if (varyingScale) {
    inputs.push_back(scale);
    maps.push_back(paramMap);
  }
  if (varyingZeroPoint) {
    inputs.push_back(zeroPoint);
    maps.push_back(paramMap);
  }
  maps.push_back(identity);
  Value init = tensor::EmptyOp::create(
      b, loc, tensor::getMixedSizes(b, loc, source), resultElement);
  auto generic = linalg::GenericOp::create(
      b, loc, init.getType(), inputs, init, maps,
      SmallVector<utils::IteratorType>(loops, utils::IteratorType::parallel),
      [&](OpBuilder &b, Location loc, ValueRange args) {
        unsigned next = 1;
        Value s = varyingScale ? args[next++] : scale;
        Value z = varyingZeroPoint ? args[next++] : zeroPoint;
        linalg::YieldOp::create(b, loc, compute(b, args[0], s, z));
      });
  Value result = generic.getResult(0);
  if (layout.splits())
    result = tensor::CollapseShapeOp::create(
        b, loc, RankedTensorType::get(unsplitType.getShape(), resultElement),
        result, layout.reassociation);
  if (result.getType() != resultType)
    result = tensor::CastOp::create(b, loc, resultType, result);
  return result;
}

/// True if the position of an element says which scale it has.
bool hasAxis(Type type) {
  return isa<UniformQuantizedPerAxisType, UniformQuantizedSubChannelType>(
      getElementTypeOrSelf(type));
}

/// Ops that leave every element of a tensor where it is. Any other op could
/// separate an element from its scale, which the type does not show.
bool keepsElementsInPlace(Operation *op) {
  return isa<QuantDialect, func::FuncDialect, scf::SCFDialect,
             cf::ControlFlowDialect, ml_program::MLProgramDialect>(
             op->getDialect()) ||
         isa<tensor::CastOp, tensor::EmptyOp, tensor::DimOp, arith::SelectOp>(
             op);
}

struct LowerQuantCasts : impl::LowerQuantCastsBase<LowerQuantCasts> {
  void runOnOperation() override {
    struct Cast {
      Operation *op;
      QuantizedType type;
      QuantLayout layout;
    };
    SmallVector<Cast, 0> casts;
    SmallVector<StorageCastOp> storageCasts;
    AttrTypeWalker hasCalibrated;
    hasCalibrated.addWalk(
        [](CalibratedQuantizedType) { return WalkResult::interrupt(); });
    WalkResult walk = getOperation()->walk([&](Operation *op) -> WalkResult {
      auto types =
          llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes());
      auto calibrated = [&](auto typeOrAttr) {
        return hasCalibrated.walk(typeOrAttr).wasInterrupted();
      };
      if (llvm::any_of(types, calibrated) ||
          calibrated(Attribute(op->getAttrDictionary())))
        return op->emitError(
            "quant.calibrated types have no storage and cannot be lowered");
      if (auto scast = dyn_cast<StorageCastOp>(op)) {
        storageCasts.push_back(scast);
        return WalkResult::advance();
      }
      if (isa_and_present<QuantDialect>(op->getDialect())) {
        bool dequantize = isa<DequantizeCastOp>(op);
        Type side = dequantize ? op->getOperand(0).getType()
                               : op->getResult(0).getType();
        if (isa<UnrankedTensorType>(side))
          return op->emitError("unranked tensors are not supported");
        auto type = cast<QuantizedType>(getElementTypeOrSelf(side));
        auto tensor = dyn_cast<RankedTensorType>(side);
        auto layout = getLayout(
            op, type, tensor ? tensor.getShape() : ArrayRef<int64_t>());
        if (failed(layout))
          return failure();
        casts.push_back({op, type, std::move(*layout)});
        return WalkResult::advance();
      }
      if (llvm::any_of(types, hasAxis) && !keepsElementsInPlace(op))
        return op->emitError("'")
               << op->getName()
               << "' on a tensor whose quantized type has an axis; cast it to "
                  "its storage type (quant.scast) first";
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return signalPassFailure();

    for (Cast &cast : casts) {
      OpBuilder b(cast.op);
      bool dequantize = isa<DequantizeCastOp>(cast.op);
      Value input = cast.op->getOperand(0);
      Type result = cast.op->getResult(0).getType();
      Type lowered =
          dequantize ? result : withElement(result, storageType(cast.type));
      // Casts to and from the quantized type keep the IR valid until all types
      // are replaced below.
      if (dequantize)
        input = StorageCastOp::create(
            b, cast.op->getLoc(),
            withElement(input.getType(), storageType(cast.type)), input);
      Value value = lowerCast(b, cast.op->getLoc(), cast.type, cast.layout,
                              input, lowered);
      if (dequantize) {
        storageCasts.push_back(input.getDefiningOp<StorageCastOp>());
      } else {
        value = StorageCastOp::create(b, cast.op->getLoc(), result, value);
        storageCasts.push_back(value.getDefiningOp<StorageCastOp>());
      }
      cast.op->replaceAllUsesWith(ValueRange(value));
      cast.op->erase();
    }

    AttrTypeReplacer replacer;
    replacer.addReplacement(
        [](QuantizedType type) -> Type { return storageType(type); });
    replacer.recursivelyReplaceElementsIn(getOperation(),
                                          /*replaceAttrs=*/true,
                                          /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
    for (StorageCastOp cast : storageCasts) {
      cast.getResult().replaceAllUsesWith(cast.getInput());
      cast.erase();
    }
  }

private:
  static Type withElement(Type type, Type element) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      return tensor.clone(element);
    return element;
  }
};
} // namespace
} // namespace mlir::qtranspose
