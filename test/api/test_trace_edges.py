"""What `qt.trace` says of bodies at the border: odd ways to take bits apart, and what must not be called a weight."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import qtranspose as qt
from mlir import ir
from qtranspose.trace import AxisGroup, DequantDescription, DequantTrace, Lane
from test_trace import find

ROW, WHOLE = "affine_map<(d0, d1) -> (d0)>", "affine_map<(d0, d1) -> (d0, d1)>"


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    with ir.Context():
        yield


def trace(body: str, *inputs: tuple[str, str], result: str = "f32", shape: str = "8x64") -> DequantTrace:
    """Trace an elementwise generic; inputs are (tensor type, results of the map), `%0`, `%1`, ... in the body."""
    maps = [f"affine_map<(d0, d1) -> ({results})>" for _, results in inputs]
    types = [f"tensor<{type_}>" for type_, _ in inputs]
    names = [f"%a{i}" for i in range(len(inputs))]
    elements = [f"%{i}: {re.sub(r'^([0-9?]+x)*', '', type_)}" for i, (type_, _) in enumerate(inputs)]
    to = f"tensor<{shape}x{result}>"
    empty = f"tensor.empty({', '.join(f'%s{i}' for i in range(shape.count('?')))}) : {to}"
    sizes = "".join(f", %s{i}: index" for i in range(shape.count("?")))
    module = ir.Module.parse(f"""
    func.func @f({", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))}, %table: tensor<8x16xf32>,
                 %values: tensor<16xi8>, %scalar: f32{sizes}) -> {to} {{
      %empty = {empty}
      %w = linalg.generic {{indexing_maps = [{", ".join([*maps, WHOLE])}], iterator_types = ["parallel", "parallel"]}}
          ins({", ".join(names)} : {", ".join(types)}) outs(%empty : {to}) {{
      ^bb0({", ".join(elements)}, %out: {result}):
        {body}
        linalg.yield %r : {result}
      }} -> {to}
      return %w : {to}
    }}""")
    MODULES.append(module)  # values do not keep it alive
    return qt.trace(find(module, "linalg.generic").results[0])


MODULES: list[ir.Module] = []

Q = ("8x64xi8", "d0, d1")
PACKED = ("8x32xi8", "d0, d1 floordiv 2")
SCALE = ("8xf32", "d0")


def described(body: str, *inputs: tuple[str, str], **more: str) -> DequantDescription:
    found = trace(body, *inputs, **more)
    assert found.description is not None
    assert found.description.kind == "stored", str(found)
    return found.description


def is_expression(body: str, *inputs: tuple[str, str], **more: str) -> bool:
    found = trace(body, *inputs, **more)
    return found.description.kind == "expression" and str(found).startswith("expression [8x64] ")


# Bits -----------------------------------------------------------------------------------------------------------------

SHIFT = """
  %i = linalg.index 1 : index
  %two = arith.constant 2 : index
  %odd = arith.remui %i, %two : index
  %oddi = arith.index_cast %odd : index to i8
  %four = arith.constant 4 : i8
  %shift = arith.muli %oddi, %four : i8
"""

NIBBLES = {
    "mask": ("ui4", "%f = arith.shrui %0, %shift : i8\n%c = arith.constant 15 : i8\n%n = arith.andi %f, %c : i8"),
    "remainder": ("ui4", "%f = arith.shrui %0, %shift : i8\n%c = arith.constant 16 : i8\n%n = arith.remui %f, %c : i8"),
    "shift up and down": (
        "si4",
        "%up = arith.subi %four, %shift : i8\n%f = arith.shli %0, %up : i8\n%n = arith.shrsi %f, %four : i8",
    ),
    "truncation": (
        "si4",
        "%f = arith.shrui %0, %shift : i8\n%t = arith.trunci %f : i8 to i4\n%n = arith.extsi %t : i4 to i8",
    ),
    "wide": (
        "ui4",
        "%w = arith.extsi %0 : i8 to i32\n%s = arith.extui %shift : i8 to i32\n%f = arith.shrsi %w, %s : i32\n"
        "%c = arith.constant 15 : i32\n%m = arith.andi %f, %c : i32\n%n = arith.trunci %m : i32 to i8",
    ),
    "inverted sign bit": (
        "si4",
        "%f = arith.shrui %0, %shift : i8\n%c = arith.constant 15 : i8\n%m = arith.andi %f, %c : i8\n"
        "%e = arith.constant 8 : i8\n%x = arith.xori %m, %e : i8\n%n = arith.subi %x, %e : i8",
    ),
    "selected": (
        "ui4",
        "%z = arith.constant 0 : index\n%even = arith.cmpi eq, %odd, %z : index\n%c = arith.constant 15 : i8\n"
        "%low = arith.andi %0, %c : i8\n%high = arith.shrui %0, %four : i8\n%n = arith.select %even, %low, %high : i8",
    ),
}


# PITFALL 23
@pytest.mark.parametrize("name", NIBBLES)
def test_ways_to_take_nibbles_apart(name: str) -> None:
    type_, body = NIBBLES[name]
    found = described(f"{SHIFT}{body}\n%r = arith.sitofp %n : i8 to f32", PACKED)
    assert str(found.storage.type) == type_
    assert found.storage.lanes == (Lane(1, 1, 2),)
    assert found.storage.order == (0, 1)
    assert found.storage.bit_offsets == (0, 4)
    assert [step.operation for step in found.steps] == ["cast"]


def test_an_offset_that_is_not_undone_stays() -> None:
    body = "%c = arith.constant 15 : i8\n%m = arith.andi %0, %c : i8\n%e = arith.constant 8 : i8\n"
    found = described(body + "%x = arith.xori %m, %e : i8\n%r = arith.sitofp %x : i8 to f32", Q)
    assert str(found.storage.type) == "si4"
    assert [zero.value for zero in found.zero_points] == [-8]


@pytest.mark.parametrize(("read", "type_", "zero"), [("sitofp", "ui8", 128), ("uitofp", "si8", -128)])
def test_a_shift_of_the_whole_range_changes_the_sign(read: str, type_: str, zero: int) -> None:
    body = f"%c = arith.constant -128 : i8\n%x = arith.addi %0, %c : i8\n%r = arith.{read} %x : i8 to f32"
    found = described(body, Q)
    assert str(found.storage.type) == type_
    assert [z.value for z in found.zero_points] == [zero]


def test_some_bits_of_a_word() -> None:
    body = "%c = arith.constant 14 : i8\n%one = arith.constant 1 : i8\n%m = arith.andi %0, %c : i8\n"
    found = trace(body + "%s = arith.shrui %m, %one : i8\n%r = arith.uitofp %s : i8 to f32", Q)
    storage = found.description.storage
    assert (storage.bits, storage.bit_offsets, storage.lanes, storage.packed) == (3, (1,), (), True)
    assert "ui3 in i8, bits 1 to 3" in str(found)


def test_bytes_seen_as_floats() -> None:
    found = described("%f = arith.bitcast %0 : i8 to f8E4M3FN\n%r = arith.extf %f : f8E4M3FN to f32", Q)
    assert (str(found.storage.type), str(found.storage.word_type)) == ("f8E4M3FN", "i8")
    assert found.storage.signed is None


def test_microscaling() -> None:
    found = described(
        "%r = arith.scaling_extf %0, %1 : f4E2M1FN, f8E8M0FNU to f32",
        ("8x64xf4E2M1FN", "d0, d1"),
        ("8x2xf8E8M0FNU", "d0, d1 floordiv 32"),
    )
    assert str(found.storage.type) == "f4E2M1FN"
    (scale,) = found.scales
    assert str(scale.storage.type) == "f8E8M0FNU"
    assert scale.axes == (AxisGroup(0, 1), AxisGroup(1, 32))


def test_nothing_reads_the_sign() -> None:
    found = described("%z = arith.constant 0 : i8\n%r = arith.ori %0, %z : i8", Q, result="i8")
    assert str(found.storage.type) == "i8"
    assert found.storage.signed is None
    assert found.steps == ()


@pytest.mark.parametrize(
    "body",
    [
        # i8 - i8 may wrap around, and where depends on the sign.
        "%x = arith.subi %0, %1 : i8\n%r = arith.sitofp %x : i8 to f32",
        # What was negative is read as unsigned.
        "%x = arith.extsi %0 : i8 to i16\n%r = arith.uitofp %x : i16 to f32",
        # 200 - (-100) does not fit.
        "%c = arith.constant -100 : i8\n%s = arith.constant 1 : i8\n%h = arith.shrui %0, %s : i8\n"
        "%x = arith.subi %h, %c : i8\n%r = arith.sitofp %x : i8 to f32",
        # Bits of two words.
        "%c = arith.constant 15 : i8\n%d = arith.constant 4 : i8\n%l = arith.andi %0, %c : i8\n"
        "%u = arith.shli %1, %d : i8\n%x = arith.ori %l, %u : i8\n%r = arith.uitofp %x : i8 to f32",
        # Which bits is only known at run time.
        "%c = arith.constant 3 : i8\n%s = arith.shrui %0, %1 : i8\n%m = arith.andi %s, %c : i8\n"
        "%r = arith.uitofp %m : i8 to f32",
        # Not affine.
        "%x = arith.sitofp %0 : i8 to f32\n%y = arith.sitofp %1 : i8 to f32\n%r = arith.mulf %x, %y : f32",
        "%x = arith.sitofp %0 : i8 to f32\n%r = arith.mulf %x, %x : f32",
        "%x = arith.sitofp %0 : i8 to f32\n%r = math.absf %x : f32",
        "%x = arith.sitofp %0 : i8 to f32\n%r = arith.divf %scalar, %x : f32",
        "%x = arith.sitofp %0 : i8 to f32\n%c = arith.constant 0.0 : f32\n%p = arith.cmpf ogt, %x, %c : f32\n"
        "%r = arith.select %p, %x, %c : f32",
        "%x = arith.sitofp %0 : i8 to f32\n%i = arith.fptosi %x : f32 to i32\n%r = arith.sitofp %i : i32 to f32",
    ],
)
def test_no_false_claims(body: str) -> None:
    assert is_expression(body, Q, Q)


# Steps ----------------------------------------------------------------------------------------------------------------


def test_every_operation() -> None:
    body = """
      %x = arith.sitofp %0 : i8 to f32
      %a = arith.subf %1, %x : f32
      %b = arith.divf %a, %1 : f32
      %c = arith.negf %b : f32
      %d = arith.addf %scalar, %c : f32
      %h = arith.truncf %d : f32 to f16
      %r = arith.extf %h : f16 to f32"""
    found = trace(body, Q, SCALE)
    operations = ["cast", "subtract-from", "divide", "negate", "add", "cast", "cast"]
    assert [step.operation for step in found.description.steps] == operations
    assert [str(step.type) for step in found.description.steps] == ["f32"] * 5 + ["f16", "f32"]
    assert found.description.offsets[0].kind == "scalar"
    assert str(found) == (
        "int8 (si8) [8x64], subtracted from f32 per axis 0, inverse scale f32 per axis 0, negated, "
        "offset run-time f32, converted to f16, converted to f32"
    )


def test_two_scales_and_a_minimum_of_another_granularity() -> None:
    body = """
      %x = arith.sitofp %0 : i8 to f32
      %a = arith.mulf %1, %x : f32
      %b = arith.mulf %a, %2 : f32
      %r = arith.addf %3, %b : f32"""
    found = described(body, Q, SCALE, ("8x4xf32", "d0, d1 floordiv 16"), ("4x64xf32", "d0 floordiv 2, d1"))
    assert [scale.axes for scale in found.scales] == [(AxisGroup(0, 1),), (AxisGroup(0, 1), AxisGroup(1, 16))]
    assert [offset.axes for offset in found.offsets] == [(AxisGroup(0, 2), AxisGroup(1, 1))]


def test_constants_are_converted() -> None:
    body = """
      %x = arith.sitofp %0 : i8 to f32
      %z = arith.constant 200 : i8
      %zf = arith.uitofp %z : i8 to f32
      %y = arith.subf %x, %zf : f32
      %s = arith.constant 0.5 : f64
      %t = arith.truncf %s : f64 to f32
      %r = arith.mulf %y, %t : f32"""
    found = described(body, Q)
    assert [zero.value for zero in found.zero_points] == [200.0]
    assert [scale.value for scale in found.scales] == [0.5]


# PITFALL 25
def test_an_added_constant_is_a_zero_point_or_an_offset() -> None:
    body = """
      %x = arith.sitofp %0 : i8 to f32
      %c = arith.constant 8.0 : f32
      %y = arith.addf %x, %c : f32
      %s = arith.mulf %y, %1 : f32
      %r = arith.subf %s, %c : f32"""
    found = described(body, Q, SCALE)
    assert [zero.value for zero in found.zero_points] == [-8.0]
    assert [offset.value for offset in found.offsets] == [-8.0]


def test_the_minuend_is_the_weight_where_the_zero_point_varies_as_much() -> None:
    body = "%x = arith.sitofp %0 : i8 to f32\n%z = arith.uitofp %1 : i8 to f32\n%r = arith.subf %x, %z : f32"
    found = described(body, Q, Q)
    assert str(found.storage.type) == "si8"
    assert str(found.zero_points[0].storage.type) == "ui8"


# Axes -----------------------------------------------------------------------------------------------------------------

SCALED = "%x = arith.sitofp %0 : i8 to f32\n%r = arith.mulf %x, %1 : f32"

GRANULARITIES = {
    "tensor": (("1xf32", "0"), ()),
    "rows": (("8xf32", "d0"), ((0, 1),)),
    "columns": (("64xf32", "d1"), ((1, 1),)),
    "groups of columns": (("4xf32", "d1 floordiv 16"), ((1, 16),)),
    "blocks": (("2x4xf32", "d0 floordiv 4, d1 floordiv 16"), ((0, 4), (1, 16))),
    "elements": (("8x64xf32", "d0, d1"), ((0, 1), (1, 1))),
    "transposed": (("64x8xf32", "d1, d0"), ((0, 1), (1, 1))),
    "ragged groups": (("8x6xf32", "d0, d1 floordiv 12"), ((0, 1), (1, 12))),
    "one group": (("8x1xf32", "d0, d1 floordiv 64"), ((0, 1),)),
    "groups of one": (("8x64xf32", "d0, d1 floordiv 1"), ((0, 1), (1, 1))),
    "flattened groups": (("16xf32", "(d0 * 64 + d1) floordiv 32"), ((0, 1), (1, 32))),
    "flattened rows": (("4xf32", "(d0 * 64 + d1) floordiv 128"), ((0, 2),)),
    "cyclic": (("2xf32", "d1 mod 2"), None),
    "inner part": (("4xf32", "(d1 floordiv 4) mod 4"), None),
}


# PITFALL 12
@pytest.mark.parametrize("name", GRANULARITIES)
def test_granularity(name: str) -> None:
    leaf, axes = GRANULARITIES[name]
    found = trace(SCALED, Q, leaf)
    (scale,) = found.description.scales
    assert scale.axes == (None if axes is None else tuple(AxisGroup(*group) for group in axes))
    assert ("irregularly" in str(found)) == (axes is None)


def test_dynamic_extents() -> None:
    found = described(SCALED, ("?x?xi8", "d0, d1"), ("?x?xf32", "d0, d1 floordiv 32"), shape="?x?")
    assert found.scales[0].axes == (AxisGroup(0, 1), AxisGroup(1, 32))
    body = SHIFT + NIBBLES["mask"][1] + "\n%r = arith.uitofp %n : i8 to f32"
    packed = described(body, ("?x?xi8", "d0, d1 floordiv 2"), shape="?x?")
    assert packed.storage.lanes == (Lane(1, 1, 2),)


def test_groups_that_words_straddle() -> None:
    """Words of 8 and groups of 12 have no common refinement but single elements."""
    body = """
      %i = linalg.index 1 : index
      %c8 = arith.constant 8 : index
      %c4 = arith.constant 4 : index
      %m = arith.remui %i, %c8 : index
      %s = arith.muli %m, %c4 : index
      %s32 = arith.index_cast %s : index to i32
      %f = arith.shrui %0, %s32 : i32
      %mask = arith.constant 15 : i32
      %n = arith.andi %f, %mask : i32
      %x = arith.uitofp %n : i32 to f32
      %r = arith.mulf %x, %1 : f32"""
    found = described(body, ("8x8xi32", "d0, d1 floordiv 8"), ("8x6xf32", "d0, d1 floordiv 12"))
    assert found.storage.lanes == (Lane(1, 1, 8),)
    assert found.scales[0].axes == (AxisGroup(0, 1), AxisGroup(1, 12))


def test_a_codebook_per_row() -> None:
    body = """
      %c = arith.constant 15 : i8
      %n = arith.andi %0, %c : i8
      %at = arith.index_cast %n : i8 to index
      %i = linalg.index 0 : index
      %r = tensor.extract %table[%i, %at] : tensor<8x16xf32>"""
    found = trace(body, Q)
    assert found.description.codebook.axes == (AxisGroup(0, 1),)
    assert str(found) == "int4 (ui4 in i8, 1 per byte) [8x64], codebook f32 of 16 entries per axis 0"


def test_a_codebook_of_integers() -> None:
    """As in GGUF's IQ4_NL: 16 entries of i8, which are scaled."""
    body = """
      %c = arith.constant 15 : i8
      %n = arith.andi %0, %c : i8
      %at = arith.index_cast %n : i8 to index
      %v = tensor.extract %values[%at] : tensor<16xi8>
      %x = arith.sitofp %v : i8 to f32
      %r = arith.mulf %x, %1 : f32"""
    found = trace(body, Q, SCALE)
    assert str(found) == "int4 (ui4 in i8, 1 per byte) [8x64], codebook i8 of 16 entries, scale f32 per axis 0"


def test_a_permutation_is_no_codebook() -> None:
    body = """
      %at = arith.index_cast %0 : i32 to index
      %v = tensor.extract %values[%at] : tensor<16xi8>
      %r = arith.sitofp %v : i8 to f32"""
    found = trace(body, ("8x64xi32", "d0, d1")).description
    assert (found.codebook, found.storage.leaf.map) == (None, None)
    assert (found.storage.bits, found.axes) == (8, (AxisGroup(0, 1), AxisGroup(1, 1)))


# No quantized storage -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "leaf"),
    [
        ("%r = arith.extf %0 : f16 to f32", "8x64xf16"),
        ("%r = arith.uitofp %0 : i1 to f32", "8x64xi1"),
        ("%r = arith.sitofp %0 : i64 to f32", "8x64xi64"),
        ("%r = arith.mulf %0, %0 : f32", "8x64xf32"),
    ],
)
def test_other_elements_are_no_storage(body: str, leaf: str) -> None:
    found = trace(body, (leaf, "d0, d1"))
    assert found.description is None
    assert str(found) == found.expression


def test_an_embedding_is_no_codebook() -> None:
    body = """
      %at = arith.index_cast %0 : i32 to index
      %i = linalg.index 1 : index
      %r = tensor.extract %table[%at, %i] : tensor<8x16xf32>"""
    assert trace(body, ("8xi32", "d0")).description is None


def test_what_the_program_computes_is_no_storage() -> None:
    text = """
    func.func @f(%a: tensor<4x8xi8>, %b: tensor<8x4xi8>, %i: tensor<4x4xi32>) -> tensor<4x4xf32> {
      %y = linalg.matmul ins(%a, %b : tensor<4x8xi8>, tensor<8x4xi8>) outs(%i : tensor<4x4xi32>) -> tensor<4x4xi32>
      %f = arith.sitofp %y : tensor<4x4xi32> to tensor<4x4xf32>
      return %f : tensor<4x4xf32>
    }"""
    module = ir.Module.parse(text)
    found = qt.trace(find(module, "arith.sitofp").results[0])
    assert found.description is None
    assert found.refusal == "computed-at-run-time"


@pytest.mark.parametrize("length", [50, 400, 5000])
def test_long_chains_end(length: int) -> None:
    """Each value is used twice, so that a tree would have 2**length nodes."""
    steps = "\n".join(f"%t{i + 1} = arith.mulf %t{i}, %t{i} : f32" for i in range(length))
    body = f"%t0 = arith.negf %1 : f32\n{steps}\n%x = arith.sitofp %0 : i8 to f32\n%r = arith.mulf %x, %t{length} : f32"
    found = trace(body, Q, SCALE)
    assert len(str(found)) < 10_000
    (scale,) = found.description.scales if length < 500 else [None]
    assert scale is None or scale.kind == "expression"


@pytest.mark.parametrize(
    ("leaf", "body"),
    [
        ("i128", "%a = arith.trunci %0 : i128 to i8\n%r = arith.sitofp %a : i8 to f32"),
        ("i8", "%a = arith.extsi %0 : i8 to i128\n%b = arith.addi %a, %a : i128\n%r = arith.sitofp %b : i128 to f32"),
        (
            "i64",
            "%c = arith.constant -9223372036854775808 : i64\n"
            "%a = arith.xori %0, %c : i64\n"
            "%r = arith.sitofp %a : i64 to f32",
        ),
        ("i33", "%c = arith.constant 5 : i33\n%a = arith.shrui %0, %c : i33\n%r = arith.uitofp %a : i33 to f32"),
        ("i8", "%c = arith.constant 9 : i8\n%a = arith.shrui %0, %c : i8\n%r = arith.uitofp %a : i8 to f32"),
        ("i8", "%c = arith.constant 0 : i8\n%a = arith.divui %0, %c : i8\n%r = arith.uitofp %a : i8 to f32"),
        (
            "i8",
            "%c = arith.constant 0 : i8\n"
            "%d = arith.remsi %c, %c : i8\n"
            "%a = arith.addi %0, %d : i8\n"
            "%r = arith.sitofp %a : i8 to f32",
        ),
        ("index", "%a = arith.index_cast %0 : index to i8\n%r = arith.sitofp %a : i8 to f32"),
        ("complex<f32>", "%r = complex.re %0 : complex<f32>"),
        (
            "i8",
            "%v = vector.broadcast %0 : i8 to vector<4xi8>\n"
            "%x = vector.extract %v[0] : i8 from vector<4xi8>\n"
            "%r = arith.sitofp %x : i8 to f32",
        ),
    ],
)
def test_odd_types_and_undefined_results_are_not_described(leaf: str, body: str) -> None:
    found = trace(body, (f"8x64x{leaf}", "d0, d1"))
    assert found.description is None or found.description.kind == "expression"
