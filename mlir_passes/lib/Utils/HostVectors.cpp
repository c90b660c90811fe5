//===- HostVectors.cpp - the vector unit of this machine -----------------===//

#include "qtranspose/Utils/HostVectors.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

namespace mlir::qtranspose {

int64_t getHostVectorBits() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  if (features.lookup("avx512f"))
    return 512;
  return features.lookup("avx2") ? 256 : 128;
}

} // namespace mlir::qtranspose
