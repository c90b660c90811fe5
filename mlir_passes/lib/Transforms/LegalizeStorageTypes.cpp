//===- LegalizeStorageTypes.cpp - tensors of whole-byte integers ----------===//
//
// Gives every tensor and buffer an element type that memory can hold
// as is: integers of 8, 16, 32 or 64 bits, index, f16, bf16, f32 and f64. Stock
// lowering stores i1 and i4 wrongly or aborts, and has no buffers of 8-bit
// floats.
//
// The value of an element does not change: the bodies of linalg ops, tensor
// ops that produce scalars and the like convert between the storage integer
// and the original scalar type.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_LEGALIZESTORAGETYPES
#include "qtranspose/Passes.h.inc"

namespace {

/// The element type that holds `element` in a buffer; null if there is none.
Type storageOf(Type element) {
  MLIRContext *ctx = element.getContext();
  if (auto integer = dyn_cast<IntegerType>(element)) {
    if (integer.getWidth() == 0 || integer.getWidth() > 64)
      return {};
    return IntegerType::get(
        ctx, std::max<unsigned>(8, llvm::PowerOf2Ceil(integer.getWidth())));
  }
  if (auto number = dyn_cast<FloatType>(element)) {
    if (number.getWidth() <= 8)
      return IntegerType::get(ctx, 8);
    if (isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(number))
      return number;
    return {};
  }
  if (isa<IndexType>(element))
    return element;
  return {};
}

bool isUnsignedStorage(Type element) {
  auto integer = dyn_cast<IntegerType>(element);
  return !integer || integer.isUnsigned() || integer.getWidth() == 1;
}

/// element -> signless integer of its width, and back.
Value toBits(OpBuilder &b, Location loc, Value value) {
  Type bits = b.getIntegerType(value.getType().getIntOrFloatBitWidth());
  if (isa<FloatType>(value.getType()))
    return arith::BitcastOp::create(b, loc, bits, value);
  if (value.getType() != bits)
    return UnrealizedConversionCastOp::create(b, loc, bits, value).getResult(0);
  return value;
}
Value fromBits(OpBuilder &b, Location loc, Value bits, Type element) {
  if (isa<FloatType>(element))
    return arith::BitcastOp::create(b, loc, element, bits);
  if (element != bits.getType())
    return UnrealizedConversionCastOp::create(b, loc, element, bits)
        .getResult(0);
  return bits;
}

/// storage -> element. Bits beyond the element's width are ignored.
Value fromStorage(OpBuilder &b, Location loc, Value stored, Type element) {
  Type bits = b.getIntegerType(element.getIntOrFloatBitWidth());
  if (stored.getType() != bits)
    stored = arith::TruncIOp::create(b, loc, bits, stored);
  return fromBits(b, loc, stored, element);
}

/// element -> storage: i1 and unsigned are zero-extended, others sign-extended.
Value toStorage(OpBuilder &b, Location loc, Value value) {
  Type element = value.getType();
  Type storage = storageOf(element);
  value = toBits(b, loc, value);
  if (value.getType() == storage)
    return value;
  if (isUnsignedStorage(element))
    return arith::ExtUIOp::create(b, loc, storage, value);
  return arith::ExtSIOp::create(b, loc, storage, value);
}

/// The element type of a tensor or buffer, if it is stored as something else.
Type changedElement(Type type) {
  if (!isa<RankedTensorType, MemRefType>(type))
    return {};
  Type element = cast<ShapedType>(type).getElementType();
  Type storage = storageOf(element);
  return !storage || storage == element ? Type() : element;
}

/// Writes `count` integers of `width` bits, one per `sourceBytes`
/// little-endian bytes, as integers of the storage width.
void widen(ArrayRef<char> source, size_t sourceBytes, unsigned width,
           bool isUnsigned, MutableArrayRef<char> target, size_t targetBytes) {
  auto extend = [&](uint64_t bits) -> uint64_t {
    return isUnsigned ? bits & llvm::maskTrailingOnes<uint64_t>(width)
                      : static_cast<uint64_t>(llvm::SignExtend64(bits, width));
  };
  if (sourceBytes == 1 && targetBytes == 1) {
    for (auto [from, to] : llvm::zip_equal(source, target))
      to = static_cast<char>(extend(static_cast<uint8_t>(from)));
    return;
  }
  for (size_t i = 0, e = source.size() / sourceBytes; i < e; ++i) {
    uint64_t bits = 0;
    for (size_t byte = 0; byte < sourceBytes; ++byte)
      bits |= static_cast<uint64_t>(
                  static_cast<uint8_t>(source[i * sourceBytes + byte]))
              << (8 * byte);
    bits = extend(bits);
    for (size_t byte = 0; byte < targetBytes; ++byte)
      target[i * targetBytes + byte] = static_cast<char>(bits >> (8 * byte));
  }
}

/// Writes integers of `width` <= 8 bits packed from the low bits of each byte
/// up, as bytes.
void unpack(ArrayRef<char> source, unsigned width, bool isUnsigned,
            MutableArrayRef<char> target) {
  uint64_t mask = llvm::maskTrailingOnes<uint64_t>(width);
  size_t bit = 0;
  for (char &to : target) {
    size_t byte = bit / 8;
    uint64_t bits = static_cast<uint8_t>(source[byte]);
    if (byte + 1 < source.size())
      bits |= static_cast<uint64_t>(static_cast<uint8_t>(source[byte + 1]))
              << 8;
    bits = (bits >> (bit % 8)) & mask;
    to = static_cast<char>(isUnsigned ? bits : llvm::SignExtend64(bits, width));
    bit += width;
  }
}

DenseElementsAttr convertDense(DenseElementsAttr attr) {
  Type element = attr.getElementType();
  unsigned width = element.getIntOrFloatBitWidth();
  auto storage = cast<IntegerType>(storageOf(element));
  ShapedType type = attr.getType().clone(storage);
  size_t targetBytes = storage.getWidth() / 8;
  if (attr.isSplat() || width == 1) {
    // Single bits are packed in a way that only the attribute itself knows.
    auto convert = [&](const APInt &bits) {
      return isUnsignedStorage(element) ? bits.zextOrTrunc(storage.getWidth())
                                        : bits.sextOrTrunc(storage.getWidth());
    };
    if (attr.isSplat()) {
      APInt bits = isa<FloatType>(element)
                       ? attr.getSplatValue<APFloat>().bitcastToAPInt()
                       : attr.getSplatValue<APInt>();
      return DenseElementsAttr::get(type, convert(bits));
    }
    std::vector<uint8_t> bytes(attr.getNumElements());
    for (auto [to, from] : llvm::zip_equal(bytes, attr.getValues<bool>()))
      to = from;
    return DenseElementsAttr::get(type, ArrayRef<uint8_t>(bytes));
  }
  std::vector<char> bytes(attr.getNumElements() * targetBytes);
  widen(attr.getRawData(), llvm::divideCeil(width, 8), width,
        isUnsignedStorage(element), bytes, targetBytes);
  return DenseElementsAttr::getFromRawBuffer(type, bytes);
}

/// How the elements lie in a resource blob, which upstream leaves open below
/// one byte: one element per whole bytes, or packed from the low bits up.
enum class BlobLayout { Bytes, Packed };

FailureOr<BlobLayout> blobLayout(Operation *op,
                                 DenseResourceElementsAttr attr) {
  Type element = attr.getElementType();
  unsigned width =
      isa<IndexType>(element) ? 64 : element.getIntOrFloatBitWidth();
  AsmResourceBlob *blob = attr.getRawHandle().getBlob();
  if (!blob)
    return op->emitError("the data of dense_resource '")
           << attr.getRawHandle().getKey() << "' is missing";
  uint64_t count = attr.getNumElements(), size = blob->getData().size();
  if (size == count * llvm::divideCeil(width, 8))
    return BlobLayout::Bytes;
  if (width < 8 && size == llvm::divideCeil(count * width, 8))
    return BlobLayout::Packed;
  return op->emitError("dense_resource '")
         << attr.getRawHandle().getKey() << "' holds " << size
         << " bytes, which is not what " << attr.getType() << " needs";
}

DenseResourceElementsAttr convertResource(DenseResourceElementsAttr attr,
                                          BlobLayout layout) {
  Type element = attr.getElementType();
  unsigned width = element.getIntOrFloatBitWidth();
  auto storage = cast<IntegerType>(storageOf(element));
  ShapedType type = cast<ShapedType>(attr.getType()).clone(storage);
  if (width == storage.getWidth())
    return DenseResourceElementsAttr::get(type, attr.getRawHandle());
  size_t targetBytes = storage.getWidth() / 8;
  ArrayRef<char> source = attr.getRawHandle().getBlob()->getData();
  AsmResourceBlob blob = HeapAsmResourceBlob::allocate(
      attr.getNumElements() * targetBytes, /*align=*/64);
  if (layout == BlobLayout::Packed)
    unpack(source, width, isUnsignedStorage(element), blob.getMutableData());
  else
    widen(source, llvm::divideCeil(width, 8), width, isUnsignedStorage(element),
          blob.getMutableData(), targetBytes);
  return DenseResourceElementsAttr::get(type, attr.getRawHandle().getKey(),
                                        std::move(blob));
}

/// Ops whose operands and results can simply change type: they move whole
/// elements and see no scalar.
bool movesElements(Operation *op) {
  return isa<func::FuncDialect, scf::SCFDialect, cf::ControlFlowDialect,
             ml_program::MLProgramDialect, bufferization::BufferizationDialect>(
             op->getDialect()) ||
         isa<tensor::EmptyOp, tensor::CastOp, tensor::DimOp, tensor::RankOp,
             tensor::ExtractSliceOp, tensor::InsertSliceOp,
             tensor::ParallelInsertSliceOp, tensor::ConcatOp,
             tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ReshapeOp,
             tensor::BitcastOp, arith::ConstantOp, arith::SelectOp,
             UnrealizedConversionCastOp>(op) ||
         isa<memref::AllocOp, memref::AllocaOp, memref::CastOp,
             memref::CollapseShapeOp, memref::CopyOp, memref::DeallocOp,
             memref::DimOp, memref::ExpandShapeOp,
             memref::ExtractAlignedPointerAsIndexOp,
             memref::ExtractStridedMetadataOp, memref::GetGlobalOp,
             memref::GlobalOp, memref::RankOp, memref::ReinterpretCastOp,
             memref::ReshapeOp, memref::SubViewOp, memref::TransposeOp>(op);
}

/// Ops with scalar operands, results or yields of the element type.
bool touchesScalars(Operation *op) {
  return isa<linalg::GenericOp, linalg::YieldOp, tensor::ExtractOp,
             tensor::InsertOp, tensor::FromElementsOp, tensor::SplatOp,
             tensor::GenerateOp, tensor::PadOp, memref::LoadOp,
             memref::StoreOp>(op);
}

struct LegalizeStorageTypes
    : impl::LegalizeStorageTypesBase<LegalizeStorageTypes> {
  void runOnOperation() override {
    DenseMap<Attribute, BlobLayout> blobs;
    if (failed(check(blobs)))
      return signalPassFailure();

    // Named ops have their body only in generic form.
    IRRewriter rewriter(&getContext());
    SmallVector<linalg::LinalgOp> named;
    getOperation()->walk([&](linalg::LinalgOp op) {
      if (!isa<linalg::GenericOp>(op) && touchesChangedTensor(op))
        named.push_back(op);
    });
    for (linalg::LinalgOp op : named) {
      rewriter.setInsertionPoint(op);
      if (failed(linalg::generalizeNamedOp(rewriter, op))) {
        op->emitError("cannot be written as linalg.generic, which its element "
                      "types require");
        return signalPassFailure();
      }
    }

    getOperation()->walk([&](Operation *op) { convertScalars(op); });

    AttrTypeReplacer replacer;
    replacer.addReplacement([](IntegerType type) -> Type {
      return IntegerType::get(type.getContext(), type.getWidth());
    });
    replacer.addReplacement([](RankedTensorType type) -> Type {
      Type storage = storageOf(type.getElementType());
      return storage ? type.clone(storage) : type;
    });
    replacer.addReplacement([](MemRefType type) -> Type {
      Type storage = storageOf(type.getElementType());
      return storage ? type.clone(storage) : type;
    });
    replacer.addReplacement(
        [](DenseElementsAttr attr) -> std::pair<Attribute, WalkResult> {
          Type element = attr.getElementType();
          Type storage = storageOf(element);
          if (!storage || storage == element || isa<VectorType>(attr.getType()))
            return {attr, WalkResult::skip()};
          return {convertDense(attr), WalkResult::skip()};
        });
    replacer.addReplacement([&](DenseResourceElementsAttr attr)
                                -> std::pair<Attribute, WalkResult> {
      Type element = attr.getElementType();
      auto layout = blobs.find(attr);
      if (layout == blobs.end() || storageOf(element) == element)
        return {attr, WalkResult::skip()};
      return {convertResource(attr, layout->second), WalkResult::skip()};
    });
    replacer.recursivelyReplaceElementsIn(getOperation(),
                                          /*replaceAttrs=*/true,
                                          /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);

    getOperation()->walk([](arith::ConstantOp op) { inlineResource(op); });

    // Casts that only changed the signedness or the reading of the bits.
    getOperation()->walk([](Operation *op) {
      if (isa<UnrealizedConversionCastOp, tensor::BitcastOp>(op) &&
          op->getNumOperands() == 1 && op->getNumResults() == 1 &&
          op->getOperandTypes() == op->getResultTypes()) {
        op->replaceAllUsesWith(op->getOperands());
        op->erase();
      }
    });
  }

private:
  /// Upstream folds an element of a constant at a constant index, and aborts
  /// where the constant is a resource: small ones, tables and scalars, become
  /// dense.
  static void inlineResource(arith::ConstantOp op) {
    constexpr int64_t maxElements = 1 << 16;
    auto attr = dyn_cast<DenseResourceElementsAttr>(op.getValue());
    AsmResourceBlob *blob = attr ? attr.getRawHandle().getBlob() : nullptr;
    bool isSplat = false;
    if (!blob || attr.getNumElements() > maxElements ||
        !DenseElementsAttr::isValidRawBuffer(attr.getType(), blob->getData(),
                                             isSplat) ||
        (isSplat && attr.getNumElements() != 1))
      return;
    op.setValueAttr(
        DenseElementsAttr::getFromRawBuffer(attr.getType(), blob->getData()));
  }

  static bool touchesChangedTensor(Operation *op) {
    auto changed = [](Type type) { return bool(changedElement(type)); };
    return llvm::any_of(op->getOperandTypes(), changed) ||
           llvm::any_of(op->getResultTypes(), changed);
  }

  /// Everything that could fail, before anything is changed.
  LogicalResult check(DenseMap<Attribute, BlobLayout> &blobs) {
    WalkResult result = getOperation()->walk([&](Operation *op) -> WalkResult {
      for (NamedAttribute named : op->getAttrs()) {
        auto attr = dyn_cast<DenseResourceElementsAttr>(named.getValue());
        if (!attr || !storageOf(attr.getElementType()))
          continue;
        FailureOr<BlobLayout> layout = blobLayout(op, attr);
        if (failed(layout))
          return failure();
        blobs.try_emplace(attr, *layout);
      }
      if (touchesChangedTensor(op) && !movesElements(op) &&
          !touchesScalars(op) && !isa<linalg::LinalgOp>(op))
        return op->emitError("'") << op->getName()
                                  << "' is not supported on tensors or buffers "
                                     "of sub-byte or odd-width "
                                     "integers or of 8-bit floats";
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  /// A bitcast to elements that are extended in another way, as a generic that
  /// extends them anew.
  static void convertBitcast(OpBuilder &b, tensor::BitcastOp op) {
    Type from = changedElement(op.getSource().getType());
    Type to = changedElement(op.getResult().getType());
    if (!from || !to || isUnsignedStorage(from) == isUnsignedStorage(to) ||
        storageOf(from).getIntOrFloatBitWidth() == from.getIntOrFloatBitWidth())
      return;
    Location loc = op.getLoc();
    auto type = cast<RankedTensorType>(op.getResult().getType());
    SmallVector<Value> sizes;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (type.isDynamicDim(dim))
        sizes.push_back(tensor::DimOp::create(b, loc, op.getSource(), dim));
    Value init = tensor::EmptyOp::create(b, loc, type, sizes);
    SmallVector<AffineMap> maps(2, b.getMultiDimIdentityMap(type.getRank()));
    SmallVector<utils::IteratorType> iterators(type.getRank(),
                                               utils::IteratorType::parallel);
    auto generic = linalg::GenericOp::create(
        b, loc, type, op.getSource(), init, maps, iterators,
        [&](OpBuilder &b, Location loc, ValueRange args) {
          Value value = fromBits(b, loc, toBits(b, loc, args[0]), to);
          linalg::YieldOp::create(b, loc, value);
        });
    convertScalars(generic);
    op->replaceAllUsesWith(generic);
    op->erase();
  }

  /// Inserts conversions between storage and element around the scalars of
  /// `op`, whose tensor types are still the original ones.
  static void convertScalars(Operation *op) {
    OpBuilder b(op);
    Location loc = op->getLoc();
    auto storeOperand = [&](OpOperand &operand) {
      b.setInsertionPoint(operand.getOwner());
      operand.set(toStorage(b, loc, operand.get()));
    };
    auto storeYields = [&](Operation *tensorOp, ValueRange tensors) {
      Operation *yield = tensorOp->getRegion(0).front().getTerminator();
      for (auto [operand, tensor] :
           llvm::zip_equal(yield->getOpOperands(), tensors))
        if (changedElement(tensor.getType()))
          storeOperand(operand);
    };

    if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      Block *body = generic.getBody();
      b.setInsertionPointToStart(body);
      for (auto [argument, operand] :
           llvm::zip_equal(body->getArguments(), generic->getOperands())) {
        Type element = changedElement(operand.getType());
        if (!element)
          continue;
        argument.setType(storageOf(element));
        if (argument.use_empty())
          continue;
        Value value = fromStorage(b, loc, argument, element);
        // The first op that reads the argument is the conversion itself.
        Operation *conversion = value.getDefiningOp();
        while (conversion->getOperand(0) != argument)
          conversion = conversion->getOperand(0).getDefiningOp();
        argument.replaceAllUsesExcept(value, conversion);
      }
      storeYields(op, generic.getOutputs());
    } else if (auto bitcast = dyn_cast<tensor::BitcastOp>(op)) {
      convertBitcast(b, bitcast);
    } else if (isa<tensor::GenerateOp, tensor::PadOp>(op)) {
      storeYields(op, op->getResults());
    } else if (isa<tensor::ExtractOp, memref::LoadOp>(op)) {
      Type element = changedElement(op->getOperand(0).getType());
      if (!element)
        return;
      Value result = op->getResult(0);
      b.setInsertionPointAfter(op);
      result.setType(storageOf(element));
      Value value = fromStorage(b, loc, result, element);
      Operation *conversion = value.getDefiningOp();
      while (conversion->getOperand(0) != result)
        conversion = conversion->getOperand(0).getDefiningOp();
      result.replaceAllUsesExcept(value, conversion);
    } else if (auto insert = dyn_cast<tensor::InsertOp>(op)) {
      if (changedElement(insert.getDest().getType()))
        storeOperand(insert.getScalarMutable());
    } else if (auto store = dyn_cast<memref::StoreOp>(op)) {
      if (changedElement(store.getMemRefType()))
        storeOperand(store.getValueMutable());
    } else if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
      if (changedElement(splat.getResult().getType()))
        storeOperand(splat.getInputMutable());
    } else if (auto elements = dyn_cast<tensor::FromElementsOp>(op)) {
      if (changedElement(elements.getResult().getType()))
        for (OpOperand &operand : op->getOpOperands())
          storeOperand(operand);
    }
  }
};
} // namespace
} // namespace mlir::qtranspose
