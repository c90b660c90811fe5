//===- PieceUnification.cpp - one expression for all pieces ---------------===//

#include "qtranspose/Analysis/PieceUnification.h"

#include "mlir/IR/TypeUtilities.h"

#include <map>
#include <vector>

namespace mlir::qtranspose {

static std::optional<APInt> asInteger(Expr expr) {
  if (expr->is(ScalarExpr::Kind::Constant))
    if (auto integer = dyn_cast<IntegerAttr>(expr->attribute))
      return integer.getValue();
  return std::nullopt;
}

/// `op(other, constant)`, for a commutative op in either order.
static std::optional<std::pair<Expr, APInt>>
matchConstantOperand(Expr expr, llvm::StringRef op, bool commutative = false) {
  if (!expr->isApply(op))
    return std::nullopt;
  if (std::optional<APInt> rhs = asInteger(expr->operands[1]))
    return std::pair(expr->operands[0], *rhs);
  if (std::optional<APInt> lhs = asInteger(expr->operands[0]);
      lhs && commutative)
    return std::pair(expr->operands[1], *lhs);
  return std::nullopt;
}

BitField asBitField(Expr expr) {
  unsigned bits = expr->type.getIntOrFloatBitWidth();
  BitField whole{expr, 0, bits, false};
  if (auto mask = matchConstantOperand(expr, "arith.andi", true)) {
    if (!mask->second.isMask())
      return whole;
    unsigned width = mask->second.countr_one();
    BitField inner = asBitField(mask->first);
    // A mask that keeps copies of a sign bit is not a field.
    if (width <= inner.width)
      return {inner.base, inner.offset, width, false};
    if (!inner.isSigned)
      return inner;
    return {mask->first, 0, width, false};
  }
  bool isSigned = expr->isApply("arith.shrsi");
  auto shift =
      matchConstantOperand(expr, isSigned ? "arith.shrsi" : "arith.shrui");
  if (!shift || shift->second.uge(bits))
    return whole;
  unsigned amount = shift->second.getZExtValue();
  if (auto left = matchConstantOperand(shift->first, "arith.shli"))
    if (left->second.ule(amount)) {
      unsigned dropped = left->second.getZExtValue();
      return {left->first, amount - dropped, bits - amount, isSigned};
    }
  if (auto mask = matchConstantOperand(shift->first, "arith.andi", true))
    if (mask->second.isShiftedMask() && mask->second.countr_zero() == amount &&
        !isSigned)
      return {mask->first, amount, mask->second.popcount(), false};
  return {shift->first, amount, bits - amount, isSigned};
}

namespace {
class Unifier {
public:
  Unifier(ExprPool &pool, AffineExpr selector)
      : pool(pool), selector(selector) {}

  Expr unify(llvm::ArrayRef<Expr> pieces) {
    if (llvm::all_equal(pieces))
      return pieces.front();
    auto [known, isNew] = memo.try_emplace(
        std::vector<Expr>(pieces.begin(), pieces.end()), nullptr);
    if (isNew)
      known->second = compute(pieces);
    return known->second;
  }

private:
  Expr compute(llvm::ArrayRef<Expr> pieces) {
    if (!llvm::all_equal(
            llvm::map_range(pieces, [](Expr piece) { return piece->type; })))
      return nullptr;
    if (Expr field = unifyFields(pieces))
      return field;
    if (!llvm::all_equal(
            llvm::map_range(pieces, [](Expr piece) { return piece->kind; })))
      return nullptr;
    switch (pieces.front()->kind) {
    case ScalarExpr::Kind::Constant:
      return unifyConstants(pieces);
    case ScalarExpr::Kind::Index:
    case ScalarExpr::Kind::Leaf:
      return unifyLeaves(pieces);
    case ScalarExpr::Kind::Apply:
    case ScalarExpr::Kind::Gather:
      return unifyOperands(pieces);
    case ScalarExpr::Kind::Scalar:
    case ScalarExpr::Kind::Pieces:
      return nullptr;
    }
    return nullptr;
  }

  Expr unifyFields(llvm::ArrayRef<Expr> pieces) {
    auto type = dyn_cast<IntegerType>(pieces.front()->type);
    if (!type)
      return nullptr;
    llvm::SmallVector<BitField> fields;
    for (Expr piece : pieces)
      fields.push_back(asBitField(piece));
    const BitField &first = fields.front();
    unsigned bits = type.getWidth();
    for (const BitField &field : fields)
      if (field.base != first.base || field.width != first.width ||
          field.isSigned != first.isSigned || field.width == bits)
        return nullptr;
    // Signed fields move up to the sign bit first, so the table counts from
    // the other end.
    llvm::SmallVector<Expr> shifts;
    for (const BitField &field : fields)
      shifts.push_back(
          pool.integer(type, first.isSigned ? bits - field.width - field.offset
                                            : field.offset));
    Expr table = unify(shifts);
    if (first.isSigned)
      return pool.apply("arith.shrsi", type,
                        {pool.apply("arith.shli", type, {first.base, table}),
                         pool.integer(type, bits - first.width)});
    APInt mask = APInt::getLowBitsSet(bits, first.width);
    return pool.apply("arith.andi", type,
                      {pool.apply("arith.shrui", type, {first.base, table}),
                       pool.constant(IntegerAttr::get(type, mask))});
  }

  Expr unifyConstants(llvm::ArrayRef<Expr> pieces) {
    llvm::SmallVector<Attribute> values;
    for (Expr piece : pieces)
      values.push_back(piece->attribute);
    Type type = pieces.front()->type;
    if (!type.isIntOrIndexOrFloat())
      return nullptr;
    auto shape =
        RankedTensorType::get({static_cast<int64_t>(values.size())}, type);
    return pool.table(DenseElementsAttr::get(shape, values), {selector});
  }

  /// Coordinates that differ by the same step from piece to piece.
  AffineExpr unifyCoordinates(llvm::ArrayRef<AffineExpr> coordinates) {
    if (llvm::all_equal(coordinates))
      return coordinates.front();
    if (llvm::is_contained(coordinates, AffineExpr()))
      return AffineExpr();
    std::optional<int64_t> step;
    for (unsigned p = 1; p < coordinates.size(); ++p) {
      auto difference = dyn_cast<AffineConstantExpr>(simplifyAffineExpr(
          coordinates[p] - coordinates[p - 1], maxDim(coordinates), 0));
      if (!difference || (step && *step != difference.getValue()))
        return AffineExpr();
      step = difference.getValue();
    }
    return coordinates.front() + selector * *step;
  }

  static unsigned maxDim(llvm::ArrayRef<AffineExpr> exprs) {
    unsigned dims = 0;
    for (AffineExpr expr : exprs)
      expr.walk([&](AffineExpr part) {
        if (auto dim = dyn_cast<AffineDimExpr>(part))
          dims = std::max(dims, dim.getPosition() + 1);
      });
    return dims;
  }

  Expr unifyLeaves(llvm::ArrayRef<Expr> pieces) {
    Expr first = pieces.front();
    bool sameTensor = llvm::all_of(pieces, [&](Expr piece) {
      return piece->value == first->value &&
             piece->attribute == first->attribute;
    });
    llvm::SmallVector<AffineExpr> coordinates;
    for (unsigned dim = 0; dim < first->coordinates.size(); ++dim) {
      llvm::SmallVector<AffineExpr> across;
      for (Expr piece : pieces) {
        if (piece->coordinates.size() != first->coordinates.size())
          return nullptr;
        across.push_back(piece->coordinates[dim]);
      }
      coordinates.push_back(sameTensor                ? unifyCoordinates(across)
                            : llvm::all_equal(across) ? across.front()
                                                      : AffineExpr());
      if (!coordinates.back())
        return nullptr;
    }
    if (first->is(ScalarExpr::Kind::Index))
      return pool.index(coordinates.front());
    if (sameTensor)
      return first->value
                 ? pool.leaf(first->value, coordinates, first->stopReason)
                 : pool.table(cast<DenseElementsAttr>(first->attribute),
                              coordinates);
    return unifyTables(pieces, coordinates);
  }

  /// Tables of one shape stack into a table with one more dim.
  Expr unifyTables(llvm::ArrayRef<Expr> pieces,
                   llvm::ArrayRef<AffineExpr> coordinates) {
    llvm::SmallVector<Attribute> values;
    for (Expr piece : pieces) {
      if (piece->value ||
          piece->getTensorType() != pieces.front()->getTensorType())
        return nullptr;
      llvm::append_range(
          values,
          cast<DenseElementsAttr>(piece->attribute).getValues<Attribute>());
    }
    ShapedType type = pieces.front()->getTensorType();
    llvm::SmallVector<int64_t> shape{static_cast<int64_t>(pieces.size())};
    llvm::append_range(shape, type.getShape());
    llvm::SmallVector<AffineExpr> stacked{selector};
    llvm::append_range(stacked, coordinates);
    return pool.table(
        DenseElementsAttr::get(
            RankedTensorType::get(shape, type.getElementType()), values),
        stacked);
  }

  Expr unifyOperands(llvm::ArrayRef<Expr> pieces) {
    Expr first = pieces.front();
    for (Expr piece : pieces)
      if (piece->name != first->name || piece->attribute != first->attribute ||
          piece->value != first->value ||
          piece->operands.size() != first->operands.size())
        return nullptr;
    llvm::SmallVector<Expr> operands;
    for (unsigned i = 0; i < first->operands.size(); ++i) {
      llvm::SmallVector<Expr> across;
      for (Expr piece : pieces)
        across.push_back(piece->operands[i]);
      operands.push_back(unify(across));
      if (!operands.back())
        return nullptr;
    }
    return pool.withOperands(first, operands);
  }

  ExprPool &pool;
  AffineExpr selector;
  /// Pieces are graphs: parts that they share are unified once.
  std::map<std::vector<Expr>, Expr> memo;
};
} // namespace

int64_t getPieceSize(Expr pieces) {
  int64_t size = pieces->breaks[1];
  for (unsigned p = 0; p + 1 < pieces->breaks.size(); ++p)
    if (pieces->breaks[p + 1] - pieces->breaks[p] != size)
      return 0;
  return size;
}

Expr unifyPieces(ExprPool &pool, AffineExpr selector,
                 llvm::ArrayRef<Expr> pieces) {
  return Unifier(pool, selector).unify(pieces);
}

} // namespace mlir::qtranspose
