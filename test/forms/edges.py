"""Programs at the border: near misses of a contraction, what must be refused, and degenerate shapes."""

from __future__ import annotations

from functools import partial

import numpy as np

from .builders import Body, Builder, Scalar, T
from .contractions import dequantized
from .eight_bit import linear8
from .oracle import Ref, exact, product, quantize
from .packed import byte_packed
from .program import Case, P, linear, matmul
from .registry import register


def near_miss(c: Case, *, how: str) -> None:
    """Not a multiply-accumulate: "max", "sub" (acc - x * w), "neg" (acc + -(x * w)), "square" (acc + x * w * w)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    w, wt = dequantized(c, "w8zp")
    wt = b.transpose(wt, [1, 0])
    low = -1e30 if how == "max" else 0.0

    def body(e: Body, a: Scalar, v: Scalar, acc: Scalar) -> Scalar:
        prod = e.mulf(a, v)
        if how == "max":
            return e.maximumf(acc, prod)
        if how == "sub":
            return e.subf(acc, prod)
        return e.addf(acc, e.negf(prod) if how == "neg" else e.mulf(prod, v))

    sizes = (xt.sizes[0], p.n)
    init = b.fill(low, sizes, "f32")
    ins = [(xt, "d0, d2"), (wt, "d2, d1")]
    y = b.generic(ins, sizes, "f32", body, out_map="d0, d1", iters="ppr", init=init)
    if how == "max":
        terms = x[:, None, :] * w
        c.result(y, exact(terms.max(-1)).stored("f32"))
        return
    ref = product(x, (w**2 if how == "square" else w).T)
    c.result(y, ref if how == "square" else ref.scaled(-1.0))


for how in ("max", "sub", "neg", "square"):
    kinds = ["hidden"] if how in ("max", "sub") else []
    # PITFALL 19
    register(f"near_{how}_w8", partial(near_miss, how=how), [P(m=4), P(40, 40, 1)], "near-miss", *kinds)


def not_a_transpose(c: Case, *, how: str) -> None:
    """Between dequantization and matmul: "relu", "triangle" (a mask from linalg.index), "outs" (reads its outs)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    w, wt = dequantized(c, "w8")
    zero = b.scalar(0.0, p.act)
    if how == "relu":
        wt = b.ew(lambda e, v: e.maximumf(v, zero), wt)
        w = np.maximum(w, 0)
    elif how == "triangle":

        def body(e: Body, v: Scalar) -> Scalar:
            return e.select(e.cmpi(e.index(0), e.index(1), pred="sge"), v, zero)

        wt = b.generic([(wt, "d0, d1")], wt.sizes, p.act, body)
        w = np.tril(w)
    else:
        out = b.fill(1.5, wt.sizes, p.act)
        maps = 'iterator_types = ["parallel", "parallel"]'
        ident = "affine_map<(d0, d1) -> (d0, d1)>"
        name, a, o, s = b.fresh(), b.fresh(), b.fresh(), b.fresh()
        ins = f"ins({wt.name} : {wt.type}) outs({out.name} : {out.type})"
        b.line(f"{name} = linalg.generic {{indexing_maps = [{ident}, {ident}], {maps}}} {ins} {{")
        b.line(f"^bb0({a}: {p.act}, {o}: {p.act}):")
        b.line(f"{s} = arith.addf {a}, {o} : {p.act}")
        b.line(f"linalg.yield {s} : {p.act}")
        b.line(f"}} -> {wt.type}")
        wt, w = T(name, p.act, wt.sizes), (w.astype(np.float32) + np.float32(1.5)).astype(np.float64)
    linear(c, x, xt, w, wt)


for how in ("relu", "triangle", "outs"):
    register(f"between_{how}_w8", partial(not_a_transpose, how=how), [P(m=4), P(40, 40, 1)], "between")


def movement(c: Case, *, how: str, kind: str = "w8zp") -> None:
    """Data movement between dequantization and the matmul, besides the one transpose."""
    p, b = c.p, c.b
    x, xt = c.rows()
    w, wt = dequantized(c, kind)
    if how == "copy":
        wt = b.named("copy", [wt], b.empty(wt.sizes, p.act))
    elif how == "cast":  # static, dynamic, static
        open_type = f"tensor<?x{p.k}x{p.act}>"
        loose = b.define(p.act, wt.sizes, f"tensor.cast {wt.name} : {wt.type} to {open_type}")
        wt = b.define(p.act, wt.sizes, f"tensor.cast {loose.name} : {open_type} to {wt.type}")
    elif how == "identity":
        wt = b.transpose(wt, [0, 1])
    elif how == "thrice":
        wt = b.transpose(b.transpose(wt, [1, 0]), [1, 0], named=False)
    elif how == "flat":
        wt = b.expand(b.collapse(wt, [[0, 1]]), [[0, 1]], [p.n, p.k])
    elif how == "unit":
        wt = b.collapse(b.transpose(b.unsqueeze(wt, 1), [1, 0, 2]), [[0, 1], [2]])
    elif how == "heads":  # (h, n / h, k) -> (k, h, n / h)
        y = matmul(b, xt, b.merge(b.transpose(b.split(wt, 0, p.n // 2), [2, 0, 1]), 1))
        c.result(y, product(x, w.T))
        return
    elif how == "interleaved":  # rows stored as (n / 2, 2), read as (2, n / 2): a permutation of the rows
        wt = b.merge(b.transpose(b.split(wt, 0, 2), [1, 0, 2]), 0)
        w = w.reshape(p.n // 2, 2, p.k).swapaxes(0, 1).reshape(p.n, p.k)
    linear(c, x, xt, w, wt)


for how in ("copy", "cast", "identity", "thrice", "flat", "unit", "heads", "interleaved"):
    # PITFALL 13
    register(f"moved_{how}_w8", partial(movement, how=how), [P(m=4), P(40, 40, 1)], "moved")
for how in ("thrice", "flat", "heads", "interleaved"):
    register(f"moved_{how}_w4", partial(movement, how=how, kind="w4"), [P(m=4)], "moved", "grouped")


def several_results(c: Case) -> None:
    """One generic yields the dequantized weight and its double; each feeds a matmul."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k))
    w8, scale = b.weight(q.q, "i8"), b.weight(q.scale, "f32")
    outs = [b.empty((p.n, p.k), "f32") for _ in range(2)]
    ident, column = "affine_map<(d0, d1) -> (d0, d1)>", "affine_map<(d0, d1) -> (d0, 0)>"
    name = b.fresh()
    traits = f'indexing_maps = [{ident}, {column}, {ident}, {ident}], iterator_types = ["parallel", "parallel"]'
    to = outs[0].type
    b.line(
        f"{name}:2 = linalg.generic {{{traits}}} ins({w8.name}, {scale.name} : {w8.type}, {scale.type}) "
        f"outs({outs[0].name}, {outs[1].name} : {to}, {to}) {{"
    )
    v, s, o0, o1 = (b.fresh() for _ in range(4))
    b.line(f"^bb0({v}: i8, {s}: f32, {o0}: f32, {o1}: f32):")
    e = Body(b)
    one = e.mulf(e.sitofp(Scalar(v, "i8"), to="f32"), Scalar(s, "f32"))
    two = e.addf(one, one)
    b.line(f"linalg.yield {one.name}, {two.name} : f32, f32")
    b.line(f"}} -> ({to}, {to})")
    for i in range(2):
        linear(c, x, xt, q.values() * (i + 1), T(f"{name}#{i}", "f32", (p.n, p.k)))


# PITFALL 18
register("two_results_w8", several_results, [P(m=4), P(40, 40, 1)], "shared-weight")


def callee_to_refuse(c: Case, *, how: str) -> None:
    """The dequantizing function is "public", or "recursive" (it calls itself until a counter is zero)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    inner = Builder(c.module)
    stored, scale = inner.param((p.n, p.k), "i8"), inner.param((p.n, 1), p.act)
    to = f"tensor<{p.n}x{p.k}x{p.act}>"
    if how == "public":
        w = inner.binary("mulf", inner.convert(stored, p.act), scale)
    else:
        count = inner.param((), "i64")
        e = Body(inner)
        left = e.extract(count)
        more = e.cmpi(left, inner.scalar(0, "i64"), pred="sgt")
        name = inner.fresh()
        inner.line(f"{name} = scf.if {more.name} -> ({to}) {{")
        fewer = e.subi(left, inner.scalar(1, "i64"))
        smaller = inner.define("i64", (), f"tensor.from_elements {fewer.name} : tensor<i64>")
        deeper = inner.call("dequantize", [stored, scale, smaller], p.act, (p.n, p.k))
        inner.line(f"scf.yield {deeper.name} : {to}")
        inner.line("} else {")
        w = inner.binary("mulf", inner.convert(stored, p.act), scale)
        inner.line(f"scf.yield {w.name} : {to}")
        inner.line("}")
        w = T(name, p.act, (p.n, p.k))
    inner.finish("dequantize", [w], "" if how == "public" else "private ")
    q = quantize(c.rng, (p.n, p.k), et=p.act)
    args = [b.weight(q.q, "i8"), b.weight(q.scale, p.act)]
    if how == "recursive":
        args.append(b.const(np.array(2), "i64", "dense"))
    linear(c, x, xt, q.values(), b.call("dequantize", args, p.act, (p.n, p.k)))


for how in ("public", "recursive"):
    register(f"call_{how}_w8", partial(callee_to_refuse, how=how), [P(m=4)], "hidden", "call", "refused")


def loop_carried(c: Case) -> None:
    """A dequantized weight carried through an scf.for that halves it every time."""
    p, b = c.p, c.b
    x, xt = c.rows()
    w, wt = dequantized(c, "w8")
    lo, hi, step = (b.scalar(i, "index").name for i in (0, 2, 1))
    carried, name = T(b.fresh(), p.act, wt.sizes), b.fresh()
    bounds = f"{b.fresh()} = {lo} to {hi} step {step}"
    b.line(f"{name} = scf.for {bounds} iter_args({carried.name} = {wt.name}) -> ({wt.type}) {{")
    half = b.binary("mulf", carried, 0.5)
    b.line(f"scf.yield {half.name} : {half.type}")
    b.line("}")
    linear(c, x, xt, w * 0.25, T(name, p.act, wt.sizes))


register("loop_carried_w8", loop_carried, [P(m=4), P(40, 40, 1)], "hidden", "region", "refused")


def float_weight(c: Case, *, where: str) -> None:
    """No quantization at all: an f32 weight, transposed (nothing to dequantize, the constant may be folded)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    w = c.rng.standard_normal((p.n, p.k)).astype(np.float32)
    wt = b.arg(w, "f32") if where == "argument" else b.weight(w, "f32")
    linear(c, x, xt, w.astype(np.float64), wt)


register("f32_weight", partial(float_weight, where="constant"), [P(m=4), P(40, 40, 1)], "float-storage")
register("f32_weight_argument", partial(float_weight, where="argument"), [P(m=4)], "float-storage", "hidden")


def two_dynamic_weights(c: Case) -> None:
    """Activations on both sides: a batch_matmul of two arguments, one transposed; there is no weight to touch."""
    p, b = c.p, c.b
    x, xt = c.activation((2, p.rows, p.k))
    y, yt = c.activation((2, p.n, p.k))
    out = b.named("batch_matmul", [xt, b.transpose(yt, [0, 2, 1])], b.fill(0, (2, p.rows, p.n), "f32"))
    c.result(b.convert(out, p.act), product(x, y.swapaxes(1, 2)))


register("attention_like", two_dynamic_weights, [P(m=4), P(40, 40, 40)], "hidden")


def splat(c: Case, *, what: str) -> None:
    """Splat constants: the weights ("weight"), the scales ("scale") or the zero points ("zp") are all alike."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), zp="int")
    values, scale, zero = q.q, q.scale, np.asarray(q.zp)
    if what == "weight":
        values = np.full_like(values, -3)
    elif what == "scale":
        scale = np.full_like(scale, scale[0, 0])
    else:
        zero = np.full_like(zero, 5)
    w = b.binary("subf", b.convert(b.const(values, "i8", "dense"), "f32"), b.const(zero, "f32", "dense"))
    w = b.binary("mulf", w, b.const(scale, "f32", "dense"))
    linear(c, x, xt, type(q)(values, scale, zero, "f32").values(), w)


# PITFALL 23
register("splat_weight_w8", partial(splat, what="weight"), [P(m=4, where="dense")], "splat", "hidden")
for what in ("scale", "zp"):
    register(f"splat_{what}_w8", partial(splat, what=what), [P(m=4, where="dense")], "splat")

TINY = [P(1, 64, 4), P(48, 1, 4), P(1, 1, 1), P(3, 2, None)]
# PITFALL 15
register("tiny_w8", linear8, TINY, "hidden", "degenerate")
register("tiny_w8_kn", partial(linear8, layout="kn", zp="int"), TINY, "hidden", "degenerate")
register("tiny_w4", partial(byte_packed, how="stack"), [P(1, 16, 4), P(5, 2, 1, g=2)], "hidden", "degenerate")
EMPTY = [P(48, 0, 4, where="arg"), P(0, 64, 4, where="arg"), P(48, 64, 0)]
# PITFALL 15
register("empty_w8", partial(linear8, zp="int"), EMPTY, "hidden", "degenerate")


def init_survives(c: Case) -> None:
    """K = 0: the result is the accumulator."""
    p, b = c.p, c.b
    assert p.k == 0
    x, xt = c.rows()
    v, init = c.activation((p.rows, p.n), "f32")
    w, wt = dequantized(c, "w8")
    y = b.named("matmul", [xt, b.transpose(wt, [1, 0])], init)
    c.result(y, Ref(x @ w.T + v, np.zeros_like(v)))


# PITFALL 15
register("empty_k_init_w8", init_survives, [P(24, 0, 4, where="arg")], "hidden", "degenerate", "init")


def used_twice_once_refused(c: Case) -> None:
    """One weight under a matmul and under a reduction that is none (row sums of the weight)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    w, wt = dequantized(c, "w8zp")
    c.result(matmul(b, xt, b.transpose(wt, [1, 0])), product(x, w.T))
    init = b.fill(0, [p.n], "f32")
    sums = b.generic(
        [(wt, "d0, d1")], [p.n], "f32", lambda e, v, acc: e.addf(acc, v), out_map="d0", iters="pr", init=init
    )
    c.result(sums, product(np.ones((1, p.k)), w.T).map(lambda v: v[0]))


register("row_sums_w8", used_twice_once_refused, [P(m=4), P(40, 40, 1)], "shared-weight")
