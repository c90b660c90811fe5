//===- Pipelines.cpp - named pass pipelines -------------------------------===//
//
// Pipelines are built from pass names rather than constructors: the plugin
// links no MLIR, and every pass below is registered by whoever loads us.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::qtranspose {

namespace {
/// Where the constant left operand of a matmul goes.
enum class Weights { Keep, Right };

struct DefaultOptions : PassPipelineOptions<DefaultOptions> {
  Option<Weights> weights{
      *this, "weights",
      llvm::cl::desc("Where a constant left operand of a matmul goes"),
      llvm::cl::init(Weights::Keep),
      llvm::cl::values(
          clEnumValN(Weights::Keep, "keep",
                     "it stays: no transpose of a run-time value is added"),
          clEnumValN(Weights::Right, "right",
                     "to the right, by qtranspose-static-lhs-to-rhs"))};
};

struct ToCpuOptions : PassPipelineOptions<ToCpuOptions> {
  Option<std::string> assertHandler{
      *this, "assert-handler",
      llvm::cl::desc("Function that a failed cf.assert calls before the "
                     "program returns (see qtranspose-lower-asserts); the "
                     "process is aborted if empty")};
  Option<bool> vectorize{*this, "vectorize", llvm::cl::init(true),
                         llvm::cl::desc("Lower contractions to vectors (see "
                                        "qtranspose-vectorize-contractions)")};
  Option<bool> externalizeConstants{
      *this, "externalize-constants", llvm::cl::init(false),
      llvm::cl::desc("Leave large constants out of the code (see "
                     "qtranspose-externalize-constants)")};
  Option<bool> reassociate{
      *this, "allow-reassociation", llvm::cl::init(false),
      llvm::cl::desc("Allow floating-point sums in another order")};
  Option<bool> contract{
      *this, "contract", llvm::cl::init(false),
      llvm::cl::desc("Allow a product and a sum to be rounded together")};
};

/// From what frontends print to linalg on tensors in one function.
constexpr StringLiteral importPasses =
    "qtranspose-check-cpu-input,"
    "func.func(tosa-to-linalg-named,tosa-to-linalg,"
    "tosa-to-arith{include-apply-rescale=true},tosa-to-tensor,tosa-to-scf),"
    // Before anything that folds dcast(qcast(x)) to x.
    "qtranspose-lower-quant-casts,"
    "inline{default-pipeline=},symbol-dce";

/// From linalg on tensors to tensors that buffers can hold, without loss.
constexpr StringLiteral legalizePasses =
    "qtranspose-tile-fused-dequant,"
    "convert-elementwise-to-linalg,qtranspose-decompose-aggregates,"
    "qtranspose-legalize-storage-types,"
    "canonicalize,cse";

constexpr StringLiteral bufferizePasses =
    "qtranspose-isolate-buffers,"
    "one-shot-bufferize{bufferize-function-boundaries=true "
    "allow-return-allocs-from-loops=true "
    "function-boundary-type-conversion=identity-layout-map "
    "buffer-alignment=64},"
    "canonicalize,"
    "ownership-based-buffer-deallocation,canonicalize,"
    "buffer-deallocation-simplification,bufferization-lower-deallocations,"
    // The deallocation code keeps its flags in buffers of i1.
    "cse,canonicalize,convert-bufferization-to-memref,"
    "qtranspose-legalize-storage-types";

constexpr StringLiteral loopPasses =
    "qtranspose-linalg-to-loops,scf-forall-to-for,"
    // Not in the bodies of linalg ops, whose verifiers look at the arithmetic.
    "arith-expand,qtranspose-expand-small-floats,convert-vector-to-scf,"
    "fold-memref-alias-ops,loop-invariant-code-motion,canonicalize,cse,"
    "expand-strided-metadata,lower-affine,convert-scf-to-cf";

constexpr StringLiteral llvmPasses =
    "convert-vector-to-llvm,convert-math-to-llvm,convert-math-to-libm,"
    "convert-ub-to-llvm,finalize-memref-to-llvm,convert-arith-to-llvm,convert-"
    "index-to-llvm,"
    "convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts,"
    "canonicalize,cse";

LogicalResult addPasses(OpPassManager &pm, StringRef passes) {
  return parsePassPipeline(passes, pm);
}
} // namespace

void registerPipelines() {
  PassPipelineRegistration<DefaultOptions>(
      "qtranspose-default",
      "Fold transposes into dequantizations, fuse dequantizations into "
      "matmuls, absorb the transposes that remain",
      [](OpPassManager &pm, const DefaultOptions &options) {
        bool moves = options.weights == Weights::Right;
        if (moves)
          (void)addPasses(pm, "qtranspose-static-lhs-to-rhs");
        (void)addPasses(pm, "qtranspose-fold-transpose-into-dequant,"
                            "qtranspose-fuse-dequant-into-matmul");
        // Fusing a product into the sum over it makes new contractions.
        if (moves)
          (void)addPasses(pm, "qtranspose-static-lhs-to-rhs");
        (void)addPasses(pm, "qtranspose-absorb-transposes");
      });
  PassPipelineRegistration<ToCpuOptions>(
      "qtranspose-to-cpu",
      "Lower linalg on tensors to the LLVM dialect for the host CPU",
      [](OpPassManager &pm, const ToCpuOptions &options) {
        (void)addPasses(pm, importPasses);
        if (options.vectorize)
          (void)addPasses(pm, "qtranspose-pack-weights");
        if (options.reassociate)
          (void)addPasses(pm, "qtranspose-pull-scales-out-of-reduction{"
                              "allow-reassociation=true},"
                              "qtranspose-widen-packed-fields");
        (void)addPasses(pm, legalizePasses);
        if (options.vectorize)
          (void)addPasses(pm,
                          llvm::formatv("qtranspose-vectorize-contractions{{"
                                        "allow-reassociation={0} contract={1}},"
                                        "canonicalize,cse",
                                        bool(options.reassociate),
                                        bool(options.contract))
                              .str());
        (void)addPasses(pm, bufferizePasses);
        if (options.vectorize)
          (void)addPasses(pm, "qtranspose-prefetch-streams");
        if (options.externalizeConstants)
          (void)addPasses(pm, "qtranspose-externalize-constants");
        (void)addPasses(pm, loopPasses);
        if (!options.assertHandler.empty())
          (void)addPasses(pm, "qtranspose-lower-asserts{handler=" +
                                  options.assertHandler + "}");
        (void)addPasses(pm, llvmPasses);
      });
}

} // namespace mlir::qtranspose
