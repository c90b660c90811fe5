//===- QuantizedTypes.cpp - quantized types under moved dims --------------===//

#include "qtranspose/Utils/QuantizedTypes.h"

#include "qtranspose/Utils/DerivedConstants.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

namespace mlir::qtranspose {

/// `values`, one per block of a tensor, for the tensor with moved dims.
static DenseElementsAttr
moveBlocks(DenseElementsAttr values,
           llvm::ArrayRef<std::optional<unsigned>> newDims, unsigned rank) {
  llvm::ArrayRef<int64_t> shape = values.getType().getShape();
  llvm::SmallVector<int64_t> strides = computeStrides(shape);
  StridedGather gather;
  gather.extents.assign(rank, 1);
  gather.strides.assign(rank, 0);
  for (auto [dim, newDim] : llvm::enumerate(newDims))
    if (newDim) {
      gather.extents[*newDim] = shape[dim];
      gather.strides[*newDim] = strides[dim];
    }
  auto type = RankedTensorType::get(gather.extents, values.getElementType());
  return cast<DenseElementsAttr>(gatherElements(values, type, gather));
}

quant::QuantizedType
moveQuantizedAxes(quant::QuantizedType type,
                  llvm::ArrayRef<std::optional<unsigned>> newDims,
                  unsigned rank) {
  if (isa<quant::UniformQuantizedType>(type))
    return type;
  if (auto axis = dyn_cast<quant::UniformQuantizedPerAxisType>(type)) {
    uint64_t dim = axis.getQuantizedDimension();
    if (dim >= newDims.size() || !newDims[dim])
      return {};
    return quant::UniformQuantizedPerAxisType::get(
        axis.getFlags(), axis.getStorageType(), axis.getExpressedType(),
        axis.getScales(), axis.getZeroPoints(), *newDims[dim],
        axis.getStorageTypeMin(), axis.getStorageTypeMax());
  }
  auto blocks = dyn_cast<quant::UniformQuantizedSubChannelType>(type);
  if (!blocks || blocks.getScales().getType().getRank() !=
                     static_cast<int64_t>(newDims.size()))
    return {};
  llvm::SmallVector<int32_t> dims;
  llvm::SmallVector<int64_t> sizes;
  for (auto [dim, size] : blocks.getBlockSizeInfo()) {
    if (!newDims[dim])
      return {};
    dims.push_back(*newDims[dim]);
    sizes.push_back(size);
  }
  return quant::UniformQuantizedSubChannelType::get(
      blocks.getFlags(), blocks.getStorageType(), blocks.getExpressedType(),
      moveBlocks(blocks.getScales(), newDims, rank),
      moveBlocks(blocks.getZeroPoints(), newDims, rank), dims, sizes,
      blocks.getStorageTypeMin(), blocks.getStorageTypeMax());
}

} // namespace mlir::qtranspose
