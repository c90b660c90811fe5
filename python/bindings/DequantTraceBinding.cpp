//===- DequantTraceBinding.cpp - the trace analysis for Python ------------===//
//
// Plain tuples of upstream objects go across; qtranspose/trace.py gives them
// names.
//
//===----------------------------------------------------------------------===//

#include "DequantTraceBinding.h"
#include "qtranspose/Analysis/DequantDescription.h"

#include "mlir/CAPI/AffineMap.h"
#include "mlir/CAPI/IR.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

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

/// True if the program does not compute what the leaf reads.
bool isParameterLeaf(Expr leaf) {
  if (!leaf->value || leaf->stopReason)
    return !leaf->stopReason;
  if (leaf->is(ScalarExpr::Kind::Leaf))
    return true;
  // Gathers and scalars stop where they are, whatever that is.
  auto argument = dyn_cast<BlockArgument>(skipViews(leaf->value));
  if (argument)
    return argument.getOwner()->isEntryBlock() &&
           isa<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return isConstantTensor(leaf->value);
}

/// (value or constant, map or None, indices, is a parameter, reason or None)
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
  return nb::make_tuple(source, map, nb::tuple(indices), isParameterLeaf(leaf),
                        reason);
}

const char *getName(DequantDescription::Kind kind) {
  using Kind = DequantDescription::Kind;
  switch (kind) {
  case Kind::Stored:
    return "stored";
  case Kind::Constant:
    return "constant";
  case Kind::Scalar:
    return "scalar";
  case Kind::Concatenation:
    return "concatenation";
  case Kind::Expression:
    return "expression";
  }
  llvm_unreachable("all kinds are covered");
}

const char *getName(DequantStep::Kind kind) {
  using Kind = DequantStep::Kind;
  switch (kind) {
  case Kind::Cast:
    return "cast";
  case Kind::Add:
    return "add";
  case Kind::Subtract:
    return "subtract";
  case Kind::SubtractFrom:
    return "subtract-from";
  case Kind::Multiply:
    return "multiply";
  case Kind::Divide:
    return "divide";
  case Kind::Negate:
    return "negate";
  case Kind::Lookup:
    return "lookup";
  }
  llvm_unreachable("all kinds are covered");
}

template <typename Elements>
nb::tuple toTuple(const Elements &elements) {
  nb::list list;
  for (const auto &element : elements)
    list.append(element);
  return nb::tuple(list);
}

/// (leaf, type, word type, lanes, bit offsets, order)
nb::tuple fieldToPython(const StoredField &field, unsigned rank) {
  nb::list lanes;
  for (const StoredField::Lane &lane : field.lanes)
    lanes.append(nb::make_tuple(lane.axis, lane.stride, lane.count));
  return nb::make_tuple(leafToPython(field.word, rank), wrap(field.type),
                        wrap(field.word->type), nb::tuple(lanes),
                        toTuple(field.bitOffsets), toTuple(field.getOrder()));
}

/// (kind, expression, type, storage or None, constant or None, axes or None,
/// steps, (axis, breaks, parts) or None)
nb::tuple descriptionToPython(const DequantDescription &description,
                              unsigned rank) {
  nb::object field = nb::none(), constant = nb::none(), axes = nb::none();
  nb::object concatenation = nb::none();
  if (description.field)
    field = fieldToPython(*description.field, rank);
  if (description.constant)
    constant = nb::cast(wrap(Attribute(description.constant)));
  if (description.axes) {
    nb::list groups;
    for (const AxisGroup &group : *description.axes)
      groups.append(nb::make_tuple(group.axis, group.size));
    axes = nb::tuple(groups);
  }
  nb::list steps;
  for (const DequantStep &step : description.steps)
    steps.append(nb::make_tuple(
        getName(step.kind), wrap(step.type),
        step.operand ? descriptionToPython(*step.operand, rank) : nb::none()));
  if (description.kind == DequantDescription::Kind::Concatenation) {
    nb::list parts;
    for (const DequantDescription::Part &part : description.parts)
      parts.append(descriptionToPython(*part.description, rank));
    concatenation = nb::make_tuple(
        description.axis, toTuple(description.breaks), nb::tuple(parts));
  }
  return nb::make_tuple(getName(description.kind), print(description.expr),
                        wrap(description.getType()), field, constant, axes,
                        nb::tuple(steps), concatenation);
}

/// (expression, leaves, description or None, one line)
nb::tuple trace(MlirValue value) {
  Value tensor = unwrap(value);
  auto type = dyn_cast<RankedTensorType>(tensor.getType());
  if (!type)
    throw nb::type_error("not a ranked tensor");
  MLIRContext *context = type.getContext();
  unsigned rank = type.getRank();
  llvm::SmallVector<AffineExpr> dims;
  for (unsigned dim = 0; dim < rank; ++dim)
    dims.push_back(getAffineDimExpr(dim, context));

  ExprPool pool(context);
  Tracer tracer(pool);
  tracer.enterDecided();
  Expr expr = tracer.trace(tensor, dims);
  nb::list leaves;
  walkExpr(expr, [&](Expr node) {
    if (isLeaf(node))
      leaves.append(leafToPython(node, rank));
  });
  std::string line = print(expr);
  nb::object description = nb::none();
  if (std::optional<DequantDescription> found =
          describeDequantization(pool, expr, type.getShape())) {
    description = descriptionToPython(*found, rank);
    line.clear();
    llvm::raw_string_ostream os(line);
    printDescription(*found, type.getShape(), os);
  }
  return nb::make_tuple(print(expr), nb::tuple(leaves), description, line);
}

} // namespace

void bindDequantTrace(nb::module_ &m) {
  m.def("trace", &trace, nb::arg("value"));
}

} // namespace mlir::qtranspose
