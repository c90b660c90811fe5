//===- WidenPackedFields.cpp - fields of bytes as fields of words ---------===//
//
// A term `x * float((w >> s) & m)` of small unsigned fields becomes
//
//   (x * 2^-s) * float(word & (m << s))
//
// on words of 32 bits, each of which holds the bytes of several terms of one
// lane: no extension, and no shift, as both factors are exact. What is left per
// weight is a mask, a conversion and a multiply-add.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Analysis/Elementwise.h"
#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/ContractionFusion.h"
#include "qtranspose/Utils/DerivedConstants.h"
#include "qtranspose/Utils/EmitExpr.h"
#include "qtranspose/Utils/Remarks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_WIDENPACKEDFIELDS
#include "qtranspose/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral passName = "qtranspose-widen-packed-fields";
constexpr unsigned wordBits = 32;

/// `float((w >> shift) & mask)` of an element of a constant.
struct Field {
  BlockArgument element;
  BlockArgument shift; ///< null if it is `constantShift`
  unsigned constantShift = 0;
  unsigned bits = 0; ///< of the mask
};

/// A contraction whose terms are an activation times a field.
class FieldProduct {
public:
  explicit FieldProduct(linalg::LinalgOp op) : op(op) {}

  /// False if the op is something else; nothing is changed.
  bool match();
  /// What keeps fields of the op from being widened.
  std::optional<Refusal> plan();
  void apply(RewriterBase &rewriter);

private:
  bool matchField(Value value);
  OpOperand &getOperand(BlockArgument argument) {
    return op->getOpOperand(argument.getArgNumber());
  }
  AffineMap getMap(BlockArgument argument) {
    return op.getMatchingIndexingMap(&getOperand(argument));
  }
  /// Of `value`, with `dim` as two.
  Value splitDim(RewriterBase &rewriter, Value value, AffineMap map);
  AffineMap getSplitMap(AffineMap map);
  Value makeWords(RewriterBase &rewriter);
  Value scaleActivation(RewriterBase &rewriter, Value tensor, AffineMap map);

  linalg::LinalgOp op;
  Field field;
  BlockArgument activation;
  llvm::SmallVector<int64_t> extents;
  ConstantData data;
  unsigned storageBits = 0;
  unsigned dim = 0;    ///< whose neighbours share a word
  int64_t perWord = 1; ///< of them
  std::optional<unsigned> shiftDim;
  llvm::SmallVector<int64_t> shifts; ///< along shiftDim, or one
  /// Per byte of a word, then per shift: what the word is shifted by before the
  /// mask, the mask, and the exponent of the field's value then.
  llvm::SmallVector<int32_t> before, masks;
  llvm::SmallVector<float> scales;
};

bool isConstantInt(Value value, llvm::APInt &constant) {
  return matchPattern(value, m_ConstantInt(&constant));
}

bool FieldProduct::matchField(Value value) {
  Operation *conversion = value.getDefiningOp();
  if (!isa_and_nonnull<arith::UIToFPOp, arith::SIToFPOp>(conversion) ||
      !value.getType().isF32())
    return false;
  value = conversion->getOperand(0);
  auto skipExtensions = [&] {
    while (Operation *extension = value.getDefiningOp()) {
      if (!isa<arith::ExtUIOp, arith::ExtSIOp>(extension))
        break;
      value = extension->getOperand(0);
    }
  };
  skipExtensions();
  auto mask = value.getDefiningOp<arith::AndIOp>();
  llvm::APInt bits;
  if (!mask || !isConstantInt(mask.getRhs(), bits) || !bits.isMask() ||
      bits.getBitWidth() > wordBits)
    return false;
  field.bits = bits.countTrailingOnes();
  // Extended from a sign bit, it would be another number.
  if (field.bits >= bits.getBitWidth())
    return false;
  value = mask.getLhs();
  Operation *shift = value.getDefiningOp();
  if (isa_and_nonnull<arith::ShRUIOp, arith::ShRSIOp>(shift)) {
    llvm::APInt constant;
    if (auto argument = dyn_cast<BlockArgument>(shift->getOperand(1)))
      field.shift = argument;
    else if (isConstantInt(shift->getOperand(1), constant))
      field.constantShift = constant.getLimitedValue(wordBits);
    else
      return false;
    value = shift->getOperand(0);
  }
  field.element = dyn_cast<BlockArgument>(value);
  return static_cast<bool>(field.element);
}

bool FieldProduct::match() {
  if (op->getNumResults() != 1 || !op.hasPureTensorSemantics() ||
      op.getBlock()->getNumArguments() != op->getNumOperands())
    return false;
  Block *body = op.getBlock();
  auto sum =
      body->getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  if (!sum)
    return false;
  Value total = body->getArguments().back();
  Value term = sum.getLhs() == total ? sum.getRhs() : sum.getLhs();
  if (sum.getLhs() != total && sum.getRhs() != total)
    return false;
  auto product = term.getDefiningOp<arith::MulFOp>();
  if (!product)
    return false;
  for (auto [a, b] : {std::pair(product.getLhs(), product.getRhs()),
                      std::pair(product.getRhs(), product.getLhs())}) {
    field = Field();
    if (!matchField(b))
      continue;
    Value value = a;
    if (auto extension = value.getDefiningOp<arith::ExtFOp>())
      value = extension.getIn();
    activation = dyn_cast<BlockArgument>(value);
    return activation && activation.getOwner() == body && activation != total;
  }
  return false;
}

std::optional<Refusal> FieldProduct::plan() {
  auto no = [](const llvm::Twine &why) {
    return refuse(Reason::NotWidened, why);
  };
  Value weight = getOperand(field.element).get();
  std::optional<ConstantData> constant = getConstantData(weight);
  if (!constant)
    return no("the weight is not a constant");
  data = *constant;
  auto type = cast<RankedTensorType>(weight.getType());
  storageBits = type.getElementTypeBitWidth();
  if (storageBits != 8 && storageBits != 16 && storageBits != 32)
    return no("the weight's elements are not 8, 16 or 32 bits");
  perWord = wordBits / storageBits;
  extents = op.getStaticLoopRanges();
  for (OpOperand &operand : op->getOpOperands()) {
    auto tensor = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!tensor || tensor.getEncoding() ||
        !op.getMatchingIndexingMap(&operand).isProjectedPermutation())
      return no("an operand is not indexed by single dims");
  }
  AffineMap map = getMap(field.element);
  if (map.getNumResults() < 2)
    return no("the weight has one dim");
  dim = map.getDimPosition(map.getNumResults() - 2);
  if (op.getIteratorTypesArray()[dim] != utils::IteratorType::reduction ||
      extents[dim] % perWord != 0 || !getMap(activation).isFunctionOfDim(dim))
    return no("the summed dim beside the lanes does not fill words");

  shifts = {field.constantShift};
  if (field.shift) {
    AffineMap shiftMap = getMap(field.shift);
    std::optional<ConstantData> values =
        getConstantData(getOperand(field.shift).get());
    auto dense = values ? dyn_cast<DenseIntElementsAttr>(values->elements)
                        : DenseIntElementsAttr();
    if (shiftMap.getNumResults() != 1 || !dense ||
        dense.getNumElements() > wordBits)
      return no("the shift is not a small constant");
    shiftDim = shiftMap.getDimPosition(0);
    if (shiftDim == dim || map.isFunctionOfDim(*shiftDim) ||
        !getMap(activation).isFunctionOfDim(*shiftDim))
      return no("the shift does not count the fields of an element");
    shifts.clear();
    for (llvm::APInt value : dense.getValues<llvm::APInt>())
      shifts.push_back(value.getLimitedValue(wordBits));
  }
  for (int64_t part = 0; part < perWord; ++part)
    for (int64_t shift : shifts) {
      if (shift + field.bits > storageBits)
        return no("a field ends outside of its element");
      int64_t first = part * storageBits + shift;
      // The sign bit is not part of a mask.
      bool isShifted = first + field.bits >= wordBits;
      before.push_back(isShifted ? first : 0);
      masks.push_back(llvm::maskTrailingOnes<uint32_t>(field.bits)
                      << (isShifted ? 0 : first));
      scales.push_back(isShifted ? 1.0f : std::ldexp(1.0f, -first));
    }
  return std::nullopt;
}

/// Dims are numbered as before; the part of a word is the last.
AffineMap FieldProduct::getSplitMap(AffineMap map) {
  unsigned numDims = map.getNumDims() + 1;
  llvm::SmallVector<AffineExpr> results;
  for (AffineExpr result : map.getResults()) {
    results.push_back(result);
    if (cast<AffineDimExpr>(result).getPosition() == dim)
      results.push_back(getAffineDimExpr(numDims - 1, map.getContext()));
  }
  return AffineMap::get(numDims, 0, results, map.getContext());
}

Value FieldProduct::splitDim(RewriterBase &rewriter, Value value,
                             AffineMap map) {
  if (!map.isFunctionOfDim(dim))
    return value;
  unsigned position =
      *map.getResultPosition(getAffineDimExpr(dim, map.getContext()));
  auto type = cast<RankedTensorType>(value.getType());
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape[position] /= perWord;
  shape.insert(shape.begin() + position + 1, perWord);
  llvm::SmallVector<ReassociationIndices> groups;
  for (int64_t old = 0; old < type.getRank(); ++old) {
    int64_t part = old + (old > position);
    groups.push_back(old == position ? ReassociationIndices{part, part + 1}
                                     : ReassociationIndices{part});
  }
  return tensor::ExpandShapeOp::create(
      rewriter, op.getLoc(),
      RankedTensorType::get(shape, type.getElementType()), value, groups);
}

/// The weight `[..., dim, lane]` as `[..., dim / perWord, lane]` words.
Value FieldProduct::makeWords(RewriterBase &rewriter) {
  auto type = cast<RankedTensorType>(data.elements.getType());
  int64_t rank = type.getRank(), lanes = type.getShape().back();
  StridedGather gather;
  llvm::SmallVector<int64_t> shape(type.getShape());
  int64_t stride = 1;
  for (int64_t position = rank; position-- > 0;) {
    gather.extents.insert(gather.extents.begin(), shape[position]);
    gather.strides.insert(gather.strides.begin(), stride);
    stride *= shape[position];
  }
  gather.extents[rank - 2] /= perWord;
  gather.strides[rank - 2] = lanes * perWord;
  gather.extents.push_back(perWord);
  gather.strides.push_back(lanes);
  auto parts = RankedTensorType::get(gather.extents, type.getElementType());
  ElementsAttr moved = gatherElements(data.elements, parts, gather);
  shape[rank - 2] /= perWord;
  auto words = RankedTensorType::get(shape, rewriter.getI32Type());
  ElementsAttr value;
  if (auto dense = dyn_cast<DenseElementsAttr>(moved)) {
    std::vector<char> bytes(dense.getRawData());
    if (dense.isSplat()) {
      llvm::ArrayRef<char> element = dense.getRawData();
      for (int64_t part = 1; part < perWord; ++part)
        bytes.insert(bytes.end(), element.begin(), element.end());
    }
    value = DenseElementsAttr::getFromRawBuffer(words, bytes);
  } else {
    value = DenseResourceElementsAttr::get(
        words, cast<DenseResourceElementsAttr>(moved).getRawHandle());
  }
  // Where the parts of a word come from: the coordinates of the word, then the
  // number of the part.
  llvm::SmallVector<AffineExpr> coordinates;
  for (int64_t position = 0; position < rank; ++position)
    coordinates.push_back(rewriter.getAffineDimExpr(position));
  coordinates[rank - 2] =
      coordinates[rank - 2] * perWord + rewriter.getAffineDimExpr(rank);
  AffineMap map =
      AffineMap::get(rank + 1, 0, coordinates, rewriter.getContext());
  NamedAttrList provenance;
  Type sourceType = type;
  if (data.derived) {
    auto earlier = data.derived.getAs<AffineMapAttr>("map");
    auto earlierType = data.derived.getAs<TypeAttr>("source_type");
    if (earlier && earlierType &&
        earlier.getValue().getNumDims() == map.getNumResults()) {
      map = earlier.getValue().compose(map);
      sourceType = earlierType.getValue();
    }
    provenance.append(data.derived.getValue());
  }
  provenance.set("map", AffineMapAttr::get(map));
  provenance.set("source_type", TypeAttr::get(sourceType));
  provenance.set("parts", rewriter.getI64IntegerAttr(perWord));
  auto constant = arith::ConstantOp::create(
      rewriter, getOperand(field.element).get().getLoc(),
      cast<TypedAttr>(Attribute(value)));
  constant->setAttr(derivedAttrName,
                    provenance.getDictionary(op->getContext()));
  return constant;
}

/// `tensor`, indexed by `map`, times the scale of each field, in f32.
Value FieldProduct::scaleActivation(RewriterBase &rewriter, Value tensor,
                                    AffineMap map) {
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(tensor.getType());
  unsigned part = map.getNumDims() - 1;
  llvm::SmallVector<int64_t> shape{perWord};
  llvm::SmallVector<unsigned> scaleDims{part};
  if (shiftDim) {
    shape.push_back(shifts.size());
    scaleDims.push_back(*shiftDim);
  }
  Value scale = arith::ConstantOp::create(
      rewriter, loc,
      DenseElementsAttr::get(
          RankedTensorType::get(shape, rewriter.getF32Type()),
          llvm::ArrayRef(scales)));
  // Over the dims of the tensor alone.
  unsigned rank = map.getNumResults();
  llvm::SmallVector<AffineExpr> results;
  for (unsigned scaled : scaleDims)
    results.push_back(rewriter.getAffineDimExpr(
        *map.getResultPosition(getAffineDimExpr(scaled, op->getContext()))));
  AffineMap all = rewriter.getMultiDimIdentityMap(rank);
  AffineMap scaleMap = AffineMap::get(rank, 0, results, op->getContext());
  Value empty = tensor::EmptyOp::create(
      rewriter, loc, tensor::getMixedSizes(rewriter, loc, tensor),
      rewriter.getF32Type());
  llvm::SmallVector<utils::IteratorType> iterators(
      rank, utils::IteratorType::parallel);
  return linalg::GenericOp::create(
             rewriter, loc, empty.getType(), ValueRange{tensor, scale}, empty,
             llvm::ArrayRef<AffineMap>{all, scaleMap, all}, iterators,
             [&](OpBuilder &b, Location loc, ValueRange arguments) {
               Value value = arguments[0];
               if (!type.getElementType().isF32())
                 value = arith::ExtFOp::create(b, loc, b.getF32Type(), value);
               value = arith::MulFOp::create(b, loc, value, arguments[1]);
               linalg::YieldOp::create(b, loc, value);
             })
      .getResult(0);
}

void FieldProduct::apply(RewriterBase &rewriter) {
  Location loc = op.getLoc();
  rewriter.setInsertionPoint(op);
  AffineMap activationMap = getSplitMap(getMap(activation));
  Value scaled = scaleActivation(
      rewriter,
      splitDim(rewriter, getOperand(activation).get(), getMap(activation)),
      activationMap);
  Value words = makeWords(rewriter);

  unsigned numDims = op.getNumLoops();
  llvm::SmallVector<AffineExpr> byPart{rewriter.getAffineDimExpr(numDims)};
  llvm::SmallVector<int64_t> shape{perWord};
  if (shiftDim) {
    byPart.push_back(rewriter.getAffineDimExpr(*shiftDim));
    shape.push_back(shifts.size());
  }
  auto tableType = RankedTensorType::get(shape, rewriter.getI32Type());
  auto makeTable = [&](llvm::ArrayRef<int32_t> values) -> Value {
    return arith::ConstantOp::create(rewriter, loc,
                                     DenseElementsAttr::get(tableType, values));
  };
  AffineMap weightMap = getMap(field.element);
  weightMap =
      AffineMap::get(numDims + 1, 0, weightMap.getResults(), op->getContext());
  AffineMap tableMap = AffineMap::get(numDims + 1, 0, byPart, op->getContext());
  OpOperand *init = op.getDpsInitOperand(0);
  AffineMap outputMap = AffineMap::get(
      numDims + 1, 0, op.getMatchingIndexingMap(init).getResults(),
      op->getContext());
  llvm::SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  iterators.push_back(utils::IteratorType::reduction);
  auto made = linalg::GenericOp::create(
      rewriter, loc, op->getResultTypes(),
      ValueRange{scaled, words, makeTable(before), makeTable(masks)},
      init->get(),
      llvm::ArrayRef<AffineMap>{activationMap, weightMap, tableMap, tableMap,
                                outputMap},
      iterators, [&](OpBuilder &b, Location loc, ValueRange arguments) {
        Value value =
            arith::ShRUIOp::create(b, loc, arguments[1], arguments[2]);
        value = arith::AndIOp::create(b, loc, value, arguments[3]);
        value = arith::SIToFPOp::create(b, loc, b.getF32Type(), value);
        value = arith::MulFOp::create(b, loc, arguments[0], value);
        value = arith::AddFOp::create(b, loc, arguments[4], value);
        linalg::YieldOp::create(b, loc, value);
      });
  for (NamedAttribute attribute : getDiscardableAttrs(op))
    made->setDiscardableAttr(attribute.getName(), attribute.getValue());
  llvm::SmallVector<Value> operands(op->getOperands());
  rewriter.replaceOp(op, made);
  eraseIfDead(rewriter, operands);
}

struct WidenPackedFields : impl::WidenPackedFieldsBase<WidenPackedFields> {
  using WidenPackedFieldsBase::WidenPackedFieldsBase;

  void runOnOperation() override {
    llvm::SmallVector<linalg::LinalgOp> ops;
    getOperation()->walk([&](linalg::LinalgOp op) {
      if (isContraction(op))
        ops.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (linalg::LinalgOp op : ops) {
      FieldProduct product(op);
      if (!product.match())
        continue;
      if (std::optional<Refusal> refusal = product.plan()) {
        remarkRefused(op, passName, *refusal);
        continue;
      }
      remarkPassed(op, passName, "widened", "");
      product.apply(rewriter);
    }
  }
};
} // namespace
} // namespace mlir::qtranspose
