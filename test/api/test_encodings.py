"""`qt.attach_encodings` and `qt.export_encodings`: found by name and role, moved with the weight, never dropped."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qtranspose as qt
from mlir import ir
from qtranspose.elements import Array

TOOL = Path(qt.__file__).parent / "_bin" / "qtranspose-opt"
RIGHT = "qtranspose-default{weights=right}"


def channel(scale: float, offset: int = -128, bits: int = 8) -> dict[str, Any]:
    return {"bitwidth": bits, "dtype": "int", "is_symmetric": "True", "scale": scale, "offset": offset}


def old(
    parameters: dict[str, list[float]], activations: dict[str, float] | None = None, **more: object
) -> dict[str, Any]:
    """Version 0.6.1: a list of channels per tensor."""
    return {
        "version": "0.6.1",
        "param_encodings": {
            name: [channel(scale, -100 - i) for i, scale in enumerate(scales)] for name, scales in parameters.items()
        },
        "activation_encodings": {
            name: [channel(scale) | {"min": -1.0, "max": 1.5}] for name, scale in (activations or {}).items()
        },
        **more,
    }


def new(
    parameters: dict[str, list[float]], activations: dict[str, float] | None = None, **more: object
) -> dict[str, Any]:
    """Version 1.0.0: lists of named tensors."""

    def entry(name: str, scales: list[float]) -> dict[str, Any]:
        kind = "PER_CHANNEL" if len(scales) > 1 else "PER_TENSOR"
        offsets = [-100.0 - i for i in range(len(scales))]
        return {
            "name": name, "bw": 8, "dtype": "INT", "enc_type": kind, "is_sym": True, "scale": scales, "offset": offsets
        }  # fmt: skip

    return {
        "version": "1.0.0",
        "param_encodings": [entry(name, scales) for name, scales in parameters.items()],
        "activation_encodings": [entry(name, [scale]) for name, scale in (activations or {}).items()],
        **more,
    }


STYLES = pytest.mark.parametrize("style", [old, new], ids=["0.6.1", "1.0.0"])


def scales_of(document: dict[str, Any], name: str, section: str = "param_encodings") -> tuple[list[float], int | None]:
    """Return the scales of an entry of either version, and the axis it gives."""
    entries = document[section]
    if isinstance(entries, dict):
        (axis,) = {entry.get("axis") for entry in entries[name]}
        return [entry["scale"] for entry in entries[name]], axis
    (found,) = (entry for entry in entries if entry["name"] == name)
    return found["scale"], found.get("axis")


def names_of(document: dict[str, Any], section: str = "param_encodings") -> set[str]:
    entries = document[section]
    return set(entries) if isinstance(entries, dict) else {entry["name"] for entry in entries}


def blob(name: str, values: Array) -> str:
    return f'{name}: "0x{values.itemsize:02X}000000{values.tobytes().hex().upper()}"'


def module_of(body: str, resources: dict[str, Array] | None = None) -> ir.Module:
    text = body
    if resources:
        blobs = ", ".join(blob(name, values) for name, values in resources.items())
        text += "\n{-# dialect_resources: { builtin: { " + blobs + " } } #-}"
    return ir.Module.parse(text)


LEFT = """
func.func @f(%x: tensor<3x5xf32>, %init: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %w = arith.constant dense_resource<w> : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x5xf32>) outs(%init : tensor<2x5xf32>) -> tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}"""
W = np.arange(6, dtype=np.float32).reshape(2, 3)


@STYLES
def test_a_weight_that_moves_takes_its_encoding_along(style: Any) -> None:
    document = style({"w": [0.1, 0.2], "unknown": [0.5]}, {"x": 0.02})
    with ir.Context():
        module = qt.attach_encodings(module_of(LEFT, {"w": W}), document)
        assert qt.export_encodings(module) == json.loads(json.dumps(document)), "nothing moved yet"
        qt.optimize(module, RIGHT)
        exported = qt.export_encodings(module)
        (constant,) = qt.derived_constants(module)
        assert "dense_resource<w_derived>" in str(constant.value.owner)
        assert names_of(exported) == {"w_derived", "unknown"}
        assert scales_of(exported, "w_derived") == ([0.1, 0.2], 1), "rows of W are columns of W^T"
        assert scales_of(exported, "unknown") == ([0.5], None), "what has no match is kept"
        assert exported["activation_encodings"] == document["activation_encodings"]


@STYLES
def test_the_dynamic_operand_gets_the_one_activation_encoding(style: Any) -> None:
    """The weight is operand 0, and the encoding names nothing: it is not the weight's."""
    with ir.Context():
        module = qt.attach_encodings(module_of(LEFT, {"w": W}), style({"w": [0.1, 0.2]}, {"some_input": 0.02}))
        (function,) = module.body.operations
        first, second = (ir.DictAttr(attributes) for attributes in function.attributes["arg_attrs"])
        encoding = ir.DictAttr(first["qtranspose.encoding"])
        assert ir.StringAttr(encoding["name"]).value == "some_input"
        assert list(ir.DenseF64ArrayAttr(encoding["scale"])) == [0.02]
        assert "qtranspose.encoding" not in second
        weight = function.regions[0].blocks[0].operations[0]
        assert ir.StringAttr(ir.DictAttr(weight.attributes["qtranspose.encoding"])["name"]).value == "w"


def test_two_activation_encodings_without_names_are_not_guessed() -> None:
    with ir.Context() as context:
        module = module_of(LEFT, {"w": W})
        with qt.remarks(context) as remarks:
            qt.attach_encodings(module, old({"w": [0.1, 0.2]}, {"p": 0.02, "q": 0.03}))
        assert [remark.name for remark in remarks] == ["attached", "encoding-unmatched", "encoding-unmatched"]
        assert names_of(qt.export_encodings(module), "activation_encodings") == {"p", "q"}


def test_inputs_of_a_layer_are_counted_without_its_weight() -> None:
    layer = {"input": {"0": channel(0.02)}, "output": {"0": channel(0.04)}}
    document = {"version": "0.6.1", "activation_encodings": {"layer": layer}, "param_encodings": {}}
    text = LEFT.replace("-> tensor<2x5xf32>\n  return", '-> tensor<2x5xf32> loc("layer")\n  return')
    with ir.Context():
        module = qt.attach_encodings(module_of(text, {"w": W}), document)
        (function,) = module.body.operations
        (first, _) = (ir.DictAttr(attributes) for attributes in function.attributes["arg_attrs"])
        assert list(ir.DenseF64ArrayAttr(ir.DictAttr(first["qtranspose.encoding"])["scale"])) == [0.02]
        matmul = function.regions[0].blocks[0].operations[1]
        assert list(ir.DenseF64ArrayAttr(ir.DictAttr(matmul.attributes["qtranspose.encoding"])["scale"])) == [0.04]
        assert qt.export_encodings(module) == document


NAMED = {
    "resource": ("%w = arith.constant dense_resource<w> : tensor<2x3xf32>", "", ""),
    "location": ('%w = arith.constant dense<[[0., 1., 2.], [3., 4., 5.]]> : tensor<2x3xf32> loc("w")', "", ""),
    "global": (
        "%w = ml_program.global_load_const @w : tensor<2x3xf32>",
        "ml_program.global private @w(dense<[[0., 1., 2.], [3., 4., 5.]]> : tensor<2x3xf32>) : tensor<2x3xf32>",
        "",
    ),
    "argument": ("", "", '%w: tensor<2x3xf32> {qtranspose.constant, frontend.name = "w"}, '),
    "argument location": ("", "", '%w: tensor<2x3xf32> {qtranspose.constant} loc("w"), '),
}


@pytest.mark.parametrize("kind", NAMED)
@STYLES
def test_parameters_are_found_by_every_kind_of_name(style: Any, kind: str) -> None:
    constant, outside, argument = NAMED[kind]
    text = outside + LEFT.replace("(%x", f"({argument}%x").replace(
        "%w = arith.constant dense_resource<w> : tensor<2x3xf32>", constant
    )
    with ir.Context() as context:
        module = module_of(text, {"w": W} if kind == "resource" else None)
        with qt.remarks(context) as remarks:
            qt.attach_encodings(module, style({"w": [0.1, 0.2]}))
        assert [(remark.kind, remark.name) for remark in remarks] == [("passed", "attached")]
        qt.optimize(module, RIGHT)
        exported = qt.export_encodings(module)
        name, axis = ("w", None) if "argument" in kind else ("w_derived", 1)
        assert names_of(exported) == {name}
        assert scales_of(exported, name) == ([0.1, 0.2], axis)


def test_a_name_of_what_is_computed_leads_to_what_is_stored() -> None:
    """The named value is the transpose of the dequantized storage: its axis 1 is axis 0 of what is stored."""
    text = """
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @f(%x: tensor<5x3xf32>, %init: tensor<5x2xf32>) -> tensor<5x2xf32> {
  %q = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %e = tensor.empty() : tensor<2x3xf32>
  %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<2x3xi8>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%in: i8, %out: f32):
    %v = arith.sitofp %in : i8 to f32
    linalg.yield %v : f32
  } -> tensor<2x3xf32>
  %et = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%d : tensor<2x3xf32>) outs(%et : tensor<3x2xf32>) permutation = [1, 0] loc("w")
  %y = linalg.matmul ins(%x, %t : tensor<5x3xf32>, tensor<3x2xf32>) outs(%init : tensor<5x2xf32>) -> tensor<5x2xf32>
  return %y : tensor<5x2xf32>
}"""
    with ir.Context():
        module = qt.attach_encodings(module_of(text), old({"w": [0.1, 0.2]}))
        constant = module.body.operations[0].regions[0].blocks[0].operations[0]
        encoding = ir.DictAttr(constant.attributes["qtranspose.encoding"])
        assert ir.IntegerAttr(encoding["axis"]).value == 0


def test_channels_are_those_of_the_contraction_in_a_square_weight() -> None:
    """Both dims have the size; only one is a dim of the result."""
    for spelling, axis in (("%w, %x", 0), ("%x, %w", 1)):
        text = f"""
func.func @f(%x: tensor<3x3xf32>, %init: tensor<3x3xf32>) -> tensor<3x3xf32> {{
  %w = arith.constant dense_resource<w> : tensor<3x3xf32>
  %y = linalg.matmul ins({spelling} : tensor<3x3xf32>, tensor<3x3xf32>) outs(%init : tensor<3x3xf32>) -> tensor<3x3xf32>
  return %y : tensor<3x3xf32>
}}"""
        with ir.Context():
            module = module_of(text, {"w": np.arange(9, dtype=np.float32)})
            qt.attach_encodings(module, old({"w": [0.1, 0.2, 0.3]}))
            constant = module.body.operations[0].regions[0].blocks[0].operations[0]
            encoding = ir.DictAttr(constant.attributes["qtranspose.encoding"])
            assert ir.IntegerAttr(encoding["axis"]).value == axis


@STYLES
def test_scales_along_the_summed_dim_stay_with_it(style: Any) -> None:
    """Only where the entry says so; the axis of W is 1, and that of W^T 0."""
    document = style({"w": [0.1, 0.2, 0.3]})
    with ir.Context() as context:
        module = module_of(LEFT, {"w": W})
        with qt.remarks(context) as remarks:
            qt.attach_encodings(module, document)
        assert [remark.name for remark in remarks] == ["encoding-does-not-fit"], "the length alone proves nothing"
        assert qt.export_encodings(module) == document

        entries = document["param_encodings"]
        for entry in entries["w"] if isinstance(entries, dict) else entries:
            entry["axis"] = 1
        qt.attach_encodings(module, document)
        qt.optimize(module, RIGHT)
        assert scales_of(qt.export_encodings(module), "w_derived") == ([0.1, 0.2, 0.3], 0)


def test_negative_axes_count_from_the_end() -> None:
    document = new({"w": [0.1, 0.2]})
    document["param_encodings"][0]["axis"] = -2
    with ir.Context():
        module = qt.attach_encodings(module_of(LEFT, {"w": W}), document)
        qt.optimize(module, RIGHT)
        assert scales_of(qt.export_encodings(module), "w_derived") == ([0.1, 0.2], 1)


def test_blocks_move_with_the_dim_they_lie_along() -> None:
    document = new({"w": [0.1 * i for i in range(1, 5)]})
    document["param_encodings"][0] |= {"enc_type": "PER_BLOCK", "block_size": 2}
    text = LEFT.replace("2x3xf32", "2x4xf32").replace("3x5xf32", "4x5xf32")
    with ir.Context():
        module = qt.attach_encodings(module_of(text, {"w": np.arange(8, dtype=np.float32)}), document)
        qt.optimize(module, RIGHT)
        (entry,) = qt.export_encodings(module)["param_encodings"]
        assert (entry["name"], entry["axis"], entry["block_axis"], entry["block_size"]) == ("w_derived", 1, 0, 2)
        assert entry["scale"] == document["param_encodings"][0]["scale"]


@STYLES
def test_channels_are_picked_where_the_weight_is_cut(style: Any) -> None:
    """Two slices of one weight, each on the left of a matmul: each gets its own channels."""
    slices = "".join(
        f"""
  %s{i} = tensor.extract_slice %w[{2 * i}, 0] [2, 3] [1, 1] : tensor<4x3xf32> to tensor<2x3xf32>
  %y{i} = linalg.matmul ins(%s{i}, %x : tensor<2x3xf32>, tensor<3x5xf32>) outs(%init : tensor<2x5xf32>)
      -> tensor<2x5xf32>"""
        for i in range(2)
    )
    text = f"""
func.func @f(%x: tensor<3x5xf32>, %init: tensor<2x5xf32>) -> (tensor<2x5xf32>, tensor<2x5xf32>) {{
  %w = arith.constant dense_resource<w> : tensor<4x3xf32>{slices}
  return %y0, %y1 : tensor<2x5xf32>, tensor<2x5xf32>
}}"""
    with ir.Context():
        module = module_of(text, {"w": np.arange(12, dtype=np.float32)})
        qt.attach_encodings(module, style({"w": [0.1, 0.2, 0.3, 0.4]}))
        qt.optimize(module, "qtranspose-static-lhs-to-rhs")
        exported = qt.export_encodings(module)
        found = {name: scales_of(exported, name) for name in names_of(exported)}
        derived = [str(c.value.owner).split("dense_resource<")[1].split(">")[0] for c in qt.derived_constants(module)]
        assert set(found) == set(derived) and len(derived) == 2
        assert sorted(found.values()) == [([0.1, 0.2], 1), ([0.3, 0.4], 1)]
        for constant, name in zip(qt.derived_constants(module), derived, strict=True):
            offset = (
                int(str(constant.map).split(" + ")[1].split(",")[0].split(")")[0]) if " + " in str(constant.map) else 0
            )
            assert found[name][0] == [0.1, 0.2, 0.3, 0.4][offset : offset + 2]


@STYLES
def test_every_weight_of_a_program_is_found_afterwards(style: Any) -> None:
    """Left, right and shared weights of distinct sizes; each is looked up by its name in the result."""
    text = """
func.func @f(%x: tensor<3x5xf32>, %i0: tensor<2x5xf32>, %i1: tensor<2x7xf32>, %i2: tensor<4x5xf32>)
    -> (tensor<2x7xf32>, tensor<4x5xf32>, tensor<4x7xf32>) {
  %a = arith.constant dense_resource<a> : tensor<2x3xf32>
  %b = arith.constant dense_resource<b> : tensor<5x7xf32>
  %c = arith.constant dense_resource<c> : tensor<4x3xf32>
  %i3 = arith.constant dense<0.0> : tensor<4x7xf32>
  %0 = linalg.matmul ins(%a, %x : tensor<2x3xf32>, tensor<3x5xf32>) outs(%i0 : tensor<2x5xf32>) -> tensor<2x5xf32>
  %1 = linalg.matmul ins(%0, %b : tensor<2x5xf32>, tensor<5x7xf32>) outs(%i1 : tensor<2x7xf32>) -> tensor<2x7xf32>
  %2 = linalg.matmul ins(%c, %x : tensor<4x3xf32>, tensor<3x5xf32>) outs(%i2 : tensor<4x5xf32>) -> tensor<4x5xf32>
  %3 = linalg.matmul ins(%2, %b : tensor<4x5xf32>, tensor<5x7xf32>) outs(%i3 : tensor<4x7xf32>) -> tensor<4x7xf32>
  return %1, %2, %3 : tensor<2x7xf32>, tensor<4x5xf32>, tensor<4x7xf32>
}"""
    scales = {"a": [1.0, 2.0], "b": [float(i) for i in range(1, 8)], "c": [3.0, 4.0, 5.0, 6.0]}
    shapes = {"a": (2, 3), "b": (5, 7), "c": (4, 3)}
    resources = {name: np.arange(np.prod(shape), dtype=np.float32) + ord(name) for name, shape in shapes.items()}
    with ir.Context():
        module = qt.attach_encodings(module_of(text, resources), style(scales))
        qt.optimize(module, RIGHT)
        exported = qt.export_encodings(module)
        stored = [
            line.split("dense_resource<")[1].split(">") for line in str(module).splitlines() if "dense_res" in line
        ]
        weights = {key: rest.split("tensor<")[0] for key, rest, *_ in stored}
        assert set(weights) == {"a_derived", "b", "c_derived"} == names_of(exported)
        for key in weights:
            assert scales_of(exported, key) == (scales[key[0]], 1 if "derived" in key else None)


def test_attaching_to_a_program_that_was_rewritten() -> None:
    with ir.Context():
        module = qt.optimize(module_of(LEFT, {"w": W}), RIGHT)
        qt.attach_encodings(module, old({"w": [0.1, 0.2]}))
        assert scales_of(qt.export_encodings(module), "w_derived") == ([0.1, 0.2], 1)


def test_attached_names_survive_printing() -> None:
    """Locations do not; a second document finds the tensors of the first."""
    constant, _, _ = NAMED["location"]
    text = LEFT.replace("%w = arith.constant dense_resource<w> : tensor<2x3xf32>", constant)
    with ir.Context():
        module = qt.attach_encodings(module_of(text), old({"w": [0.1, 0.2]}))
        module = ir.Module.parse(str(module))
        qt.attach_encodings(module, old({"w": [0.3, 0.4]}))
        module = ir.Module.parse(str(qt.optimize(module, RIGHT)))
        qt.attach_encodings(module, old({"w": [0.5, 0.6]}))
        assert scales_of(qt.export_encodings(module), "w_derived") == ([0.5, 0.6], 1)


def test_attaching_again_replaces() -> None:
    with ir.Context():
        module = qt.attach_encodings(module_of(LEFT, {"w": W}), old({"w": [0.1, 0.2]}, {"x": 0.5}))
        once = str(module)
        assert str(qt.attach_encodings(module, old({"w": [0.1, 0.2]}, {"x": 0.5}))) == once
        qt.attach_encodings(module, old({"other": [0.3]}))
        assert str(module).count("qtranspose.encoding =") == 0
        assert names_of(qt.export_encodings(module)) == {"other"}


@pytest.mark.parametrize("pipeline", ["default", RIGHT, "qtranspose-lower-quantized-matmul", "canonicalize,cse"])
@pytest.mark.parametrize("kind", ["resource", "location", "global"])
def test_encodings_change_no_rewrite(pipeline: str, kind: str) -> None:
    constant, outside, _ = NAMED[kind]
    text = outside + LEFT.replace("%w = arith.constant dense_resource<w> : tensor<2x3xf32>", constant)
    resources = {"w": W} if kind == "resource" else None

    def strip(op: ir.Operation) -> None:
        for name in [name for name in op.attributes if str(name).startswith("qtranspose.")]:
            del op.attributes[name]
        if "arg_attrs" in op.attributes:
            del op.attributes["arg_attrs"]
        for region in op.regions:
            for block in region:
                for inner in block:
                    strip(inner.operation)

    results = []
    for document in (None, old({"w": [0.1, 0.2]}, {"x": 0.5})):
        with ir.Context():
            module = module_of(text, resources)
            if document:
                qt.attach_encodings(module, document)
            qt.optimize(module, pipeline)
            strip(module.operation)
            results.append(str(module))
    assert results[0] == results[1]


def test_equal_data_with_other_encodings_are_two_constants() -> None:
    text = """
func.func @f(%x: tensor<3x5xf32>, %init: tensor<2x5xf32>) -> (tensor<2x5xf32>, tensor<2x5xf32>) {
  %v = arith.constant dense_resource<v> : tensor<2x3xf32>
  %w = arith.constant dense_resource<w> : tensor<2x3xf32>
  %y = linalg.matmul ins(%v, %x : tensor<2x3xf32>, tensor<3x5xf32>) outs(%init : tensor<2x5xf32>) -> tensor<2x5xf32>
  %z = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x5xf32>) outs(%init : tensor<2x5xf32>) -> tensor<2x5xf32>
  return %y, %z : tensor<2x5xf32>, tensor<2x5xf32>
}"""
    with ir.Context():
        module = qt.attach_encodings(module_of(text, {"v": W, "w": W}), old({"v": [0.1, 0.2], "w": [0.3, 0.4]}))
        qt.optimize(module, RIGHT)
        exported = qt.export_encodings(module)
        assert scales_of(exported, "v_derived") == ([0.1, 0.2], 1)
        assert scales_of(exported, "w_derived") == ([0.3, 0.4], 1)


GOOD = old({"w": [0.1, 0.2]}, {"x": 0.5})


def damaged(**changes: object) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    document["param_encodings"]["w"][0].update(changes)
    return document


BAD: dict[str, tuple[Any, str]] = {
    "not JSON": ("{'w': 1}", "not JSON"),
    "cut off": (json.dumps(GOOD)[:-5], "not JSON"),
    "nested without end": ('{"a":' + "[" * 100000, "nested too deeply"),
    "no section": ({"version": "0.6.1"}, "neither 'activation_encodings' nor 'param_encodings'"),
    "a section that is a number": ({"param_encodings": 3}, "'param_encodings' is neither an object nor a list"),
    "an entry that is no list": ({"param_encodings": {"w": {}}}, "'w' of 'param_encodings' is not a list"),
    "no channels": ({"param_encodings": {"w": []}}, "'w' of 'param_encodings' is not a list"),
    "a channel that is a string": ({"param_encodings": {"w": ["x"]}}, "something that is not an encoding"),
    "an entry without a name": ({"param_encodings": [{"bw": 8}]}, "an entry without a 'name'"),
    "a name that is a number": ({"param_encodings": [{"name": 3}]}, "an entry without a 'name'"),
    "a name twice": (
        {"param_encodings": [new({"w": [1.0]})["param_encodings"][0]] * 2},
        "two entries named 'w'",
    ),
    "no bit width": ({"param_encodings": {"w": [{"scale": 1.0}]}}, "'bitwidth' is missing"),
    "a bit width of 1000": (damaged(bitwidth=1000), "'bitwidth' is not an integer of its range"),
    "a fractional bit width": (damaged(bitwidth=7.5), "'bitwidth' is not an integer"),
    "a type unheard of": (damaged(dtype="posit"), "'dtype' is neither int nor float"),
    "no scale": ({"param_encodings": {"w": [{"bitwidth": 8}]}}, "'scale' is missing"),
    "a scale that is a string": (damaged(scale="0.1"), "'scale' has something that is not a number"),
    "a negative scale": (damaged(scale=-0.1), "'scale' has something that is not a number"),
    "an endless scale": (damaged(scale=10**400), "'scale' has something that is not a number"),
    "a fractional offset": (damaged(offset=0.5), "'offset' has something that is not a number"),
    "symmetric perhaps": (damaged(is_symmetric="Maybe"), "'is_symmetric' is neither true nor false"),
    "fewer offsets than scales": (
        {"param_encodings": [{"name": "w", "bw": 8, "scale": [1.0, 2.0], "offset": [0]}]},
        "'offset' has another length",
    ),
    "several scales per tensor": (
        {"param_encodings": [{"name": "w", "bw": 8, "scale": [1.0, 2.0], "enc_type": "PER_TENSOR"}]},
        "'enc_type' is PER_TENSOR",
    ),
    "a port that is a list": ({"activation_encodings": {"l": {"input": []}}}, "'l' input is not an object"),
    "a port of no number": ({"activation_encodings": {"l": {"input": {"a": {}}}}}, "where it should map numbers"),
    "not a number": ({"param_encodings": {"w": [channel(float("nan"))]}}, "not JSON"),
    "half a character": ('{"param_encodings": {"\ud800": []}}', "not JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_documents_are_one_clear_error(name: str) -> None:
    document, message = BAD[name]
    with ir.Context():
        module = module_of(LEFT, {"w": W})
        before = str(module)
        with pytest.raises(qt.QTransposeError) as error:
            qt.attach_encodings(module, document)
        assert message in str(error.value)
        assert "\n" not in str(error.value)
        assert str(module) == before


def test_files(tmp_path: Path) -> None:
    path, result = tmp_path / "in.json", tmp_path / "out.json"
    path.write_text(json.dumps(GOOD))
    with ir.Context():
        module = qt.attach_encodings(module_of(LEFT, {"w": W}), path)
        qt.optimize(module, RIGHT)
        exported = qt.export_encodings(module, result)
        assert json.loads(result.read_text()) == exported
        assert [file.name for file in tmp_path.iterdir() if file not in (path, result)] == []
        with pytest.raises(qt.QTransposeError, match="cannot write"):
            qt.export_encodings(module, tmp_path / "none" / "out.json")
        with pytest.raises(qt.QTransposeError, match="cannot read"):
            qt.attach_encodings(module, tmp_path / "missing.json")
        with pytest.raises(qt.QTransposeError, match="no encodings are attached"):
            qt.export_encodings(module_of(LEFT, {"w": W}))


def test_the_passes_do_the_same_with_files(tmp_path: Path) -> None:
    source, encodings, result = tmp_path / "in.mlir", tmp_path / "in.json", tmp_path / "out.json"
    encodings.write_text(json.dumps(GOOD))
    with ir.Context():
        module = module_of(LEFT, {"w": W})
        source.write_text(str(module))
        qt.attach_encodings(module, GOOD)
        qt.optimize(module, RIGHT)
        expected = qt.export_encodings(module)
    pipeline = (
        f"builtin.module(qtranspose-attach-encodings{{file={encodings}}},{RIGHT},"
        f"qtranspose-export-encodings{{file={result}}})"
    )
    subprocess.run([TOOL, source, f"--pass-pipeline={pipeline}", "-o", "/dev/null"], check=True, timeout=60)
    assert json.loads(result.read_text()) == expected
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.json", "in.mlir", "out.json"]


@pytest.mark.parametrize("content", [None, "{", '{"param_encodings": 3}', '{"a":' + "[" * 100000])
def test_bad_files_are_one_line_and_no_abort(content: str | None, tmp_path: Path) -> None:
    source, encodings = tmp_path / "in.mlir", tmp_path / "in.json"
    source.write_text("func.func @f() { return }")
    if content is not None:
        encodings.write_text(content)
    done = subprocess.run(
        [TOOL, source, f"--pass-pipeline=builtin.module(qtranspose-attach-encodings{{file={encodings}}})"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1 and str(encodings) in errors[0]
