//===- FoldTransposeIntoDequant.cpp ---------------------------------------===//

#include "qtranspose/Passes.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_FOLDTRANSPOSEINTODEQUANT
#include "qtranspose/Passes.h.inc"

namespace {
struct FoldTransposeIntoDequant
    : impl::FoldTransposeIntoDequantBase<FoldTransposeIntoDequant> {
  void runOnOperation() override {}
};
} // namespace
} // namespace mlir::qtranspose
