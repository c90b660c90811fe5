//===- Remarks.h - named rewrites and refusals -------------------*- C++
//-*-===//
//
// Every rewrite emits a `passed` remark and every refusal a `missed` one, in
// the category `qtranspose` with the pass as subcategory, through the upstream
// remark engine. The remark's name is the stable name of the reason.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_UTILS_REMARKS_H
#define QTRANSPOSE_UTILS_REMARKS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <string>

namespace mlir::qtranspose {

enum class Reason {
#define QTRANSPOSE_REASON(Enumerator, Name, Doc) Enumerator,
#include "qtranspose/Utils/Reasons.def"
};

/// The stable name of `reason`, e.g. `row-count-not-static`.
llvm::StringRef getReasonName(Reason reason);

/// Why a rewrite was not applied: a stable reason plus what was found here.
struct Refusal {
  Reason reason;
  std::string detail;
};

/// Reports that `pass` rewrote `op`; `what` names the rewrite.
void remarkPassed(Operation *op, llvm::StringRef pass, llvm::StringRef what,
                  const llvm::Twine &detail);

/// Reports that `pass` left `op` alone.
void remarkRefused(Operation *op, llvm::StringRef pass, const Refusal &refusal);

/// Reports a fact (a cost, a traced form) about `op`.
void remarkAnalysis(Operation *op, llvm::StringRef pass, llvm::StringRef what,
                    const llvm::Twine &detail);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_REMARKS_H
