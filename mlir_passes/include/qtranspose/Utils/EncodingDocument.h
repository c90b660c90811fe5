//===- EncodingDocument.h - quantization encodings as JSON -------*- C++
//-*-===//
//
// The files that quantization tools write beside a float model (AIMET, and the
// overrides of QNN converters). Up to version 0.6.1 the sections are objects:
//
//   {"version": "0.6.1",
//    "activation_encodings": {"x": [{"bitwidth": 8, "dtype": "int",
//                                    "is_symmetric": "False", "scale": 0.02,
//                                    "offset": -128, "min": .., "max": ..}]},
//    "param_encodings": {"w": [one per channel, ...]}}
//
// and in a layer's own form an activation is
// `"layer": {"input": {"0": {..}}, "output": {"0": {..}}}`. From version 1.0.0
// they are lists:
//
//    "param_encodings": [{"name": "w", "bw": 8, "dtype": "INT", "is_sym": true,
//                         "enc_type": "PER_CHANNEL", "scale": [..],
//                         "offset": [..]}]
//
// Everything else in the file is kept as it is.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_UTILS_ENCODINGDOCUMENT_H
#define QTRANSPOSE_UTILS_ENCODINGDOCUMENT_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <optional>
#include <string>

namespace mlir::qtranspose {

/// How one tensor is quantized: `real = scale * (stored + offset)`, where
/// stored is unsigned and offset is the negated zero point of that.
struct Encoding {
  /// Which tensor of a layer the encoding is of, if it names a layer.
  enum class Port { None, Input, Output };

  std::string name;
  bool isParameter = false;
  bool isFloat = false; ///< not quantized; only `bitwidth` counts
  bool isSymmetric = false;
  int64_t bitwidth = 0;
  llvm::SmallVector<double, 1> scales;   ///< one, or one per channel
  llvm::SmallVector<int64_t, 1> offsets; ///< as many, or none
  std::optional<int64_t> axis;           ///< if the file says it
  std::optional<int64_t> blockSize;      ///< along the dim that is summed over
  Port port = Port::None;
  unsigned portNumber = 0;

  bool isPerChannel() const { return scales.size() > 1; }
};

/// A parameter under another name, perhaps in another order.
struct MovedEncoding {
  std::string name;
  std::optional<int64_t> axis, blockAxis;
  /// The channel of the source at each position along `axis`; empty: as it is.
  llvm::SmallVector<int64_t> channels;
};

class EncodingDocument {
public:
  /// Reads a document; the error is one line.
  static llvm::Expected<EncodingDocument> parse(llvm::StringRef text);

  llvm::ArrayRef<Encoding> getEncodings() const { return encodings; }

  /// Adds `moved`, made from the entry of the parameter `name`, which then goes
  /// unless it is kept. An entry of a name that is taken gets a number.
  void replaceParameter(llvm::StringRef name,
                        llvm::ArrayRef<MovedEncoding> moved,
                        bool keepsOriginal);

  /// The document as JSON text: on one line, or indented.
  std::string print(unsigned indent) const;

private:
  llvm::json::Object root;
  llvm::SmallVector<Encoding, 0> encodings;
};

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_ENCODINGDOCUMENT_H
