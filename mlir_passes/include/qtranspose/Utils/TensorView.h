//===- TensorView.h - tensors seen over the factors of a space ---*- C++
//-*-===//
//
// A leaf whose coordinates are linear forms over the factors of an index space
// is seen over those factors by metadata ops alone: a slice for what is not
// read, a collapse for unit dims, an expand for dims that hold several
// factors.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_UTILS_TENSORVIEW_H
#define QTRANSPOSE_UTILS_TENSORVIEW_H

#include "qtranspose/Analysis/IndexSpace.h"

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::qtranspose {

/// How a tensor is seen over factors; made without touching IR.
struct TensorView {
  /// One dim of the view: a factor, or a fixed index of a dim that is split
  /// off and sliced away.
  struct Part {
    int64_t extent;
    std::optional<unsigned> factor;
    int64_t index = 0;
  };
  /// What happens to one dim of the source.
  struct SourceDim {
    int64_t offset = 0, size = 0, stride = 1; ///< the slice that is read
    llvm::SmallVector<Part, 2> parts;         ///< outermost first; none: unit
  };
  llvm::SmallVector<SourceDim> dims;
  bool needsSlice = false;
  /// Set if metadata ops cannot do it: the source as it is, read by `map`.
  bool isDirect = false;
  /// From factors to the dims of the view.
  AffineMap map;

  /// True if the source is used as it is.
  bool isIdentity() const;
};

/// The view of a tensor of `type` at `coordinates`. If no view exists (two
/// factors overlap, as in a convolution), the result is direct where
/// `allowDirect`, else nothing.
std::optional<TensorView> planView(ShapedType type,
                                   llvm::ArrayRef<LinearForm> coordinates,
                                   const IndexSpace &space,
                                   MLIRContext *context, bool allowDirect);

/// Emits the view of `source`.
Value buildView(OpBuilder &builder, Location loc, Value source,
                const TensorView &view);

/// Emits the inverse: `result` has the view's shape; the value returned has
/// the shape of the (sliced) source, `like`.
Value buildInverseView(OpBuilder &builder, Location loc, Value result,
                       const TensorView &view, Value like);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_TENSORVIEW_H
