//===- PieceUnification.h - one expression for all pieces --------*- C++
//-*-===//
//
// Packed weights are unpacked piecewise: low nibbles and high nibbles are
// computed apart, then concatenated. The pieces differ in a shift or a
// constant only, so they are one expression with a small table in place of
// what differs: `(w >> shift[h]) & 15`.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_ANALYSIS_PIECEUNIFICATION_H
#define QTRANSPOSE_ANALYSIS_PIECEUNIFICATION_H

#include "qtranspose/Analysis/VirtualTensor.h"

namespace mlir::qtranspose {

/// Bits [offset, offset + width) of the integer `base`, zero- or
/// sign-extended to the type of `base`.
struct BitField {
  Expr base;
  unsigned offset, width;
  bool isSigned;
};

/// `expr` read as a bit field of something; masks and shifts compose. The
/// whole of an integer is a field of itself.
BitField asBitField(Expr expr);

/// The size of each piece of `pieces`, which are equal; 0 if they differ.
int64_t getPieceSize(Expr pieces);

/// An expression equal to `pieces[selector]` for 0 <= selector < size, or null
/// if the pieces do not have one shape.
Expr unifyPieces(ExprPool &pool, AffineExpr selector,
                 llvm::ArrayRef<Expr> pieces);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_ANALYSIS_PIECEUNIFICATION_H
