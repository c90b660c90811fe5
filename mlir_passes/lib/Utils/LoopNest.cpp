//===- LoopNest.cpp - generics from expressions over loops ----------------===//

#include "qtranspose/Utils/LoopNest.h"

#include "qtranspose/Utils/EmitExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::qtranspose {

bool isReadWhole(Expr leaf, llvm::ArrayRef<int64_t> extents) {
  for (auto [coordinate, size] :
       llvm::zip_equal(leaf->coordinates, leaf->getTensorType().getShape())) {
    auto dim = dyn_cast_or_null<AffineDimExpr>(coordinate);
    bool isUnit = coordinate && isa<AffineConstantExpr>(coordinate) &&
                  cast<AffineConstantExpr>(coordinate).getValue() == 0 &&
                  size == 1;
    if (!isUnit && !(dim && extents[dim.getPosition()] == size))
      return false;
  }
  return true;
}

std::optional<llvm::SmallVector<LoopInput, 0>>
planInputs(llvm::ArrayRef<Expr> exprs, llvm::ArrayRef<int64_t> extents,
           MLIRContext *context) {
  llvm::SetVector<Expr> leaves;
  bool gathers = false;
  for (Expr expr : exprs)
    walkExpr(expr, [&](Expr node) {
      if (node->is(ScalarExpr::Kind::Leaf))
        leaves.insert(node);
      gathers |= node->is(ScalarExpr::Kind::Gather);
    });
  if (gathers)
    return std::nullopt;
  // Each loop is one factor; unit loops have none.
  IndexSpace space(context, extents);
  llvm::SmallVector<AffineExpr> toLoop;
  for (const IndexSpace::Factor &factor : space.getFactors())
    toLoop.push_back(getAffineDimExpr(factor.dim, context));

  llvm::SmallVector<LoopInput, 0> inputs;
  for (Expr leaf : leaves) {
    if (isReadWhole(leaf, extents)) {
      inputs.push_back(
          {leaf, std::nullopt,
           AffineMap::get(extents.size(), 0, leaf->coordinates, context)});
      continue;
    }
    llvm::SmallVector<LinearForm> forms;
    for (AffineExpr coordinate : leaf->coordinates) {
      std::optional<LinearForm> form =
          coordinate ? space.getLinearForm(coordinate) : std::nullopt;
      if (!form)
        return std::nullopt;
      forms.push_back(*form);
    }
    std::optional<TensorView> view =
        planView(leaf->getTensorType(), forms, space, context,
                 /*allowDirect=*/true);
    if (!view)
      return std::nullopt;
    AffineMap map =
        view->map.replaceDimsAndSymbols(toLoop, {}, extents.size(), 0);
    inputs.push_back({leaf, *view, map});
  }
  return inputs;
}

Value buildInput(OpBuilder &builder, Location loc, const LoopInput &input) {
  Value source =
      input.leaf->value
          ? localize(builder, input.leaf->value)
          : arith::ConstantOp::create(builder, loc,
                                      cast<TypedAttr>(input.leaf->attribute));
  return input.view ? buildView(builder, loc, source, *input.view) : source;
}

linalg::GenericOp buildGeneric(
    OpBuilder &builder, Location loc, llvm::ArrayRef<LoopInput> inputs,
    llvm::ArrayRef<Expr> exprs,
    llvm::ArrayRef<std::pair<Value, AffineMap>> extraInputs, Value init,
    AffineMap initMap, llvm::ArrayRef<utils::IteratorType> iterators,
    llvm::function_ref<Value(OpBuilder &, Location, llvm::ArrayRef<Value> exprs,
                             ValueRange extras, Value init)>
        body) {
  llvm::SmallVector<Value> values;
  llvm::SmallVector<AffineMap> maps;
  for (const LoopInput &input : inputs) {
    values.push_back(buildInput(builder, loc, input));
    maps.push_back(input.map);
  }
  for (auto [value, map] : extraInputs) {
    values.push_back(value);
    maps.push_back(map);
  }
  maps.push_back(initMap);
  return linalg::GenericOp::create(
      builder, loc, init.getType(), values, init, maps, iterators,
      [&](OpBuilder &b, Location bodyLoc, ValueRange arguments) {
        llvm::DenseMap<Expr, Value> known;
        for (auto [input, argument] : llvm::zip(inputs, arguments))
          known[input.leaf] = argument;
        llvm::SmallVector<Value> results;
        for (Expr expr : exprs)
          results.push_back(emitExpr(b, bodyLoc, expr, known));
        Value result = body(b, bodyLoc, results,
                            arguments.slice(inputs.size(), extraInputs.size()),
                            arguments.back());
        linalg::YieldOp::create(b, bodyLoc, result);
      });
}

} // namespace mlir::qtranspose
