"""The description of every packed, grouped and scaled form of the corpus, against the parameters it was built from.

The truth about a form is a function with the signature of the form's builder: what is stored and how, which zero point
is subtracted, what is scaled per what. Nothing in it looks at the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import qtranspose as qt
from forms import contractions, eight_bit, frontends, packed
from forms.builders import BITS, is_float
from forms.catalog import CATALOG, Entry
from forms.program import P
from mlir import ir
from qtranspose.trace import AxisGroup, DequantDescription
from test_trace import find

K, N = 0, 1  # the axes of the traced weight: x [m, k] @ w [k, n]


@dataclass(frozen=True)
class Packing:
    """`count` numbers per word of type `word`, `stride` positions of `axis` apart; `order` from the lowest bits."""

    word: str
    axis: int
    order: tuple[int, ...]
    stride: int = 1


@dataclass(frozen=True)
class Parameter:
    """A scale, zero point or offset: a number, or stored as `type` per axis and group; `plus` is added to it."""

    type: str = ""
    value: float | None = None
    axes: frozenset[tuple[int, int]] = frozenset()
    packing: Packing | None = None
    plus: int = 0
    scale: Parameter | None = None


@dataclass(frozen=True)
class Truth:
    type: str
    packing: Packing | None = None
    scale: Parameter | None = None
    zero: Parameter | None = None
    offset: Parameter | None = None
    negative_offset: Parameter | None = None
    codebook: int = 0
    compute: str = "f32"


Truths = Callable[..., Truth]


def per(p: P, type_: str, groups: str | int | None = "group", g: int | None = None, **more: object) -> Parameter:
    """Stored once per tensor, per row of the stored weight (axis n), or per row and group of k."""
    g = g or p.g
    axes = {"tensor": set(), "axis": {(N, 1)}, "group": {(N, 1), (K, g)}}[groups]
    if groups == "group" and g == p.k:
        axes = {(N, 1)}
    # What has one position or group does not vary.
    axes = {(axis, size) for axis, size in axes if (p.n if axis == N else p.k) > 1}
    return Parameter(type_, axes=frozenset(axes), **more)


def number(value: float) -> Parameter:
    return Parameter(value=value)


def field(bits: int, signed: bool) -> str:
    return f"{'s' if signed else 'u'}i{bits}"


def words(word: str, axis: int, bits: int, order: tuple[int, ...] | None = None) -> Packing:
    return Packing(word, axis, order or tuple(range(BITS[word] // bits)))


def chain(p: P, signed: bool, groups: str, zp: str | float, store: str) -> dict[str, Parameter | None]:
    """Scale and zero point of `chains.torch_chain`."""
    scale = number(0.0) if groups == "tensor" else per(p, p.act, groups)
    zero = None
    if zp != "none":
        stored = {"float": p.act, "i8": "si8", "u8": "ui8", "i32": "i32"}
        zero = number(float(zp)) if store == "scalar" else per(p, stored[store], groups)
        if isinstance(zp, (int, float)) and store != "scalar":
            zero = number(float(zp))
    return {"scale": scale, "zero": zero}


def of_linear8(
    p: P,
    signed: bool = True,
    groups: str = "axis",
    zp: str | float = "none",
    store: str = "float",
    rank: str = "2d",
    layout: str = "nk",
    bias: bool = False,
) -> Truth:
    return Truth(field(8, signed), compute=p.act, **chain(p, signed, groups, zp, store))


def of_onnx_linear(p: P, axis: str, expand: bool = False, signed: bool = True, zp: str | float = "int") -> Truth:
    zero = number(float(zp)) if axis == "tensor" else per(p, field(8, signed), "axis")
    scale = number(0.0) if axis == "tensor" else per(p, p.act, "axis")
    return Truth(field(8, signed), scale=scale, zero=zero, compute=p.act)


def of_byte_packed(
    p: P, how: str, zp: str | float = "int", store: str = "float", bits: int = 4, signed: bool = False
) -> Truth:
    packing = Packing("i8", K, tuple(range(8 // bits)))
    if how == "high_first":
        packing = Packing("i8", K, (1, 0))
    if how == "halves":
        packing = Packing("i8", K, (0, 1), p.k // 2)
    return Truth(field(bits, signed), packing, compute=p.act, **chain(p, signed, "group", zp, store))


def of_blocks(p: P, kind: str) -> Truth:
    scale = per(p, "f16")
    if kind == "q8_0":
        return Truth("si8", scale=scale, compute=p.act)
    packing = Packing("i8", K, (0, 1), 1 if kind == "nbits" else p.g // 2)
    if kind == "q4_1":
        return Truth("ui4", packing, scale=scale, offset=per(p, "f16"), compute=p.act)
    return Truth("ui4", packing, scale=scale, zero=number(8), compute=p.act)


def of_gptq(p: P, gather: bool = False, plus_one: bool = True) -> Truth:
    packing = words("i32", K, 4)
    if gather:
        scale = Parameter(p.act, axes=frozenset({(K, 1), (N, 1)}))
        return Truth("ui4", packing, scale=scale, zero=number(8), compute=p.act)
    zero = per(p, "ui4", packing=words("i32", N, 4), plus=int(plus_one))
    return Truth("ui4", packing, scale=per(p, p.act), zero=zero, compute=p.act)


def of_awq(p: P) -> Truth:
    packing = words("i32", N, 4, (0, 2, 4, 6, 1, 3, 5, 7))
    return Truth("ui4", packing, scale=per(p, p.act), zero=per(p, "ui4", packing=packing), compute=p.act)


def of_mlc(p: P, bits: int, kn: bool = False, spelling: str = "index") -> Truth:
    zero = number((1 << (bits - 1)) - 1)
    return Truth(field(bits, False), words("i32", K, bits), scale=per(p, p.act), zero=zero, compute=p.act)


def of_narrow(p: P, et: str = "i4", signed: bool = True, via: str | None = None, zp: str | float = "none") -> Truth:
    return Truth(field(BITS[et], signed), compute=p.act, **chain(p, signed, "group", zp, "float"))


def of_nf4(p: P, shaped: bool = False) -> Truth:
    """Blocks of `g` of the flattened weight: whole rows, parts of rows, or several rows."""
    per_row = p.k // p.g
    scale = per(p, "f32") if per_row else Parameter("f32", axes=frozenset({(N, p.g // p.k)}))
    return Truth("ui4", Packing("i8", K, (1, 0)), scale=scale, codebook=16, compute="f32")


def of_float8(p: P, et: str, groups: str = "axis", scale_after: bool = False) -> Truth:
    scale = None if scale_after else number(0.0) if groups == "tensor" else per(p, p.act, groups)
    return Truth(et, scale=scale, compute=p.act)


def of_hqq(p: P) -> Truth:
    packing = Packing("i8", N, (1, 0), p.n // 2)
    return Truth("ui4", packing, scale=per(p, p.act), zero=per(p, p.act), compute=p.act)


def of_strided_inserts(p: P, bits: int = 4, et: str = "i8") -> Truth:
    return Truth(
        field(bits, False), words(et, K, bits), scale=per(p, p.act), zero=number(1 << (bits - 1)), compute=p.act
    )


def of_words_nk(p: P) -> Truth:
    return Truth("ui4", words("i32", K, 4), scale=per(p, p.act), zero=number(8), compute=p.act)


def of_minimum(p: P, packed: bool = True) -> Truth:
    packing = words("i8", K, 4) if packed else None
    return Truth("ui4" if packed else "ui8", packing, per(p, p.act), number(8), offset=per(p, p.act), compute=p.act)


def of_two_level(p: P, kind: str) -> Truth:
    def level() -> Parameter:
        supers = max(p.k // (2 * p.g), 1)
        return per(p, "ui8", scale=per(p, "f16", g=p.k // supers))

    if kind == "nested":
        return Truth("si8", scale=level(), compute=p.act)
    return Truth("ui4", words("i8", K, 4), level(), negative_offset=level(), compute=p.act)


def of_repeat_interleave(p: P, zp: bool = False) -> Truth:
    return Truth("si8", scale=per(p, p.act), zero=per(p, p.act) if zp else None, compute=p.act)


def of_narrowed(p: P, grouped: bool = False) -> Truth:
    return Truth(
        "si8", compute="f32", scale=per(p, "f32", how := "group" if grouped else "axis"), zero=per(p, "f32", how)
    )


def of_floordiv_groups(p: P, kn: bool = False) -> Truth:
    return Truth("si8", scale=per(p, p.act), zero=per(p, "si8"), compute=p.act)


def of_scale_after(p: P, transpose_first: bool = True) -> Truth:
    return Truth("si8", compute=p.act)


TRUTHS: dict[Callable[..., None], Truths] = {
    eight_bit.linear8: of_linear8,
    eight_bit.onnx_linear: of_onnx_linear,
    packed.byte_packed: of_byte_packed,
    packed.blocks: of_blocks,
    packed.gptq: of_gptq,
    packed.awq: of_awq,
    packed.mlc: of_mlc,
    packed.narrow: of_narrow,
    packed.nf4: of_nf4,
    packed.float8: of_float8,
    frontends.hqq: of_hqq,
    frontends.strided_inserts: of_strided_inserts,
    frontends.words_nk: of_words_nk,
    frontends.minimum: of_minimum,
    frontends.two_level: of_two_level,
    frontends.repeat_interleave: of_repeat_interleave,
    frontends.narrowed: of_narrowed,
    contractions.floordiv_groups: of_floordiv_groups,
    contractions.scale_after: of_scale_after,
}


def truth(entry: Entry) -> Callable[[P], Truth] | None:
    form, arguments = (entry.form.func, entry.form.keywords) if isinstance(entry.form, partial) else (entry.form, {})
    # Through a gather of what was unpacked before, the words cannot be seen.
    if form not in TRUTHS or (form is packed.awq and arguments):
        return None
    return partial(TRUTHS[form], **arguments)


KNOWN = [entry for entry in CATALOG if truth(entry) and "degenerate" not in entry.tags]


def check(found: DequantDescription, expected: Parameter) -> None:
    if expected.value is not None:
        assert found.kind == "constant"
        # Random scales per tensor are only known to be there.
        assert found.value == expected.value or (expected.value == 0.0 and found.value > 0)
        return
    assert found.kind == "stored"
    assert str(found.storage.type) == expected.type
    if expected.axes is not None:
        assert {(group.axis, group.size) for group in found.axes} == expected.axes
    check_packing(found, expected.packing)
    inner = [step for step in found.steps if step.operation != "cast"]
    if expected.scale:
        (step,) = inner
        assert step.operation == "multiply"
        check(step.operand, expected.scale)
    elif expected.plus:
        assert [(step.operation, step.operand.value) for step in inner] == [("subtract", -expected.plus)]
    else:
        assert not inner


def check_packing(found: DequantDescription, expected: Packing | None) -> None:
    storage = found.storage
    assert storage.packed == bool(expected)
    if expected is None:
        return
    (lane,) = storage.lanes
    assert str(storage.word_type) == expected.word
    assert (lane.axis, lane.stride, lane.count) == (expected.axis, expected.stride, len(expected.order))
    assert storage.order == expected.order
    assert storage.per_word == len(expected.order)
    assert {storage.bit_offsets[e] // storage.bits for e in expected.order} == set(range(len(expected.order)))


def optional(found: tuple[DequantDescription, ...], expected: Parameter | None) -> None:
    assert len(found) == bool(expected)
    if expected:
        check(found[0], expected)


# PITFALL 25
@pytest.mark.parametrize("entry", KNOWN, ids=lambda entry: entry.name)
def test_form_is_described(entry: Entry) -> None:
    expected = truth(entry)(entry.p)
    with ir.Context():
        module = ir.Module.parse(entry.build().mlir)
        batched = "expand_bmm" in entry.family
        trace = qt.trace(find(module, "linalg.batch_matmul" if batched else "linalg.matmul").operands[1])
        found = trace.description
        assert found.kind == "stored", str(trace)
        if batched:  # a copy per batch: one more axis in front, along which nothing varies
            found = without_batch(found)
        assert str(found.storage.type) == expected.type
        assert {group.axis for group in found.axes} >= {a for a, size in ((K, entry.p.k), (N, entry.p.n)) if size > 1}
        check_packing(found, expected.packing)
        assert str(found.compute_type) == expected.compute
        optional(found.scales, expected.scale)
        optional(found.zero_points, expected.zero)
        optional(found.offsets, expected.offset)
        rest = [step for step in found.steps if step.operation == "subtract" and step.operand not in found.zero_points]
        optional(tuple(step.operand for step in rest), expected.negative_offset)
        assert (found.codebook is not None) == bool(expected.codebook)
        if expected.codebook:
            assert found.codebook.storage.leaf.value.type.shape == [expected.codebook]
        assert is_float(str(found.type))
        # All of it is in the one line, too.
        assert f"int{found.storage.bits}" in str(trace) or str(found.storage.type) in str(trace)
        for group in found.scales[0].axes if found.scales and not batched else ():
            assert (f"group {group.size} on axis {group.axis}" if group.size > 1 else f"axis {group.axis}") in str(
                trace
            )


def without_batch(found: DequantDescription) -> DequantDescription:
    from dataclasses import replace

    def shift(axes: tuple[AxisGroup, ...]) -> tuple[AxisGroup, ...]:
        assert all(group.axis > 0 for group in axes)
        return tuple(replace(group, axis=group.axis - 1) for group in axes)

    steps = tuple(replace(step, operand=step.operand and without_batch(step.operand)) for step in found.steps)
    return replace(found, axes=shift(found.axes), steps=steps)


def test_most_of_the_corpus_has_a_known_truth() -> None:
    assert len(KNOWN) >= 150
