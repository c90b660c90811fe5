"""`qtranspose-static-lhs-to-rhs` against NumPy: integers exactly, floats up to the rounding of one sum."""

from __future__ import annotations

import string
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import qtranspose as qt
from forms.builders import NUMPY
from forms.catalog import CATALOG, Entry
from forms.left import Program, labels, moved, rewrite, run, tensor
from mlir import ir
from qtranspose import execution

SHARED = Path(__file__).parents[3] / "shared" / "inputs"

W = np.array([[1, 2, 0], [-1, 0, 3]])
A = np.array([[2, 1], [1, 4], [3, -2]])


def left(
    spec: str,
    sizes: dict[str, int],
    et: str = "i8",
    acc: str = "i32",
    *,
    signs: str = "ii",
    dynamic: str = "",
    copies: str = "",
    init: str = "fill",
    op: str = "generic",
    loops: str = "",
    resource: bool = False,
) -> tuple[Program, np.ndarray]:
    """A contraction of a constant with an argument, and what it computes.

    `copies` are batch dims along which the weight is repeated by a broadcast; `init` is "fill", or the dims of an
    argument that is broadcast to the accumulator.
    """
    p = Program(sizes, dynamic)
    operands, out = spec.split("->")
    w_dims, a_dims = operands.split(",")
    w = labels(p.shape(w_dims), et, 1)
    a = labels(p.shape(a_dims), et, 2)
    weight = p.constant(w, et, resource)
    activation = p.argument(a, a_dims, et)
    if copies:
        p.empty("copies", copies + w_dims, et, activation, a_dims, et)
        p.lines.append(
            f"%copied = linalg.broadcast ins({weight} : {p.type(w_dims, et)}) "
            f"outs(%copies : {p.type(copies + w_dims, et)}) dimensions = {list(range(len(copies)))}"
        )
        weight = "%copied"
    kind = p.type(out, acc)
    p.empty("init_e", out, acc, activation, a_dims, et)
    if init == "fill":
        p.lines.append(f"%seven = arith.constant {7.0 if acc[0] == 'f' else 7} : {acc}")
        p.lines.append(f"%init = linalg.fill ins(%seven : {acc}) outs(%init_e : {kind}) -> {kind}")
        start = np.full(p.shape(out), 7)
    else:
        dims = init.replace("all", out)
        c = labels(p.shape(dims), acc, 3)
        argument = p.argument(c, dims, acc)
        missing = [i for i, d in enumerate(out) if d not in dims]
        broadcast = f"linalg.broadcast ins({argument} : {p.type(dims, acc)}) outs(%init_e : {kind})"
        p.lines.append(f"%init = {broadcast} dimensions = {missing}" if missing else "")
        if not missing:
            p.lines.append(f"%init = linalg.copy ins({argument} : {kind}) outs(%init_e : {kind}) -> {kind}")
        start = np.expand_dims(c, tuple(missing))
    full = f"{copies}{spec}"
    y = p.contract(full, (weight, et), (activation, et), ("%init", acc), signs, op, loops)
    p.result = (y, kind)
    bits = {"u": f"u{NUMPY[et]().dtype.name}" if et[0] == "i" else et, "i": NUMPY[et], "f": NUMPY[et]}
    w64, a64 = (x.astype(bits[s]).astype(np.int64) for x, s in zip((w, a), signs, strict=True))
    return p, np.einsum(spec, w64, a64) + start


def check(p: Program, expected: np.ndarray, options: str = "") -> str:
    """The pass moves the one weight, and the results are exactly the same."""
    after, remarks = rewrite(p.text(), options)
    assert moved(remarks) == 1, remarks
    np.testing.assert_array_equal(run(after, p.inputs), expected)
    return after


# The identity itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("et", ["f32", "i32"])
@pytest.mark.parametrize("returned", ["product", "transposed product"])
def test_the_worked_example(et: str, returned: str) -> None:
    p = Program({"m": 2, "n": 2, "k": 3})
    weight, x = p.constant(W.astype(NUMPY[et]), et), p.argument(A.astype(NUMPY[et]), "kn", et)
    p.lines += [
        f"%zero = arith.constant {0.0 if et == 'f32' else 0} : {et}",
        f"%e = tensor.empty() : tensor<2x2x{et}>",
        f"%f = linalg.fill ins(%zero : {et}) outs(%e : tensor<2x2x{et}>) -> tensor<2x2x{et}>",
    ]
    y = p.contract("mk,kn->mn", (weight, et), (x, et), ("%f", et), op="matmul")
    p.result = (y, f"tensor<2x2x{et}>")
    if returned == "product":
        check(p, np.array([[4, 9], [7, -7]]))
        return
    p.lines.append(
        f"%t = linalg.transpose ins({y} : tensor<2x2x{et}>) outs(%e : tensor<2x2x{et}>) permutation = [1, 0]"
    )
    p.result = ("%t", f"tensor<2x2x{et}>")
    after = check(p, np.array([[4, 7], [9, -7]]))
    assert after.count("linalg.transpose") == 1  # of A; those of the result cancel


SQUARE = {"m": 4, "n": 4, "k": 4, "b": 4, "c": 4, "d": 4, "e": 4}
OBLONG = {"m": 5, "n": 7, "k": 3, "b": 2, "c": 3, "d": 1, "e": 2}


# PITFALL 14
@pytest.mark.parametrize("options", ["", "batch=batched"])
@pytest.mark.parametrize("sizes", [SQUARE, OBLONG], ids=["square", "oblong"])
@pytest.mark.parametrize("batch", ["", "b", "bc", "bcd", "bcde"])
@pytest.mark.parametrize(("weights", "signs"), [("shared", "ii"), ("shared", "iu"), ("copied", "uu"), ("paired", "ui")])
def test_batches(batch: str, weights: str, signs: str, sizes: dict[str, int], options: str) -> None:
    sizes = {**sizes, "c": 2, "e": 2} if len(batch) == 4 else sizes
    own = batch if weights == "paired" else ""
    copies = batch if weights == "copied" else ""
    p, expected = left(f"{own}mk,{batch}kn->{batch}mn", sizes, signs=signs, copies=copies)
    check(p, expected, options)


LAYOUTS = [
    "km,bkn->bmn",
    "mk,bnk->bnm",
    "mk,knb->nbm",
    "mk,bkn->mbn",
    "mk,bkn->nmb",
    "bmk,kbn->mnb",
    "hmk,bkn->bhmn",
    "mhk,bkcn->bchnm",
    "mkl,blkn->bmn",
    "lmk,kln->nm",
    "mk,k->m",
    "k,bkn->bn",
    "k,k->",
    "bk,bkn->bn",
    "bmk,bk->bm",
    "bk,bk->b",
]
LETTERS = {**dict(zip(string.ascii_lowercase, [2] * 26, strict=True)), **OBLONG, "h": 3, "l": 4}


# PITFALL 10
@pytest.mark.parametrize("options", ["", "batch=batched"])
@pytest.mark.parametrize("init", ["fill", "all"])
@pytest.mark.parametrize("spec", LAYOUTS)
def test_layouts(spec: str, init: str, options: str) -> None:
    p, expected = left(spec, LETTERS, init=init)
    check(p, expected, options)


@pytest.mark.parametrize("op", ["matmul", "batch_matmul", "matvec", "vecmat", "batch_matvec", "batch_vecmat", "dot"])
def test_named_ops(op: str) -> None:
    spec = {
        "matmul": "mk,kn->mn",
        "batch_matmul": "bmk,bkn->bmn",
        "matvec": "mk,k->m",
        "vecmat": "k,kn->n",
        "batch_matvec": "bmk,bk->bm",
        "batch_vecmat": "bk,bkn->bn",
        "dot": "k,k->",
    }[op]
    p, expected = left(spec, OBLONG, op=op)
    after = check(p, expected)
    assert "linalg.generic" not in after


# PITFALL 16
@pytest.mark.parametrize("dynamic", ["n", "b", "bn", "bcn"])
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("options", ["", "batch=batched"])
def test_dynamic_dims(dynamic: str, copies: bool, options: str) -> None:
    batch = "bc" if "c" in dynamic else "b"
    p, expected = left(f"mk,{batch}kn->{batch}mn", OBLONG, dynamic=dynamic, copies=batch if copies else "")
    check(p, expected, options)


# PITFALL 16
@pytest.mark.parametrize("dynamic", ["m", "k", "mk", "bmnk"])
@pytest.mark.parametrize("options", ["", "batch=batched"])
def test_dynamic_weights(dynamic: str, options: str) -> None:
    """A weight whose sizes are known when it is passed."""
    p = Program(OBLONG, dynamic)
    w, x, c = (labels(p.shape(dims), "i32", i) for i, dims in enumerate(["mk", "bkn", "bmn"]))
    weight = p.argument(w, "mk", "i32", " {qtranspose.constant}")
    activation, init = p.argument(x, "bkn", "i32"), p.argument(c, "bmn", "i32")
    p.result = (p.contract("mk,bkn->bmn", (weight, "i32"), (activation, "i32"), (init, "i32")), p.type("bmn", "i32"))
    check(p, w @ x + c, options)


# PITFALL 15
@pytest.mark.parametrize("empty", ["k", "n", "m", "b"])
@pytest.mark.parametrize("spec", ["mk,kn->mn", "mk,bkn->bmn", "bmk,bkn->bmn"])
def test_empty_dims(spec: str, empty: str) -> None:
    p, expected = left(spec, {**OBLONG, empty: 0}, init="all")
    check(p, expected)


# PITFALL 15
@pytest.mark.parametrize("spec", ["mk,kn->mn", "mk,bkn->bmn"])
def test_unit_dims(spec: str) -> None:
    for unit in "mnkb":
        p, expected = left(spec, {**OBLONG, unit: 1})
        check(p, expected)


# Derived constants --------------------------------------------------------------------------------------------------


# PITFALL 8
@pytest.mark.parametrize("resource", [False, True], ids=["dense", "resource"])
@pytest.mark.parametrize("et", ["i8", "i16", "i32", "f32"])
@pytest.mark.parametrize("spec", ["mk,kn->mn", "jmk,kn->jmn", "kmj,jkn->mn", "mjk,jkn->mn"])
def test_data_of_many_tiles(spec: str, et: str, resource: bool) -> None:
    """Sizes around the tiles in which data are moved, in every order of three dims."""
    p, expected = left(
        spec, {"m": 67, "k": 130, "j": 5, "n": 3}, et, "f32" if et == "f32" else "i32", resource=resource
    )
    check(p, expected)


BITS = {"i1": 1, "i2": 2, "i4": 4, "i8": 8, "f8E4M3FN": 8, "bf16": 16, "f16": 16, "f64": 64, "i64": 64}


STORED = [
    (et, storage) for et in BITS for storage in ("dense", "resource", "packed") if BITS[et] < 8 or storage != "packed"
]


@pytest.mark.parametrize(("et", "storage"), STORED)
def test_element_types(et: str, storage: str) -> None:
    """W^T of every element type, read back by multiplying with the identity."""
    m, k = 9, 5
    low = -(1 << (BITS[et] - 1)) if et in ("i2", "i4") else 0
    values = np.random.default_rng(0).integers(low, low + min(1 << BITS[et], 16), (m, k))
    p = Program({"m": m, "k": k, "n": k})
    kind = tensor((m, k), et)
    integer = et[0] == "i"
    if storage == "dense":
        p.lines.append(
            f"%w = arith.constant dense<{values.tolist() if integer else values.astype(float).tolist()}> : {kind}"
        )
    else:
        if storage == "packed":
            bits = (values.reshape(-1, 1) >> np.arange(BITS[et])) & 1
            data = np.packbits(bits.reshape(-1).astype(np.uint8), bitorder="little").tobytes()
        else:
            data = values.astype(np.int8 if BITS[et] < 8 else NUMPY[et]).tobytes()
        p.resources.append(f'w: "0x08000000{data.hex()}"')
        p.lines.append(f"%w = arith.constant dense_resource<w> : {kind}")
    convert = {"i1": "uitofp", "f64": "truncf"}.get(et, "sitofp" if integer else "extf")
    weight = p.elementwise("mk", "f32", [("%w", "mk", et)], f"  %v = arith.{convert} %x0 : {et} to f32")
    x = p.argument(np.eye(k, dtype=np.float32), "kn", "f32")
    p.lines += [
        "%zero = arith.constant 0.0 : f32",
        f"%e = tensor.empty() : {tensor((m, k), 'f32')}",
        f"%f = linalg.fill ins(%zero : f32) outs(%e : {tensor((m, k), 'f32')}) -> {tensor((m, k), 'f32')}",
    ]
    y = p.contract("mk,kn->mn", (weight, "f32"), (x, "f32"), ("%f", "f32"))
    p.result = (y, tensor((m, k), "f32"))
    after = check(p, values)
    assert "qtranspose.derived" in after


# Quantization -------------------------------------------------------------------------------------------------------


def grid(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Powers of two and their sums, all different per channel, so that every product is exact in f32."""
    return np.random.default_rng(seed).integers(1, 64, shape).astype(np.float32) / 16


# PITFALL 25
@pytest.mark.parametrize("sizes", [{"m": 6, "n": 5, "k": 4}, {"m": 4, "n": 4, "k": 4}], ids=["oblong", "square"])
@pytest.mark.parametrize("scale", ["", "m", "k", "mk"])
@pytest.mark.parametrize("zero", [None, "", "m", "k", "mk"])
@pytest.mark.parametrize("where", ["constant", "argument"])
def test_scales_and_zero_points(sizes: dict[str, int], scale: str, zero: str | None, where: str) -> None:
    """(q - z) * s with s and z per tensor, channel, position of the sum, and element."""
    p = Program(sizes)
    q = labels(p.shape("mk"), "i8", 1)
    x = labels(p.shape("kn"), "i8", 2).astype(np.float32)
    s = grid(tuple(p.shape(scale)), 3)
    stored = p.constant(q, "i8") if where == "constant" else p.argument(q, "mk", "i8")
    inputs = [(stored, "mk", "i8"), (p.constant(s, "f32"), scale, "f32")]
    body = ["%i = arith.extsi %x0 : i8 to i32"]
    difference = q.astype(np.int32)
    if zero is not None:
        z = labels(p.shape(zero), "i8", 4)
        inputs.append((p.constant(z, "i8"), zero, "i8"))
        body += ["%z = arith.extsi %x2 : i8 to i32", "%d = arith.subi %i, %z : i32"]
        difference = difference - np.expand_dims(z, tuple(i for i, d in enumerate("mk") if d not in zero))
    body += [f"%f = arith.sitofp {'%i' if zero is None else '%d'} : i32 to f32", "%v = arith.mulf %f, %x1 : f32"]
    weight = p.elementwise("mk", "f32", inputs, "\n".join(body))
    w = difference * np.expand_dims(s, tuple(i for i, d in enumerate("mk") if d not in scale)).astype(np.float64)
    activation = p.argument(x, "kn", "f32")
    kind = p.type("mn", "f32")
    p.lines += ["%zero = arith.constant 0.0 : f32", f"%e = tensor.empty() : {kind}"]
    p.lines.append(f"%init = linalg.fill ins(%zero : f32) outs(%e : {kind}) -> {kind}")
    p.result = (p.contract("mk,kn->mn", (weight, "f32"), (activation, "f32"), ("%init", "f32")), kind)
    after, remarks = rewrite(p.text())
    assert moved(remarks) == 1
    np.testing.assert_allclose(run(after, p.inputs), w @ x.astype(np.float64), rtol=1e-6, atol=1e-3)


PER_AXIS = {"m": ("i8", 0, [(0.5, 1), (0.25, -2)]), "k": ("u8", 1, [(0.5, 200), (2.0, 0), (0.125, 3)])}


# PITFALL 3
@pytest.mark.parametrize("axis", PER_AXIS)
def test_per_axis_types(axis: str) -> None:
    storage, number, parameters = PER_AXIS[axis]
    pairs = ", ".join(f"{s}:{z}" for s, z in parameters)
    quantized(
        f"{storage}:f32:{number}, {{{pairs}}}",
        np.array(parameters).T[:, :, None] if axis == "m" else np.array(parameters).T[:, None, :],
        W.astype(np.uint8) if storage == "u8" else W,
    )


# PITFALL 4
def test_sub_channel_types() -> None:
    w = np.array([[1, 2, 0, 4], [-1, 0, 3, 5]])
    scales, zeros = np.array([[0.5, 0.25], [1, 2]]), np.array([[1, 2], [0, 3]])
    spread = np.stack([scales, zeros]).repeat(2, axis=2)
    quantized("i8:f32:{0:1, 1:2}, {{0.5:1, 0.25:2}, {1.0, 2.0:3}}", spread, w)


# PITFALL 3
@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("dims", ["bmk", "bkm", "mbk", "mkb", "kbm", "kmb"])
def test_per_axis_types_of_three_dims(dims: str, axis: int) -> None:
    """Every order of three dims of distinct sizes: the axis follows its dim, not its number."""
    p = Program({"b": 2, "m": 3, "k": 4, "n": 5})
    w = labels(p.shape(dims), "i8", 1)
    count = w.shape[axis]
    spread = [1, 1, 1]
    spread[axis] = count
    scales, zeros = grid((count,), 2), labels((count,), "i8", 3)
    stored = p.constant(w, "i8")
    pairs = ", ".join(f"{s}:{z}" for s, z in zip(scales, zeros, strict=True))
    quant = tensor(w.shape, f"!quant.uniform<i8:f32:{axis}, {{{pairs}}}>")
    p.lines += [
        f"%q = quant.scast {stored} : {tensor(w.shape, 'i8')} to {quant}",
        f"%w = quant.dcast %q : {quant} to {tensor(w.shape, 'f32')}",
    ]
    x, init = labels((2, 4, 5), "i8", 4).astype(np.float32), np.zeros((2, 3, 5), np.float32)
    activation, start = p.argument(x, "bkn", "f32"), p.argument(init, "bmn", "f32")
    spec = f"{dims},bkn->bmn"
    p.result = (p.contract(spec, ("%w", "f32"), (activation, "f32"), (start, "f32")), p.type("bmn", "f32"))
    after, remarks = rewrite(p.text())
    assert moved(remarks) == 1 and "quant.dcast" in after
    values = (w.astype(np.float64) - zeros.reshape(spread)) * scales.reshape(spread)
    np.testing.assert_allclose(run(after, p.inputs), np.einsum(spec, values, x), rtol=1e-6, atol=1e-3)


# PITFALL 15
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("rank_reducing", [False, True])
def test_slices_of_a_larger_constant(stride: int, rank_reducing: bool) -> None:
    p = Program({"m": 3, "k": 4, "n": 5})
    whole = labels((2, 8, 9), "i8", 1)
    weight, x = p.constant(whole, "i8"), labels((4, 5), "i8", 2)
    window = whole[1, 1 : 1 + 3 * stride : stride, 1:5]
    result = "3x4" if rank_reducing else "1x3x4"
    p.lines.append(
        f"%cut = tensor.extract_slice {weight}[1, 1, 1] [1, 3, 4] [1, {stride}, 1] : "
        f"tensor<2x8x9xi8> to tensor<{result}xi8>"
    )
    if not rank_reducing:
        p.lines.append("%flat = tensor.collapse_shape %cut [[0, 1], [2]] : tensor<1x3x4xi8> into tensor<3x4xi8>")
    c = labels((3, 5), "i32", 3)
    activation, init = p.argument(x, "kn", "i8"), p.argument(c, "mn", "i32")
    operand = ("%cut" if rank_reducing else "%flat", "i8")
    p.result = (p.contract("mk,kn->mn", operand, (activation, "i8"), (init, "i32")), p.type("mn", "i32"))
    after = check(p, window.astype(np.int64) @ x + c)
    assert "qtranspose.derived" in after and "extract_slice" not in after


def quantized(element: str, parameters: np.ndarray, w: np.ndarray) -> None:
    """A weight of type `!quant.uniform<element>` that stores `w`; `parameters` broadcast to its scales and zeros."""
    m, k = w.shape
    p = Program({"m": m, "k": k, "n": 4})
    stored = p.constant(w.astype(np.int8), "i8")
    quant = tensor((m, k), f"!quant.uniform<{element}>")
    kind = p.type("mn", "f32")
    p.lines += [
        f"%q = quant.scast {stored} : {tensor((m, k), 'i8')} to {quant}",
        f"%w = quant.dcast %q : {quant} to {tensor((m, k), 'f32')}",
        "%zero = arith.constant 0.0 : f32",
        f"%e = tensor.empty() : {kind}",
        f"%init = linalg.fill ins(%zero : f32) outs(%e : {kind}) -> {kind}",
    ]
    x = labels((k, 4), "i8", 2).astype(np.float32)
    activation = p.argument(x, "kn", "f32")
    p.result = (p.contract("mk,kn->mn", ("%w", "f32"), (activation, "f32"), ("%init", "f32")), kind)
    scales, zeros = parameters
    after = check(p, ((w - zeros) * scales) @ x)
    assert "quant.dcast" in after


# PITFALL 12
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
def test_groups_along_the_sum(groups: int) -> None:
    """Scales and zero points per group of K, as frontends print them: through an expand and a collapse."""
    m, k, n = 6, 8, 5
    g = k // groups
    p = Program({"m": m, "k": k, "n": n, "g": groups, "i": g})
    q, s, z = labels((m, k), "i8", 1), grid((m, groups), 2), labels((m, groups), "i8", 3)
    stored = p.constant(q, "i8")
    p.lines.append(
        f"%split = tensor.expand_shape {stored} [[0], [1, 2]] output_shape [{m}, {groups}, {g}] : "
        f"{p.type('mk', 'i8')} into {p.type('mgi', 'i8')}"
    )
    inputs = [("%split", "mgi", "i8"), (p.constant(s, "f32"), "mg", "f32"), (p.constant(z, "i8"), "mg", "i8")]
    body = ["%a = arith.sitofp %x0 : i8 to f32", "%b = arith.sitofp %x2 : i8 to f32"]
    body += ["%d = arith.subf %a, %b : f32", "%v = arith.mulf %d, %x1 : f32"]
    spread = p.elementwise("mgi", "f32", inputs, "\n".join(body))
    p.lines.append(
        f"%w = tensor.collapse_shape {spread} [[0], [1, 2]] : {p.type('mgi', 'f32')} into {p.type('mk', 'f32')}"
    )
    x = labels((k, n), "i8", 4).astype(np.float32)
    activation = p.argument(x, "kn", "f32")
    kind = p.type("mn", "f32")
    p.lines += ["%zero = arith.constant 0.0 : f32", f"%e = tensor.empty() : {kind}"]
    p.lines.append(f"%init = linalg.fill ins(%zero : f32) outs(%e : {kind}) -> {kind}")
    p.result = (p.contract("mk,kn->mn", ("%w", "f32"), (activation, "f32"), ("%init", "f32")), kind)
    w = (q - z.repeat(g, axis=1).astype(np.float64)) * s.repeat(g, axis=1)
    after, remarks = rewrite(p.text())
    assert moved(remarks) == 1
    np.testing.assert_allclose(run(after, p.inputs), w @ x, rtol=1e-6, atol=1e-3)


# Accumulator and bias -----------------------------------------------------------------------------------------------


# PITFALL 17
@pytest.mark.parametrize("init", ["", "m", "n", "mn", "b", "bm", "all"])
@pytest.mark.parametrize("options", ["", "batch=batched"])
def test_accumulator(init: str, options: str) -> None:
    p, expected = left("mk,bkn->bmn", OBLONG, init=init or "fill")
    check(p, expected, options)


# PITFALL 17
@pytest.mark.parametrize("dims", ["", "m", "n", "b", "mn", "bm", "bmn"])
@pytest.mark.parametrize("first", [False, True], ids=["second", "first"])
@pytest.mark.parametrize("where", ["constant", "argument"])
def test_bias(dims: str, first: bool, where: str) -> None:
    """A bias along any dims in either order is added in the new layout, unless it would have to be transposed."""
    p, expected = left("mk,bkn->bmn", OBLONG)
    bias = labels(p.shape(dims), "i32", 5)
    operand = p.constant(bias, "i32") if where == "constant" else p.argument(bias, dims, "i32")
    inputs = [(p.result[0], "bmn", "i32"), (operand, dims, "i32")]
    if first:
        inputs.reverse()
    y = p.elementwise("bmn", "i32", inputs, "  %v = arith.subi %x0, %x1 : i32")
    p.result = (y, p.result[1])
    spread = np.expand_dims(bias, tuple(i for i, d in enumerate("bmn") if d not in dims))
    after = check(p, spread - expected if first else expected - spread)
    stays = where == "argument" and "m" in dims and ("n" in dims)
    order = [line for line in after.splitlines() if "linalg.transpose" in line or "arith.subi" in line]
    assert ("arith.subi" in order[-1]) == stays


def test_chains_keep_no_transposes_in_between() -> None:
    sizes = {"m": 5, "n": 7, "k": 3, "j": 4, "i": 6}
    p = Program(sizes)
    arrays = {dims: labels(p.shape(dims), "i8", i).astype(np.int32) for i, dims in enumerate(["mk", "jm", "ij"])}
    x = labels(p.shape("kn"), "i8", 9).astype(np.int32)
    value, reference = p.argument(x, "kn", "i32"), x.astype(np.int64)
    for dims, (before, after) in zip(arrays, pairwise("kmji"), strict=True):
        weight = p.constant(arrays[dims], "i32")
        kind, name = p.type(f"{after}n", "i32"), p.fresh("%f")
        p.lines += [f"{name}z = arith.constant 0 : i32", f"{name}e = tensor.empty() : {kind}"]
        p.lines.append(f"{name} = linalg.fill ins({name}z : i32) outs({name}e : {kind}) -> {kind}")
        value = p.contract(f"{dims},{before}n->{after}n", (weight, "i32"), (value, "i32"), (name, "i32"))
        bias = labels(p.shape(after), "i32", ord(after))
        inputs = [(value, f"{after}n", "i32"), (p.constant(bias, "i32"), after, "i32")]
        value = p.elementwise(f"{after}n", "i32", inputs, "  %v = arith.addi %x0, %x1 : i32")
        reference = arrays[dims] @ reference + bias[:, None]
    p.result = (value, p.type("in", "i32"))
    after, remarks = rewrite(p.text())
    assert moved(remarks) == 3
    np.testing.assert_array_equal(run(after, p.inputs), reference)
    assert after.count("linalg.transpose") == 2  # of the argument and of the result


# Programs of frontends ----------------------------------------------------------------------------------------------

LEFT = list({e.family: e for e in reversed(CATALOG) if "left" in e.family or e.family.startswith("op_")}.values())


@pytest.mark.parametrize("passes", ["", "qtranspose-fold-transpose-into-dequant,qtranspose-fuse-dequant-into-matmul"])
@pytest.mark.parametrize("entry", LEFT, ids=lambda entry: entry.family)
def test_catalog(entry: Entry, passes: str) -> None:
    program = entry.build()
    pipeline = f"qtranspose-static-lhs-to-rhs,{passes}" if passes else ""
    after, remarks = rewrite(program.mlir, passes=pipeline)
    if "left" in entry.family:  # "identity": the frontend moved it already
        assert (moved(remarks) > 0) == ("identity" not in entry.family)
    with ir.Context():
        results = execution.compile(ir.Module.parse(after))(*program.inputs)
    assert program.mismatch(results if isinstance(results, tuple) else (results,)) is None


FILES = sorted(f for pattern in ("torch_left/*", "onnx/*left*", "tflite/*left*", "iree/left*", "torch_extra/left*")
               for f in SHARED.glob(f"{pattern}.mlir"))  # fmt: skip
ALREADY_RIGHT = {"left_f32_bkn", "left_f32_bbkn", "left_conv1d_1x1_as_matmul"}
"""What PyTorch itself wrote as (x^T W^T)^T."""


@pytest.mark.skipif(not FILES, reason="no ../shared/inputs beside the checkout")
@pytest.mark.parametrize("options", ["", "batch=batched"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_shared_inputs(file: Path, options: str) -> None:
    after, remarks = rewrite(file.read_text(), options)
    name = file.stem.removesuffix(".input")
    assert moved(remarks) == (0 if name in ALREADY_RIGHT else 1), remarks
    data = np.load(file.with_suffix(".npz"))
    inputs = [data[f"in{i}"] for i in range(sum(key.startswith("in") for key in data))]
    result = run(after, inputs)
    np.testing.assert_allclose(result, data["out0"], rtol=1e-5, atol=1e-5)
    assert moved(rewrite(after)[1]) == 0


def test_patterns_agree_with_the_pass() -> None:
    p, expected = left("mk,bkn->bmn", OBLONG)
    with ir.Context() as context:
        module = ir.Module.parse(p.text())
        rounds = qt.apply_patterns(module, [qt.patterns.static_lhs_to_rhs(context)])
        text = str(module)
    assert rounds == 1
    np.testing.assert_array_equal(run(text, p.inputs), expected)
