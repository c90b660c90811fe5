//===- IndexSpace.cpp - iteration dims split into factors -----------------===//

#include "qtranspose/Analysis/IndexSpace.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::qtranspose {

bool isNonNegative(AffineExpr expr) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue() >= 0;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return isa<AffineDimExpr>(expr);
  if (expr.getKind() == AffineExprKind::Mod)
    return true;
  return isNonNegative(binary.getLHS()) && isNonNegative(binary.getRHS());
}

std::optional<unsigned> LinearForm::asSingleFactor() const {
  std::optional<unsigned> single;
  for (auto [factor, coefficient] : llvm::enumerate(coefficients)) {
    if (coefficient == 0)
      continue;
    if (single || coefficient != 1)
      return std::nullopt;
    single = factor;
  }
  return constant == 0 ? single : std::nullopt;
}

IndexSpace::IndexSpace(MLIRContext *context, llvm::ArrayRef<int64_t> extents,
                       std::optional<unsigned> keptDim)
    : context(context) {
  for (auto [dim, extent] : llvm::enumerate(extents))
    if (extent != 1 || dim == keptDim)
      factors.push_back({static_cast<unsigned>(dim), extent, 1});
}

std::pair<int64_t, std::optional<int64_t>>
IndexSpace::getRange(const LinearForm &form) const {
  int64_t low = form.constant;
  std::optional<int64_t> high = form.constant;
  for (auto [factor, coefficient] : llvm::zip(factors, form.coefficients)) {
    if (coefficient == 0)
      continue;
    if (ShapedType::isDynamic(factor.extent)) {
      if (coefficient < 0)
        low = std::numeric_limits<int64_t>::min();
      else
        high = std::nullopt;
      continue;
    }
    int64_t reach = coefficient * std::max<int64_t>(factor.extent - 1, 0);
    if (coefficient < 0)
      low += reach;
    else if (high)
      *high += reach;
  }
  return {low, high};
}

AffineExpr IndexSpace::toAffine(const LinearForm &form) const {
  AffineExpr expr = getAffineConstantExpr(form.constant, context);
  for (auto [factor, coefficient] : llvm::enumerate(form.coefficients))
    if (coefficient != 0)
      expr = expr + getAffineDimExpr(factor, context) * coefficient;
  return expr;
}

std::optional<LinearForm>
IndexSpace::divide(const LinearForm &form, int64_t divisor, bool remainder,
                   std::optional<Split> &split) const {
  // form = divisor * quotient + rest, term by term.
  LinearForm quotient, rest;
  quotient.coefficients.resize(factors.size());
  rest.coefficients.resize(factors.size());
  for (auto [factor, coefficient] : llvm::enumerate(form.coefficients)) {
    if (coefficient % divisor == 0)
      quotient.coefficients[factor] = coefficient / divisor;
    else
      rest.coefficients[factor] = coefficient;
  }
  quotient.constant = llvm::divideFloorSigned(form.constant, divisor);
  rest.constant = form.constant - quotient.constant * divisor;

  auto [low, high] = getRange(rest);
  if (low >= 0 && high && *high < divisor)
    return remainder ? rest : quotient;

  // A factor that reaches across the divisor must be split there.
  for (auto [factor, coefficient] : llvm::enumerate(rest.coefficients)) {
    if (coefficient <= 0 || divisor % coefficient != 0)
      continue;
    int64_t inner = divisor / coefficient;
    int64_t extent = factors[factor].extent;
    if (ShapedType::isDynamic(extent) || extent <= inner || inner == 1)
      continue;
    bool divides = extent % inner == 0;
    if (divides || !split)
      split = Split{static_cast<unsigned>(factor), inner, divides};
    if (divides)
      break;
  }
  return std::nullopt;
}

std::optional<LinearForm>
IndexSpace::evaluate(AffineExpr expr, std::optional<Split> &split) const {
  LinearForm form;
  form.coefficients.resize(factors.size());
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    form.constant = constant.getValue();
    return form;
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    for (auto [index, factor] : llvm::enumerate(factors))
      if (factor.dim == dim.getPosition())
        form.coefficients[index] = factor.stride;
    return form;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return std::nullopt;
  std::optional<LinearForm> lhs = evaluate(binary.getLHS(), split);
  if (!lhs)
    return std::nullopt;
  std::optional<LinearForm> rhs = evaluate(binary.getRHS(), split);
  if (!rhs)
    return std::nullopt;
  auto isConstant = [](const LinearForm &operand) {
    return llvm::all_of(operand.coefficients, [](int64_t c) { return c == 0; });
  };
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    for (auto [sum, term] : llvm::zip(lhs->coefficients, rhs->coefficients))
      sum += term;
    lhs->constant += rhs->constant;
    return lhs;
  case AffineExprKind::Mul: {
    if (!isConstant(*rhs))
      std::swap(lhs, rhs);
    if (!isConstant(*rhs))
      return std::nullopt;
    for (int64_t &coefficient : lhs->coefficients)
      coefficient *= rhs->constant;
    lhs->constant *= rhs->constant;
    return lhs;
  }
  case AffineExprKind::FloorDiv:
  case AffineExprKind::CeilDiv:
  case AffineExprKind::Mod:
    if (!isConstant(*rhs) || rhs->constant <= 0)
      return std::nullopt;
    if (expr.getKind() == AffineExprKind::CeilDiv)
      lhs->constant += rhs->constant - 1;
    return divide(*lhs, rhs->constant, expr.getKind() == AffineExprKind::Mod,
                  split);
  default:
    return std::nullopt;
  }
}

bool IndexSpace::splitAt(unsigned dim, int64_t stride) {
  for (auto [index, factor] : llvm::enumerate(factors)) {
    if (factor.dim != dim || ShapedType::isDynamic(factor.extent))
      continue;
    if (factor.stride == stride || factor.stride * factor.extent == stride)
      return true;
    if (factor.stride < stride && stride < factor.stride * factor.extent) {
      int64_t inner = stride / factor.stride;
      if (stride % factor.stride != 0 || factor.extent % inner != 0)
        return false;
      Factor low{dim, inner, factor.stride};
      factors[index] = {dim, factor.extent / inner, stride};
      factors.insert(factors.begin() + index + 1, low);
      return true;
    }
  }
  return false;
}

bool IndexSpace::makeLinear(AffineExpr expr, std::optional<Ragged> *ragged) {
  for (;;) {
    std::optional<Split> split;
    if (evaluate(expr, split))
      return true;
    if (!split)
      return false;
    const Factor &factor = factors[split->factor];
    if (!split->divides) {
      // Only a dim that is still whole can be cut or extended.
      bool whole = llvm::count_if(factors, [&](const Factor &other) {
                     return other.dim == factor.dim;
                   }) == 1;
      if (ragged && whole)
        *ragged = Ragged{factor.dim, split->inner};
      return false;
    }
    if (!splitAt(factor.dim, factor.stride * split->inner))
      return false;
  }
}

std::optional<LinearForm> IndexSpace::getLinearForm(AffineExpr expr) const {
  std::optional<Split> split;
  return evaluate(expr, split);
}

LinearForm readLinearForm(AffineExpr expr, unsigned numFactors) {
  LinearForm form;
  form.coefficients.resize(numFactors);
  std::function<void(AffineExpr, int64_t)> add = [&](AffineExpr part,
                                                     int64_t scale) {
    if (auto constant = dyn_cast<AffineConstantExpr>(part)) {
      form.constant += scale * constant.getValue();
    } else if (auto dim = dyn_cast<AffineDimExpr>(part)) {
      form.coefficients[dim.getPosition()] += scale;
    } else if (auto sum = cast<AffineBinaryOpExpr>(part);
               part.getKind() == AffineExprKind::Add) {
      add(sum.getLHS(), scale);
      add(sum.getRHS(), scale);
    } else {
      add(sum.getLHS(),
          scale * cast<AffineConstantExpr>(sum.getRHS()).getValue());
    }
  };
  add(simplifyAffineExpr(expr, numFactors, 0), 1);
  return form;
}

} // namespace mlir::qtranspose
