//===- ConstantBytes.h - a constant as it lies in memory ---------*- C++
//-*-===//

#ifndef QTRANSPOSE_UTILS_CONSTANTBYTES_H
#define QTRANSPOSE_UTILS_CONSTANTBYTES_H

#include "mlir/IR/BuiltinAttributes.h"

namespace mlir::qtranspose {

/// On a module: a dictionary from the names of external globals to their
/// contents.
constexpr llvm::StringLiteral externalConstantsAttrName =
    "qtranspose.external_constants";

/// The bytes of `elements` in row-major order as memory holds them, not copied.
/// Nothing for a splat, which is stored once, for elements that are not whole
/// bytes, and for resources whose data are missing or of another size.
std::optional<llvm::ArrayRef<char>> getConstantBytes(ElementsAttr elements);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_CONSTANTBYTES_H
