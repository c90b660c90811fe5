"""Every op that consumes a dequantized weight: the contractions of JAX, IREE, TFLite/TOSA, ONNX, torch and PT2E."""

from __future__ import annotations

from functools import partial

import numpy as np

from .builders import NUMPY, Body, Scalar, T
from .chains import onnx_chain, torch_chain
from .oracle import Ref, exact, integer_product, product, quantize, rounded
from .packed import nibbles, pack, stack
from .program import Case, P, add_bias, linear, matmul, unflatten
from .registry import register


def dequantized(c: Case, kind: str, shape: tuple[int, ...] | None = None) -> tuple[np.ndarray, T]:
    """A dequantized [..., n, k] weight: its float64 values and the tensor. Kinds: w8, w8zp, w8t, w8onnx, w4."""
    p, b = c.p, c.b
    shape = shape or (p.n, p.k)
    if kind == "w4":
        q = quantize(c.rng, shape, bits=4, signed=False, groups=shape[-1] // p.g, zp="int", et=p.act)
        return q.values(), torch_chain(b, stack(b, *nibbles(b, b.weight(pack(q.q, 4, "i8"), "i8"))), q, signed=False)
    q = quantize(c.rng, shape, groups=None if kind == "w8t" else 1, zp="int" if kind == "w8zp" else "none", et=p.act)
    w = b.weight(q.q, "i8")
    return q.values(), onnx_chain(b, w, q, 0, True) if kind == "w8onnx" else torch_chain(b, w, q, signed=True)


def accumulator(c: Case, *sizes: int | str) -> T:
    return c.b.fill(0, sizes, "f32")


# JAX: broadcasts materialised, transposes as copying generics, vecmat for one row -----------------------------------


def jax(c: Case, *, grouped: bool = False, zp: bool = False, dot: bool = False) -> None:
    """StableHLO to linalg: every broadcast_in_dim and transpose is a copying generic; ``dot`` contracts without one."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), groups=p.k // p.g if grouped else 1, zp="int" if zp else "none", et=p.act)
    w = b.convert(b.weight(q.q, "i8"), p.act)
    if grouped:
        w = b.split(w, 1, p.g)
    for op, values in (("subf", q.zp), ("mulf", q.scale)):
        if values is not None:
            stored = b.weight(values[..., None] if grouped else values, p.act)
            w = b.binary(op, w, b.broadcast(stored, w.sizes))
    if grouped:
        w = b.merge(w, 1)
    ref = product(x, q.values().T)
    if dot:
        y = b.contract([(xt, "d0, d2"), (w, "d1, d2")], (xt.sizes[0], p.n), "f32", "d0, d1", "ppr")
        c.result(b.convert(y, p.act), ref)
        return
    w = b.transpose(w, [1, 0], named=False)
    if p.m == 1:
        y = b.named("vecmat", [b.collapse(xt, [[0, 1]]), w], b.fill(0, [p.n], p.act))
        c.result(b.expand(y, [[0, 1]], [1, p.n]), ref)
    else:
        c.result(b.named("matmul", [xt, w], b.fill(0, (xt.sizes[0], p.n), p.act)), ref)


JAX = [P(where="dense"), P(40, 40, 5, where="dense"), P(21, 64, None, where="arg")]
register("jax_w8", jax, JAX)
register("jax_w8_zp", partial(jax, zp=True), JAX[1:])
register("jax_w8_group", partial(jax, grouped=True), [JAX[0], JAX[2], P(32, 32, 4, g=8)], "grouped")
register("jax_w8_dot_general", partial(jax, dot=True), JAX[1:])


# torch: scales after the matmul -------------------------------------------------------------------------------------


def scale_after(c: Case, *, transpose_first: bool = True) -> None:
    """torchao int8wo (the raw i8 constant is transposed, then converted) or gpt-fast (converted, then transposed)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k))
    w = b.weight(q.q, "i8")
    w = b.convert(b.transpose(w, [1, 0]), p.act) if transpose_first else b.transpose(b.convert(w, p.act), [1, 0])
    scale = b.convert(b.weight(q.scale, "f32"), p.act)
    y = b.binary("mulf", matmul(b, xt, w), b.collapse(scale, [[0, 1]]))
    ref = product(x, q.q.T.astype(np.float64)).stored(p.act)
    c.result(y, ref.scaled(rounded(q.scale[:, 0], p.act)))


AFTER = [P(), P(40, 40, 32, act="bf16"), P(21, 35, None), P(33, 64, 5, act="f16", where="arg", batch=(2,))]
register("torchao_int8wo", scale_after, AFTER, "scale-after")
register("gptfast_int8", partial(scale_after, transpose_first=False), AFTER, "scale-after")


def dynamic_activation(c: Case) -> None:
    """torchao int8 dynamic activations: per-row quantized rows times i8 weights in i32, both scales afterwards."""
    p, b = c.p, c.b
    x8, xt = c.activation((p.rows, p.k), "i8", [0] if p.m is None else [])
    row = c.rng.uniform(0.01, 0.1, (p.rows, 1)).astype(np.float32)
    row_t = b.arg(row, "f32", [0] if p.m is None else [])
    q = quantize(c.rng, (p.n, p.k))
    y = matmul(b, xt, b.transpose(b.weight(q.q, "i8"), [1, 0]))
    y = b.binary("mulf", b.convert(y, "f32"), row_t)
    y = b.binary("mulf", y, b.collapse(b.weight(q.scale, "f32"), [[0, 1]]))
    ref = exact(integer_product(x8, q.q.T).astype(np.float64)).stored("f32")
    c.result(y, ref.scaled(row.astype(np.float64)).stored("f32").scaled(q.scale[:, 0]))


register("torchao_int8da_int8w", dynamic_activation, [P(m=8), P(40, 40, 1), P(21, 35, None)], "integer", "scale-after")


# Named contractions -------------------------------------------------------------------------------------------------


def contraction(c: Case, *, op: str, kind: str = "w8") -> None:
    """One [n, k] weight consumed by ``op``; transposed operands are spelled by the op itself or by a transpose."""
    p, b = c.p, c.b
    single = op in ("vecmat", "torch_mv", "matvec", "dot_generic")
    batched = op.startswith("batch") and op != "batch_reduce"
    if single:
        x, xt = c.activation((p.k,))
    elif op in ("batch_vecmat", "batch_matvec"):
        x, xt = c.activation((p.rows, p.k), None, [0] if p.m is None else [])
    elif batched:
        x, xt = c.activation((*(p.batch or (2,)), p.rows, p.k), None, [1] if p.m is None else [])
    else:
        x, xt = c.rows()
    w, wt = dequantized(c, kind)
    ref = product(x, w.T)
    transposed = partial(b.transpose, wt, [1, 0])
    if op == "vecmat":
        y = b.named(op, [xt, transposed()], accumulator(c, p.n))
    elif op == "matvec":
        y = b.named(op, [wt, xt], accumulator(c, p.n))
    elif op == "torch_mv":  # aten.mv: multiply, then a reduction generic
        prod, init = b.ew(lambda e, s, v: e.mulf(s, v), wt, xt), b.fill(0, [p.n], p.act)
        ins = [(prod, "d0, d1")]
        y = b.generic(ins, [p.n], p.act, lambda e, v, acc: e.addf(v, acc), out_map="d0", iters="pr", init=init)
        ref = product(x, w.T, p.act)
    elif op == "dot_generic":
        y = b.contract([(wt, "d0, d1"), (xt, "d1")], [p.n], "f32", "d0", "pr")
    elif op in ("matmul", "contract"):
        maps = ["d0, d2", "d1, d2", "d0, d1"]
        y = b.mapped(op, [xt, wt], accumulator(c, xt.sizes[0], p.n), 3, maps)
    elif op == "generic":
        y = b.contract([(xt, "d0, d2"), (wt, "d1, d2")], [xt.sizes[0], p.n], "f32", "d0, d1", "ppr")
    elif op == "generic_swapped":  # the weight first, dims in another order
        y = b.contract([(wt, "d2, d0"), (xt, "d1, d0")], [xt.sizes[0], p.n], "f32", "d1, d2", "rpp")
    elif op == "batch_expand":  # TOSA: one unit batch dim
        rows = xt if xt.rank == 2 else b.collapse(xt, [[0, 1], [2]])
        w3 = b.expand(transposed(), [[0, 1], [2]], [1, p.k, p.n])
        x3 = b.expand(rows, [[0, 1], [2]], [1, *rows.sizes])
        y = b.collapse(b.named("batch_matmul", [x3, w3], accumulator(c, 1, rows.sizes[0], p.n)), [[0, 1], [2]])
        y = unflatten(b, y, xt.sizes[:-2])
    elif op == "batch_broadcast":  # ONNX MatMul of a 3-D activation: the weight is copied to every batch
        w3 = b.broadcast(transposed(), [xt.sizes[0], p.k, p.n])
        y = b.named("batch_matmul", [xt, w3], accumulator(c, *xt.sizes[:-1], p.n))
    elif op == "batch_add_zero":  # TFLite: the copy is an addition of -0.0
        w3 = b.expand(transposed(), [[0, 1], [2]], [1, p.k, p.n])
        zeros = b.const(np.full((int(xt.sizes[0]), p.k, p.n), -0.0), p.act, "dense")
        y = b.named("batch_matmul", [xt, b.binary("addf", w3, zeros)], accumulator(c, *xt.sizes[:-1], p.n))
    elif op == "batch_mapped":  # transposed by the indexing maps of the op
        maps = ["d0, d1, d3", "d0, d2, d3", "d0, d1, d2"]
        w3 = b.broadcast(wt, [xt.sizes[0], p.n, p.k])
        y = b.mapped("batch_matmul", [xt, w3], accumulator(c, *xt.sizes[:-1], p.n), 4, maps)
    elif op == "batch_mapped_broadcast":  # broadcast by the indexing maps of the op
        maps = ["d0, d1, d3", "d3, d2", "d0, d1, d2"]
        y = b.mapped("batch_matmul", [xt, transposed()], accumulator(c, *xt.sizes[:-1], p.n), 4, maps)
    elif op == "batch_vecmat":
        w3 = b.broadcast(transposed(), [xt.sizes[0], p.k, p.n])
        y = b.named(op, [xt, w3], accumulator(c, xt.sizes[0], p.n))
    elif op == "batch_matvec":
        w3 = b.broadcast(wt, [xt.sizes[0], p.n, p.k])
        y = b.named(op, [w3, xt], accumulator(c, xt.sizes[0], p.n))
    elif op == "batch_reduce":  # groups of K summed by the batch of batch_reduce_matmul
        x3 = b.transpose(b.split(xt, 1, p.g), [1, 0, 2])
        w3 = b.split(transposed(), 0, p.g)
        y = b.named("batch_reduce_matmul", [x3, w3], accumulator(c, xt.sizes[0], p.n))
    else:
        raise ValueError(op)
    c.result(b.convert(y, p.act), ref)


ONE = [P(), P(40, 40), P(21, 35, act="f16", g=7)]
for op in ("vecmat", "matvec", "dot_generic"):
    register(f"op_{op}_w8", partial(contraction, op=op), ONE, "vector")
register("op_torch_mv_w8", partial(contraction, op="torch_mv"), ONE, "vector", "hidden")
register("op_vecmat_w4", partial(contraction, op="vecmat", kind="w4"), [P(g=32), P(40, 40, g=20)], "vector", "grouped")
register("op_torch_mv_w4", partial(contraction, op="torch_mv", kind="w4"), [P(g=32)], "vector", "grouped", "hidden")
MANY = [P(m=5), P(40, 40, 5), P(21, 35, None, act="bf16", g=7)]
for op in ("matmul", "contract", "generic", "generic_swapped"):
    register(f"op_{op}_maps_w8", partial(contraction, op=op, kind="w8zp"), MANY, "transposed-maps")
register(
    "op_matmul_maps_w4",
    partial(contraction, op="matmul", kind="w4"),
    [P(m=4), P(40, 40, 1, g=20, act="f16")],
    "grouped",
)
for op in ("batch_expand", "batch_broadcast", "batch_add_zero", "batch_mapped", "batch_mapped_broadcast"):
    register(f"op_{op}_w8", partial(contraction, op=op), [P(m=5, batch=(2,)), P(40, 40, 3, batch=(3,))], "batch")
register(
    "op_batch_broadcast_w4",
    partial(contraction, op="batch_broadcast", kind="w4"),
    [P(m=None, batch=(2,))],
    "batch",
    "grouped",
)
for op in ("batch_vecmat", "batch_matvec"):
    register(f"op_{op}_w8", partial(contraction, op=op), [P(m=5), P(40, 40, None)], "batch", "vector")


def experts(c: Case, *, left: bool = False, kind: str = "w8zp") -> None:
    """Batched experts [e, n, k], transposed by [0, 2, 1]; or on the left of their activations."""
    p, b = c.p, c.b
    e = p.batch[0]
    x, xt = c.columns() if left else c.rows()
    w, wt = dequantized(c, kind, (e, p.n, p.k))
    if left:
        y = b.named("batch_matmul", [wt, xt], accumulator(c, e, p.n, xt.sizes[2]))
        c.result(b.convert(y, p.act), product(w, x))
        return
    y = b.named("batch_matmul", [xt, b.transpose(wt, [0, 2, 1])], accumulator(c, e, xt.sizes[1], p.n))
    c.result(b.convert(y, p.act), product(x, w.swapaxes(1, 2)))


EXPERTS = [P(12, 64, 5, batch=(4,)), P(24, 24, 1, batch=(3,), g=8), P(21, 36, None, batch=(2,), g=12, act="f16")]
register("experts_w8", experts, EXPERTS, "batch")
register("experts_w4", partial(experts, kind="w4"), EXPERTS, "batch", "grouped")
register("experts_left_w8", partial(experts, left=True), EXPERTS, "batch", "left-weight")


def mixed_batch_axes(c: Case) -> None:
    """A [k, e, n] weight, one scale per (e, n), moved by a three-cycle to [e, n, k], then transposed."""
    p, b = c.p, c.b
    e = p.batch[0]
    x, xt = c.rows()
    q = quantize(c.rng, (e, p.n, p.k), zp="int", et=p.act)
    assert q.zp is not None
    w = b.convert(b.weight(q.q.transpose(2, 0, 1), "i8"), p.act)
    w = b.binary("subf", w, b.weight(q.zp[..., 0], p.act))
    w = b.binary("mulf", w, b.weight(q.scale[..., 0], p.act))
    w = b.transpose(b.transpose(w, [1, 2, 0]), [0, 2, 1])
    y = b.named("batch_matmul", [xt, w], accumulator(c, e, xt.sizes[1], p.n))
    c.result(b.convert(y, p.act), product(x, q.values().swapaxes(1, 2)))


# PITFALL 10, 14
register("experts_kbn_cycle", mixed_batch_axes, EXPERTS, "batch")


def einsum(c: Case, *, kind: str = "w8") -> None:
    """``bsk,hdk->bshd`` as torch lowers it: unit dims, 5-D transposes, one batch_matmul."""
    p, b = c.p, c.b
    heads = 3
    batch = p.batch or (2,)
    x, xt = c.activation((*batch, p.rows, p.k))
    w, wt = dequantized(c, kind, (heads, p.n // heads, p.k))
    d, rows = p.n // heads, batch[0] * p.rows
    x5 = b.expand(xt, [[0], [1], [2, 3, 4]], [*batch, p.rows, p.k, 1, 1])
    x5 = b.transpose(x5, [0, 1, 3, 4, 2])
    w5 = b.expand(wt, [[0], [1], [2, 3, 4]], [heads, d, p.k, 1, 1])
    w5 = b.transpose(w5, [2, 0, 1, 3, 4])
    x3 = b.expand(b.collapse(x5, [[0, 1], [2, 3, 4]]), [[0, 1], [2]], [1, rows, p.k])
    w3 = b.expand(b.collapse(w5, [[0], [1, 2, 3, 4]]), [[0, 1], [2]], [1, p.k, p.n])
    y = b.collapse(b.named("batch_matmul", [x3, w3], accumulator(c, 1, rows, p.n)), [[0, 1], [2]])
    y = b.expand(b.convert(y, p.act), [[0, 1, 2], [3, 4]], [*batch, p.rows, 1, heads, d])
    y = b.collapse(b.transpose(y, [0, 1, 3, 4, 2]), [[0], [1], [2], [3, 4]])
    ref = product(x.reshape(-1, p.k), w.reshape(p.n, p.k).T)
    c.result(y, ref.map(lambda v: v.reshape(*batch, p.rows, heads, d)))


EINSUM = [P(m=5), P(36, 36, 4, act="f16", g=12)]
register("einsum_w8", einsum, EINSUM, "unit-dims")
register("einsum_w4", partial(einsum, kind="w4"), EINSUM, "unit-dims", "grouped")


def einsum_left(c: Case) -> None:
    """``hdk,bkm->bhdm`` as torch lowers it: the weight stays on the left of one batch_matmul."""
    p, b = c.p, c.b
    heads, batch = 3, (p.batch or (2,))[0]
    x, xt = c.activation((batch, p.k, p.rows))
    w, wt = dequantized(c, "w8", (heads, p.n // heads, p.k))
    d, columns = p.n // heads, batch * p.rows
    x5 = b.expand(xt, [[0], [1], [2, 3, 4]], [batch, p.k, p.rows, 1, 1])
    w3 = b.expand(b.collapse(wt, [[0, 1], [2]]), [[0, 1], [2]], [1, p.n, p.k])
    x5 = b.transpose(x5, [1, 0, 2, 3, 4])
    x3 = b.expand(b.collapse(x5, [[0], [1, 2, 3, 4]]), [[0, 1], [2]], [1, p.k, columns])
    y = b.collapse(b.named("batch_matmul", [w3, x3], accumulator(c, 1, p.n, columns)), [[0, 1], [2]])
    y = b.expand(b.convert(y, p.act), [[0, 1], [2, 3, 4]], [heads, d, 1, batch, p.rows])
    y = b.collapse(b.transpose(y, [3, 0, 1, 4, 2]), [[0], [1], [2], [3, 4]])
    flat = x.transpose(1, 0, 2).reshape(p.k, -1)
    ref = product(w.reshape(p.n, p.k), flat)
    c.result(y, ref.map(lambda v: v.reshape(heads, d, batch, p.rows).transpose(2, 0, 1, 3)))


register("einsum_left_w8", einsum_left, [P(m=16), P(36, 36, 4)], "unit-dims", "left-weight")


# Weights on the left ------------------------------------------------------------------------------------------------


def left(c: Case, *, kind: str = "w8", how: str = "matmul", bias: str = "") -> None:
    """``W @ A``: plain, broadcast over batches, or by linalg.contract; a bias along rows ("m") or columns ("n")."""
    p, b = c.p, c.b
    x, xt = c.columns()
    w, wt = dequantized(c, kind)
    columns = xt.sizes[-1]
    ref = product(w, x)
    if how == "matmul":
        y = b.named("matmul", [wt, xt], accumulator(c, p.n, columns))
    elif how == "contract":
        y = b.mapped("contract", [wt, xt], accumulator(c, p.n, columns), 3, ["d0, d2", "d2, d1", "d0, d1"])
    elif how == "init":  # a bias along the rows as the accumulator
        v = c.rng.standard_normal((p.n, 1)).astype(np.float32)
        init = b.broadcast(b.const(v, "f32"), [p.n, columns])
        y, ref = b.named("matmul", [wt, xt], init), ref + exact(v.astype(np.float64))
    else:
        w3 = b.broadcast(wt, [xt.sizes[0], p.n, p.k])
        y = b.named("batch_matmul", [w3, xt], accumulator(c, xt.sizes[0], p.n, columns))
    y = b.convert(y, p.act)
    if bias == "m":
        v = c.rng.standard_normal((p.n, 1)).astype(NUMPY[p.act])
        y, ref = b.binary("addf", y, b.const(v, p.act)), ref.stored(p.act) + exact(v.astype(np.float64))
    elif bias == "n":
        y, ref = add_bias(c, y, ref.stored(p.act))
    c.result(y, ref)


LEFT = [P(m=16), P(40, 40, 40), P(21, 35, None, g=7, act="f16")]
register("left_w8", left, LEFT, "left-weight")
register("left_w8_bias_m", partial(left, kind="w8zp", bias="m"), LEFT, "left-weight")
register("left_w8_bias_n", partial(left, bias="n"), LEFT[:2], "left-weight")
register("left_w8_init", partial(left, how="init"), LEFT[:2], "left-weight")
register("left_w8_contract", partial(left, how="contract", kind="w8onnx"), LEFT[:2], "left-weight")
register("left_w4", partial(left, kind="w4", bias="m"), [P(m=16), P(40, 40, 5, g=20)], "left-weight", "grouped")
register(
    "left_w8_batch",
    partial(left, how="batch", bias="m"),
    [P(m=16, batch=(2,)), P(40, 40, 40, batch=(3,))],
    "left-weight",
    "batch",
)


# Fully connected layers as convolutions -----------------------------------------------------------------------------


def pointwise(c: Case, *, op: str, kind: str = "w8", bias: bool = False) -> None:
    """A 1x1 convolution; the bias is the accumulator, as TOSA and torch print it."""
    p, b = c.p, c.b
    batch = p.batch[0] if p.batch else 1
    side = (p.rows,) if op == "conv_1d_ncw_fcw" else (p.rows, 2) if "2d" in op and batch > 1 else (1, p.rows)
    units = [1] * len(side)
    channels_first = op in ("conv_1d_ncw_fcw", "conv_2d_nchw_fchw")
    x, xt = c.activation((batch, p.k, *side) if channels_first else (batch, *side, p.k))
    w, wt = dequantized(c, kind)
    if op == "conv_1d_ncw_fcw":
        kernel = b.expand(wt, [[0], [1, 2]], [p.n, p.k, 1])
    elif op == "conv_2d_nchw_fchw":
        kernel = b.expand(wt, [[0], [1, 2, 3]], [p.n, p.k, 1, 1])
    elif op == "conv_2d_nhwc_fhwc":
        kernel = b.expand(wt, [[0, 1, 2], [3]], [p.n, 1, 1, p.k])
    else:  # conv_2d_nhwc_hwcf
        kernel = b.expand(b.transpose(wt, [1, 0]), [[0, 1, 2], [3]], [1, 1, p.k, p.n])
    sizes = (batch, p.n, *side) if channels_first else (batch, *side, p.n)
    v = np.zeros(p.n)
    if bias:
        v = c.rng.standard_normal(p.n).astype(np.float32).astype(np.float64)
        init = b.broadcast(b.const(v, "f32"), sizes, "d1" if channels_first else f"d{len(sizes) - 1}")
    else:
        init = accumulator(c, *sizes)
    ones = f"dense<1> : tensor<{len(units)}xi64>"
    y = b.named(op, [xt, kernel], init, f"{{dilations = {ones}, strides = {ones}}} ")
    rows = x if not channels_first else np.moveaxis(x, 1, -1)
    ref = product(rows.reshape(-1, p.k), w.T) + exact(v)
    shaped = ref.map(lambda a: a.reshape(*rows.shape[:-1], p.n))
    c.result(b.convert(y, p.act), shaped.map(lambda a: np.moveaxis(a, -1, 1)) if channels_first else shaped)


CONV = [P(m=5), P(40, 40, 4, batch=(2,), act="f16")]
for op in ("conv_1d_ncw_fcw", "conv_2d_nchw_fchw", "conv_2d_nhwc_fhwc", "conv_2d_nhwc_hwcf"):
    register(f"op_{op}_w8", partial(pointwise, op=op, kind="w8zp"), CONV, "convolution")
    register(
        f"op_{op}_w4_bias",
        partial(pointwise, op=op, kind="w4", bias=True),
        [P(21, 36, 1, g=12)],
        "convolution",
        "grouped",
    )


def requantize(c: Case, y: T, ref: Ref, channel: np.ndarray, et: str = "i8") -> tuple[T, Ref]:
    """Scale per channel in f32, round, add a zero point, clamp, store as i8: one step of slack where rounding ties."""
    b = c.b
    scale = b.const(channel, "f32")

    def body(e: Body, v: Scalar, s: Scalar) -> Scalar:
        r = e.addf(e.round(e.mulf(e.sitofp(v, to="f32"), s)), e.const(3, "f32"))
        return e.fptosi(e.minimumf(e.maximumf(r, e.const(-128, "f32")), e.const(127, "f32")), to=et)

    y = b.ew(body, y, scale, et=et)
    exact32 = (ref.value.astype(np.float32) * channel.astype(np.float32)).astype(np.float32)
    return y, exact(np.clip(np.round(exact32) + 3, -128, 127).astype(np.int64))


def quantized(c: Case, *, op: str) -> None:
    """Integer contractions with scalar zero points; per-channel scales afterwards."""
    p, b = c.p, c.b
    xz, wz = -5, 0 if op == "conv_2d_nhwc_fhwc_q" else 7
    batch = p.batch[0] if p.batch else 2
    lead = (batch,) if op == "quantized_batch_matmul" else ()
    x, xt = c.activation((*lead, p.rows, p.k), "i8", [len(lead)] if p.m is None else [])
    q = quantize(c.rng, (*lead, p.n, p.k))
    acc = integer_product(x - xz, q.q.swapaxes(-1, -2) - wz)
    zeros = [b.scalar(xz, "i32"), b.scalar(wz, "i32")]
    channel = (q.scale.reshape(-1)[: p.n] * 0.1).astype(np.float32)
    if op in ("quantized_matmul", "quantized_batch_matmul"):
        perm = [0, 2, 1] if lead else [1, 0]
        w = b.transpose(b.weight(q.q, "i8"), perm)
        y = b.named(op, [xt, w, *zeros], b.fill(0, [*xt.sizes[:-1], p.n], "i32"))
        c.result(*requantize(c, y, exact(acc), channel))
    else:
        bias = c.rng.integers(-500, 500, p.n)
        x4 = b.expand(xt, [[0, 1, 2], [3]], [p.rows, 1, 1, p.k])
        if op == "conv_2d_nhwc_fhwc_q":
            w4 = b.weight(q.q.reshape(p.n, 1, 1, p.k), "i8")
            sizes, channel_map = (p.rows, 1, 1, p.n), "d3"
        else:  # conv_2d_nchw_fchw_q
            x4 = b.expand(xt, [[0], [1, 2, 3]], [p.rows, p.k, 1, 1])
            w4 = b.expand(b.weight(q.q, "i8"), [[0], [1, 2, 3]], [p.n, p.k, 1, 1])
            sizes, channel_map = (p.rows, p.n, 1, 1), "d1"
        init = b.broadcast(b.const(bias, "i32"), sizes, channel_map)
        ones = "dense<1> : tensor<2xi64>"
        y = b.named(op, [x4, w4, *zeros], init, f"{{dilations = {ones}, strides = {ones}}} ")
        y = b.collapse(y, [[0, 1, 2], [3]] if channel_map == "d3" else [[0], [1, 2, 3]])
        c.result(*requantize(c, y, exact(acc + bias), channel))


for op in ("quantized_matmul", "quantized_batch_matmul"):
    register(f"op_{op}", partial(quantized, op=op), [P(m=5), P(40, 40, 1), P(21, 35, None)], "integer")
for op in ("conv_2d_nhwc_fhwc_q", "conv_2d_nchw_fchw_q"):
    register(f"op_{op}", partial(quantized, op=op), [P(), P(40, 40, 4, where="dense")], "integer", "convolution")


def matmul_integer(c: Case, *, transposed: bool = False) -> None:
    """ONNX MatMulInteger: unsigned activation, zero points as [1] tensors subtracted in i32, an i64 accumulator."""
    p, b = c.p, c.b
    x, xt = c.activation((p.rows, p.k), "i8", [0] if p.m is None else [])
    x = x & 255
    q = quantize(c.rng, (p.n, p.k))
    w = b.weight(q.q if transposed else q.q.T, "i8")
    x32 = b.convert(xt, "i32", signed=False)
    w32 = b.convert(w, "i32")
    xz, wz = b.const(np.array([-128]), "i8", "dense"), b.const(np.array([3]), "i8", "dense")
    x32 = b.generic([(x32, "d0, d1"), (xz, "0")], x32.sizes, "i32", lambda e, v, z: e.subi(v, e.extui(z, to="i32")))
    w32 = b.generic([(w32, "d0, d1"), (wz, "0")], w32.sizes, "i32", lambda e, v, z: e.subi(v, e.extsi(z, to="i32")))
    if transposed:
        w32 = b.transpose(w32, [1, 0])
    y = b.named("matmul", [x32, w32], b.fill(0, (xt.sizes[0], p.n), "i64"))
    c.result(b.convert(y, "i32"), exact(integer_product(x - 128, q.q.T - 3)))


ONNX_INT = [P(m=8, where="dense"), P(40, 40, None, where="dense")]
register("onnx_matmulinteger", matmul_integer, ONNX_INT, "integer", "kn")
register("onnx_matmulinteger_t", partial(matmul_integer, transposed=True), ONNX_INT, "integer")


def quantized_activations(c: Case, *, per_axis: bool = True) -> None:
    """PT2E static: the activation is quantized and dequantized too, the weight dequantized in one i64 body."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), groups=1 if per_axis else None, zp="int")
    assert q.zp is not None
    scale_x, zero_x = float(np.float32(0.0284379441)), -17

    def quantize_body(e: Body, v: Scalar) -> Scalar:
        r = e.addf(e.round(e.divf(v, e.const(scale_x, "f32"))), e.const(zero_x, "f32"))
        return e.fptosi(e.minimumf(e.maximumf(r, e.const(-128, "f32")), e.const(127, "f32")), to="i8")

    def dequantize_body(e: Body, v: Scalar) -> Scalar:
        wide = e.subi(e.extsi(v, to="i64"), e.const(zero_x, "i64"))
        return e.mulf(e.sitofp(wide, to="f32"), e.const(scale_x, "f32"))

    def weight_body(e: Body, v: Scalar, s: Scalar, z: Scalar) -> Scalar:
        return e.mulf(e.sitofp(e.subi(e.extsi(v, to="i64"), z), to="f32"), s)

    if per_axis:
        scale, zero = b.weight(q.scale[:, 0], "f32"), b.weight(q.zp[:, 0], "i64")
        w = b.generic([(b.weight(q.q, "i8"), "d0, d1"), (scale, "d0"), (zero, "d0")], (p.n, p.k), "f32", weight_body)
    else:
        w = onnx_chain(b, b.weight(q.q, "i8"), q, 0, True)
    xq = b.ew(dequantize_body, b.ew(quantize_body, xt, et="i8"), et="f32")
    steps = np.round(x.astype(np.float32) / np.float32(scale_x)) + zero_x
    value = rounded((np.clip(steps, -128, 127).astype(np.float64) - zero_x) * scale_x, "f32")
    y, ref = add_bias(c, matmul(b, xq, b.transpose(w, [1, 0])), product(value, q.values().T))
    y = b.ew(lambda e, v: e.select(e.cmpf(v, e.const(0, "f32"), pred="ugt"), v, e.const(0, "f32")), y)
    c.result(y, ref.map(lambda v: np.maximum(v, 0)))


STATIC = [P(m=8), P(40, 40, 1), P(21, 35, None)]
register("pt2e_static_axis", quantized_activations, STATIC, "quantized-activation")
register("pt2e_static_tensor", partial(quantized_activations, per_axis=False), STATIC[:2], "quantized-activation")


def floordiv_groups(c: Case, *, kn: bool = False) -> None:
    """PT2E per-group (and lower-quant-ops sub-channel): scales and zero points read through ``d1 floordiv group``."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), block=p.g, zp="int", et=p.act)
    assert q.zp is not None

    def body(e: Body, v: Scalar, s: Scalar, z: Scalar) -> Scalar:
        return e.mulf(e.subf(e.sitofp(v, to=p.act), e.sitofp(z, to=p.act)), s)

    stored, scale, zero = (a.T if kn else a for a in (q.q, q.scale, q.zp))
    block = f"d0 floordiv {p.g}, d1" if kn else f"d0, d1 floordiv {p.g}"
    ins = [(b.weight(stored, "i8"), "d0, d1"), (b.weight(scale, p.act), block), (b.weight(zero, "i8"), block)]
    w = b.generic(ins, stored.shape, p.act, body)
    if kn:
        c.result(matmul(b, xt, w), product(x, q.values().T))
    else:
        linear(c, x, xt, q.values(), w)


GROUPS = [P(), P(40, 40, 5, g=8), P(21, 40, None, g=12, act="f16"), P(33, 64, 1, g=1), P(24, 64, 2, g=64)]
# PITFALL 12
register("pt2e_group_floordiv", floordiv_groups, GROUPS, "grouped")
register("pt2e_group_floordiv_kn", partial(floordiv_groups, kn=True), GROUPS[1:3], "grouped", "kn")


def iree(c: Case, *, grouped: bool = False) -> None:
    """IREE after global optimization: unit dims of the parameters collapsed, the transpose inside the matmul's maps."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(
        c.rng,
        (p.n, p.k),
        bits=4 if grouped else 8,
        signed=not grouped,
        groups=p.k // p.g if grouped else 1,
        zp="float",
        et=p.act,
    )
    if grouped:
        w = b.split(stack(b, *nibbles(b, b.weight(pack(q.q, 4, "i8"), "i8")), inserts=True), 1, p.g)
    else:
        w = b.weight(q.q, "i8")
    w = b.convert(w, p.act, not grouped)
    space = ", ".join(f"d{i}" for i in range(w.rank))
    for op, values in (("subf", q.zp), ("mulf", q.scale)):
        param = b.weight(values, p.act)
        if not grouped:
            param = b.collapse(param, [[0, 1]])
        ins = [(w, space), (param, "d0, d1" if grouped else "d0")]
        w = b.generic(ins, w.sizes, p.act, lambda e, v, s, op=op: getattr(e, op)(v, s))
    w = b.merge(w, 1) if grouped else w
    y = b.mapped("matmul", [xt, w], accumulator(c, xt.sizes[0], p.n), 3, ["d0, d2", "d1, d2", "d0, d1"])
    c.result(b.convert(y, p.act), product(x, q.values().T))


register("iree_w8", iree, [P(), P(40, 40, 5, act="bf16"), P(21, 35, None)], "transposed-maps")
register(
    "iree_w4_group",
    partial(iree, grouped=True),
    [P(), P(40, 40, 5, g=20, act="bf16"), P(21, 36, None, g=12)],
    "transposed-maps",
    "grouped",
    "nibble",
)
