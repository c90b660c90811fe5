"""`qtranspose-lower-quantized-matmul` against NumPy: sums in int64, wrapped to the width of the program's sum.

Every program is executed before and after the pass. Labels differ per batch and channel, since operands are random.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import qtranspose as qt
from mlir import ir
from qtranspose.elements import Array

execution = pytest.importorskip("qtranspose.execution")

PASS = "qtranspose-lower-quantized-matmul"
SIZES = {"b": 2, "c": 3, "m": 5, "n": 7, "k": 11}
MATMUL_MAPS = "affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>"
SQUARE = dict.fromkeys("bcmnk", 4)


@dataclass
class Operand:
    """A stored tensor with a zero point: its dims by name, e.g. `bmk`, and those of the zero point, e.g. `m`."""

    dims: str
    element: str = "i8"
    signed: bool = True
    zero_dims: str | None = ""
    zero: int | None = None
    """The value of every zero point; random if not given."""
    zero_element: str = "i8"
    zero_signed: bool = True
    source: str = "argument"
    """`argument`, `constant` or `resource`."""
    zero_source: str = "argument"
    transposed: bool = False
    """Stored with its last two dims exchanged, and behind a `linalg.transpose`."""


@dataclass
class Program:
    text: str
    inputs: list[Array]
    expected: Array


@dataclass
class Writer:
    """Collects the parts of a module."""

    arguments: list[str] = field(default_factory=list)
    inputs: list[Array] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)

    def tensor(self, name: str, values: Array, element: str, source: str) -> str:
        """Declare `%name` and return its type."""
        shape = "x".join(map(str, values.shape)) + "x" if values.ndim else ""
        if source == "scalar":
            self.arguments.append(f"%{name}: {element}")
            self.inputs.append(values)
            return element
        kind = f"tensor<{shape}{element}>"
        if source == "argument":
            self.arguments.append(f"%{name}: {kind}")
            self.inputs.append(values)
        elif source == "constant" or values.size == 0:
            self.body.append(f"%{name} = arith.constant dense<{values.tolist() if values.size else ''}> : {kind}")
        else:
            self.body.append(f"%{name} = arith.constant dense_resource<{name}> : {kind}")
            data = values.tobytes().hex().upper()
            self.resources.append(f'{name}: "0x{values.itemsize:02X}000000{data}"')
        return kind

    def module(self, result: str, value: str) -> str:
        lines = "\n  ".join(self.body)
        text = f"func.func @f({', '.join(self.arguments)}) -> {result} {{\n  {lines}\n  return {value} : {result}\n}}\n"
        if self.resources:
            text += "{-# dialect_resources: { builtin: { " + ", ".join(self.resources) + " } } #-}\n"
        return text


def dtype(element: str, signed: bool) -> np.dtype[np.integer]:
    return np.dtype(("" if signed else "u") + "int" + element[1:])


def affine(loops: Sequence[str], dims: str) -> str:
    names = ", ".join(f"d{i}" for i in range(len(loops)))
    return f"affine_map<({names}) -> ({', '.join(f'd{loops.index(d)}' for d in dims)})>"


def random_integers(rng: np.random.Generator, shape: tuple[int, ...], kind: np.dtype[np.integer]) -> Array:
    info = np.iinfo(kind)
    values = rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    return np.asarray(values, kind)


def generic(
    operands: tuple[Operand, Operand], out: str, sizes: dict[str, int], acc: str = "i32", seed: int = 0
) -> Program:
    """A generic whose body extends, subtracts the zero points, multiplies and adds, on top of a random init."""
    rng = np.random.default_rng(seed)
    loops = sorted({*operands[0].dims, *operands[1].dims}, key=lambda d: (d not in out, out.find(d)))
    writer = Writer()
    values, names, kinds, maps, steps, factors = [], [], [], [], [], []
    for index, operand in enumerate(operands):
        shape = tuple(sizes[d] for d in operand.dims)
        stored = random_integers(rng, shape, dtype(operand.element, operand.signed))
        values.append(stored.astype(np.int64))
        if operand.transposed:
            moved = np.ascontiguousarray(np.swapaxes(stored, -1, -2))
            kind = writer.tensor(f"s{index}", moved, operand.element, operand.source)
            rank = stored.ndim
            permutation = [*range(rank - 2), rank - 1, rank - 2]
            target = f"tensor<{'x'.join(map(str, shape))}x{operand.element}>"
            writer.body.append(f"%e{index} = tensor.empty() : {target}")
            writer.body.append(
                f"%x{index} = linalg.transpose ins(%s{index} : {kind}) outs(%e{index} : {target}) "
                f"permutation = {permutation}"
            )
            kind = target
        else:
            kind = writer.tensor(f"x{index}", stored, operand.element, operand.source)
        names.append(f"%x{index}")
        kinds.append(kind)
        maps.append(affine(loops, operand.dims))
        if operand.element == acc:
            factors.append(f"%a{index}")
            continue
        extension = "extsi" if operand.signed else "extui"
        steps.append(f"%w{index} = arith.{extension} %a{index} : {operand.element} to {acc}")
        factors.append(f"%w{index}")
    for index, operand in enumerate(operands):
        if operand.zero_dims is None:
            continue
        zero_shape = tuple(sizes[d] for d in operand.zero_dims)
        zero_type = dtype(operand.zero_element, operand.zero_signed)
        zero = (
            random_integers(rng, zero_shape, zero_type)
            if operand.zero is None
            else np.full(zero_shape, operand.zero, zero_type)
        )
        names.append(f"%z{index}")
        kinds.append(writer.tensor(f"z{index}", zero, operand.zero_element, operand.zero_source))
        maps.append(affine(loops, operand.zero_dims))
        value = f"%b{index}"
        if operand.zero_element != acc:
            extension = "extsi" if operand.zero_signed else "extui"
            steps.append(f"%y{index} = arith.{extension} {value} : {operand.zero_element} to {acc}")
            value = f"%y{index}"
        steps.append(f"%d{index} = arith.subi {factors[index]}, {value} : {acc}")
        factors[index] = f"%d{index}"
        aligned = zero.astype(np.int64).reshape([sizes[d] if d in operand.zero_dims else 1 for d in operand.dims])
        if operand.zero_dims:
            order = sorted(operand.zero_dims, key=operand.dims.index)
            moved = np.transpose(zero, [operand.zero_dims.index(d) for d in order])
            aligned = moved.astype(np.int64).reshape([sizes[d] if d in order else 1 for d in operand.dims])
        values[index] = values[index] - aligned
    init = random_integers(rng, tuple(sizes[d] for d in out), dtype(acc, True))
    expected = np.einsum(f"{operands[0].dims},{operands[1].dims}->{out}", *values) + init.astype(np.int64)
    result = writer.tensor("init", init, acc, "argument")
    arguments = [f"%a{i}: {operand.element}" for i, operand in enumerate(operands)]
    arguments += [
        f"%b{i}: {operand.zero_element}" for i, operand in enumerate(operands) if operand.zero_dims is not None
    ]
    iterators = ", ".join('"parallel"' if d in out else '"reduction"' for d in loops)
    writer.body.append(
        f"%r = linalg.generic {{indexing_maps = [{', '.join([*maps, affine(loops, out)])}], "
        f"iterator_types = [{iterators}]}} ins({', '.join(names)} : {', '.join(kinds)}) outs(%init : {result}) {{\n"
        f"  ^bb0({', '.join(arguments)}, %acc: {acc}):\n    "
        + "\n    ".join(steps)
        + f"\n    %p = arith.muli {factors[0]}, {factors[1]} : {acc}\n"
        f"    %t = arith.addi %acc, %p : {acc}\n    linalg.yield %t : {acc}\n  }} -> {result}"
    )
    return Program(writer.module(result, "%r"), writer.inputs, expected.astype(dtype(acc, True)))


def run(text: str, inputs: Sequence[Array], pipeline: str | None = None) -> tuple[Array, str, list[qt.Remark]]:
    with ir.Context() as context:
        module = ir.Module.parse(text)
        remarks: list[qt.Remark] = []
        if pipeline:
            with qt.remarks(context) as found:
                qt.optimize(module, pipeline)
            assert module.operation.verify()
            remarks = list(found)
            once = str(module)
            assert str(qt.optimize(module, pipeline)) == once, "running the pass again changes its result"
        after = str(module)
        return execution.compile(module)(*inputs), after, remarks


def check(program: Program, pipeline: str = PASS) -> str:
    """Compare before and after with the expected result; return the module after the pass."""
    before, _, _ = run(program.text, program.inputs)
    np.testing.assert_array_equal(before, program.expected, "the untransformed program")
    after, text, remarks = run(program.text, program.inputs, pipeline)
    assert [remark.name for remark in remarks] == ["lowered"], remarks
    np.testing.assert_array_equal(after, program.expected)
    assert "nsw" not in text
    return text


SIGNS = list(itertools.product([True, False], repeat=2))


# PITFALL 22
@pytest.mark.parametrize("sizes", [SIZES, SQUARE], ids=["nonsquare", "square"])
@pytest.mark.parametrize("signs", SIGNS, ids=str)
@pytest.mark.parametrize("source", ["argument", "constant", "resource"])
def test_mixed_signedness(sizes: dict[str, int], signs: tuple[bool, bool], source: str) -> None:
    a = Operand("mk", signed=signs[0], zero_signed=signs[0])
    w = Operand("kn", signed=signs[1], zero_signed=signs[1], source=source, zero_source=source)
    check(generic((a, w), "mn", sizes))


# PITFALL 24
@pytest.mark.parametrize("zero_dims", [("", "n"), ("m", ""), ("m", "n"), (None, "n"), ("m", None)], ids=str)
@pytest.mark.parametrize("sources", list(itertools.product(["argument", "constant"], repeat=2)), ids=str)
def test_zero_points_per_channel(zero_dims: tuple[str | None, str | None], sources: tuple[str, str]) -> None:
    a = Operand("mk", zero_dims=zero_dims[0], zero_source=sources[1])
    w = Operand("kn", zero_dims=zero_dims[1], source=sources[0], zero_source=sources[1])
    check(generic((a, w), "mn", SIZES))


LAYOUTS = [
    ("mk", "nk", "mn"),
    ("km", "kn", "nm"),
    ("nk", "mk", "mn"),
    ("bmk", "bkn", "bmn"),
    ("bmk", "kn", "bmn"),
    ("mk", "bkn", "bmn"),
    ("cbmk", "bnk", "bcmn"),
    ("bcmk", "kn", "bcmn"),
    ("k", "kn", "n"),
    ("mk", "k", "m"),
    ("k", "k", ""),
    ("mbk", "kbn", "mn"),
]


# PITFALL 10, 14
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("source", ["argument", "constant"])
def test_layouts_and_batches(layout: tuple[str, str, str], source: str) -> None:
    left = "m" if "m" in layout[0] and "m" in layout[2] else ""
    right = "".join(d for d in layout[1] if d in layout[2] and d != "m")
    a = Operand(layout[0], zero_dims=left)
    w = Operand(layout[1], zero_dims=right, source=source, zero_source=source)
    check(generic((a, w), layout[2], SIZES))


# PITFALL 24
@pytest.mark.parametrize("layout", [("mk", "nk", "mn"), ("mk", "kn", "mn"), ("bmk", "bkn", "bmn")], ids=str)
@pytest.mark.parametrize("source", ["argument", "constant", "resource"])
def test_sums_are_taken_in_the_stored_layout(layout: tuple[str, str, str], source: str) -> None:
    a = Operand(layout[0])
    w = Operand(layout[1], zero_dims="n", source=source, transposed=True)
    text = check(generic((a, w), layout[2], SIZES))
    assert "linalg.transpose" not in text, "the stored tensor is read as it lies"


# PITFALL 24
@pytest.mark.parametrize("side", [0, 1])
def test_a_zero_point_of_zero_costs_nothing(side: int) -> None:
    operands = [Operand("mk"), Operand("kn")]
    operands[side].zero, operands[side].zero_source = 0, "constant"
    text = check(generic((operands[0], operands[1]), "mn", SIZES))
    assert text.count('"reduction"') == 2, "the product and one sum"
    operands[1 - side].zero, operands[1 - side].zero_source = 0, "constant"
    text = check(generic((operands[0], operands[1]), "mn", SIZES))
    assert text.count('"reduction"') == 1


# PITFALL 22
@pytest.mark.parametrize("zero", [128, 200, 255])
@pytest.mark.parametrize("source", ["argument", "constant"])
def test_unsigned_zero_points_above_127(zero: int, source: str) -> None:
    a = Operand("mk", signed=False, zero=zero, zero_signed=False, zero_source=source)
    w = Operand("kn", signed=False, zero_dims="n", zero_signed=False, zero_source=source, source=source)
    check(generic((a, w), "mn", SIZES))


@pytest.mark.parametrize("element", ["i8", "i16", "i32"])
@pytest.mark.parametrize("source", ["argument", "constant"])
def test_sums_wrap_around(element: str, source: str) -> None:
    """Random i32 zero points and inits: nothing fits, everything is exact modulo 2^32."""
    a = Operand("mk", element=element, zero_element="i32", zero_source=source)
    w = Operand("kn", element=element, zero_dims="n", zero_element="i32", zero_source=source, source=source)
    check(generic((a, w), "mn", SIZES))


# PITFALL 15
@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("source", ["argument", "constant"])
def test_short_sums(k: int, source: str) -> None:
    check(generic((Operand("mk"), Operand("kn", zero_dims="n", source=source)), "mn", SIZES | {"k": k}))


# PITFALL 15
@pytest.mark.parametrize("unit", ["m", "n", "b"])
def test_unit_dims(unit: str) -> None:
    a, w = Operand("bmk", zero_dims="m"), Operand("bkn", zero_dims="n", source="constant")
    check(generic((a, w), "bmn", SIZES | {unit: 1}))


@pytest.mark.parametrize("signs", SIGNS, ids=str)
def test_a_wider_sum_is_computed_in_32_bits(signs: tuple[bool, bool]) -> None:
    a = Operand("mk", signed=signs[0], zero_signed=signs[0])
    w = Operand("kn", signed=signs[1], zero_dims="n", zero_signed=signs[1], source="constant", zero_source="constant")
    text = check(generic((a, w), "mn", SIZES, acc="i64"))
    assert "arith.muli" in text
    assert not any("muli" in line and "i64" in line for line in text.splitlines())


def magnitude(operand: Operand) -> int:
    """The largest |stored - zero point|."""
    low, high = (-128, 127) if operand.signed else (0, 255)
    if operand.zero is not None:
        return max(abs(low - operand.zero), abs(high - operand.zero))
    zero_low, zero_high = (-128, 127) if operand.zero_signed else (0, 255)
    return max(abs(low - zero_high), abs(high - zero_low))


BOUNDS = [
    # As published: symmetric i8, asymmetric signed, i8 with a u8 zero point, and 255 above the range of u8.
    (131071, Operand("mk", zero=0), Operand("kn", zero=0)),
    (33025, Operand("mk"), Operand("kn")),
    (21988, Operand("mk"), Operand("kn", zero_signed=False)),
    (16512, Operand("mk"), Operand("kn", signed=False, zero=-255, zero_element="i16")),
    (33025, Operand("mk", signed=False, zero_signed=False), Operand("kn", signed=False, zero_signed=False)),
    (65793, Operand("mk"), Operand("kn", zero=0)),
    (65793, Operand("mk"), Operand("kn", signed=False, zero=128, zero_element="i16")),
]


# PITFALL 24
@pytest.mark.parametrize(("largest", "a", "w"), BOUNDS, ids=lambda value: str(value) if isinstance(value, int) else "")
def test_the_longest_sum_that_fits(largest: int, a: Operand, w: Operand) -> None:
    assert largest == (2**31 - 1) // (magnitude(a) * magnitude(w))
    for operand in (a, w):
        operand.zero_source = "constant" if operand.zero is not None else "argument"
    for k, names in ((largest, ["lowered"]), (largest + 1, ["accumulator-may-overflow"])):
        program = generic((a, w), "mn", {"m": 1, "n": 1, "k": k}, acc="i64")
        with ir.Context() as context:
            module = ir.Module.parse(program.text)
            before = str(module)
            with qt.remarks(context) as remarks:
                qt.optimize(module, PASS)
            assert [remark.name for remark in remarks] == names
            assert (str(module) == before) == (names != ["lowered"])


@pytest.mark.parametrize("sign", [1, -1])
def test_the_extreme_sum_fits(sign: int) -> None:
    """K = 33025 with every term at +-255 * 255: the sum in 32 bits is what the 64-bit program computes."""
    k = 33025
    program = generic((Operand("mk"), Operand("kn")), "mn", {"m": 1, "n": 1, "k": k}, acc="i64")
    x, w = np.full((1, k), 127, np.int8), np.full((k, 1), 127 if sign > 0 else -128, np.int8)
    zw = np.array(-128 if sign > 0 else 127, np.int8)
    inputs = [x, w, np.array(-128, np.int8), zw, np.zeros((1, 1), np.int64)]
    result, _, remarks = run(program.text, inputs, PASS)
    assert [remark.name for remark in remarks] == ["lowered"]
    assert result[0, 0] == sign * 255 * 255 * k


def test_seeds() -> None:
    """Random layouts, signs, zero points and sources together."""
    rng = np.random.default_rng(7)
    for seed in range(40):
        layout = LAYOUTS[rng.integers(len(LAYOUTS))]
        operands = []
        for dims in layout[:2]:
            channels = [d for d in dims if d in layout[2]]
            zero_dims = "".join(rng.permutation([d for d in channels if rng.random() < 0.5]))
            operands.append(
                Operand(
                    dims,
                    signed=bool(rng.integers(2)),
                    zero_dims=zero_dims,
                    zero_signed=bool(rng.integers(2)),
                    source=str(rng.choice(["argument", "constant", "resource"])),
                    zero_source=str(rng.choice(["argument", "constant", "resource"])),
                    transposed=bool(rng.integers(2)) and len(dims) > 1,
                )
            )
        acc = str(rng.choice(["i32", "i64"]))
        check(generic((operands[0], operands[1]), layout[2], SIZES, acc, seed))


def exact(text: str, inputs: list[Array], expected: Array, pipeline: str = PASS) -> str:
    return check(Program(text, inputs, expected), pipeline)


@pytest.mark.parametrize("batch", [(), (3,)], ids=["matmul", "batch_matmul"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("zeros", [None, (0, 0), (-5, 0), (0, 9), (131, -300)], ids=str)
def test_named_quantized_ops(batch: tuple[int, ...], dynamic: bool, zeros: tuple[int, int] | None) -> None:
    rng = np.random.default_rng(1)
    shapes = [(*batch, 5, 11), (*batch, 11, 7), (*batch, 5, 7)]
    x, w, init = (
        random_integers(rng, shape, np.dtype(t)) for shape, t in zip(shapes, ("int8", "int8", "int32"), strict=True)
    )
    types = [
        f"tensor<{'x'.join('?' if dynamic else str(size) for size in shape)}x{element}>"
        for shape, element in zip(shapes, ("i8", "i8", "i32"), strict=True)
    ]
    values = zeros or tuple(int(z) for z in random_integers(rng, (2,), np.dtype("int32")))
    arguments, inputs = [f"%x: {types[0]}", f"%w: {types[1]}", f"%init: {types[2]}"], [x, w, init]
    lines = []
    for name, value in zip("ab", values, strict=True):
        if zeros is None:
            arguments.append(f"%z{name}: i32")
            inputs.append(np.array(value, np.int32))
        else:
            lines.append(f"%z{name} = arith.constant {value} : i32")
    name = "quantized_batch_matmul" if batch else "quantized_matmul"
    text = (
        f"func.func @f({', '.join(arguments)}) -> {types[2]} {{\n" + "\n".join(lines) + f"\n%y = linalg.{name} "
        f"ins(%x, %w, %za, %zb : {types[0]}, {types[1]}, i32, i32) outs(%init : {types[2]}) -> {types[2]}\n"
        f"return %y : {types[2]}\n}}"
    )
    product = (x.astype(np.int64) - values[0]) @ (w.astype(np.int64) - values[1])
    exact(text, inputs, (product + init).astype(np.int32))


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2)], ids=str)
@pytest.mark.parametrize("layout", ["nhwc_hwcf", "nhwc_fhwc", "nchw_fchw"])
@pytest.mark.parametrize("source", ["argument", "constant"])
def test_convolutions(kernel: int, stride: int, layout: str, source: str) -> None:
    rng = np.random.default_rng(2)
    sizes = {"n": 2, "h": 7, "w": 5, "c": 3, "f": 4}
    size = {d: (sizes[d] - kernel) // stride + 1 for d in "hw"}
    image, filters = layout.split("_")
    writer = Writer()
    x = random_integers(rng, tuple(sizes[d] for d in image), np.dtype("int8"))
    w = random_integers(rng, tuple(kernel if d in "hw" else sizes[d] for d in filters), np.dtype("int8"))
    out_dims = image.replace("c", "f")
    init = random_integers(rng, tuple(size.get(d, sizes[d]) for d in out_dims), np.dtype("int32"))
    kinds = [writer.tensor("x", x, "i8", "argument"), writer.tensor("w", w, "i8", source)]
    result = writer.tensor("init", init, "i32", "argument")
    writer.arguments.append("%zx: i32")
    writer.inputs.append(np.array(77, np.int32))
    writer.body += [
        "%zw = arith.constant -13 : i32",
        f"%y = linalg.conv_2d_{layout}_q {{dilations = dense<1> : tensor<2xi64>, strides = dense<{stride}> : "
        f"tensor<2xi64>}} ins(%x, %w, %zx, %zw : {kinds[0]}, {kinds[1]}, i32, i32) outs(%init : {result}) -> {result}",
    ]
    windows = np.lib.stride_tricks.sliding_window_view(
        np.transpose(x.astype(np.int64) - 77, [image.index(d) for d in "nchw"]), (kernel, kernel), (2, 3)
    )[:, :, ::stride, ::stride]
    spelled = filters.replace("h", "i").replace("w", "j")
    expected = np.einsum(f"nchwij,{spelled}->{out_dims}", windows, w.astype(np.int64) + 13)
    exact(writer.module(result, "%y"), writer.inputs, (expected + init).astype(np.int32))


@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise_convolution(multiplier: int) -> None:
    rng = np.random.default_rng(3)
    x = random_integers(rng, (1, 6, 5, 3), np.dtype("int8"))
    w = random_integers(rng, (3, 2, 3, multiplier), np.dtype("int8"))
    shape = (1, 4, 4, 3, multiplier)
    init = random_integers(rng, shape, np.dtype("int32"))
    result = f"tensor<{'x'.join(map(str, shape))}xi32>"
    weight = f"tensor<3x2x3x{multiplier}xi8>"
    text = f"""
func.func @f(%x: tensor<1x6x5x3xi8>, %w: {weight}, %init: {result}, %zx: i32, %zw: i32) -> {result} {{
  %y = linalg.depthwise_conv_2d_nhwc_hwcm_q {{dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}}
      ins(%x, %w, %zx, %zw : tensor<1x6x5x3xi8>, {weight}, i32, i32) outs(%init : {result}) -> {result}
  return %y : {result}
}}"""
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64) - 5, (3, 2), (1, 2))
    expected = np.einsum("nhwcij,ijcm->nhwcm", windows, w.astype(np.int64) - 9) + init
    inputs = [x, w, init, np.array(5, np.int32), np.array(9, np.int32)]
    exact(text, inputs, expected.astype(np.int32))


# PITFALL 23
@pytest.mark.parametrize("packed", [False, True], ids=["a byte each", "packed"])
@pytest.mark.parametrize("signed", [True, False])
def test_four_bit_weights(packed: bool, signed: bool) -> None:
    """An odd number of columns; sums are taken from the resource as it lies."""
    rng = np.random.default_rng(4)
    x = random_integers(rng, (5, 9), np.dtype("int8"))
    nibbles = rng.integers(0, 16, (9, 7), dtype=np.uint8)
    w = nibbles.astype(np.int64) - (16 * (nibbles > 7) if signed else 0)
    data = nibbles.ravel()
    if packed:
        data = np.append(data, np.zeros(data.size % 2, np.uint8))
        data = (data[::2] | data[1::2] << 4).astype(np.uint8)
    text = f"""
func.func @f(%x: tensor<5x9xi8>, %init: tensor<5x7xi32>) -> tensor<5x7xi32> {{
  %w = arith.constant dense_resource<w> : tensor<9x7xi4>
  %zx = arith.constant -100 : i32
  %zw = arith.constant 8 : i32
  %y = linalg.generic {{indexing_maps = [{MATMUL_MAPS}], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%x, %w : tensor<5x9xi8>, tensor<9x7xi4>) outs(%init : tensor<5x7xi32>) {{
  ^bb0(%a: i8, %b: i4, %acc: i32):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.subi %0, %zx : i32
    %2 = arith.{"extsi" if signed else "extui"} %b : i4 to i32
    %3 = arith.subi %2, %zw : i32
    %4 = arith.muli %1, %3 : i32
    %5 = arith.addi %4, %acc : i32
    linalg.yield %5 : i32
  }} -> tensor<5x7xi32>
  return %y : tensor<5x7xi32>
}}
{{-# dialect_resources: {{ builtin: {{ w: "0x01000000{data.tobytes().hex()}" }} }} #-}}"""
    init = random_integers(rng, (5, 7), np.dtype("int32"))
    product = (x.astype(np.int64) + 100) @ (w - 8)
    assert text.count("arith.constant dense<") == 0
    after = exact(text, [x, init], (product + init).astype(np.int32))
    assert "arith.constant dense<" in after, "the sums are constants"


def test_a_zero_point_along_the_channels_of_the_other_operand() -> None:
    """`(A[m, k] - z[n]) W[k, n]`: the zero point of A meets the column sums of W channel by channel."""
    maps = [f"affine_map<(m, n, k) -> ({dims})>" for dims in ("m, k", "k, n", "n", "m, n")]
    text = f"""
func.func @f(%x: tensor<5x9xi8>, %w: tensor<9x7xi8>, %z: tensor<7xi8>, %init: tensor<5x7xi32>) -> tensor<5x7xi32> {{
  %y = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%x, %w, %z : tensor<5x9xi8>, tensor<9x7xi8>, tensor<7xi8>) outs(%init : tensor<5x7xi32>) {{
  ^bb0(%a: i8, %b: i8, %zero: i8, %acc: i32):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extui %zero : i8 to i32
    %2 = arith.subi %0, %1 : i32
    %3 = arith.extsi %b : i8 to i32
    %4 = arith.muli %3, %2 : i32
    %5 = arith.addi %4, %acc : i32
    linalg.yield %5 : i32
  }} -> tensor<5x7xi32>
  return %y : tensor<5x7xi32>
}}"""
    rng = np.random.default_rng(6)
    x, w = random_integers(rng, (5, 9), np.dtype("int8")), random_integers(rng, (9, 7), np.dtype("int8"))
    z, init = random_integers(rng, (7,), np.dtype("uint8")), random_integers(rng, (5, 7), np.dtype("int32"))
    factors = x.astype(np.int64)[:, :, None] - z
    expected = np.einsum("mkn,kn->mn", factors, w.astype(np.int64)) + init
    exact(text, [x, w, z, init], expected.astype(np.int32))


def test_half_precision_sums_do_not_overflow() -> None:
    """The integer sum, 64 * 127 * 127, is no f16; the scaled one is."""
    text = f"""
func.func @f(%x: tensor<1x64xi8>, %w: tensor<64x1xi8>, %s: f16, %init: tensor<1x1xf16>) -> tensor<1x1xf16> {{
  %y = linalg.generic {{indexing_maps = [{MATMUL_MAPS}], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%x, %w : tensor<1x64xi8>, tensor<64x1xi8>) outs(%init : tensor<1x1xf16>) {{
  ^bb0(%a: i8, %b: i8, %acc: f16):
    %0 = arith.sitofp %a : i8 to f16
    %1 = arith.mulf %0, %s : f16
    %2 = arith.sitofp %b : i8 to f16
    %3 = arith.mulf %2, %s : f16
    %4 = arith.mulf %1, %3 : f16
    %5 = arith.addf %4, %acc : f16
    linalg.yield %5 : f16
  }} -> tensor<1x1xf16>
  return %y : tensor<1x1xf16>
}}"""
    inputs = [np.full((1, 64), 127, np.int8), np.full((64, 1), 127, np.int8)]
    inputs += [np.array(2.0**-7, np.float16), np.zeros((1, 1), np.float16)]
    result, after, _ = run(text, inputs, PASS + "{allow-reassociation=true}")
    assert "arith.muli" in after
    assert result[0, 0] == np.float16(64 * 127 * 127 * 2.0**-14)


@pytest.mark.parametrize("element", ["index", "i64"])
def test_integers_of_other_kinds_are_left_alone(element: str) -> None:
    text = f"""
func.func @f(%x: tensor<2x3x{element}>, %w: tensor<3x2x{element}>, %z: {element}, %init: tensor<2x2x{element}>)
    -> tensor<2x2x{element}> {{
  %y = linalg.generic {{indexing_maps = [{MATMUL_MAPS}], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%x, %w : tensor<2x3x{element}>, tensor<3x2x{element}>) outs(%init : tensor<2x2x{element}>) {{
  ^bb0(%a: {element}, %b: {element}, %acc: {element}):
    %0 = arith.subi %a, %z : {element}
    %1 = arith.muli %0, %b : {element}
    %2 = arith.addi %1, %acc : {element}
    linalg.yield %2 : {element}
  }} -> tensor<2x2x{element}>
  return %y : tensor<2x2x{element}>
}}"""
    with ir.Context() as context:
        module = ir.Module.parse(text)
        before = str(module)
        with qt.remarks(context) as remarks:
            qt.optimize(module, PASS)
        assert str(module) == before
        assert [remark.name for remark in remarks] == ([] if element == "index" else ["zero-point-not-bounded"])


def float_program(x_scale: str, zero: str) -> str:
    """Two dequantized factors: u8 rows with a scale each, i8 columns with a scale and zero point each."""
    return f"""
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0, 0)>
#column = affine_map<(d0, d1) -> (d1)>
func.func @f(%x: tensor<3x6xi8>, %w: tensor<6x5xi8>, %xs: tensor<3x1xf32>, %ws: tensor<5xf32>, %wz: tensor<5xi8>,
             %init: tensor<3x5xf32>) -> tensor<3x5xf32> {{
  %ex = tensor.empty() : tensor<3x6xf32>
  %dx = linalg.generic {{indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%x, %xs : tensor<3x6xi8>, tensor<3x1xf32>) outs(%ex : tensor<3x6xf32>) {{
  ^bb0(%q: i8, %s: f32, %o: f32):
    %c = arith.constant {zero} : f32
    %f = arith.uitofp %q : i8 to f32
    %d = arith.subf %f, %c : f32
    %r = arith.mulf {x_scale}
    linalg.yield %r : f32
  }} -> tensor<3x6xf32>
  %ew = tensor.empty() : tensor<6x5xf32>
  %dw = linalg.generic {{indexing_maps = [#id, #column, #column, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%w, %ws, %wz : tensor<6x5xi8>, tensor<5xf32>, tensor<5xi8>) outs(%ew : tensor<6x5xf32>) {{
  ^bb0(%q: i8, %s: f32, %z: i8, %o: f32):
    %a = arith.extsi %q : i8 to i16
    %b = arith.extsi %z : i8 to i16
    %d = arith.subi %a, %b : i16
    %f = arith.sitofp %d : i16 to f32
    %r = arith.mulf %f, %s : f32
    linalg.yield %r : f32
  }} -> tensor<6x5xf32>
  %y = linalg.matmul ins(%dx, %dw : tensor<3x6xf32>, tensor<6x5xf32>) outs(%init : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}}"""


@pytest.mark.parametrize("x_scale", ["%d, %s : f32", "%s, %d : f32"])
def test_float_sums_with_reassociation(x_scale: str) -> None:
    """Scales are powers of two and the init is an integer, so that no sum rounds and every order gives the same."""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 256, (3, 6), dtype=np.uint8)
    w, wz = random_integers(rng, (6, 5), np.dtype("int8")), random_integers(rng, (5,), np.dtype("int8"))
    xs = np.exp2(rng.integers(-3, 4, (3, 1))).astype(np.float32)
    ws = np.exp2(rng.integers(-3, 4, 5)).astype(np.float32)
    init = rng.integers(-9, 9, (3, 5)).astype(np.float32)
    expected = ((x.astype(np.float64) - 131) * xs) @ ((w.astype(np.float64) - wz) * ws) + init
    text = float_program(x_scale, "131.0")
    after = exact(text, [x, w, xs, ws, wz, init], expected.astype(np.float32), PASS + "{allow-reassociation=true}")
    assert "muli" in after
    assert after.count("mulf") == 2
    _, after, remarks = run(text, [x, w, xs, ws, wz, init], PASS)
    assert [remark.name for remark in remarks] == ["reassociates-float-sum"]
    assert "muli" not in after
