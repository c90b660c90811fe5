//===- AffineReader.cpp - index arithmetic as affine maps -----------------===//

#include "qtranspose/Analysis/AffineReader.h"

#include "qtranspose/Analysis/IndexSpace.h"

namespace mlir::qtranspose {

bool isTractable(AffineExpr coordinate) {
  constexpr unsigned maxParts = 256;
  constexpr uint64_t maxConstant = uint64_t(1) << 40;
  unsigned parts = 0;
  WalkResult result = coordinate.walk([&](AffineExpr part) -> WalkResult {
    auto constant = dyn_cast<AffineConstantExpr>(part);
    if (++parts > maxParts ||
        (constant &&
         static_cast<uint64_t>(std::abs(constant.getValue())) > maxConstant))
      return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return !result.wasInterrupted();
}

AffineExpr AffineReader::read(Expr expr) {
  auto [known, isNew] = memo.try_emplace(expr);
  if (!isNew)
    return known->second;
  AffineExpr affine = compute(expr);
  if (affine && !isTractable(affine))
    affine = AffineExpr();
  return memo[expr] = affine;
}

AffineExpr AffineReader::compute(Expr expr) {
  if (expr->is(ScalarExpr::Kind::Index))
    return expr->coordinates[0];
  if (expr->is(ScalarExpr::Kind::Constant))
    if (auto integer = dyn_cast<IntegerAttr>(expr->attribute))
      return getAffineConstantExpr(integer.getValue().getSExtValue(), context);
  if (!expr->is(ScalarExpr::Kind::Apply) || !isa<IndexType>(expr->type) ||
      expr->operands.size() != 2)
    return AffineExpr();
  AffineExpr lhs = read(expr->operands[0]);
  AffineExpr rhs = read(expr->operands[1]);
  if (!lhs || !rhs)
    return AffineExpr();
  if (expr->isApply("arith.addi"))
    return lhs + rhs;
  auto factor = dyn_cast<AffineConstantExpr>(rhs);
  if (expr->isApply("arith.muli") && (factor || isa<AffineConstantExpr>(lhs)))
    return lhs * rhs;
  if (!factor || factor.getValue() <= 0)
    return AffineExpr();
  // Of what is not negative, all divisions round the same way.
  if (!isNonNegative(lhs))
    return AffineExpr();
  if (expr->isApply("arith.divui") || expr->isApply("arith.divsi") ||
      expr->isApply("arith.floordivsi"))
    return lhs.floorDiv(rhs);
  if (expr->isApply("arith.remui") || expr->isApply("arith.remsi"))
    return lhs % rhs;
  return AffineExpr();
}

} // namespace mlir::qtranspose
