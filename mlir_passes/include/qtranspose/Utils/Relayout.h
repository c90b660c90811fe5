//===- Relayout.h - a traced value in another dim order ----------*- C++
//-*-===//
//
// Writes a value, given as an expression over iteration dims, as a tensor whose
// dims are groups of these iteration dims:
//
//   w[m, k] of `mulf(sitofp(q[m, k]), s[m, 0])`, groups {{k}, {m}}
//   -> a generic over (k, m) that reads q^T (a derived constant) and s
//
// What only moves is moved (views and one transpose, or a derived constant);
// what is computed is computed in the wanted order.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_UTILS_RELAYOUT_H
#define QTRANSPOSE_UTILS_RELAYOUT_H

#include "qtranspose/Analysis/Elementwise.h"
#include "qtranspose/Analysis/IndexSpace.h"
#include "qtranspose/Analysis/VirtualTensor.h"
#include "qtranspose/Utils/DerivedConstants.h"
#include "qtranspose/Utils/TensorView.h"

namespace mlir::qtranspose {

/// Iteration dims that one dim of a result runs over, outermost first.
using DimGroup = llvm::SmallVector<unsigned, 2>;

/// The product of the extents of `group` (dynamic if any is); nothing if that
/// overflows.
std::optional<int64_t> getGroupExtent(llvm::ArrayRef<int64_t> extents,
                                      llvm::ArrayRef<unsigned> group);

/// Merges neighbouring dims of `value`, `counts[i]` of them into dim `i` of the
/// result (a unit dim where that is zero). Undoes an `expand_shape` if it can.
Value mergeDims(OpBuilder &builder, Location loc, Value value,
                llvm::ArrayRef<unsigned> counts);

/// `linalg.transpose` with `dim(result, i) = dim(value, permutation[i])`, or
/// `value` itself if that changes nothing.
Value transpose(OpBuilder &builder, Location loc, Value value,
                llvm::ArrayRef<int64_t> permutation);

class Relayout {
public:
  /// Plans `expr` over iteration dims of the given extents. Every dim that
  /// `expr` reads must be in a group.
  static OrRefusal<Relayout> plan(ExprPool &pool, Expr expr,
                                  llvm::ArrayRef<int64_t> extents,
                                  llvm::ArrayRef<DimGroup> groups);

  /// Emits the result. Derived constants go to the start of the function around
  /// `user`, all else to the insertion point. A tensor that is moved may be
  /// replaced by another one of the same shape, `source`.
  Value apply(RewriterBase &rewriter, Location loc, Operation *user,
              DerivedConstants &constants, Value source = {}) const;

  /// Adds `entries` to the provenance of what is derived from `source`.
  void describe(Value source, llvm::ArrayRef<NamedAttribute> entries);

  RankedTensorType getType() const { return type; }
  /// Whether elements are moved at run time.
  bool isTransposed() const;
  /// Whether all of a tensor is moved, and nothing else happens.
  bool isBijection() const {
    return kind == Kind::Move && !inputs.front().view.needsSlice;
  }
  /// Whether the result is a constant.
  bool isDerived() const { return kind == Kind::Derive; }
  /// Whether a scalar operation is executed per element.
  bool isComputed() const { return kind == Kind::Compute; }
  /// The ops that compute elements get these attributes.
  llvm::SmallVector<NamedAttribute> attributes;

private:
  enum class Kind {
    Splat,   ///< one scalar everywhere
    Derive,  ///< a constant whose data are known, moved
    Move,    ///< a tensor, moved
    Compute, ///< a generic over the factors of the groups
  };
  /// A leaf of a computed expression.
  struct Input {
    Expr leaf;
    TensorView view;
    /// What stands in for the leaf, if its elements are re-ordered before the
    /// program runs; the view is then one of this.
    std::optional<DerivedSpec> derived;
  };
  Relayout(ExprPool &pool, Expr expr, const IndexSpace &space)
      : pool(&pool), expr(expr), space(space) {}

  using Forms = llvm::SmallVector<LinearForm>;
  Expr overFactors(Expr root);
  std::optional<Refusal> planInput(Expr leaf, const Forms &forms);
  bool coversGroups(const Forms &forms) const;
  std::optional<DerivedSpec>
  planDerived(Expr leaf, const Forms &forms,
              llvm::ArrayRef<llvm::SmallVector<unsigned>> dims) const;
  /// The factors of all groups in order.
  llvm::SmallVector<unsigned> getLocalFactors() const;
  OpFoldResult getFactorSize(OpBuilder &builder, Location loc,
                             unsigned factor) const;
  Value buildInput(RewriterBase &rewriter, Location loc, Operation *user,
                   const Input &input, DerivedConstants &constants) const;
  Value applyCompute(RewriterBase &rewriter, Location loc, Operation *user,
                     DerivedConstants &constants) const;
  Value applyMove(RewriterBase &rewriter, Location loc, Value source) const;
  Value regroup(OpBuilder &builder, Location loc, Value value) const;
  /// The order in which a moved tensor's view has to be read.
  llvm::SmallVector<int64_t> getPermutation() const;

  ExprPool *pool;
  Expr expr;
  IndexSpace space;
  Kind kind = Kind::Compute;
  RankedTensorType type;
  /// Factors of each group, in order; units have none.
  llvm::SmallVector<llvm::SmallVector<unsigned>> groups;
  llvm::SmallVector<Input, 0> inputs;
  /// Where the size of a dynamic factor can be read.
  llvm::DenseMap<unsigned, std::pair<Value, int64_t>> sizes;
};

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_RELAYOUT_H
