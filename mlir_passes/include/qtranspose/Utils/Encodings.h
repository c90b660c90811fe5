//===- Encodings.h - encodings in the IR -------------------------*- C++
//-*-===//
//
// `qtranspose-attach-encodings` writes an encoding to what stores or computes
// the tensor, as the attribute
//
//   qtranspose.encoding = {name = "w", role = "parameter", bitwidth = 8 : i64,
//                          scale = array<f64: ..>, offset = array<i64: ..>,
//                          axis = 0 : i64, ...}
//
// of a constant, a global, an argument or an op, and the whole document to the
// module. A derived constant has the moved encoding as the entry `encoding` of
// `qtranspose.derived`.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_UTILS_ENCODINGS_H
#define QTRANSPOSE_UTILS_ENCODINGS_H

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace mlir::qtranspose {

/// The encoding of one tensor.
constexpr llvm::StringLiteral encodingAttrName = "qtranspose.encoding";
/// The document, on the module.
constexpr llvm::StringLiteral encodingsAttrName = "qtranspose.encodings";

/// The encoding of the constant that a constant or a load of a global reads;
/// null if it has none.
DictionaryAttr getEncoding(Operation *op);

/// `encoding`, of a tensor of `sourceShape`, as that of a tensor of `shape`
/// whose coordinates `map` takes to those of the first. Null if the channels do
/// not lie along one dim of it.
DictionaryAttr moveEncoding(DictionaryAttr encoding, AffineMap map,
                            llvm::ArrayRef<int64_t> sourceShape,
                            llvm::ArrayRef<int64_t> shape);

/// Attaches the encodings of a JSON document to the tensors of `module`; those
/// attached before are replaced. The error is one line, with the module as it
/// was.
llvm::Error attachEncodings(ModuleOp module, llvm::StringRef document);

/// The document that was attached, with the parameters named and laid out as
/// they are now.
llvm::Expected<std::string> exportEncodings(ModuleOp module);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_ENCODINGS_H
