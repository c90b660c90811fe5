//===- SymbolicBits.h - integers as bits of a stored word --------*- C++
//-*-===//
//
// Packed weights are taken apart with shifts, masks, divisions, truncations and
// extensions, in any combination. Following every bit of the word through them
// says which bits are read, whatever the combination.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_ANALYSIS_SYMBOLICBITS_H
#define QTRANSPOSE_ANALYSIS_SYMBOLICBITS_H

#include "qtranspose/Analysis/VirtualTensor.h"

#include "llvm/ADT/APInt.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::qtranspose {

/// Bits [offset, offset + width) of a word, seen as an integer.
struct BitsOfWord {
  enum class Extension {
    None, ///< the integer has just these bits: nothing says if it is signed
    Zero,
    Sign,
  };
  unsigned offset, width;
  Extension extension;
  /// True if the topmost bit is inverted before it is extended: the value is
  /// then 2^(width - 1) more (as an unsigned one) than that of the bits read as
  /// a signed integer.
  bool topInverted;

  bool operator==(const BitsOfWord &other) const {
    return width == other.width && extension == other.extension &&
           topInverted == other.topInverted && offset == other.offset;
  }
};

/// The value of an affine coordinate at the element that is looked at, if it is
/// known there.
using CoordinateValue = llvm::function_ref<std::optional<int64_t>(AffineExpr)>;

/// `expr`, of integer or index type, as bits of `word`, one of its leaves.
std::optional<BitsOfWord> readBits(Expr expr, Expr word,
                                   CoordinateValue coordinate);

/// `expr` as a number, if it reads nothing but constants.
std::optional<llvm::APInt> readConstant(Expr expr, CoordinateValue coordinate);

/// Bits of an integer or index type that is at most 64 bits wide, else 0.
unsigned getIntegerWidth(Type type);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_ANALYSIS_SYMBOLICBITS_H
