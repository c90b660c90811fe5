//===- AffineReader.h - index arithmetic as affine maps ----------*- C++
//-*-===//

#ifndef QTRANSPOSE_ANALYSIS_AFFINEREADER_H
#define QTRANSPOSE_ANALYSIS_AFFINEREADER_H

#include "qtranspose/Analysis/VirtualTensor.h"

namespace mlir::qtranspose {

/// False for coordinates that are not worth reasoning about: affine expressions
/// are walked as trees, and multiply constants without looking at overflow.
bool isTractable(AffineExpr coordinate);

/// Reads index expressions as affine ones.
class AffineReader {
public:
  explicit AffineReader(MLIRContext *context) : context(context) {}

  /// The affine expression that `expr` computes, or null.
  AffineExpr read(Expr expr);

private:
  AffineExpr compute(Expr expr);

  MLIRContext *context;
  llvm::DenseMap<Expr, AffineExpr> memo;
};

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_ANALYSIS_AFFINEREADER_H
