//===- LoopNest.h - generics from expressions over loops ---------*- C++
//-*-===//
//
// Builds `linalg.generic` ops whose inputs are the leaves of expressions over
// common loops. A leaf is read as it is where its coordinates are loops, and
// else through a view.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_UTILS_LOOPNEST_H
#define QTRANSPOSE_UTILS_LOOPNEST_H

#include "qtranspose/Analysis/VirtualTensor.h"
#include "qtranspose/Utils/TensorView.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace mlir::qtranspose {

/// A leaf as an input of a generic over some loops.
struct LoopInput {
  Expr leaf;
  std::optional<TensorView> view; ///< none: as it is
  AffineMap map;                  ///< from the loops
};

/// Whether every coordinate of `leaf` is a loop of the extent of that dim, or
/// the only index of a unit dim.
bool isReadWhole(Expr leaf, llvm::ArrayRef<int64_t> extents);

/// Plans the inputs for the leaves of `exprs`, which are over loops of the
/// given extents. Nothing if one can neither be read nor seen, or
/// elements are gathered by computed indices.
std::optional<llvm::SmallVector<LoopInput, 0>>
planInputs(llvm::ArrayRef<Expr> exprs, llvm::ArrayRef<int64_t> extents,
           MLIRContext *context);

/// The value that `input` is read from.
Value buildInput(OpBuilder &builder, Location loc, const LoopInput &input);

/// Emits a generic whose body gets the values of `exprs` and of the init.
linalg::GenericOp buildGeneric(
    OpBuilder &builder, Location loc, llvm::ArrayRef<LoopInput> inputs,
    llvm::ArrayRef<Expr> exprs,
    llvm::ArrayRef<std::pair<Value, AffineMap>> extraInputs, Value init,
    AffineMap initMap, llvm::ArrayRef<utils::IteratorType> iterators,
    llvm::function_ref<Value(OpBuilder &, Location, llvm::ArrayRef<Value> exprs,
                             ValueRange extras, Value init)>
        body);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_UTILS_LOOPNEST_H
