"""Vector kernels of `qt.compile` against float64, over whole and ragged shapes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import qtranspose as qt
from mlir import ir

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import layers


def error_of(layer: layers.Layer, pipeline: str = "default", **options: object) -> float:
    """The largest error relative to the largest result, against the reference in float64."""
    with ir.Context():
        module = qt.optimize(ir.Module.parse(layer.text), pipeline)
        result = qt.compile(module, **options)(layer.input)
    return float(np.abs(result - layer.expected).max() / np.abs(layer.expected).max())


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 9, 33])
@pytest.mark.parametrize(("out_features", "in_features"), [(64, 64), (33, 70), (5, 64), (96, 1), (161, 128), (1, 33)])
def test_int8(rows: int, out_features: int, in_features: int) -> None:
    assert error_of(layers.int8_linear(rows, out_features, in_features)) < 2e-6


@pytest.mark.parametrize("rows", [1, 3, 8, 17])
@pytest.mark.parametrize(
    ("out_features", "in_features", "group"), [(64, 128, 32), (48, 256, 128), (37, 96, 32), (7, 64, 64), (130, 40, 8)]
)
def test_int4_groups(rows: int, out_features: int, in_features: int, group: int) -> None:
    assert error_of(layers.int4_group_linear(rows, out_features, in_features, group)) < 2e-6


@pytest.mark.parametrize("magnitude", [1e-30, 1e-20, 1.0, 1e20, 1e30])
def test_small_and_large_activations(magnitude: float) -> None:
    """Fields are not shifted down but scaled: neither end of the range of f32 may suffer."""
    layer = layers.int4_group_linear(1, 64, 128, 32)
    with ir.Context():
        executable = qt.compile(qt.optimize(ir.Module.parse(layer.text)))
    result = executable((layer.input * np.float32(magnitude)).astype(np.float32))
    np.testing.assert_allclose(result, layer.expected * magnitude, rtol=0, atol=2e-6 * magnitude * 20)


def test_large_constants_are_outside_of_the_code() -> None:
    layer = layers.int8_linear(1, 256, 512)
    with ir.Context():
        executable = qt.compile(qt.optimize(ir.Module.parse(layer.text)))
    sizes = executable.constants
    assert sum(sizes.values()) >= 256 * 512
    error = np.abs(executable(layer.input) - layer.expected).max() / np.abs(layer.expected).max()
    assert error < 2e-6
