"""Where the weight sits: shared, sliced, concatenated, tied; behind calls, globals, regions and quant types."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from .builders import BITS, Body, Builder, Scalar, T, tensor_type
from .chains import torch_chain
from .contractions import accumulator, dequantized
from .oracle import Quant, Ref, exact, product, quantize
from .program import Case, P, linear, matmul
from .registry import register

# Several consumers of one weight ------------------------------------------------------------------------------------


def two_matmuls(c: Case, *, kind: str = "w8", both_ways: bool = False, one_transpose: bool = False) -> None:
    """One dequantized weight under two matmuls: the same transpose twice, a shared one, or W once and W^T once."""
    p, b = c.p, c.b
    x, xt = c.rows()
    y, yt = c.activation((5, p.n if both_ways else p.k))
    w, wt = dequantized(c, kind)
    first = b.transpose(wt, [1, 0])
    c.result(matmul(b, xt, first), product(x, w.T))
    if both_ways:
        c.result(matmul(b, yt, wt), product(y, w))
    else:
        c.result(matmul(b, yt, first if one_transpose else b.transpose(wt, [1, 0])), product(y, w.T))


TWO = [P(), P(40, 40, 4, g=20), P(21, 35, None, g=7, act="f16", where="arg")]
# PITFALL 27
register("shared_w8", two_matmuls, TWO, "shared-weight")
register("shared_w8_one_transpose", partial(two_matmuls, one_transpose=True), TWO[:2], "shared-weight")
register("both_ways_w8", partial(two_matmuls, both_ways=True, kind="w8zp"), TWO, "shared-weight")
register("both_ways_w4", partial(two_matmuls, both_ways=True, kind="w4"), TWO[:2], "shared-weight", "grouped")
register("shared_w4", partial(two_matmuls, kind="w4"), TWO[:2], "shared-weight", "grouped")


def shared_scale(c: Case) -> None:
    """Two weights under one scale tensor (and one storage dequantized with two scales)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    first, second = (quantize(c.rng, (p.n, p.k), et=p.act) for _ in range(2))
    scale, other = b.weight(first.scale, p.act), b.weight(second.scale, p.act)
    stored = [b.weight(first.q, "i8"), b.weight(second.q, "i8")]
    for q, w, s, values in (
        (first, stored[0], scale, first.scale),
        (second, stored[1], scale, first.scale),
        (first, stored[0], other, second.scale),
    ):
        wt = b.binary("mulf", b.convert(w, p.act), s)
        linear(c, x, xt, Quant(q.q, values, None, p.act).values(), wt)


# PITFALL 27
register("shared_scale_w8", shared_scale, TWO, "shared-weight")


def tied_embedding(c: Case) -> None:
    """The dequantized table feeds a gather (generic with tensor.extract) and the output projection."""
    p, b = c.p, c.b
    x, xt = c.rows()
    ids = c.rng.integers(0, p.n, (1, 5))
    ids_t = b.arg(ids, "i64")
    w, wt = dequantized(c, "w8")

    def lookup(e: Body, i: Scalar) -> Scalar:
        return e.extract(wt, e.index_cast(i, to="index"), e.index(2))

    c.result(b.generic([(ids_t, "d0, d1")], (1, 5, p.k), p.act, lookup), exact(w[ids]))
    linear(c, x, xt, w, wt)


# PITFALL 27
register("tied_embedding_w8", tied_embedding, TWO, "shared-weight", "tied")


def returned(c: Case) -> None:
    """The dequantized weight is itself a result."""
    x, xt = c.rows()
    w, wt = dequantized(c, "w8")
    linear(c, x, xt, w, wt)
    c.result(wt, exact(w))


register("returned_w8", returned, TWO[:2], "exempt", "shared-weight")

# Slices and concatenations ------------------------------------------------------------------------------------------


def qkv(c: Case, *, kind: str = "w8", uneven: bool = False, before: bool = False) -> None:
    """One [n, k] weight cut into three projections; ``before`` cuts the storage instead of the dequantized weight."""
    p, b = c.p, c.b
    x, xt = c.rows()
    cuts = [p.n // 2, p.n // 4, p.n - p.n // 2 - p.n // 4] if uneven else [p.n // 3] * 3
    if before:
        q = quantize(c.rng, (p.n, p.k), zp="int", et=p.act)
        w, stored = q.values(), [b.weight(q.q, "i8"), b.weight(q.zp, p.act), b.weight(q.scale, p.act)]
    else:
        w, wt = dequantized(c, kind)
    start = 0
    for rows in cuts:
        if before:
            part, zero, scale = (b.slice(t, [start, 0], [rows, t.sizes[1]]) for t in stored)
            part = b.binary("mulf", b.binary("subf", b.convert(part, p.act), zero), scale)
        else:
            part = b.slice(wt, [start, 0], [rows, p.k])
        linear(c, x, xt, w[start : start + rows], part)
        start += rows


QKV = [P(m=5, batch=(2,)), P(48, 48, 1), P(33, 36, None, act="f16", g=12)]
register("qkv_w8", qkv, QKV, "shared-weight", "sliced")
register("qkv_w8_uneven", partial(qkv, uneven=True, kind="w8zp"), QKV, "shared-weight", "sliced")
register("qkv_w4", partial(qkv, kind="w4"), QKV, "shared-weight", "sliced", "grouped")
register("qkv_w8_sliced_storage", partial(qkv, before=True), QKV[:2], "sliced")


def inner_slice(c: Case, *, strided: bool = False) -> None:
    """A slice along K (or every second row) of the dequantized weight."""
    p, b = c.p, c.b
    half = p.k // 2
    x, xt = c.activation((p.rows, p.k if strided else half), None, [0] if p.m is None else [])
    w, wt = dequantized(c, "w8zp")
    if strided:
        rows = (p.n + 1) // 2
        linear(c, x, xt, w[::2], b.slice(wt, [0, 0], [rows, p.k], [2, 1]))
    else:
        linear(c, x, xt, w[:, half : 2 * half], b.slice(wt, [0, half], [p.n, half]))


register("slice_k_w8", inner_slice, [P(m=4), P(40, 40, 1)], "sliced")
register("slice_strided_w8", partial(inner_slice, strided=True), [P(m=4), P(21, 35, None)], "sliced")


def stacked_layers(c: Case, *, kind: str = "w8zp", before: bool = False) -> None:
    """Layers stacked as [2, n, k]; a slice that drops a dim takes each out, ``before`` or after dequantization."""
    p, b = c.p, c.b
    x, xt = c.rows()
    if before:
        q = quantize(c.rng, (2, p.n, p.k), zp="int", et=p.act)
        w, stacks = q.values(), [b.weight(q.q, "i8"), b.weight(q.zp, p.act), b.weight(q.scale, p.act)]
    else:
        w, wt = dequantized(c, kind, (2, p.n, p.k))
    for layer in (1, 0):
        if before:
            stored, zero, scale = (b.slice(t, [layer, 0, 0], [1, p.n, t.sizes[2]], drop=1) for t in stacks)
            part = b.binary("mulf", b.binary("subf", b.convert(stored, p.act), zero), scale)
        else:
            part = b.slice(wt, [layer, 0, 0], [1, p.n, p.k], drop=1)
        linear(c, x, xt, w[layer], part)


STACKS = [P(m=4), P(40, 40, 1, g=8), P(21, 36, None, g=12, act="f16")]
# PITFALL 15
register("stacked_layers_w8", stacked_layers, STACKS, "sliced")
register("stacked_layers_w4", partial(stacked_layers, kind="w4"), STACKS, "sliced", "grouped")
register("stacked_layers_w8_storage", partial(stacked_layers, before=True), STACKS, "sliced")


def concatenated(c: Case, *, axis: int = 0, kinds: tuple[str, ...] = ("w8", "w8")) -> None:
    """Dequantized weights concatenated along n (axis 0) or k (axis 1), then transposed."""
    p, b = c.p, c.b
    x, xt = c.rows()
    sizes = [p.g, (p.n if axis == 0 else p.k) - p.g]
    parts = [
        dequantized(c, kind, (size, p.k) if axis == 0 else (p.n, size)) for kind, size in zip(kinds, sizes, strict=True)
    ]
    w = np.concatenate([values for values, _ in parts], axis)
    linear(c, x, xt, w, b.concat(axis, *(t for _, t in parts)))


CAT = [P(m=4), P(40, 40, 1, g=8), P(21, 42, None, g=14, act="f16")]
register("concat_n_w8", concatenated, CAT, "concatenated")
register("concat_k_w8", partial(concatenated, axis=1), CAT[:2], "concatenated")
register("concat_n_w8_w4", partial(concatenated, kinds=("w8zp", "w4")), CAT[:2], "concatenated", "grouped")


def lora(c: Case, *, merged: bool = False) -> None:
    """A low-rank branch beside the weight, or added into it at run time (the weight must then be computed)."""
    p, b = c.p, c.b
    rank = 4
    x, xt = c.rows()
    w, wt = dequantized(c, "w8")
    down = c.rng.standard_normal((rank, p.k)).astype(np.float32)
    up = c.rng.standard_normal((p.n, rank)).astype(np.float32)
    d64, u64 = down.astype(np.float64), up.astype(np.float64)
    down_t, up_t = b.const(down, "f32"), b.const(up, "f32")
    ref = product(x, w.T)
    if merged:
        delta = b.binary("mulf", b.named("matmul", [up_t, down_t], accumulator(c, p.n, p.k)), 0.5)
        full = product(x, w.T + 0.5 * (u64 @ d64).T)
        slack = Ref(full.value, full.error + np.abs(x) @ product(u64, d64).error.T)
        c.result(matmul(b, xt, b.transpose(b.binary("addf", wt, delta), [1, 0])), slack)
        return
    y = matmul(b, xt, b.transpose(wt, [1, 0]))
    side = matmul(b, matmul(b, xt, b.transpose(down_t, [1, 0])), b.transpose(up_t, [1, 0]))
    low = product(x, d64.T)
    branch = product(low.value, u64.T)
    branch = Ref(branch.value, branch.error + low.error @ np.abs(u64.T)).scaled(0.5)
    c.result(b.binary("addf", y, b.binary("mulf", side, 0.5)), ref + branch)


LORA = [P(m=4), P(40, 40, 1), P(21, 35, None)]
register("lora_side_w8", lora, LORA, "lora")
register("lora_merged_w8", partial(lora, merged=True), LORA[:2], "exempt", "lora")

# Functions, globals, regions ----------------------------------------------------------------------------------------


def called(c: Case, *, times: int = 1, inner_call: bool = False) -> None:
    """A private function dequantizes; called once per weight, perhaps through a second function."""
    p, b = c.p, c.b
    x, xt = c.rows()

    def helper(name: str, body: Builder, result: T) -> None:
        body.finish(name, [result], "private ")

    inner = Builder(c.module)
    stored, scale = inner.param((p.n, p.k), "i8"), inner.param((p.n, 1), p.act)
    helper("dequantize", inner, inner.binary("mulf", inner.convert(stored, p.act), scale))
    callee = "dequantize"
    if inner_call:
        outer = Builder(c.module)
        args = [outer.param((p.n, p.k), "i8"), outer.param((p.n, 1), p.act)]
        w = outer.call(callee, args, p.act, (p.n, p.k))
        helper("dequantize_transposed", outer, outer.transpose(w, [1, 0]))
        callee = "dequantize_transposed"
    for _ in range(times):
        q = quantize(c.rng, (p.n, p.k), et=p.act)
        args = [b.weight(q.q, "i8"), b.weight(q.scale, p.act)]
        if inner_call:
            c.result(matmul(b, xt, b.call(callee, args, p.act, (p.k, p.n))), product(x, q.values().T))
        else:
            linear(c, x, xt, q.values(), b.call(callee, args, p.act, (p.n, p.k)))


register("call_w8", called, TWO, "hidden", "call")
register("call_twice_w8", partial(called, times=2), TWO[:2], "hidden", "call")
register("call_nested_w8", partial(called, inner_call=True), TWO[:2], "hidden", "call")


def global_weight(c: Case, *, group: bool = False) -> None:
    """Immutable ml_program globals hold the storage and the scales."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), groups=p.k // p.g if group else 1, zp="int", et=p.act)
    loaded = []
    for name, values, et in (("weight", q.q, "i8"), ("zero", q.zp, p.act), ("scale", q.scale, p.act)):
        values = np.asarray(values)
        c.module.weight_bytes += values.size * BITS[et] / 8
        t = T("", et, values.shape)
        c.module.globals.append(
            f"ml_program.global private @{name}({c.module.resource(values, et)} : {t.type}) : {t.type}"
        )
        loaded.append(b.define(et, values.shape, f"ml_program.global_load @{name} : {t.type}"))
    w, zero, scale = loaded
    w = b.split(b.convert(w, p.act), 1, p.g) if group else b.convert(w, p.act)
    for op, param in (("subf", zero), ("mulf", scale)):
        w = b.binary(op, w, b.unsqueeze(param, 2) if group else param)
    linear(c, x, xt, q.values(), b.merge(w, 1) if group else w)


register("global_w8", global_weight, [P(), P(40, 40, 5, g=8), P(21, 35, None, g=7, act="f16")], "hidden", "global")
register("global_w8_group", partial(global_weight, group=True), [P(m=4)], "hidden", "global", "grouped")


def loop(c: Case, *, kind: str = "w8", inside: bool = False) -> None:
    """A square weight applied three times in an scf.for; ``inside`` transposes it in the loop, not before."""
    p, b = c.p, c.b
    assert p.n == p.k
    x, xt = c.rows()
    w, wt = dequantized(c, kind)
    if not inside:
        wt = b.transpose(wt, [1, 0])
    lo, hi, step = (b.scalar(i, "index").name for i in (0, 3, 1))
    carried = T(b.fresh(), xt.et, xt.sizes)
    name = b.fresh()
    bounds = f"{b.fresh()} = {lo} to {hi} step {step}"
    b.line(f"{name} = scf.for {bounds} iter_args({carried.name} = {xt.name}) -> ({xt.type}) {{")
    y = matmul(b, carried, b.transpose(wt, [1, 0]) if inside else wt)
    y = b.binary("mulf", y, 0.125)
    b.line(f"scf.yield {y.name} : {y.type}")
    b.line("}")
    ref = exact(x)
    for _ in range(3):
        step_ref = product(ref.value, w.T)
        ref = Ref(step_ref.value, step_ref.error + ref.error @ np.abs(w.T)).stored(p.act).scaled(0.125)
    c.result(T(name, xt.et, xt.sizes), ref)


SQUARE = [P(48, 48, 4), P(40, 40, None, g=20)]
register("for_captured_w8", loop, SQUARE, "region", "square")
register("for_inside_w4", partial(loop, kind="w4", inside=True), SQUARE, "region", "grouped", "square")


def branch(c: Case) -> None:
    """A weight captured by both branches of an scf.if: multiplied in one, multiplied and doubled in the other."""
    p, b = c.p, c.b
    x, xt = c.rows()
    cond_arg = b.arg(np.array(5), "i64")
    w, wt = dequantized(c, "w8zp")
    value = b.fresh()
    b.line(f"{value} = tensor.extract {cond_arg.name}[] : {cond_arg.type}")
    cond = Body(b).cmpi(Scalar(value, "i64"), b.scalar(0, "i64"), pred="sgt")
    sizes = (xt.sizes[0], p.n)
    name = b.fresh()
    b.line(f"{name} = scf.if {cond.name} -> ({tensor_type(sizes, p.act)}) {{")
    y = matmul(b, xt, b.transpose(wt, [1, 0]))
    b.line(f"scf.yield {y.name} : {y.type}")
    b.line("} else {")
    y = b.binary("addf", *[matmul(b, xt, b.transpose(wt, [1, 0]))] * 2)
    b.line(f"scf.yield {y.name} : {y.type}")
    b.line("}")
    c.result(T(name, p.act, sizes), product(x, w.T))


register("if_captured_w8", branch, TWO, "region", "shared-weight")

# The quant dialect --------------------------------------------------------------------------------------------------


def quant_dialect(c: Case, *, how: str, et: str = "i8", signed: bool = True, narrow_range: bool = False) -> None:
    """quant.scast of the storage, quant.dcast to float: per layer, per axis 0, or sub-channel (groups along k)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    groups = {"layer": None, "axis": 1, "block": p.k // p.g}[how]
    bits = int(et[1:])
    zp = "none" if how == "block" else float(128 if not signed else 3) if how == "layer" else "int"
    q = quantize(c.rng, (p.n, p.k), bits=bits, signed=signed, groups=groups, zp=zp, et=p.act)
    storage = et if signed else f"u{et[1:]}"
    if narrow_range:
        storage += f"<-{(1 << (bits - 1)) - 1}:{(1 << (bits - 1)) - 1}>"
        q = replace(q, q=np.maximum(q.q, 1 - (1 << (bits - 1))))

    def entry(i: tuple[int, ...]) -> str:
        zero = 0 if q.zp is None else int(q.zp[i])
        return f"{float(q.scale[i])!r}{f':{zero}' if zero else ''}"

    if how == "layer":
        quantized = f"!quant.uniform<{storage}:{p.act}, {entry(())}>"
    elif how == "axis":
        rows = ", ".join(entry((i, 0)) for i in range(p.n))
        quantized = f"!quant.uniform<{storage}:{p.act}:0, {{{rows}}}>"
    else:
        rows = ", ".join("{" + ", ".join(entry((i, j)) for j in range(q.groups)) + "}" for i in range(p.n))
        quantized = f"!quant.uniform<{storage}:{p.act}:{{0:1, 1:{p.g}}}, {{{rows}}}>"
    stored = b.weight(q.q, et)
    c.module.weight_bytes += 0 if groups is None else q.scale.size * 4
    middle, to = tensor_type(stored.sizes, quantized), tensor_type(stored.sizes, p.act)
    typed = b.define(quantized, stored.sizes, f"quant.scast {stored.name} : {stored.type} to {middle}")
    w = b.define(p.act, stored.sizes, f"quant.dcast {typed.name} : {middle} to {to}")
    linear(c, x, xt, q.values(), w)


QUANT = [P(), P(40, 40, 5, g=8), P(21, 35, None, g=7, where="arg")]
register("quant_layer_i8", partial(quant_dialect, how="layer"), QUANT, "quant")
register("quant_layer_u8", partial(quant_dialect, how="layer", signed=False), QUANT, "quant", "unsigned", "hidden")
register("quant_axis_i8", partial(quant_dialect, how="axis"), QUANT, "quant")
register("quant_axis_i8_narrow", partial(quant_dialect, how="axis", narrow_range=True), QUANT[:2], "quant")
register("quant_block_i8", partial(quant_dialect, how="block"), QUANT, "quant", "grouped")
register("quant_block_i4", partial(quant_dialect, how="block", et="i4"), QUANT[:2], "quant", "grouped", "narrow")
register("quant_axis_i4", partial(quant_dialect, how="axis", et="i4"), QUANT[:2], "quant", "narrow")


# Whole-tensor arith and other spellings of elementwise steps --------------------------------------------------------


def tensor_arith(c: Case, *, how: str) -> None:
    """The chain as arith ops on tensors with splats ("arith"), linalg.map ("map"), named elementwise ops ("named")."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), groups=None if how == "arith" else 1, zp=3, et=p.act)
    w = b.weight(q.q, "i8")
    to = tensor_type(w.sizes, p.act)
    if how == "arith":
        w = b.define(p.act, w.sizes, f"arith.sitofp {w.name} : {w.type} to {to}")
        for op, value in (("subf", 3.0), ("mulf", float(q.scale))):
            splat = b.define(p.act, w.sizes, f"tensor.splat {b.scalar(value, p.act).name} : {to}")
            w = b.define(p.act, w.sizes, f"arith.{op} {w.name}, {splat.name} : {to}")
    else:
        scale = b.collapse(b.weight(q.scale, p.act), [[0, 1]])
        out = b.empty(w.sizes, p.act)
        wide = f"linalg.broadcast ins({scale.name} : {scale.type}) outs({out.name} : {out.type}) dimensions = [1]"
        full = b.define(p.act, w.sizes, wide)
        zero = b.fill(3.0, w.sizes, p.act)
        if how == "map":
            w = b.convert(w, p.act)
            for op, other in (("subf", zero), ("mulf", full)):
                out = b.empty(w.sizes, p.act)
                ins = f"ins({w.name}, {other.name} : {to}, {to}) outs({out.name} : {to})"
                w = b.define(p.act, w.sizes, f"linalg.map {{ arith.{op} }} {ins}")
        else:
            w = b.convert(w, p.act)
            w = b.named("sub", [w, zero], b.empty(w.sizes, p.act))
            w = b.named("mul", [w, full], b.empty(w.sizes, p.act))
    linear(c, x, xt, q.values(), w)


ARITH = [P(), P(40, 40, 5), P(21, 35, None)]
register("elementwise_arith_w8", partial(tensor_arith, how="arith"), ARITH, "hidden")
for how in ("map", "named"):
    register(f"elementwise_{how}_w8", partial(tensor_arith, how=how), ARITH)


def padded(c: Case, *, storage: bool = False) -> None:
    """k padded to a multiple of 16 with zeros: the dequantized weight, or its storage (no zero point)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    short = -p.k % 16
    total = p.k + short
    xp = pad(b, xt, [0, 0], [0, short])
    q = quantize(c.rng, (p.n, p.k), et=p.act)
    w = b.weight(q.q, "i8")
    if storage:
        w = torch_chain(b, pad(b, w, [0, 0], [0, short]), q, signed=True)
    else:
        w = pad(b, torch_chain(b, w, q, signed=True), [0, 0], [0, short])
    assert w.sizes[1] == total
    c.result(matmul(b, xp, b.transpose(w, [1, 0])), product(x, q.values().T))


def pad(b: Builder, t: T, low: list[int], high: list[int]) -> T:
    sizes = [s if isinstance(s, str) else low[i] + s + high[i] for i, s in enumerate(t.sizes)]
    zero = b.scalar(0, t.et)
    name = b.fresh()
    b.line(f"{name} = tensor.pad {t.name} low{low} high{high} {{")
    b.line(f"^bb0({', '.join(f'{b.fresh()}: index' for _ in sizes)}):")
    b.line(f"tensor.yield {zero.name} : {t.et}")
    b.line(f"}} : {t.type} to {tensor_type(sizes, t.et)}")
    return T(name, t.et, tuple(sizes))


register("pad_k_w8", padded, [P(k=60), P(40, 40, 5)], "padded")
register("pad_k_w8_storage", partial(padded, storage=True), [P(k=60), P(40, 40, 5)], "padded")
