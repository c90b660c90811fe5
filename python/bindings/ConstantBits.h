//===- ConstantBits.h - the contents of constant tensors ---------*- C++
//-*-===//

#ifndef QTRANSPOSE_PYTHON_CONSTANTBITS_H
#define QTRANSPOSE_PYTHON_CONSTANTBITS_H

#include "mlir/IR/BuiltinAttributes.h"

#include <optional>
#include <vector>

namespace mlir::qtranspose {

/// The bits of each element of a dense, splat or resource constant, in
/// row-major order, zero-extended; nothing for other attributes, elements of
/// more than 64 bits, and resources whose data is missing or of another size.
std::optional<std::vector<uint64_t>> getConstantBits(Attribute attr);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_PYTHON_CONSTANTBITS_H
