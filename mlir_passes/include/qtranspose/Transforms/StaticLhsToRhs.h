//===- StaticLhsToRhs.h - weights move to the right --------------*- C++
//-*-===//

#ifndef QTRANSPOSE_TRANSFORMS_STATICLHSTORHS_H
#define QTRANSPOSE_TRANSFORMS_STATICLHSTORHS_H

namespace mlir {
class RewritePatternSet;

namespace qtranspose {

/// How batch dims that share one weight are contracted.
enum class BatchForm {
  Flatten, ///< as rows of one matmul: `[B*N, K] @ [K, M]`
  Batched, ///< `[B, N, K] @ [K, M]`
};

/// What happens to a weight that differs per batch.
enum class PairedBatches {
  Keep,   ///< each batch keeps its weight: `[B, N, K] @ [B, K, M]`
  Refuse, ///< the weight stays on the left
};

/// The steps of planning, each of which a test can let fail.
enum class PlanStep {
  None,
  ShapePlan,          ///< roles of dims, shapes, transposes
  DerivedWeight,      ///< the transposed weight
  QuantizationLookup, ///< the quantization that moves with it
  Compensation,       ///< zero points that are operands
  BiasMapping,        ///< the accumulator and what is added afterwards
  WeightLowering,     ///< the op that takes the new operands
};

/// Adds patterns that move static left operands to the right, with the default
/// options of `qtranspose-static-lhs-to-rhs`. They leave the replaced
/// dequantization to dead-code elimination.
void populateStaticLhsToRhsPatterns(RewritePatternSet &patterns);

} // namespace qtranspose
} // namespace mlir

#endif // QTRANSPOSE_TRANSFORMS_STATICLHSTORHS_H
