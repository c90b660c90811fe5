"""Weights packed below eight bits, codebooks, and 8-bit floats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from .builders import BITS, NUMPY, Body, Builder, Scalar, T
from .chains import torch_chain
from .oracle import Quant, product, quantize, rounded
from .program import Case, P, linear, matmul
from .registry import register

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)

# Packing (NumPy) and unpacking (IR) ---------------------------------------------------------------------------------


def pack(fields: np.ndarray, bits: int, et: str, order: Sequence[int] | None = None) -> np.ndarray:
    """Pack consecutive fields of the last axis into words of type ``et``; position j of a word holds field order[j]."""
    per = BITS[et] // bits
    short = -fields.shape[-1] % per
    padded = np.pad(fields, [(0, 0)] * (fields.ndim - 1) + [(0, short)])
    words = padded.reshape(*fields.shape[:-1], -1, per).astype(np.uint64) & np.uint64((1 << bits) - 1)
    words = words[..., list(order or range(per))] << (np.arange(per, dtype=np.uint64) * np.uint64(bits))
    return words.sum(-1, dtype=np.uint64).astype(f"u{BITS[et] // 8}").view(NUMPY[et])


def mask(b: Builder, w: T, value: int) -> T:
    return b.binary("andi", w, value)


def stack(b: Builder, *parts: T, inserts: bool = False) -> T:
    """``torch.stack(parts, -1).flatten(-2)``: interleave along the last dim (IREE turns the concat into inserts)."""
    if not inserts:
        return b.merge(b.concat(parts[0].rank, *(b.unsqueeze(p, p.rank) for p in parts)), parts[0].rank - 1)
    out = b.empty([*parts[0].sizes, len(parts)], parts[0].et)
    for i, part in enumerate(parts):
        out = b.insert(part, out, [0] * part.rank + [i])
    return b.merge(out, parts[0].rank - 1)


def nibbles(b: Builder, w: T, signed: bool = False) -> tuple[T, T]:
    """Low and high nibble of every byte; signed ones by shifting up and back down."""
    if signed:
        return b.binary("shrsi", b.binary("shli", w, 4), 4), b.binary("shrsi", w, 4)
    return mask(b, w, 15), b.binary("shrui", w, 4)


def bit_fields(b: Builder, w: T, axis: int, bits: int, order: Sequence[int] | None = None, op: str = "shrsi") -> T:
    """Unpack words along ``axis`` with a vector of shifts, as torch code does; trailing padding is kept."""
    per = BITS[w.et] // bits
    position = list(range(per)) if order is None else [list(order).index(i) for i in range(per)]
    shifts = b.const(np.array(position) * bits, w.et)
    rank = w.rank + 1
    shifts = b.expand(shifts, [list(range(rank))], [per if i == axis + 1 else 1 for i in range(rank)])
    fields = b.ew(lambda e, x, s: getattr(e, op)(x, s), b.unsqueeze(w, axis + 1), shifts)
    return b.merge(mask(b, fields, (1 << bits) - 1), axis)


def rows_to_words(q: np.ndarray, bits: int, order: Sequence[int] | None = None) -> np.ndarray:
    """Pack a [rows, columns] array along its rows (GPTQ)."""
    return np.ascontiguousarray(pack(q.T, bits, "i32", order).T)


# Nibbles and crumbs in bytes ----------------------------------------------------------------------------------------


def byte_packed(
    c: Case, *, how: str, zp: str | float = "int", store: str = "float", bits: int = 4, signed: bool = False
) -> None:
    """[n, k / fields] bytes, unpacked to [n, k], then the grouped torch chain."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), bits=bits, signed=signed, groups=p.k // p.g, zp=zp, et=p.act)
    if how == "halves":
        half = p.k // 2
        paired = np.stack([q.q[:, :half], q.q[:, half:]], -1).reshape(p.n, p.k)
        w = b.concat(1, *nibbles(b, b.weight(pack(paired, 4, "i8"), "i8")))
    elif bits == 2:
        stored = b.weight(pack(q.q, 2, "i8"), "i8")
        middle = [mask(b, b.binary("shrui", stored, 2 * i), 3) for i in (1, 2)]
        w = stack(b, mask(b, stored, 3), *middle, b.binary("shrui", stored, 6))
    else:
        order = (1, 0) if how == "high_first" else (0, 1)
        low, high = nibbles(b, b.weight(pack(q.q, 4, "i8", order), "i8"), signed)
        parts = (high, low) if how == "high_first" else (low, high)
        w = stack(b, *parts, inserts=how == "inserts")
    linear(c, x, xt, q.values(), torch_chain(b, w, q, signed=signed, zp=store))


W4 = [
    P(),
    P(40, 40, 5, g=20),
    P(21, 30, None, g=10),
    P(33, 64, 2, g=32, act="f16", batch=(2,)),
    P(64, 128, None, g=128, act="bf16", where="arg", batch=(1,)),
]

# PITFALL 23
register("torch_w4_stack", partial(byte_packed, how="stack", zp="float"), W4, "grouped", "nibble")
register("torch_w4_stack_sym8", partial(byte_packed, how="stack", zp=8, store="scalar"), W4[1:4], "grouped", "nibble")
register("torch_w4_stack_zp_i8", partial(byte_packed, how="stack", store="i8"), W4[2:4], "grouped", "nibble")
register(
    "torch_w4_stack_signed", partial(byte_packed, how="stack", zp="none", signed=True), W4[:3], "grouped", "nibble"
)
register("torch_w4_high_first", partial(byte_packed, how="high_first"), W4[1:4], "grouped", "nibble")
register("torch_w4_halves", partial(byte_packed, how="halves"), W4, "grouped", "nibble")
register("iree_w4_inserts", partial(byte_packed, how="inserts"), W4[:3], "grouped", "nibble")
register(
    "torch_w2_stack",
    partial(byte_packed, how="stack", bits=2),
    [P(), P(40, 40, 5, g=20), P(21, 36, None, g=12, act="bf16")],
    "grouped",
    "crumb",
)


def blocks(c: Case, *, kind: str) -> None:
    """Storage [n, k / block, bytes]: GGUF "q4_0" (halves, -8), "q4_1" (halves, + minimum), "q8_0"; ONNX "nbits"."""
    p, b = c.p, c.b
    x, xt = c.rows()
    nb, block = p.k // p.g, p.g
    bits = 8 if kind == "q8_0" else 4
    q = quantize(c.rng, (p.n, p.k), bits=bits, signed=bits == 8, groups=nb, zp="none", et="f16")
    fields = q.q.reshape(p.n, nb, block)
    if kind == "q8_0":
        w = b.weight(fields, "i8")
    elif kind == "nbits":
        w = stack(b, *nibbles(b, b.weight(pack(fields, 4, "i8"), "i8")))
    else:
        paired = np.stack([fields[..., : block // 2], fields[..., block // 2 :]], -1).reshape(fields.shape)
        w = b.concat(2, *nibbles(b, b.weight(pack(paired, 4, "i8"), "i8")))
    w = b.convert(w, p.act, bits == 8)
    value = fields.astype(np.float64)
    if kind in ("q4_0", "nbits"):
        w, value = b.binary("subf", w, 8.0), value - 8
    scale = q.scale[..., None]
    w = b.binary("mulf", w, b.convert(b.weight(scale, "f16"), p.act))
    value = rounded(value * scale, p.act)
    if kind == "q4_1":
        low = rounded(c.rng.uniform(-1, 0, scale.shape), "f16")
        w = b.binary("addf", w, b.convert(b.weight(low, "f16"), p.act))
        value = rounded(value + low, p.act)
    linear(c, x, xt, value.reshape(p.n, p.k), b.merge(w, 1))


for kind in ("q4_0", "q4_1", "q8_0"):
    register(
        f"gguf_{kind}",
        partial(blocks, kind=kind),
        [P(g=32), P(33, 96, None, g=32), P(64, 64, 5, g=32, where="arg")],
        "grouped",
    )
register(
    "onnx_matmulnbits",
    partial(blocks, kind="nbits"),
    [P(g=32, where="dense"), P(21, 48, 5, where="dense")],
    "grouped",
    "nibble",
)

# Words of 32 bits ---------------------------------------------------------------------------------------------------


def gptq(c: Case, *, gather: bool = False, plus_one: bool = True) -> None:
    """GPTQ: [k / 8, n] words along k, zeros packed along n and stored minus one; ``gather`` is act-order (g_idx)."""
    p, b = c.p, c.b
    x, xt = c.rows()
    groups = p.k // p.g
    q = quantize(c.rng, (p.n, p.k), bits=4, signed=False, groups=groups, zp="int", et=p.act)
    assert q.zp is not None
    scale_gn, zero_gn = q.scale.T, q.zp.T.astype(np.int64)
    words = b.weight(rows_to_words(q.q.T, 4), "i32")
    if gather:
        g_idx = c.rng.permutation(np.repeat(np.arange(groups), p.g))
        value = rounded((q.q - 8) * scale_gn[g_idx].T, p.act)
        table, index = b.weight(scale_gn, p.act), b.weight(g_idx, "i64")
        w = bit_fields(b, words, 0, 4)

        def lookup(e: Body, g: Scalar) -> Scalar:
            return e.extract(table, e.index_cast(g, to="index"), e.index(1))

        scale = b.generic([(index, "d0")], w.sizes, p.act, lookup)
        w = b.convert(b.binary("subi", w, 8), p.act)
        c.result(matmul(b, xt, b.binary("mulf", scale, w)), product(x, value.T))
        return
    packed_zero = b.weight(pack(zero_gn - plus_one, 4, "i32"), "i32")
    zero = bit_fields(b, packed_zero, 1, 4)
    if plus_one:
        zero = b.binary("addi", zero, 1)
    w = b.split(bit_fields(b, words, 0, 4), 0, p.g)
    w = b.convert(b.binary("subi", w, b.unsqueeze(zero, 1)), p.act)
    w = b.merge(b.binary("mulf", b.unsqueeze(b.weight(scale_gn, p.act), 1), w), 0)
    c.result(matmul(b, xt, w), product(x, q.values().T))


def awq(c: Case, *, gather: bool = False) -> None:
    """AWQ: [k, n / 8] words along n, columns in the order 0,2,4,6,1,3,5,7; ``gather`` reorders after a plain unpack."""
    p, b = c.p, c.b
    x, xt = c.rows()
    q = quantize(c.rng, (p.n, p.k), bits=4, signed=False, groups=p.k // p.g, zp="int", et=p.act)
    assert q.zp is not None

    def columns(values: np.ndarray) -> T:
        words = b.weight(pack(values.astype(np.int64), 4, "i32", AWQ_ORDER), "i32")
        if not gather:
            return bit_fields(b, words, 1, 4, AWQ_ORDER)
        plain = bit_fields(b, words, 1, 4)
        inverse = [AWQ_ORDER.index(i) for i in range(8)]
        order = b.const(np.arange(p.n).reshape(-1, 8)[:, inverse].reshape(-1), "i64")

        def pick(e: Body, column: Scalar) -> Scalar:
            return e.extract(plain, e.index(0), e.index_cast(column, to="index"))

        return b.generic([(order, "d1")], plain.sizes, "i32", pick)

    w, zero = columns(q.q.T), columns(q.zp.T)
    w = b.convert(b.binary("subi", b.split(w, 0, p.g), b.unsqueeze(zero, 1)), p.act)
    w = b.merge(b.binary("mulf", w, b.unsqueeze(b.weight(q.scale.T, p.act), 1)), 0)
    c.result(matmul(b, xt, w), product(x, q.values().T))


WORDS = [P(m=4, act="f16"), P(40, 40, 5, g=8), P(24, 64, None, g=32), P(64, 128, None, g=32, where="arg", batch=(1,))]
# PITFALL 23
register("gptq_w4", gptq, WORDS, "grouped", "words")
# PITFALL 25
register("gptq_v2_w4", partial(gptq, plus_one=False), WORDS[1:3], "grouped", "words")
register("gptq_w4_gidx", partial(gptq, gather=True), WORDS[:3], "grouped", "words", "gathered")
# PITFALL 23
register("awq_w4", awq, WORDS, "grouped", "words")
register("awq_w4_gather", partial(awq, gather=True), WORDS[1:3], "grouped", "words", "gathered")


def mlc(c: Case, *, bits: int, kn: bool = False, spelling: str = "index") -> None:
    """MLC q4f16/q3f16/q2: u32 words along k, ``(field - (2^(bits-1) - 1)) * scale``.

    ``index``: the TensorIR loop nest, one generic that shifts by ``linalg.index``; ``shifts``: the same in torch.
    """
    p, b = c.p, c.b
    x, xt = c.rows()
    per, zero = 32 // bits, (1 << (bits - 1)) - 1
    q = quantize(c.rng, (p.n, p.k), bits=bits, signed=False, block=p.g, zp=zero, et=p.act)
    packed, scale = pack(q.q, bits, "i32"), q.scale
    words = b.weight(packed.T if kn else packed, "i32")
    scales = b.weight(scale.T if kn else scale, p.act)
    axis = 0 if kn else 1
    if spelling == "index":

        def element(e: Body, word: Scalar, s: Scalar) -> Scalar:
            position = e.remui(e.index(axis), e.const(per, "index"))
            shift = e.index_cast(e.muli(position, e.const(bits, "index")), to="i32")
            field = e.andi(e.shrui(word, shift), e.const((1 << bits) - 1, "i32"))
            return e.mulf(e.subf(e.uitofp(field, to=p.act), e.const(zero, p.act)), s)

        maps = [f"d0 floordiv {n}, d1" if kn else f"d0, d1 floordiv {n}" for n in (per, p.g)]
        sizes = (p.k, p.n) if kn else (p.n, p.k)
        w = b.generic([(words, maps[0]), (scales, maps[1])], sizes, p.act, element)
    else:
        w = bit_fields(b, words, axis, bits, op="shrui")
        if w.sizes[axis] != p.k:
            w = b.slice(w, [0, 0], [p.k, p.n] if kn else [p.n, p.k])
        w = b.binary("subf", b.convert(w, p.act, signed=False), float(zero))
        w = b.merge(b.binary("mulf", b.split(w, axis, p.g), b.unsqueeze(scales, axis + 1)), axis)
    if not kn:
        linear(c, x, xt, q.values(), w)
    else:
        c.result(matmul(b, xt, w), product(x, q.values().T))


MLC = [P(act="f16", g=32), P(40, 160, 5, g=40), P(21, 96, None, g=32, act="f16", where="arg")]
register("mlc_q4f16_nk", partial(mlc, bits=4), MLC, "grouped", "words")
register("mlc_q4f16_kn", partial(mlc, bits=4, kn=True), MLC, "grouped", "words", "kn")
register("mlc_q4f16_nk_shifts", partial(mlc, bits=4, spelling="shifts"), MLC[:2], "grouped", "words")
register("mlc_q4f16_kn_shifts", partial(mlc, bits=4, kn=True, spelling="shifts"), MLC[1:], "grouped", "words", "kn")
Q3 = [P(g=40, k=120, act="f16"), P(24, 80, 5, g=40), P(33, 64, None, g=16)]
# PITFALL 23
register("mlc_q3f16_nk", partial(mlc, bits=3), Q3, "grouped", "words")
register("mlc_q3f16_kn", partial(mlc, bits=3, kn=True), Q3[:2], "grouped", "words", "kn")
register("mlc_q3f16_nk_shifts", partial(mlc, bits=3, spelling="shifts"), Q3, "grouped", "words")
register("mlc_q2_nk_shifts", partial(mlc, bits=2, spelling="shifts"), [P(g=32), P(21, 96, 5)], "grouped", "words")
# PITFALL 23
register("mlc_q2_nk", partial(mlc, bits=2), [P(24, 64, None, g=32)], "grouped", "words")

# Types narrower than a byte, codebooks, 8-bit floats ----------------------------------------------------------------


def narrow(c: Case, *, et: str = "i4", signed: bool = True, via: str | None = None, zp: str | float = "none") -> None:
    """A tensor of true ``et``; converted directly or through ``via``."""
    p, b = c.p, c.b
    x, xt = c.rows()
    bits = BITS[et]
    q = quantize(c.rng, (p.n, p.k), bits=bits, signed=signed, groups=p.k // p.g, zp=zp, et=p.act)
    w = b.weight(q.q, et)
    if via:
        w = b.convert(w, via, signed)
    linear(c, x, xt, q.values(), torch_chain(b, w, q, signed=signed))


I4 = [P(), P(40, 40, 5, g=20), P(21, 35, None, g=7, act="f16")]
register("i4_extsi", partial(narrow, via="i8"), I4, "narrow")
register("i4_sitofp", narrow, I4[1:], "narrow", "grouped")
# PITFALL 23
register("ui4_extui", partial(narrow, signed=False, via="i32", zp="int"), I4, "narrow", "grouped", "unsigned")
register("i2_extsi", partial(narrow, et="i2", via="i8"), I4[:1], "narrow", "grouped")


def nf4(c: Case, *, shaped: bool = False) -> None:
    """bitsandbytes: high nibble first, a 16-entry table, absmax per block of ``g``; ``shaped`` never flattens."""
    p, b = c.p, c.b
    x, xt = c.rows()
    table = np.concatenate([[-1.0], np.sort(c.rng.uniform(-0.9, 0.9, 14)), [1.0]]).astype(np.float32)
    codes = c.rng.integers(0, 16, (p.n, p.k))
    absmax = c.rng.uniform(0.1, 2.0, p.n * p.k // p.g).astype(np.float32)
    value = rounded(table.astype(np.float64)[codes].reshape(-1, p.g) * absmax.astype(np.float64)[:, None], "f32")
    packed = pack(codes, 4, "i8", (1, 0))
    low, high = nibbles(b, b.weight(packed if shaped else packed.reshape(-1), "i8"))
    index = b.convert(stack(b, high, low), "i64", signed=False)
    code = b.weight(table, "f32")
    w = b.ew(lambda e, i: e.extract(code, e.index_cast(i, to="index")), index, et="f32")
    if shaped:
        w = b.split(w, 1, p.g)
        scale = b.weight(absmax.reshape(p.n, -1, 1), "f32")
        w = b.merge(b.binary("mulf", w, scale), 1)
    else:
        w = b.expand(w, [[0, 1]], [p.n * p.k // p.g, p.g])
        w = b.collapse(b.binary("mulf", w, b.weight(absmax[:, None], "f32")), [[0, 1]])
        w = b.expand(w, [[0, 1]], [p.n, p.k])
    value = value.reshape(p.n, p.k)
    linear(c, x, xt, rounded(value, p.act), b.convert(w, p.act))


NF4 = [P(m=4, g=64), P(21, 128, None, g=64), P(32, 64, 5, g=64, act="f16")]
register("nf4", nf4, NF4, "codebook", "grouped")
register("nf4_across_rows", nf4, [P(64, 32, 2, g=64)], "codebook", "grouped")
register("nf4_shaped", partial(nf4, shaped=True), NF4[1:], "codebook", "grouped")


def float8(c: Case, *, et: str, groups: str = "axis", scale_after: bool = False) -> None:
    """8-bit float storage: extend, then scale."""
    p, b = c.p, c.b
    x, xt = c.rows()
    stored = np.clip(c.rng.standard_normal((p.n, p.k)) * 8, -400, 400).astype(NUMPY[et])
    count = {"tensor": None, "axis": 1, "group": p.k // p.g}[groups]
    shape = () if count is None else (p.n, count)
    q = Quant(stored.astype(np.float64), rounded(c.rng.uniform(0.01, 0.1, shape), p.act), None, p.act)
    w = b.weight(stored, et)
    if scale_after:
        y = matmul(b, xt, b.transpose(b.convert(w, p.act), [1, 0]))
        y = b.binary("mulf", y, float(q.scale) if count is None else b.weight(q.scale[:, 0], p.act))
        ref = product(x, stored.astype(np.float64).T).stored(p.act)
        c.result(y, ref.scaled(q.scale if count is None else q.scale[:, 0]))
        return
    linear(c, x, xt, q.values(), torch_chain(b, w, q, signed=True))


F8 = [P(m=4), P(40, 40, 5, act="bf16"), P(21, 35, None, g=7, act="f16")]
for et, short in (("f8E4M3FN", "e4m3"), ("f8E5M2", "e5m2")):
    register(f"fp8_{short}", partial(float8, et=et), F8[:2], "fp8")
    register(f"fp8_{short}_tensor", partial(float8, et=et, groups="tensor"), F8[:2], "fp8")
    register(f"fp8_{short}_group", partial(float8, et=et, groups="group"), F8[2:], "fp8", "grouped")
    register(f"fp8_{short}_scale_after", partial(float8, et=et, scale_after=True), F8[:2], "fp8")
