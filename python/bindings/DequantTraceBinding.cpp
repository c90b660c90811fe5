//===- DequantTraceBinding.cpp - the trace analysis for Python ------------===//
//
// Plain tuples of upstream objects go across; qtranspose/trace.py gives them
// names.
//
//===----------------------------------------------------------------------===//

#include "DequantTraceBinding.h"
#include "qtranspose/Analysis/VirtualTensor.h"

#include "mlir/CAPI/AffineMap.h"
#include "mlir/CAPI/IR.h"
#include "mlir/IR/AffineMap.h"

#include "mlir/Bindings/Python/NanobindAdaptors.h"

namespace nb = nanobind;

namespace mlir::qtranspose {
namespace {

std::string print(Expr expr) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printExpr(expr, os);
  return text;
}

std::string print(AffineExpr expr) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (expr)
    os << expr;
  else
    os << '?';
  return text;
}

/// Whether the reading of an element of a tensor, or of a scalar, is what
/// `expr` stands for.
bool isLeaf(Expr expr) {
  return expr->is(ScalarExpr::Kind::Leaf) ||
         expr->is(ScalarExpr::Kind::Gather) ||
         expr->is(ScalarExpr::Kind::Scalar);
}

/// (value or constant, map or None, indices, reason or None)
nb::tuple leafToPython(Expr leaf, unsigned rank) {
  MLIRContext *context = leaf->type.getContext();
  nb::list indices;
  nb::object map = nb::none();
  if (leaf->is(ScalarExpr::Kind::Gather)) {
    for (Expr index : leaf->operands)
      indices.append(print(index));
  } else {
    for (AffineExpr coordinate : leaf->coordinates)
      indices.append(print(coordinate));
    if (!llvm::is_contained(leaf->coordinates, AffineExpr()))
      map = nb::cast(wrap(AffineMap::get(rank, 0, leaf->coordinates, context)));
  }
  nb::object reason = nb::none();
  if (leaf->stopReason)
    reason = nb::cast(getReasonName(*leaf->stopReason).str());
  nb::object source = leaf->value ? nb::cast(wrap(leaf->value))
                                  : nb::cast(wrap(leaf->attribute));
  return nb::make_tuple(source, map, nb::tuple(indices), reason);
}

/// (expression, leaves)
nb::tuple trace(MlirValue value) {
  Value tensor = unwrap(value);
  auto type = dyn_cast<RankedTensorType>(tensor.getType());
  if (!type)
    throw nb::type_error("not a ranked tensor");
  MLIRContext *context = type.getContext();
  llvm::SmallVector<AffineExpr> dims;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    dims.push_back(getAffineDimExpr(dim, context));

  ExprPool pool(context);
  Tracer tracer(pool);
  tracer.enterDecided();
  Expr expr = tracer.trace(tensor, dims);
  nb::list leaves;
  walkExpr(expr, [&](Expr node) {
    if (isLeaf(node))
      leaves.append(leafToPython(node, type.getRank()));
  });
  return nb::make_tuple(print(expr), nb::tuple(leaves));
}

} // namespace

void bindDequantTrace(nb::module_ &m) {
  m.def("trace", &trace, nb::arg("value"));
}

} // namespace mlir::qtranspose
