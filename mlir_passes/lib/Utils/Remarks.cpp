//===- Remarks.cpp - named rewrites and refusals --------------------------===//

#include "qtranspose/Utils/Remarks.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::qtranspose {

llvm::StringRef getReasonName(Reason reason) {
  switch (reason) {
#define QTRANSPOSE_REASON(Enumerator, Name, Doc)                               \
  case Reason::Enumerator:                                                     \
    return Name;
#include "qtranspose/Utils/Reasons.def"
  }
  llvm_unreachable("every reason has a name");
}

static remark::RemarkOpts optionsFor(Operation *op, llvm::StringRef pass,
                                     llvm::StringRef name) {
  llvm::StringRef function;
  if (auto parent = op->getParentOfType<FunctionOpInterface>())
    function = parent.getName();
  return remark::RemarkOpts::name(name)
      .category("qtranspose")
      .subCategory(pass)
      .function(function);
}

void remarkPassed(Operation *op, llvm::StringRef pass, llvm::StringRef what,
                  const llvm::Twine &detail) {
  if (auto remark = remark::passed(op->getLoc(), optionsFor(op, pass, what)))
    remark << detail.str();
}

void remarkRefused(Operation *op, llvm::StringRef pass,
                   const Refusal &refusal) {
  if (auto remark = remark::missed(
          op->getLoc(), optionsFor(op, pass, getReasonName(refusal.reason))))
    remark << remark::detail::Remark::Arg("Reason", refusal.detail);
}

void remarkAnalysis(Operation *op, llvm::StringRef pass, llvm::StringRef what,
                    const llvm::Twine &detail) {
  if (auto remark = remark::analysis(op->getLoc(), optionsFor(op, pass, what)))
    remark << detail.str();
}

} // namespace mlir::qtranspose
