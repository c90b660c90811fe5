//===- QTransposePlugin.cpp - plugin for stock mlir-opt -------------------===//

#include "qtranspose/Passes.h"

#include "mlir/Tools/Plugins/PassPlugin.h"

extern "C" LLVM_ATTRIBUTE_WEAK
    __attribute__((visibility("default"))) ::mlir::PassPluginLibraryInfo
    mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "qtranspose", QTRANSPOSE_VERSION,
          [] { mlir::qtranspose::registerAll(); }};
}
