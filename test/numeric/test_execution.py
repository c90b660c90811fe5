"""Compiled programs compute what NumPy computes: element types, quantized types, shapes, calls, state, memory."""

import gc
import math
import re
import sys
import threading

import ml_dtypes
import numpy as np
import pytest
import qtranspose as qt
from mlir import ir
from mlir.dialects import func, quant

EYE = "affine_map<(d0) -> (d0)>"


def build(source, **options):
    with ir.Context():
        return qt.compile(ir.Module.parse(source), **options)


def elementwise(body, arguments, result):
    """A program that applies `body` to tensors of any length: arguments are element types, %a %b ... in the body."""
    names = [chr(ord("a") + n) for n in range(len(arguments))]
    tensors = [f"tensor<?x{type}>" for type in arguments]
    return f"""
      func.func @f({", ".join(f"%t{n}: {t}" for n, t in zip(names, tensors, strict=True))}) -> tensor<?x{result}> {{
        %c0 = arith.constant 0 : index
        %n = tensor.dim %ta, %c0 : {tensors[0]}
        %e = tensor.empty(%n) : tensor<?x{result}>
        %r = linalg.generic {{indexing_maps = [{", ".join([EYE] * (len(names) + 1))}], iterator_types = ["parallel"]}}
            ins({", ".join(f"%t{n}" for n in names)} : {", ".join(tensors)}) outs(%e : tensor<?x{result}>) {{
        ^bb0({", ".join(f"%{n}: {t}" for n, t in zip(names, arguments, strict=True))}, %o: {result}):
          {body}
        }} -> tensor<?x{result}>
        return %r : tensor<?x{result}>
      }}"""


def same(got, want):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


# Integers


# PITFALL 23
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("signed", [True, False])
def test_sub_byte_arguments_keep_every_value(bits, signed):
    codes = np.arange(1 << bits, dtype=np.uint8)
    program = elementwise(
        f"%w = arith.ext{'s' if signed else 'u'}i %a : i{bits} to i32\nlinalg.yield %w : i32", [f"i{bits}"], "i32"
    )
    want = np.where(codes >> (bits - 1), codes.astype(np.int32) - (1 << bits), codes) if signed else codes
    same(build(program)(codes), want.astype(np.int32))
    # The same bits, read as two's complement.
    as_signed = np.where(codes >> (bits - 1), codes.astype(np.int16) - (1 << bits), codes).astype(np.int8)
    same(build(program)(as_signed), want.astype(np.int32))


@pytest.mark.parametrize(
    ("type", "dtype"),
    [("i4", np.int8), ("i3", np.int8), ("i12", np.int16), ("i24", np.int32), ("i48", np.int64)],
)
def test_narrow_integer_results_are_sign_extended(type, dtype):
    bits = int(type[1:])
    program = elementwise(f"%w = arith.trunci %a : i64 to {type}\nlinalg.yield %w : {type}", ["i64"], type)
    values = np.array([0, 1, -1, (1 << (bits - 1)) - 1, -(1 << (bits - 1)), 1 << bits], np.int64)
    same(build(program)(values), np.array([0, 1, -1, (1 << (bits - 1)) - 1, -(1 << (bits - 1)), 0], dtype))


# PITFALL 8
def test_i4_arithmetic_wraps():
    program = elementwise("%w = arith.muli %a, %b : i4\nlinalg.yield %w : i4", ["i4", "i4"], "i4")
    a, b = (g.ravel().astype(np.int8) for g in np.meshgrid(np.arange(-8, 8), np.arange(-8, 8)))
    want = ((a.astype(int) * b + 8) % 16 - 8).astype(np.int8)
    same(build(program)(a, b), want)
    same(build(program)(a.astype(ml_dtypes.int4), b.astype(ml_dtypes.int4)), want)


# PITFALL 6
def test_i1_results_and_arguments():
    less = elementwise("%c = arith.cmpf olt, %a, %b : f32\nlinalg.yield %c : i1", ["f32", "f32"], "i1")
    a, b = np.float32([1, 2, np.nan, -0.0]), np.float32([2, 1, 1, 0.0])
    same(build(less)(a, b), a < b)
    pick = elementwise("%w = arith.select %a, %b, %c : f32\nlinalg.yield %w : f32", ["i1", "f32", "f32"], "f32")
    mask = np.array([True, False, True, False])
    for given in (mask, mask.astype(np.uint8), mask.astype(np.int8)):
        same(build(pick)(given, a, b), np.where(mask, a, b))


def test_tensor_level_arith_on_i1():
    program = """func.func @f(%a: tensor<2x3xi32>, %b: tensor<2x3xi32>) -> (tensor<2x3xi1>, tensor<2x3xi32>) {
      %c = arith.cmpi ult, %a, %b : tensor<2x3xi32>
      %m = arith.select %c, %a, %b : tensor<2x3xi1>, tensor<2x3xi32>
      return %c, %m : tensor<2x3xi1>, tensor<2x3xi32>
    }"""
    a, b = np.int32([[1, -1, 3], [4, 5, 6]]), np.int32([[2, 1, 3], [-4, 0, 7]])
    mask, least = build(program)(a, b)
    same(mask, a.view(np.uint32) < b.view(np.uint32))
    same(least, np.minimum(a.view(np.uint32), b.view(np.uint32)).view(np.int32))


@pytest.mark.parametrize("type", ["ui8", "si8", "ui4", "si4", "ui16", "ui32", "si64"])
def test_signed_and_unsigned_elements_pass_through(type):
    bits, unsigned = int(type[2:]), type.startswith("u")
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    dtype = f"{'u' if unsigned else ''}int{max(8, bits)}"
    program = f"""func.func @f(%a: tensor<4x{type}>) -> tensor<2x2x{type}> {{
      %r = tensor.expand_shape %a [[0, 1]] output_shape [2, 2] : tensor<4x{type}> into tensor<2x2x{type}>
      return %r : tensor<2x2x{type}>
    }}"""
    values = np.array([low, high, 1, high // 2 + (1 if unsigned else 0)], dtype)
    same(build(program)(values), values.reshape(2, 2))
    with pytest.raises(qt.QTransposeError, match=r"argument 0 of @f has dtype"):
        build(program)(values.view(f"{'' if unsigned else 'u'}int{max(8, bits)}"))


# PITFALL 6
def test_bitcasts_of_sub_byte_elements():
    """The bits above an element's width say how it was read, and must not show when it is read in another way."""
    program = """func.func @f(%a: tensor<?xi4>, %b: tensor<?xui4>) -> (tensor<?xui4>, tensor<?xi4>, tensor<?xf32>) {
      %0 = tensor.bitcast %a : tensor<?xi4> to tensor<?xui4>
      %1 = tensor.bitcast %b : tensor<?xui4> to tensor<?xi4>
      %2 = tensor.bitcast %a : tensor<?xi4> to tensor<?xf4E2M1FN>
      %3 = arith.extf %2 : tensor<?xf4E2M1FN> to tensor<?xf32>
      return %0, %1, %3 : tensor<?xui4>, tensor<?xi4>, tensor<?xf32>
    }"""
    signed, unsigned = np.arange(-8, 8, dtype=np.int8), np.arange(16, dtype=np.uint8)
    results = build(program)(signed, unsigned)
    same(results[0], signed.view(np.uint8) & 15)
    same(results[1], np.where(unsigned < 8, unsigned, unsigned - 16.0).astype(np.int8))
    same(results[2], (signed.view(np.uint8) & 15).view(ml_dtypes.float4_e2m1fn).astype(np.float32))


# PITFALL 22
def test_unsigned_storage_above_127():
    program = elementwise("%w = arith.uitofp %a : i8 to f32\nlinalg.yield %w : f32", ["i8"], "f32")
    codes = np.arange(256, dtype=np.uint8)
    same(build(program)(codes), codes.astype(np.float32))
    same(build(program)(codes.view(np.int8)), codes.astype(np.float32))


# PITFALL 6
@pytest.mark.parametrize(
    ("attribute", "want"),
    [
        ("dense<[-1, -8, 7, 3]> : tensor<4xi4>", [-1, -8, 7, 3]),
        ("dense<-3> : tensor<4xi4>", [-3] * 4),
        ("dense<[1, 0, 3, 2]> : tensor<4xi2>", [1, 0, -1, -2]),
        ("dense_resource<bytes> : tensor<4xi4>", [-1, -8, 7, 3]),
        ("dense_resource<packed> : tensor<4xi4>", [-1, -8, 7, 3]),
        ("dense_resource<packed3> : tensor<5xi3>", [1, 2, 3, -4, -1]),
    ],
)
def test_narrow_constants(attribute, want):
    type = attribute.split(" : ")[1]
    element = re.search(r"x(i\d)>", type)[1]
    program = f"""func.func @f() -> {type.replace(element, "i32")} {{
      %c = arith.constant {attribute}
      %r = arith.extsi %c : {type} to {type.replace(element, "i32")}
      return %r : {type.replace(element, "i32")}
    }}
    {{-# dialect_resources: {{ builtin: {{
      bytes: "0x010000000F080703", packed: "0x010000008F37", packed3: "0x01000000D178" }} }} #-}}"""
    same(build(program)(), np.int32(want))


def test_i1_constants():
    bits = np.random.default_rng(0).random(37) < 0.5
    text = ", ".join("true" if b else "false" for b in bits)
    program = f"""func.func @f() -> (tensor<37xi1>, tensor<3xi1>) {{
      %c = arith.constant dense<[{text}]> : tensor<37xi1>
      %s = arith.constant dense<true> : tensor<3xi1>
      return %c, %s : tensor<37xi1>, tensor<3xi1>
    }}"""
    mixed, splat = build(program)()
    same(mixed, bits)
    same(splat, np.ones(3, bool))


def test_index_tensors():
    program = """func.func @f(%i: tensor<3xindex>, %t: tensor<5xf32>) -> (tensor<3xf32>, tensor<3xindex>) {
      %e = tensor.empty() : tensor<3xf32>
      %g = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
          iterator_types = ["parallel"]} ins(%i : tensor<3xindex>) outs(%e : tensor<3xf32>) {
      ^bb0(%n: index, %o: f32):
        %v = tensor.extract %t[%n] : tensor<5xf32>
        linalg.yield %v : f32
      } -> tensor<3xf32>
      %two = arith.constant dense<2> : tensor<3xindex>
      %d = arith.muli %i, %two : tensor<3xindex>
      return %g, %d : tensor<3xf32>, tensor<3xindex>
    }"""
    index, table = np.int64([4, 0, 2]), np.arange(5, dtype=np.float32) * 10
    gathered, doubled = build(program)(index, table)
    same(gathered, table[index])
    same(doubled, index * 2)


# Floats

SMALL_FLOATS = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E3M4": ml_dtypes.float8_e3m4,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}
WIDE_FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def interesting_floats(dtype, small):
    """Values of `dtype` at and around every value of `small`, and halfway between neighbours."""
    exact = np.arange(256, dtype=np.uint8).view(small).astype(np.float64)
    exact = np.unique(exact[np.isfinite(exact)])
    middle = (exact[1:] + exact[:-1]) / 2
    values = np.concatenate([exact, middle, exact * 4, [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-30, 1e30]])
    with np.errstate(over="ignore"):
        values = values.astype(dtype)
    if dtype in (np.float32, np.float64):
        values = np.concatenate([values, np.nextafter(values, dtype(np.inf)), np.nextafter(values, dtype(-np.inf))])
    return values


def bits_of(array):
    """The bits, with one pattern for all NaNs."""
    bits = array.view(f"uint{8 * array.dtype.itemsize}").astype(np.uint64)
    return np.where(np.isnan(array.astype(np.float64)), np.uint64(1 << 63), bits)


@pytest.mark.parametrize("wide", WIDE_FLOATS)
@pytest.mark.parametrize("small", SMALL_FLOATS)
def test_every_code_of_small_floats(small, wide):
    if small == "f8E8M0FNU" and wide == "f16":
        pytest.skip("f16 has a smaller range")
    codes = np.arange(256, dtype=np.uint8).view(SMALL_FLOATS[small])
    program = elementwise(f"%w = arith.extf %a : {small} to {wide}\nlinalg.yield %w : {wide}", [small], wide)
    got, want = build(program)(codes), codes.astype(np.float64).astype(WIDE_FLOATS[wide])
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(bits_of(got), bits_of(want))


@pytest.mark.parametrize("wide", WIDE_FLOATS)
@pytest.mark.parametrize("small", [s for s in SMALL_FLOATS if s != "f8E8M0FNU"])
def test_rounding_to_small_floats(small, wide):
    values = interesting_floats(WIDE_FLOATS[wide], SMALL_FLOATS[small])
    program = elementwise(f"%w = arith.truncf %a : {wide} to {small}\nlinalg.yield %w : {small}", [wide], small)
    got = build(program)(values)
    # ml_dtypes rounds f64 twice.
    want = nearest(values, SMALL_FLOATS[small]) if wide == "f64" else values.astype(SMALL_FLOATS[small])
    wrong = bits_of(got) != bits_of(want)
    assert not wrong.any(), (values[wrong][:5], got[wrong][:5], want[wrong][:5])


def nearest(values, small):
    """Round f64 to nearest even by way of an f32 that is rounded to odd, which makes the second rounding exact."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
        inexact = np.isfinite(values) & (single.astype(np.float64) != values)
        toward_zero = np.where(
            np.abs(single.astype(np.float64)) > np.abs(values), np.nextafter(single, np.float32(0)), single
        )
    odd = np.where(inexact, (toward_zero.view(np.uint32) | 1).view(np.float32), single)
    return odd.astype(small)


@pytest.mark.parametrize(("wide", "narrow"), [("f32", "bf16"), ("f64", "bf16"), ("f64", "f16"), ("f32", "f16")])
def test_rounding_to_sixteen_bits(wide, narrow):
    with np.errstate(invalid="ignore"):
        codes = np.arange(1 << 16, dtype=np.uint16).view(WIDE_FLOATS[narrow]).astype(np.float64)
    exact = np.unique(codes[np.isfinite(codes)])
    values = np.concatenate([exact, (exact[1:] + exact[:-1]) / 2, [np.inf, -np.inf, np.nan, 1e39, -1e39]])
    values = np.concatenate([values, np.nextafter(values, np.inf), np.nextafter(values, -np.inf)])
    with np.errstate(over="ignore"):
        values = values.astype(WIDE_FLOATS[wide])
    program = elementwise(f"%w = arith.truncf %a : {wide} to {narrow}\nlinalg.yield %w : {narrow}", [wide], narrow)
    with np.errstate(over="ignore"):
        # ml_dtypes rounds f64 twice.
        want = nearest(values, ml_dtypes.bfloat16) if narrow == "bf16" else values.astype(WIDE_FLOATS[narrow])
    np.testing.assert_array_equal(bits_of(build(program)(values)), bits_of(want))


@pytest.mark.parametrize("type", ["bf16", "f16", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ"])
@pytest.mark.parametrize("op", ["addf", "subf", "mulf", "divf", "maximumf"])
def test_small_float_arithmetic_rounds_once(type, op):
    dtype = {**WIDE_FLOATS, **SMALL_FLOATS}[type]
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(4096).astype(dtype) for _ in range(2))
    program = elementwise(f"%w = arith.{op} %a, %b : {type}\nlinalg.yield %w : {type}", [type, type], type)
    numpy_op = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide, "maximumf": np.maximum}[op]
    with np.errstate(all="ignore"):
        want = numpy_op(a.astype(np.float32), b.astype(np.float32)).astype(dtype)
    np.testing.assert_array_equal(bits_of(build(program)(a, b)), bits_of(want))


@pytest.mark.parametrize("type", ["bf16", "f16", "f32", "f64"])
@pytest.mark.parametrize("op", ["exp", "tanh", "rsqrt", "sin", "erf", "log1p", "floor", "roundeven", "sqrt"])
def test_math_functions(type, op):
    dtype = WIDE_FLOATS[type]
    x = (np.random.default_rng(2).random(200) * 4 + 0.01).astype(dtype)
    program = elementwise(f"%w = math.{op} %a : {type}\nlinalg.yield %w : {type}", [type], type)
    reference = {
        "rsqrt": lambda v: 1 / np.sqrt(v),
        "erf": np.vectorize(math.erf),
        "roundeven": np.rint,
    }.get(op) or getattr(np, op)
    want = reference(x.astype(np.float64))
    tolerance = {"bf16": 4e-3, "f16": 1e-3, "f32": 1e-6, "f64": 1e-14}[type]
    np.testing.assert_allclose(build(program)(x).astype(np.float64), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("type", ["bf16", "f8E5M2"])
def test_integers_to_and_from_small_floats(type):
    dtype = {**WIDE_FLOATS, **SMALL_FLOATS}[type]
    integers = np.concatenate([np.arange(-300, 300), [2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31)]]).astype(np.int32)
    program = elementwise(f"%w = arith.sitofp %a : i32 to {type}\nlinalg.yield %w : {type}", ["i32"], type)
    got = build(program)(integers)
    np.testing.assert_array_equal(bits_of(got), bits_of(nearest(integers.astype(np.float64), dtype)))
    back = elementwise(f"%w = arith.fptosi %a : {type} to i32\nlinalg.yield %w : i32", [type], "i32")
    small = np.arange(-30, 30).astype(dtype)
    same(build(back)(small), small.astype(np.int32))


@pytest.mark.parametrize("cast", ["sitofp", "uitofp"])
def test_wide_integers_are_rounded_once(cast):
    """Through f64, what is just above the middle of two bf16 would become the middle."""
    middles = [(2**e + m * 2 ** (e - 7)) + 2 ** (e - 8) for e in (20, 52, 53, 54, 62) for m in (0, 1, 127)]
    integers = [sign * (middle + by) for middle in middles for by in (-1, 0, 1) for sign in (1, -1)]
    integers += [0, 2**53 + 1, 2**63 - 1, -(2**63), -(2**53) - 1]
    if cast == "uitofp":
        integers = [integer % 2**64 for integer in integers]
    dtype = {"sitofp": np.int64, "uitofp": np.uint64}[cast]
    program = elementwise(f"%w = arith.{cast} %a : i64 to bf16\nlinalg.yield %w : bf16", ["i64"], "bf16")
    got = build(program)(np.array(integers, dtype).view(np.int64)).astype(np.float64)

    def nearest_bf16(integer):
        unit = max(abs(integer).bit_length() - 8, 0)
        quotient, rest = divmod(abs(integer), 2**unit)
        half = 2**unit / 2
        return math.copysign((quotient + (rest > half or (rest == half > 0 and quotient % 2))) * 2.0**unit, integer)

    same(got, np.array([nearest_bf16(integer) for integer in integers]))


# Quantized types

QUANT_CASES = {
    "per layer": ("!quant.uniform<i8:f32, 0.25:3>", np.full((6, 8), 0.25), np.full((6, 8), 3), (-128, 127)),
    "unsigned": ("!quant.uniform<u8:f32, 0.5:200>", np.full((6, 8), 0.5), np.full((6, 8), 200), (0, 255)),
    "clamped": ("!quant.uniform<i8<-127:127>:f32, 0.5>", np.full((6, 8), 0.5), np.zeros((6, 8)), (-127, 127)),
    "i4": ("!quant.uniform<i4:f32, 0.5:-2>", np.full((6, 8), 0.5), np.full((6, 8), -2), (-8, 7)),
    "u4": ("!quant.uniform<u4:f32, 0.5:9>", np.full((6, 8), 0.5), np.full((6, 8), 9), (0, 15)),
    "i16": ("!quant.uniform<i16:f32, 0.001:-7>", np.full((6, 8), 0.001), np.full((6, 8), -7), (-32768, 32767)),
    "axis 0": (
        "!quant.uniform<i8:f32:0, {0.5:1,0.25:-2,2.0:3,0.125:-4,1.0:5,4.0:-6}>",
        np.repeat([[0.5], [0.25], [2.0], [0.125], [1.0], [4.0]], 8, 1),
        np.repeat([[1], [-2], [3], [-4], [5], [-6]], 8, 1),
        (-128, 127),
    ),
    "axis 1 unsigned": (
        "!quant.uniform<u8:f32:1, {0.5:128,0.25:255,2.0:0,0.125:1,1.0:129,4.0:2,8.0:3,0.5:254}>",
        np.repeat([[0.5, 0.25, 2.0, 0.125, 1.0, 4.0, 8.0, 0.5]], 6, 0),
        np.repeat([[128, 255, 0, 1, 129, 2, 3, 254]], 6, 0),
        (0, 255),
    ),
    "blocks": (
        "!quant.uniform<i8:f32:{0:3, 1:4}, {{0.5:3, 0.25:4}, {2.0:0, 0.125:127}}>",
        np.kron([[0.5, 0.25], [2.0, 0.125]], np.ones((3, 4))),
        np.kron([[3, 4], [0, 127]], np.ones((3, 4))),
        (-128, 127),
    ),
    "blocks of one axis": (
        "!quant.uniform<i4:f32:{0:1, 1:4}, {{0.5:3, 0.25:4}, {2.0:0, 0.125:7}, {1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0},"
        "{7.0, 8.0}}>",
        np.kron([[0.5, 0.25], [2.0, 0.125], [1, 2], [3, 4], [5, 6], [7, 8]], np.ones((1, 4))),
        np.kron([[3, 4], [0, 7], [0, 0], [0, 0], [0, 0], [0, 0]], np.ones((1, 4))),
        (-8, 7),
    ),
}


# PITFALL 4
@pytest.mark.parametrize("shape", ["6x8", "?x?"])
@pytest.mark.parametrize("case", QUANT_CASES)
def test_dcast(case, shape):
    type, scale, zero_point, (low, high) = QUANT_CASES[case]
    bits = int(re.search(r"<[iu](\d+)", type)[1])
    program = f"""func.func @f(%a: tensor<{shape}xi{bits}>) -> tensor<{shape}xf32> {{
      %q = quant.scast %a : tensor<{shape}xi{bits}> to tensor<{shape}x{type}>
      %r = quant.dcast %q : tensor<{shape}x{type}> to tensor<{shape}xf32>
      return %r : tensor<{shape}xf32>
    }}"""
    stored = np.random.default_rng(3).integers(low, high, (6, 8), endpoint=True)
    dtype = f"{'u' if low == 0 else ''}int{max(8, bits)}"
    want = ((stored - zero_point).astype(np.float32) * scale.astype(np.float32)).astype(np.float32)
    same(build(program)(stored.astype(dtype)), want)


# PITFALL 5
@pytest.mark.parametrize("shape", ["6x8", "?x?"])
@pytest.mark.parametrize("case", QUANT_CASES)
def test_qcast(case, shape):
    type, scale, zero_point, (low, high) = QUANT_CASES[case]
    bits = int(re.search(r"<[iu](\d+)", type)[1])
    program = f"""func.func @f(%a: tensor<{shape}xf32>) -> tensor<{shape}xi{bits}> {{
      %q = quant.qcast %a : tensor<{shape}xf32> to tensor<{shape}x{type}>
      %r = quant.scast %q : tensor<{shape}x{type}> to tensor<{shape}xi{bits}>
      return %r : tensor<{shape}xi{bits}>
    }}"""
    # Halves of a step show how ties round; the ends saturate.
    rng = np.random.default_rng(4)
    real = (rng.integers(-40, 40, (6, 8)) / 2 * scale).astype(np.float32)
    real[0, :4] = [np.inf, -np.inf, 1e30, -1e30]
    want = np.clip(np.rint(real / scale.astype(np.float32)) + zero_point, low, high).astype(np.int64)
    got = build(program)(real)
    np.testing.assert_array_equal(got.astype(np.int64) & ((1 << bits) - 1), want & ((1 << bits) - 1))


# PITFALL 4
def test_negative_zero_points_of_blocks():
    # MLIR 22.1.8 cannot parse such a type, but programs can build it.
    scales, zero_points = np.float32([[0.5, 0.25], [2.0, 0.125]]), np.int8([[-3, 4], [-128, 127]])
    with ir.Context(), ir.Location.unknown():
        i8, f32 = ir.IntegerType.get_signless(8), ir.F32Type.get()
        type = quant.UniformQuantizedSubChannelType.get(
            quant.QuantizedType.FLAG_SIGNED,
            i8,
            f32,
            ir.DenseElementsAttr.get(scales),
            ir.DenseElementsAttr.get(zero_points, type=i8),
            [0, 1],
            [3, 4],
            -128,
            127,
        )
        stored, quantized, real = (ir.RankedTensorType.get([6, 8], element) for element in (i8, type, f32))
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("f", ([stored], [real]))
            with ir.InsertionPoint(function.add_entry_block()):
                cast = ir.Operation.create("quant.scast", [quantized], [function.arguments[0]]).result
                func.ReturnOp([ir.Operation.create("quant.dcast", [real], [cast]).result])
        compiled = qt.compile(module)
    values = np.random.default_rng(5).integers(-128, 127, (6, 8), np.int8, endpoint=True)
    zero_point, scale = (np.kron(p, np.ones((3, 4))) for p in (zero_points, scales))
    same(compiled(values), ((values - zero_point) * scale).astype(np.float32))


def test_qcast_of_nan_is_the_storage_minimum():
    program = """func.func @f(%a: tensor<1xf32>) -> tensor<1xi8> {
      %q = quant.qcast %a : tensor<1xf32> to tensor<1x!quant.uniform<i8<-127:127>:f32, 0.5:3>>
      %r = quant.scast %q : tensor<1x!quant.uniform<i8<-127:127>:f32, 0.5:3>> to tensor<1xi8>
      return %r : tensor<1xi8>
    }"""
    same(build(program)(np.float32([np.nan])), np.int8([-127]))


@pytest.mark.parametrize(
    ("expressed", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f64", np.float64)]
)
def test_dcast_to_other_floats(expressed, dtype):
    type = f"!quant.uniform<i8:{expressed}, 0.3:-5>"
    program = f"""func.func @f(%a: tensor<256x{type}>) -> tensor<256x{expressed}> {{
      %r = quant.dcast %a : tensor<256x{type}> to tensor<256x{expressed}>
      return %r : tensor<256x{expressed}>
    }}"""
    # A quantized type at the boundary is its storage.
    program = program.replace(f"%a: tensor<256x{type}>", "%s: tensor<256xi8>").replace(
        "%r =", f"%a = quant.scast %s : tensor<256xi8> to tensor<256x{type}>\n%r ="
    )
    stored = np.arange(-128, 128, dtype=np.int8)
    want = ((stored.astype(np.float64) + 5) * np.float64(dtype(0.3))).astype(
        np.float32 if dtype != np.float64 else dtype
    )
    same(build(program)(stored), want.astype(dtype))


# Shapes


def test_dynamic_sizes_and_several_results():
    program = """func.func @f(%a: tensor<?x3xf32>, %b: tensor<?x3xf32>)
        -> (tensor<?x3xf32>, index, tensor<3x?xf32>, i1, f64) {
      %c0 = arith.constant 0 : index
      %n = tensor.dim %a, %c0 : tensor<?x3xf32>
      %j = tensor.concat dim(0) %a, %b : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
      %e = tensor.empty(%n) : tensor<3x?xf32>
      %t = linalg.transpose ins(%a : tensor<?x3xf32>) outs(%e : tensor<3x?xf32>) permutation = [1, 0]
      %yes = arith.constant true
      %pi = arith.constant 3.25 : f64
      return %j, %n, %t, %yes, %pi : tensor<?x3xf32>, index, tensor<3x?xf32>, i1, f64
    }"""
    function = build(program)
    for n, m in ((2, 5), (0, 4), (7, 0), (0, 0)):
        a = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        b = -np.arange(3 * m, dtype=np.float32).reshape(m, 3)
        joined, size, transposed, yes, pi = function(a, b)
        same(joined, np.concatenate([a, b]))
        same(transposed, a.T)
        assert (size, yes, pi) == (n, True, 3.25)
        assert size.dtype == np.int64 and yes.dtype == np.bool_ and pi.dtype == np.float64


@pytest.mark.parametrize("results", ["%y, %y", "%y, %z", "%z, %y, %y"])
def test_results_that_are_one_value_are_arrays_of_their_own(results):
    count = results.count("%")
    types = ", ".join(["tensor<3xf32>"] * count)
    body = """
      %0 = tensor.empty() : tensor<3xf32>
      %1 = linalg.add ins(%x, %x : tensor<3xf32>, tensor<3xf32>) outs(%0 : tensor<3xf32>) -> tensor<3xf32>"""
    returned = build(f"""
    func.func private @twice(%x: tensor<3xf32>) -> tensor<3xf32> {{{body}
      return %1 : tensor<3xf32>
    }}
    func.func @f(%x: tensor<3xf32>) -> ({types}) {{
      %y = call @twice(%x) : (tensor<3xf32>) -> tensor<3xf32>
      %z = call @twice(%x) : (tensor<3xf32>) -> tensor<3xf32>
      return {results} : {types}
    }}""")(np.array([1, 2, 3], np.float32))
    for number, array in enumerate(returned):
        same(array, np.array([2, 4, 6], np.float32))
        array[:] = number
    assert [array[0] for array in returned] == list(range(count))


# PITFALL 15
def test_sum_over_nothing_is_the_initial_value():
    program = """func.func @f(%a: tensor<2x0xf32>, %b: tensor<0x3xf32>, %c: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %r = linalg.matmul ins(%a, %b : tensor<2x0xf32>, tensor<0x3xf32>) outs(%c : tensor<2x3xf32>) -> tensor<2x3xf32>
      return %r : tensor<2x3xf32>
    }"""
    c = np.arange(6, dtype=np.float32).reshape(2, 3)
    same(build(program)(np.empty((2, 0), np.float32), np.empty((0, 3), np.float32), c), c)


def test_arrays_need_not_be_contiguous_and_are_not_changed():
    program = """func.func @f(%a: tensor<3x4xf32>, %b: tensor<3x4xf32>) -> tensor<3x4xf32> {
      %r = linalg.add ins(%a, %b : tensor<3x4xf32>, tensor<3x4xf32>) outs(%a : tensor<3x4xf32>) -> tensor<3x4xf32>
      return %r : tensor<3x4xf32>
    }"""
    function = build(program)
    base = np.arange(48, dtype=np.float32).reshape(8, 6)
    views = [base[::3, 1:5], base[:4, :3].T, base[2::-1, 3::-1], base[:3, :4][::-1]]
    before = base.copy()
    for a in views:
        a.flags.writeable = False
        for b in views:
            same(function(a, b), a + b)
    unaligned = np.frombuffer(bytes(1) + base[:3, :4].tobytes(), np.uint8)[1:].view(np.float32).reshape(3, 4)
    same(function(unaligned, unaligned), 2 * unaligned)
    same(base, before)


def test_results_are_distinct_from_arguments_and_each_other():
    program = """func.func @f(%a: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<2xf32>) {
      %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
      return %a, %a, %c : tensor<3xf32>, tensor<3xf32>, tensor<2xf32>
    }"""
    function = build(program)
    a = np.float32([1, 2, 3])
    first, second, constant = function(a)
    first[:] = 7
    constant[:] = 9
    same(second, np.float32([1, 2, 3]))
    same(a, np.float32([1, 2, 3]))
    same(function(a)[2], np.float32([1, 2]))


def test_scalars_of_every_kind():
    types = ["i1", "i4", "i8", "i32", "i64", "index", "f16", "bf16", "f32", "f64", "f8E4M3FN"]
    names = ", ".join(f"%a{n}: {t}" for n, t in enumerate(types))
    values = ", ".join(f"%a{n}" for n in range(len(types)))
    program = f"func.func @f({names}) -> ({', '.join(types)}) {{\nreturn {values} : {', '.join(types)}\n}}"
    given = [True, -3, -100, -(2**31), 2**63 - 1, -5, 1.5, -2.5, 3.25, 1e300, 0.4375]
    got = build(program)(*given)
    assert [v.item() for v in got] == given
    assert [v.ndim for v in got] == [0] * len(types)


def test_rank_zero_tensor():
    program = """func.func @f(%a: tensor<f32>) -> tensor<f32> {
      %r = arith.negf %a : tensor<f32>
      return %r : tensor<f32>
    }"""
    same(build(program)(np.float32(2.5)), np.array(-2.5, np.float32))


# Structure


def test_private_calls_branches_and_loops():
    program = """
      func.func private @scale(%a: tensor<4xf32>, %s: f32) -> tensor<4xf32> {
        %e = tensor.empty() : tensor<4xf32>
        %f = linalg.fill ins(%s : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
        %r = linalg.mul ins(%a, %f : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
        return %r : tensor<4xf32>
      }
      func.func @f(%a: tensor<4xf32>, %n: index, %flag: i1) -> tensor<4xf32> {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %two = arith.constant 2.0 : f32
        %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (tensor<4xf32>) {
          %y = func.call @scale(%x, %two) : (tensor<4xf32>, f32) -> tensor<4xf32>
          scf.yield %y : tensor<4xf32>
        }
        %s = scf.if %flag -> (tensor<4xf32>) {
          %z = func.call @scale(%r, %two) : (tensor<4xf32>, f32) -> tensor<4xf32>
          scf.yield %z : tensor<4xf32>
        } else {
          scf.yield %a : tensor<4xf32>
        }
        cf.cond_br %flag, ^left(%s : tensor<4xf32>), ^right(%r : tensor<4xf32>)
      ^left(%l: tensor<4xf32>):
        return %l : tensor<4xf32>
      ^right(%q: tensor<4xf32>):
        %w = linalg.add ins(%q, %s : tensor<4xf32>, tensor<4xf32>) outs(%q : tensor<4xf32>) -> tensor<4xf32>
        return %w : tensor<4xf32>
      }"""
    function = build(program)
    a = np.float32([1, -2, 3, 4])
    same(function(a, 3, True), a * 16)
    same(function(a, 0, True), a * 2)
    same(function(a, 2, False), a * 4 + a)
    same(a, np.float32([1, -2, 3, 4]))


def test_recursion():
    program = """
      func.func private @down(%a: tensor<2xi32>, %n: i32) -> tensor<2xi32> {
        %zero = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        %more = arith.cmpi sgt, %n, %zero : i32
        %r = scf.if %more -> (tensor<2xi32>) {
          %m = arith.subi %n, %one : i32
          %x = func.call @up(%a, %m) : (tensor<2xi32>, i32) -> tensor<2xi32>
          scf.yield %x : tensor<2xi32>
        } else {
          scf.yield %a : tensor<2xi32>
        }
        return %r : tensor<2xi32>
      }
      func.func private @up(%a: tensor<2xi32>, %n: i32) -> tensor<2xi32> {
        %b = arith.addi %a, %a : tensor<2xi32>
        %x = func.call @down(%b, %n) : (tensor<2xi32>, i32) -> tensor<2xi32>
        return %x : tensor<2xi32>
      }
      func.func @f(%a: tensor<2xi32>, %n: i32) -> tensor<2xi32> {
        %x = func.call @down(%a, %n) : (tensor<2xi32>, i32) -> tensor<2xi32>
        return %x : tensor<2xi32>
      }"""
    a = np.int32([1, 3])
    function = build(program)
    for n in (0, 1, 10):
        same(function(a, n), a << n)
    same(a, np.int32([1, 3]))


def test_function_is_chosen_by_name_and_names_of_the_library_are_free():
    program = """
      func.func private @hidden(%a: tensor<2xf32>) -> tensor<2xf32> {
        return %a : tensor<2xf32>
      }
      func.func @malloc(%a: tensor<2xf32>) -> tensor<2xf32> {
        %r = math.exp %a : tensor<2xf32>
        return %r : tensor<2xf32>
      }
      func.func @exp(%a: tensor<2xf32>) -> tensor<2xf32> {
        %b = func.call @malloc(%a) : (tensor<2xf32>) -> tensor<2xf32>
        %r = arith.negf %b : tensor<2xf32>
        return %r : tensor<2xf32>
      }"""
    a = np.float32([0.5, 1])
    np.testing.assert_allclose(build(program)(a), np.exp(a), rtol=1e-6)
    np.testing.assert_allclose(build(program, function="exp")(a), -np.exp(a), rtol=1e-6)
    same(build(program, function="hidden")(a), a)
    with pytest.raises(qt.QTransposeError, match="no function @other"):
        build(program, function="other")


def test_state_is_kept_between_calls_and_per_executable():
    program = """
      ml_program.global private mutable @seen(dense<0> : tensor<2xi8>) : tensor<2xi8>
      ml_program.global private @step(dense<[1, 10]> : tensor<2xi8>) : tensor<2xi8>
      func.func @f() -> (tensor<2xi8>, tensor<2xi8>) {
        %old = ml_program.global_load @seen : tensor<2xi8>
        %step = ml_program.global_load_const @step : tensor<2xi8>
        %new = arith.addi %old, %step : tensor<2xi8>
        ml_program.global_store @seen = %new : tensor<2xi8>
        return %old, %new : tensor<2xi8>, tensor<2xi8>
      }"""
    first, second = build(program), build(program)
    for n in range(3):
        old, new = first()
        same(old, np.int8([n, 10 * n]))
        same(new, np.int8([n + 1, 10 * n + 10]))
    same(second()[0], np.int8([0, 0]))


def test_failed_assertion_is_an_error_and_the_next_call_works():
    program = """func.func @f(%a: tensor<?xf32>) -> (tensor<?xf32>, i32) {
      %c0 = arith.constant 0 : index
      %n = tensor.dim %a, %c0 : tensor<?xf32>
      %e = tensor.empty(%n) : tensor<?xf32>
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %seven = arith.constant 7 : i32
      %some = arith.cmpi sgt, %n, %c0 : index
      cf.assert %some, "nothing to do"
      %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
          iterator_types = ["parallel"]} ins(%a : tensor<?xf32>) outs(%e : tensor<?xf32>) {
      ^bb0(%x: f32, %o: f32):
        %ok = arith.cmpf one, %x, %zero : f32
        cf.assert %ok, "division by zero"
        %y = arith.divf %one, %x : f32
        linalg.yield %y : f32
      } -> tensor<?xf32>
      return %r, %seven : tensor<?xf32>, i32
    }"""
    function = build(program)
    good = np.float32([2, 4])
    for _ in range(3):
        with pytest.raises(qt.QTransposeError, match="@f: assertion failed: division by zero"):
            function(np.float32([1, 0, 2]))
        with pytest.raises(qt.QTransposeError, match="nothing to do"):
            function(np.float32([]))
        same(function(good)[0], 1 / good)


def test_state_of_other_types():
    program = """
      ml_program.global private mutable @count(3 : i32) : i32
      ml_program.global private mutable @flags(dense<[true, false]> : tensor<2xi1>) : tensor<2xi1>
      ml_program.global private mutable @low(dense<-3> : tensor<2xi4>) : tensor<2xi4>
      func.func @f(%set: tensor<2xi1>) -> (i32, tensor<2xi1>, tensor<2xi4>) {
        %n = ml_program.global_load @count : i32
        %one = arith.constant 1 : i32
        %m = arith.addi %n, %one : i32
        ml_program.global_store @count = %m : i32
        %old = ml_program.global_load @flags : tensor<2xi1>
        ml_program.global_store @flags = %set : tensor<2xi1>
        %low = ml_program.global_load @low : tensor<2xi4>
        %less = arith.addi %low, %low : tensor<2xi4>
        ml_program.global_store @low = %less : tensor<2xi4>
        return %n, %old, %low : i32, tensor<2xi1>, tensor<2xi4>
      }"""
    function = build(program)
    want = np.array([True, False])
    for call in range(4):
        given = np.array([call % 2 == 0, True])
        count, flags, low = function(given)
        assert count == 3 + call
        same(flags, want)
        same(low, np.int8([(-3 << call) + 8 & 15] * 2) - np.int8(8))
        want = given


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "takes 2 arguments, got 0"),
        ((np.zeros((4, 2), np.float32),), "takes 2 arguments, got 1"),
        ((np.zeros((4, 2)), 1), r"argument 0 of @f has dtype float64, expected float32 for tensor<\?x2xf32>"),
        ((np.zeros((4, 3), np.float32), 1), r"argument 0 of @f has shape \[4, 3\], expected tensor<\?x2xf32>"),
        ((np.zeros(2, np.float32), 1), r"argument 0 of @f has shape \[2\]"),
        ((np.zeros((4, 2), ">f4"), 1), "argument 0 of @f has dtype >f4"),
        ((np.zeros((4, 2), np.float32), 1.5), "argument 1 of @f is 1.5, expected an integer"),
        ((np.zeros((4, 2), np.float32), 9), "argument 1 of @f is 9, out of range for i3"),
        ((np.zeros((4, 2), np.float32), np.int8(-5)), "argument 1 of @f has the value -5, out of range"),
        ((None, 1), "argument 0 of @f has dtype object"),
    ],
)
def test_wrong_arguments(arguments, message):
    program = """func.func @f(%a: tensor<?x2xf32>, %n: i3) -> tensor<?x2xf32> {
      return %a : tensor<?x2xf32>
    }"""
    with pytest.raises(qt.QTransposeError, match=message):
        build(program)(*arguments)


# PITFALL 9
@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("func.func @f(%a: tensor<*xf32>) -> tensor<*xf32> { return %a : tensor<*xf32> }", "unsupported type"),
        ("func.func @f(%a: tensor<2xcomplex<f32>>) { return }", "unsupported element type 'complex<f32>'"),
        ("func.func @f(%a: tensor<2xi128>) { return }", "unsupported element type 'i128'"),
        ("func.func @f(%a: tensor<2xf80>) { return }", "unsupported element type 'f80'"),
        ("func.func @f(%a: vector<2xf32>) { return }", "unsupported type 'vector<2xf32>'"),
        ("func.func @f(%a: memref<2xf32>) { return }", "only tensors and scalars"),
        ("func.func @f(%a: tuple<f32>) { return }", "unsupported element type"),
        ("func.func @f(%a: tensor<2x!quant.uniform<i8:f32, 1.0>>) { return }", "unsupported element type '!quant"),
        ("func.func private @f(%a: tensor<2xf32>)", "no public function with a body"),
        ("module {}", "no public function with a body"),
        (
            "func.func @f() -> tensor<2xf32> { %r = func.call @g() : () -> tensor<2xf32>\n return %r : tensor<2xf32>}\n"
            "func.func private @g() -> tensor<2xf32>",
            "calls 'g', which has no body",
        ),
        (
            "func.func @f() { %c = arith.constant dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>\n return }",
            "does not support complex numbers",
        ),
        (
            "#csr = #sparse_tensor.encoding<{ map = (d0, d1) -> (d0 : dense, d1 : compressed) }>\n"
            "func.func @f(%a: tensor<2x2xf32, #csr>) { return }",
            "does not support sparse tensors",
        ),
        (
            "func.func @f() -> tensor<4xf32> { %c = arith.constant dense_resource<gone> : tensor<4xf32>\n"
            "return %c : tensor<4xf32> }",
            "data of dense_resource 'gone' is missing",
        ),
        (
            "func.func @f() -> tensor<4xf32> { %c = arith.constant dense_resource<short> : tensor<4xf32>\n"
            'return %c : tensor<4xf32> }\n{-# dialect_resources: { builtin: { short: "0x0400000000000000" } } #-}',
            "'short' holds 4 bytes, which is not what",
        ),
        (
            "func.func @f(%a: tensor<4xf32>) -> tensor<4xf8E8M0FNU> { %r = arith.truncf %a : tensor<4xf32> to "
            "tensor<4xf8E8M0FNU>\n return %r : tensor<4xf8E8M0FNU> }",
            "'f8E8M0FNU' is not supported",
        ),
        (
            "!q = !quant.uniform<i8:f32:0, {1.0, 2.0}>\n"
            "func.func @f(%s: tensor<2x2xi8>, %e: tensor<2x2xi8>) -> tensor<2x2xi8> {\n"
            "%a = quant.scast %s : tensor<2x2xi8> to tensor<2x2x!q>\n"
            "%b = quant.scast %e : tensor<2x2xi8> to tensor<2x2x!q>\n"
            "%t = linalg.transpose ins(%a : tensor<2x2x!q>) outs(%b : tensor<2x2x!q>) permutation = [1, 0]\n"
            "%r = quant.scast %t : tensor<2x2x!q> to tensor<2x2xi8>\nreturn %r : tensor<2x2xi8> }",
            "quantized type has an axis",
        ),
    ],
)
def test_unsupported_programs_are_refused_in_one_sentence(program, message, capfd):
    with pytest.raises(qt.QTransposeError, match=message) as error:
        build(program)
    assert "\n" not in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_bad_requests():
    program = "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
    with pytest.raises(qt.QTransposeError, match="unknown target 'tpu'"):
        build(program, target="tpu")
    for threads in (0, -1, 1.5, True):
        with pytest.raises(qt.QTransposeError, match="threads must be a positive integer"):
            build(program, threads=threads)


# The object


def test_module_is_not_changed_and_may_be_gone():
    program = elementwise("%w = arith.addf %a, %a : f32\nlinalg.yield %w : f32", ["f32"], "f32")
    with ir.Context():
        module = ir.Module.parse(program)
        before = str(module)
        function = qt.compile(module)
        assert str(module) == before
        assert [str(t) for t in function.input_types] == ["tensor<?xf32>"]
        assert [str(t) for t in function.output_types] == ["tensor<?xf32>"]
        assert "@f(tensor<?xf32>) -> (tensor<?xf32>)" in repr(function)
    del module
    gc.collect()
    same(function(np.float32([1, 2])), np.float32([2, 4]))


def test_results_outlive_the_executable():
    program = elementwise("%w = arith.addf %a, %a : f32\nlinalg.yield %w : f32", ["f32"], "f32")
    result = build(program)(np.arange(1000, dtype=np.float32))
    gc.collect()
    same(result[::2], np.arange(0, 2000, 4, dtype=np.float32))


def test_calls_from_many_threads():
    program = """func.func @f(%a: tensor<?x64xf32>, %b: tensor<64x64xf32>) -> tensor<?x64xf32> {
      %c0 = arith.constant 0 : index
      %n = tensor.dim %a, %c0 : tensor<?x64xf32>
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty(%n) : tensor<?x64xf32>
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x64xf32>) -> tensor<?x64xf32>
      %r = linalg.matmul ins(%a, %b : tensor<?x64xf32>, tensor<64x64xf32>)
          outs(%z : tensor<?x64xf32>) -> tensor<?x64xf32>
      return %r : tensor<?x64xf32>
    }"""
    function = build(program)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        b = rng.integers(-8, 8, (64, 64)).astype(np.float32)
        for n in range(1, 40):
            a = rng.integers(-8, 8, (n, 64)).astype(np.float32)
            if not np.array_equal(function(a, b), a @ b):
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_compiling_in_many_threads():
    results = {}

    def work(number):
        program = elementwise(
            f"%k = arith.constant {number}.0 : f32\n%w = arith.mulf %a, %k : f32\nlinalg.yield %w : f32", ["f32"], "f32"
        )
        results[number] = build(program)(np.float32([1, 2]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(6):
        same(results[number], np.float32([1, 2]) * number)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_freed():
    # Intermediates, results, results that are arguments or constants, and branches that allocate.
    program = """func.func @f(%a: tensor<256x256xf32>, %flag: i1)
        -> (tensor<256x256xf32>, tensor<256x256xf32>, tensor<4096xi1>) {
      %c = arith.constant dense<true> : tensor<4096xi1>
      %b = math.exp %a : tensor<256x256xf32>
      %e = tensor.empty() : tensor<256x256xf32>
      %t = linalg.transpose ins(%b : tensor<256x256xf32>) outs(%e : tensor<256x256xf32>) permutation = [1, 0]
      %r = scf.if %flag -> (tensor<256x256xf32>) {
        %d = arith.addf %t, %b : tensor<256x256xf32>
        scf.yield %d : tensor<256x256xf32>
      } else {
        scf.yield %t : tensor<256x256xf32>
      }
      return %a, %r, %c : tensor<256x256xf32>, tensor<256x256xf32>, tensor<4096xi1>
    }"""
    function = build(program)
    a = np.zeros((256, 256), np.float32)
    for n in range(50):
        function(a, n % 2)
    before = resident_bytes()
    for n in range(1000):
        function(a, n % 2)
    assert resident_bytes() - before < 16 << 20  # one leaked buffer per call would be 250 MiB
