//===- Passes.td - qtranspose pass definitions -------------*- tablegen -*-===//
//
// One entry per capability; docs/passes.md is generated from this file.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_PASSES
#define QTRANSPOSE_PASSES

include "mlir/Pass/PassBase.td"

def FoldTransposeIntoDequant
    : Pass<"qtranspose-fold-transpose-into-dequant"> {
  let summary = "Fold transposes of dequantized weights into the dequantization";
  let dependentDialects = ["arith::ArithDialect", "linalg::LinalgDialect",
                           "tensor::TensorDialect"];
}

#endif // QTRANSPOSE_PASSES
