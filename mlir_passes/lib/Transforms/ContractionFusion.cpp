//===- ContractionFusion.cpp - contractions over virtual tensors ----------===//

#include "qtranspose/Transforms/ContractionFusion.h"

#include "qtranspose/Analysis/PieceUnification.h"
#include "qtranspose/Utils/EmitExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace mlir::qtranspose {

// Cutting a contraction pays for a few concatenated weights; more would
// replace one contraction by a long chain of small ones.
static constexpr unsigned maxParts = 16;

bool isContraction(Operation *operation) {
  auto op = dyn_cast<linalg::LinalgOp>(operation);
  if (!op || !op.hasPureTensorSemantics() || op.getNumReductionLoops() == 0 ||
      op->getNumResults() != 1 || op.getNumDpsInits() != 1)
    return false;
  Block *body = op.getBlock();
  if (!body || body->getNumArguments() != op->getNumOperands())
    return false;
  Value accumulator = body->getArguments().back();
  Operation *sum = body->getTerminator()->getOperand(0).getDefiningOp();
  return sum && isa<arith::AddFOp, arith::AddIOp>(sum) &&
         llvm::is_contained(sum->getOperands(), accumulator) &&
         accumulator.hasOneUse();
}

static bool hasEncoding(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getEncoding();
}

static std::optional<Refusal>
checkLeaves(const TracedOperand &traced, unsigned numStorageDims) {
  std::optional<Refusal> refusal;
  walkExpr(traced.expr, [&](Expr node) {
    if (refusal || !node->is(ScalarExpr::Kind::Leaf))
      return;
    if (node->stopReason == Reason::TensorEncoding ||
        (node->value && hasEncoding(node->value))) {
      refusal = Refusal{Reason::TensorEncoding, "an operand of the weight"};
      return;
    }
    if (!node->stopReason)
      return;
    // A run-time vector (an activation in `sum(x * w)`) may be read in place; a
    // run-time tensor as large as the weight means that the weight itself is
    // computed.
    llvm::SmallDenseSet<unsigned> dims;
    for (AffineExpr coordinate : node->coordinates)
      if (coordinate)
        coordinate.walk([&](AffineExpr part) {
          if (auto dim = dyn_cast<AffineDimExpr>(part))
            dims.insert(dim.getPosition());
        });
    if (dims.size() < numStorageDims)
      return;
    std::string detail;
    llvm::raw_string_ostream os(detail);
    os << "reads the result of '"
       << (isa<OpResult>(node->value)
               ? node->value.getDefiningOp()->getName().getStringRef()
               : llvm::StringRef("a block argument"))
       << "'";
    refusal = Refusal{*node->stopReason, detail};
  });
  return refusal;
}

llvm::SmallVector<TracedOperand, 0> traceOperands(linalg::LinalgOp op,
                                               ExprPool &pool,
                                               Tracer &tracer) {
  llvm::SmallVector<TracedOperand, 0> operands;
  llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
  auto iterators = op.getIteratorTypesArray();
  for (OpOperand *operand : op.getDpsInputOperands()) {
    if (!isa<RankedTensorType>(operand->get().getType()))
      continue;
    AffineMap map = op.getMatchingIndexingMap(operand);
    TracedOperand traced;
    traced.operand = operand;
    traced.expr = tracer.trace(operand->get(), map.getResults());
    traced.reuse = 1;
    for (auto [dim, extent] : llvm::enumerate(extents)) {
      if (map.isFunctionOfDim(dim) ||
          iterators[dim] != utils::IteratorType::parallel || extent == 1)
        continue;
      traced.reuse = traced.reuse && !ShapedType::isDynamic(extent)
                         ? std::optional(*traced.reuse * extent)
                         : std::nullopt;
    }
    llvm::SmallDenseSet<unsigned> storageDims;
    walkExpr(traced.expr, [&](Expr node) {
      if (!node->value || node->is(ScalarExpr::Kind::Scalar) ||
          node->getTensorType().getRank() < 2)
        return;
      Value source = skipViews(node->value);
      bool isArgument = isa<BlockArgument>(source) && !node->stopReason;
      if (!isConstantTensor(node->value) &&
          !(isArgument && hasQuantizedStorage(node->value.getType())))
        return;
      traced.storage.push_back(node);
      for (AffineExpr coordinate : node->coordinates)
        if (coordinate)
          coordinate.walk([&](AffineExpr part) {
            if (auto dim = dyn_cast<AffineDimExpr>(part))
              storageDims.insert(dim.getPosition());
          });
    });
    if (!traced.storage.empty())
      traced.refusal =
          checkLeaves(traced, std::max<size_t>(storageDims.size(), 2));
    operands.push_back(std::move(traced));
  }
  return operands;
}

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

namespace {
/// Rewrites expressions over iteration dims into expressions over factors,
/// choosing or unifying pieces on the way.
class Resolver {
public:
  Resolver(ExprPool &pool, const IndexSpace &space,
           llvm::ArrayRef<AffineExpr> shifted)
      : pool(pool), space(space), shifted(shifted) {}

  std::optional<std::pair<unsigned, llvm::SmallVector<int64_t>>> cut;
  std::optional<Refusal> refusal;

  Expr resolve(Expr expr) {
    if (Expr done = memo.lookup(expr))
      return done;
    Expr result = expr->is(ScalarExpr::Kind::Pieces) ? resolvePieces(expr)
                                                     : resolveOther(expr);
    if (result)
      memo[expr] = result;
    return result;
  }

private:
  std::optional<LinearForm> linear(AffineExpr coordinate) {
    if (!coordinate)
      return std::nullopt;
    return space.getLinearForm(coordinate.replaceDims(shifted));
  }

  Expr refuse(const llvm::Twine &detail) {
    if (!refusal)
      refusal = Refusal{Reason::NotFactorable, detail.str()};
    return nullptr;
  }

  Expr resolveOther(Expr expr) {
    llvm::SmallVector<Expr> operands;
    for (Expr operand : expr->operands) {
      operands.push_back(resolve(operand));
      if (!operands.back())
        return nullptr;
    }
    Expr rebuilt = pool.withOperands(expr, operands);
    if (expr->coordinates.empty())
      return rebuilt;
    bool allLinear = llvm::all_of(
        expr->coordinates,
        [&](AffineExpr coordinate) { return linear(coordinate).has_value(); });
    if (allLinear)
      return pool.mapCoordinates(rebuilt, [&](AffineExpr coordinate) {
        return space.toAffine(*linear(coordinate));
      });
    if (llvm::is_contained(expr->coordinates, AffineExpr()))
      return refuse("a coordinate divides by a dynamic extent");
    // A parameter whose groups do not divide the dim (a ragged last group) is
    // read by computed indices.
    if (expr->is(ScalarExpr::Kind::Leaf) && expr->value &&
        !hasQuantizedStorage(expr->type)) {
      llvm::SmallVector<Expr> indices;
      for (AffineExpr coordinate : expr->coordinates)
        indices.push_back(pool.index(overFactors(coordinate)));
      return pool.gather(expr->value, indices);
    }
    return refuse("no split of the iteration dims makes a coordinate linear");
  }

  /// `coordinate` with every dim written over its factors.
  AffineExpr overFactors(AffineExpr coordinate) {
    llvm::SmallVector<AffineExpr> dims;
    for (AffineExpr dim : shifted)
      dims.push_back(space.toAffine(*space.getLinearForm(dim)));
    return coordinate.replaceDims(dims);
  }

  Expr resolvePieces(Expr expr) {
    AffineExpr position = expr->coordinates[0];
    std::optional<LinearForm> form = linear(position);
    if (!form)
      return refuse("the position in a concatenation is not linear");
    auto [low, high] = space.getRange(*form);
    unsigned count = expr->operands.size();
    for (unsigned p = 0; p < count; ++p)
      if (low >= expr->breaks[p] && high && *high < expr->breaks[p + 1])
        return resolve(expr->operands[p]);

    int64_t size = expr->breaks[1] - expr->breaks[0];
    bool uniform = true;
    for (unsigned p = 0; p < count; ++p)
      uniform &= expr->breaks[p + 1] - expr->breaks[p] == size;
    if (uniform) {
      std::optional<LinearForm> selector = linear(position.floorDiv(size));
      llvm::SmallVector<Expr> pieces;
      for (Expr operand : expr->operands)
        pieces.push_back(selector ? resolve(operand) : nullptr);
      if (!llvm::is_contained(pieces, nullptr)) {
        AffineExpr selected = space.toAffine(*selector);
        if (Expr unified = unifyPieces(pool, selected, pieces))
          return unified;
        if (!asCut(position, expr->breaks)) {
          llvm::SmallVector<int64_t> breaks;
          for (unsigned p = 0; p <= count; ++p)
            breaks.push_back(p);
          return pool.pieces(selected, breaks, pieces);
        }
      }
    }
    if (auto wanted = asCut(position, expr->breaks)) {
      cut = wanted;
      return nullptr;
    }
    return refuse("the pieces of a concatenation differ");
  }

  /// The cut of an iteration dim that separates pieces by `position`.
  std::optional<std::pair<unsigned, llvm::SmallVector<int64_t>>>
  asCut(AffineExpr position, llvm::ArrayRef<int64_t> breaks) {
    std::optional<unsigned> dim;
    bool several = false;
    position.walk([&](AffineExpr part) {
      if (auto found = dyn_cast<AffineDimExpr>(part)) {
        several |= dim && *dim != found.getPosition();
        dim = found.getPosition();
      }
    });
    if (!dim || several)
      return std::nullopt;
    // position = dim + constant, in this part of the iteration space
    AffineExpr offset = simplifyAffineExpr(
        position.replaceDims(shifted) -
            getAffineDimExpr(*dim, pool.getContext()),
        shifted.size(), 0);
    auto constant = dyn_cast<AffineConstantExpr>(offset);
    if (!constant)
      return std::nullopt;
    llvm::SmallVector<int64_t> positions;
    for (int64_t position : breaks.drop_front().drop_back())
      positions.push_back(position - constant.getValue());
    return std::pair(*dim, positions);
  }

  ExprPool &pool;
  const IndexSpace &space;
  llvm::ArrayRef<AffineExpr> shifted;
  llvm::DenseMap<Expr, Expr> memo;
};
} // namespace

/// The distinct leaves of `expr` that become operands, in order of appearance.
static void collectLeaves(Expr expr, llvm::SetVector<Expr> &leaves) {
  walkExpr(expr, [&](Expr node) {
    if (node->is(ScalarExpr::Kind::Leaf))
      leaves.insert(node);
  });
}

ContractionFusion::PartResult
ContractionFusion::planPart(llvm::ArrayRef<TracedOperand> operands,
                            llvm::ArrayRef<OperandFusion> decisions,
                            llvm::ArrayRef<int64_t> offsets,
                            llvm::ArrayRef<int64_t> extents) {
  MLIRContext *context = op->getContext();
  llvm::SmallVector<AffineExpr> shifted;
  for (auto [dim, offset] : llvm::enumerate(offsets))
    shifted.push_back(getAffineDimExpr(dim, context) + offset);

  // What each input's body argument is: its traced expression, or itself.
  llvm::SmallVector<Expr> raw;
  llvm::SmallVector<OperandFusion> fusion;
  for (OpOperand *input : op.getDpsInputOperands()) {
    const auto *traced = llvm::find_if(operands, [&](const TracedOperand &t) {
      return t.operand == input;
    });
    OperandFusion decision = traced == operands.end()
                                 ? OperandFusion::Keep
                                 : decisions[traced - operands.begin()];
    fusion.push_back(decision);
    if (!isa<TensorType>(input->get().getType()))
      raw.push_back(pool.scalar(input->get()));
    else if (decision == OperandFusion::Keep)
      raw.push_back(pool.leaf(input->get(),
                              op.getMatchingIndexingMap(input).getResults()));
    else
      raw.push_back(traced->expr);
  }

  Part part{llvm::SmallVector<int64_t>(offsets),
            IndexSpace(context, extents),
            {},
            {},
            {},
            {},
            {}};
  // Splits are made for all coordinates before any of them is read off. What
  // cannot be linear is noticed when it is read.
  for (Expr expr : raw)
    walkExpr(expr, [&](Expr node) {
      for (AffineExpr coordinate : node->coordinates)
        if (coordinate)
          part.space.makeLinear(coordinate.replaceDims(shifted));
      if (node->is(ScalarExpr::Kind::Pieces))
        part.space.makeLinear(
            node->coordinates[0]
                .floorDiv(std::max<int64_t>(node->breaks[1], 1))
                .replaceDims(shifted));
    });

  Resolver resolver(pool, part.space, shifted);
  for (Expr expr : raw) {
    Expr resolved = resolver.resolve(expr);
    if (resolver.cut)
      return Cut{resolver.cut->first, resolver.cut->second};
    if (!resolved)
      return *resolver.refusal;
    part.bodyOperands.push_back(resolved);
  }

  auto planInputs = [&](const llvm::SetVector<Expr> &leaves,
                        llvm::SmallVector<Input, 0> &inputs,
                        bool allowDirect) -> bool {
    for (Expr leaf : leaves) {
      llvm::SmallVector<LinearForm> forms;
      for (AffineExpr coordinate : leaf->coordinates) {
        // Over factors now: read the coefficients off.
        LinearForm form;
        form.coefficients.resize(part.space.getFactors().size());
        coordinate.walk([&](AffineExpr) {});
        AffineExpr rest = simplifyAffineExpr(
            coordinate, part.space.getFactors().size(), 0);
        std::function<void(AffineExpr, int64_t)> add = [&](AffineExpr expr,
                                                           int64_t scale) {
          if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
            form.constant += scale * constant.getValue();
          } else if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
            form.coefficients[dim.getPosition()] += scale;
          } else {
            auto binary = cast<AffineBinaryOpExpr>(expr);
            if (expr.getKind() == AffineExprKind::Add) {
              add(binary.getLHS(), scale);
              add(binary.getRHS(), scale);
            } else {
              add(binary.getLHS(),
                  scale *
                      cast<AffineConstantExpr>(binary.getRHS()).getValue());
            }
          }
        };
        add(rest, 1);
        forms.push_back(std::move(form));
      }
      std::optional<TensorView> view = planView(
          leaf->getTensorType(), forms, part.space, context, allowDirect);
      if (!view)
        return false;
      inputs.push_back({leaf, *view});
    }
    return true;
  };

  // Tile-fused operands become producers of their own.
  llvm::SetVector<Expr> bodyLeaves;
  for (auto [index, expr] : llvm::enumerate(part.bodyOperands)) {
    part.producerOf.push_back(-1);
    if (fusion[index] != OperandFusion::Tile) {
      collectLeaves(expr, bodyLeaves);
      continue;
    }
    Producer producer;
    producer.expr = expr;
    llvm::SetVector<Expr> leaves;
    collectLeaves(expr, leaves);
    if (!planInputs(leaves, producer.inputs, /*allowDirect=*/false))
      return Refusal{Reason::NotFactorable,
                     "a leaf cannot be seen over the factored dims"};
    llvm::SmallDenseSet<unsigned> used;
    walkExpr(expr, [&](Expr node) {
      for (AffineExpr coordinate : node->coordinates)
        coordinate.walk([&](AffineExpr piece) {
          if (auto dim = dyn_cast<AffineDimExpr>(piece))
            used.insert(dim.getPosition());
        });
    });
    for (unsigned f = 0; f < part.space.getFactors().size(); ++f)
      if (used.contains(f))
        producer.factors.push_back(f);
    part.producerOf.back() = part.producers.size();
    part.producers.push_back(std::move(producer));
  }
  if (!planInputs(bodyLeaves, part.inputs, /*allowDirect=*/true))
    return Refusal{Reason::NotFactorable,
                   "a leaf cannot be seen over the factored dims"};

  OpOperand *init = op.getDpsInitOperand(0);
  llvm::SmallVector<LinearForm> outputForms;
  for (AffineExpr result : op.getMatchingIndexingMap(init).getResults()) {
    std::optional<LinearForm> form =
        part.space.getLinearForm(result.replaceDims(shifted));
    if (!form)
      return Refusal{Reason::NotFactorable, "the result is not factorable"};
    outputForms.push_back(*form);
  }
  std::optional<TensorView> output =
      planView(cast<ShapedType>(init->get().getType()), outputForms, part.space,
               context, /*allowDirect=*/false);
  if (!output)
    return Refusal{Reason::NotFactorable,
                   "the result cannot be seen over the factored dims"};
  part.output = *output;
  parts.push_back(std::move(part));
  return std::monostate();
}

std::optional<Refusal>
ContractionFusion::plan(llvm::ArrayRef<TracedOperand> operands,
                        llvm::ArrayRef<OperandFusion> decisions) {
  for (Value operand : op->getOperands())
    if (hasEncoding(operand))
      return Refusal{Reason::TensorEncoding, "an operand of the contraction"};
  struct Box {
    llvm::SmallVector<int64_t> offsets, extents;
  };
  llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
  llvm::SmallVector<Box> worklist{
      {llvm::SmallVector<int64_t>(extents.size(), 0), extents}};
  parts.clear();
  while (!worklist.empty()) {
    Box box = worklist.pop_back_val();
    PartResult result = planPart(operands, decisions, box.offsets, box.extents);
    if (auto *refusal = std::get_if<Refusal>(&result))
      return *refusal;
    auto *cut = std::get_if<Cut>(&result);
    if (!cut)
      continue;
    if (parts.size() + worklist.size() + cut->positions.size() + 1 > maxParts)
      return Refusal{Reason::NotFactorable,
                     "the weight is concatenated from too many pieces"};
    // The first part is planned first, so that sums stay in order.
    llvm::SmallVector<Box> pieces;
    int64_t start = 0, extent = box.extents[cut->dim];
    cut->positions.push_back(extent);
    for (int64_t end : cut->positions) {
      end = std::min(end, extent);
      if (end <= start)
        continue;
      Box &piece = pieces.emplace_back(box);
      piece.offsets[cut->dim] += start;
      piece.extents[cut->dim] = end - start;
      start = end;
    }
    if (pieces.size() < 2)
      return Refusal{Reason::NotFactorable,
                     "the pieces of a concatenation differ"};
    llvm::append_range(worklist, llvm::reverse(pieces));
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Applying
//===----------------------------------------------------------------------===//

OpFoldResult ContractionFusion::getFactorSize(OpBuilder &builder, Location loc,
                                              const Part &part,
                                              unsigned factor) {
  const IndexSpace::Factor &f = part.space.getFactors()[factor];
  if (!ShapedType::isDynamic(f.extent))
    return builder.getIndexAttr(f.extent);
  // A dynamic dim is never split, so it is a dim of some operand.
  llvm::SmallVector<std::pair<Value, unsigned>> found;
  op.mapIterationSpaceDimToAllOperandDims(f.dim, found);
  return tensor::getMixedSize(builder, loc, found.front().first,
                              found.front().second);
}

/// Values of `inputs`' leaves, seen over the factors.
static llvm::SmallVector<Value>
buildInputs(OpBuilder &builder, Location loc, auto inputs) {
  llvm::SmallVector<Value> values;
  for (const auto &input : inputs) {
    Value source =
        input.leaf->value
            ? localize(builder, input.leaf->value)
            : arith::ConstantOp::create(builder, loc,
                                        cast<TypedAttr>(input.leaf->attribute))
                  .getResult();
    values.push_back(buildView(builder, loc, source, input.view));
  }
  return values;
}

Value ContractionFusion::emitProducer(RewriterBase &rewriter, Location loc,
                                      const Part &part,
                                      const Producer &producer) {
  MLIRContext *context = rewriter.getContext();
  unsigned numFactors = part.space.getFactors().size();
  llvm::SmallVector<AffineExpr> toLocal(numFactors,
                                        getAffineConstantExpr(0, context));
  llvm::SmallVector<OpFoldResult> sizes;
  for (auto [local, factor] : llvm::enumerate(producer.factors)) {
    toLocal[factor] = getAffineDimExpr(local, context);
    sizes.push_back(getFactorSize(rewriter, loc, part, factor));
  }
  unsigned rank = producer.factors.size();

  llvm::SmallVector<Value> inputs =
      buildInputs(rewriter, loc, llvm::ArrayRef(producer.inputs));
  llvm::SmallVector<AffineMap> maps;
  for (const Input &input : producer.inputs)
    maps.push_back(
        input.view.map.replaceDimsAndSymbols(toLocal, {}, rank, 0));
  maps.push_back(AffineMap::getMultiDimIdentityMap(rank, context));

  Expr local = pool.mapCoordinates(producer.expr, [&](AffineExpr coordinate) {
    return coordinate.replaceDims(toLocal);
  });
  Value empty = tensor::EmptyOp::create(rewriter, loc, sizes, local->type);
  auto generic = linalg::GenericOp::create(
      rewriter, loc, empty.getType(), inputs, empty, maps,
      llvm::SmallVector<utils::IteratorType>(rank,
                                             utils::IteratorType::parallel),
      [&](OpBuilder &builder, Location bodyLoc, ValueRange arguments) {
        llvm::DenseMap<Expr, Value> known;
        for (auto [input, argument] : llvm::zip(producer.inputs, arguments))
          known[pool.mapCoordinates(input.leaf, [&](AffineExpr coordinate) {
            return coordinate.replaceDims(toLocal);
          })] = argument;
        linalg::YieldOp::create(builder, bodyLoc,
                                emitExpr(builder, bodyLoc, local, known));
      });
  generic->setAttr("qtranspose.tile_fused", rewriter.getUnitAttr());
  return generic.getResult(0);
}

linalg::GenericOp ContractionFusion::applyPart(RewriterBase &rewriter,
                                               Location loc, const Part &part,
                                               Value &init) {
  MLIRContext *context = rewriter.getContext();
  unsigned numFactors = part.space.getFactors().size();

  llvm::SmallVector<Value> inputs =
      buildInputs(rewriter, loc, llvm::ArrayRef(part.inputs));
  llvm::SmallVector<AffineMap> maps;
  for (const Input &input : part.inputs)
    maps.push_back(input.view.map);
  llvm::SmallVector<unsigned> producerInput;
  for (const Producer &producer : part.producers) {
    producerInput.push_back(inputs.size());
    inputs.push_back(emitProducer(rewriter, loc, part, producer));
    llvm::SmallVector<AffineExpr> results;
    for (unsigned factor : producer.factors)
      results.push_back(getAffineDimExpr(factor, context));
    maps.push_back(AffineMap::get(numFactors, 0, results, context));
  }
  maps.push_back(part.output.map);

  // A fill is made in the new shape; any other init is seen in it.
  Value view;
  auto fill = init.getDefiningOp<linalg::FillOp>();
  if (fill && !part.output.isIdentity()) {
    llvm::SmallVector<OpFoldResult> sizes;
    for (AffineExpr result : part.output.map.getResults())
      sizes.push_back(getFactorSize(rewriter, loc, part,
                                    cast<AffineDimExpr>(result).getPosition()));
    Value empty = tensor::EmptyOp::create(
        rewriter, loc, sizes, getElementTypeOrSelf(init.getType()));
    view = linalg::FillOp::create(rewriter, loc, fill.getInputs(), empty)
               .getResult(0);
  } else {
    view = buildView(rewriter, loc, init, part.output);
  }

  llvm::SmallVector<utils::IteratorType> iterators;
  for (const IndexSpace::Factor &factor : part.space.getFactors())
    iterators.push_back(op.getIteratorTypesArray()[factor.dim]);
  auto generic = linalg::GenericOp::create(
      rewriter, loc, view.getType(), inputs, view, maps, iterators,
      [&](OpBuilder &builder, Location bodyLoc, ValueRange arguments) {
        llvm::DenseMap<Expr, Value> known;
        for (auto [input, argument] : llvm::zip(part.inputs, arguments))
          known[input.leaf] = argument;
        IRMapping mapping;
        Block *body = op.getBlock();
        for (auto [index, expr] : llvm::enumerate(part.bodyOperands)) {
          int producer = part.producerOf[index];
          mapping.map(body->getArgument(index),
                      producer >= 0
                          ? arguments[producerInput[producer]]
                          : emitExpr(builder, bodyLoc, expr, known));
        }
        mapping.map(body->getArguments().back(), arguments.back());
        for (Operation &inner : *body) {
          auto index = dyn_cast<linalg::IndexOp>(inner);
          if (!index) {
            builder.clone(inner, mapping);
            continue;
          }
          AffineExpr coordinate =
              getAffineDimExpr(index.getDim(), context) +
              part.offsets[index.getDim()];
          Expr expr = pool.index(
              part.space.toAffine(*part.space.getLinearForm(coordinate)));
          mapping.map(index.getResult(),
                      emitExpr(builder, bodyLoc, expr, known));
        }
      });
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    if (attribute.getName() != linalg::LinalgDialect::kMemoizedIndexingMapsAttrName)
      generic->setDiscardableAttr(attribute.getName(), attribute.getValue());

  Value result = generic.getResult(0);
  if (!part.output.needsSlice) {
    init = buildInverseView(rewriter, loc, result, part.output, init);
    return generic;
  }
  result = buildInverseView(rewriter, loc, result, part.output, init);
  llvm::SmallVector<OpFoldResult> offsets, sizes, strides;
  for (auto [index, dim] : llvm::enumerate(part.output.dims)) {
    offsets.push_back(rewriter.getIndexAttr(dim.offset));
    strides.push_back(rewriter.getIndexAttr(dim.stride));
    sizes.push_back(ShapedType::isDynamic(dim.size)
                        ? tensor::getMixedSize(rewriter, loc, init, index)
                        : OpFoldResult(rewriter.getIndexAttr(dim.size)));
  }
  init = tensor::InsertSliceOp::create(rewriter, loc, result, init, offsets,
                                       sizes, strides);
  return generic;
}

llvm::SmallVector<linalg::GenericOp>
ContractionFusion::apply(RewriterBase &rewriter, Location loc) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  llvm::SmallVector<linalg::GenericOp> created;
  Value value = op.getDpsInitOperand(0)->get();
  for (const Part &part : parts)
    created.push_back(applyPart(rewriter, loc, part, value));
  llvm::SmallVector<Value> operands(op->getOperands());
  rewriter.replaceOp(op, value);
  eraseIfDead(rewriter, operands);
  return created;
}

} // namespace mlir::qtranspose
