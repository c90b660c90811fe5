//===- ZeroPointCompensation.h - what zero points add to a sum ---*- C++
//-*-===//
//
//   sum_k (A - za)(W - zw) = sum_k A W + compensation
//   compensation = -za (sum_k W - K zw) - zw sum_k A
//
// The operands are explicit: expressions over loops, not the operands of an op.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_TRANSFORMS_ZEROPOINTCOMPENSATION_H
#define QTRANSPOSE_TRANSFORMS_ZEROPOINTCOMPENSATION_H

#include "qtranspose/Analysis/Elementwise.h"
#include "qtranspose/Analysis/QuantizedContraction.h"
#include "qtranspose/Utils/LoopNest.h"

namespace mlir::qtranspose {

/// A factor of a quantized sum, over its loops.
struct CompensatedOperand {
  Expr stored; ///< as it is read at run time
  Expr folded; ///< the same, down to constants where there are any
  bool isSigned;
  llvm::ArrayRef<QuantizedFactor::Term> zeroPoint;
};

/// The sum that is compensated.
struct CompensatedSum {
  std::array<CompensatedOperand, 2> operands;
  unsigned weight;                    ///< which of them is the weight
  llvm::SmallVector<int64_t> extents; ///< of the loops
  llvm::SmallVector<unsigned> summed; ///< loops
  AffineMap output; ///< from the loops to the result; its dims are loops
  IntegerType type; ///< of the sum, modulo which everything is
};

/// Integers over some loops, row by row.
struct ConstantGrid {
  llvm::SmallVector<unsigned> loops;
  llvm::SmallVector<int64_t, 0> values;
};

class ZeroPointCompensation {
public:
  /// Plans without touching IR. The sum must outlive the plan.
  static OrRefusal<ZeroPointCompensation> plan(const CompensatedSum &sum,
                                               ExprPool &pool);

  /// Adds a constant, such as a bias, to the compensation.
  void add(const ConstantGrid &grid);
  bool isZero() const { return constants.empty() && products.empty(); }

  /// Emits `init` (zero if null) plus the compensation, into `empty`. The
  /// sizes of loops that are dynamic are asked for.
  Value
  emit(OpBuilder &builder, Location loc, Value init, Value empty,
       llvm::function_ref<OpFoldResult(OpBuilder &, unsigned)> getSize) const;

  /// For the remark, e.g. `-za*sum(W) [constant]`.
  void describe(llvm::raw_ostream &os) const;

private:
  /// The sum of an operand, at run time.
  struct RunTimeSum {
    llvm::SmallVector<unsigned> kept;  ///< loops of the result
    llvm::SmallVector<unsigned> loops; ///< of the reduction, as it is stored
    llvm::SmallVector<unsigned> uncovered; ///< that no input has the size of
    Expr stored;                           ///< over the positions in `loops`
    bool isSigned;
    llvm::SmallVector<LoopInput, 0> inputs;
    int64_t multiplicity; ///< times each element counts
  };
  /// `-zero * (sum - length * lengthZero)`.
  struct Product {
    Expr zero;
    Expr constant = nullptr; ///< the sum, if it is known
    std::optional<RunTimeSum> sum;
    Expr lengthZero = nullptr;
    unsigned operand; ///< of which the sum is
  };

  ZeroPointCompensation(const CompensatedSum &sum, ExprPool &pool)
      : sum(sum), pool(pool) {}
  std::optional<Refusal> plan();
  std::optional<ConstantGrid> foldZeroPoint(unsigned operand);
  Expr getZeroPoint(unsigned operand);
  Expr asExpr(const ConstantGrid &grid);
  std::optional<Refusal> planSum(unsigned operand, Product &product,
                                 std::optional<ConstantGrid> &folded);
  Value emitSum(
      OpBuilder &builder, Location loc, const RunTimeSum &sum,
      llvm::function_ref<OpFoldResult(OpBuilder &, unsigned)> getSize) const;

  Value emitLength(
      OpBuilder &builder, Location loc,
      llvm::function_ref<OpFoldResult(OpBuilder &, unsigned)> getSize) const;

  const CompensatedSum &sum;
  ExprPool &pool;
  llvm::SmallVector<ConstantGrid> constants;
  llvm::SmallVector<Product, 2> products;
  /// Operands whose sums are in `constants`.
  llvm::SmallVector<unsigned, 2> foldedOperands;
};

/// `value`, extended or truncated.
Value convertInteger(OpBuilder &builder, Location loc, Value value, Type type,
                     bool isSigned);

/// The loops whose size no result of `maps` is.
llvm::SmallVector<unsigned> getUncoveredLoops(unsigned numLoops,
                                              llvm::ArrayRef<AffineMap> maps);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_TRANSFORMS_ZEROPOINTCOMPENSATION_H
