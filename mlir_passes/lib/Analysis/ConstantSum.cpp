//===- ConstantSum.cpp - integer sums at compile time ---------------------===//

#include "qtranspose/Analysis/ConstantSum.h"

#include "qtranspose/Analysis/IndexSpace.h"
#include "qtranspose/Utils/DerivedConstants.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::qtranspose {

llvm::SmallVector<unsigned> getUsedDims(Expr expr) {
  llvm::SmallBitVector used;
  walkExpr(expr, [&](Expr node) {
    for (AffineExpr coordinate : node->coordinates)
      if (coordinate)
        coordinate.walk([&](AffineExpr part) {
          auto dim = dyn_cast<AffineDimExpr>(part);
          if (!dim)
            return;
          if (used.size() <= dim.getPosition())
            used.resize(dim.getPosition() + 1);
          used.set(dim.getPosition());
        });
  });
  return llvm::to_vector(
      llvm::map_range(used.set_bits(), [](int dim) { return unsigned(dim); }));
}

//===----------------------------------------------------------------------===//
// Data of constants
//===----------------------------------------------------------------------===//

namespace {
/// The elements of a constant, as they lie in memory.
struct StoredElements {
  llvm::ArrayRef<char> bytes;
  unsigned width;       ///< bits of an element
  unsigned elementBits; ///< from one element to the next; 0 for a splat
  /// Elements that had to be decoded, eight bytes each.
  std::vector<int64_t> decoded;

  int64_t read(int64_t index) const {
    if (!decoded.empty())
      return decoded[elementBits ? index : 0];
    uint64_t bit = uint64_t(index) * elementBits;
    const char *start = bytes.data() + bit / 8;
    switch (elementBits) {
    case 8:
      return llvm::SignExtend64(static_cast<uint8_t>(*start), width);
    case 16:
      return load<int16_t>(start);
    case 32:
      return load<int32_t>(start);
    case 64:
      return load<int64_t>(start);
    default: {
      // Packed from the low bits up.
      uint64_t bits = 0;
      size_t offset = bit / 8;
      for (unsigned byte = 0; byte < 2 && offset + byte < bytes.size(); ++byte)
        bits |= uint64_t(uint8_t(bytes[offset + byte])) << (8 * byte);
      return llvm::SignExtend64(bits >> (bit % 8), width);
    }
    }
  }

private:
  template <typename T>
  static int64_t load(const char *from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
};
} // namespace

/// The constant that a leaf reads; null if it is not known at compile time.
static ElementsAttr getConstant(Expr leaf) {
  if (!leaf->value)
    return cast<ElementsAttr>(leaf->attribute);
  std::optional<ConstantData> data = getConstantData(leaf->value);
  return data ? data->elements : nullptr;
}

/// `value` as an integer, if it is one.
static std::optional<int64_t> asInteger(const APFloat &value) {
  llvm::APSInt integer(64, /*isUnsigned=*/false);
  bool isExact;
  if (value.convertToInteger(integer, APFloat::rmTowardZero, &isExact) !=
          APFloat::opOK ||
      !isExact)
    return std::nullopt;
  return integer.getSExtValue();
}

static std::optional<StoredElements> getData(Expr leaf) {
  ElementsAttr constant = getConstant(leaf);
  auto type = constant ? constant.getShapedType() : nullptr;
  if (!type || !type.hasStaticShape() ||
      !type.getElementType().isIntOrFloat() || type != leaf->getTensorType())
    return std::nullopt;
  Type element = type.getElementType();
  StoredElements data;
  data.width = element.getIntOrFloatBitWidth();
  if (data.width > 64)
    return std::nullopt;
  data.elementBits = llvm::alignTo(data.width, 8);
  bool isRegular = llvm::isPowerOf2_32(data.elementBits) &&
                   (data.elementBits == 8 || data.elementBits == data.width);
  uint64_t count = type.getNumElements();
  if (auto dense = dyn_cast<DenseIntOrFPElementsAttr>(constant)) {
    if (dense.isSplat() || data.width == 1 || !isRegular) {
      // Bits are packed in a way that only the attribute knows; no weight is
      // stored in them.
      if (isa<FloatType>(element)) {
        for (const APFloat &value :
             dense.isSplat()
                 ? llvm::SmallVector<APFloat>{dense.getSplatValue<APFloat>()}
                 : llvm::SmallVector<APFloat>(dense.getValues<APFloat>())) {
          std::optional<int64_t> integer = asInteger(value);
          if (!integer)
            return std::nullopt;
          data.decoded.push_back(*integer);
        }
      } else if (dense.isSplat()) {
        data.decoded.push_back(dense.getSplatValue<APInt>().getSExtValue());
      } else {
        for (const APInt &value : dense.getValues<APInt>())
          data.decoded.push_back(value.getSExtValue());
      }
      if (dense.isSplat())
        data.elementBits = 0;
      return data;
    }
    data.bytes = dense.getRawData();
  } else if (auto resource = dyn_cast<DenseResourceElementsAttr>(constant)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob)
      return std::nullopt;
    data.bytes = blob->getData();
    // Below one byte, elements take a byte each or are packed.
    if (data.width < 8 &&
        data.bytes.size() == llvm::divideCeil(count * data.width, 8))
      data.elementBits = data.width;
    else if (!isRegular)
      return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (data.bytes.size() != llvm::divideCeil(count * data.elementBits, 8))
    return std::nullopt;
  if (auto floating = dyn_cast<FloatType>(element)) {
    std::vector<int64_t> decoded;
    decoded.reserve(count);
    for (uint64_t index = 0; index < count; ++index) {
      std::optional<int64_t> integer = asInteger(
          APFloat(floating.getFloatSemantics(),
                  APInt(data.width, data.read(index), /*isSigned=*/true,
                        /*implicitTrunc=*/true)));
      if (!integer)
        return std::nullopt;
      decoded.push_back(*integer);
    }
    data.decoded = std::move(decoded);
  }
  return data;
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

namespace {
enum class Opcode {
  Constant,
  Leaf,
  Pieces,
  Copy,
  ExtUI,
  TruncI,
  AddI,
  SubI,
  MulI,
  AndI,
  OrI,
  XOrI,
  ShLI,
  ShRUI,
  ShRSI
};

/// An expression, flattened: operands come before what uses them.
struct Node {
  Opcode opcode;
  unsigned width;        ///< of the result; values are sign-extended from it
  unsigned operandWidth; ///< of the first operand
  llvm::SmallVector<unsigned, 3> operands;
  int64_t constant = 0;
  StoredElements data;
  LinearForm position; ///< index into the data, or into the pieces
  llvm::SmallVector<int64_t, 3> breaks;
};

class Evaluator {
public:
  Evaluator(llvm::ArrayRef<int64_t> extents, MLIRContext *context)
      : space(context, extents) {}

  bool compile(Expr root);
  std::optional<llvm::SmallVector<int64_t, 0>>
  run(llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<unsigned> kept,
      llvm::ArrayRef<unsigned> summed, MLIRContext *context);

private:
  std::optional<Node> makeNode(Expr expr,
                               const llvm::DenseMap<Expr, unsigned> &indices);
  bool evaluate(llvm::ArrayRef<int64_t> factors, unsigned inner, int64_t count);

  IndexSpace space;
  std::vector<Node> nodes;
  std::vector<std::vector<int64_t>> values;
};
} // namespace

static std::optional<Opcode> getOpcode(Expr expr) {
  // Floats are integers here, so that conversions keep them.
  return llvm::StringSwitch<std::optional<Opcode>>(expr->name->getStringRef())
      .Cases({"arith.extsi", "arith.sitofp", "arith.extf"}, Opcode::Copy)
      .Cases({"arith.extui", "arith.uitofp"}, Opcode::ExtUI)
      .Case("arith.trunci", Opcode::TruncI)
      .Case("arith.addi", Opcode::AddI)
      .Case("arith.subi", Opcode::SubI)
      .Case("arith.muli", Opcode::MulI)
      .Case("arith.andi", Opcode::AndI)
      .Case("arith.ori", Opcode::OrI)
      .Case("arith.xori", Opcode::XOrI)
      .Case("arith.shli", Opcode::ShLI)
      .Case("arith.shrui", Opcode::ShRUI)
      .Case("arith.shrsi", Opcode::ShRSI)
      .Default(std::nullopt);
}

std::optional<Node>
Evaluator::makeNode(Expr expr, const llvm::DenseMap<Expr, unsigned> &indices) {
  if (!expr->type.isIntOrFloat() || expr->type.getIntOrFloatBitWidth() > 64)
    return std::nullopt;
  Node node{};
  // A float is an integer here, of any width.
  node.width =
      isa<FloatType>(expr->type) ? 64 : expr->type.getIntOrFloatBitWidth();
  for (Expr operand : expr->operands)
    node.operands.push_back(indices.lookup(operand));
  switch (expr->kind) {
  case ScalarExpr::Kind::Constant: {
    node.opcode = Opcode::Constant;
    if (auto integer = dyn_cast<IntegerAttr>(expr->attribute)) {
      node.constant = integer.getValue().getSExtValue();
      return node;
    }
    auto floating = dyn_cast<FloatAttr>(expr->attribute);
    std::optional<int64_t> value =
        floating ? asInteger(floating.getValue()) : std::nullopt;
    if (!value)
      return std::nullopt;
    node.constant = *value;
    return node;
  }
  case ScalarExpr::Kind::Leaf: {
    node.opcode = Opcode::Leaf;
    std::optional<StoredElements> data = getData(expr);
    if (!data)
      return std::nullopt;
    node.data = std::move(*data);
    int64_t stride = 1;
    node.position.coefficients.resize(space.getFactors().size());
    for (auto [coordinate, size] : llvm::reverse(llvm::zip_equal(
             expr->coordinates, expr->getTensorType().getShape()))) {
      std::optional<LinearForm> form = space.getLinearForm(coordinate);
      if (!form)
        return std::nullopt;
      // What is outside of a tensor is not read.
      auto [low, high] = space.getRange(*form);
      if (low < 0 || !high || *high >= size)
        return std::nullopt;
      for (auto [sum, coefficient] :
           llvm::zip_equal(node.position.coefficients, form->coefficients))
        sum += coefficient * stride;
      node.position.constant += form->constant * stride;
      stride *= size;
    }
    return node;
  }
  case ScalarExpr::Kind::Pieces: {
    node.opcode = Opcode::Pieces;
    std::optional<LinearForm> form = space.getLinearForm(expr->coordinates[0]);
    if (!form)
      return std::nullopt;
    node.position = *form;
    node.breaks = expr->breaks;
    return node;
  }
  case ScalarExpr::Kind::Apply: {
    std::optional<Opcode> opcode = getOpcode(expr);
    if (!opcode || expr->operands.empty())
      return std::nullopt;
    node.opcode = *opcode;
    Type operand = expr->operands[0]->type;
    node.operandWidth =
        isa<FloatType>(operand) ? 64 : operand.getIntOrFloatBitWidth();
    if (auto floating = dyn_cast<FloatType>(expr->type)) {
      // The conversion must be exact.
      unsigned precision =
          APFloat::semanticsPrecision(floating.getFloatSemantics());
      if (isa<IntegerType>(operand) && node.operandWidth > precision &&
          !expr->operands[0]->is(ScalarExpr::Kind::Constant))
        return std::nullopt;
    }
    return node;
  }
  default:
    return std::nullopt;
  }
}

bool Evaluator::compile(Expr root) {
  bool isKnown = true;
  walkExpr(root, [&](Expr expr) {
    for (AffineExpr coordinate : expr->coordinates)
      isKnown &= coordinate && space.makeLinear(coordinate);
  });
  llvm::DenseMap<Expr, unsigned> indices;
  if (isKnown)
    walkExpr(root, [&](Expr expr) {
      std::optional<Node> node =
          isKnown ? makeNode(expr, indices) : std::nullopt;
      isKnown &= node.has_value();
      if (!isKnown)
        return;
      indices[expr] = nodes.size();
      nodes.push_back(std::move(*node));
    });
  return isKnown;
}

/// Computes all nodes for `count` indices of the factor `inner` from where
/// `factors` is; false if a shift is out of range.
bool Evaluator::evaluate(llvm::ArrayRef<int64_t> factors, unsigned inner,
                         int64_t count) {
  for (auto [index, node] : llvm::enumerate(nodes)) {
    int64_t *out = values[index].data();
    auto operand = [&](unsigned number) {
      return values[node.operands[number]].data();
    };
    int64_t position = node.position.constant, step = 0;
    if (!node.position.coefficients.empty()) {
      for (auto [coefficient, factor] :
           llvm::zip_equal(node.position.coefficients, factors))
        position += coefficient * factor;
      step = node.position.coefficients[inner];
    }
    auto apply = [&](auto &&function) {
      const int64_t *lhs = operand(0), *rhs = operand(1);
      for (int64_t i = 0; i < count; ++i)
        out[i] = llvm::SignExtend64(
            function(uint64_t(lhs[i]), uint64_t(rhs[i])), node.width);
      return true;
    };
    auto shift = [&](auto &&function) {
      const int64_t *amount = operand(1);
      for (int64_t i = 0; i < count; ++i)
        if (uint64_t(amount[i]) >= node.width)
          return false;
      return apply(function);
    };
    uint64_t mask = llvm::maskTrailingOnes<uint64_t>(node.operandWidth);
    bool isDefined = true;
    switch (node.opcode) {
    case Opcode::Constant:
      std::fill(out, out + count, node.constant);
      break;
    case Opcode::Leaf:
      for (int64_t i = 0; i < count; ++i)
        out[i] = node.data.read(position + i * step);
      break;
    case Opcode::Pieces:
      for (int64_t i = 0; i < count; ++i) {
        unsigned piece = 0;
        while (piece + 2 < node.breaks.size() &&
               position + i * step >= node.breaks[piece + 1])
          ++piece;
        out[i] = operand(piece)[i];
      }
      break;
    case Opcode::Copy:
      std::copy(operand(0), operand(0) + count, out);
      break;
    case Opcode::ExtUI:
      for (int64_t i = 0; i < count; ++i)
        out[i] = operand(0)[i] & mask;
      break;
    case Opcode::TruncI:
      for (int64_t i = 0; i < count; ++i)
        out[i] = llvm::SignExtend64(operand(0)[i], node.width);
      break;
    case Opcode::AddI:
      apply([](uint64_t a, uint64_t b) { return a + b; });
      break;
    case Opcode::SubI:
      apply([](uint64_t a, uint64_t b) { return a - b; });
      break;
    case Opcode::MulI:
      apply([](uint64_t a, uint64_t b) { return a * b; });
      break;
    case Opcode::AndI:
      apply([](uint64_t a, uint64_t b) { return a & b; });
      break;
    case Opcode::OrI:
      apply([](uint64_t a, uint64_t b) { return a | b; });
      break;
    case Opcode::XOrI:
      apply([](uint64_t a, uint64_t b) { return a ^ b; });
      break;
    case Opcode::ShLI:
      isDefined = shift([](uint64_t a, uint64_t b) { return a << b; });
      break;
    case Opcode::ShRUI:
      isDefined =
          shift([&](uint64_t a, uint64_t b) { return (a & mask) >> b; });
      break;
    case Opcode::ShRSI:
      isDefined = shift([](uint64_t a, uint64_t b) {
        return static_cast<uint64_t>(int64_t(a) >> b);
      });
      break;
    }
    if (!isDefined)
      return false;
  }
  return true;
}

std::optional<llvm::SmallVector<int64_t, 0>>
Evaluator::run(llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<unsigned> kept,
               llvm::ArrayRef<unsigned> summed, MLIRContext *context) {
  AffineExpr row = getAffineConstantExpr(0, context);
  int64_t size = 1;
  for (unsigned dim : llvm::reverse(kept)) {
    row = row + getAffineDimExpr(dim, context) * size;
    size *= extents[dim];
  }
  llvm::SmallVector<int64_t, 0> sums(size, 0);
  bool isEmpty = size == 0;
  for (unsigned dim : summed)
    isEmpty |= extents[dim] == 0;
  if (isEmpty)
    return sums;
  std::optional<LinearForm> target = space.getLinearForm(row);
  if (!target)
    return std::nullopt;

  // The order of the largest constant in memory.
  auto factors = space.getFactors();
  const Node *largest = nullptr;
  for (const Node &node : nodes)
    if (node.opcode == Opcode::Leaf && node.data.elementBits &&
        (!largest || node.data.bytes.size() > largest->data.bytes.size()))
      largest = &node;
  llvm::SmallVector<unsigned> order;
  for (auto [index, factor] : llvm::enumerate(factors))
    if (llvm::is_contained(kept, factor.dim) ||
        llvm::is_contained(summed, factor.dim))
      order.push_back(index);
  if (largest)
    llvm::stable_sort(order, [&](unsigned a, unsigned b) {
      auto stride = [&](unsigned factor) {
        int64_t step = largest->position.coefficients[factor];
        return step == 0 ? std::numeric_limits<int64_t>::max() : std::abs(step);
      };
      return stride(a) > stride(b);
    });

  constexpr int64_t blockSize = 1024;
  values.assign(nodes.size(), std::vector<int64_t>(blockSize));
  llvm::SmallVector<int64_t> position(factors.size(), 0);
  unsigned inner = 0;
  int64_t extent = 1, step = 0;
  if (!order.empty()) {
    inner = order.pop_back_val();
    extent = factors[inner].extent;
    step = target->coefficients[inner];
  }
  const std::vector<int64_t> &result = values.back();
  while (true) {
    for (int64_t start = 0; start < extent; start += blockSize) {
      int64_t count = std::min(blockSize, extent - start);
      if (!factors.empty())
        position[inner] = start;
      if (!evaluate(position, inner, count))
        return std::nullopt;
      int64_t row = target->constant;
      for (auto [coefficient, factor] :
           llvm::zip_equal(target->coefficients, position))
        row += coefficient * factor;
      // Sums wrap around.
      for (int64_t i = 0; i < count; ++i) {
        int64_t &sum = sums[row + i * step];
        sum = static_cast<int64_t>(uint64_t(sum) + uint64_t(result[i]));
      }
    }
    bool isDone = true;
    for (unsigned factor : llvm::reverse(order)) {
      if (++position[factor] < factors[factor].extent) {
        isDone = false;
        break;
      }
      position[factor] = 0;
    }
    if (isDone)
      return sums;
  }
}

std::optional<llvm::SmallVector<int64_t, 0>>
foldSum(Expr expr, llvm::ArrayRef<int64_t> extents,
        llvm::ArrayRef<unsigned> kept, llvm::ArrayRef<unsigned> summed) {
  // What is not read cannot matter.
  llvm::SmallVector<int64_t> known(extents.size(), 1);
  llvm::SmallVector<unsigned> used(kept);
  llvm::append_range(used, summed);
  for (unsigned dim : used) {
    if (ShapedType::isDynamic(extents[dim]))
      return std::nullopt;
    known[dim] = extents[dim];
  }
  if (!llvm::all_of(getUsedDims(expr), [&](unsigned dim) {
        return llvm::is_contained(used, dim);
      }))
    return std::nullopt;
  MLIRContext *context = expr->type.getContext();
  Evaluator evaluator(known, context);
  if (!evaluator.compile(expr))
    return std::nullopt;
  return evaluator.run(known, kept, summed, context);
}

} // namespace mlir::qtranspose
