//===- IsolateBuffers.cpp - value semantics at the edges of a program -----===//
//
// Bufferization turns tensors into buffers that may be written in place. Two
// kinds of tensors come from outside what it analyzes: arguments, which belong
// to the caller, and program state, which a later store changes under a value
// that was loaded before. (Upstream's bufferization of ml_program is not used:
// in 22.1.8 it stores from an uninitialized buffer when the stored value is
// used again.)
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_ISOLATEBUFFERS
#include "qtranspose/Passes.h.inc"

namespace {
struct IsolateBuffers : impl::IsolateBuffersBase<IsolateBuffers> {
  void runOnOperation() override {
    SmallVector<ml_program::GlobalOp> globals;
    SmallVector<Operation *> accesses;
    WalkResult result = getOperation()->walk([&](Operation *op) -> WalkResult {
      if (auto global = dyn_cast<ml_program::GlobalOp>(op)) {
        auto tensor = dyn_cast<RankedTensorType>(global.getType());
        if (tensor ? !tensor.hasStaticShape()
                   : !MemRefType::isValidElementType(global.getType()))
          return op->emitError("state must be a tensor of static shape or a "
                               "scalar");
        Attribute value = global.getValue().value_or(Attribute());
        if (value && !isa<ElementsAttr, IntegerAttr, FloatAttr>(value))
          return op->emitError("state must have a value in the program");
        globals.push_back(global);
      } else if (isa<ml_program::GlobalLoadOp, ml_program::GlobalLoadConstOp,
                     ml_program::GlobalStoreOp>(op)) {
        accesses.push_back(op);
      } else if (isa_and_present<ml_program::MLProgramDialect>(
                     op->getDialect())) {
        return op->emitError("'")
               << op->getName() << "' is not supported by the CPU target";
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();

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
    for (Operation *op : accesses)
      lowerAccess(b, op,
                  symbols.lookupNearestSymbolFrom<ml_program::GlobalOp>(
                      op, op->getAttrOfType<SymbolRefAttr>("global")));
    for (ml_program::GlobalOp global : globals)
      lowerGlobal(b, global);
  }

private:
  /// Scalars are kept in a buffer of rank 0.
  static MemRefType bufferType(Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      return MemRefType::get(tensor.getShape(), tensor.getElementType());
    return MemRefType::get({}, type);
  }

  static void lowerGlobal(OpBuilder &b, ml_program::GlobalOp global) {
    b.setInsertionPoint(global);
    MemRefType type = bufferType(global.getType());
    Attribute value = global.getValue().value_or(b.getUnitAttr());
    if (isa<IntegerAttr, FloatAttr>(value))
      value = DenseElementsAttr::get(
          RankedTensorType::get({}, type.getElementType()), value);
    memref::GlobalOp::create(b, global.getLoc(), global.getSymName(),
                             b.getStringAttr("private"), type, value,
                             /*constant=*/!global.getIsMutable(),
                             b.getI64IntegerAttr(64));
    global.erase();
  }

  static void lowerAccess(OpBuilder &b, Operation *op,
                          ml_program::GlobalOp global) {
    b.setInsertionPoint(op);
    Location loc = op->getLoc();
    MemRefType type = bufferType(global.getType());
    bool isTensor = isa<TensorType>(global.getType());
    Value buffer =
        memref::GetGlobalOp::create(b, loc, type, global.getSymName());
    if (auto store = dyn_cast<ml_program::GlobalStoreOp>(op)) {
      if (isTensor)
        bufferization::MaterializeInDestinationOp::create(
            b, loc, /*result=*/Type(), store.getValue(), buffer,
            /*restrict=*/true, /*writable=*/true);
      else
        memref::StoreOp::create(b, loc, store.getValue(), buffer);
      op->erase();
      return;
    }
    Value value;
    if (!isTensor) {
      value = memref::LoadOp::create(b, loc, buffer);
    } else {
      value = bufferization::ToTensorOp::create(b, loc, global.getType(),
                                                buffer, /*restrict=*/true);
      if (global.getIsMutable())
        value = bufferization::AllocTensorOp::create(
            b, loc, cast<RankedTensorType>(global.getType()),
            /*dynamicSizes=*/ValueRange(), /*copy=*/value);
    }
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
  }
};
} // namespace
} // namespace mlir::qtranspose
