//===- ConstantBits.cpp - the contents of constant tensors ----------------===//

#include "ConstantBits.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::qtranspose {

static std::optional<std::vector<uint64_t>>
getResourceBits(DenseResourceElementsAttr attr, unsigned width) {
  AsmResourceBlob *blob = attr.getRawHandle().getBlob();
  if (!blob)
    return std::nullopt;
  llvm::ArrayRef<char> data = blob->getData();
  uint64_t count = attr.getNumElements(), bytes = llvm::divideCeil(width, 8);
  // Elements of less than a byte have one each, or are packed from the low bits
  // up: the size tells.
  bool isPacked = width < 8 && data.size() != count;
  if (data.size() !=
      (isPacked ? llvm::divideCeil(count * width, 8) : count * bytes))
    return std::nullopt;
  uint64_t mask = width == 64 ? ~uint64_t(0) : (uint64_t(1) << width) - 1;
  std::vector<uint64_t> bits(count);
  for (uint64_t i = 0; i != count; ++i) {
    if (isPacked) {
      for (unsigned bit = 0; bit != width; ++bit) {
        uint64_t position = i * width + bit;
        bits[i] |= uint64_t(data[position / 8] >> (position % 8) & 1) << bit;
      }
      continue;
    }
    for (uint64_t byte = 0; byte != bytes; ++byte)
      bits[i] |= uint64_t(static_cast<uint8_t>(data[i * bytes + byte]))
                 << (8 * byte);
    bits[i] &= mask;
  }
  return bits;
}

std::optional<std::vector<uint64_t>> getConstantBits(Attribute attr) {
  auto elements = dyn_cast<ElementsAttr>(attr);
  if (!elements)
    return std::nullopt;
  Type element = elements.getElementType();
  unsigned width = isa<IndexType>(element)  ? 64
                   : element.isIntOrFloat() ? element.getIntOrFloatBitWidth()
                                            : 65;
  if (width > 64)
    return std::nullopt;
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr))
    return getResourceBits(resource, width);
  auto dense = dyn_cast<DenseElementsAttr>(attr);
  if (!dense)
    return std::nullopt;
  std::vector<uint64_t> bits;
  bits.reserve(dense.getNumElements());
  if (isa<FloatType>(element))
    for (llvm::APFloat value : dense.getValues<llvm::APFloat>())
      bits.push_back(value.bitcastToAPInt().getZExtValue());
  else
    for (llvm::APInt value : dense.getValues<llvm::APInt>())
      bits.push_back(value.getZExtValue());
  return bits;
}

} // namespace mlir::qtranspose
