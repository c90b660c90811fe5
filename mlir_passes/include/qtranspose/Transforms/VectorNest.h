//===- VectorNest.h - linalg ops as vector loops ----------------*- C++ -*-===//
//
// Emits one structured op on tensors as loops over vectors: one iteration
// dim is the lane dim, blocks of other dims are unrolled, and what the body
// computes is placed in the outermost loop that has its dims, once per block.
// Sums live in vectors that the reduction loops carry.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_TRANSFORMS_VECTORNEST_H
#define QTRANSPOSE_TRANSFORMS_VECTORNEST_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/PatternMatch.h"

#include <vector>

namespace mlir::qtranspose {

/// How a structured op becomes loops.
struct VectorSchedule {
  /// The dim that lies along vectors. If it is summed over, each lane has a sum
  /// of its own, and these are added at the end.
  unsigned lane = 0;
  /// Elements per vector.
  int64_t width = 1;
  /// The dims that are looped over, outermost first: parallel ones, the lane
  /// dim the last of them if it is parallel, then the summed ones in their
  /// order (a lane dim that is summed comes last).
  llvm::SmallVector<unsigned> order;
  /// Per dim, how many neighbours are computed together (1: one by one). The
  /// lane dim has 1.
  llvm::SmallVector<int64_t> block;
  /// Inputs that are not read: the op that computes them is a sum whose
  /// elements are used once, and is computed where they are. Its schedule
  /// orders the summed dims only; its lane dim is the one that this op reads it
  /// along, and parallel dims are in blocks as this op's are.
  std::vector<VectorSchedule> sums;
  /// Of such a sum: the number of the input.
  unsigned input = 0;
  /// Flags added to floating-point multiplications and additions.
  arith::FastMathFlags flags = arith::FastMathFlags::none;
};

/// True if every op of the body can be computed on vectors.
bool hasVectorBody(linalg::LinalgOp op);

/// Emits `op`, whose body hasVectorBody(), by `schedule` and replaces it. Its
/// outputs must be indexed by exactly its parallel dims, each once. Sums that
/// it computes itself are left dead.
void emitVectorNest(RewriterBase &rewriter, linalg::LinalgOp op,
                    const VectorSchedule &schedule);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_TRANSFORMS_VECTORNEST_H
