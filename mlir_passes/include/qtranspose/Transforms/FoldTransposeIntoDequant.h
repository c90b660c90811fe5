//===- FoldTransposeIntoDequant.h --------------------------------*- C++
//-*-===//

#ifndef QTRANSPOSE_TRANSFORMS_FOLDTRANSPOSEINTODEQUANT_H
#define QTRANSPOSE_TRANSFORMS_FOLDTRANSPOSEINTODEQUANT_H

namespace mlir {
class RewritePatternSet;

namespace qtranspose {

/// What happens to a dequantization whose result is also used elsewhere.
enum class MultiUse {
  /// Clone it where that moves fewer bytes than reading its result.
  Auto,
  /// Always clone it.
  Clone,
  /// Never clone it: read its result.
  Read,
};

/// The layout in which a contraction reads its dequantized weight.
enum class ConsumerLayout {
  /// As it does now: the producer writes what the consumer reads.
  KN,
  /// `[batch, N, K]`: the consumer's indexing map does the transposition.
  NK,
};

/// Adds patterns that fold transposes into the dequantization next to them,
/// with the default options of `qtranspose-fold-transpose-into-dequant`. They
/// work under the greedy and the walk driver. Unlike the pass they leave a
/// replaced dequantization to dead-code elimination and never touch a function
/// other than the transpose's own.
void populateFoldTransposeIntoDequantPatterns(RewritePatternSet &patterns);

} // namespace qtranspose
} // namespace mlir

#endif // QTRANSPOSE_TRANSFORMS_FOLDTRANSPOSEINTODEQUANT_H
