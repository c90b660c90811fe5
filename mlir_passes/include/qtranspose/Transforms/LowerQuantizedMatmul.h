//===- LowerQuantizedMatmul.h - integer matmul plus compensation -*- C++
//-*-===//

#ifndef QTRANSPOSE_TRANSFORMS_LOWERQUANTIZEDMATMUL_H
#define QTRANSPOSE_TRANSFORMS_LOWERQUANTIZEDMATMUL_H

namespace mlir {
class RewritePatternSet;
} // namespace mlir

namespace mlir::qtranspose {

/// The rewrite of `qtranspose-lower-quantized-matmul` with its default options,
/// as a pattern on contractions. What it no longer uses is left dead.
void populateLowerQuantizedMatmulPatterns(RewritePatternSet &patterns);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_TRANSFORMS_LOWERQUANTIZEDMATMUL_H
