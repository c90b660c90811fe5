//===- ContractionFusion.h - contractions over virtual tensors ---*- C++
//-*-===//
//
// Rewrites one contraction (or another structured op with one result) so that
// it reads the leaves of its operands' virtual tensors: the canonical form, one
// `linalg.generic` over factored dims whose operands are views of the leaves.
// Planning collects everything and touches no IR; applying a plan cannot fail.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_TRANSFORMS_CONTRACTIONFUSION_H
#define QTRANSPOSE_TRANSFORMS_CONTRACTIONFUSION_H

#include "qtranspose/Analysis/IndexSpace.h"
#include "qtranspose/Analysis/VirtualTensor.h"
#include "qtranspose/Utils/TensorView.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/PatternMatch.h"

#include <variant>

namespace mlir::qtranspose {

/// An operand of a contraction with what tracing found behind it.
struct TracedOperand {
  OpOperand *operand;
  /// Over the contraction's iteration dims.
  Expr expr;
  /// Times each element is used: the extent of the parallel dims that the
  /// operand does not have. Nothing if that is not known statically.
  std::optional<int64_t> reuse;
  /// Leaves that store a weight: constants of rank >= 2 or quantized arguments
  /// of rank >= 2.
  llvm::SmallVector<Expr> storage;
  /// True if no element is computed: the operand is a leaf, moved.
  bool isLayoutOnly() const { return expr->is(ScalarExpr::Kind::Leaf); }
  /// True if the leaf is the operand itself, seen through views.
  bool isView() const {
    return isLayoutOnly() && expr->value &&
           skipViews(expr->value) == skipViews(operand->get());
  }
  /// Why the operand has to stay although it holds a weight.
  std::optional<Refusal> refusal;
};

/// What becomes of an operand.
enum class OperandFusion {
  Keep,        ///< read as it is
  Element,     ///< its expression moves into the contraction's body
  Tile,        ///< one producer remains, marked `qtranspose.tile_fused`
  Materialize, ///< one producer remains, marked `qtranspose.materialized`
};

/// The order of a remaining producer's dims.
enum class ProducerLayout {
  AsIterated, ///< as the contraction iterates: what it adds up innermost
  KN,         ///< summed dims outside, the others inside
  NK,         ///< summed dims inside, the others outside
};

/// True for a linalg op on tensors that reduces, has one result and combines
/// with it by an addition of its body.
bool isContraction(Operation *op);

/// The extents of `op`'s loops: static if any operand says so.
llvm::SmallVector<int64_t> getLoopExtents(linalg::LinalgOp op);

/// Traces every tensor operand of `op` (not the inits).
llvm::SmallVector<TracedOperand, 0>
traceOperands(linalg::LinalgOp op, ExprPool &pool, Tracer &tracer);

class ContractionFusion {
public:
  ContractionFusion(linalg::LinalgOp op, ExprPool &pool) : op(op), pool(pool) {}

  /// Plans the rewrite with one decision per operand of `operands`. Nothing is
  /// changed.
  std::optional<Refusal>
  plan(llvm::ArrayRef<TracedOperand> operands,
       llvm::ArrayRef<OperandFusion> decisions,
       ProducerLayout layout = ProducerLayout::AsIterated);

  /// Lets plan() split iteration dim `dim` at `stride` too.
  void splitAt(unsigned dim, int64_t stride) {
    splits.push_back({dim, stride});
  }

  /// True if the plan cuts the op into several, extends a tensor, or reads one
  /// by computed indices.
  bool movesElements() const;

  /// Applies the plan and replaces the contraction, in place of which stand
  /// the contractions returned. Producers that it was the last to use are
  /// left dead: see eraseIfDead().
  llvm::SmallVector<linalg::GenericOp> apply(RewriterBase &rewriter,
                                             Location loc);

  /// True if the result's contents before the op are the same everywhere, so
  /// that it can be made in any shape.
  bool startsUniform();
  /// The extents of the factors of the output dims, in the op's order.
  llvm::SmallVector<int64_t> getOutputFactors() const;
  /// Applies a plan that moves no elements, for an op that startsUniform(): the
  /// result has one dim per factor of an output dim, with `dim(result, i)` the
  /// `permutation[i]`-th of them in the op's order. The op itself stays.
  Value applyPermuted(RewriterBase &rewriter, Location loc,
                      llvm::ArrayRef<int64_t> permutation);

private:
  /// A leaf as an operand of a generic.
  struct Input {
    Expr leaf;
    TensorView view;
    /// Zeros appended to each dim before it is seen; empty: none.
    llvm::SmallVector<int64_t> padding;
  };
  /// A generic that computes an operand for a tile-fused contraction.
  struct Producer {
    llvm::SmallVector<unsigned> factors; ///< its dims
    llvm::StringRef mark; ///< attribute that says who computes it
    Expr expr;
    llvm::SmallVector<Input, 0> inputs;
  };
  /// The contraction over a part of its iteration space.
  struct Part {
    llvm::SmallVector<int64_t> offsets; ///< per iteration dim
    IndexSpace space;
    llvm::SmallVector<Expr> bodyOperands; ///< per input of the contraction
    llvm::SmallVector<Producer, 0> producers;
    llvm::SmallVector<int> producerOf; ///< per input: index or -1
    llvm::SmallVector<Input, 0> inputs;
    TensorView output;
  };
  /// A dim that must be cut at some positions before the part can be planned.
  struct Cut {
    unsigned dim;
    llvm::SmallVector<int64_t> positions; ///< inside the dim
  };
  /// A sum that must be extended to whole groups, with terms that are zero.
  struct Extension {
    unsigned dim;
    int64_t extent;
  };
  using PartResult = std::variant<std::monostate, Cut, Extension, Refusal>;

  PartResult planPart(llvm::ArrayRef<TracedOperand> operands,
                      llvm::ArrayRef<OperandFusion> decisions,
                      llvm::ArrayRef<int64_t> offsets,
                      llvm::ArrayRef<int64_t> extents,
                      llvm::ArrayRef<int64_t> padding);
  bool canExtend(unsigned dim, llvm::ArrayRef<TracedOperand> operands,
                 llvm::ArrayRef<OperandFusion> decisions);
  Expr maskExtension(Expr expr, const IndexSpace &space,
                     llvm::ArrayRef<int64_t> extents,
                     llvm::ArrayRef<int64_t> padding);
  linalg::GenericOp applyPart(RewriterBase &rewriter, Location loc,
                              const Part &part, Value &init);
  /// The op over the factors, which writes into `init` by `outputMap`.
  linalg::GenericOp emitGeneric(RewriterBase &rewriter, Location loc,
                                const Part &part, Value init,
                                AffineMap outputMap);
  /// What the op writes into, with the dims that `outputMap` has; nothing if
  /// its contents are not the same everywhere.
  Value emitUniformInit(RewriterBase &rewriter, Location loc, const Part &part,
                        AffineMap outputMap);
  Value emitProducer(RewriterBase &rewriter, Location loc, const Part &part,
                     const Producer &producer);
  OpFoldResult getFactorSize(OpBuilder &builder, Location loc, const Part &part,
                             unsigned factor);

  linalg::LinalgOp op;
  ExprPool &pool;
  ProducerLayout layout = ProducerLayout::AsIterated;
  llvm::SmallVector<std::pair<unsigned, int64_t>> splits;
  llvm::SmallVector<Part, 0> parts;
};

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_TRANSFORMS_CONTRACTIONFUSION_H
