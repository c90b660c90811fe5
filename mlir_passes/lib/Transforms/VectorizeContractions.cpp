//===- VectorizeContractions.cpp - vector loops for contractions ----------===//
//
// Chooses for each contraction the dim that lies along vectors and the blocks
// that are held in registers, and has it emitted (see VectorNest.h).
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/ContractionFusion.h"
#include "qtranspose/Transforms/VectorNest.h"
#include "qtranspose/Utils/EmitExpr.h"
#include "qtranspose/Utils/HostVectors.h"
#include "qtranspose/Utils/Remarks.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_VECTORIZECONTRACTIONS
#include "qtranspose/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral passName = "qtranspose-vectorize-contractions";

/// What the schedules need to know of the machine.
struct VectorUnit {
  int64_t bits;      ///< per register
  int64_t registers; ///< that can be named
};

class Scheduler {
public:
  Scheduler(linalg::LinalgOp op, VectorUnit unit, bool reassociate)
      : op(op), unit(unit), reassociate(reassociate),
        extents(op.getStaticLoopRanges()),
        iterators(op.getIteratorTypesArray()) {}

  std::optional<Refusal> choose();
  VectorSchedule schedule;
  linalg::LinalgOp getOp() const { return op; }
  void allowContraction() {
    schedule.flags = arith::FastMathFlags::contract;
    for (VectorSchedule &sum : schedule.sums)
      sum.flags = schedule.flags;
  }
  /// The producers that are computed in the loops of the op.
  llvm::SmallVector<linalg::LinalgOp> getSums() {
    return llvm::map_to_vector(schedule.sums, [&](auto &sum) {
      return getProducer(op.getDpsInputOperand(sum.input));
    });
  }

private:
  bool isReduction(unsigned dim) const {
    return iterators[dim] == utils::IteratorType::reduction;
  }
  /// A number to compare by, for an extent that may not be known.
  int64_t guess(unsigned dim) const {
    return ShapedType::isDynamic(extents[dim]) ? 64 : extents[dim];
  }
  /// How often the value of an operand with these dims serves, over the dims
  /// that are summed.
  int64_t getReuse(AffineMap map) const {
    int64_t reuse = 1;
    for (unsigned dim = 0; dim < extents.size(); ++dim)
      if (isReduction(dim) && !map.isFunctionOfDim(dim))
        reuse *= guess(dim);
    return reuse;
  }
  std::optional<Refusal> check();
  static linalg::LinalgOp getProducer(OpOperand *operand) {
    return operand->get().getDefiningOp<linalg::LinalgOp>();
  }
  bool isSumOfOwn(OpOperand *operand);
  void findSums();
  bool isComputed(OpOperand *operand) const {
    return llvm::any_of(schedule.sums, [&](auto &sum) {
      return sum.input == operand->getOperandNumber();
    });
  }
  /// The dim of the producer of `operand` that is dim `dim` of this op.
  unsigned getProducerDim(OpOperand *operand, unsigned dim) {
    linalg::LinalgOp producer = getProducer(operand);
    AffineMap map = op.getMatchingIndexingMap(operand);
    AffineMap output =
        producer.getMatchingIndexingMap(producer.getDpsInitOperand(0));
    return output.getDimPosition(
        *map.getResultPosition(getAffineDimExpr(dim, map.getContext())));
  }
  void unrollSums(int64_t points);
  bool canBeLane(unsigned dim);
  std::optional<unsigned> chooseLane();
  /// True if some operand along the lanes serves all points of `dim`.
  bool sharesVectors(unsigned dim) {
    return llvm::any_of(op.getDpsInputOperands(), [&](OpOperand *input) {
      if (isComputed(input)) {
        Scheduler nested(getProducer(input), unit, reassociate);
        nested.schedule.lane = getProducerDim(input, schedule.lane);
        return nested.sharesVectors(getProducerDim(input, dim));
      }
      AffineMap map = op.getMatchingIndexingMap(input);
      return map.isFunctionOfDim(schedule.lane) && !map.isFunctionOfDim(dim);
    });
  }
  void chooseBlocks();

  linalg::LinalgOp op;
  VectorUnit unit;
  bool reassociate;
  llvm::SmallVector<int64_t> extents;
  llvm::SmallVector<utils::IteratorType> iterators;
};

std::optional<int64_t> getLast(AffineMap map) {
  if (map.getNumResults() == 0)
    return std::nullopt;
  if (auto dim = dyn_cast<AffineDimExpr>(map.getResults().back()))
    return dim.getPosition();
  return std::nullopt;
}

/// Elements that are gathered one by one cost as much as scalar code, unless
/// they serve this many terms.
constexpr int64_t enoughReuse = 16;

/// Elements of a block that are inserted into a result one by one.
constexpr int64_t maxInserts = 64;

/// Terms of a sum that are written out one after the other.
constexpr int64_t maxUnroll = 8;

bool Scheduler::canBeLane(unsigned dim) {
  if (guess(dim) < 4)
    return false;
  bool isContiguous = false;
  for (OpOperand *input : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(input);
    if (!map.isFunctionOfDim(dim))
      continue;
    if (isComputed(input)) {
      if (isReduction(dim) || !Scheduler(getProducer(input), unit, reassociate)
                                   .canBeLane(getProducerDim(input, dim)))
        return false;
      isContiguous = true;
    } else if (getLast(map) == dim)
      isContiguous = true;
    else if (isReduction(dim) || getReuse(map) < enoughReuse)
      return false;
  }
  return isContiguous;
}

std::optional<unsigned> Scheduler::chooseLane() {
  std::optional<unsigned> best;
  for (unsigned dim = 0; dim < extents.size(); ++dim)
    if (!isReduction(dim) && canBeLane(dim) &&
        (!best || guess(dim) >= guess(*best)))
      best = dim;
  if (best)
    return best;
  bool isExact =
      isa<IntegerType>(getElementTypeOrSelf(op.getDpsInits()[0].getType()));
  if (!isExact && !reassociate)
    return std::nullopt;
  for (unsigned dim = 0; dim < extents.size(); ++dim)
    if (isReduction(dim) && canBeLane(dim) &&
        (!best || guess(dim) >= guess(*best)))
      best = dim;
  return best;
}

/// The innermost sums are written out, in their order: `most` terms where each
/// is a sum itself, with registers of its own and a place of its own in memory.
void Scheduler::unrollSums(int64_t most) {
  int64_t unrolled = 1;
  int64_t limit = schedule.sums.empty() ? maxUnroll : std::min(most, maxUnroll);
  for (unsigned dim = extents.size(); dim-- > 0;) {
    if (!isReduction(dim) || dim == schedule.lane)
      continue;
    if (!ShapedType::isDynamic(extents[dim]) &&
        unrolled * extents[dim] <= limit) {
      schedule.block[dim] = std::max<int64_t>(extents[dim], 1);
      unrolled *= schedule.block[dim];
      continue;
    }
    if (unrolled == 1 && guess(dim) >= 4)
      schedule.block[dim] =
          llvm::bit_floor<uint64_t>(std::min<int64_t>(limit, 4));
    break;
  }
}

void Scheduler::chooseBlocks() {
  unsigned lane = schedule.lane;
  bool sumsAlongLanes = isReduction(lane);
  Type element = getElementTypeOrSelf(op.getDpsInits()[0].getType());
  unsigned bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
  int64_t lanes = std::max<int64_t>(unit.bits / bits, 1);
  int64_t budget = unit.registers * 3 / 4;

  llvm::SmallVector<unsigned> rows, others, sums;
  for (unsigned dim = 0; dim < extents.size(); ++dim) {
    if (isReduction(dim)) {
      if (dim != lane)
        sums.push_back(dim);
    } else if (dim != lane) {
      (sharesVectors(dim) ? rows : others).push_back(dim);
    }
  }
  bool isSingleRow =
      llvm::all_of(rows, [&](unsigned dim) { return extents[dim] == 1; });
  int64_t registers = sumsAlongLanes ? 1 : isSingleRow ? 4 : 2;
  schedule.width = lanes * registers;
  if (!ShapedType::isDynamic(extents[lane]))
    schedule.width = std::min<int64_t>(
        schedule.width, llvm::bit_floor<uint64_t>(extents[lane]));
  registers = llvm::divideCeil(schedule.width, lanes);

  schedule.block.assign(extents.size(), 1);
  int64_t points = std::max<int64_t>(budget / registers, 1);
  // Lanes that are not neighbours in the result are inserted one by one, and
  // the time of bufferization grows with the square of their number.
  if (!sumsAlongLanes &&
      getLast(op.getMatchingIndexingMap(op.getDpsInitOperand(0))) != lane)
    points = std::clamp<int64_t>(maxInserts / schedule.width, 1, points);
  for (unsigned row : llvm::reverse(rows)) {
    int64_t block = std::min(points, guess(row));
    // Equal blocks rather than a small one at the end.
    if (!ShapedType::isDynamic(extents[row]) && block > 0)
      block =
          llvm::divideCeil(extents[row], llvm::divideCeil(extents[row], block));
    else
      block = llvm::bit_floor<uint64_t>(block);
    schedule.block[row] = std::max<int64_t>(block, 1);
    points /= schedule.block[row];
  }
  int64_t held = registers;
  for (unsigned row : rows)
    held *= schedule.block[row];
  // With one row each vector of a weight is read once, from memory: two places
  // at a time are fetched faster than one.
  if (isSingleRow && !sumsAlongLanes && unit.registers >= 32 &&
      registers >= 4 && !others.empty()) {
    schedule.block[others.back()] = 2;
    held *= 2;
  }
  // Memory is read in its order, if that leaves sums enough to take turns.
  unrollSums(std::max<int64_t>(4 / held, 1));

  schedule.order = others;
  if (!sumsAlongLanes)
    schedule.order.push_back(lane);
  llvm::append_range(schedule.order, rows);
  llvm::append_range(schedule.order, sums);
  if (sumsAlongLanes)
    schedule.order.push_back(lane);
}

std::optional<Refusal> Scheduler::check() {
  if (!hasVectorBody(op))
    return Refusal{Reason::NotVectorizable,
                   "the body has an op that does not work on vectors"};
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    bool isInit = op.isDpsInit(&operand);
    if (!map.isProjectedPermutation(/*allowZeroInResults=*/!isInit))
      return Refusal{Reason::NotVectorizable,
                     "an indexing map is not a projected permutation"};
    if (isInit && map.getNumResults() != op.getNumParallelLoops())
      return Refusal{Reason::NotVectorizable,
                     "an output is not indexed by the parallel dims"};
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    Type element = getElementTypeOrSelf(operand.get().getType());
    if (!VectorType::isValidElementType(element) ||
        (type && type.getEncoding()))
      return Refusal{Reason::NotVectorizable,
                     "vectors cannot hold the elements of a tensor"};
  }
  return std::nullopt;
}

/// True if `operand` is a sum that nothing else uses, each element once, and
/// that starts from a fill.
bool Scheduler::isSumOfOwn(OpOperand *operand) {
  linalg::LinalgOp producer = getProducer(operand);
  AffineMap map = op.getMatchingIndexingMap(operand);
  return producer && isContraction(producer) &&
         producer->getBlock() == op->getBlock() && operand->get().hasOneUse() &&
         producer.getDpsInits()[0].getDefiningOp<linalg::FillOp>() &&
         map.isPermutation() && !Scheduler(producer, unit, reassociate).check();
}

void Scheduler::findSums() {
  for (OpOperand *input : op.getDpsInputOperands())
    if (isSumOfOwn(input)) {
      schedule.sums.emplace_back();
      schedule.sums.back().input = input->getOperandNumber();
    }
}

std::optional<Refusal> Scheduler::choose() {
  if (std::optional<Refusal> refusal = check())
    return refusal;
  findSums();
  std::optional<unsigned> lane = chooseLane();
  if (lane && isReduction(*lane))
    schedule.sums.clear();
  if (!lane)
    return Refusal{Reason::NotVectorizable,
                   "no dim is contiguous in the operands that have it"};
  schedule.lane = *lane;
  chooseBlocks();
  for (VectorSchedule &nested : schedule.sums) {
    OpOperand *input = op.getDpsInputOperand(nested.input);
    Scheduler scheduler(getProducer(input), unit, reassociate);
    scheduler.schedule.lane = getProducerDim(input, *lane);
    scheduler.schedule.block.assign(scheduler.extents.size(), 1);
    scheduler.unrollSums(maxUnroll);
    for (unsigned dim = 0; dim < scheduler.extents.size(); ++dim)
      if (scheduler.isReduction(dim))
        scheduler.schedule.order.push_back(dim);
    scheduler.schedule.input = nested.input;
    nested = scheduler.schedule;
  }
  return std::nullopt;
}

struct VectorizeContractions
    : impl::VectorizeContractionsBase<VectorizeContractions> {
  using VectorizeContractionsBase::VectorizeContractionsBase;

  void runOnOperation() override {
    int64_t bits = vectorBits > 0 ? vectorBits : getHostVectorBits();
    VectorUnit unit{bits, bits >= 512 ? 32 : 16};
    llvm::SmallVector<linalg::LinalgOp> ops;
    getOperation()->walk([&](linalg::LinalgOp op) {
      if (isContraction(op))
        ops.push_back(op);
    });
    // Readers first: they may compute what they read.
    llvm::SmallVector<std::pair<Scheduler, std::optional<Refusal>>, 0> plans;
    llvm::SmallPtrSet<Operation *, 4> computed;
    for (linalg::LinalgOp op : llvm::reverse(ops)) {
      if (computed.contains(op))
        continue;
      Scheduler scheduler(op, unit, allowReassociation);
      std::optional<Refusal> refusal = scheduler.choose();
      if (!refusal)
        for (linalg::LinalgOp sum : scheduler.getSums())
          computed.insert(sum);
      plans.push_back({std::move(scheduler), std::move(refusal)});
    }
    IRRewriter rewriter(&getContext());
    for (auto &[scheduler, refusal] : llvm::reverse(plans)) {
      linalg::LinalgOp op = scheduler.getOp();
      if (refusal) {
        remarkRefused(op, passName, *refusal);
        continue;
      }
      if (contract)
        scheduler.allowContraction();
      remarkPassed(op, passName, "vectorized", "");
      llvm::SmallVector<Value> operands(op->getOperands());
      emitVectorNest(rewriter, op, scheduler.schedule);
      eraseIfDead(rewriter, operands);
    }
  }
};
} // namespace
} // namespace mlir::qtranspose
