//===- Passes.td - qtranspose pass definitions -------------*- tablegen -*-===//
//
// One entry per capability; docs/passes.md is generated from this file.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_PASSES
#define QTRANSPOSE_PASSES

include "mlir/Pass/PassBase.td"

def FoldTransposeIntoDequant
    : Pass<"qtranspose-fold-transpose-into-dequant"> {
  let summary =
      "Fold transposes of dequantized weights into the dequantization";
  let description = [{
    A quantized layer `y = x @ dequant(W)^T` is printed by frontends as a chain
    of elementwise ops that dequantizes the weight, a transpose that writes the
    dequantized weight once more, and a matmul. This pass re-indexes the chain
    so that it writes what the matmul reads; the transpose is gone and only the
    quantized tensor is read in permuted order.

    Before:

    ```mlir
    %w = linalg.generic {indexing_maps = [(d0, d1) -> (d0, d1),
                                          (d0, d1) -> (d0, 0),
                                          (d0, d1) -> (d0, d1)], ...}
         ins(%q, %scale : tensor<48x64xi8>, tensor<48x1xf32>)
         outs(%e : tensor<48x64xf32>) { sitofp, mulf }
    %t = linalg.transpose ins(%w : tensor<48x64xf32>)
         outs(%f : tensor<64x48xf32>) permutation = [1, 0]
    %y = linalg.matmul ins(%x, %t : ...) outs(...)
    ```

    After:

    ```mlir
    %t = linalg.generic {indexing_maps = [(d0, d1) -> (d1, d0),
                                          (d0, d1) -> (d1, 0),
                                          (d0, d1) -> (d0, d1)], ...}
         ins(%q, %scale : tensor<48x64xi8>, tensor<48x1xf32>)
         outs(%f : tensor<64x48xf32>) { sitofp, mulf }
    %y = linalg.matmul ins(%x, %t : ...) outs(...)
    ```

    **What is a transpose.** `linalg.transpose`, or a `linalg.generic` whose
    body only yields its one input and whose maps are permutations, of any rank.
    Transposes that meet are composed first: they cancel, or the composition is
    folded. Identity transposes are forwarded.

    **What is a dequantization.** The cone of elementwise ops above the
    transposed value: structured linalg ops with only parallel loops, and
    `arith`/`math` ops on tensors. Somewhere on the way from a tensor of full
    rank to the result a stored value is converted (`sitofp`, `uitofp`, an
    integer extension, `extf` from less than 32 bits), and everything the cone
    reads is a parameter: a constant, a function argument, or computed from
    those without a reduction. Scales and zero points may be indexed by any map
    (per tensor, per axis, per block); the map follows the permutation. A
    transpose of the *stored* tensor whose users convert it (`sitofp` of a
    transposed `i8` tensor) is folded into those users in the same way.

    Element types, signedness, discardable attributes and the encoding of the
    result are carried over; new ops have the fused location of the op they
    replace and the transpose. Dynamic sizes are taken from the `outs` operands
    of the ops that are replaced, in the permuted order.

    **Uses elsewhere** (`multi-use`). If a value of the chain is also used by
    something else, the chain has to be computed twice, or that value read in
    permuted order. The first reads the quantized bytes again, the second reads
    the dequantized ones. Assuming that the backend fuses elementwise ops with
    a single use, cloning up to the value `v` costs the bytes of the tensors
    that `v` is computed from, and reading costs the bytes of `v`. `auto` takes
    the smaller; a tensor of lower rank whose size is not known counts as
    nothing. If the transposed value itself would have to be read, the
    transpose stays (`multi-use`), since that read is the transpose.

    **Outlined dequantization.** If the transposed value is the result of a call
    to a private `func.func` whose returned value dequantizes (and, usually,
    transposes as its last step), a copy of the function is made that returns
    the transposed value, without a transpose in it. The call is redirected; the
    original function is erased if nothing else uses it. Needs the pass to run
    on the module that holds the function.

    **`matvec-only`** reproduces the policy of MLC-LLM: fold only if the weight
    is two-dimensional and is the right operand of a contraction (perhaps behind
    casts, broadcasts and reshapes) whose left operand has rank two or more and
    statically one row. Uses of one transpose are judged one by one. The
    contraction, its result type and casts are not touched. Transposes that
    cancel are removed regardless, since no computation changes its order.

    **`consumer-layout`**. With `kn`, contractions are not touched. With `nk`,
    every dequantized weight that a contraction reads is stored as
    `[batch dims, N dims, K dims]` (`M` in the place of `N` for a left operand),
    each group in the order of the contraction's loops, and the contraction's
    indexing map for it says so: for a weight that frontends transpose, the
    chain stays as it was and the matmul reads `(d1, d2)`; a weight that is
    dequantized as `[K, N]` is re-indexed. Contractions whose named form fixes
    the layout (`matvec`, `vecmat`, ...) become `linalg.generic`. Transposes
    that do not feed a contraction, or whose input is the result of a call, are
    folded as with `kn`.

    Whatever does not qualify is left as it is, with a `missed` remark that
    names the reason (see the list of refusals).
  }];
  let options = [
    Option<"multiUse", "multi-use", "::mlir::qtranspose::MultiUse",
           /*default=*/"::mlir::qtranspose::MultiUse::Auto",
           "What to do where a dequantized value is used elsewhere too",
           [{::llvm::cl::values(
             clEnumValN(::mlir::qtranspose::MultiUse::Auto, "auto",
                        "clone where that moves fewer bytes"),
             clEnumValN(::mlir::qtranspose::MultiUse::Clone, "clone",
                        "always clone the dequantization"),
             clEnumValN(::mlir::qtranspose::MultiUse::Read, "read",
                        "read the value in permuted order"))}]>,
    Option<"matvecOnly", "matvec-only", "bool", /*default=*/"false",
           "Fold only where the consumer is a contraction with one row">,
    Option<"consumerLayout", "consumer-layout",
           "::mlir::qtranspose::ConsumerLayout",
           /*default=*/"::mlir::qtranspose::ConsumerLayout::KN",
           "The layout in which contractions read dequantized weights",
           [{::llvm::cl::values(
             clEnumValN(::mlir::qtranspose::ConsumerLayout::KN, "kn",
                        "as the contraction reads it now"),
             clEnumValN(::mlir::qtranspose::ConsumerLayout::NK, "nk",
                        "[batch, N, K], transposed by the indexing map"))}]>,
  ];
  let dependentDialects = ["arith::ArithDialect", "linalg::LinalgDialect",
                           "tensor::TensorDialect"];
}

def FuseDequantIntoMatmul : Pass<"qtranspose-fuse-dequant-into-matmul"> {
  let summary = "Make contractions read quantized weights directly";
  let description = [{
    Every contraction operand that holds a weight is traced to the tensors that
    store it (see `qt.trace`); the contraction is then rewritten into one
    `linalg.generic` over factored dims that reads those tensors through
    metadata-only views. The dequantized weight is never stored.

    ```mlir
    // before: three tensors of the weight's full size are written and read
    %f = linalg.generic {...} ins(%w : tensor<48x64xi8>) ... sitofp
    %d = linalg.generic {... (d0, 0) ...} ins(%f, %s) ... mulf
    %t = linalg.transpose ins(%d : tensor<48x64xf32>) ... permutation = [1, 0]
    %y = linalg.matmul ins(%x, %t : tensor<1x64xf32>, tensor<64x48xf32>) ...
    // after: the i8 weight is read once
    %y = linalg.generic {indexing_maps = [(n, k) -> (k), (n, k) -> (n, k),
                                          (n, k) -> (n), (n, k) -> (n)], ...}
           ins(%x, %w, %s) ... sitofp, mulf, mulf, addf
    ```

    Cost model. An element of the weight is used once per row of the other
    operand. With at most `few-rows` rows the dequantization moves into the
    contraction's body and is computed per use (`element`). With more rows, or
    a number of rows that is only known at run time, computing it per use would
    cost more than the matmul: one dequantizing producer stays, marked
    `qtranspose.tile_fused`, and code generation computes it per tile
    (`tile`). Moving or widening an element is free and always done in the
    body. `materialize` (never chosen by the model: it writes and reads the
    weight at full size) leaves the producer to be computed once, marked
    `qtranspose.materialized`.

    Sums keep their order: dims are split, never reordered, so no
    floating-point sum is reassociated.
  }];
  let dependentDialects = ["arith::ArithDialect", "linalg::LinalgDialect",
                           "tensor::TensorDialect"];
  let options = [
    Option<"fewRows", "few-rows", "int64_t", /*default=*/"8",
           "Largest number of rows for which a weight is dequantized per "
           "element">,
    Option<"decision", "decision", "FusionDecision",
           /*default=*/"FusionDecision::Auto",
           "Where weights are dequantized", [{::llvm::cl::values(
             clEnumValN(FusionDecision::Auto, "auto", "by the cost model"),
             clEnumValN(FusionDecision::Element, "element",
                        "in the contraction's body"),
             clEnumValN(FusionDecision::Tile, "tile",
                        "in a producer that code generation fuses per tile"),
             clEnumValN(FusionDecision::Materialize, "materialize",
                        "in a producer that is computed once and stored"))
           }]>,
    Option<"consumerLayout", "consumer-layout", "ProducerLayout",
           /*default=*/"ProducerLayout::AsIterated",
           "Dim order of a producer that remains", [{::llvm::cl::values(
             clEnumValN(ProducerLayout::AsIterated, "as-iterated",
                        "as the contraction iterates"),
             clEnumValN(ProducerLayout::KN, "kn",
                        "the dims that are summed over first"),
             clEnumValN(ProducerLayout::NK, "nk",
                        "the dims that are summed over last"))
           }]>,
  ];
}

def AbsorbTransposes : Pass<"qtranspose-absorb-transposes"> {
  let summary = "Let the neighbours of the transposes that remain absorb them";
  let description = [{
    What folding and fusing leave are transposes of run-time values (and of
    weights that are not dequantized): attention heads that change places, a
    layout that a frontend moves to and back. Each of them reads and writes its
    tensor once for nothing. A transpose is absorbed as a whole or it stays:

    1. **By its readers**, if all of them can read the source in permuted order.
       A structured op gets another indexing map. Reshapes, slices, casts and
       broadcasts in between are looked through: the loops of the reader are
       split until its maps are projected permutations again, and its other
       operands and its result are reshaped, which moves nothing. The order of
       sums does not change.
    2. **By its source**, if nothing else reads that: the op that computes the
       source writes it in permuted order. This goes through reshapes that keep
       what is permuted together, slices, casts, concatenations and other
       transposes; fills and accumulators that start as a fill are made in the
       new shape.
    3. Transposes that meet cancel or become one.

    ```mlir
    %h = tensor.expand_shape %y [[0], [1, 2]] ... : tensor<5x64xf32> into tensor<5x4x16xf32>
    %t = linalg.transpose ins(%h) outs(%e : tensor<4x5x16xf32>) permutation = [1, 0, 2]
    %s = linalg.batch_matmul ins(%t, %k : ...) outs(%f : tensor<4x5x7xf32>)
    // becomes
    %s = linalg.generic {indexing_maps = [(b, m, n, k) -> (m, b, k), ...]} ins(%h, %k) outs(%f)
    ```

    Nothing is computed twice and no tensor is written that was not written
    before, so the pass never moves more bytes. Every rewrite removes a
    transpose, so it ends; running it again changes nothing.

    A named op keeps its name where that allows other maps (`linalg.matmul`,
    `linalg.batch_matmul`, `linalg.contract`), and becomes a `linalg.generic`
    elsewhere. Convolutions keep their layouts. With `into-contractions=false`
    contractions keep the layouts of their operands, for backends that know
    matmuls by these.
  }];
  let options = [
    Option<"intoContractions", "into-contractions", "bool", /*default=*/"true",
           "Let contractions read their operands in permuted order">,
  ];
  let dependentDialects = ["arith::ArithDialect", "linalg::LinalgDialect",
                           "tensor::TensorDialect"];
}

def StaticLhsToRhs : Pass<"qtranspose-static-lhs-to-rhs"> {
  let summary = "Move weights from the left of a contraction to the right";
  let description = [{
    `Y = W @ A` with a constant `W` becomes `Y = (A^T @ W^T)^T`, for backends
    that only take a dynamic left and a constant right operand.

    ```mlir
    // before
    %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
    %y = linalg.matmul ins(%w, %a : tensor<2x3xf32>, tensor<3x2xf32>) ...
    // after
    %wt = arith.constant {qtranspose.derived = {
            map = affine_map<(d0, d1) -> (d1, d0)>,
            source_type = tensor<2x3xf32>}}
          dense<[[1., -1.], [2., 0.], [0., 3.]]> : tensor<3x2xf32>
    %at = linalg.transpose ins(%a : tensor<3x2xf32>) ... permutation = [1, 0]
    %yt = linalg.matmul ins(%at, %wt : tensor<2x3xf32>, tensor<3x2xf32>) ...
    %y = linalg.transpose ins(%yt : tensor<2x2xf32>) ... permutation = [1, 0]
    ```

    **Which contractions.** Linalg ops that add products of their first operand,
    which is a weight, with another, which is not: named ones, `contract`,
    `quantized_matmul` and generics with any conversions; and 1x1 convolutions
    whose channels come before their pixels. A weight is made from constants,
    immutable globals, arguments marked `qtranspose.constant` or arguments of
    quantized storage, however it is traced to them (see `qt.trace`). Between
    two arguments of quantized storage nothing tells the weight; mark it. What
    has its weight on the right is left alone.

    **Dims by role.** A dim is a row, a column, summed or a batch by the operands
    that vary along it. A weight that is copied for every batch does not vary
    along it: the batches become rows, and the copies are not made. By default
    (`batch=flatten`) all rows are one dim, `[B*N, K] @ [K, M]`;
    `batch=batched` keeps `[B, N, K] @ [K, M]`. A weight that differs per batch
    keeps its batch (`[B, N, K] @ [B, K, M]`), or is refused with
    `paired-batches=refuse`. Products of sizes are checked for overflow. Of the
    orders that the rows can have, and of the tensors behind the activation's
    reshapes and transposes, the pass takes what leaves the fewest transposes.
    Sums keep their order, so results do not change at all.

    **The weight** is written in its new order: constants are re-ordered when
    compiling (words of packed elements as words; groups of scales along),
    dequantizations iterate in the new order, other tensors are transposed.
    Weights of `!quant.uniform` types are transposed as what they store, and the
    axes and blocks of the type move along. Constants derived from equal data in
    the same way are one constant. The attribute `qtranspose.derived` of a
    derived constant says what it comes from: `source` (the name of the resource
    or global, if it has one), `source_type`, `map` from its coordinates to the
    source's, and for dequantized weights `quantization`: the axes and group
    sizes of scales and zero points, in terms of the weight's new dims.

    **Around it.** An accumulator is computed in the new layout if it is filled,
    broadcast or constant, else transposed. Elementwise ops that the result
    alone flows through (bias adds in either operand order, activations, casts)
    and transposes are moved before the transpose that restores the result; the
    layers of a chain of left weights have no transposes in between. What
    transposes remain at run time is for `qtranspose-absorb-transposes`.

    Everything is planned before anything is changed; `fail-at` lets a step of
    planning fail, after which the module is byte-identical.
  }];
  let dependentDialects = ["arith::ArithDialect", "linalg::LinalgDialect",
                           "quant::QuantDialect", "tensor::TensorDialect"];
  let options = [
    Option<"batch", "batch", "BatchForm", /*default=*/"BatchForm::Flatten",
           "How batches that share one weight are contracted",
           [{::llvm::cl::values(
             clEnumValN(BatchForm::Flatten, "flatten",
                        "as rows of one matmul: [B*N, K] @ [K, M]"),
             clEnumValN(BatchForm::Batched, "batched",
                        "as batches: [B, N, K] @ [K, M]"))}]>,
    Option<"pairedBatches", "paired-batches", "PairedBatches",
           /*default=*/"PairedBatches::Keep",
           "What happens to a weight that differs per batch",
           [{::llvm::cl::values(
             clEnumValN(PairedBatches::Keep, "keep",
                        "[B, N, K] @ [B, K, M]"),
             clEnumValN(PairedBatches::Refuse, "refuse",
                        "it stays on the left"))}]>,
    Option<"failAt", "fail-at", "PlanStep", /*default=*/"PlanStep::None",
           "Let a step of planning fail (for tests)", [{::llvm::cl::values(
             clEnumValN(PlanStep::None, "none", "no step"),
             clEnumValN(PlanStep::ShapePlan, "shape-plan",
                        "roles of dims, shapes, transposes"),
             clEnumValN(PlanStep::DerivedWeight, "derived-weight",
                        "the transposed weight"),
             clEnumValN(PlanStep::QuantizationLookup, "quantization-lookup",
                        "the quantization that moves with it"),
             clEnumValN(PlanStep::Compensation, "compensation",
                        "zero points that are operands"),
             clEnumValN(PlanStep::BiasMapping, "bias-mapping",
                        "the accumulator and what is added afterwards"),
             clEnumValN(PlanStep::WeightLowering, "weight-lowering",
                        "the op that takes the new operands"))}]>,
  ];
}

def TileFusedDequant : Pass<"qtranspose-tile-fused-dequant"> {
  let summary = "Compute dequantizations marked `qtranspose.tile_fused` per tile";
  let description = [{
    `qtranspose-fuse-dequant-into-matmul` leaves a weight with many rows to one
    producer marked `qtranspose.tile_fused`. This pass tiles the contraction
    over the weight's dims and computes the producer inside the loops, so that
    no buffer of the dequantized weight's size exists.

    ```mlir
    %d = linalg.generic {...} ins(%w : tensor<48x64xi8>) ... {qtranspose.tile_fused}
    %y = linalg.generic {...} ins(%x, %d) outs(%init) ...
    // becomes
    %y = scf.for %n ... iter_args(%acc = %init)
           %w_tile = tensor.extract_slice %w[%n, 0] [16, 64] [1, 1]
           %d_tile = linalg.generic {...} ins(%w_tile : tensor<16x64xi8>) ...
           %y_tile = linalg.generic {...} ins(%x, %d_tile) ...
    ```

    Tiles of the summed dims follow the order of the sum: results do not change.

    Not a pattern set: it decides per contraction, with its producers.
  }];
  let dependentDialects = ["affine::AffineDialect", "arith::ArithDialect",
                           "linalg::LinalgDialect", "scf::SCFDialect",
                           "tensor::TensorDialect"];
  let options = [
    Option<"tileElements", "tile-elements", "int64_t", /*default=*/"8192",
           "Largest number of dequantized elements in a tile">,
  ];
}

def LowerQuantizedMatmul : Pass<"qtranspose-lower-quantized-matmul"> {
  let summary = "Compute quantized contractions as integer matmuls";
  let description = [{
    A sum of products of stored integers less their zero points is written as a
    sum of products of the stored integers and a compensation:

    ```
    sum_k (A - za)(W - zw) = sum_k A W - za (sum_k W - K zw) - zw sum_k A
    ```

    The compensation is added to the init, so the result is that of the integer
    matmul:

    ```mlir
    // before
    %y = linalg.quantized_matmul ins(%a, %w, %za, %c0 : tensor<8x64xi8>,
                                     tensor<64x48xi8>, i32, i32) outs(%zero)
    // after: %sums = -za sum_k W, a constant
    %c = linalg.generic {... (m, n) -> (n) ...} ins(%sums) { yield } -> tensor<8x48xi32>
    %y = linalg.generic {... (m, n, k) ...} ins(%a, %w) outs(%c) { extsi, muli, addi }
    ```

    * Sums of constants (also in `dense_resource`) are computed at compile time,
      others by a reduction that reads the tensor in the layout in which it is
      stored. What is zero is left out: no sum is made for a zero point of zero.
    * Zero points may be constants, tensors or scalars that are computed, per
      tensor or per channel, signed or unsigned of any value; not along the dim
      that is summed over. The operands are of the types that the program
      stores; the body extends each by its signedness.
    * Sources: any contraction whose body multiplies and adds and whose factors
      are such differences, whatever subtracts: `linalg.quantized_matmul`,
      `quantized_batch_matmul`, convolutions with zero points, the body of a
      generic, or producers, behind transposes, broadcasts and reshapes.
    * A sum in integers of up to 32 bits is computed in these, and equal modulo
      their width: nothing need be proved, and no op says `nsw`. Where the
      program adds in a wider type, the sum is computed in 32 bits if it must
      fit, by the largest values of the factors and the number of terms:
      `K * max|A - za| * max|W - zw| < 2^31`.
    * A float sum of scaled factors is a scaled integer sum, but rounds
      differently; see `allow-reassociation`. Scales per tensor or channel are
      then applied to the sum, and must be finite: an infinite one times a sum
      is infinite where the sum of its products is not a number.
  }];
  let dependentDialects = ["arith::ArithDialect", "linalg::LinalgDialect",
                           "tensor::TensorDialect"];
  let options = [
    Option<"allowReassociation", "allow-reassociation", "bool",
           /*default=*/"false",
           "Also replace float sums of dequantized factors, which rounds once "
           "where the program rounds each product and each partial sum">,
  ];
}

def AttachEncodings : Pass<"qtranspose-attach-encodings", "ModuleOp"> {
  let summary = "Attach the quantization encodings of a file to tensors";
  let description = [{
    Reads the JSON that quantization tools write beside a float model (AIMET's
    versions 0.4 to 1.0, and the overrides of QNN converters) and attaches each
    encoding to what it is of, as the attribute `qtranspose.encoding`. The
    document itself is kept on the module (`qtranspose.encodings`), with the
    names of what was not found; `qtranspose-export-encodings` writes it out
    again. [encodings.md](encodings.md) has the formats and rules.

    * `param_encodings` are found by the key of a `dense_resource`, the symbol
      of a global, an attribute or the location of an argument, or the location
      of a constant or of a value that is computed from one.
    * `activation_encodings` are found by argument, location of an op, or what a
      function calls its results. Inputs of a layer are counted without its
      weight. Where the one encoding that names nothing meets the one run-time
      operand that has none, they belong together, on whichever side of the
      weight the operand is.
    * Channels lie along the axis that the entry says, or along the dim of the
      weight that is a dim of the result of its contraction, of their number.

    Not a pattern set: it reads a file for the whole module.
  }];
  let options = [
    Option<"file", "file", "std::string", /*default=*/"\"\"",
           "The JSON file to read">,
  ];
}

def ExportEncodings : Pass<"qtranspose-export-encodings", "ModuleOp"> {
  let summary = "Write the encodings of a program to a file";
  let description = [{
    Writes the document that `qtranspose-attach-encodings` read, with the entry
    of a parameter that is now stored in another order under the name of the
    derived constant, along its axis (`axis`). What was not found stays as it
    is. The file appears under its name only when complete.

    Not a pattern set: it changes nothing.
  }];
  let options = [
    Option<"file", "file", "std::string", /*default=*/"\"\"",
           "The JSON file to write">,
  ];
}

//===----------------------------------------------------------------------===//
// Lowering to the CPU
//===----------------------------------------------------------------------===//

def CheckCpuInput : Pass<"qtranspose-check-cpu-input", "ModuleOp"> {
  let summary = "Refuse programs that the CPU target cannot execute";
  let description = [{
    Emits one error for unranked or sparse tensors, complex numbers, f80, f128,
    tf32, tensors of integers wider than 64 bits, tensors too large to address,
    unregistered operations and calls of functions without a body. The lowerings
    that follow would fail unclearly or abort.

    Not a pattern set: it rewrites nothing.
  }];
}

def LowerQuantCasts : Pass<"qtranspose-lower-quant-casts", "ModuleOp"> {
  let summary = "Lower quant.dcast, quant.qcast and quant.scast to arithmetic";
  let description = [{
    Every `!quant.uniform` type becomes its signless storage integer, and the
    casts become `linalg.generic` ops (scalar arith on scalars) that take the
    scales and zero points as constants: per layer, per axis and per block
    (sub-channel), signed and unsigned, with dynamic dims.

    * dcast: `(stored - zero point) * scale`. The subtraction is exact; the
      scale is rounded to the expressed type first; the product is rounded once
      to the expressed type (f16 and bf16 are computed in f32, storage of more
      than 16 bits in f64).
    * qcast: `clamp(roundeven(real / scale) + zero point)` with the type's
      storage minimum and maximum: round half to even before the zero point is
      added, as ONNX and PyTorch do. Infinities saturate, NaN becomes the
      storage minimum.

    Refused: `quant.calibrated` types, and ops that move elements (a transpose,
    a slice) of a tensor whose quantized type has an axis, since the type does
    not say where the axis went.

    Not a pattern set: it changes types across whole functions.
  }];
  let dependentDialects = ["arith::ArithDialect", "linalg::LinalgDialect",
                           "math::MathDialect", "quant::QuantDialect",
                           "tensor::TensorDialect"];
}

def DecomposeAggregates : Pass<"qtranspose-decompose-aggregates", "ModuleOp"> {
  let summary = "Decompose linalg.softmax, pack, unpack and Winograd ops";
  let description = [{
    Also turns a `tensor.expand_shape` into several dynamic sizes, on which
    `expand-strided-metadata` aborts, into a `tensor.reshape`, and drops the
    stride of slices of one element, on which `fold-memref-alias-ops` aborts,
    and slices and concatenations of nothing, which become invalid subviews.

    Not a pattern set: it is a step of `qtranspose-to-cpu` only.
  }];
  let dependentDialects = ["arith::ArithDialect", "linalg::LinalgDialect",
                           "math::MathDialect", "tensor::TensorDialect"];
}

def LegalizeStorageTypes
    : Pass<"qtranspose-legalize-storage-types", "ModuleOp"> {
  let summary = "Store tensors and buffers as integers of whole bytes";
  let description = [{
    Tensors and memrefs of i1, other sub-byte and odd-width integers, signed and unsigned
    integers and floats of at most 8 bits become tensors of signless i8, i16,
    i32 or i64. Values do not change: bodies of linalg ops convert.
    One element takes one such integer; i1 and unsigned ones are zero-extended,
    others sign-extended; floats keep their bits. Bits above the element's width
    are ignored on reading.

    `dense_resource` data of sub-byte elements may hold one element per byte, or
    be packed from the low bits up; the size of the data tells which. Resources
    of at most 65536 elements become dense: upstream aborts when it folds an
    element of a resource.

    Not a pattern set: it changes types across whole functions.
  }];
  let dependentDialects = ["arith::ArithDialect", "linalg::LinalgDialect"];
}

def ExpandSmallFloats : Pass<"qtranspose-expand-small-floats"> {
  let summary = "Compute on small floats in f32 and integer arithmetic";
  let description = [{
    Scalar (and vector) operations of the arith and math dialects on floats of
    at most 8 bits and on bf16 are computed in f32 and rounded, math functions
    of f16 too. Conversions of these formats, and f64 to f16, become exact
    arithmetic on integers, f32 and f64: one rounding, to nearest even; what is
    too big becomes infinity, or NaN in formats without one, or the largest
    value in formats without either. Rounding *to* f8E8M0FNU is refused.

    Not a pattern set: it is a step of `qtranspose-to-cpu` only.
  }];
  let dependentDialects = ["arith::ArithDialect"];
}

def PullScalesOutOfReduction
    : Pass<"qtranspose-pull-scales-out-of-reduction"> {
  let summary = "Apply scales and zero points once per group, not per weight";
  let description = [{
    `sum_g sum_k x * ((q - z) * s)` becomes `sum_g s * (sum_k x * q - z * sum_k x)`
    where scale and zero point do not depend on `k`, the position in the group.

    ```mlir
    %y = linalg.generic {...} ins(%x, %w, %z, %s : tensor<4x32xf32>,
           tensor<48x4x32xi8>, tensor<48x4xf32>, tensor<48x4xf32>) ...
         { sitofp, subf, mulf, mulf, addf }
    // becomes
    %p = linalg.generic {...} ins(%x, %w) outs(%zero : tensor<48x4xf32>)
         { sitofp, mulf, addf }
    %sx = linalg.generic {...} ins(%x) outs(%zero : tensor<4xf32>) { addf }
    %y = linalg.generic {...} ins(%p, %sx, %z, %s) ...
         { mulf, subf, mulf, addf }
    ```

    The body is read as a sum of products, whatever its form: scales inside or
    outside of the difference, zero points that are integers, an offset that is
    added (`q * s + b`), a scale of scales. With one scale per output, all of
    the sum is inner.

    Allowed only with `allow-reassociation`, since sums are taken in another
    order. Sums are kept in the type of the output (at least 32 bits). What the
    program rounds to a narrower type (a weight in f16) stays rounded, and its
    scale inside, except with `excess-precision`. Zero points stay inside of sums of more than 512 terms.

    Not a pattern set: it is a step of `qtranspose-to-cpu` only.
  }];
  let dependentDialects = ["arith::ArithDialect", "linalg::LinalgDialect",
                           "tensor::TensorDialect"];
  let options = [
    Option<"allowReassociation", "allow-reassociation", "bool",
           /*default=*/"false",
           "Allow floating-point sums in another order">,
    Option<"excessPrecision", "excess-precision", "bool", /*default=*/"false",
           "Allow not to round to narrower types in between">,
  ];
}

def WidenPackedFields : Pass<"qtranspose-widen-packed-fields"> {
  let summary = "Read fields below a byte from words, without shifts";
  let description = [{
    In a contraction whose terms are an activation times an unsigned field of a
    constant's element, `x * float((w >> s) & m)`, the elements of neighbours
    along the summed dim beside the lanes are stored as one word of 32 bits, and
    the shift becomes a factor of the activation:

    ```mlir
    // w : tensor<8x16x32xi8>, s = dense<[0, 4]>
    ^bb0(%x: f32, %w: i8, %s: i8, %sum: f32):
      %0 = arith.shrui %w, %s : i8
      %1 = arith.andi %0, %c15 : i8
      %2 = arith.uitofp %1 : i8 to f32
    // becomes, with w : tensor<8x4x32xi32>, m = dense<[[15, 240], ...]>, and
    // x * 2^-s computed once, before
    ^bb0(%x: f32, %w: i32, %b: i32, %m: i32, %sum: f32):
      %0 = arith.shrui %w, %b : i32    // by 0, but for the highest bits
      %1 = arith.andi %0, %m : i32
      %2 = arith.sitofp %1 : i32 to f32
    ```

    Both factors are exact, so terms do not change, unless an activation is so
    small that `x * 2^-s` is not a normal number: the error of a term is below
    2^-118 then.

    Not a pattern set: it is a step of `qtranspose-to-cpu` only.
  }];
  let dependentDialects = ["arith::ArithDialect", "linalg::LinalgDialect",
                           "tensor::TensorDialect"];
}

def VectorizeContractions : Pass<"qtranspose-vectorize-contractions"> {
  let summary = "Lower contractions to loops over vectors";
  let description = [{
    A contraction on tensors (a named one or a `linalg.generic` with any body of
    elementwise ops, such as the canonical form of a fused weight) becomes
    loops that read vectors, hold the sums in registers and write vectors.

    * The *lane dim* lies along the vectors. It is one that is contiguous in the
      operands that have it: an output dim if there is one (each lane then is an
      output and adds its terms in the order of the iteration space: no result
      changes), else a summed dim (each lane then has a sum of its own; only
      with `allow-reassociation`, or for integers).
    * Blocks of rows that share the vectors of the weight are computed together,
      so a weight is dequantized once per block.
    * What the body computes from some of the dims only is computed outside the
      loops over the others.

    ```mlir
    %y = linalg.generic {indexing_maps = [(n, k) -> (k), (n, k) -> (k, n),
                                          (n, k) -> (n), (n, k) -> (n)], ...}
           ins(%x, %w, %s : tensor<64xf32>, tensor<64x32xi8>, tensor<32xf32>) ...
    // becomes
    %scale = vector.transfer_read %s[%c0] : tensor<32xf32>, vector<32xf32>
    %sum = scf.for %k = ... iter_args(%acc = %zero) -> vector<32xf32> {
      %x_k = tensor.extract %x[%k]
      %w_k = vector.transfer_read %w[%k, %c0] : tensor<64x32xi8>, vector<32xi8>
      ...
    }
    %y = vector.transfer_write %sum, ...
    ```

    What is refused is left to `qtranspose-linalg-to-loops`.

    Not a pattern set: it is a step of `qtranspose-to-cpu` only.
  }];
  let dependentDialects = ["affine::AffineDialect", "arith::ArithDialect",
                           "scf::SCFDialect", "tensor::TensorDialect",
                           "ub::UBDialect", "vector::VectorDialect"];
  let options = [
    Option<"vectorBits", "vector-bits", "int64_t", /*default=*/"0",
           "Bits of a vector register (0: as this machine has)">,
    Option<"allowReassociation", "allow-reassociation", "bool",
           /*default=*/"false", "Allow floating-point sums in another order">,
    Option<"contract", "contract", "bool", /*default=*/"false",
           "Allow a product and a sum to be rounded once, together">,
  ];
}

def PackWeights : Pass<"qtranspose-pack-weights"> {
  let summary = "Store constant weights in the order in which kernels read them";
  let description = [{
    The output dim of a contraction's weight is split into blocks of `lanes`,
    and every constant that has the dim (the weight, its scales and zero points)
    is stored as `[block, ..., lane]`: one vector per step of the sum, and one
    run of memory per block.

    ```mlir
    %y = linalg.generic {indexing_maps = [(n, k) -> (k), (n, k) -> (n, k),
                                          (n, k) -> (n), (n, k) -> (n)], ...}
           ins(%x, %w, %s : ..., tensor<96x64xi8>, tensor<96xf32>) ...
    // becomes
    %wp = arith.constant {qtranspose.derived = {
            map = affine_map<(d0, d1, d2) -> (d0 * 32 + d2, d1)>, ...}}
            ... : tensor<3x64x32xi8>
    %y = linalg.generic {indexing_maps = [(b, k, l) -> (k), (b, k, l) -> (b, k, l),
                                          (b, k, l) -> (b, l), (b, k, l) -> (b, l)], ...}
           ins(%x, %wp, %sp : ..., tensor<3x64x32xi8>, tensor<3x32xf32>) ...
    ```

    What is left of a dim that is no multiple of `lanes` becomes a contraction
    of its own. A dequantization that is computed per tile
    (`qtranspose.tile_fused`) is packed along with the contraction that reads
    it. Other operands with the dim (a bias that is an argument) are reshaped.
    Results do not change.

    Not a pattern set: it decides per contraction, with all its constants.
  }];
  let dependentDialects = ["arith::ArithDialect", "linalg::LinalgDialect",
                           "tensor::TensorDialect"];
  let options = [
    Option<"lanes", "lanes", "int64_t", /*default=*/"0",
           "Neighbouring outputs that are stored together (0: four registers "
           "of f32 on this machine)">,
  ];
}

def ExternalizeConstants
    : Pass<"qtranspose-externalize-constants", "ModuleOp"> {
  let summary = "Leave the contents of large constants to who runs the code";
  let description = [{
    A constant `memref.global` of at least `smallest` bytes becomes an external
    one; the module attribute `qtranspose.external_constants` has its contents
    under its new name, which is the old one with the prefix that MLIR's
    execution engine gives to symbols it is told of. `qt.compile` puts these
    contents in memory with large pages.

    ```mlir
    memref.global "private" constant @w : memref<64x4096xi8> = dense_resource<w>
    // becomes
    module attributes {qtranspose.external_constants =
                         {_mlir_ciface_w = dense_resource<w> : tensor<...>}} {
      memref.global constant @_mlir_ciface_w : memref<64x4096xi8>
    ```

    Splats, and elements that are not whole bytes, stay.

    Not a pattern set: it renames symbols.
  }];
  let dependentDialects = ["memref::MemRefDialect"];
  let options = [
    Option<"smallest", "smallest", "int64_t", /*default=*/"65536",
           "Bytes of the smallest constant that is left out">,
  ];
}

def PrefetchStreams : Pass<"qtranspose-prefetch-streams"> {
  let summary = "Ask for the next lines of large buffers that loops read";
  let description = [{
    A vector that a loop reads from a buffer of at least `smallest` bytes, at an
    address that moves on with the loop, gets a `memref.prefetch` of the line
    `distance` bytes further on, be it past the end of the buffer: nothing is
    read there. Reads of one line share it.

    ```mlir
    scf.for %k = ... {
      %w = vector.transfer_read %weight[%n, %k, %c0] ...
    // becomes
    %all = memref.collapse_shape %weight ...
    scf.for %k = ... {
      %at = affine.apply affine_map<(n, k) -> (n * 262144 + k * 64 + 4096)> ...
      memref.prefetch %all[%at], read, locality<3>, data
      %w = vector.transfer_read %weight[%n, %k, %c0] ...
    ```

    Not a pattern set: it looks at all reads of a loop.
  }];
  let dependentDialects = ["affine::AffineDialect", "memref::MemRefDialect"];
  let options = [
    Option<"distance", "distance", "int64_t", /*default=*/"4096",
           "Bytes between a read and what is asked for">,
    Option<"smallest", "smallest", "int64_t", /*default=*/"262144",
           "Bytes of the smallest buffer that is worth it">,
  ];
}

def IsolateBuffers : Pass<"qtranspose-isolate-buffers", "ModuleOp"> {
  let summary = "Keep arguments and loaded state from being written in place";
  let description = [{
    Marks tensor arguments of public functions as not writable, and keeps
    `ml_program` globals in `memref.global`s of their own: a store copies into
    one, a load of a mutable one copies out of it. Runs before bufferization.

    Not a pattern set: it changes signatures and symbols.
  }];
  let dependentDialects = ["bufferization::BufferizationDialect",
                           "memref::MemRefDialect"];
}

def LinalgToLoops : Pass<"qtranspose-linalg-to-loops"> {
  let summary = "Lower linalg on buffers to loops that keep sums in registers";
  let description = [{
    Loops over parallel dims come first and the reductions carry the outputs as
    loop values, unless an input is contiguous along the output's last dim; that
    dim is then innermost. The terms of each output element are added in the
    order of the iteration space, as upstream's `convert-linalg-to-loops` does.
    Copies between buffers that are not contiguous become loops as well, instead
    of calls into a runtime library.

    Not a pattern set: it is a step of `qtranspose-to-cpu` only.
  }];
  let dependentDialects = ["affine::AffineDialect", "arith::ArithDialect",
                           "memref::MemRefDialect", "scf::SCFDialect"];
}

def LowerAsserts : Pass<"qtranspose-lower-asserts", "ModuleOp"> {
  let summary = "Make a failed cf.assert call a handler and return";
  let description = [{
    The handler is a function of one i64, the position of the message in the
    module attribute `qtranspose.assert_messages`. It must be provided at run
    time as `_mlir_ciface_<handler>`. The results of the failed call have the
    right types, dynamic sizes of zero, and no meaning; intermediate buffers of
    that call are not freed. Runs when all control flow is in the cf dialect.

    Not a pattern set: it adds blocks, a symbol and a module attribute.
  }];
  let options = [Option<"handler", "handler", "std::string",
                        /*default=*/"\"qtranspose_assert_failed\"",
                        "Name of the handler function">];
  let dependentDialects = ["arith::ArithDialect", "cf::ControlFlowDialect",
                           "func::FuncDialect", "memref::MemRefDialect"];

}

#endif // QTRANSPOSE_PASSES
