//===- PrefetchStreams.cpp - asking for memory before it is read ----------===//
//
// Vectors that a loop reads from a large buffer one after the other are a
// stream. The hardware's own prefetching does not keep up with loops that
// compute a lot per line, so each read asks for a line further on as well. At
// the end of a buffer that is past its end: a prefetch reads nothing, and LLVM
// gets its address as plain arithmetic.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/IR/AffineValueMap.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_PREFETCHSTREAMS
#include "qtranspose/Passes.h.inc"

namespace {

/// Bytes that are loaded together.
constexpr int64_t lineBytes = 64;

/// A read of neighbouring elements at an address that a loop moves on.
struct Stream {
  vector::TransferReadOp read;
  affine::AffineValueMap position; ///< of the first element, row-major
  int64_t elementBytes;
  int64_t bytes; ///< that are read at once
};

/// Whether `value` depends on `variable` through affine.apply ops.
bool dependsOn(Value value, Value variable) {
  if (value == variable)
    return true;
  auto apply = value.getDefiningOp<affine::AffineApplyOp>();
  return apply && llvm::any_of(apply->getOperands(), [&](Value operand) {
           return dependsOn(operand, variable);
         });
}

struct PrefetchStreams : impl::PrefetchStreamsBase<PrefetchStreams> {
  using PrefetchStreamsBase::PrefetchStreamsBase;

  std::optional<Stream> getStream(vector::TransferReadOp read) {
    auto loop = read->getParentOfType<scf::ForOp>();
    auto type = dyn_cast<MemRefType>(read.getBase().getType());
    if (!loop || !type || !type.hasStaticShape() || type.getRank() == 0 ||
        !type.getLayout().isIdentity() ||
        !type.getElementType().isIntOrFloat() ||
        read.getVectorType().getRank() != 1 ||
        !read.getPermutationMap().isMinorIdentity())
      return std::nullopt;
    unsigned width = type.getElementTypeBitWidth();
    if (width % 8 != 0 ||
        type.getNumElements() * int64_t(width / 8) < smallest ||
        llvm::none_of(read.getIndices(), [&](Value index) {
          return dependsOn(index, loop.getInductionVar());
        }))
      return std::nullopt;
    // Defined outside, or each iteration has a buffer of its own.
    if (!loop.isDefinedOutsideOfLoop(read.getBase()))
      return std::nullopt;
    MLIRContext *context = &getContext();
    AffineExpr position = getAffineConstantExpr(0, context);
    int64_t stride = 1;
    for (int64_t dim = type.getRank(); dim-- > 0;) {
      position = position + getAffineDimExpr(dim, context) * stride;
      stride *= type.getDimSize(dim);
    }
    AffineMap map = AffineMap::get(type.getRank(), 0, position);
    llvm::SmallVector<Value> operands(read.getIndices());
    affine::fullyComposeAffineMapAndOperands(&map, &operands);
    affine::canonicalizeMapAndOperands(&map, &operands);
    int64_t bytes = width / 8;
    return Stream{read, affine::AffineValueMap(map, operands), bytes,
                  bytes * read.getVectorType().getNumElements()};
  }

  /// Whether a read of the same block asks for the line of `stream` already.
  static bool isCovered(const Stream &stream, llvm::ArrayRef<Stream> others) {
    return llvm::any_of(others, [&](const Stream &other) {
      auto read = stream.read, before = other.read;
      if (read.getBase() != before.getBase() ||
          read->getBlock() != before->getBlock())
        return false;
      affine::AffineValueMap difference;
      affine::AffineValueMap::difference(stream.position, other.position,
                                         &difference);
      auto distance =
          dyn_cast<AffineConstantExpr>(difference.getAffineMap().getResult(0));
      return distance && distance.getValue() >= 0 &&
             distance.getValue() * stream.elementBytes + stream.bytes <=
                 std::max(lineBytes, other.bytes);
    });
  }

  void prefetch(const Stream &stream) {
    auto read = stream.read;
    Location loc = read.getLoc();
    OpBuilder b(read);
    Value base = read.getBase();
    auto type = cast<MemRefType>(base.getType());
    if (type.getRank() > 1) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointAfterValue(base);
      ReassociationIndices all =
          llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
      base = memref::CollapseShapeOp::create(
          b, loc, base, llvm::ArrayRef<ReassociationIndices>(all));
    }
    for (int64_t line = 0; line < stream.bytes; line += lineBytes) {
      AffineMap map = stream.position.getAffineMap();
      map = AffineMap::get(map.getNumDims(), map.getNumSymbols(),
                           map.getResult(0) +
                               (distance + line) / stream.elementBytes);
      Value ahead = affine::AffineApplyOp::create(
          b, loc, map, stream.position.getOperands());
      memref::PrefetchOp::create(b, loc, base, ahead, /*isWrite=*/false,
                                 /*localityHint=*/3, /*isDataCache=*/true);
    }
  }

  void runOnOperation() override {
    if (distance < 0 || smallest < 0) {
      getOperation()->emitError("qtranspose-prefetch-streams: distance and "
                                "smallest must not be negative");
      return signalPassFailure();
    }
    llvm::SmallVector<Stream> streams;
    getOperation()->walk([&](vector::TransferReadOp read) {
      std::optional<Stream> stream = getStream(read);
      if (stream && !isCovered(*stream, streams))
        streams.push_back(std::move(*stream));
    });
    for (const Stream &stream : streams)
      prefetch(stream);
  }
};
} // namespace
} // namespace mlir::qtranspose
