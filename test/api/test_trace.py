"""`qt.trace`: the C++ analysis on objects of the stock `mlir` package."""

import dataclasses
import gc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import qtranspose as qt
from forms.catalog import CATALOG, Entry
from forms.llama import Config, Decoder
from mlir import ir

SHARED = Path(__file__).parents[3] / "shared" / "inputs"

LAYER = """
func.func @layer(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48x1xf32>) -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>,
      affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48x1xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %scale: f32, %out: f32):
    %f = arith.sitofp %in : i8 to f32
    %m = arith.mulf %f, %scale : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %te = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%te : tensor<64x48xf32>) permutation = [1, 0]
  %z = arith.constant dense<0.0> : tensor<4x48xf32>
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>) outs(%z : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}
"""


def operations(module: ir.Module) -> Iterator[ir.Operation]:
    """Every operation nested in the module, in order."""

    def nested(op: ir.Operation) -> Iterator[ir.Operation]:
        for region in op.regions:
            for block in region:
                for inner in block:
                    yield inner.operation
                    yield from nested(inner.operation)

    yield from nested(module.operation)


def find(module: ir.Module, name: str) -> ir.Operation:
    return next(op for op in operations(module) if op.name == name)


def weight(module: ir.Module) -> qt.DequantTrace:
    """The trace of the second operand of the first matmul."""
    return qt.trace(find(module, "linalg.matmul").operands[1])


def test_expression_and_leaves() -> None:
    with ir.Context():
        module = ir.Module.parse(LAYER)
        trace = weight(module)
        assert trace.expression == "mulf(sitofp(arg:48x64xi8[d1, d0]), arg:48x1xf32[d1, 0])"
        stored, scale = trace.leaves
        assert isinstance(stored.value, ir.BlockArgument)
        assert (stored.value.arg_number, scale.value.arg_number) == (1, 2)
        assert stored.indices == ("d1", "d0")
        assert stored.map == ir.AffineMap.get(2, 0, [ir.AffineExpr.get_dim(1), ir.AffineExpr.get_dim(0)])
        assert scale.map == ir.AffineMap.get(2, 0, [ir.AffineExpr.get_dim(1), ir.AffineExpr.get_constant(0)])
        assert (stored.constant, stored.kind, stored.stop_reason, trace.refusal) == (None, "parameter", None, None)


def test_results_and_block_arguments_are_traced() -> None:
    with ir.Context():
        module = ir.Module.parse(LAYER)
        function = find(module, "func.func")
        argument = qt.trace(function.regions[0].blocks[0].arguments[1])
        assert argument.expression == "arg:48x64xi8[d0, d1]"
        result = qt.trace(find(module, "linalg.transpose").results[0])
        assert result == qt.trace(find(module, "linalg.matmul").operands[1])


def test_a_run_time_leaf_says_why() -> None:
    with ir.Context():
        module = ir.Module.parse(LAYER)
        trace = qt.trace(find(module, "linalg.matmul").results[0])
        (leaf,) = trace.leaves
        assert leaf.value == trace.value
        assert (leaf.kind, leaf.stop_reason, trace.refusal) == ("runtime", *["computed-at-run-time"] * 2)


def test_constant_of_a_quant_type_is_an_attribute() -> None:
    text = """
    func.func @f(%q: tensor<2x3xi8>) -> tensor<2x3xf32> {
      %t = quant.scast %q : tensor<2x3xi8> to tensor<2x3x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
      %w = quant.dcast %t : tensor<2x3x!quant.uniform<i8:f32:0, {0.5, 0.25}>> to tensor<2x3xf32>
      return %w : tensor<2x3xf32>
    }"""
    with ir.Context():
        module = ir.Module.parse(text)
        stored, scale = qt.trace(find(module, "quant.dcast").results[0]).leaves
        assert stored.constant is None
        assert scale.value is None
        assert list(ir.DenseFPElementsAttr(scale.constant)) == [0.5, 0.25]


def test_gathered_and_unknown_indices() -> None:
    text = """
    func.func @gather(%q: tensor<16xf32>, %i: tensor<8xi64>) -> tensor<8xf32> {
      %e = tensor.empty() : tensor<8xf32>
      %w = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
          iterator_types = ["parallel"]} ins(%i : tensor<8xi64>) outs(%e : tensor<8xf32>) {
      ^bb0(%in: i64, %out: f32):
        %at = arith.index_cast %in : i64 to index
        %v = tensor.extract %q[%at] : tensor<16xf32>
        linalg.yield %v : f32
      } -> tensor<8xf32>
      return %w : tensor<8xf32>
    }
    func.func @dynamic(%q: tensor<4x?xi8>) -> tensor<?xi8> {
      %w = tensor.collapse_shape %q [[0, 1]] : tensor<4x?xi8> into tensor<?xi8>
      return %w : tensor<?xi8>
    }"""
    with ir.Context():
        module = ir.Module.parse(text)
        index, table = qt.trace(find(module, "linalg.generic").results[0]).leaves
        assert index.indices == ("d0",)
        assert (table.indices, table.map) == (("index_cast(arg:8xi64[d0])",), None)
        assert (index.kind, table.kind) == ("parameter", "parameter")
        (unknown,) = qt.trace(find(module, "tensor.collapse_shape").results[0]).leaves
        assert (unknown.indices, unknown.map) == (("?", "?"), None)


def test_tracing_changes_nothing() -> None:
    with ir.Context():
        module = ir.Module.parse(LAYER)
        before = str(module)
        for op in operations(module):
            for value in [*op.operands, *op.results]:
                if isinstance(value.type, ir.RankedTensorType):
                    qt.trace(value)
        assert str(module) == before


# PITFALL 7
def test_a_producer_that_fusion_left_is_still_described() -> None:
    with ir.Context():
        module = ir.Module.parse(LAYER)
        qt.optimize(module, "qtranspose-fuse-dequant-into-matmul{decision=tile}")
        producer = next(op for op in operations(module) if "qtranspose.tile_fused" in op.attributes)
        trace = qt.trace(producer.results[0])
        assert len(trace.leaves) == 2
        assert trace.refusal is None


def test_leaves_keep_their_context_alive() -> None:
    """Not their module: values of the stock package do not."""

    def traced() -> tuple[ir.Module, qt.TraceLeaf]:
        with ir.Context():
            module = ir.Module.parse(LAYER)
            return module, weight(module).leaves[0]

    module, leaf = traced()
    gc.collect()
    assert str(leaf.value.type) == "tensor<48x64xi8>"
    del module
    gc.collect()
    assert str(leaf.map) == "(d0, d1) -> (d1, d0)"
    assert isinstance(leaf.value.context, ir.Context)


def test_traces_are_frozen_values() -> None:
    with ir.Context():
        module = ir.Module.parse(LAYER)
        trace = weight(module)
        assert trace == weight(module)
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.expression = ""  # type: ignore[misc]
    assert str(trace)
    assert "\n" not in str(trace)


def test_bad_values_are_one_clear_error() -> None:
    text = """
    func.func @f(%s: f32, %m: memref<4xf32>, %u: tensor<*xf32>) -> f32 {
      %n = arith.negf %s : f32
      return %s : f32
    }"""
    with ir.Context():
        module = ir.Module.parse(text)
        scalar, memref, unranked = find(module, "func.func").regions[0].blocks[0].arguments
        for value in (scalar, memref, unranked):
            with pytest.raises(qt.QTransposeError, match="expected a ranked tensor"):
                qt.trace(value)
        negated = find(module, "arith.negf")
        for wrong in (None, "a", 3, module, negated):
            with pytest.raises(qt.QTransposeError, match=r"expected an mlir\.ir\.Value"):
                qt.trace(wrong)


def test_the_function_stays_where_the_module_is() -> None:
    """Importing the submodule must not put it in place of the function."""
    import qtranspose.trace as function

    assert qt.trace is function
    assert callable(qt.trace)


def test_scalars_and_gathers_of_what_the_program_computes_are_no_parameters() -> None:
    text = """
    func.func @f(%x: tensor<4xf32>, %i: tensor<8xi64>, %a: f32) -> tensor<8xf32> {
      %n = arith.negf %x : tensor<4xf32>
      %b = arith.negf %a : f32
      %e = tensor.empty() : tensor<8xf32>
      %w = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
          iterator_types = ["parallel"]} ins(%i : tensor<8xi64>) outs(%e : tensor<8xf32>) {
      ^bb0(%in: i64, %out: f32):
        %at = arith.index_cast %in : i64 to index
        %v = tensor.extract %n[%at] : tensor<4xf32>
        %s = arith.mulf %v, %a : f32
        %t = arith.mulf %s, %b : f32
        linalg.yield %t : f32
      } -> tensor<8xf32>
      return %w : tensor<8xf32>
    }"""
    with ir.Context():
        module = ir.Module.parse(text)
        leaves = qt.trace(find(module, "linalg.generic").results[0]).leaves
        kinds = {str(leaf.value.type): leaf.kind for leaf in leaves if leaf.indices}
        assert kinds == {"tensor<8xi64>": "parameter", "tensor<4xf32>": "runtime"}
        assert [leaf.kind for leaf in leaves if not leaf.indices] == ["parameter", "runtime"]


def test_every_tensor_of_the_lit_tests_is_traced() -> None:
    count = 0
    for file in sorted(Path(__file__).parents[1].rglob("*.mlir")):
        for text in file.read_text().split("// -----"):
            with ir.Context() as context:
                context.allow_unregistered_dialects = True
                module = ir.Module.parse(text)
                for op in operations(module):
                    for value in op.results:
                        if isinstance(value.type, ir.RankedTensorType):
                            count += 1
                            assert str(qt.trace(value))
    assert count > 1000


@pytest.mark.parametrize("entry", CATALOG[::7], ids=lambda entry: entry.name)
def test_every_tensor_of_the_catalog_is_traced(entry: Entry) -> None:
    with ir.Context():
        module = ir.Module.parse(entry.build().mlir)
        for op in operations(module):
            for value in op.results:
                if isinstance(value.type, ir.RankedTensorType):
                    assert qt.trace(value).leaves is not None


def weights(module: ir.Module) -> list[qt.DequantTrace]:
    """The operands of contractions that are made from quantized parameters alone."""
    found = []
    for op in operations(module):
        named = re.match(r"linalg\..*(mat|vec|conv|contract)", op.name)
        if not named and "reduction" not in str(op.attributes.get("iterator_types", "")):
            continue
        traces = [qt.trace(v) for v in list(op.operands)[:-1] if isinstance(v.type, ir.RankedTensorType)]
        found += [trace for trace in traces if trace.description and not trace.refusal]
    return found


LLAMA = {
    "w4": (
        Config(),
        "int4 (ui4 in i8, 2 per byte along axis 0, low nibble first)",
        "per axis 1 and group 16 on axis 0",
    ),
    "w8": (Config(group=None), "int8 (si8)", "per axis 1"),
}


@pytest.mark.parametrize("name", LLAMA)
def test_every_projection_of_a_decoder_is_described(name: str) -> None:
    config, storage, axes = LLAMA[name]
    decoder = Decoder(config, layers=2)
    with ir.Context():
        module = ir.Module.parse(decoder.text)
        lines = [str(trace) for trace in weights(module)]
    shapes = [f"[{k}x{n}]" for n, k in config.projections.values()] * 2
    zero = f" zero point f32 {axes}," if config.group else ""
    assert lines == [f"{storage} {shape},{zero} scale f32 {axes}" for shape in shapes]


def shared(*names: str) -> list[Path]:
    if not SHARED.is_dir():
        pytest.skip("no ../shared/inputs beside the checkout")
    return sorted(file for name in names for file in SHARED.glob(name))


def parse_file(file: Path) -> ir.Module:
    ir.Context.current.allow_unregistered_dialects = True
    return ir.Module.parse(file.read_text())


def test_every_projection_of_the_shared_blocks_is_described() -> None:
    for file in shared("llama/*.mlir"):
        with ir.Context():
            module = parse_file(file)
            # q, k, v, o, gate, up, down and the head; attention multiplies activations.
            assert [trace.description.kind for trace in weights(module)] == ["stored"] * 8, file.name


def test_every_tensor_of_the_shared_inputs_is_traced() -> None:
    for file in shared("**/*.mlir"):
        with ir.Context():
            module = parse_file(file)
            for op in operations(module):
                for value in [*op.operands, *op.results]:
                    if isinstance(value.type, ir.RankedTensorType):
                        assert str(qt.trace(value))


def test_every_weight_of_the_shared_inputs_is_described() -> None:
    kinds: list[str] = []
    for file in shared("**/*.mlir"):
        with ir.Context():
            module = parse_file(file)
            kinds += [trace.description.kind for trace in weights(module)]
    assert len(kinds) > 100
    assert set(kinds) <= {"stored", "concatenation"}


def test_fusing_reports_what_it_fused() -> None:
    with ir.Context() as context:
        module = ir.Module.parse(LAYER)
        line = str(weight(module))
        assert line == "int8 (si8) [64x48], scale f32 per axis 1"
        with qt.remarks(context) as log:
            qt.optimize(module, "qtranspose-fuse-dequant-into-matmul")
    (fused,) = (remark for remark in log if remark.name == "fused")
    assert f": {line}: mulf(sitofp(arg:48x64xi8[d1, d0]), " in fused.reason
