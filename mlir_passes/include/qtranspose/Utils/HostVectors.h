//===- HostVectors.h - the vector unit of this machine -----------*- C++
//-*-===//

#ifndef QTRANSPOSE_UTILS_HOSTVECTORS_H
#define QTRANSPOSE_UTILS_HOSTVECTORS_H

#include <cstdint>

namespace mlir::qtranspose {

/// Bits of a vector register of the machine that this runs on.
int64_t getHostVectorBits();

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_HOSTVECTORS_H
