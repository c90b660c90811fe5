//===- Passes.h - all qtranspose passes and pipelines ------------*- C++
//-*-===//

#ifndef QTRANSPOSE_PASSES_H
#define QTRANSPOSE_PASSES_H

#include "qtranspose/Transforms/ContractionFusion.h"
#include "qtranspose/Transforms/FoldTransposeIntoDequant.h"
#include "qtranspose/Transforms/StaticLhsToRhs.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Quant/IR/Quant.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::qtranspose {

/// Where `qtranspose-fuse-dequant-into-matmul` dequantizes a weight.
enum class FusionDecision { Auto, Element, Tile, Materialize };

#define GEN_PASS_DECL
#include "qtranspose/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "qtranspose/Passes.h.inc"

/// Registers the pipelines (`qtranspose-default`, `qtranspose-to-cpu`, ...).
/// They name upstream passes, which must be registered before one is used.
void registerPipelines();

/// Registers every pass and pipeline of this project.
inline void registerAll() {
  registerQTransposePasses();
  registerPipelines();
}

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_PASSES_H
