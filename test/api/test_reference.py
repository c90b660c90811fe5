"""The reference interpreter: what it computes, how far it allows an execution to be off, what it does not accept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from mlir import ir
from qtranspose.elements import Element
from qtranspose.reference import Number, SizesError, UndefinedError, UnsupportedError, evaluate
from qtranspose.reference import numbers as n


def run(text: str, *inputs: object) -> list[Number]:
    with ir.Context():
        return evaluate(ir.Module.parse(text), [np.asarray(array) for array in inputs])


def binary(operation: str, type: str, a: object, b: object) -> Number:
    text = f"func.func @f(%a: {type}, %b: {type}) -> {type} {{ %r = {operation} %a, %b : {type} return %r : {type} }}"
    return run(text, a, b)[0]


def float32(values: Sequence[float]) -> Number:
    with ir.Context():
        return Number.exact(Element.of(ir.F32Type.get()), np.asarray(values))


@pytest.mark.parametrize(
    ("operation", "a", "b", "result"),
    [
        ("arith.divsi", -7, 2, -3),
        ("arith.floordivsi", -7, 2, -4),
        ("arith.ceildivsi", -7, 2, -3),
        ("arith.remsi", -7, 2, -1),
        ("arith.remui", -7, 2, 1),
        ("arith.divui", -1, 16, 15),
        ("arith.shrsi", -7, 1, -4),
        ("arith.shrui", -7, 1, 124),
        ("arith.shli", -7, 4, -112),
        ("arith.addi", 100, 100, -56),
    ],
)
def test_integers(operation: str, a: int, b: int, result: int) -> None:
    number = binary(operation, "i8", a, b)
    assert (int(number.value), float(number.error)) == (result, 0)


@pytest.mark.parametrize("operation", ["arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.ceildivsi"])
def test_division_by_zero_is_undefined(operation: str) -> None:
    with pytest.raises(UndefinedError, match="divided by zero"):
        binary(operation, "i8", 1, 0)


def test_a_quotient_that_overflows_is_undefined() -> None:
    with pytest.raises(UndefinedError, match="overflows"):
        binary("arith.divsi", "i8", -128, -1)
    assert int(binary("arith.divui", "i8", -128, -1).value) == 0


@pytest.mark.parametrize(
    ("operation", "a", "b", "defined"),
    [
        ("arith.shli", 1, 8, False),
        ("arith.shrsi", 1, 7, True),
        ("arith.shrui", 1, -1, False),
    ],
)
def test_shifts_by_the_width_are_anything(operation: str, a: int, b: int, defined: bool) -> None:
    assert np.isfinite(binary(operation, "i8", a, b).error) == defined


@pytest.mark.parametrize(
    ("flag", "a", "b", "defined"),
    [("nsw", 100, 27, True), ("nsw", 100, 28, False), ("nuw", 100, 100, True), ("nuw", -1, 1, False)],
)
def test_promised_not_to_overflow(flag: str, a: int, b: int, defined: bool) -> None:
    text = f"""func.func @f(%a: i8, %b: i8) -> i8 {{
      %r = arith.addi %a, %b overflow<{flag}> : i8
      return %r : i8
    }}"""
    assert np.isfinite(run(text, a, b)[0].error) == defined


def test_fast_math_promises() -> None:
    text = """func.func @f(%a: tensor<3xf32>) -> tensor<3xf32> {
      %r = arith.addf %a, %a fastmath<nnan,ninf> : tensor<3xf32>
      return %r : tensor<3xf32>
    }"""
    (number,) = run(text, np.array([1, np.inf, np.nan], np.float32))
    assert np.isfinite(number.error).tolist() == [True, False, False]
    (number,) = run(text.replace("fastmath<nnan,ninf> ", ""), np.array([1, np.inf, np.nan], np.float32))
    assert np.isfinite(np.broadcast_to(number.error, (3,))).all()


def test_infinities_that_no_rounding_changes_are_certain() -> None:
    infinite = float32([np.inf, -np.inf, np.nan])
    rough = n.rounded(infinite.element, np.full(3, 2.0), np.full(3, 1e-3), np.full(3, 2.0))
    assert (n.add(infinite, rough).error == 0).all()
    assert (n.multiply(infinite, rough).error == 0).all()
    assert (n.divide(infinite, rough).error == 0).all()


def test_infinities_that_rounding_decides_are_not() -> None:
    infinite = float32([np.inf])
    around_zero = n.rounded(infinite.element, np.zeros(1), np.full(1, 1e-3), np.ones(1))
    assert np.isinf(n.multiply(infinite, around_zero).error).all()
    assert np.isinf(n.divide(infinite, around_zero).error).all()
    huge = float32([3e38])
    # 6e38 is finite here and infinite in f32.
    assert np.isinf(n.add(huge, huge).error).all()


def test_nothing_times_anything_is_nothing() -> None:
    zero = float32([0.0])
    rough = n.rounded(zero.element, np.ones(1), np.full(1, 1e-3), np.ones(1))
    assert n.multiply(zero, rough).error == 0


def test_bounds_hold_for_sums_in_any_order() -> None:
    text = """func.func @f(%a: tensor<1x64xf32>, %b: tensor<64x1xf32>, %c: tensor<1x1xf32>) -> tensor<1x1xf32> {
      %r = linalg.matmul ins(%a, %b : tensor<1x64xf32>, tensor<64x1xf32>) outs(%c : tensor<1x1xf32>) -> tensor<1x1xf32>
      return %r : tensor<1x1xf32>
    }"""
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 64), (64, 1)))
        (number,) = run(text, a, b, np.zeros((1, 1), np.float32))
        terms = a[0] * b[:, 0]
        for order in (np.arange(64), np.argsort(terms), np.argsort(np.abs(terms))):
            total = np.float32(0)
            for term in terms[order]:
                total += term
            assert abs(float(total) - number.value) <= number.error
        # Not a bound that anything satisfies.
        assert number.error < 64 * 65 * 2.0**-24 * np.abs(terms).max()


def test_scalars_keep_their_rank() -> None:
    text = """#map = affine_map<() -> ()>
    func.func @f(%a: tensor<1x1xf32>) -> tensor<1x1xf32> {
      %c = tensor.collapse_shape %a [] : tensor<1x1xf32> into tensor<f32>
      %e = tensor.empty() : tensor<f32>
      %g = linalg.generic {indexing_maps = [#map, #map], iterator_types = []}
          ins(%c : tensor<f32>) outs(%e : tensor<f32>) {
      ^bb0(%x: f32, %o: f32):
        linalg.yield %x : f32
      } -> tensor<f32>
      %r = tensor.expand_shape %g [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>
      return %r : tensor<1x1xf32>
    }"""
    (number,) = run(text, np.full((1, 1), 3, np.float32))
    assert number.value.tolist() == [[3]]


def test_what_is_read_before_it_is_written_is_anything() -> None:
    text = """func.func @f() -> tensor<2xf32> {
      %e = tensor.empty() : tensor<2xf32>
      return %e : tensor<2xf32>
    }"""
    (number,) = run(text)
    assert np.isinf(number.error).all()


def test_sizes_that_do_not_fit_are_named() -> None:
    add = """func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
      %r = linalg.add ins(%a, %b : tensor<?xf32>, tensor<?xf32>) outs(%a : tensor<?xf32>) -> tensor<?xf32>
      return %r : tensor<?xf32>
    }"""
    with pytest.raises(SizesError) as error:
        run(add, np.zeros(3, np.float32), np.zeros(4, np.float32))
    assert (error.value.size, error.value.wanted, error.value.multiple) == (4, 3, False)
    split = """func.func @f(%a: tensor<?xf32>, %n: index) -> tensor<?x4xf32> {
      %r = tensor.expand_shape %a [[0, 1]] output_shape [%n, 4] : tensor<?xf32> into tensor<?x4xf32>
      return %r : tensor<?x4xf32>
    }"""
    with pytest.raises(SizesError) as error:
        run(split, np.zeros(6, np.float32), 1)
    assert (error.value.size, error.value.wanted, error.value.multiple) == (6, 4, True)


def test_what_is_not_there_cannot_be_read() -> None:
    text = """func.func @f(%a: tensor<3xf32>, %i: index) -> f32 {
      %r = tensor.extract %a[%i] : tensor<3xf32>
      return %r : f32
    }"""
    assert float(run(text, np.arange(3, dtype=np.float32), 2)[0].value) == 2
    with pytest.raises(UndefinedError, match="outside"):
        run(text, np.arange(3, dtype=np.float32), 3)
    with pytest.raises(UndefinedError, match="sizes"):
        run(
            """func.func @f(%n: index) -> tensor<?xf32> {
              %e = tensor.empty(%n) : tensor<?xf32>
              return %e : tensor<?xf32>
            }""",
            -1,
        )


def test_maps_with_symbols() -> None:
    text = """func.func @f(%i: index, %j: index) -> index {
      %r = affine.apply affine_map<(d0)[s0] -> (d0 * 10 + s0)>(%i)[%j]
      return %r : index
    }"""
    assert int(run(text, 2, 3)[0].value) == 23


def test_what_is_written_several_times_is_not_known() -> None:
    text = """func.func @f(%a: tensor<4xf32>, %i: tensor<MxNf32>) -> tensor<MxNf32> {
      %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (MAP)>],
          iterator_types = ["reduction"]} ins(%a : tensor<4xf32>) outs(%i : tensor<MxNf32>) {
      ^bb0(%x: f32, %o: f32):
        %s = arith.addf %x, %o : f32
        linalg.yield %s : f32
      } -> tensor<MxNf32>
      return %r : tensor<MxNf32>
    }"""
    good = text.replace("MAP", "d0, 0").replace("MxN", "4x1x")
    (number,) = run(good, np.arange(4, dtype=np.float32), np.ones((4, 1), np.float32))
    assert number.value.tolist() == [[1], [2], [3], [4]]
    with pytest.raises(UnsupportedError, match="several times"):
        run(
            text.replace("MAP", "d0 floordiv 2, 0").replace("MxN", "2x1x"),
            np.arange(4, dtype=np.float32),
            np.ones((2, 1), np.float32),
        )


def test_sums_that_would_take_long_are_not_run() -> None:
    text = """func.func @f(%a: tensor<?xi32>, %i: tensor<i32>) -> tensor<i32> {
      %r = linalg.reduce ins(%a : tensor<?xi32>) outs(%i : tensor<i32>) dimensions = [0]
        (%x: i32, %o: i32) {
          %s = arith.addi %x, %o : i32
          linalg.yield %s : i32
        }
      return %r : tensor<i32>
    }"""
    assert int(run(text, np.ones(10, np.int32), np.zeros((), np.int32))[0].value) == 10
    with pytest.raises(UnsupportedError, match="many terms"):
        run(text, np.ones(1 << 20, np.int32), np.zeros((), np.int32))
