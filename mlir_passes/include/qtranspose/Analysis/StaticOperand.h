//===- StaticOperand.h - which operand is the weight -------------*- C++
//-*-===//

#ifndef QTRANSPOSE_ANALYSIS_STATICOPERAND_H
#define QTRANSPOSE_ANALYSIS_STATICOPERAND_H

#include "qtranspose/Analysis/VirtualTensor.h"

namespace mlir::qtranspose {

/// How fixed the contents of an operand are, from least to most.
enum class Staticness {
  RunTime,           ///< computed, or an argument that may differ per call
  QuantizedArgument, ///< an argument that stores quantized values
  Constant,          ///< made from constants, and scales of lower rank
};

/// Judges an operand by its expression over iteration dims of the given
/// extents. The tensor of which most is read decides: a constant scale does not
/// make an activation constant, nor a scale that is an argument a weight
/// variable. `isEncoded` is set if a constant was recognized whose encoding
/// kept tracing out.
Staticness getStaticness(Expr expr, llvm::ArrayRef<int64_t> extents,
                         bool &isEncoded);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_ANALYSIS_STATICOPERAND_H
