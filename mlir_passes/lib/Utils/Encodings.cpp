//===- Encodings.cpp - encodings in the IR --------------------------------===//

#include "qtranspose/Utils/Encodings.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/Sequence.h"

namespace mlir::qtranspose {

DictionaryAttr getEncoding(Operation *op) {
  if (auto encoding = op->getAttrOfType<DictionaryAttr>(encodingAttrName))
    return encoding;
  if (!isa<ml_program::GlobalLoadOp, ml_program::GlobalLoadConstOp>(op))
    return nullptr;
  auto symbol = op->getAttrOfType<SymbolRefAttr>("global");
  Operation *global = SymbolTable::lookupNearestSymbolFrom(op, symbol);
  return global ? global->getAttrOfType<DictionaryAttr>(encodingAttrName)
                : nullptr;
}

/// The dim that `expr` varies along, if it is one.
static std::optional<unsigned> getOnlyDim(AffineExpr expr) {
  std::optional<unsigned> dim;
  bool several = false;
  expr.walk([&](AffineExpr part) {
    auto found = dyn_cast<AffineDimExpr>(part);
    several |= found && dim && *dim != found.getPosition();
    if (found)
      dim = found.getPosition();
  });
  return several ? std::nullopt : dim;
}

/// Elements of a numbers attribute at `channels`.
template <typename Array>
static Attribute selectChannels(Attribute attribute,
                                llvm::ArrayRef<int64_t> channels) {
  auto numbers = dyn_cast_or_null<Array>(attribute);
  if (!numbers || numbers.size() <= 1)
    return attribute;
  auto selected = llvm::map_to_vector(
      channels, [&](int64_t channel) { return numbers[channel]; });
  return Array::get(numbers.getContext(), selected);
}

DictionaryAttr moveEncoding(DictionaryAttr encoding, AffineMap map,
                            llvm::ArrayRef<int64_t> sourceShape,
                            llvm::ArrayRef<int64_t> shape) {
  auto axis = encoding.getAs<IntegerAttr>("axis");
  if (!axis)
    return encoding;
  Builder builder(encoding.getContext());
  NamedAttrList entries(encoding);
  if (auto block = encoding.getAs<IntegerAttr>("block_axis")) {
    auto dim = dyn_cast<AffineDimExpr>(map.getResult(block.getInt()));
    if (!dim)
      return nullptr;
    entries.set("block_axis", builder.getI64IntegerAttr(dim.getPosition()));
  }
  AffineExpr position = map.getResult(axis.getInt());
  std::optional<unsigned> dim = getOnlyDim(position);
  if (!dim)
    return nullptr;
  entries.set("axis", builder.getI64IntegerAttr(*dim));
  if (isa<AffineDimExpr>(position) && shape[*dim] == sourceShape[axis.getInt()])
    return entries.getDictionary(encoding.getContext());

  // Channels are cut, repeated or in another order.
  if (ShapedType::isDynamic(shape[*dim]) || encoding.get("block_axis"))
    return nullptr;
  auto before = encoding.getAs<DenseI64ArrayAttr>("channels");
  llvm::SmallVector<int64_t> picked, channels;
  for (int64_t index : llvm::seq(shape[*dim])) {
    AffineExpr value = position.replace(builder.getAffineDimExpr(*dim),
                                        builder.getAffineConstantExpr(index));
    auto constant = dyn_cast<AffineConstantExpr>(value);
    if (!constant || constant.getValue() < 0 ||
        constant.getValue() >= sourceShape[axis.getInt()])
      return nullptr;
    picked.push_back(constant.getValue());
    channels.push_back(before ? before[picked.back()] : picked.back());
  }
  entries.set("channels", builder.getDenseI64ArrayAttr(channels));
  if (Attribute scale = encoding.get("scale"))
    entries.set("scale", selectChannels<DenseF64ArrayAttr>(scale, picked));
  if (Attribute offset = encoding.get("offset"))
    entries.set("offset", selectChannels<DenseI64ArrayAttr>(offset, picked));
  return entries.getDictionary(encoding.getContext());
}

} // namespace mlir::qtranspose
