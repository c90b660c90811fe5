"""Every form, as the frontend that produces it spells it, and the instances built from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from .builders import NUMPY, Body, Builder, Scalar, T
from .oracle import Quant, Ref, product, quantize
from .program import Case, P, Program, add_bias, linear, matmul

Form = Callable[[Case], None]


@dataclass(frozen=True)
class Entry:
    """One instance of the catalog; ``build`` is deterministic."""

    name: str
    form: Form
    p: P
    tags: frozenset[str]

    def build(self) -> Program:
        case = Case(self.p)
        self.form(case)
        return case.program(self.name, sorted(self.tags))


CATALOG: list[Entry] = []


def register(name: str, form: Form, shapes: list[P], *tags: str) -> None:
    """Add one entry per shape; "hidden" and "exempt" forms are not measurable."""
    kinds = set(tags) if {"hidden", "exempt"} & set(tags) else {*tags, "measurable"}
    CATALOG.extend(Entry(f"{name}_{p.label()}", form, p, frozenset(kinds)) for p in shapes)


# Dequantization chains -----------------------------------------------------------------------------------------------


def axis_param(b: Builder, values: np.ndarray, et: str, rank: str) -> T:
    """A per-axis parameter stored as [n, 1] ("2d") or as [n] and expanded ("1d")."""
    if rank == "2d":
        return b.weight(values, et)
    return b.unsqueeze(b.weight(values[..., 0], et), values.ndim - 1)


def torch_chain(
    b: Builder, w: T, q: Quant, *, signed: bool, zp: str = "float", rank: str = "2d", last: bool = True
) -> T:
    """The unfused torch chain on storage ``w`` [..., n, k]: convert, subtract, multiply; groups by expand/collapse.

    ``zp`` is how the zero point is stored: "float" in the weight's type, "i8"/"u8" converted beside it, "i32"
    subtracted before the conversion, "scalar" a constant in the body. ``last=False``: w is [k, n] with groups along
    the rows.
    """
    et = q.et
    grouped = q.scale.ndim and q.groups > 1
    axis = w.rank - (1 if last else 2)
    if grouped:
        w = b.split(w, axis, int(w.sizes[axis]) // q.groups)

    def param(values: np.ndarray, as_et: str) -> T:
        if not grouped:
            return axis_param(b, values, as_et, rank) if last else b.weight(values[..., 0], as_et)
        if last:
            return b.unsqueeze(b.weight(values, as_et), axis + 1)
        return b.unsqueeze(b.weight(values.swapaxes(-1, -2), as_et), axis + 1)

    if q.zp is not None and zp == "i32":
        w = b.binary("subi", b.convert(w, "i32", signed), param(q.zp, "i32"))
        signed = True
    w = b.convert(w, et, signed)
    if q.zp is not None and zp == "scalar":
        w = b.binary("subf", w, float(q.zp))
    elif q.zp is not None and zp != "i32":
        stored = param(q.zp, et if zp == "float" else "i8")
        w = b.binary("subf", w, b.convert(stored, et, zp == "i8"))
    if q.scale.ndim == 0:
        if q.et == "f32":  # a Python float of the traced program: f64, truncated in the body
            w = b.ew(lambda e, x: e.mulf(x, e.truncf(e.const(float(q.scale), "f64"), to="f32")), w)
        else:
            w = b.binary("mulf", w, float(q.scale))
    else:
        w = b.binary("mulf", w, param(q.scale, et))
    return b.merge(w, axis) if grouped else w


def onnx_chain(b: Builder, w: T, q: Quant, axis: int, signed: bool) -> T:
    """torch-mlir's DequantizeLinear: one generic with integer subtraction in the body."""
    et = q.et
    ident = ", ".join(f"d{i}" for i in range(w.rank))
    if q.scale.ndim == 0:

        def per_tensor(e: Body, x: Scalar) -> Scalar:
            wide = e.to(x, "i64", signed)
            shifted = e.subi(wide, e.const(float(q.zp if q.zp is not None else 0), "i64"))
            return e.mulf(e.sitofp(shifted, to=et), e.const(float(q.scale), et))

        return b.generic([(w, ident)], w.sizes, et, per_tensor)

    def per_axis(e: Body, x: Scalar, s: Scalar, z: Scalar) -> Scalar:
        z16, x16 = e.to(z, "i16", signed), e.to(x, "i16", signed)
        return e.mulf(e.sitofp(e.subi(x16, z16), to=et), s)

    zp = np.zeros_like(q.scale) if q.zp is None else q.zp
    scale, zero = b.weight(q.scale[..., 0].reshape(-1), et), b.weight(zp[..., 0].reshape(-1), "i8")
    return b.generic([(w, ident), (scale, f"d{axis}"), (zero, f"d{axis}")], w.sizes, et, per_axis)


def linear8(
    c: Case,
    *,
    signed: bool = True,
    groups: str = "axis",
    zp: str | float = "none",
    store: str = "float",
    rank: str = "2d",
    layout: str = "nk",
    bias: bool = False,
) -> None:
    """8-bit weights through the torch chain; ``layout`` says where the transpose stands."""
    p, b = c.p, c.b
    count = {"tensor": None, "axis": 1, "group": p.k // p.g}[groups]
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), signed=signed, groups=count, zp=zp, et=p.act)
    chain = partial(torch_chain, b, q=q, signed=signed, zp=store, rank=rank)
    w = q.values()
    if layout == "nk":
        linear(c, x, xt, w, chain(b.weight(q.q, "i8")), bias)
        return
    if layout == "nk_extf":  # addmm in half precision: both operands are extended after the transpose
        wt = b.convert(b.transpose(chain(b.weight(q.q, "i8")), [1, 0]), "f32")
        y, ref = matmul(b, b.convert(xt, "f32"), wt), product(x, w.T)
        v = c.rng.standard_normal(p.n).astype(NUMPY[p.act])
        y = b.binary("addf", y, b.convert(b.const(v, p.act), "f32"))
        c.result(b.convert(y, p.act), Ref(ref.value + v.astype(np.float64), ref.error))
        return
    stored = b.weight(q.q.T, "i8") if layout == "kn" else b.transpose(b.weight(q.q, "i8"), [1, 0])
    wt = chain(stored, last=False)
    y, ref = matmul(b, xt, wt), product(x, w.T)
    if bias:
        y, ref = add_bias(c, y, ref.stored(p.act))
    c.result(y, ref)


SHAPES = [
    P(),
    P(40, 40, 5),
    P(21, 35, None, g=7),
    P(33, 64, 2, act="f16", batch=(2,)),
    P(64, 96, 4, act="bf16", where="arg"),
]

register("torch_w8_sym_axis", linear8, [*SHAPES, P(m=5, where="dense"), P(m=None, batch=(1,))])
register("torch_w8_sym_tensor", partial(linear8, groups="tensor"), SHAPES[:3])
register(
    "torch_w8_u8_tensor_zp128",
    partial(linear8, groups="tensor", signed=False, zp=128, store="scalar"),
    SHAPES[1:4],
    "unsigned",
)
register("torch_w8_zp_float", partial(linear8, zp="float"), SHAPES[1:])
register("torch_w8_zp_i32_1d", partial(linear8, zp="int", store="i32", rank="1d"), SHAPES[:3])
register("torch_w8_u8_zp_u8", partial(linear8, signed=False, zp="int", store="u8", bias=True), SHAPES[2:], "unsigned")
register("torch_w8_group", partial(linear8, groups="group", zp="int"), SHAPES, "grouped")
register("torch_w8_group_zp_i8", partial(linear8, groups="group", zp="int", store="i8"), SHAPES[2:4], "grouped")
register("torch_w8_kn", partial(linear8, layout="kn"), [SHAPES[0], SHAPES[2], SHAPES[4]], "kn")
register("torch_w8_kn_group", partial(linear8, layout="kn", groups="group"), SHAPES[1:4], "kn", "grouped")
register("torch_w8_transpose_storage", partial(linear8, layout="t_first", bias=True), [SHAPES[0], SHAPES[3]])
register("torch_w8_extf_between", partial(linear8, layout="nk_extf", zp="int"), [SHAPES[3], SHAPES[4]])


def onnx_linear(c: Case, *, axis: str, expand: bool = False, signed: bool = True, zp: str | float = "int") -> None:
    """DequantizeLinear then MatMul, the weight copied to a batch dim when the activation has one (``expand``)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), signed=signed, groups=None if axis == "tensor" else 1, zp=zp, et=p.act)
    w = q.values()
    if axis == "1":
        wt = onnx_chain(b, b.weight(q.q.T, "i8"), q, 1, signed)
    else:
        wt = b.transpose(onnx_chain(b, b.weight(q.q, "i8"), q, 0, signed), [1, 0])
    if not expand:
        c.result(matmul(b, xt, wt), product(x, w.T))
        return
    wt = b.broadcast(wt, [xt.sizes[0], *wt.sizes])
    y = b.named("batch_matmul", [xt, wt], b.fill(0, [*xt.sizes[:-1], p.n], "f32"))
    y, ref = add_bias(c, b.convert(y, p.act), product(x, w.T).stored(p.act))
    c.result(y, ref)


register("onnx_dq8_axis0", partial(onnx_linear, axis="0"), [P(where="dense"), *SHAPES[1:4]])
register("onnx_dq8_axis1", partial(onnx_linear, axis="1"), [P(where="dense"), *SHAPES[1:3]], "kn")
register(
    "onnx_dq_u8_tensor",
    partial(onnx_linear, axis="tensor", signed=False, zp=128),
    [P(m=5, where="dense"), P(33, 40, None)],
    "unsigned",
)
register(
    "onnx_dq8_expand_bmm",
    partial(onnx_linear, axis="0", expand=True),
    [P(m=5, batch=(2,), where="dense"), P(40, 40, 5, batch=(3,)), P(21, 35, None, batch=(2,), act="f16")],
    "batch",
)
