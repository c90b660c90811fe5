//===- ExternalizeConstants.cpp - large constants outside of the code -----===//
//
// A large constant in generated code is copied into an object file and from
// there into memory with small pages, where reading it costs as many misses of
// the translation buffer as of the cache. Outside, the one who runs the code
// chooses its memory.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"
#include "qtranspose/Utils/ConstantBytes.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_EXTERNALIZECONSTANTS
#include "qtranspose/Passes.h.inc"

namespace {

struct ExternalizeConstants
    : impl::ExternalizeConstantsBase<ExternalizeConstants> {
  using ExternalizeConstantsBase::ExternalizeConstantsBase;

  void runOnOperation() override {
    auto module = cast<ModuleOp>(getOperation());
    NamedAttrList constants;
    if (auto before =
            module->getAttrOfType<DictionaryAttr>(externalConstantsAttrName))
      constants.append(before.getValue());
    SymbolTable symbols(module);
    for (auto global : module.getOps<memref::GlobalOp>()) {
      auto elements = dyn_cast_if_present<ElementsAttr>(
          global.getInitialValue().value_or(Attribute()));
      if (!global.getConstant() || !elements)
        continue;
      std::optional<llvm::ArrayRef<char>> bytes = getConstantBytes(elements);
      if (!bytes || static_cast<int64_t>(bytes->size()) < smallest)
        continue;
      // The prefix that the execution engine gives to what it is told of.
      std::string name = ("_mlir_ciface_" + global.getSymName()).str();
      if (symbols.lookup(name) || failed(symbols.rename(global, name)))
        continue;
      global.removeInitialValueAttr();
      // What is private would be a global of LLVM without contents.
      SymbolTable::setSymbolVisibility(global, SymbolTable::Visibility::Public);
      constants.set(name, elements);
    }
    if (!constants.empty())
      module->setAttr(externalConstantsAttrName,
                      constants.getDictionary(&getContext()));
  }
};
} // namespace
} // namespace mlir::qtranspose
