//===- AbsorbTransposes.h - remaining transposes go away ---------*- C++
//-*-===//

#ifndef QTRANSPOSE_TRANSFORMS_ABSORBTRANSPOSES_H
#define QTRANSPOSE_TRANSFORMS_ABSORBTRANSPOSES_H

namespace mlir {
class RewritePatternSet;
} // namespace mlir

namespace mlir::qtranspose {

/// The rewrite of `qtranspose-absorb-transposes` with its default options, as a
/// pattern on transposes. What it no longer uses is left dead, for the driver
/// or `canonicalize` to erase.
void populateAbsorbTransposesPatterns(RewritePatternSet &patterns);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_TRANSFORMS_ABSORBTRANSPOSES_H
