//===- VirtualTensor.cpp - a tensor as an expression over leaves ----------===//

#include "qtranspose/Analysis/VirtualTensor.h"

#include "qtranspose/Analysis/AffineReader.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/Dialect/Quant/IR/Quant.h"
#include "mlir/Dialect/Quant/IR/QuantTypes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/SaveAndRestore.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::qtranspose {

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

ShapedType ScalarExpr::getTensorType() const {
  return cast<ShapedType>(value ? value.getType()
                                : cast<TypedAttr>(attribute).getType());
}

void ScalarExpr::Profile(llvm::FoldingSetNodeID &id) const {
  id.AddInteger(static_cast<int>(kind));
  id.AddPointer(type.getAsOpaquePointer());
  id.AddPointer(value.getAsOpaquePointer());
  id.AddPointer(attribute.getAsOpaquePointer());
  for (AffineExpr coordinate : coordinates)
    id.AddPointer(coordinate ? coordinate.getAsOpaquePointer() : nullptr);
  id.AddPointer(name ? name->getAsOpaquePointer() : nullptr);
  for (Expr operand : operands)
    id.AddPointer(operand);
  for (int64_t position : breaks)
    id.AddInteger(position);
}

ExprPool::~ExprPool() {
  set.clear();
  for (ScalarExpr *node : nodes)
    delete node;
}

Expr ExprPool::unique(ScalarExpr &&node) {
  llvm::FoldingSetNodeID id;
  node.Profile(id);
  void *position;
  if (ScalarExpr *existing = set.FindNodeOrInsertPos(id, position))
    return existing;
  auto *created = new ScalarExpr(std::move(node));
  nodes.push_back(created);
  set.InsertNode(created, position);
  return created;
}

static ScalarExpr makeNode(ScalarExpr::Kind kind, Type type) {
  ScalarExpr node{};
  node.kind = kind;
  node.type = type;
  return node;
}

Expr ExprPool::constant(TypedAttr attribute) {
  ScalarExpr node = makeNode(ScalarExpr::Kind::Constant, attribute.getType());
  node.attribute = attribute;
  return unique(std::move(node));
}

Expr ExprPool::integer(Type type, int64_t value) {
  return constant(IntegerAttr::get(type, value));
}

Expr ExprPool::scalar(Value value) {
  ScalarExpr node = makeNode(ScalarExpr::Kind::Scalar, value.getType());
  node.value = value;
  return unique(std::move(node));
}

Expr ExprPool::index(AffineExpr coordinate) {
  ScalarExpr node = makeNode(ScalarExpr::Kind::Index, IndexType::get(context));
  node.coordinates.push_back(coordinate);
  return unique(std::move(node));
}

Expr ExprPool::leaf(Value tensor, llvm::ArrayRef<AffineExpr> coordinates,
                    std::optional<Reason> stopReason) {
  ScalarExpr node =
      makeNode(ScalarExpr::Kind::Leaf, getElementTypeOrSelf(tensor.getType()));
  node.value = tensor;
  node.coordinates.assign(coordinates.begin(), coordinates.end());
  node.stopReason = stopReason;
  return unique(std::move(node));
}

Expr ExprPool::table(DenseElementsAttr constant,
                     llvm::ArrayRef<AffineExpr> coordinates) {
  ScalarExpr node = makeNode(ScalarExpr::Kind::Leaf, constant.getElementType());
  node.attribute = constant;
  node.coordinates.assign(coordinates.begin(), coordinates.end());
  return unique(std::move(node));
}

Expr ExprPool::gather(Value tensor, llvm::ArrayRef<Expr> indices) {
  ScalarExpr node = makeNode(ScalarExpr::Kind::Gather,
                             getElementTypeOrSelf(tensor.getType()));
  node.value = tensor;
  node.operands.assign(indices.begin(), indices.end());
  return unique(std::move(node));
}

Expr ExprPool::apply(OperationName name, DictionaryAttr attributes, Type type,
                     llvm::ArrayRef<Expr> operands) {
  ScalarExpr node = makeNode(ScalarExpr::Kind::Apply, type);
  node.attribute = attributes;
  node.name = name;
  node.operands.assign(operands.begin(), operands.end());
  return unique(std::move(node));
}

Expr ExprPool::apply(llvm::StringRef name, Type type,
                     llvm::ArrayRef<Expr> operands) {
  return apply(OperationName(name, context), DictionaryAttr::get(context), type,
               operands);
}

Expr ExprPool::pieces(AffineExpr position, llvm::ArrayRef<int64_t> breaks,
                      llvm::ArrayRef<Expr> operands) {
  ScalarExpr node = makeNode(ScalarExpr::Kind::Pieces, operands.front()->type);
  node.coordinates.push_back(position);
  node.breaks.assign(breaks.begin(), breaks.end());
  node.operands.assign(operands.begin(), operands.end());
  return unique(std::move(node));
}

Expr ExprPool::withOperands(Expr expr, llvm::ArrayRef<Expr> operands) {
  ScalarExpr node = makeNode(expr->kind, expr->type);
  node.value = expr->value;
  node.attribute = expr->attribute;
  node.coordinates = expr->coordinates;
  node.name = expr->name;
  node.operands.assign(operands.begin(), operands.end());
  node.breaks = expr->breaks;
  node.stopReason = expr->stopReason;
  return unique(std::move(node));
}

Expr ExprPool::mapCoordinates(
    Expr root, llvm::function_ref<AffineExpr(AffineExpr)> transform) {
  llvm::DenseMap<Expr, Expr> mapped;
  walkExpr(root, [&](Expr expr) {
    ScalarExpr node = makeNode(expr->kind, expr->type);
    node.value = expr->value;
    node.attribute = expr->attribute;
    node.name = expr->name;
    node.breaks = expr->breaks;
    node.stopReason = expr->stopReason;
    for (AffineExpr coordinate : expr->coordinates)
      node.coordinates.push_back(coordinate ? transform(coordinate)
                                            : coordinate);
    for (Expr operand : expr->operands)
      node.operands.push_back(mapped.lookup(operand));
    mapped[expr] = unique(std::move(node));
  });
  return mapped.lookup(root);
}

void walkExpr(Expr root, llvm::function_ref<void(Expr)> visit) {
  llvm::DenseSet<Expr> done;
  llvm::SmallVector<std::pair<Expr, unsigned>> stack{{root, 0}};
  while (!stack.empty()) {
    auto &[expr, next] = stack.back();
    if (next < expr->operands.size()) {
      Expr operand = expr->operands[next++];
      if (!done.contains(operand))
        stack.push_back({operand, 0});
      continue;
    }
    Expr finished = expr;
    stack.pop_back();
    if (done.insert(finished).second)
      visit(finished);
  }
}

static void printShape(ShapedType type, llvm::raw_ostream &os) {
  for (int64_t size : type.getShape()) {
    if (ShapedType::isDynamic(size))
      os << "?x";
    else
      os << size << 'x';
  }
  os << type.getElementType();
}

/// `budget`: nodes that may still be printed. An expression is a graph; its
/// text is a tree, which can be exponentially larger.
static void printExpr(Expr expr, llvm::raw_ostream &os, unsigned &budget) {
  if (budget == 0) {
    os << "...";
    return;
  }
  --budget;
  auto printOperands = [&](llvm::StringRef open, llvm::StringRef close) {
    os << open;
    llvm::interleaveComma(expr->operands, os, [&](Expr operand) {
      printExpr(operand, os, budget);
    });
    os << close;
  };
  switch (expr->kind) {
  case ScalarExpr::Kind::Constant:
    expr->attribute.print(os, /*elideType=*/true);
    return;
  case ScalarExpr::Kind::Scalar:
    os << "scalar:" << expr->type;
    return;
  case ScalarExpr::Kind::Index:
    os << "index(" << expr->coordinates[0] << ')';
    return;
  case ScalarExpr::Kind::Leaf:
    os << (!expr->value                      ? "table:"
           : isConstantTensor(expr->value)   ? "const:"
           : isa<BlockArgument>(expr->value) ? "arg:"
                                             : "value:");
    printShape(expr->getTensorType(), os);
    os << '[';
    llvm::interleaveComma(expr->coordinates, os, [&](AffineExpr coordinate) {
      if (coordinate)
        os << coordinate;
      else
        os << '?';
    });
    os << ']';
    return;
  case ScalarExpr::Kind::Gather:
    os << "gather:";
    printShape(expr->getTensorType(), os);
    return printOperands("[", "]");
  case ScalarExpr::Kind::Apply:
    os << expr->name->stripDialect();
    return printOperands("(", ")");
  case ScalarExpr::Kind::Pieces:
    os << "pieces<" << expr->coordinates[0] << '>';
    return printOperands("(", ")");
  }
}

void printExpr(Expr expr, llvm::raw_ostream &os) {
  unsigned budget = 200;
  printExpr(expr, os, budget);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

Value skipViews(Value tensor) {
  while (Operation *op = tensor.getDefiningOp()) {
    if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp,
             tensor::ExtractSliceOp, tensor::BitcastOp, quant::StorageCastOp>(
            op))
      break;
    tensor = op->getOperand(0);
  }
  return tensor;
}

/// Whether a slice starts and steps at known places and ends at a known place
/// or with its source.
static bool hasKnownBounds(tensor::ExtractSliceOp slice) {
  auto isDynamic = [](OpFoldResult bound) {
    return !getConstantIntValue(bound);
  };
  if (llvm::any_of(slice.getMixedOffsets(), isDynamic) ||
      llvm::any_of(slice.getMixedStrides(), isDynamic))
    return false;
  for (auto [dim, size] : llvm::enumerate(slice.getMixedSizes())) {
    if (!isDynamic(size) || !slice.getSourceType().isDynamicDim(dim))
      continue;
    auto dimOp = cast<Value>(size).getDefiningOp<tensor::DimOp>();
    if (!dimOp || dimOp.getSource() != slice.getSource() ||
        dimOp.getConstantIndex() != static_cast<int64_t>(dim))
      return false;
  }
  return true;
}

OpOperand *getMovedOperand(Operation *op) {
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(op))
    return &op->getOpOperand(0);
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return hasKnownBounds(slice) ? &op->getOpOperand(0) : nullptr;
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  if (!linalgOp || !linalgOp.hasPureTensorSemantics() ||
      op->getNumResults() != 1 || linalgOp.getNumReductionLoops() != 0 ||
      !linalgOp.getIndexingMapsArray().back().isPermutation())
    return nullptr;
  Block *body = linalgOp.getBlock();
  if (!body || !llvm::hasSingleElement(*body) ||
      body->getNumArguments() != op->getNumOperands())
    return nullptr;
  auto moved = dyn_cast<BlockArgument>(body->getTerminator()->getOperand(0));
  if (!moved || moved.getOwner() != body ||
      moved.getArgNumber() >= linalgOp.getNumDpsInputs())
    return nullptr;
  OpOperand &operand = op->getOpOperand(moved.getArgNumber());
  return isa<RankedTensorType>(operand.get().getType()) ? &operand : nullptr;
}

bool isConstantTensor(Value tensor) {
  tensor = skipViews(tensor);
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    auto function =
        dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
    return function && argument.getOwner()->isEntryBlock() &&
           function.getArgAttr(argument.getArgNumber(), "qtranspose.constant");
  }
  Operation *op = tensor.getDefiningOp();
  if (op->hasTrait<OpTrait::ConstantLike>())
    return true;
  if (auto load = dyn_cast<ml_program::GlobalLoadOp>(op)) {
    auto global = SymbolTable::lookupNearestSymbolFrom<ml_program::GlobalOp>(
        op, load.getGlobalAttr());
    return global && !global.getIsMutable();
  }
  return isa<ml_program::GlobalLoadConstOp>(op);
}

bool hasQuantizedStorage(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (auto quantized = dyn_cast<quant::QuantizedType>(element))
    element = quantized.getStorageType();
  return isa<IntegerType>(element) ||
         (isa<FloatType>(element) && element.getIntOrFloatBitWidth() <= 8);
}

//===----------------------------------------------------------------------===//
// Coordinates
//===----------------------------------------------------------------------===//

/// `expr` with its dims replaced, or null if it reads a null coordinate.
static AffineExpr substitute(AffineExpr expr,
                             llvm::ArrayRef<AffineExpr> coordinates) {
  bool readsNull = false;
  expr.walk([&](AffineExpr part) {
    if (auto dim = dyn_cast<AffineDimExpr>(part))
      readsNull |= dim.getPosition() >= coordinates.size() ||
                   !coordinates[dim.getPosition()];
    readsNull |= isa<AffineSymbolExpr>(part);
  });
  return readsNull ? AffineExpr() : expr.replaceDims(coordinates);
}

static llvm::SmallVector<AffineExpr>
composeMap(AffineMap map, llvm::ArrayRef<AffineExpr> coordinates) {
  llvm::SmallVector<AffineExpr> results;
  for (AffineExpr result : map.getResults())
    results.push_back(substitute(result, coordinates));
  return results;
}

/// Coordinates of the source of a `collapse_shape`, from those of its result.
static llvm::SmallVector<AffineExpr>
uncollapse(ShapedType source,
           llvm::ArrayRef<ReassociationIndices> reassociation,
           llvm::ArrayRef<AffineExpr> coordinates, MLIRContext *context) {
  // Unit dims (all of them, for a rank-0 result) are at zero.
  llvm::SmallVector<AffineExpr> sourceCoordinates(
      source.getRank(), getAffineConstantExpr(0, context));
  for (auto [group, whole] : llvm::zip(reassociation, coordinates)) {
    llvm::SmallVector<int64_t> dims;
    llvm::copy_if(group, std::back_inserter(dims),
                  [&](int64_t dim) { return source.getDimSize(dim) != 1; });
    // Innermost first; every extent but the outermost must be a number.
    AffineExpr rest = whole;
    for (auto [position, dim] : llvm::enumerate(llvm::reverse(dims))) {
      int64_t size = source.getDimSize(dim);
      bool outermost = position + 1 == dims.size();
      if (outermost || !rest) {
        sourceCoordinates[dim] = rest;
      } else if (ShapedType::isDynamic(size) || size == 0) {
        sourceCoordinates[dim] = rest = AffineExpr();
      } else {
        sourceCoordinates[dim] = rest % size;
        rest = rest.floorDiv(size);
      }
    }
  }
  return sourceCoordinates;
}

/// `outer * size + inner`; where that puts a divided coordinate together
/// again, the coordinate itself, so that its grouping leaves no trace.
static AffineExpr recombine(AffineExpr outer, int64_t size, AffineExpr inner) {
  if (inner.getKind() == AffineExprKind::Mod) {
    auto remainder = cast<AffineBinaryOpExpr>(inner);
    AffineExpr whole = remainder.getLHS();
    if (remainder.getRHS() == getAffineConstantExpr(size, inner.getContext()) &&
        whole.floorDiv(size) == outer)
      return whole;
  }
  return outer * size + inner;
}

/// Coordinates of the source of an `expand_shape`, from those of its result.
static llvm::SmallVector<AffineExpr>
unexpand(ShapedType result, llvm::ArrayRef<ReassociationIndices> reassociation,
         llvm::ArrayRef<AffineExpr> coordinates, MLIRContext *context) {
  llvm::SmallVector<AffineExpr> sourceCoordinates;
  AffineExpr zero = getAffineConstantExpr(0, context);
  for (const ReassociationIndices &group : reassociation) {
    AffineExpr linear = zero;
    for (int64_t dim : group) {
      int64_t size = result.getDimSize(dim);
      if (size == 1 || !linear)
        continue;
      if (linear == zero)
        linear = coordinates[dim];
      else if (!coordinates[dim] || ShapedType::isDynamic(size))
        linear = AffineExpr();
      else
        linear = recombine(linear, size, coordinates[dim]);
    }
    sourceCoordinates.push_back(linear);
  }
  return sourceCoordinates;
}

//===----------------------------------------------------------------------===//
// Tracing
//===----------------------------------------------------------------------===//

// Deep chains are legitimate (a frontend can emit dozens of ops per weight),
// but the walk recurses, so it must end somewhere before the stack does.
static constexpr unsigned maxDepth = 512;
static constexpr size_t maxNodes = 1 << 14;

Expr Tracer::trace(Value tensor, Coordinates coordinates,
                   const CallScope *scope) {
  bool isTooLarge = depth >= maxDepth || pool.size() >= maxNodes;
  for (AffineExpr coordinate : coordinates)
    isTooLarge |= coordinate && !isTractable(coordinate);
  if (isTooLarge)
    return pool.leaf(tensor, coordinates, Reason::ExpressionTooLarge);
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    bool ofFunction =
        isa<FunctionOpInterface>(argument.getOwner()->getParentOp()) &&
        argument.getOwner()->isEntryBlock();
    // An argument of a callee is whatever its call passes.
    if (scope && ofFunction)
      return trace(CallOpInterface(scope->call)
                       .getArgOperands()[argument.getArgNumber()],
                   coordinates, scope->parent);
    auto type = dyn_cast<RankedTensorType>(tensor.getType());
    std::optional<Reason> stopReason;
    if (!type || !ofFunction)
      stopReason = Reason::CarriedThroughControlFlow;
    else if (type.getEncoding())
      stopReason = Reason::TensorEncoding;
    return pool.leaf(tensor, coordinates, stopReason);
  }
  for (auto &[known, expr] : memo[{tensor, scope}])
    if (llvm::equal(known, coordinates))
      return expr;
  if (isLeaf && isLeaf(tensor))
    return pool.leaf(tensor, coordinates);
  ++depth;
  auto result = cast<OpResult>(tensor);
  Expr expr =
      traceOp(result.getOwner(), result.getResultNumber(), coordinates, scope);
  --depth;
  memo[{tensor, scope}].push_back(
      {llvm::SmallVector<AffineExpr>(coordinates), expr});
  return expr;
}

Expr Tracer::traceOp(Operation *op, unsigned resultNumber,
                     Coordinates coordinates, const CallScope *scope) {
  MLIRContext *context = pool.getContext();
  Value result = op->getResult(resultNumber);
  auto type = dyn_cast<RankedTensorType>(result.getType());
  auto stop = [&](Reason reason) {
    return pool.leaf(result, coordinates, reason);
  };
  auto through = [&](Value source, Coordinates sourceCoordinates) {
    if (!isa<RankedTensorType>(source.getType()))
      return stop(Reason::NotTraceable);
    traced.insert(op);
    return trace(source, sourceCoordinates, scope);
  };
  if (!type)
    return stop(Reason::NotTraceable);
  if (type.getEncoding())
    return stop(Reason::TensorEncoding);

  // Parameters.
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
      if (auto element = dyn_cast<TypedAttr>(splat.getSplatValue<Attribute>()))
        return pool.constant(element);
    return pool.leaf(result, coordinates);
  }
  if (isa<ml_program::GlobalLoadOp, ml_program::GlobalLoadConstOp>(op))
    return isConstantTensor(result) ? pool.leaf(result, coordinates)
                                    : stop(Reason::MutableGlobal);
  if (!entersDecided &&
      (op->hasAttr(tileFusedAttrName) || op->hasAttr(materializedAttrName)))
    return stop(Reason::AlreadyDecided);
  if (extent == TraceScope::Layout && !getMovedOperand(op))
    return pool.leaf(result, coordinates);

  // Views.
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return through(cast.getSource(), coordinates);
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return through(collapse.getSrc(),
                   uncollapse(collapse.getSrcType(),
                              collapse.getReassociationIndices(), coordinates,
                              context));
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return through(
        expand.getSrc(),
        unexpand(type, expand.getReassociationIndices(), coordinates, context));
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    if (!hasKnownBounds(slice))
      return stop(Reason::DynamicSlice);
    llvm::SmallVector<AffineExpr> source;
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    unsigned next = 0;
    for (auto [dim, bounds] : llvm::enumerate(
             llvm::zip(slice.getMixedOffsets(), slice.getMixedStrides()))) {
      AffineExpr coordinate = dropped.test(dim)
                                  ? getAffineConstantExpr(0, context)
                                  : coordinates[next++];
      int64_t offset = *getConstantIntValue(std::get<0>(bounds));
      int64_t stride = *getConstantIntValue(std::get<1>(bounds));
      source.push_back(coordinate ? coordinate * stride + offset
                                  : AffineExpr());
    }
    return through(slice.getSource(), source);
  }
  if (auto cast = dyn_cast<quant::StorageCastOp>(op)) {
    // Storage seen as quantized and back is a view.
    auto inner = cast.getInput().getDefiningOp<quant::StorageCastOp>();
    if (!inner || inner.getInput().getType() != result.getType())
      return stop(Reason::NotTraceable);
    traced.insert(inner);
    return through(inner.getInput(), coordinates);
  }

  // Data movement.
  if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    AffineExpr position = coordinates[concat.getDim()];
    llvm::SmallVector<int64_t> breaks{0};
    for (Value input : concat.getInputs()) {
      int64_t size =
          cast<RankedTensorType>(input.getType()).getDimSize(concat.getDim());
      if (ShapedType::isDynamic(size) || !position)
        return stop(Reason::DynamicConcat);
      breaks.push_back(breaks.back() + size);
    }
    traced.insert(op);
    int64_t first = breaks[1];
    bool uniform = first > 0;
    for (unsigned p = 1; p < breaks.size(); ++p)
      uniform &= breaks[p] - breaks[p - 1] == first;
    llvm::SmallVector<Expr> operands;
    for (auto [p, input] : llvm::enumerate(concat.getInputs())) {
      llvm::SmallVector<AffineExpr> local(coordinates);
      // Equal pieces get equal local coordinates, so that they can be unified.
      local[concat.getDim()] =
          uniform ? position % first : position - breaks[p];
      operands.push_back(trace(input, local, scope));
    }
    return operands.size() == 1 ? operands.front()
                                : pool.pieces(position, breaks, operands);
  }
  if (isa<tensor::InsertSliceOp>(op))
    return traceInsertSlice(op, coordinates, scope);
  if (isa<tensor::PadOp>(op))
    return tracePad(op, coordinates, scope);
  if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
    traced.insert(op);
    return traceScalar(splat.getInput(), scope);
  }

  // Computation.
  if (isa<linalg::LinalgOp>(op))
    return traceLinalg(op, resultNumber, coordinates, scope);
  if (isa<quant::DequantizeCastOp>(op))
    return keepsQuantized ? stop(Reason::QuantizedElementType)
                          : traceDequantizeCast(op, coordinates, scope);
  if (isa<CallOpInterface>(op))
    return traceCall(op, resultNumber, coordinates, scope);
  if (OpTrait::hasElementwiseMappableTraits(op) && op->getNumRegions() == 0 &&
      op->getNumResults() == 1 && isPure(op)) {
    traced.insert(op);
    llvm::SmallVector<Expr> operands;
    for (Value operand : op->getOperands())
      operands.push_back(isa<TensorType>(operand.getType())
                             ? trace(operand, coordinates, scope)
                             : traceScalar(operand, scope));
    return pool.apply(op->getName(), op->getAttrDictionary(),
                      type.getElementType(), operands);
  }
  return stop(Reason::NotTraceable);
}

/// The coordinate inside a piece that covers [offset, offset + size) of a dim.
/// Pieces on a grid get the coordinate that every other piece on it gets, so
/// that they can be unified, and which stays inside the piece everywhere.
static AffineExpr pieceCoordinate(AffineExpr position, int64_t offset,
                                  int64_t size, int64_t extent) {
  bool onGrid = size > 0 && offset % size == 0 && extent % size == 0;
  return onGrid ? position % size : position - offset;
}

Expr Tracer::traceInsertSlice(Operation *op, Coordinates coordinates,
                              const CallScope *scope) {
  auto insert = cast<tensor::InsertSliceOp>(op);
  RankedTensorType type = insert.getDestType();
  llvm::SmallBitVector dropped = insert.getDroppedDims();
  auto stop = [&] {
    return pool.leaf(insert.getResult(), coordinates, Reason::PartialInsert);
  };

  llvm::SmallVector<AffineExpr> source;
  AffineExpr position;
  llvm::SmallVector<int64_t, 4> breaks;
  for (auto [dim, slice] : llvm::enumerate(
           llvm::zip(insert.getMixedOffsets(), insert.getMixedSizes(),
                     insert.getMixedStrides()))) {
    std::optional<int64_t> offset = getConstantIntValue(std::get<0>(slice));
    std::optional<int64_t> size = getConstantIntValue(std::get<1>(slice));
    std::optional<int64_t> stride = getConstantIntValue(std::get<2>(slice));
    int64_t extent = type.getDimSize(dim);
    AffineExpr local = coordinates[dim];
    if (offset == 0 && stride == 1 && size == extent) {
      if (!dropped.test(dim))
        source.push_back(local);
      continue;
    }
    // One dim may be written in part, if that part is known.
    if (position || !offset || !size || !stride || *size == 0 ||
        ShapedType::isDynamic(extent) || !local)
      return stop();
    if (*stride == 1) {
      position = local;
      breaks = {0, *offset, *offset + *size, extent};
      local = pieceCoordinate(position, *offset, *size, extent);
    } else {
      // Every stride-th element, from one of the first to the end.
      if (*offset >= *stride || *size * *stride != extent)
        return stop();
      position = local % *stride;
      breaks = {0, *offset, *offset + 1, *stride};
      local = local.floorDiv(*stride);
    }
    if (!dropped.test(dim))
      source.push_back(local);
  }

  traced.insert(op);
  Expr inserted = trace(insert.getSource(), source, scope);
  if (!position)
    return inserted;
  Expr rest = trace(insert.getDest(), coordinates, scope);
  // Inserting into what was inserted before writes over a part of its pieces.
  llvm::SmallVector<int64_t> under{0, breaks.back()};
  llvm::SmallVector<Expr> underPieces{rest};
  if (rest->is(ScalarExpr::Kind::Pieces) && rest->coordinates[0] == position) {
    under.assign(rest->breaks.begin(), rest->breaks.end());
    underPieces.assign(rest->operands.begin(), rest->operands.end());
  }
  llvm::SmallVector<int64_t> kept{0};
  llvm::SmallVector<Expr> operands;
  auto add = [&](int64_t start, int64_t end, Expr piece) {
    if (start >= end)
      return;
    operands.push_back(piece);
    kept.push_back(end);
  };
  for (auto [p, piece] : llvm::enumerate(underPieces))
    add(std::max(under[p], int64_t(0)), std::min(under[p + 1], breaks[1]),
        piece);
  add(breaks[1], breaks[2], inserted);
  for (auto [p, piece] : llvm::enumerate(underPieces))
    add(std::max(under[p], breaks[2]), under[p + 1], piece);
  return operands.size() == 1 ? operands.front()
                              : pool.pieces(position, kept, operands);
}

Expr Tracer::tracePad(Operation *op, Coordinates coordinates,
                      const CallScope *scope) {
  auto pad = cast<tensor::PadOp>(op);
  Value padding = pad.getConstantPaddingValue();
  struct PaddedDim {
    AffineExpr position;
    int64_t low, size, high;
  };
  llvm::SmallVector<PaddedDim> padded;
  llvm::SmallVector<AffineExpr> source(coordinates);
  for (auto [dim, bounds] : llvm::enumerate(
           llvm::zip(pad.getMixedLowPad(), pad.getMixedHighPad()))) {
    std::optional<int64_t> low = getConstantIntValue(std::get<0>(bounds));
    std::optional<int64_t> high = getConstantIntValue(std::get<1>(bounds));
    int64_t size = pad.getSourceType().getDimSize(dim);
    if (low == 0 && high == 0)
      continue;
    if (!padding || !low || !high || *low < 0 || *high < 0 ||
        ShapedType::isDynamic(size) || !coordinates[dim])
      return pool.leaf(pad.getResult(), coordinates, Reason::NotTraceable);
    source[dim] =
        pieceCoordinate(coordinates[dim], *low, size, *low + size + *high);
    padded.push_back({coordinates[dim], *low, size, *high});
  }

  traced.insert(op);
  Expr expr = trace(pad.getSource(), source, scope);
  for (const PaddedDim &dim : padded) {
    Expr outside = traceScalar(padding, scope);
    llvm::SmallVector<int64_t> breaks{0};
    llvm::SmallVector<Expr> operands;
    for (auto [size, operand] :
         {std::pair(dim.low, outside), std::pair(dim.size, expr),
          std::pair(dim.high, outside)}) {
      if (size == 0)
        continue;
      breaks.push_back(breaks.back() + size);
      operands.push_back(operand);
    }
    if (operands.size() > 1)
      expr = pool.pieces(dim.position, breaks, operands);
  }
  return expr;
}

Expr Tracer::traceDequantizeCast(Operation *op, Coordinates coordinates,
                                 const CallScope *scope) {
  auto dequantize = cast<quant::DequantizeCastOp>(op);
  auto stop = [&] {
    return pool.leaf(dequantize.getResult(), coordinates, Reason::NotTraceable);
  };
  auto type = cast<RankedTensorType>(dequantize.getResult().getType());
  auto source = dequantize.getInput().getDefiningOp<quant::StorageCastOp>();
  auto quantized = dyn_cast<quant::QuantizedType>(
      getElementTypeOrSelf(dequantize.getInput().getType()));
  if (!source || !quantized)
    return stop();
  auto expressed = dyn_cast<FloatType>(quantized.getExpressedType());
  auto storage = dyn_cast<IntegerType>(quantized.getStorageType());
  // Stored values that the expressed type cannot represent have no exact
  // difference from the zero point in it.
  if (!expressed || !storage ||
      storage.getWidth() >
          llvm::APFloat::semanticsPrecision(expressed.getFloatSemantics()))
    return stop();

  // Scales and zero points of the type, as elements of a constant `shape`d
  // tensor (or one scalar) at `block`.
  auto scaleAttribute = [&](const APFloat &scale) -> Attribute {
    APFloat value = scale;
    bool losesInfo;
    value.convert(expressed.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    return FloatAttr::get(expressed, value);
  };
  auto zeroAttribute = [&](int64_t zero) -> Attribute {
    return IntegerAttr::get(
        storage, APInt(storage.getWidth(), static_cast<uint64_t>(zero),
                       /*isSigned=*/false, /*implicitTrunc=*/true));
  };
  llvm::SmallVector<Attribute> scales, zeros;
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<AffineExpr> block;
  bool anyZero = false;
  auto add = [&](const APFloat &scale, int64_t zero) {
    scales.push_back(scaleAttribute(scale));
    zeros.push_back(zeroAttribute(zero));
    anyZero |= zero != 0;
  };
  if (auto uniform = dyn_cast<quant::UniformQuantizedType>(quantized)) {
    add(APFloat(uniform.getScale()), uniform.getZeroPoint());
  } else if (auto axis =
                 dyn_cast<quant::UniformQuantizedPerAxisType>(quantized)) {
    int64_t dim = axis.getQuantizedDimension();
    shape.push_back(axis.getScales().size());
    if (dim >= type.getRank() || type.getDimSize(dim) != shape.front() ||
        !coordinates[dim])
      return stop();
    block.push_back(coordinates[dim]);
    for (auto [scale, zero] : llvm::zip(axis.getScales(), axis.getZeroPoints()))
      add(APFloat(scale), zero);
  } else if (auto blocks =
                 dyn_cast<quant::UniformQuantizedSubChannelType>(quantized)) {
    shape.assign(blocks.getScales().getType().getShape().begin(),
                 blocks.getScales().getType().getShape().end());
    if (static_cast<int64_t>(shape.size()) != type.getRank())
      return stop();
    // A dim without a block size has one block.
    block.assign(type.getRank(), getAffineConstantExpr(0, pool.getContext()));
    for (auto [dim, size] : blocks.getBlockSizeInfo()) {
      if (!coordinates[dim] || size <= 0)
        return stop();
      block[dim] = coordinates[dim].floorDiv(size);
    }
    for (auto [scale, zero] :
         llvm::zip(blocks.getScales().getValues<APFloat>(),
                   blocks.getZeroPoints().getValues<APInt>()))
      add(scale, zero.getSExtValue());
  } else {
    return stop();
  }
  auto parameter = [&](llvm::ArrayRef<Attribute> values, Type element) {
    if (shape.empty())
      return pool.constant(cast<TypedAttr>(values.front()));
    return pool.table(
        DenseElementsAttr::get(RankedTensorType::get(shape, element), values),
        block);
  };

  // As upstream lowers it: (convert(q) - convert(zero)) * scale.
  traced.insert(op);
  traced.insert(source);
  llvm::StringRef convert =
      quantized.isSigned() ? "arith.sitofp" : "arith.uitofp";
  Expr expr = pool.apply(convert, expressed,
                         {trace(source.getInput(), coordinates, scope)});
  if (anyZero)
    expr = pool.apply(
        "arith.subf", expressed,
        {expr, pool.apply(convert, expressed, {parameter(zeros, storage)})});
  return pool.apply("arith.mulf", expressed,
                    {expr, parameter(scales, expressed)});
}

Expr Tracer::traceScalar(Value scalar, const CallScope *scope) {
  if (auto argument = dyn_cast<BlockArgument>(scalar))
    if (scope && isa<FunctionOpInterface>(argument.getOwner()->getParentOp()))
      return traceScalar(CallOpInterface(scope->call)
                             .getArgOperands()[argument.getArgNumber()],
                         scope->parent);
  TypedAttr constant;
  if (matchPattern(scalar, m_Constant(&constant)))
    return pool.constant(constant);
  return pool.scalar(scalar);
}

Expr Tracer::traceLinalg(Operation *operation, unsigned resultNumber,
                         Coordinates coordinates, const CallScope *scope) {
  auto op = cast<linalg::LinalgOp>(operation);
  Value result = operation->getResult(resultNumber);
  auto stop = [&](Reason reason) {
    return pool.leaf(result, coordinates, reason);
  };
  Block *body = op.getBlock();
  if (!op.hasPureTensorSemantics() || !body ||
      body->getNumArguments() != operation->getNumOperands())
    return stop(Reason::NotTraceable);
  if (op.getNumReductionLoops() != 0)
    return stop(Reason::ComputedAtRunTime);
  AffineMap resultMap = op.getIndexingMapMatchingResult(cast<OpResult>(result));
  if (!resultMap.isPermutation())
    return stop(Reason::NotTraceable);
  for (Operation &inner : body->without_terminator()) {
    if (isa<linalg::IndexOp, tensor::ExtractOp>(inner))
      continue;
    if (!isMemoryEffectFree(&inner))
      return stop(Reason::SideEffectsInBody);
    if (inner.getNumRegions() != 0)
      return stop(Reason::NotTraceable);
  }

  llvm::SmallVector<AffineExpr> loops(op.getNumLoops());
  for (auto [dim, expr] : llvm::enumerate(resultMap.getResults()))
    loops[cast<AffineDimExpr>(expr).getPosition()] = coordinates[dim];

  AffineReader affine(pool.getContext());
  llvm::DenseMap<Value, Expr> known;
  bool isTooLarge = false;
  std::function<Expr(Value)> evaluate = [&](Value value) -> Expr {
    if (Expr expr = known.lookup(value))
      return expr;
    if (isTooLarge |= depth >= maxDepth || pool.size() >= maxNodes)
      return nullptr;
    llvm::SaveAndRestore deeper(depth, depth + 1);
    Expr expr = nullptr;
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && argument.getOwner() == body) {
      OpOperand &operand = operation->getOpOperand(argument.getArgNumber());
      expr = isa<TensorType>(operand.get().getType())
                 ? trace(operand.get(),
                         composeMap(op.getMatchingIndexingMap(&operand), loops),
                         scope)
                 : traceScalar(operand.get(), scope);
    } else if (argument || value.getDefiningOp()->getBlock() != body) {
      expr = traceScalar(value, scope);
    } else if (auto index = value.getDefiningOp<linalg::IndexOp>()) {
      if (AffineExpr coordinate = loops[index.getDim()])
        expr = pool.index(coordinate);
    } else {
      Operation *inner = value.getDefiningOp();
      auto extract = dyn_cast<tensor::ExtractOp>(inner);
      llvm::SmallVector<Expr> operands;
      for (Value operand : extract ? ValueRange(extract.getIndices())
                                   : ValueRange(inner->getOperands())) {
        operands.push_back(evaluate(operand));
        if (!operands.back())
          return nullptr;
      }
      TypedAttr constant;
      if (extract) {
        llvm::SmallVector<AffineExpr> indices;
        for (Expr operand : operands)
          indices.push_back(affine.read(operand));
        expr = llvm::is_contained(indices, AffineExpr())
                   ? pool.gather(extract.getTensor(), operands)
                   : trace(extract.getTensor(), indices, scope);
      } else if (matchPattern(inner, m_Constant(&constant))) {
        expr = pool.constant(constant);
      } else if (inner->getNumResults() == 1) {
        expr = pool.apply(inner->getName(), inner->getAttrDictionary(),
                          value.getType(), operands);
      }
    }
    if (expr)
      known[value] = expr;
    return expr;
  };
  Expr expr = evaluate(body->getTerminator()->getOperand(resultNumber));
  if (!expr)
    return stop(isTooLarge ? Reason::ExpressionTooLarge : Reason::NotTraceable);
  traced.insert(operation);
  return expr;
}

Expr Tracer::traceCall(Operation *operation, unsigned resultNumber,
                       Coordinates coordinates, const CallScope *scope) {
  auto call = cast<CallOpInterface>(operation);
  auto stop = [&](Reason reason) {
    return pool.leaf(operation->getResult(resultNumber), coordinates, reason);
  };
  auto function = dyn_cast_or_null<func::FuncOp>(call.resolveCallable());
  if (!function || function.isExternal() ||
      !llvm::hasSingleElement(function.getBody()))
    return stop(Reason::CalleeNotTraceable);
  if (!function.isPrivate())
    return stop(Reason::CalleeNotPrivate);
  if (root && !root->isAncestor(function))
    return stop(Reason::CalleeOutOfScope);
  bool recursive = function->isAncestor(operation);
  for (const CallScope *outer = scope; outer; outer = outer->parent)
    recursive |= CallOpInterface(outer->call).resolveCallable() == function;
  if (recursive)
    return stop(Reason::CalleeIsRecursive);

  std::unique_ptr<CallScope> &inner = scopes[{operation, scope}];
  if (!inner)
    inner = std::make_unique<CallScope>(CallScope{call, scope});
  Operation *terminator = function.getBody().front().getTerminator();
  Expr expr = trace(terminator->getOperand(resultNumber), coordinates,
                    std::as_const(inner).get());
  // What a callee computes cannot be read from outside: only its constants
  // (which can be copied out) and what the call passes may remain.
  std::optional<Reason> unreadable;
  walkExpr(expr, [&](Expr node) {
    Value value = node->value;
    if (!value || !function.getBody().isAncestor(value.getParentRegion()))
      return;
    Operation *definition = value.getDefiningOp();
    if (!definition || !definition->hasTrait<OpTrait::ConstantLike>())
      unreadable = node->stopReason.value_or(Reason::CalleeNotTraceable);
  });
  if (unreadable)
    return stop(*unreadable);
  traced.insert(operation);
  return expr;
}

} // namespace mlir::qtranspose
