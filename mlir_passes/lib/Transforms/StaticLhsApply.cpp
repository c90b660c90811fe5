//===- StaticLhsApply.cpp - the rewrite of one contraction, applied -------===//

#include "qtranspose/Transforms/StaticLhsPlan.h"

#include "qtranspose/Utils/EmitExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Quant/IR/Quant.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::qtranspose {

/// The size of `dim`, read off an operand.
OpFoldResult StaticLhsPlan::getSize(OpBuilder &builder, Location loc,
                                    unsigned dim) {
  if (!ShapedType::isDynamic(extents[dim]))
    return builder.getIndexAttr(extents[dim]);
  for (auto [position, coordinate] : llvm::enumerate(activationMap))
    if (coordinate == builder.getAffineDimExpr(dim))
      return tensor::getMixedSize(builder, loc, activation->get(), position);
  return tensor::getMixedSize(builder, loc, op.getDpsInits()[0],
                              llvm::find(resultMap, dim) - resultMap.begin());
}

Value StaticLhsPlan::emitWeight(RewriterBase &rewriter, Location loc,
                                DerivedConstants &constants,
                                MovedWeights &moved) {
  // The order of the dims, the groups and the extents decide what it is.
  Groups groups = getWeightGroups();
  llvm::SmallVector<AffineExpr> position(
      extents.size(), getAffineConstantExpr(0, op->getContext()));
  llvm::SmallVector<int64_t> key;
  unsigned next = 0;
  for (const DimGroup &dims : groups) {
    for (unsigned dim : dims) {
      position[dim] = rewriter.getAffineDimExpr(next++);
      key.push_back(extents[dim]);
    }
    key.push_back(-1);
  }
  AffineMap map = AffineMap::get(extents.size(), 0, weightMap, op->getContext())
                      .replaceDimsAndSymbols(position, {}, next, 0);
  Attribute layout = rewriter.getArrayAttr(
      {AffineMapAttr::get(map), rewriter.getDenseI64ArrayAttr(key)});
  Value &result = moved[{weight->get(), layout}];
  if (result)
    return result;
  // As early as the weight itself: it serves whatever reads that.
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointAfterValue(weight->get());
  return result = quantized ? emitQuantizedWeight(rewriter, loc, constants)
                            : weightLayout->apply(rewriter, loc, op, constants);
}

Value StaticLhsPlan::emitQuantizedWeight(RewriterBase &rewriter, Location loc,
                                         DerivedConstants &constants) {
  Value source;
  if (!quantized->value.getDefiningOp<quant::StorageCastOp>())
    source = quant::StorageCastOp::create(rewriter, loc, quantized->storage,
                                          quantized->value);
  Value stored = weightLayout->apply(rewriter, loc, op, constants, source);
  auto type = cast<RankedTensorType>(stored.getType());
  Value moved = quant::StorageCastOp::create(
      rewriter, loc, type.clone(quantized->moved), stored);
  return quant::DequantizeCastOp::create(
      rewriter, loc, type.clone(quantized->moved.getExpressedType()), moved);
}

Value StaticLhsPlan::emitInit(RewriterBase &rewriter, Location loc,
                              Value activation, Value weight,
                              DerivedConstants &constants) {
  if (initLayout)
    return initLayout->apply(rewriter, loc, op, constants);
  Value init = op.getDpsInits()[0];
  llvm::SmallVector<OpFoldResult> sizes;
  if (!isFlat)
    for (const DimGroup &dims : join(pairs, rows, columns))
      sizes.push_back(getSize(rewriter, loc, dims.front()));
  for (unsigned i = 0; isFlat && i < pairs.size() + rows.size(); ++i)
    sizes.push_back(tensor::getMixedSize(rewriter, loc, activation, i));
  for (unsigned i = 0; isFlat && i < columns.size(); ++i)
    sizes.push_back(tensor::getMixedSize(rewriter, loc, weight,
                                         pairs.size() + sums.size() + i));
  Value empty = tensor::EmptyOp::create(rewriter, loc, sizes,
                                        getElementTypeOrSelf(init.getType()));
  auto fill = init.getDefiningOp<linalg::FillOp>();
  if (!fill)
    return empty;
  auto filled = linalg::FillOp::create(rewriter, loc, fill.getInputs(), empty);
  for (NamedAttribute attribute : getDiscardableAttrs(fill))
    filled->setDiscardableAttr(attribute.getName(), attribute.getValue());
  return filled.getResult(0);
}

linalg::GenericOp StaticLhsPlan::emitGeneric(RewriterBase &rewriter,
                                             Location loc, Value activation,
                                             Value weight, Value init) {
  // Loops: pairs, rows, columns, sums, one per group.
  Groups loops = join(join(pairs, rows, columns), sums, {});
  llvm::SmallVector<AffineExpr> loopOf(
      extents.size(), getAffineConstantExpr(0, op->getContext()));
  for (auto [loop, dims] : llvm::enumerate(loops))
    for (unsigned dim : dims)
      loopOf[dim] = rewriter.getAffineDimExpr(loop);
  unsigned rank = loops.size();
  auto mapOf = [&](const Groups &groups) {
    llvm::SmallVector<AffineExpr> results;
    for (const DimGroup &dims : groups)
      results.push_back(loopOf[dims.front()]);
    return AffineMap::get(rank, 0, results, op->getContext());
  };
  llvm::SmallVector<Value> inputs{activation, weight};
  llvm::SmallVector<AffineMap> maps{mapOf(getActivationGroups(rows)),
                                    mapOf(getWeightGroups())};
  for (OpOperand *other : others) {
    inputs.push_back(other->get());
    maps.push_back(AffineMap::get(extents.size(), 0, getCoordinates(*other),
                                  op->getContext())
                       .replaceDimsAndSymbols(loopOf, {}, rank, 0));
  }
  maps.push_back(mapOf(join(pairs, rows, columns)));
  llvm::SmallVector<utils::IteratorType> iterators(
      rank - sums.size(), utils::IteratorType::parallel);
  iterators.resize(rank, utils::IteratorType::reduction);
  return linalg::GenericOp::create(
      rewriter, loc, init.getType(), inputs, init, maps, iterators,
      [&](OpBuilder &builder, Location, ValueRange arguments) {
        Block *old = op.getBlock();
        IRMapping mapping;
        mapping.map(old->getArgument(this->activation->getOperandNumber()),
                    arguments[0]);
        mapping.map(old->getArgument(this->weight->getOperandNumber()),
                    arguments[1]);
        for (auto [index, other] : llvm::enumerate(others))
          mapping.map(old->getArgument(other->getOperandNumber()),
                      arguments[2 + index]);
        mapping.map(old->getArguments().back(), arguments.back());
        for (Operation &inner : *old)
          builder.clone(inner, mapping);
      });
}

Operation *StaticLhsPlan::emitContraction(RewriterBase &rewriter, Location loc,
                                          Value activation, Value weight,
                                          Value init) {
  llvm::SmallVector<Value> inputs{activation, weight};
  Type type = init.getType();
  llvm::SmallVector<NamedAttribute> cast;
  if (body.namedCast == linalg::TypeFn::cast_unsigned)
    cast.push_back(rewriter.getNamedAttr(
        "cast", linalg::TypeFnAttr::get(op->getContext(), *body.namedCast)));
  switch (namedOp) {
  case NamedOp::Matmul:
    return linalg::MatmulOp::create(rewriter, loc, type, inputs, init, cast);
  case NamedOp::Vecmat:
    return linalg::VecmatOp::create(rewriter, loc, type, inputs, init);
  case NamedOp::Matvec:
    return linalg::MatvecOp::create(rewriter, loc, type, inputs, init);
  case NamedOp::Dot:
    return linalg::DotOp::create(rewriter, loc, type, inputs, init);
  case NamedOp::BatchVecmat:
    return linalg::BatchVecmatOp::create(rewriter, loc, type, inputs, init);
  case NamedOp::BatchMatvec:
    return linalg::BatchMatvecOp::create(rewriter, loc, type, inputs, init);
  case NamedOp::BatchMatmul: {
    if (pairs.empty()) {
      // The weight is the same for every batch.
      AffineExpr b, n, m, k;
      bindDims(op->getContext(), b, n, m, k);
      auto mapOf = [&](llvm::ArrayRef<AffineExpr> results) {
        return AffineMap::get(4, 0, results, op->getContext());
      };
      AffineMap maps[] = {mapOf({b, n, k}), mapOf({k, m}), mapOf({b, n, m})};
      cast.push_back(rewriter.getNamedAttr(
          "indexing_maps", rewriter.getAffineMapArrayAttr(maps)));
    }
    return linalg::BatchMatmulOp::create(rewriter, loc, type, inputs, init,
                                         cast);
  }
  case NamedOp::QuantizedMatmul:
  case NamedOp::QuantizedBatchMatmul: {
    // Operands: two tensors, then a zero point for each.
    inputs.push_back(op->getOperand(2 + this->activation->getOperandNumber()));
    inputs.push_back(op->getOperand(2 + this->weight->getOperandNumber()));
    if (namedOp == NamedOp::QuantizedMatmul)
      return linalg::QuantizedMatmulOp::create(rewriter, loc, type, inputs,
                                               init);
    return linalg::QuantizedBatchMatmulOp::create(rewriter, loc, type, inputs,
                                                  init);
  }
  case NamedOp::None:
    return emitGeneric(rewriter, loc, activation, weight, init);
  }
  llvm_unreachable("all ops are covered");
}

/// Takes the groups of the new result apart, so that each dim is one iteration
/// dim.
Value StaticLhsPlan::splitResult(RewriterBase &rewriter, Location loc,
                                 Value result) {
  Groups groups = join(pairs, rows, columns);
  if (llvm::all_of(groups,
                   [](const DimGroup &dims) { return dims.size() == 1; }))
    return result;
  llvm::SmallVector<OpFoldResult> sizes;
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<ReassociationIndices> reassociation;
  for (const DimGroup &dims : groups) {
    ReassociationIndices &group = reassociation.emplace_back();
    for (unsigned dim : dims) {
      group.push_back(shape.size());
      shape.push_back(extents[dim]);
      sizes.push_back(getSize(rewriter, loc, dim));
    }
  }
  auto type = cast<RankedTensorType>(result.getType()).clone(shape);
  return tensor::ExpandShapeOp::create(rewriter, loc, type, result,
                                       reassociation, sizes);
}

std::string StaticLhsPlan::describe() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "weight " << weight->get().getType() << " as right operand "
     << weightLayout->getType();
  unsigned transposes = activationLayout->isTransposed() + tail->isTransposed();
  os << ", " << transposes << " transpose(s) at run time";
  if (unsigned mapped = tail->getNumMapped())
    os << ", " << mapped << " op(s) after it in the new layout";
  return text;
}

void StaticLhsPlan::apply(RewriterBase &rewriter, DerivedConstants &constants,
                          MovedWeights &moved,
                          llvm::SmallVectorImpl<Value> &read) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Location loc = op->getLoc();
  Location both = rewriter.getFusedLoc({loc, weight->get().getLoc()});
  Value newActivation = activationLayout->apply(rewriter, loc, op, constants);
  Value newWeight = emitWeight(rewriter, both, constants, moved);
  Value init = emitInit(rewriter, loc, newActivation, newWeight, constants);
  Operation *created =
      emitContraction(rewriter, both, newActivation, newWeight, init);
  for (NamedAttribute attribute : getDiscardableAttrs(op))
    created->setDiscardableAttr(attribute.getName(), attribute.getValue());
  Value result = splitResult(rewriter, loc, created->getResult(0));
  llvm::append_range(read, op->getOperands());
  tail->apply(rewriter, loc, result, constants, read);
  rewriter.eraseOp(op);
}

} // namespace mlir::qtranspose
