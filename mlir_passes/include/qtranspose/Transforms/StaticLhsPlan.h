//===- StaticLhsPlan.h - the rewrite of one contraction ----------*- C++
//-*-===//
//
// Plans and applies `W @ A = (A^T @ W^T)^T` for one contraction. What an
// iteration dim is follows from the operands that vary along it:
//
//   row     of the activation and the result: N, and batches that share W
//   column  of the weight and the result:     M
//   sum     of both, summed:                  K
//   pair    of all three: batches that have weights of their own
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_TRANSFORMS_STATICLHSPLAN_H
#define QTRANSPOSE_TRANSFORMS_STATICLHSPLAN_H

#include "qtranspose/Analysis/MultiplyAdd.h"
#include "qtranspose/Transforms/ContractionFusion.h"
#include "qtranspose/Transforms/ResultTail.h"
#include "qtranspose/Transforms/StaticLhsToRhs.h"
#include "qtranspose/Utils/Relayout.h"

#include "mlir/Dialect/Quant/IR/QuantTypes.h"

namespace mlir::qtranspose {

struct StaticLhsOptions {
  BatchForm batch = BatchForm::Flatten;
  PairedBatches pairedBatches = PairedBatches::Keep;
  PlanStep failAt = PlanStep::None;
};

/// Weights that were moved, to be shared by the contractions that read them.
using MovedWeights = llvm::DenseMap<std::pair<Value, Attribute>, Value>;

class StaticLhsPlan {
public:
  /// Functions outside `root`, if given, are not traced into.
  StaticLhsPlan(linalg::LinalgOp op, const StaticLhsOptions &options,
                Operation *root = nullptr)
      : op(op), options(options), root(root), pool(op->getContext()),
        tracer(pool, root) {
    tracer.enterDecided();
  }

  /// Whether a weight is on the left; of anything else the rewrite keeps
  /// silent. `refusal` is set where that alone rules the rewrite out.
  bool matchWeight(std::optional<Refusal> &refusal);

  /// Plans everything. Nothing is changed.
  std::optional<Refusal> plan();

  /// What the plan does, for a remark.
  std::string describe() const;

  /// Why an op after the contraction keeps the old layout, if one does that
  /// might have taken the new one.
  const std::optional<Refusal> &getTailStop() const { return tail->stopReason; }

  /// Applies the plan, which cannot fail. `read` gets what the replaced ops
  /// read, which may be dead now.
  void apply(RewriterBase &rewriter, DerivedConstants &constants,
             MovedWeights &moved, llvm::SmallVectorImpl<Value> &read);

private:
  using Dims = llvm::SmallVector<unsigned>;
  using Groups = llvm::SmallVector<DimGroup>;
  /// The op that takes the new operands; `None` stands for a generic.
  enum class NamedOp {
    None,
    Matmul,
    Vecmat,
    Matvec,
    Dot,
    BatchMatmul,
    BatchVecmat,
    BatchMatvec,
    QuantizedMatmul,
    QuantizedBatchMatmul,
  };
  /// The activation and the result for one order of the row dims.
  struct RowOrder {
    Groups rows;
    Relayout activation;
    ResultTail tail;
    unsigned numTransposes;
  };

  llvm::SmallVector<AffineExpr> getCoordinates(OpOperand &operand);
  Expr substituteUnits(Expr expr);
  bool isWeightLeftOfRows();
  /// Whether `operand` varies along every dim that `other` varies along.
  bool variesAlongDimsOf(OpOperand *operand, OpOperand *other);

  std::optional<Refusal> planShapes(bool traced);
  std::optional<Refusal> planRows();
  std::optional<RowOrder> planRowOrder(llvm::ArrayRef<unsigned> rows,
                                       Expr source, unsigned numUpstream,
                                       std::optional<Refusal> &refusal);
  std::optional<Refusal> planWeight();
  bool planQuantizedWeight();
  std::optional<Refusal> planAttributes();
  void planDescription();
  std::optional<Refusal> planInit();
  void planLowering();

  /// Groups of the new operands: activation [pairs, rows, sums], weight
  /// [pairs, sums, columns], result [pairs, rows, columns].
  Groups getWeightGroups() const;
  Groups getActivationGroups(const Groups &rowGroups) const;
  Groups keepOwn(Groups groups, llvm::ArrayRef<AffineExpr> coordinates) const;
  Groups join(const Groups &a, const Groups &b, const Groups &c) const;
  Groups group(llvm::ArrayRef<unsigned> dims) const;
  llvm::ArrayRef<AffineMap> getNewMaps(llvm::SmallVectorImpl<AffineMap> &maps);

  Value emitInit(RewriterBase &rewriter, Location loc, Value activation,
                 Value weight, DerivedConstants &constants);
  Value emitWeight(RewriterBase &rewriter, Location loc,
                   DerivedConstants &constants, MovedWeights &moved);
  Value emitQuantizedWeight(RewriterBase &rewriter, Location loc,
                            DerivedConstants &constants);
  Operation *emitContraction(RewriterBase &rewriter, Location loc,
                             Value activation, Value weight, Value init);
  linalg::GenericOp emitGeneric(RewriterBase &rewriter, Location loc,
                                Value activation, Value weight, Value init);
  Value splitResult(RewriterBase &rewriter, Location loc, Value result);
  OpFoldResult getSize(OpBuilder &builder, Location loc, unsigned dim);

  linalg::LinalgOp op;
  StaticLhsOptions options;
  Operation *root;
  ExprPool pool;
  Tracer tracer;
  llvm::SmallVector<int64_t> extents; ///< of the iteration dims
  /// Iteration dims of extent one that only occur in sums (the window of a 1x1
  /// convolution).
  llvm::SmallDenseSet<unsigned> unitDims;

  OpOperand *weight = nullptr;
  OpOperand *activation = nullptr;
  llvm::SmallVector<OpOperand *> others; ///< zero points and other parameters
  /// Whether dims of one role become one dim.
  bool isFlat = true;
  Expr weightExpr = nullptr;
  /// A weight of a quantized type is moved as what it stores, which then gets a
  /// type whose axes moved along.
  struct Quantized {
    Value value;                ///< of the quantized type
    RankedTensorType storage;   ///< what it stores
    quant::QuantizedType moved; ///< the element type afterwards
  };
  std::optional<Quantized> quantized;
  MultiplyAdd body;
  llvm::SmallVector<AffineExpr> weightMap, activationMap;
  Dims resultMap; ///< iteration dims of the result's dims

  Dims pairDims, rowDims, columnDims, sumDims;
  Groups pairs, rows, columns, sums;
  std::optional<Relayout> weightLayout, activationLayout, initLayout;
  std::optional<ResultTail> tail;
  NamedOp namedOp = NamedOp::None;
};

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_TRANSFORMS_STATICLHSPLAN_H
