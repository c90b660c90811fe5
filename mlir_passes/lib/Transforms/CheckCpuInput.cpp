//===- CheckCpuInput.cpp - refuse what cannot run, in one clear line ------===//
//
// LLVM's lowerings assert on some types they do not know. This pass rejects
// them before any lowering looks at them.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/Interfaces/ShapedOpInterfaces.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_CHECKCPUINPUT
#include "qtranspose/Passes.h.inc"

namespace {

/// Why values of `type` cannot exist at run time; empty if they can.
StringRef whyUnsupported(Type type) {
  if (isa<UnrankedTensorType, UnrankedMemRefType>(type))
    return "unranked shapes";
  if (isa<ComplexType>(type))
    return "complex numbers";
  if (isa<OpaqueType, TupleType>(type))
    return "opaque and tuple types";
  if (isa<Float80Type, Float128Type, FloatTF32Type>(type))
    return "f80, f128 and tf32";
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    Attribute encoding = tensor.getEncoding();
    if (encoding && encoding.getDialect().getNamespace() == "sparse_tensor")
      return "sparse tensors";
  }
  if (auto shaped = dyn_cast<ShapedType>(type)) {
    Type element = shaped.getElementType();
    auto integer = dyn_cast<IntegerType>(element);
    if (integer && (integer.getWidth() == 0 || integer.getWidth() > 64))
      return "tensors of integers of 0 or more than 64 bits";
    // Upstream computes strides and sizes in bytes without looking.
    int64_t bytes = 8;
    for (int64_t size : shaped.getShape())
      if (size > 0 && llvm::MulOverflow(bytes, size, bytes))
        return "more elements than 64 bits can address";
  }
  return {};
}

struct CheckCpuInput : impl::CheckCpuInputBase<CheckCpuInput> {
  void runOnOperation() override {
    AttrTypeWalker walker;
    Type found;
    walker.addWalk([&](Type type) {
      if (whyUnsupported(type).empty())
        return WalkResult::advance();
      found = type;
      return WalkResult::interrupt();
    });
    auto refuse = [&](Operation *op) -> WalkResult {
      return op->emitError("the CPU target does not support ")
             << whyUnsupported(found) << " (" << found << ")";
    };
    SymbolTableCollection symbols;
    WalkResult result = getOperation()->walk([&](Operation *op) -> WalkResult {
      if (!op->isRegistered())
        return op->emitError("unregistered operation '")
               << op->getName() << "' cannot be executed";
      for (Type type : op->getResultTypes())
        if (walker.walk(type).wasInterrupted())
          return refuse(op);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (Type type : block.getArgumentTypes())
            if (walker.walk(type).wasInterrupted())
              return refuse(op);
      if (auto function = dyn_cast<func::FuncOp>(op))
        if (walker.walk(function.getFunctionType()).wasInterrupted())
          return refuse(op);
      if (auto size = dyn_cast<ShapedDimOpInterface>(op)) {
        auto type = cast<ShapedType>(size.getShapedValue().getType());
        std::optional<int64_t> dim = getConstantIntValue(size.getDimension());
        if (dim && type.hasRank() && (*dim < 0 || *dim >= type.getRank()))
          return op->emitError("asks for the size of dim ")
                 << *dim << " of " << type;
      }
      if (auto call = dyn_cast<func::CallOp>(op)) {
        auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
            op, call.getCalleeAttr());
        if (!callee || callee.isDeclaration())
          return op->emitError("calls '")
                 << call.getCallee() << "', which has no body";
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
} // namespace mlir::qtranspose
