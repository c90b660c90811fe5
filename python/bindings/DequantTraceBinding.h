//===- DequantTraceBinding.h - the trace analysis for Python -----*- C++
//-*-===//

#ifndef QTRANSPOSE_BINDINGS_DEQUANTTRACEBINDING_H
#define QTRANSPOSE_BINDINGS_DEQUANTTRACEBINDING_H

#include <nanobind/nanobind.h>

namespace mlir::qtranspose {

/// Adds `trace` to the module.
void bindDequantTrace(nanobind::module_ &m);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_BINDINGS_DEQUANTTRACEBINDING_H
