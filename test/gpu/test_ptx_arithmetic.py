"""Every arithmetic, bit and conversion instruction of the PTX emulator, against NumPy or Python's integers."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from ptx_programs import elementwise
from qtranspose.gpu.ptx import PTXError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
RNG = np.random.default_rng(7)
DTYPES = {
    "u16": np.uint16,
    "s16": np.int16,
    "u32": np.uint32,
    "s32": np.int32,
    "u64": np.uint64,
    "s64": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
}
INTEGERS = ["u16", "s16", "u32", "s32", "u64", "s64"]
FLOATS = ["f16", "bf16", "f32", "f64"]


def bits(name):
    return 8 * np.dtype(DTYPES[name]).itemsize


def values(name, count=64, seed=0):
    """Random numbers and the extremes of a type."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[name]
    if name not in FLOATS:
        info = np.iinfo(dtype)
        array = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
        array[:6] = [info.min, info.max, 0, 1, info.max - 1, info.min + 1]
        array[6:20] = rng.integers(0, 9, 14)
        rng.shuffle(array)
        return array
    array = (rng.standard_normal(count) * np.exp2(rng.integers(-6, 6, count))).astype(dtype)
    array[:8] = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5]).astype(dtype)
    rng.shuffle(array)
    return array


def wrapped(number, name):
    """A Python integer as an element of a type, its high bits dropped."""
    number &= (1 << bits(name)) - 1
    return number - (1 << bits(name)) if name[0] == "s" and number >> (bits(name) - 1) else number


def same(got, want):
    want = np.asarray(want).astype(got.dtype)
    width = f"u{got.dtype.itemsize}"
    nan = got != got
    assert np.array_equal(nan, want != want)
    np.testing.assert_array_equal(got[~nan].view(width), want[~nan].view(width))


def by_integers(function, name, *arrays, result=None):
    result = result or name
    want = [wrapped(function(*(int(v) for v in row)), result) for row in zip(*arrays, strict=True)]
    return np.array(want, DTYPES[result])


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize(
    ("opcode", "function"),
    [
        ("add", lambda a, b: a + b),
        ("sub", lambda a, b: a - b),
        ("mul.lo", lambda a, b: a * b),
        ("min", min),
        ("max", max),
    ],
)
def test_integer_arithmetic(opcode, function, name):
    a, b = values(name, seed=1), values(name, seed=2)
    same(elementwise(f"{opcode}.{name} %d, %a0, %a1;", [a, b], a.dtype), by_integers(function, name, a, b))


@pytest.mark.parametrize("name", INTEGERS)
def test_high_half_of_a_product(name):
    a, b = values(name, seed=1), values(name, seed=2)
    want = by_integers(lambda x, y: (x * y) >> bits(name), name, a, b)
    same(elementwise(f"mul.hi.{name} %d, %a0, %a1;", [a, b], a.dtype), want)


@pytest.mark.parametrize("name", ["u16", "s16", "u32", "s32"])
def test_wide_products(name):
    a, b = values(name, seed=1), values(name, seed=2)
    wide = f"{name[0]}{2 * bits(name)}"
    c = values(wide, seed=3)
    want = by_integers(lambda x, y: x * y, name, a, b, result=wide)
    same(elementwise(f"mul.wide.{name} %d, %a0, %a1;", [a, b], DTYPES[wide]), want)
    want = by_integers(lambda x, y, z: x * y + z, name, a, b, c, result=wide)
    same(elementwise(f"mad.wide.{name} %d, %a0, %a1, %a2;", [a, b, c], DTYPES[wide]), want)
    want = by_integers(lambda x, y, z: x * y + z, name, a, b, a)
    same(elementwise(f"mad.lo.{name} %d, %a0, %a1, %a0;", [a, b], a.dtype), want)


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_division_truncates(name):
    a, b = values(name, seed=1), values(name, seed=2)
    b[b == 0] = 3
    keep = ~((b.astype(object) == -1) & (a == np.iinfo(a.dtype).min))
    a, b = np.where(keep, a, 5).astype(a.dtype), b
    exact = by_integers(lambda x, y: (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1), name, a, b)
    same(elementwise(f"div.{name} %d, %a0, %a1;", [a, b], a.dtype), exact)
    rest = by_integers(lambda x, y: x - (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) * y, name, a, b)
    same(elementwise(f"rem.{name} %d, %a0, %a1;", [a, b], a.dtype), rest)


@pytest.mark.parametrize("name", ["s16", "s32", "s64"])
def test_signs_of_integers(name):
    a = values(name)
    same(elementwise(f"neg.{name} %d, %a0;", [a], a.dtype), by_integers(lambda x: -x, name, a))
    same(elementwise(f"abs.{name} %d, %a0;", [a], a.dtype), by_integers(abs, name, a))


@pytest.mark.parametrize("name", ["b16", "b32", "b64"])
def test_logic(name):
    unsigned = "u" + name[1:]
    a, b = values(unsigned, seed=1), values(unsigned, seed=2)
    for opcode, want in [("and", a & b), ("or", a | b), ("xor", a ^ b)]:
        same(elementwise(f"{opcode}.{name} %d, %a0, %a1;", [a, b], a.dtype), want)
    same(elementwise(f"not.{name} %d, %a0;", [a], a.dtype), ~a)


@pytest.mark.parametrize("name", ["b16", "b32", "b64", "s16", "s32", "s64", "u32"])
def test_shifts_beyond_the_width(name):
    type = name if name[0] == "s" else "u" + name[1:]
    a = values(type)
    amounts = RNG.integers(0, 2 * bits(type), len(a)).astype(np.uint32)
    amounts[:3] = 0, bits(type) - 1, bits(type)
    want = by_integers(lambda x, s: x >> s, type, a, amounts)
    same(elementwise(f"shr.{name} %d, %a0, %a1;", [a, amounts], a.dtype), want)
    if name[0] == "b":
        want = by_integers(lambda x, s: x << s, type, a, amounts)
        same(elementwise(f"shl.{name} %d, %a0, %a1;", [a, amounts], a.dtype), want)


def test_funnel_shifts():
    low, high = values("u32", seed=1), values("u32", seed=2)
    amounts = RNG.integers(0, 80, len(low)).astype(np.uint32)
    for mode, limit in [("clamp", lambda s: min(s, 32)), ("wrap", lambda s: s % 32)]:
        both = [int(h) << 32 | int(x) for x, h in zip(low, high, strict=True)]
        left = np.array([(v << limit(int(s)) >> 32) % 2**32 for v, s in zip(both, amounts, strict=True)], np.uint32)
        right = np.array([(v >> limit(int(s))) % 2**32 for v, s in zip(both, amounts, strict=True)], np.uint32)
        same(elementwise(f"shf.l.{mode}.b32 %d, %a0, %a1, %a2;", [low, high, amounts], np.uint32), left)
        same(elementwise(f"shf.r.{mode}.b32 %d, %a0, %a1, %a2;", [low, high, amounts], np.uint32), right)


@pytest.mark.parametrize("table", [0xE8, 0x96, 0xCA, 0x00, 0xFF, 0xEA])
def test_lop3(table):
    a, b, c = (values("u32", seed=s) for s in range(3))
    want = np.zeros_like(a)
    for bit in range(32):
        index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
        want |= ((table >> index) & 1).astype(np.uint32) << np.uint32(bit)
    same(elementwise(f"lop3.b32 %d, %a0, %a1, %a2, {table:#x};", [a, b, c], np.uint32), want)


def test_permuted_bytes():
    a, b, selectors = (values("u32", seed=s) for s in range(3))

    def permute(low, high, selector):
        data = (low | high << 32).to_bytes(8, "little")
        result = 0
        for byte in range(4):
            code = selector >> 4 * byte & 15
            value = data[code & 7]
            result |= (255 * (value >> 7) if code & 8 else value) << 8 * byte
        return result

    want = by_integers(permute, "u32", a, b, selectors)
    same(elementwise("prmt.b32 %d, %a0, %a1, %a2;", [a, b, selectors], np.uint32), want)


@pytest.mark.parametrize("name", ["u32", "s32", "u64", "s64"])
def test_extracted_fields(name):
    a = values(name, 256)
    start, count = (RNG.integers(0, bits(name) + 9, len(a)).astype(np.uint32) for _ in range(2))
    count[:20] = 0

    def extract(value, first, length):  # Word for word the definition in the PTX manual.
        top = bits(name) - 1
        sign = 0 if name[0] == "u" or length == 0 else value >> min(first + length - 1, top) & 1
        picked = [value >> (first + i) & 1 if i < length and first + i <= top else sign for i in range(top + 1)]
        return sum(bit << i for i, bit in enumerate(picked))

    want = by_integers(extract, name, a, start, count)
    same(elementwise(f"bfe.{name} %d, %a0, %a1, %a2;", [a, start, count], a.dtype), want)


@pytest.mark.parametrize("name", ["b32", "b64"])
def test_counted_bits(name):
    a = values("u" + name[1:])
    want = np.array([int(v).bit_count() for v in a], np.uint32)
    same(elementwise(f"popc.{name} %d, %a0;", [a], np.uint32), want)
    want = np.array([bits("u" + name[1:]) - int(v).bit_length() for v in a], np.uint32)
    same(elementwise(f"clz.{name} %d, %a0;", [a], np.uint32), want)


def test_dot_products_of_bytes():
    a, b, c = values("u32", seed=1), values("u32", seed=2), values("s32", seed=3)
    for left in "us":
        for right in "us":
            x = a.view(np.uint8 if left == "u" else np.int8).reshape(-1, 4).astype(np.int64)
            y = b.view(np.uint8 if right == "u" else np.int8).reshape(-1, 4).astype(np.int64)
            want = (c + (x * y).sum(1)).astype(np.int32)
            same(elementwise(f"dp4a.{left}32.{right}32 %d, %a0, %a1, %a2;", [a, b, c], np.int32), want)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(("opcode", "function"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)])
def test_float_arithmetic(opcode, function, name):
    a, b = values(name, seed=1), values(name, seed=2)
    with np.errstate(all="ignore"):
        same(elementwise(f"{opcode}.rn.{name} %d, %a0, %a1;", [a, b], a.dtype), function(a, b))


@pytest.mark.parametrize("name", ["f16x2", "bf16x2"])
def test_packed_arithmetic(name):
    a, b, c = (values(name[:-2], 128, seed=s) for s in range(3))
    pairs = [v.view(np.uint32) for v in (a, b, c)]
    with np.errstate(all="ignore"):
        got = elementwise(f"add.rn.{name} %d, %a0, %a1;", pairs[:2], np.uint32)
        same(got.view(a.dtype), a + b)
        got = elementwise(f"fma.rn.{name} %d, %a0, %a1, %a2;", pairs, np.uint32)
        same(got.view(a.dtype), exact_fma(a, b, c))
    same(elementwise(f"neg.{name} %d, %a0;", pairs[:1], np.uint32).view(a.dtype), -a)


def exact_fma(a, b, c):
    """Rounded once, by rational arithmetic."""
    results = []
    for x, y, z in zip(a.astype(float), b.astype(float), c.astype(float), strict=True):
        if not all(map(math.isfinite, (x, y, z))) or x * y == 0:
            results.append(np.float64(x) * y + z)
            continue
        results.append(nearest(Fraction(x) * Fraction(y) + Fraction(z), a.dtype))
    return np.array(results).astype(a.dtype)


def nearest(number, dtype):
    """The element of a float type that is nearest to a rational number, ties to even."""
    near = np.array(float(number)).astype(np.float32).astype(dtype)
    around = sorted({nudge(near, step) for step in (-1, 0, 1)})
    best = min(
        around, key=lambda value: (abs(Fraction(value) - number), np.array(value, dtype).view(unsigned(dtype)) & 1)
    )
    return best if number or not np.signbit(near) else -best


def unsigned(dtype):
    return f"u{np.dtype(dtype).itemsize}"


def nudge(value, step):
    ordinal = int(value.view(unsigned(value.dtype)).view(f"i{value.dtype.itemsize}"))
    moved = np.array(max(ordinal + step, 0) if ordinal >= 0 else ordinal + step).astype(f"i{value.dtype.itemsize}")
    return float(moved.view(value.dtype))


@pytest.mark.parametrize("name", ["f16", "bf16", "f32"])
def test_fma_rounds_once(name):
    rng = np.random.default_rng(3)
    a, b = ((rng.integers(-4096, 4096, 512) * np.exp2(rng.integers(-3, 3, 512))).astype(DTYPES[name]) for _ in range(2))
    # Addends far below, and such that sums lie near the middle between two numbers.
    c = (a.astype(float) * b.astype(float) * np.exp2(rng.integers(-30, 3, 512))).astype(DTYPES[name])
    finite = np.isfinite(c.astype(float)) & np.isfinite(a.astype(float) * b.astype(float)) & (np.abs(c) < 3e4)
    a, b, c = (
        np.where(finite & (np.abs(a.astype(float) * b.astype(float)) < 3e4), v, v.dtype.type(1)) for v in (a, b, c)
    )
    same(elementwise(f"fma.rn.{name} %d, %a0, %a1, %a2;", [a, b, c], a.dtype), exact_fma(a, b, c))


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_division_and_roots(name):
    a, b = np.abs(values(name, seed=1)), values(name, seed=2)
    with np.errstate(all="ignore"):
        same(elementwise(f"div.rn.{name} %d, %a0, %a1;", [a, b], a.dtype), a / b)
        same(elementwise(f"sqrt.rn.{name} %d, %a0;", [a], a.dtype), np.sqrt(a))
        same(elementwise(f"rcp.rn.{name} %d, %a0;", [b], a.dtype), a.dtype.type(1) / b)


def test_approximate_functions():
    a = np.linspace(-8, 8, 64, dtype=np.float32)
    for opcode, want in [("ex2", np.exp2(a)), ("sin", np.sin(a)), ("cos", np.cos(a)), ("tanh", np.tanh(a))]:
        np.testing.assert_allclose(elementwise(f"{opcode}.approx.f32 %d, %a0;", [a], np.float32), want, rtol=1e-6)
    a = np.exp2(a)
    for opcode, want in [("lg2", np.log2(a)), ("rsqrt", 1 / np.sqrt(a)), ("sqrt", np.sqrt(a)), ("rcp", 1 / a)]:
        np.testing.assert_allclose(elementwise(f"{opcode}.approx.f32 %d, %a0;", [a], np.float32), want, rtol=1e-6)


def test_subnormals_flushed_on_request():
    a = np.float32([1e-40, -1e-40, 1e-20, 2.0])
    same(elementwise("add.rn.ftz.f32 %d, %a0, 0f00000000;", [a], np.float32), np.float32([0, 0, 1e-20, 2]))
    same(elementwise("mul.rn.ftz.f32 %d, %a0, %a0;", [a], np.float32), np.float32([0, 0, 0, 4]))
    same(elementwise("mul.rn.f32 %d, %a0, 0f3F000000;", [a], np.float32), a / 2)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_extrema_ignore_nan_unless_asked(name):
    a, b = values(name, seed=1), values(name, seed=2)
    a[:4], b[:4] = [0.0, -0.0, 0.0, -0.0], [-0.0, 0.0, 0.0, -0.0]
    for opcode, quiet, strict in [("min", np.fmin, np.minimum), ("max", np.fmax, np.maximum)]:
        want = quiet(a, b)
        want[:4] = [-0.0, -0.0, 0.0, -0.0] if opcode == "min" else [0.0, 0.0, 0.0, -0.0]
        same(elementwise(f"{opcode}.{name} %d, %a0, %a1;", [a, b], a.dtype), want)
        if name != "f64":
            nan = np.isnan(strict(a, b).astype(float))
            got = elementwise(f"{opcode}.NaN.{name} %d, %a0, %a1;", [a, b], a.dtype)
            assert np.isnan(got[nan].astype(float)).all()
            same(got[~nan], want[~nan])


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_signs_of_floats(name):
    a, b = values(name, seed=1), values(name, seed=2)
    same(elementwise(f"neg.{name} %d, %a0;", [a], a.dtype), -a)
    same(elementwise(f"abs.{name} %d, %a0;", [a], a.dtype), np.abs(a))
    if name in ("f32", "f64"):
        same(elementwise(f"copysign.{name} %d, %a0, %a1;", [a, b], a.dtype), np.copysign(b, a))


ORDERED = {"eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


@pytest.mark.parametrize("name", ["u16", "s32", "u64", "f16", "bf16", "f32", "f64"])
def test_comparisons(name):
    a, b = values(name, seed=1), values(name, seed=2)
    b[::3] = a[::3]
    either = (a != a) | (b != b)
    cases = {**{op: f(a, b) for op, f in ORDERED.items()}, "ne": (a != b) & ~either}
    if name in FLOATS:
        cases |= {f"{op}u": f(a, b) | either for op, f in ORDERED.items()}
        cases |= {"neu": (a != b) | either, "num": ~either, "nan": either}
    for op, want in cases.items():
        np.testing.assert_array_equal(elementwise(f"setp.{op}.{name} %p, %a0, %a1;", [a, b], np.bool_), want)


def test_unsigned_comparisons_by_name():
    a, b = values("u32", seed=1), values("u32", seed=2)
    for op, want in [("lo", a < b), ("ls", a <= b), ("hi", a > b), ("hs", a >= b)]:
        np.testing.assert_array_equal(elementwise(f"setp.{op}.u32 %p, %a0, %a1;", [a, b], np.bool_), want)


def test_comparison_with_logic_and_two_results():
    a, b = values("s32", seed=1), values("s32", seed=2)
    code = "setp.lt.s32 %q1, %a0, 0; setp.gt.and.s32 %p|%q1, %a0, %a1, %q1;"
    np.testing.assert_array_equal(elementwise(code, [a, b], np.bool_), (a > b) & (a < 0))
    code = "setp.lt.s32 %q1, %a0, 0; setp.gt.or.s32 %q1|%p, %a0, %a1, %q1;"
    np.testing.assert_array_equal(elementwise(code, [a, b], np.bool_), ~(a > b) | (a < 0))


def test_selection():
    a, b = values("f32", seed=1), values("f32", seed=2)
    same(elementwise("setp.lt.f32 %p, %a0, %a1; selp.f32 %d, %a0, %a1, %p;", [a, b], np.float32), np.where(a < b, a, b))


@pytest.mark.parametrize("source", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("to", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_conversions(source, to):
    dtype = np.dtype(f"{'i' if source[0] == 's' else 'u'}{int(source[1:]) // 8}")
    a = np.random.default_rng(1).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 64, dtype=dtype, endpoint=True)
    got = elementwise(f"cvt.{to}.{source} %d, %a0;", [a], DTYPES[to])
    same(got, by_integers(lambda v: v, to, a))
    info = np.iinfo(DTYPES[to])
    clipped = np.array([min(max(int(v), info.min), info.max) for v in a], DTYPES[to])
    same(elementwise(f"cvt.sat.{to}.{source} %d, %a0;", [a], DTYPES[to]), clipped)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("to", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_floats_to_integers_saturate(name, to):
    rng = np.random.default_rng(1)
    a = (rng.standard_normal(64) * np.exp2(rng.integers(-3, 70, 64))).astype(DTYPES[name])
    a[:6] = np.array([np.nan, np.inf, -np.inf, 0.5, -0.5, 2.5]).astype(a.dtype)
    dtype = np.dtype(f"{'i' if to[0] == 's' else 'u'}{int(to[1:]) // 8}")
    info = np.iinfo(dtype)
    for mode, integral in [("rzi", math.trunc), ("rni", round), ("rmi", math.floor), ("rpi", math.ceil)]:
        want = [
            0 if math.isnan(v) else info.max if v == math.inf else info.min if v == -math.inf
            else min(max(integral(v), info.min), info.max)
            for v in a.astype(float)
        ]  # fmt: skip
        got = elementwise(f"cvt.{mode}.{to}.{name} %d, %a0;", [a], f"{dtype.kind}{max(2, dtype.itemsize)}")
        np.testing.assert_array_equal(got, np.array(want, dtype))


@pytest.mark.parametrize(
    ("to", "name"),
    [(to, name) for to in ("f16", "f32", "f64") for name in INTEGERS]
    + [("bf16", name) for name in INTEGERS if bits(name) < 64],
)
def test_integers_to_floats(to, name):
    a = values(name)
    with np.errstate(over="ignore"):
        want = a.astype(DTYPES[to]) if to != "bf16" else a.astype(np.float32).astype(DTYPES[to])
        if to == "bf16" and bits(name) == 32:
            want = np.array([nearest(Fraction(int(v)), ml_dtypes.bfloat16) for v in a]).astype(ml_dtypes.bfloat16)
        same(elementwise(f"cvt.rn.{to}.{name} %d, %a0;", [a], DTYPES[to]), want)


@pytest.mark.parametrize(("to", "name"), [("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f16", "f64")])
def test_narrowing_of_floats(to, name):
    a = values(name, 256)
    with np.errstate(over="ignore"):
        same(elementwise(f"cvt.rn.{to}.{name} %d, %a0;", [a], DTYPES[to]), a.astype(DTYPES[to]))
    same(elementwise(f"cvt.{name}.{name} %d, %a0;", [a], a.dtype), a)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_rounding(mode):
    a = (RNG.standard_normal(256) * 100).astype(np.float32)
    got = elementwise(f"cvt.{mode}.f16.f32 %d, %a0;", [a], np.float16).astype(np.float32)
    step = np.spacing(np.abs(got.astype(np.float16))).astype(np.float32)
    below = {"rz": np.abs(got) <= np.abs(a), "rm": got <= a, "rp": got >= a}[mode]
    assert below.all()
    assert (np.abs(got - a) < 2 * step).all()


@pytest.mark.parametrize(("to", "name"), [("f32", "f16"), ("f32", "bf16"), ("f64", "f32"), ("f64", "f16")])
def test_widening_of_floats(to, name):
    a = values(name, 128)
    same(elementwise(f"cvt.{to}.{name} %d, %a0;", [a], DTYPES[to]), a.astype(DTYPES[to]))


@pytest.mark.parametrize("to", ["f16", "bf16"])
def test_packing_conversions(to):
    high, low = values("f32", seed=1), values("f32", seed=2)
    with np.errstate(over="ignore"):
        want = np.stack([low, high], 1).astype(DTYPES[to])
    got = elementwise(f"cvt.rn.{to}x2.f32 %d, %a0, %a1;", [high, low], np.uint32)
    same(got.view(DTYPES[to]), want.reshape(-1))


def test_integral_values():
    a = np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.7, -2.7])
    for mode, function in [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)]:
        same(elementwise(f"cvt.{mode}.f32.f32 %d, %a0;", [a], np.float32), function(a))
    same(elementwise("cvt.sat.f32.f32 %d, %a0;", [a], np.float32), np.clip(a, 0, 1) + 0)


def test_moves_that_pack_and_unpack():
    a = values("u32")
    code = ".reg .b16 %lo, %hi; mov.b32 {%lo, %hi}, %a0; mov.b32 %d, {%hi, %lo};"
    same(elementwise(code, [a], np.uint32), a >> 16 | a << 16)
    code = ".reg .b32 %w; mov.b64 {_, %w}, %a0; mov.b32 %d, %w;"
    same(elementwise(code, [values("u64")], np.uint32), (values("u64") >> 32).astype(np.uint32))


@pytest.mark.parametrize(
    "code",
    [
        "wgmma.fence.sync.aligned;",
        "add.rz.f32 %d, %a0, %a0;",
        "mul.u32 %d, %a0, %a0;",
        "cvt.rs.f16.f32 %d, %a0;",
        "add.u32 %d, %a0;",
        "ld.global.b32.unheard_of %d, [%at];",
    ],
)
def test_unknown_instructions_are_named(code):
    with pytest.raises(PTXError) as error:
        elementwise(code, [np.zeros(32, np.uint32)], np.uint32)
    assert code.rstrip(";") in str(error.value)
