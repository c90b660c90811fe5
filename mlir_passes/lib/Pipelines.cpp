//===- Pipelines.cpp - named pass pipelines -------------------------------===//
//
// Pipelines are built from pass names rather than constructors: the plugin
// links no MLIR, and every pass below is registered by whoever loads us.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace mlir::qtranspose {

namespace {
struct DefaultOptions : PassPipelineOptions<DefaultOptions> {
  Option<std::string> weights{
      *this, "weights",
      llvm::cl::desc("Where a constant left operand of a matmul stays: `keep` "
                     "never adds a runtime transpose, `right` moves it"),
      llvm::cl::init("keep")};
};

LogicalResult addPasses(OpPassManager &pm, StringRef passes) {
  return parsePassPipeline(passes, pm);
}
} // namespace

void registerPipelines() {
  PassPipelineRegistration<DefaultOptions>(
      "qtranspose-default",
      "Fold transposes into dequantizations, fuse dequantizations into "
      "matmuls, absorb what is left",
      [](OpPassManager &pm, const DefaultOptions &options) {
        (void)addPasses(pm, "qtranspose-fold-transpose-into-dequant");
      });
}

} // namespace mlir::qtranspose
