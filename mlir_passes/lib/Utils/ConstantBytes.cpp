//===- ConstantBytes.cpp - a constant as it lies in memory ---------------===//

#include "qtranspose/Utils/ConstantBytes.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectResourceBlobManager.h"

namespace mlir::qtranspose {

std::optional<llvm::ArrayRef<char>> getConstantBytes(ElementsAttr elements) {
  Type element = elements.getElementType();
  if (!element.isIntOrFloat() || element.getIntOrFloatBitWidth() % 8 != 0)
    return std::nullopt;
  uint64_t size =
      elements.getNumElements() * (element.getIntOrFloatBitWidth() / 8);
  llvm::ArrayRef<char> bytes;
  if (auto dense = dyn_cast<DenseElementsAttr>(elements)) {
    if (dense.isSplat())
      return std::nullopt;
    bytes = dense.getRawData();
  } else if (auto resource = dyn_cast<DenseResourceElementsAttr>(elements)) {
    if (AsmResourceBlob *blob = resource.getRawHandle().getBlob())
      bytes = blob->getData();
  }
  if (bytes.empty() || bytes.size() != size)
    return std::nullopt;
  return bytes;
}

} // namespace mlir::qtranspose
