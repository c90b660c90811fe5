"""Further frontends and quantizers: HQQ, compressed-tensors, GGUF K-quants, gpt-fast int4, ONNX QLinear."""

from __future__ import annotations

from functools import partial

import numpy as np

from .builders import BITS, Body, Builder, Scalar, T
from .chains import onnx_chain, torch_chain
from .contractions import accumulator, dequantized, requantize
from .oracle import Quant, Ref, exact, integer_product, product, quantize, rounded
from .packed import bit_fields, nibbles, pack, stack
from .program import Case, P, add_bias, linear, matmul
from .registry import register


def hqq(c: Case) -> None:
    """HQQ: the first half of the rows in the high nibbles, the second half in the low ones, concatenated along n."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), bits=4, signed=False, groups=p.k // p.g, zp="float", et=p.act)
    top, bottom = q.q[: p.n // 2], q.q[p.n // 2 :]
    low, high = nibbles(b, b.weight(pack(np.stack([bottom, top], -1).reshape(p.n // 2, -1), 4, "i8"), "i8"))
    linear(c, x, xt, q.values(), torch_chain(b, b.concat(0, high, low), q, signed=False))


EVEN = [P(g=32), P(40, 40, 5, g=20), P(22, 36, None, g=12, act="f16")]
register("hqq_w4", hqq, EVEN, "grouped", "nibble")


def strided_inserts(c: Case, *, bits: int = 4, et: str = "i8") -> None:
    """``out = zeros; out[:, i::per] = (w >> bits * i) & mask``, as compressed-tensors unpacks; offset 2^(bits-1)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    per, middle = BITS[et] // bits, 1 << (bits - 1)
    q = quantize(c.rng, (p.n, p.k), bits=bits, signed=False, groups=p.k // p.g, zp=middle, et=p.act)
    words = b.weight(pack(q.q, bits, et), et)
    out = b.fill(0, (p.n, p.k), et)
    for i in range(per):
        field = b.binary("andi", b.binary("shrsi", words, bits * i) if i else words, (1 << bits) - 1)
        out = b.insert(field, out, [0, i], [1, per])
    w = b.convert(b.binary("subi", out, middle), "i8")
    symmetric = Quant(q.q - middle, q.scale, None, q.et)
    linear(c, x, xt, q.values(), torch_chain(b, w, symmetric, signed=True))


register("compressed_tensors_w4", partial(strided_inserts, et="i32"), [*EVEN[:2], P(21, 48, None)], "grouped", "words")
register("insert_strided_w4", strided_inserts, EVEN[:2], "grouped", "nibble")
register("insert_strided_w2", partial(strided_inserts, bits=2), [P()], "grouped", "crumb")


def words_nk(c: Case) -> None:
    """[n, k / 8] words along k, a signed offset of 8 subtracted in integers, scales per group (AutoRound, vLLM)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), bits=4, signed=False, groups=p.k // p.g, zp=8, et=p.act)
    w = b.binary("subi", bit_fields(b, b.weight(pack(q.q, 4, "i32"), "i32"), 1, 4), 8)
    linear(c, x, xt, q.values(), torch_chain(b, w, Quant(q.q - 8, q.scale, None, q.et), signed=True))


register("words_nk_w4", words_nk, [P(g=32), P(40, 40, 5, g=8), P(21, 64, None, act="bf16")], "grouped", "words")


def minimum(c: Case, *, packed: bool = True) -> None:
    """gpt-fast int4: ``(q - 8) * scale + zero`` with a float zero added last (an affine form without a zero point)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), bits=4, signed=False, groups=p.k // p.g, zp=8, et=p.act)
    offset = rounded(c.rng.uniform(-1, 1, q.scale.shape), p.act)
    w = stack(b, *nibbles(b, b.weight(pack(q.q, 4, "i8"), "i8"))) if packed else b.weight(q.q, "i8")
    w = b.split(b.convert(w, p.act, signed=False), 1, p.g)
    w = b.binary("mulf", b.binary("subf", w, 8.0), b.unsqueeze(b.weight(q.scale, p.act), 2))
    w = b.merge(b.binary("addf", w, b.unsqueeze(b.weight(offset, p.act), 2)), 1)
    value = rounded(q.values() + np.repeat(offset, p.g, axis=1), p.act)
    linear(c, x, xt, value, w)


register("gptfast_int4", minimum, [P(g=32), P(40, 40, 5, g=20, act="bf16"), P(21, 36, None, g=12)], "grouped", "nibble")
register("affine_w8", partial(minimum, packed=False), [P(g=32), P(40, 40, 5, g=20)], "grouped")


def two_level(c: Case, *, kind: str) -> None:
    """Quantized scales: "q4_k" (u8 scales and minima under f16 super-scales), "nested" (u8 absmax through a scale)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    groups, supers = p.k // p.g, max(p.k // (2 * p.g), 1)
    bits = 4 if kind == "q4_k" else 8
    q = c.rng.integers(0, 1 << bits, (p.n, p.k)) - (0 if kind == "q4_k" else 128)

    def level() -> tuple[np.ndarray, T]:
        """Group parameters [n, supers, groups / supers] as integers times an f16 per super-block."""
        fine = c.rng.integers(1, 64, (p.n, supers, groups // supers))
        coarse = rounded(c.rng.uniform(0.5e-3, 2e-3, (p.n, supers, 1)), "f16")
        fine_t = b.convert(b.weight(fine, "i8"), p.act, signed=False)
        full = b.binary("mulf", fine_t, b.convert(b.weight(coarse, "f16"), p.act))
        return rounded(fine * coarse, p.act).reshape(p.n, groups), b.unsqueeze(b.merge(full, 1), 2)

    w = stack(b, *nibbles(b, b.weight(pack(q, 4, "i8"), "i8"))) if kind == "q4_k" else b.weight(q, "i8")
    w = b.split(b.convert(w, p.act, signed=kind != "q4_k"), 1, p.g)
    scale, scale_t = level()
    w, value = b.binary("mulf", w, scale_t), rounded(q * np.repeat(scale, p.g, 1), p.act)
    if kind == "q4_k":
        low, low_t = level()
        w, value = b.binary("subf", w, low_t), rounded(value - np.repeat(low, p.g, 1), p.act)
    linear(c, x, xt, value, b.merge(w, 1))


SUPER = [P(), P(40, 80, 5, g=20), P(21, 64, None, g=32)]
register("gguf_q4_k", partial(two_level, kind="q4_k"), SUPER, "grouped", "nibble", "two-level")
register("nested_scale_w8", partial(two_level, kind="nested"), SUPER[:2], "grouped", "two-level")


def repeat_interleave(c: Case, *, zp: bool = False) -> None:
    """Scales repeated to full size before an elementwise product: unsqueeze, expand (a copy), flatten."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), groups=p.k // p.g, zp="int" if zp else "none", et=p.act)

    def repeated(values: np.ndarray) -> T:
        wide = b.broadcast(b.unsqueeze(b.weight(values, p.act), 2), (p.n, q.groups, p.g))
        return b.merge(wide, 1)

    w = b.convert(b.weight(q.q, "i8"), p.act)
    if q.zp is not None:
        w = b.binary("subf", w, repeated(q.zp))
    linear(c, x, xt, q.values(), b.binary("mulf", w, repeated(q.scale)))


register("torch_repeat_interleave", repeat_interleave, [P(m=4), P(40, 40, 1, g=8)], "grouped")
register("torch_repeat_interleave_zp", partial(repeat_interleave, zp=True), [P(21, 35, None, g=7)], "grouped")


def narrowed(c: Case, *, grouped: bool = False) -> None:
    """Dequantized in f32, then truncated to the activation's half-precision type before the transpose."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), groups=p.k // p.g if grouped else 1, zp="int")
    w = b.convert(torch_chain(b, b.weight(q.q, "i8"), q, signed=True), p.act)
    linear(c, x, xt, rounded(q.values(), p.act), w)


HALF = [P(m=4, act="bf16"), P(40, 40, 1, act="f16", g=8), P(21, 35, None, act="bf16", g=7)]
register("torch_w8_truncf", narrowed, HALF, "truncated")
register("torch_w8_group_truncf", partial(narrowed, grouped=True), HALF[1:], "truncated", "grouped")


def bias_first(c: Case, *, kind: str = "w8zp", ones: str = "broadcast") -> None:
    """The bias is the accumulator: linalg.broadcast, a copying generic, or the caller's running sum ("argument")."""
    p, b = c.p, c.b
    x, xt = c.rows()
    shape = (p.rows, p.n)
    if ones == "argument":
        v, init = c.activation(shape, "f32", [0] if p.m is None else [])
    else:
        v = c.rng.standard_normal(p.n).astype(np.float32)
        out = b.empty((xt.sizes[0], p.n), "f32")
        stored = b.const(v, "f32")
        if ones == "broadcast":
            text = f"linalg.broadcast ins({stored.name} : {stored.type}) outs({out.name} : {out.type}) dimensions = [0]"
            init = b.define("f32", out.sizes, text)
        else:
            init = b.broadcast(stored, out.sizes, "d1")
        v = v.astype(np.float64)
    w, wt = dequantized(c, kind)
    y = b.named("matmul", [xt, b.transpose(wt, [1, 0])], init)
    c.result(b.convert(y, p.act), product(x, w.T) + exact(v))


for ones in ("broadcast", "generic", "argument"):
    # PITFALL 17
    register(f"init_{ones}_w8", partial(bias_first, ones=ones), [P(m=4), P(40, 40, 1), P(21, 35, None)], "init")
register("init_broadcast_w4", partial(bias_first, kind="w4"), [P(m=4)], "init", "grouped")


def dynamic_batch(c: Case, *, side: str) -> None:
    """A dynamic batch: "flat" (both leading dims collapsed), "bmm" (copy to the batch), "left" (weight on the left)."""
    p, b = c.p, c.b
    shape = (2, p.k, p.rows) if side == "left" else (2, p.rows, p.k)
    row = 2 if side == "left" else 1
    x, xt = c.activation(shape, None, [0, row] if p.m is None else [0])
    w, wt = dequantized(c, "w8onnx" if p.where == "dense" else "w8zp")
    batch = xt.sizes[0]
    if side == "flat":
        rows = b.define("index", (), f"arith.muli {batch}, {size_value(b, xt.sizes[1])} : index").name
        to = f"tensor<?x{p.k}x{p.act}>"
        flat = b.define(p.act, (rows, p.k), f"tensor.collapse_shape {xt.name} [[0, 1], [2]] : {xt.type} into {to}")
        y = matmul(b, flat, b.transpose(wt, [1, 0]))
        c.result(b.expand(y, [[0, 1], [2]], [batch, xt.sizes[1], p.n]), product(x, w.T))
        return
    wide = b.define("i64", (), f"arith.index_cast {batch} : index to i64").name
    check = Body(b).cmpi(Scalar(wide, "i64"), b.scalar(0, "i64"), pred="sge")
    b.line(f'cf.assert {check.name}, "negative values not allowed in new dimensions"')
    if side == "bmm":
        w3 = b.broadcast(b.transpose(wt, [1, 0]), [batch, p.k, p.n])
        y = b.named("batch_matmul", [xt, w3], accumulator(c, *xt.sizes[:-1], p.n))
        c.result(b.convert(y, p.act), product(x, w.T))
    else:
        w3 = b.broadcast(wt, [batch, p.n, p.k])
        y = b.named("batch_matmul", [w3, xt], accumulator(c, batch, p.n, xt.sizes[2]))
        c.result(b.convert(y, p.act), product(w, x))


def size_value(b: Builder, size: int | str) -> str:
    return size if isinstance(size, str) else b.scalar(size, "index").name


DYNAMIC = [P(m=5, where="dense"), P(40, 40, None), P(21, 35, None, act="f16", g=7)]
for side in ("flat", "bmm", "left"):
    # PITFALL 16
    register(f"dynamic_{side}_w8", partial(dynamic_batch, side=side), DYNAMIC, "dynamic", "batch")


def half_storage(c: Case, *, conv: bool = False) -> None:
    """A half-precision weight extended to f32 (TFLite float16), as a transposed matmul or a 1x1 convolution."""
    p, b = c.p, c.b
    x, xt = c.rows()
    stored = rounded(c.rng.standard_normal((p.n, p.k)) * 0.1, "f16")
    wt = b.convert(b.weight(stored, "f16"), "f32")
    if not conv:
        linear(c, x, xt, stored, wt)
        return
    x4, w4 = (b.expand(t, [[0, 1, 2], [3]], [t.sizes[0], 1, 1, p.k]) for t in (xt, wt))
    init = b.broadcast(b.const(np.zeros(1), "f32"), (xt.sizes[0], 1, 1, p.n), "0")
    ones = "dense<1> : tensor<2xi64>"
    y = b.named("conv_2d_nhwc_fhwc", [x4, w4], init, f"{{dilations = {ones}, strides = {ones}}} ")
    c.result(b.collapse(y, [[0, 1, 2], [3]]), product(x, stored.T))


register("f16_weight", half_storage, [P(m=4), P(40, 40, 1)], "float-storage")
register("f16_weight_conv", partial(half_storage, conv=True), [P(m=4), P(40, 40, 1)], "float-storage", "convolution")


def already_swapped(c: Case, *, kind: str = "w8") -> None:
    """PyTorch's own identity for a weight on the left: (x^T W^T)^T, three transposes around one matmul."""
    p, b = c.p, c.b
    batch = p.batch or (2,)
    x, xt = c.activation((*batch, p.k, p.rows))
    w, wt = dequantized(c, kind)
    rank = len(batch) + 2
    perm = [*range(rank - 2), rank - 1, rank - 2]
    y = matmul(b, b.transpose(xt, perm), b.transpose(wt, [1, 0]))
    c.result(b.transpose(y, perm), product(w, x))


SWAPPED = [P(m=16), P(40, 40, 40, batch=(3,)), P(21, 36, 4, batch=(2, 3), g=12)]
# PITFALL 30
register("left_identity_w8", already_swapped, SWAPPED, "left-weight")
register("left_identity_w4", partial(already_swapped, kind="w4"), SWAPPED[2:], "left-weight", "grouped")


def qlinear(c: Case, *, transposed: bool = False) -> None:
    """ONNX QLinearMatMul: u8 activations and weights shifted by -128 to i8, quantized_matmul, f64 scale in the body."""
    p, b = c.p, c.b
    x, xt = c.activation((p.rows, p.k), "i8", [0] if p.m is None else [])
    x = (x & 255) - 128
    stored = c.rng.integers(0, 256, (p.n, p.k))
    as_i8 = stored.astype(np.uint8).view(np.int8)
    shifted = b.binary("addi", b.weight(as_i8 if transposed else as_i8.T, "i8"), -128)
    w = b.transpose(shifted, [1, 0]) if transposed else shifted
    xz, wz = -8, 12
    ins = [b.binary("addi", xt, -128), w, b.scalar(xz, "i32"), b.scalar(wz, "i32")]
    y = b.named("quantized_matmul", ins, b.fill(0, (xt.sizes[0], p.n), "i32"))
    acc = integer_product(x - xz, (stored - 128).T - wz)
    y = b.ew(lambda e, v: e.mulf(e.sitofp(v, to="f32"), e.truncf(e.const(2e-4, "f64"), to="f32")), y, et="f32")
    c.result(y, exact(acc.astype(np.float64)).stored("f32").scaled(float(np.float32(2e-4))))


QLINEAR = [P(m=8, where="dense"), P(40, 40, 1), P(21, 35, None)]
register("onnx_qlinearmatmul", qlinear, QLINEAR, "integer", "unsigned", "kn")
register("onnx_qlinearmatmul_t", partial(qlinear, transposed=True), QLINEAR[:2], "integer", "unsigned")


def integer_casts(c: Case, *, how: str) -> None:
    """Integer products whose casts matter: "unsigned" (cast_unsigned), "mixed" (u8 rows, i8 weight), "contract"."""
    p, b = c.p, c.b
    x, xt = c.activation((p.rows, p.k), "i8", [0] if p.m is None else [])
    q = quantize(c.rng, (p.n, p.k))
    w8 = b.weight(q.q, "i8")
    sizes = (xt.sizes[0], p.n)
    if how == "mixed":
        wt = b.transpose(w8, [1, 0])

        def body(e: Body, a: Scalar, w: Scalar, acc: Scalar) -> Scalar:
            return e.addi(acc, e.muli(e.extui(a, to="i32"), e.extsi(w, to="i32")))

        init = b.fill(0, sizes, "i32")
        ins = [(xt, "d0, d2"), (wt, "d2, d1")]
        y = b.generic(ins, sizes, "i32", body, out_map="d0, d1", iters="ppr", init=init)
        value = integer_product(x & 255, q.q.T)
    elif how == "unsigned":
        y = b.named(
            "matmul", [xt, b.transpose(w8, [1, 0])], b.fill(0, sizes, "i32"), "{cast = #linalg.type_fn<cast_unsigned>} "
        )
        value = integer_product(x & 255, q.q.T & 255)
    else:
        maps = ["d0, d2", "d1, d2", "d0, d1"]
        y = b.mapped("contract", [xt, w8], b.fill(0, sizes, "i32"), 3, maps)
        value = integer_product(x, q.q.T)
    channel = (q.scale[:, 0] * (0.02 if how == "unsigned" else 0.1)).astype(np.float32)
    c.result(*requantize(c, y, exact(value), channel))


for how in ("unsigned", "mixed", "contract"):
    # PITFALL 22
    register(f"int8_{how}", partial(integer_casts, how=how), QLINEAR[1:], "integer")


def dynamic_quantized_onnx(c: Case) -> None:
    """DynamicQuantizeLinear + MatMulInteger: rank-0 zero points, i32 operands, a copy per batch, i64 sums."""
    p, b = c.p, c.b
    x, xt = c.activation((2, p.rows, p.k), "i8", [1] if p.m is None else [])
    q = quantize(c.rng, (p.n, p.k))
    zx, zw = b.const(np.array(7), "i8", "dense"), b.const(np.array(0), "i8", "dense")

    def widened(t: T, zero: T, signed: bool) -> T:
        space = ", ".join(f"d{i}" for i in range(t.rank))
        wide = b.convert(t, "i32", signed)
        return b.generic([(wide, space), (zero, "")], t.sizes, "i32", lambda e, v, z: e.subi(v, e.to(z, "i32", signed)))

    rows = widened(xt, zx, False)
    w = b.broadcast(widened(b.weight(q.q.T, "i8"), zw, True), [2, p.k, p.n])
    y = b.named("batch_matmul", [rows, w], b.fill(0, [*xt.sizes[:-1], p.n], "i64"))
    y = b.convert(b.convert(y, "i32"), "f32")
    scale = b.const(np.array(0.0123, np.float32), "f32", "dense")
    y = b.generic([(y, "d0, d1, d2"), (scale, "")], y.sizes, "f32", lambda e, v, s: e.mulf(v, s))
    acc = integer_product((x & 255) - 7, q.q.T).astype(np.float64)
    c.result(y, exact(acc).stored("f32").scaled(float(np.float32(0.0123))))


register("onnx_dynquant", dynamic_quantized_onnx, QLINEAR, "integer", "kn", "batch")


def full_qdq(c: Case) -> None:
    """ONNX QDQ linear: the u8 activation dequantized per tensor, the [k, n] weight per axis 1, a bias."""
    p, b = c.p, c.b
    x8, xt = c.activation((p.rows, p.k), "i8", [0] if p.m is None else [])
    x8 = x8 & 255
    one = Quant(x8, np.array(rounded(0.02, "f32")), np.array(120.0), "f32")
    rows = onnx_chain(b, xt, one, 0, False)
    q = quantize(c.rng, (p.n, p.k))
    w = onnx_chain(b, b.weight(q.q.T, "i8"), q, 1, True)
    y, ref = add_bias(c, matmul(b, rows, w), product(one.values(), q.values().T))
    c.result(y, ref)


register("onnx_qdq_linear", full_qdq, QLINEAR, "kn", "quantized-activation")


def tflite(c: Case, *, et: str = "i8", per_channel: bool = True) -> None:
    """TFLite fully connected: conv_2d_nhwc_fhwc_q, the bias as accumulator, TOSA's fixed-point rescale."""
    p, b = c.p, c.b
    x, xt = c.activation((p.rows, p.k), "i8")
    q = quantize(c.rng, (p.n, p.k), bits=BITS[et])
    channels = p.n if per_channel else 1
    bias = c.rng.integers(-500, 500, p.n)
    multiplier = c.rng.integers(1 << 30, (1 << 31) - 1, channels)
    shift = c.rng.integers(40, 43, channels) - (8 - BITS[et])
    x4 = b.expand(xt, [[0, 1, 2], [3]], [p.rows, 1, 1, p.k])
    init = b.broadcast(b.const(bias, "i32"), (p.rows, 1, 1, p.n), "d3")
    ones = "dense<1> : tensor<2xi64>"
    ins = [x4, b.weight(q.q.reshape(p.n, 1, 1, p.k), et), b.scalar(-5, "i32"), b.scalar(0, "i32")]
    y = b.named("conv_2d_nhwc_fhwc_q", ins, init, f"{{dilations = {ones}, strides = {ones}}} ")

    def rescale(e: Body, v: Scalar, m: Scalar, s: Scalar) -> Scalar:
        s32, v64, s64 = e.extui(s, to="i32"), e.extsi(v, to="i64"), e.extui(s, to="i64")
        total = e.muli(v64, e.extsi(m, to="i64"))
        total = e.addi(total, e.shrui(e.shli(e.const(1, "i64"), s64), e.const(1, "i64")))
        half = e.const(1 << 30, "i64"), e.const(-(1 << 30), "i64")
        double = e.addi(e.select(e.cmpi(v, e.const(0, "i32"), pred="sge"), *half), total)
        total = e.select(e.cmpi(s32, e.const(31, "i32"), pred="sgt"), double, total)
        r = e.addi(e.trunci(e.shrsi(total, s64), to="i32"), e.const(3, "i32"))
        return e.trunci(e.minsi(e.maxsi(r, e.const(-128, "i32")), e.const(127, "i32")), to="i8")

    index = "d3" if per_channel else "0"
    params = [(b.const(multiplier, "i32", "dense"), index), (b.const(shift, "i8", "dense"), index)]
    y = b.generic([(y, "d0, d1, d2, d3"), *params], y.sizes, "i8", rescale)
    acc = integer_product(x + 5, q.q.T) + bias
    total = acc * multiplier + (1 << (shift - 1)) + np.where(shift > 31, np.where(acc >= 0, 1 << 30, -(1 << 30)), 0)
    value = np.clip((total >> shift) + 3, -128, 127)
    c.result(b.collapse(y, [[0, 1, 2], [3]]), exact(value))


FC = [P(), P(40, 40, 4), P(21, 35, 1, where="dense")]
register("tflite_fc_i8", tflite, FC, "integer", "convolution")
register("tflite_fc_i8_tensor", partial(tflite, per_channel=False), FC[1:], "integer", "convolution")
register("tflite_fc_i4", partial(tflite, et="i4"), FC, "integer", "convolution", "narrow")


def mlp(c: Case, *, kind: str = "w8") -> None:
    """A gated MLP: two weights share the activation, a third reads the product; ReLU as the gate."""
    p, b = c.p, c.b
    x, xt = c.rows()
    gate, gate_t = dequantized(c, kind)
    up, up_t = dequantized(c, kind)
    down, down_t = dequantized(c, kind, (p.k, p.n))
    left, right = (matmul(b, xt, b.transpose(t, [1, 0])) for t in (gate_t, up_t))
    zero = b.scalar(0.0, p.act)
    hidden = b.binary("mulf", b.ew(lambda e, v: e.maximumf(v, zero), left), right)
    a, d = product(x, gate.T), product(x, up.T)
    inner = np.maximum(a.value, 0) * d.value
    error = a.error * np.abs(d.value) + np.abs(a.value) * d.error + a.error * d.error
    full = product(inner, down.T)
    c.result(matmul(b, hidden, b.transpose(down_t, [1, 0])), Ref(full.value, full.error + error @ np.abs(down.T)))


MLP = [P(96, 64, 1), P(40, 40, 5, g=20), P(56, 24, None, g=8)]
register("mlp_w8", mlp, MLP, "block")
register("mlp_w4", partial(mlp, kind="w4"), [P(96, 64, 1), MLP[1]], "block", "grouped")
