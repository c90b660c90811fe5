"""8-bit weights: torch-mlir's unfused chain in every zero-point and layout variant, and ONNX DequantizeLinear."""

from __future__ import annotations

from functools import partial

import numpy as np

from .builders import NUMPY
from .chains import onnx_chain, torch_chain
from .oracle import Ref, product, quantize
from .program import Case, P, add_bias, linear, matmul
from .registry import register


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
    P(40, 40, 5, g=8),
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
# PITFALL 22
register("torch_w8_u8_zp_u8", partial(linear8, signed=False, zp="int", store="u8", bias=True), SHAPES[2:], "unsigned")
register("torch_w8_group", partial(linear8, groups="group", zp="int"), SHAPES, "grouped")
register("torch_w8_group_zp_i8", partial(linear8, groups="group", zp="int", store="i8"), SHAPES[2:4], "grouped")
register("torch_w8_kn", partial(linear8, layout="kn"), [SHAPES[0], SHAPES[2], SHAPES[4]], "kn")
# PITFALL 12
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
    y, ref = add_bias(c, b.convert(y, p.act), product(x, w.T).stored(p.act), first=True)
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
