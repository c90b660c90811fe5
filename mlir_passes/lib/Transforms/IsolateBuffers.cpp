//===- IsolateBuffers.cpp - value semantics at the edges of a program -----===//
//
// Bufferization turns tensors into buffers that may be written in place. Two
// kinds of tensors come from outside what it analyzes: arguments, which belong
// to the caller, and program state, which a later store changes under a value
// that was loaded before.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_ISOLATEBUFFERS
#include "qtranspose/Passes.h.inc"

namespace {
struct IsolateBuffers : impl::IsolateBuffersBase<IsolateBuffers> {
  void runOnOperation() override {
    OpBuilder b(&getContext());
    getOperation()->walk([&](func::FuncOp function) {
      if (function.isPrivate() || function.isDeclaration())
        return;
      for (auto [index, type] : llvm::enumerate(function.getArgumentTypes()))
        if (isa<TensorType>(type))
          function.setArgAttr(
              index, bufferization::BufferizationDialect::kWritableAttrName,
              b.getBoolAttr(false));
    });

    SymbolTableCollection symbols;
    getOperation()->walk([&](ml_program::GlobalLoadOp load) {
      auto global = symbols.lookupNearestSymbolFrom<ml_program::GlobalOp>(
          load, load.getGlobalAttr());
      auto type = dyn_cast<RankedTensorType>(load.getType());
      if (!type || (global && !global.getIsMutable()))
        return;
      b.setInsertionPointAfter(load);
      Value copy = bufferization::AllocTensorOp::create(
          b, load.getLoc(), type, /*dynamicSizes=*/ValueRange(),
          /*copy=*/load.getResult());
      load.getResult().replaceAllUsesExcept(copy, copy.getDefiningOp());
    });
  }
};
} // namespace
} // namespace mlir::qtranspose
