//===- FuseDequantIntoMatmul.h - contractions read weights -------*- C++
//-*-===//

#ifndef QTRANSPOSE_TRANSFORMS_FUSEDEQUANTINTOMATMUL_H
#define QTRANSPOSE_TRANSFORMS_FUSEDEQUANTINTOMATMUL_H

namespace mlir {
class RewritePatternSet;
} // namespace mlir

namespace mlir::qtranspose {

/// The rewrite of `qtranspose-fuse-dequant-into-matmul` with its default
/// options, as a pattern on contractions. What it no longer uses is left dead,
/// for the driver or `canonicalize` to erase.
void populateFuseDequantIntoMatmulPatterns(RewritePatternSet &patterns);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_TRANSFORMS_FUSEDEQUANTINTOMATMUL_H
