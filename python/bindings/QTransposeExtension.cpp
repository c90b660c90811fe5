//===- QTransposeExtension.cpp - the C++ passes on the stock mlir package -===//

#include "qtranspose/Passes.h"

#include "mlir/Bindings/Python/NanobindAdaptors.h"

namespace nb = nanobind;

NB_MODULE(_qtranspose, m) {
  m.doc() = "qtranspose passes, patterns and analyses for `mlir` contexts.";
  mlir::qtranspose::registerAll();
}
