//===- DerivedConstants.h - constants computed at compile time ---*- C++
//-*-===//
//
// A transposed constant is a value of its own: new data, the map from its
// coordinates to those of the constant it is made from, and where it came from,
// readable in the IR as the attribute
//
//   qtranspose.derived = {map = affine_map<(d0, d1) -> (d1, d0)>,
//                         source = "name", source_type = tensor<2x3xi8>, ...}
//
// Equal requests share one constant per function and one copy of the data. What
// decides is content, type, map, description and storage format, never a name.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_UTILS_DERIVEDCONSTANTS_H
#define QTRANSPOSE_UTILS_DERIVEDCONSTANTS_H

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::qtranspose {

/// Says where a derived constant came from.
constexpr llvm::StringLiteral derivedAttrName = "qtranspose.derived";

/// A gather of the elements of a row-major source. Result element `i`
/// (row-major over `extents`) is source element `offset + sum_l index_l *
/// strides[l]`.
struct StridedGather {
  llvm::SmallVector<int64_t> extents, strides;
  int64_t offset = 0;
};

/// What is known of a constant tensor at compile time.
struct ConstantData {
  /// `DenseElementsAttr` or `DenseResourceElementsAttr`.
  ElementsAttr elements;
  /// How the program calls it: a resource key, a symbol, or empty.
  llvm::StringRef name;
  /// Where it is derived from itself, if it is.
  DictionaryAttr derived;
  /// Its `qtranspose.encoding`, if it has one.
  DictionaryAttr encoding;
};

/// `source`, whose data are known and re-orderable, in the order of `gather`.
/// The result lies in memory as the source does: inline data stay inline,
/// resources stay resources, packed elements stay packed.
ElementsAttr gatherElements(ElementsAttr source, RankedTensorType type,
                            const StridedGather &gather);

/// The data of `value` if it is a constant or an immutable global whose data
/// are present and in a format that can be re-ordered.
std::optional<ConstantData> getConstantData(Value value);

/// A request for a derived constant.
struct DerivedSpec {
  ConstantData source;
  RankedTensorType type; ///< of the result
  StridedGather gather;
  /// From the result's coordinates to the source's.
  AffineMap map;
  /// Further entries of the attribute: the quantization that moved along.
  llvm::SmallVector<NamedAttribute> description;
};

class DerivedConstants {
public:
  /// Creates the constant, or returns an equal one, in the entry block of the
  /// function around `user`, where it dominates all of it.
  Value get(RewriterBase &rewriter, Operation *user, Location loc,
            const DerivedSpec &spec);

private:
  struct Computed {
    ElementsAttr source;
    AffineMap map;
    ElementsAttr value;
  };
  struct Placed {
    ElementsAttr value;
    Attribute provenance;
    Operation *op;
  };
  ElementsAttr compute(const DerivedSpec &spec);
  llvm::SmallVector<Placed> &getPlaced(Block *block);

  /// By hash of the request; entries with equal hashes are compared.
  llvm::DenseMap<uint64_t, llvm::SmallVector<Computed, 0>> computed;
  llvm::DenseMap<Block *, llvm::SmallVector<Placed>> placed;
};

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_DERIVEDCONSTANTS_H
