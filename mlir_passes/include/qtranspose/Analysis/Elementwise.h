//===- Elementwise.h - transposes, elementwise ops, dequantizations -*- C++
//-*-//
//
// What the rewrites see instead of op names: an op that only permutes
// dimensions, an op that computes each element of its result from single
// elements of its operands, and the cone of such ops above a value.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_ANALYSIS_ELEMENTWISE_H
#define QTRANSPOSE_ANALYSIS_ELEMENTWISE_H

#include "qtranspose/Utils/Remarks.h"

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SetVector.h"

#include <optional>
#include <variant>

namespace mlir::qtranspose {

template <typename T>
using OrRefusal = std::variant<T, Refusal>;

/// An op that only permutes dimensions:
/// `dim(result, i) = dim(source, permutation[i])`.
struct Transpose {
  Operation *op;
  Value source;
  SmallVector<int64_t> permutation;

  bool isOnTensors() const { return op->getNumResults() == 1; }
  Value getResult() const { return op->getResult(0); }
};

/// Matches `linalg.transpose` (of any permutation) and a `linalg.generic` that
/// yields its one input unchanged under permuted maps.
std::optional<Transpose> matchTranspose(Operation *op);

/// The transpose that defines `value`, if it is one on tensors without anything
/// (an encoding, a discardable attribute) that would be lost by looking past
/// it.
std::optional<Transpose> matchTransparentTranspose(Value value);

/// Looks past the transposes that define `value`: replaces it by their source
/// and permutes the results of `map`, which indexes it, accordingly.
void lookThroughTransposes(Value &value, AffineMap &map);

/// An op on tensors that computes each element of its single result, exactly
/// once, from one element of each input.
struct Elementwise {
  Operation *op;
  SmallVector<Value> inputs;
  /// From the op's loops to each input; scalars have no map results.
  SmallVector<AffineMap> inputMaps;
  /// From the op's loops to the result: a permutation.
  AffineMap outputMap;

  RankedTensorType getType() const {
    return cast<RankedTensorType>(op->getResult(0).getType());
  }
};

/// Matches structured ops with parallel loops and elementwise ops on tensors.
OrRefusal<Elementwise> matchElementwise(Operation *op);

/// The scalar that every element of `value` equals, if `value` is made from
/// one, and otherwise the attribute of a splat constant.
OpFoldResult getSplat(Value value);

/// Whether `op` regroups, cuts or joins elements of tensors.
bool isDataMovement(Operation *op);

/// The elementwise ops a value is computed by, looking past transposes.
struct DequantCone {
  /// Tensors and scalars the cone reads.
  llvm::SetVector<Value> leaves;
};

/// Analyzes the cone above `value`. Refused unless it is a dequantization: a
/// stored value of the cone's full rank is converted on the way to `value`,
/// and everything else is a parameter.
OrRefusal<DequantCone> matchDequantization(Value value);

/// Whether the elementwise op that owns `use` converts a stored value read
/// through `use`, itself or in its single user.
bool convertsStoredValue(OpOperand &use);

/// Whether weights are stored with elements of this type: integers, and floats
/// of less than 32 bits.
bool isStorageType(Type element);

/// Whether `value` is a constant, an argument of the enclosing function, or
/// computed from these without reductions, calls, control flow or effects.
bool isParameter(Value value);

/// Bits that one element of `type` takes; 64 where that is not defined.
unsigned getElementBits(Type type);

/// Bits read from the leaves of `cone` per element of `value`. Tensors of lower
/// rank whose relative size is not known count as nothing.
double getBitsReadPerElement(const DequantCone &cone, Value value);

/// The discardable attributes of `op`, without linalg's own cache of maps.
SmallVector<NamedAttribute> getDiscardableAttrs(Operation *op);

/// Shorthand for the losing alternative of `OrRefusal`.
Refusal refuse(Reason reason, const llvm::Twine &detail);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_ANALYSIS_ELEMENTWISE_H
