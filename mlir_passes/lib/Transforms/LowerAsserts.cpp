//===- LowerAsserts.cpp - failed assertions return to the caller ----------===//
//
// `cf.assert` aborts the process by default. Here a failed assertion calls a
// handler and returns at once, with results of the right type but no meaning,
// so that an embedding program can report it.
//
//===----------------------------------------------------------------------===//

#include "qtranspose/Passes.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::qtranspose {
#define GEN_PASS_DEF_LOWERASSERTS
#include "qtranspose/Passes.h.inc"

namespace {
struct LowerAsserts : impl::LowerAssertsBase<LowerAsserts> {
  using LowerAssertsBase::LowerAssertsBase;

  void runOnOperation() override {
    SmallVector<cf::AssertOp> asserts;
    getOperation()->walk([&](cf::AssertOp op) { asserts.push_back(op); });
    if (asserts.empty())
      return;
    for (cf::AssertOp op : asserts) {
      auto function = dyn_cast<func::FuncOp>(op->getParentOp());
      if (!function) {
        op.emitError("must be directly inside a function: lower scf and linalg "
                     "first");
        return signalPassFailure();
      }
      for (Type type : function.getResultTypes())
        if (!hasPlaceholder(type)) {
          op.emitError("a failure has no value to return for ") << type;
          return signalPassFailure();
        }
    }

    OpBuilder b = OpBuilder::atBlockBegin(getOperation().getBody());
    auto handlerFn = getOperation().lookupSymbol<func::FuncOp>(handler);
    if (!handlerFn) {
      handlerFn =
          func::FuncOp::create(b, getOperation().getLoc(), handler,
                               b.getFunctionType(b.getI64Type(), TypeRange()));
      handlerFn.setPrivate();
      handlerFn->setAttr("llvm.emit_c_interface", b.getUnitAttr());
    }

    // The handler gets a position in this list.
    SmallVector<Attribute> messages;
    DenseMap<Attribute, int64_t> numbers;
    for (cf::AssertOp op : asserts)
      if (numbers.try_emplace(op.getMsgAttr(), messages.size()).second)
        messages.push_back(op.getMsgAttr());
    getOperation()->setAttr("qtranspose.assert_messages",
                            b.getArrayAttr(messages));

    for (cf::AssertOp op : asserts)
      lower(op, handlerFn, numbers.lookup(op.getMsgAttr()));
  }

private:
  static void lower(cf::AssertOp op, func::FuncOp handlerFn, int64_t number) {
    Location loc = op.getLoc();
    auto function = cast<func::FuncOp>(op->getParentOp());
    Block *block = op->getBlock();
    Block *rest = block->splitBlock(op->getNextNode());
    Block *failure = new Block();
    function.getBody().push_back(failure);

    OpBuilder b = OpBuilder::atBlockEnd(failure);
    Value code = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(number));
    func::CallOp::create(b, loc, handlerFn, code);
    SmallVector<Value> results;
    for (Type type : function.getResultTypes())
      results.push_back(placeholder(b, loc, type));
    func::ReturnOp::create(b, loc, results);

    b.setInsertionPoint(op);
    cf::CondBranchOp::create(b, loc, op.getArg(), rest, ValueRange(), failure,
                             ValueRange());
    op.erase();
  }

  static bool hasPlaceholder(Type type) {
    if (auto memref = dyn_cast<MemRefType>(type))
      return memref.getLayout().isIdentity();
    auto shaped = dyn_cast<ShapedType>(type);
    return (!shaped || shaped.hasStaticShape()) &&
           Builder(type.getContext()).getZeroAttr(type);
  }

  /// The caller owns and frees what a function returns, so buffers are real.
  static Value placeholder(OpBuilder &b, Location loc, Type type) {
    if (auto memref = dyn_cast<MemRefType>(type)) {
      Value zero = arith::ConstantIndexOp::create(b, loc, 0);
      SmallVector<Value> sizes(memref.getNumDynamicDims(), zero);
      return memref::AllocOp::create(b, loc, memref, sizes);
    }
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  }
};
} // namespace
} // namespace mlir::qtranspose
