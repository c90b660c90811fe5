//===- DequantDescriptionText.cpp - descriptions in one line --------------===//

#include "qtranspose/Analysis/DequantDescription.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace mlir::qtranspose {

using Kind = DequantDescription::Kind;
using StepKind = DequantStep::Kind;

static void printShape(llvm::ArrayRef<int64_t> shape, llvm::raw_ostream &os) {
  os << '[';
  llvm::interleave(
      shape, os,
      [&](int64_t size) {
        if (ShapedType::isDynamic(size))
          os << '?';
        else
          os << size;
      },
      "x");
  os << ']';
}

/// `2 per byte along axis 1, low nibble first`
static void printPacking(const StoredField &field,
                         llvm::ArrayRef<int64_t> shape, llvm::raw_ostream &os) {
  unsigned wordWidth = field.word->type.getIntOrFloatBitWidth();
  unsigned count = field.bitOffsets.size();
  if (count == 1 && field.bitOffsets.front() != 0) {
    os << "bits " << field.bitOffsets.front() << " to "
       << field.bitOffsets.front() + field.getWidth() - 1;
    return;
  }
  os << count << " per ";
  if (wordWidth == 8)
    os << "byte";
  else
    os << field.word->type;
  for (auto [i, lane] : llvm::enumerate(field.lanes)) {
    os << (i == 0 ? " along" : " and");
    bool isWhole = shape[lane.axis] == lane.stride * lane.count;
    if (isWhole && lane.count == 2 && lane.stride != 1)
      os << " the halves of";
    os << " axis " << lane.axis;
    if (lane.stride != 1 && !(isWhole && lane.count == 2))
      os << " with stride " << lane.stride;
  }
  if (count == 1)
    return;
  llvm::SmallVector<unsigned> order = field.getOrder();
  const char *part = field.getWidth() == 4 && count == 2 ? "nibble" : "bits";
  if (order.empty()) {
    os << ", from bits ";
    llvm::interleaveComma(field.bitOffsets, os);
  } else if (llvm::is_sorted(order)) {
    os << ", low " << part << " first";
  } else if (llvm::is_sorted(llvm::reverse(order))) {
    os << ", high " << part << " first";
  } else {
    os << ", order ";
    llvm::interleave(order, os, ",");
  }
}

static void printAxes(const DequantDescription &description,
                      llvm::raw_ostream &os) {
  if (!description.axes) {
    os << " varying irregularly";
    return;
  }
  if (description.axes->empty())
    os << " per tensor";
  // Whole axes first: "per axis 1 and group 16 on axis 0".
  auto groups = llvm::to_vector(*description.axes);
  llvm::stable_sort(groups, [](const AxisGroup &a, const AxisGroup &b) {
    return (a.size == 1) > (b.size == 1);
  });
  for (auto [i, group] : llvm::enumerate(groups)) {
    os << (i == 0 ? " per " : " and ");
    if (group.size == 1)
      os << "axis " << group.axis;
    else
      os << "group " << group.size << " on axis " << group.axis;
  }
}

static void printConstant(TypedAttr constant, llvm::raw_ostream &os) {
  if (auto real = dyn_cast<FloatAttr>(constant)) {
    llvm::SmallString<24> digits;
    real.getValue().toString(digits);
    os << digits;
  } else {
    constant.print(os, /*elideType=*/true);
  }
}

static llvm::StringRef getOperator(StepKind kind) {
  switch (kind) {
  case StepKind::Add:
    return " + ";
  case StepKind::Subtract:
    return " - ";
  case StepKind::SubtractFrom:
    return " subtracted from ";
  case StepKind::Multiply:
    return " * ";
  case StepKind::Divide:
    return " / ";
  case StepKind::Lookup:
    return " looked up in ";
  case StepKind::Negate:
    return " negated";
  case StepKind::Cast:
    return "";
  }
  llvm_unreachable("all steps are covered");
}

/// A scale and the like: `f16 per axis 0`, `8`, `(ui4 per axis 0 + 1)`.
static void printOperand(const DequantDescription &operand,
                         llvm::ArrayRef<int64_t> shape, llvm::raw_ostream &os) {
  switch (operand.kind) {
  case Kind::Constant:
    printConstant(operand.constant, os);
    break;
  case Kind::Scalar:
    os << "run-time " << operand.getType();
    break;
  case Kind::Stored: {
    const StoredField &field = *operand.field;
    if (field.word->stopReason)
      os << "run-time ";
    os << field.type;
    if (!field.isWholeWord()) {
      os << " (in " << field.word->type << ", ";
      printPacking(field, shape, os);
      os << ')';
    }
    if (field.word->is(ScalarExpr::Kind::Gather))
      os << " gathered";
    printAxes(operand, os);
    break;
  }
  case Kind::Concatenation:
  case Kind::Expression:
    printExpr(operand.expr, os);
    printAxes(operand, os);
    break;
  }
  for (const DequantStep &step : operand.steps) {
    if (step.kind == StepKind::Subtract &&
        step.operand->kind == Kind::Constant && step.operand->steps.empty()) {
      std::string text;
      llvm::raw_string_ostream stream(text);
      printConstant(step.operand->constant, stream);
      llvm::StringRef digits = text;
      os << (digits.consume_front("-") ? " + " : " - ") << digits;
      continue;
    }
    os << getOperator(step.kind);
    if (!step.operand)
      continue;
    bool isNested = llvm::any_of(step.operand->steps, [](const DequantStep &s) {
      return s.kind != StepKind::Cast;
    });
    os << (isNested ? "(" : "");
    printOperand(*step.operand, shape, os);
    os << (isNested ? ")" : "");
  }
}

static void printStep(const DequantStep &step, bool isScaled,
                      bool isComputedFloat, llvm::ArrayRef<int64_t> shape,
                      llvm::raw_ostream &os) {
  switch (step.kind) {
  case StepKind::Cast:
    if (isComputedFloat)
      os << ", converted to " << step.type;
    return;
  case StepKind::Negate:
    os << ", negated";
    return;
  case StepKind::Lookup: {
    ShapedType table = step.operand->field->word->getTensorType();
    os << ", codebook " << step.type;
    if (table.getRank() != 0 && !ShapedType::isDynamic(table.getShape().back()))
      os << " of " << table.getShape().back() << " entries";
    if (!step.operand->axes || !step.operand->axes->empty())
      printAxes(*step.operand, os);
    return;
  }
  case StepKind::Add:
    os << (isScaled ? ", offset " : ", negative zero point ");
    break;
  case StepKind::Subtract:
    os << (isScaled ? ", negative offset " : ", zero point ");
    break;
  case StepKind::SubtractFrom:
    os << ", subtracted from ";
    break;
  case StepKind::Multiply:
    os << ", scale ";
    break;
  case StepKind::Divide:
    os << ", inverse scale ";
    break;
  }
  printOperand(*step.operand, shape, os);
}

void printDescription(const DequantDescription &description,
                      llvm::ArrayRef<int64_t> shape, llvm::raw_ostream &os) {
  switch (description.kind) {
  case Kind::Stored:
    break;
  case Kind::Concatenation:
    os << "concatenation ";
    printShape(shape, os);
    os << " along axis " << description.axis << " of ";
    llvm::interleave(
        description.parts, os,
        [&](const DequantDescription::Part &part) {
          os << '{';
          printDescription(*part.description, part.shape, os);
          os << '}';
        },
        ", ");
    return;
  case Kind::Constant:
  case Kind::Scalar:
    printShape(shape, os);
    os << ' ';
    printOperand(description, shape, os);
    return;
  case Kind::Expression:
    os << "expression ";
    printShape(shape, os);
    os << ' ';
    printExpr(description.expr, os);
    return;
  }
  const StoredField &field = *description.field;
  bool isFloat = isa<FloatType>(field.type);
  if (isFloat)
    os << field.type;
  else
    os << "int" << field.getWidth();
  std::string storage;
  llvm::raw_string_ostream text(storage);
  if (!isFloat)
    text << field.type;
  if (!field.isWholeWord() || (isFloat && field.type != field.word->type)) {
    text << (isFloat ? "in " : " in ") << field.word->type;
    if (!field.isWholeWord()) {
      text << ", ";
      printPacking(field, shape, text);
    }
  }
  if (field.word->is(ScalarExpr::Kind::Gather))
    text << (storage.empty() ? "gathered" : ", gathered");
  if (!storage.empty())
    os << " (" << storage << ')';
  os << ' ';
  printShape(shape, os);
  bool isScaled = false, isComputed = false;
  for (const DequantStep &step : description.steps) {
    printStep(step, isScaled, isFloat && isComputed, shape, os);
    isScaled |=
        step.kind == StepKind::Multiply || step.kind == StepKind::Divide;
    isComputed |= step.kind != StepKind::Cast;
    isFloat |= isa<FloatType>(step.type);
  }
}

} // namespace mlir::qtranspose
