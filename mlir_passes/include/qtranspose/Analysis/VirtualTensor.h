//===- VirtualTensor.h - a tensor as an expression over leaves ---*- C++
//-*-===//
//
// A virtual tensor says what one element of a tensor is, without computing the
// tensor: `value[d] = expression(leaf_k[map_k(d)], ...)`. Tracing composes the
// maps of everything that only moves or transforms single elements
// (elementwise linalg ops, transposes, broadcasts, reshapes, slices, concats,
// casts, calls to private functions), so that two programs that mean the same
// weight give the same expression however their frontend spelled it.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_ANALYSIS_VIRTUALTENSOR_H
#define QTRANSPOSE_ANALYSIS_VIRTUALTENSOR_H

#include "qtranspose/Utils/Remarks.h"

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/FoldingSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVector.h"

#include <functional>
#include <optional>

namespace mlir::qtranspose {

/// Marks a dequantizing producer that code generation computes per tile.
constexpr llvm::StringLiteral tileFusedAttrName = "qtranspose.tile_fused";
/// Marks a dequantizing producer that is meant to be computed once.
constexpr llvm::StringLiteral materializedAttrName = "qtranspose.materialized";

class ScalarExpr;
using Expr = const ScalarExpr *;

/// One node of a scalar expression; uniqued, immutable, owned by an ExprPool.
/// Coordinates are affine expressions over the dims of the traced tensor; a
/// null coordinate is one that affine expressions cannot say (a division by a
/// dynamic extent), which only matters if something reads it.
class ScalarExpr : public llvm::FoldingSetNode {
public:
  enum class Kind {
    Constant, ///< `attribute`: a TypedAttr.
    Scalar,   ///< `value`: an SSA scalar that dominates the traced op.
    Index,    ///< `coordinates[0]` as an `index`.
    Leaf,     ///< element of `value` (or of the constant `attribute`).
    Gather,   ///< element of `value` at the data-dependent `operands`.
    Apply,    ///< the scalar op `name` with `attribute`s on `operands`.
    Pieces,   ///< `operands[p]` where breaks[p] <= coordinates[0] < breaks[p+1]
  };

  Kind kind;
  Type type;
  Value value;
  Attribute attribute;
  llvm::SmallVector<AffineExpr, 4> coordinates;
  std::optional<OperationName> name;
  llvm::SmallVector<Expr, 3> operands;
  llvm::SmallVector<int64_t, 3> breaks;
  /// For a leaf that is not a parameter: why tracing stopped there.
  std::optional<Reason> stopReason;

  bool is(Kind other) const { return kind == other; }
  /// True for an Apply of the op named `opName`.
  bool isApply(llvm::StringRef opName) const {
    return kind == Kind::Apply && name->getStringRef() == opName;
  }
  /// The type of the tensor that a Leaf or Gather reads.
  ShapedType getTensorType() const;

  void Profile(llvm::FoldingSetNodeID &id) const;
};

/// Creates and uniques expressions.
class ExprPool {
public:
  explicit ExprPool(MLIRContext *context) : context(context) {}
  ExprPool(const ExprPool &) = delete;
  ExprPool &operator=(const ExprPool &) = delete;
  ~ExprPool();

  MLIRContext *getContext() const { return context; }

  Expr constant(TypedAttr attribute);
  Expr integer(Type type, int64_t value);
  Expr scalar(Value value);
  Expr index(AffineExpr coordinate);
  Expr leaf(Value tensor, llvm::ArrayRef<AffineExpr> coordinates,
            std::optional<Reason> stopReason = std::nullopt);
  /// An element of a small constant that is not in the program.
  Expr table(DenseElementsAttr constant,
             llvm::ArrayRef<AffineExpr> coordinates);
  Expr gather(Value tensor, llvm::ArrayRef<Expr> indices);
  Expr apply(OperationName name, DictionaryAttr attributes, Type type,
             llvm::ArrayRef<Expr> operands);
  Expr apply(llvm::StringRef name, Type type, llvm::ArrayRef<Expr> operands);
  Expr pieces(AffineExpr position, llvm::ArrayRef<int64_t> breaks,
              llvm::ArrayRef<Expr> operands);
  /// `expr` on other operands.
  Expr withOperands(Expr expr, llvm::ArrayRef<Expr> operands);
  /// A copy of `expr` whose coordinates went through `transform`.
  Expr mapCoordinates(Expr expr,
                      llvm::function_ref<AffineExpr(AffineExpr)> transform);

  /// Number of distinct nodes made so far.
  size_t size() const { return nodes.size(); }

private:
  Expr unique(ScalarExpr &&node);

  MLIRContext *context;
  llvm::FoldingSet<ScalarExpr> set;
  llvm::SmallVector<ScalarExpr *> nodes;
};

/// Calls `visit` once for every node of `expr`, operands first.
void walkExpr(Expr expr, llvm::function_ref<void(Expr)> visit);

/// Prints `expr` on one line, e.g.
/// `mulf(sitofp(const:48x64xi8[d0, d1]), const:48x1xf32[d0, 0])`.
void printExpr(Expr expr, llvm::raw_ostream &os);

/// Where the arguments of a callee come from at one call site.
struct CallScope {
  CallOpInterface call;
  const CallScope *parent;
};

/// What tracing goes through.
enum class TraceScope {
  Elements, ///< whatever moves or computes single elements
  Layout,   ///< only what moves them
};

/// The operand of which the elements of `op`'s one result are elements, in
/// another place or number: of views, transposes, broadcasts and slices. Null
/// for other ops.
OpOperand *getMovedOperand(Operation *op);

/// Traces tensors into expressions.
class Tracer {
public:
  /// Functions that are not inside `root` (if given) are not entered: another
  /// thread may be rewriting them.
  explicit Tracer(ExprPool &pool, Operation *root = nullptr,
                  TraceScope extent = TraceScope::Elements)
      : pool(pool), root(root), extent(extent) {}

  /// Lets values for which `isLeaf` holds be leaves.
  void stopAt(std::function<bool(Value)> stop) { isLeaf = std::move(stop); }

  /// The expression of `tensor`'s element at `coordinates`, one per dim. Never
  /// fails: what cannot be traced is a leaf that carries the reason.
  Expr trace(Value tensor, llvm::ArrayRef<AffineExpr> coordinates) {
    return trace(tensor, coordinates, nullptr);
  }

  /// Traces through producers whose place of computation is decided, too.
  void enterDecided() { entersDecided = true; }

  /// Stops at casts from quantized types, so that these can be kept.
  void keepQuantized() { keepsQuantized = true; }

  /// The ops that tracing went through.
  llvm::ArrayRef<Operation *> getTracedOps() const {
    return traced.getArrayRef();
  }

private:
  using Coordinates = llvm::ArrayRef<AffineExpr>;
  Expr trace(Value tensor, Coordinates coordinates, const CallScope *scope);
  Expr traceOp(Operation *op, unsigned resultNumber, Coordinates coordinates,
               const CallScope *scope);
  Expr traceInsertSlice(Operation *op, Coordinates coordinates,
                        const CallScope *scope);
  Expr tracePad(Operation *op, Coordinates coordinates, const CallScope *scope);
  Expr traceDequantizeCast(Operation *op, Coordinates coordinates,
                           const CallScope *scope);
  Expr traceLinalg(Operation *op, unsigned resultNumber,
                   Coordinates coordinates, const CallScope *scope);
  Expr traceCall(Operation *op, unsigned resultNumber, Coordinates coordinates,
                 const CallScope *scope);
  Expr traceScalar(Value scalar, const CallScope *scope);

  ExprPool &pool;
  Operation *root;
  bool entersDecided = false;
  bool keepsQuantized = false;
  TraceScope extent;
  std::function<bool(Value)> isLeaf;
  /// One scope per chain of calls, so that its address stands for the chain.
  llvm::DenseMap<std::pair<Operation *, const CallScope *>,
                 std::unique_ptr<CallScope>>
      scopes;
  /// What is known of (value, scope) at some coordinates: without it a diamond
  /// of producers would be traced once per path through it.
  llvm::DenseMap<
      std::pair<Value, const CallScope *>,
      llvm::SmallVector<std::pair<llvm::SmallVector<AffineExpr>, Expr>, 1>>
      memo;
  llvm::SetVector<Operation *> traced;
  unsigned depth = 0;
};

/// The value behind reshapes, slices and type casts: nothing there computes or
/// moves an element.
Value skipViews(Value tensor);

/// True for a value whose contents are fixed before the program runs: a
/// constant, a load of an immutable global, or an argument marked
/// `qtranspose.constant`; looks through views.
bool isConstantTensor(Value tensor);

/// True for a tensor that stores quantized values: integers or floats of at
/// most 8 bits.
bool hasQuantizedStorage(Type type);

} // namespace mlir::qtranspose

#endif // QTRANSPOSE_ANALYSIS_VIRTUALTENSOR_H
