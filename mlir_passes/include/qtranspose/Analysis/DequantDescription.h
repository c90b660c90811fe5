//===- DequantDescription.h - what a dequantization means --------*- C++
//-*-===//
//
// Says how the elements of a traced tensor are made from stored bits: where the
// bits lie, what they are as a number, and the steps from that number to the
// element, each with the scale, zero point, minimum or codebook it applies and
// the axes and groups along which that varies. Everything is read off the
// expression: element types, bits followed through shifts and masks, and the
// dependence of coordinates on the dims of the tensor.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_ANALYSIS_DEQUANTDESCRIPTION_H
#define QTRANSPOSE_ANALYSIS_DEQUANTDESCRIPTION_H

#include "qtranspose/Analysis/VirtualTensor.h"

#include <memory>
#include <vector>

namespace mlir::qtranspose {

/// Varies along `axis`: one value per `size` consecutive positions, the last
/// group being shorter where they do not divide it.
struct AxisGroup {
  unsigned axis;
  int64_t size;
};

/// Where the bits of an element lie and what they are.
struct StoredField {
  /// A Leaf or Gather: the word that holds the bits.
  Expr word;
  /// The stored number: a float type, or an integer type of the field's width
  /// that is signless if nothing says how its top bit is read.
  Type type;
  /// The elements of a word: `count` of them, `stride` positions of `axis`
  /// apart; for several lanes, outermost first.
  struct Lane {
    unsigned axis;
    int64_t stride, count;
  };
  llvm::SmallVector<Lane, 1> lanes;
  /// Lowest bit of each element of a word, in the order of the lanes.
  llvm::SmallVector<unsigned, 8> bitOffsets;

  unsigned getWidth() const { return type.getIntOrFloatBitWidth(); }
  /// True if a word is one element.
  bool isWholeWord() const;
  /// Element held by each place of the word, lowest bits first: 0, 1 for the
  /// low nibble first. Empty if elements are not at multiples of their width.
  llvm::SmallVector<unsigned> getOrder() const;
};

struct DequantDescription;

/// One operation on the way from the stored number to the element.
struct DequantStep {
  enum class Kind {
    Cast, ///< to a float type, from an integer or another float type
    Add,
    Subtract,
    SubtractFrom, ///< operand - value
    Multiply,
    Divide,
    Negate,
    Lookup, ///< the element of the table `operand` at the value
  };
  Kind kind;
  /// The type of the result and, except for casts and lookups, what is computed
  /// in. Signless integers are signed here; they wrap around.
  Type type;
  /// Null for casts and negations.
  std::shared_ptr<const DequantDescription> operand;
};

/// A number that is computed from one stored element; also what is applied to
/// it on the way, such as scales, which may be quantized themselves.
struct DequantDescription {
  enum class Kind {
    Stored,        ///< `field`, then `steps`
    Constant,      ///< `constant`, then `steps`
    Scalar,        ///< an SSA scalar, then `steps`
    Concatenation, ///< `parts` along `axis`, nothing else
    Expression,    ///< none of these: only `expr` says what it is
  };
  Kind kind;
  /// All of it, over the dims of the described tensor.
  Expr expr;
  std::optional<StoredField> field;
  TypedAttr constant;
  /// Along what the field (for an expression: anything in it) varies; nothing
  /// if that is no set of groups of consecutive positions.
  std::optional<llvm::SmallVector<AxisGroup>> axes;
  std::vector<DequantStep> steps;
  /// A concatenation: part `p` covers [breaks[p], breaks[p + 1]) of `axis`, and
  /// its description counts from breaks[p].
  struct Part {
    llvm::SmallVector<int64_t> shape;
    std::shared_ptr<const DequantDescription> description;
  };
  unsigned axis = 0;
  llvm::SmallVector<int64_t> breaks;
  std::vector<Part> parts;

  Type getType() const { return expr->type; }
};

/// Describes `expr`, over dims of the extents `shape`. Nothing if it reads no
/// quantized storage: integers of 2 to 32 bits, or floats of at most 8, that
/// are constants or arguments.
std::optional<DequantDescription>
describeDequantization(ExprPool &pool, Expr expr,
                       llvm::ArrayRef<int64_t> shape);

/// Prints `description`, of a tensor of the extents `shape`, on one line, e.g.
/// `int4 (ui4 in i8, 2 per byte along axis 1, low nibble first) [4096x4096],
/// zero point 8, scale f16 per axis 0 and group 128 on axis 1`.
void printDescription(const DequantDescription &description,
                      llvm::ArrayRef<int64_t> shape, llvm::raw_ostream &os);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_ANALYSIS_DEQUANTDESCRIPTION_H
