//===- ConstantSum.h - integer sums at compile time --------------*- C++
//-*-===//
//
// Evaluates integer expressions over constants: the column sums of a weight,
// the values of its zero points. The data of a constant is read in the order
// in which it is stored, a block at a time; no attribute is made per element.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_ANALYSIS_CONSTANTSUM_H
#define QTRANSPOSE_ANALYSIS_CONSTANTSUM_H

#include "qtranspose/Analysis/VirtualTensor.h"

namespace mlir::qtranspose {

/// The iteration dims whose coordinates `expr` reads, in ascending order.
llvm::SmallVector<unsigned> getUsedDims(Expr expr);

/// The values of `expr`, which is over iteration dims of the given extents,
/// added up over the dims `summed`: one for each index of the dims `kept`, row
/// by row, modulo 2^64. `expr` is an integer, taken as signed, or a float whose
/// values are integers. Nothing if its values are not known at compile time, a
/// float is not an integer, or a dim of `kept` and `summed` is not static.
std::optional<llvm::SmallVector<int64_t, 0>>
foldSum(Expr expr, llvm::ArrayRef<int64_t> extents,
        llvm::ArrayRef<unsigned> kept, llvm::ArrayRef<unsigned> summed);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_ANALYSIS_CONSTANTSUM_H
