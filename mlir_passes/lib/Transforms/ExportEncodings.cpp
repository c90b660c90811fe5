//===- ExportEncodings.cpp - encodings of a program to a file -------------===//

#include "qtranspose/Passes.h"
#include "qtranspose/Utils/DerivedConstants.h"
#include "qtranspose/Utils/EncodingDocument.h"
#include "qtranspose/Utils/Encodings.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_EXPORTENCODINGS
#include "qtranspose/Passes.h.inc"

namespace {
/// Where the parameters of a program are found.
struct Parameters {
  struct Entry {
    bool isStored = false; ///< under its own name
    llvm::SmallVector<MovedEncoding, 1> derived;
  };
  llvm::MapVector<StringAttr, Entry> entries;

  explicit Parameters(ModuleOp module);

private:
  void addStored(DictionaryAttr encoding);
  void addDerived(Operation *op, DictionaryAttr encoding);
};
} // namespace

void Parameters::addStored(DictionaryAttr encoding) {
  if (auto name = encoding ? encoding.getAs<StringAttr>("name") : StringAttr();
      name && encoding.getAs<StringAttr>("role") == "parameter")
    entries[name].isStored = true;
}

/// What a derived constant is called: its key, or after what it comes from.
static std::string getDerivedName(Operation *op, llvm::StringRef name) {
  std::string derived = (name + "_derived").str();
  if (auto resource = op->getAttrOfType<DenseResourceElementsAttr>("value");
      resource && resource.getRawHandle().getKey().starts_with(derived))
    return resource.getRawHandle().getKey().str();
  return derived;
}

void Parameters::addDerived(Operation *op, DictionaryAttr encoding) {
  auto name = encoding.getAs<StringAttr>("name");
  if (!name)
    return;
  MovedEncoding moved;
  moved.name = getDerivedName(op, name);
  if (auto axis = encoding.getAs<IntegerAttr>("axis"))
    moved.axis = axis.getInt();
  if (auto axis = encoding.getAs<IntegerAttr>("block_axis"))
    moved.blockAxis = axis.getInt();
  if (auto channels = encoding.getAs<DenseI64ArrayAttr>("channels"))
    moved.channels = llvm::to_vector(channels.asArrayRef());
  llvm::SmallVector<MovedEncoding, 1> &derived = entries[name].derived;
  // Several functions can hold the same constant.
  bool isKnown = llvm::any_of(derived, [&](const MovedEncoding &other) {
    return other.name == moved.name && other.axis == moved.axis &&
           other.blockAxis == moved.blockAxis &&
           other.channels == moved.channels;
  });
  if (!isKnown)
    derived.push_back(std::move(moved));
}

Parameters::Parameters(ModuleOp module) {
  module->walk([&](Operation *op) {
    addStored(op->getAttrOfType<DictionaryAttr>(encodingAttrName));
    if (auto function = dyn_cast<FunctionOpInterface>(op))
      for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
        addStored(
            function.getArgAttrOfType<DictionaryAttr>(i, encodingAttrName));
    if (auto derived = op->getAttrOfType<DictionaryAttr>(derivedAttrName))
      if (auto encoding = derived.getAs<DictionaryAttr>("encoding"))
        addDerived(op, encoding);
  });
}

llvm::Expected<std::string> exportEncodings(ModuleOp module) {
  auto attached = module->getAttrOfType<DictionaryAttr>(encodingsAttrName);
  auto text = attached ? attached.getAs<StringAttr>("document") : StringAttr();
  if (!text)
    return llvm::createStringError("no encodings are attached to the module");
  llvm::Expected<EncodingDocument> document =
      EncodingDocument::parse(text.getValue());
  if (!document)
    return document.takeError();
  for (const auto &[name, entry] : Parameters(module).entries)
    document->replaceParameter(name, entry.derived, entry.isStored);
  return document->print(/*indent=*/2) + "\n";
}

namespace {
struct ExportEncodings : impl::ExportEncodingsBase<ExportEncodings> {
  using ExportEncodingsBase::ExportEncodingsBase;

  void runOnOperation() override {
    auto fail = [&](const llvm::Twine &message) {
      getOperation().emitError(message);
      signalPassFailure();
    };
    if (file.empty())
      return fail("qtranspose-export-encodings needs a file");
    llvm::Expected<std::string> text = exportEncodings(getOperation());
    if (!text)
      return fail(llvm::toString(text.takeError()));
    // Written to a temporary file, which then takes the place of `file`.
    if (llvm::Error error = llvm::writeToOutput(
            file, [&](llvm::raw_ostream &os) -> llvm::Error {
              os << *text;
              return llvm::Error::success();
            }))
      return fail(file + ": cannot write: " + llvm::toString(std::move(error)));
    markAllAnalysesPreserved();
  }
};
} // namespace

} // namespace mlir::qtranspose
