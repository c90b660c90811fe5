//===- TileFusedDequant.cpp - marked dequantizations, per tile ------------===//
//
// Keeps the promise of `qtranspose.tile_fused`: a contraction over a marked
// producer is tiled so that each tile of the weight fits in cache, and the
// producer is computed tile by tile inside the loops.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"
#include "qtranspose/Transforms/ContractionFusion.h"
#include "qtranspose/Utils/EmitExpr.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/TileUsingInterface.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_TILEFUSEDDEQUANT
#include "qtranspose/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral passName = "qtranspose-tile-fused-dequant";

bool isMarked(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer && producer->hasAttr(tileFusedAttrName);
}

/// The largest divisor of `extent` that is at most `limit`; `limit` itself if
/// the extent is not known.
int64_t tileOf(int64_t extent, int64_t limit) {
  if (ShapedType::isDynamic(extent))
    return limit;
  for (int64_t tile = std::min(extent, limit); tile > 1; --tile)
    if (extent % tile == 0)
      return tile;
  // A prime extent: uneven tiles beat single elements.
  return std::min(extent, limit);
}

struct TileFusedDequant : impl::TileFusedDequantBase<TileFusedDequant> {
  using TileFusedDequantBase::TileFusedDequantBase;

  /// Tile sizes of `op`'s loops (0: not tiled). Only dims of the weight are
  /// tiled. Of the summed dims the inner ones stay whole, one is cut, and the
  /// outer ones advance one by one: so tiles follow each other in the order of
  /// the sum, which does not change.
  llvm::SmallVector<int64_t> chooseTiles(linalg::LinalgOp op,
                                         const llvm::SmallBitVector &dims) {
    llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
    auto iterators = op.getIteratorTypesArray();
    llvm::SmallVector<int64_t> tiles(extents.size(), 0);
    int64_t budget = std::max<int64_t>(tileElements, 1);
    auto choose = [&](utils::IteratorType kind, int64_t limit) {
      bool wholeSoFar = true;
      for (unsigned dim = extents.size(); dim-- > 0;) {
        if (!dims.test(dim) || iterators[dim] != kind)
          continue;
        int64_t tile = wholeSoFar ? tileOf(extents[dim], limit) : 1;
        wholeSoFar &= tile == extents[dim];
        tiles[dim] = tile == extents[dim] ? 0 : tile;
        limit = std::max<int64_t>(limit / tile, 1);
        budget = std::max<int64_t>(budget / tile, 1);
      }
    };
    // A few outputs share each row of activations; sums take the rest.
    choose(utils::IteratorType::parallel, std::min<int64_t>(budget, 32));
    choose(utils::IteratorType::reduction, budget);
    return tiles;
  }

  /// A tile of a tensor that is written whole is an empty tensor of its own;
  /// as a slice it would allocate the whole.
  void shrinkInit(RewriterBase &rewriter, linalg::LinalgOp tile) {
    OpOperand &init = *tile.getDpsInitOperand(0);
    auto slice = init.get().getDefiningOp<tensor::ExtractSliceOp>();
    if (!slice || !slice.getSource().getDefiningOp<tensor::EmptyOp>())
      return;
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(slice);
    Value empty =
        tensor::EmptyOp::create(rewriter, slice.getLoc(), slice.getMixedSizes(),
                                slice.getType().getElementType());
    rewriter.modifyOpInPlace(tile, [&] { init.set(empty); });
    eraseIfDead(rewriter, slice.getResult());
  }

  void runOnOperation() override {
    llvm::SmallVector<linalg::LinalgOp> consumers;
    getOperation()->walk([&](linalg::LinalgOp op) {
      if (!op->hasAttr(tileFusedAttrName) && isContraction(op) &&
          llvm::any_of(op->getOperands(), isMarked))
        consumers.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (linalg::LinalgOp op : consumers) {
      // Upstream tiling aborts on a loop that it can tell is not entered.
      if (llvm::is_contained(op.getStaticLoopRanges(), 0)) {
        remarkRefused(op, passName,
                      {Reason::NotTileable, "an iteration dim is empty"});
        continue;
      }
      llvm::SmallBitVector dims(op.getNumLoops());
      for (OpOperand *input : op.getDpsInputOperands())
        if (isMarked(input->get()))
          for (AffineExpr result :
               op.getMatchingIndexingMap(input).getResults())
            if (auto dim = dyn_cast<AffineDimExpr>(result))
              dims.set(dim.getPosition());
      llvm::SmallVector<int64_t> tiles = chooseTiles(op, dims);
      if (llvm::all_of(tiles, [](int64_t tile) { return tile == 0; }))
        continue;

      // Outputs outermost, sums inside them in their order.
      llvm::SmallVector<int64_t> order;
      for (auto kind :
           {utils::IteratorType::parallel, utils::IteratorType::reduction})
        for (auto [dim, iterator] : llvm::enumerate(op.getIteratorTypesArray()))
          if (iterator == kind)
            order.push_back(dim);
      scf::SCFTilingOptions tiling;
      tiling.setTileSizes(getAsIndexOpFoldResult(&getContext(), tiles));
      tiling.setInterchange(order);
      scf::SCFTileAndFuseOptions options;
      options.setTilingOptions(tiling);
      options.setFusionControlFn(
          [](tensor::ExtractSliceOp, OpResult producer, bool isDestination)
              -> std::optional<scf::SCFTileAndFuseOptions::ControlFnResult> {
            if (isDestination || !isMarked(producer))
              return std::nullopt;
            return scf::SCFTileAndFuseOptions::ControlFnResult{};
          });
      rewriter.setInsertionPoint(op);
      FailureOr<scf::SCFTileAndFuseResult> tiled =
          scf::tileConsumerAndFuseProducersUsingSCF(
              rewriter, cast<TilingInterface>(op.getOperation()), options);
      if (failed(tiled)) {
        remarkRefused(op, passName,
                      {Reason::NotTileable, "upstream tiling failed"});
        continue;
      }
      remarkPassed(op, passName, "tiled", "");
      for (Operation *inner : tiled->tiledAndFusedOps)
        if (inner->hasAttr(tileFusedAttrName)) {
          shrinkInit(rewriter, cast<linalg::LinalgOp>(inner));
          // A tile is as small as it was to be: a second run leaves it alone.
          inner->removeAttr(tileFusedAttrName);
          inner->setAttr(materializedAttrName, rewriter.getUnitAttr());
        }
      llvm::SmallVector<Value> operands(op->getOperands());
      llvm::SmallVector<Value> replacements;
      for (Value result : op->getResults())
        replacements.push_back(tiled->replacements.lookup(result));
      // The slices that fusion looked along keep the whole producer alive.
      for (LoopLikeOpInterface loop : tiled->loops)
        loop->walk([&](tensor::ExtractSliceOp slice) {
          if (slice->use_empty())
            rewriter.eraseOp(slice);
        });
      rewriter.replaceOp(op, replacements);
      eraseIfDead(rewriter, operands);
    }
  }
};
} // namespace
} // namespace mlir::qtranspose
