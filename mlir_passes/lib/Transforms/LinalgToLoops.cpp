//===- LinalgToLoops.cpp - loops that keep sums in registers --------------===//
//
// Linalg ops and strided copies on buffers become scf.for nests. Upstream's
// lowering stores every partial sum, which LLVM cannot keep in a register
// because it does not know that buffers are distinct. Here the loops are
// ordered so that either
//   * reductions are innermost and carry the sums as loop values, or
//   * the innermost loop runs along contiguous elements of output and input,
//     which LLVM vectorizes.
// Neither changes the order in which one output element's terms are added.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_LINALGTOLOOPS
#include "qtranspose/Passes.h.inc"

namespace {
using namespace linalg;

/// Loop dims, outermost first. The last `carried` of them carry the outputs as
/// loop values.
struct LoopOrder {
  SmallVector<unsigned> dims;
  unsigned carried = 0;
};

/// True if every output element is visited by one point of the parallel dims.
bool outputsAreParallelDims(LinalgOp op) {
  unsigned parallel = op.getNumParallelLoops();
  return llvm::all_of(op.getDpsInitsMutable(), [&](OpOperand &init) {
    AffineMap map = op.getMatchingIndexingMap(&init);
    if (!map.isProjectedPermutation() || map.getNumResults() != parallel)
      return false;
    return llvm::all_of(map.getResults(), [&](AffineExpr expr) {
      unsigned dim = cast<AffineDimExpr>(expr).getPosition();
      return isParallelIterator(op.getIteratorTypesArray()[dim]);
    });
  });
}

std::optional<unsigned> lastDim(AffineMap map) {
  if (map.getNumResults() == 0)
    return std::nullopt;
  if (auto dim = dyn_cast<AffineDimExpr>(map.getResults().back()))
    return dim.getPosition();
  return std::nullopt;
}

/// The dim that output and some reduced input both have contiguous.
std::optional<unsigned> contiguousParallelDim(LinalgOp op,
                                              ArrayRef<unsigned> reductions) {
  if (op.getNumDpsInits() == 0)
    return std::nullopt;
  std::optional<unsigned> dim =
      lastDim(op.getMatchingIndexingMap(op.getDpsInitOperand(0)));
  if (!dim)
    return std::nullopt;
  for (OpOperand *input : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(input);
    if (lastDim(map) == dim && llvm::any_of(reductions, [&](unsigned r) {
          return map.isFunctionOfDim(r);
        }))
      return dim;
  }
  return std::nullopt;
}

LoopOrder chooseOrder(LinalgOp op) {
  LoopOrder order;
  SmallVector<unsigned> reductions;
  op.getReductionDims(reductions);
  if (reductions.empty() || !outputsAreParallelDims(op)) {
    order.dims = llvm::to_vector(llvm::seq<unsigned>(0, op.getNumLoops()));
    return order;
  }
  op.getParallelDims(order.dims);
  if (std::optional<unsigned> dim = contiguousParallelDim(op, reductions)) {
    llvm::erase(order.dims, *dim);
    llvm::append_range(order.dims, reductions);
    order.dims.push_back(*dim);
    return order;
  }
  llvm::append_range(order.dims, reductions);
  order.carried = reductions.size();
  return order;
}

SmallVector<Value> applyMap(OpBuilder &b, Location loc, AffineMap map,
                            ArrayRef<Value> ivs) {
  SmallVector<OpFoldResult> operands(ivs.begin(), ivs.end());
  return getValueOrCreateConstantIndexOp(
      b, loc,
      affine::makeComposedFoldedMultiResultAffineApply(b, loc, map, operands));
}

void lowerToLoops(OpBuilder &b, LinalgOp op, const LoopOrder &order) {
  Location loc = op.getLoc();
  Block *body = op.getBlock();
  SmallVector<Range> ranges = op.createLoopRanges(b, loc);
  SmallVector<Value> lower, upper, steps;
  for (unsigned dim : order.dims) {
    lower.push_back(
        getValueOrCreateConstantIndexOp(b, loc, ranges[dim].offset));
    upper.push_back(getValueOrCreateConstantIndexOp(b, loc, ranges[dim].size));
    steps.push_back(
        getValueOrCreateConstantIndexOp(b, loc, ranges[dim].stride));
  }

  SmallVector<Value> ivs(op.getNumLoops());
  auto bind = [&](unsigned from, ValueRange values) {
    for (auto [position, value] : llvm::enumerate(values))
      ivs[order.dims[from + position]] = value;
  };
  auto addressOf = [&](OpBuilder &b, OpOperand *operand) {
    return applyMap(b, loc, op.getMatchingIndexingMap(operand), ivs);
  };
  auto loadOutputs = [&](OpBuilder &b) {
    return llvm::map_to_vector(
        op.getDpsInitsMutable(), [&](OpOperand &init) -> Value {
          // Most bodies overwrite without looking.
          if (op.getMatchingBlockArgument(&init).use_empty())
            return {};
          return memref::LoadOp::create(b, loc, init.get(),
                                        addressOf(b, &init));
        });
  };
  auto storeOutputs = [&](OpBuilder &b, ValueRange values) {
    for (auto [init, value] : llvm::zip_equal(op.getDpsInitsMutable(), values))
      memref::StoreOp::create(b, loc, value, init.get(), addressOf(b, &init));
  };
  auto compute = [&](OpBuilder &b, ValueRange outputs) {
    IRMapping mapping;
    for (OpOperand *input : op.getDpsInputOperands()) {
      BlockArgument argument = op.getMatchingBlockArgument(input);
      if (argument.use_empty())
        continue;
      Value value = input->get();
      if (isa<MemRefType>(value.getType()))
        value = memref::LoadOp::create(b, loc, value, addressOf(b, input));
      mapping.map(argument, value);
    }
    for (auto [init, value] : llvm::zip_equal(op.getDpsInitsMutable(), outputs))
      if (value)
        mapping.map(op.getMatchingBlockArgument(&init), value);
    for (Operation &inner : body->without_terminator()) {
      Operation *clone = b.clone(inner, mapping);
      clone->walk([&](linalg::IndexOp index) {
        index.replaceAllUsesWith(ivs[index.getDim()]);
        if (index != clone)
          index.erase();
      });
      if (isa<linalg::IndexOp>(clone)) {
        mapping.map(inner.getResult(0),
                    ivs[cast<linalg::IndexOp>(inner).getDim()]);
        clone->erase();
      }
    }
    return llvm::map_to_vector(
        body->getTerminator()->getOperands(),
        [&](Value value) { return mapping.lookupOrDefault(value); });
  };

  unsigned outer = order.dims.size() - order.carried;
  auto slice = [&](ArrayRef<Value> values, bool inner) {
    return inner ? values.drop_front(outer) : values.take_front(outer);
  };
  scf::buildLoopNest(
      b, loc, slice(lower, false), slice(upper, false), slice(steps, false),
      [&](OpBuilder &b, Location loc, ValueRange values) {
        bind(0, values);
        if (order.carried == 0) {
          storeOutputs(b, compute(b, loadOutputs(b)));
          return;
        }
        SmallVector<Value> initial = llvm::map_to_vector(
            op.getDpsInitsMutable(), [&](OpOperand &init) -> Value {
              return memref::LoadOp::create(b, loc, init.get(),
                                            addressOf(b, &init));
            });
        scf::LoopNest inner = scf::buildLoopNest(
            b, loc, slice(lower, true), slice(upper, true), slice(steps, true),
            initial,
            [&](OpBuilder &b, Location loc, ValueRange values,
                ValueRange outputs) -> scf::ValueVector {
              bind(outer, values);
              SmallVector<Value> results = compute(b, outputs);
              return scf::ValueVector(results.begin(), results.end());
            });
        storeOutputs(b, inner.results);
      });
}

bool isContiguous(Value buffer) {
  return cast<MemRefType>(buffer.getType()).getLayout().isIdentity();
}

void lowerCopy(OpBuilder &b, memref::CopyOp copy) {
  Location loc = copy.getLoc();
  auto type = cast<MemRefType>(copy.getSource().getType());
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  SmallVector<Value> lower(type.getRank(), zero), steps(type.getRank(), one);
  SmallVector<Value> upper;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    upper.push_back(
        memref::DimOp::create(b, loc, copy.getSource(), dim).getResult());
  scf::buildLoopNest(
      b, loc, lower, upper, steps,
      [&](OpBuilder &b, Location loc, ValueRange ivs) {
        Value value = memref::LoadOp::create(b, loc, copy.getSource(), ivs);
        memref::StoreOp::create(b, loc, value, copy.getTarget(), ivs);
      });
}

struct LinalgToLoops : impl::LinalgToLoopsBase<LinalgToLoops> {
  void runOnOperation() override {
    SmallVector<LinalgOp> ops;
    SmallVector<memref::CopyOp> copies;
    WalkResult result = getOperation()->walk([&](Operation *op) -> WalkResult {
      if (auto linalgOp = dyn_cast<LinalgOp>(op)) {
        if (!linalgOp.hasPureBufferSemantics())
          return op->emitError("must be bufferized before it becomes loops");
        ops.push_back(linalgOp);
      } else if (auto copy = dyn_cast<memref::CopyOp>(op)) {
        if (isa<MemRefType>(copy.getSource().getType()) &&
            isa<MemRefType>(copy.getTarget().getType()) &&
            !(isContiguous(copy.getSource()) && isContiguous(copy.getTarget())))
          copies.push_back(copy);
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    OpBuilder b(&getContext());
    for (LinalgOp op : ops) {
      b.setInsertionPoint(op);
      lowerToLoops(b, op, chooseOrder(op));
      op.erase();
    }
    for (memref::CopyOp copy : copies) {
      b.setInsertionPoint(copy);
      lowerCopy(b, copy);
      copy.erase();
    }
  }
};
} // namespace
} // namespace mlir::qtranspose
