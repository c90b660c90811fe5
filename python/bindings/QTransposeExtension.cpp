//===- QTransposeExtension.cpp - the C++ passes on the stock mlir package -===//

#include "ConstantBits.h"
#include "DequantTraceBinding.h"
#include "RemarkCollector.h"
#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/AbsorbTransposes.h"
#include "qtranspose/Transforms/FuseDequantIntoMatmul.h"
#include "qtranspose/Transforms/LowerQuantizedMatmul.h"
#include "qtranspose/Utils/ConstantBytes.h"
#include "qtranspose/Utils/Encodings.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Rewrite.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"

#include "mlir/Bindings/Python/NanobindAdaptors.h"

#include <nanobind/stl/optional.h>

#include <array>

namespace nb = nanobind;
using namespace mlir;

namespace {

struct PatternSet {
  const char *name;
  void (*populate)(RewritePatternSet &);
};

/// The C++ pattern sets, by their name in `qtranspose.patterns`.
constexpr std::array patternSets = {
    PatternSet{"absorb_transposes",
               qtranspose::populateAbsorbTransposesPatterns},
    PatternSet{"fold_transpose_into_dequant",
               qtranspose::populateFoldTransposeIntoDequantPatterns},
    PatternSet{"fuse_dequant_into_matmul",
               qtranspose::populateFuseDequantIntoMatmulPatterns},
    PatternSet{"static_lhs_to_rhs", qtranspose::populateStaticLhsToRhsPatterns},
    PatternSet{"lower_quantized_matmul",
               qtranspose::populateLowerQuantizedMatmulPatterns},
};

/// NanobindAdaptors.h of MLIR 22 declares its caster for this type with a
/// signature nanobind does not call, so the object is made by hand.
nb::object toPython(FrozenRewritePatternSet patterns) {
  nb::object capsule = nb::steal(mlirPythonFrozenRewritePatternSetToCapsule(
      wrap(new FrozenRewritePatternSet(std::move(patterns)))));
  return nb::module_::import_(MAKE_MLIR_PYTHON_QUALNAME("rewrite"))
      .attr("FrozenRewritePatternSet")
      .attr(MLIR_PYTHON_CAPI_FACTORY_ATTR)(capsule);
}

nb::object makePatternSet(const std::string &name, MlirContext context) {
  const auto *entry = llvm::find_if(
      patternSets, [&](const PatternSet &set) { return name == set.name; });
  if (entry == patternSets.end())
    throw nb::key_error(name.c_str());
  RewritePatternSet patterns(unwrap(context));
  entry->populate(patterns);
  return toPython(std::move(patterns));
}

nb::tuple toPython(const qtranspose::RemarkRecord &record) {
  nb::list arguments;
  for (const auto &[key, value] : record.arguments)
    arguments.append(nb::make_tuple(key, value));
  return nb::make_tuple(record.kind, record.name, record.category, record.pass,
                        record.function, wrap(record.location),
                        nb::tuple(arguments));
}

} // namespace

NB_MODULE(_qtranspose, m) {
  m.doc() = "qtranspose passes, patterns and remarks for `mlir` contexts.";
  qtranspose::registerAll();

  m.def("pattern_set_names", [] {
    nb::list names;
    for (const PatternSet &set : patternSets)
      names.append(set.name);
    return names;
  });
  m.def(
      "constant_bits",
      [](MlirAttribute attribute) -> std::optional<nb::bytes> {
        auto bits = qtranspose::getConstantBits(unwrap(attribute));
        if (!bits)
          return std::nullopt;
        return nb::bytes(bits->data(), bits->size() * sizeof(uint64_t));
      },
      nb::arg("attribute"));
  m.def(
      "constant_size",
      [](MlirAttribute attribute) -> std::optional<size_t> {
        auto elements = dyn_cast<ElementsAttr>(unwrap(attribute));
        auto bytes =
            elements ? qtranspose::getConstantBytes(elements) : std::nullopt;
        return bytes ? std::optional(bytes->size()) : std::nullopt;
      },
      nb::arg("attribute"), "How many bytes a constant has in memory.");
  m.def(
      "copy_constant",
      [](MlirAttribute attribute, uintptr_t address) {
        llvm::copy(*qtranspose::getConstantBytes(
                       cast<ElementsAttr>(unwrap(attribute))),
                   reinterpret_cast<char *>(address));
      },
      nb::arg("attribute"), nb::arg("address"),
      "Copies the bytes of a constant that has a constant_size().");
  m.def("pattern_set", &makePatternSet, nb::arg("name"), nb::arg("context"));
  qtranspose::bindDequantTrace(m);
  m.def(
      "attach_encodings",
      [](MlirOperation module,
         const std::string &document) -> std::optional<std::string> {
        if (llvm::Error error = qtranspose::attachEncodings(
                cast<ModuleOp>(unwrap(module)), document))
          return llvm::toString(std::move(error));
        return std::nullopt;
      },
      nb::arg("module"), nb::arg("document"),
      "Attaches the encodings of a JSON document; returns what is wrong with "
      "it.");
  m.def(
      "export_encodings",
      [](MlirOperation module) {
        llvm::Expected<std::string> text =
            qtranspose::exportEncodings(cast<ModuleOp>(unwrap(module)));
        return text ? nb::make_tuple(true, *text)
                    : nb::make_tuple(false, llvm::toString(text.takeError()));
      },
      nb::arg("module"),
      "Returns (true, the JSON document) or (false, what is wrong).");

  nb::class_<OperationFingerPrint>(
      m, "Fingerprint",
      "Identity and contents of an operation and everything nested in it; "
      "equal fingerprints mean that nothing changed in between.")
      .def(
          "__init__",
          [](OperationFingerPrint *self, MlirOperation op) {
            new (self) OperationFingerPrint(unwrap(op));
          },
          nb::arg("operation"))
      .def("__eq__",
           [](const OperationFingerPrint &self,
              const OperationFingerPrint &other) { return self == other; });

  nb::class_<qtranspose::RemarkCollector>(
      m, "RemarkCollector",
      "Records the optimization remarks of a context until closed.")
      .def(
          "__init__",
          [](qtranspose::RemarkCollector *self, MlirContext context) {
            new (self) qtranspose::RemarkCollector(unwrap(context));
          },
          nb::arg("context"), nb::keep_alive<1, 2>())
      .def("open", &qtranspose::RemarkCollector::open,
           "Starts recording. Returns false when the context has a remark "
           "engine that is not ours.")
      .def("close", &qtranspose::RemarkCollector::close,
           "Stops recording; what was recorded can still be taken.")
      .def(
          "take",
          [](qtranspose::RemarkCollector &self) {
            nb::list records;
            for (const qtranspose::RemarkRecord &record : self.take())
              records.append(toPython(record));
            return records;
          },
          "Removes and returns what was recorded so far, as tuples (kind, "
          "name, category, pass, function, location, arguments).");
}
