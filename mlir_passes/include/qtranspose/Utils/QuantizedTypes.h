//===- QuantizedTypes.h - quantized types under moved dims -------*- C++
//-*-===//

#ifndef QTRANSPOSE_UTILS_QUANTIZEDTYPES_H
#define QTRANSPOSE_UTILS_QUANTIZEDTYPES_H

#include "mlir/Dialect/Quant/IR/QuantTypes.h"
#include "llvm/ADT/ArrayRef.h"

#include <optional>

namespace mlir::qtranspose {

/// The element type of a tensor of `rank` dims whose dim `newDims[i]` is dim
/// `i` of a tensor of element type `type`; a dim without a new one is a unit
/// dim that went. Null if the parameters of `type` vary along such a dim, or
/// `type` is of another kind than `!quant.uniform`.
quant::QuantizedType
moveQuantizedAxes(quant::QuantizedType type,
                  llvm::ArrayRef<std::optional<unsigned>> newDims,
                  unsigned rank);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_QUANTIZEDTYPES_H
