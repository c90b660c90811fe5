"""Encodings through `qtranspose-attach-encodings` and `qtranspose-export-encodings`, with what they mean computed.

A weight that is quantized by its encoding, as stored after the rewrite, is the one before, in its new order; and the
program computes what it did.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qtranspose as qt
from mlir import ir
from qtranspose.elements import Array

execution = pytest.importorskip("qtranspose.execution")

M, K, N = 4, 6, 5


def fake_quantize(weight: Array, scales: list[float], offsets: list[int], axis: int | None) -> Array:
    """Round to the 8-bit grid of each channel and back."""
    shape = [-1 if dim == axis else 1 for dim in range(weight.ndim)] if axis is not None else [1] * weight.ndim
    scale, offset = np.reshape(scales, shape), np.reshape(offsets, shape)
    stored = np.clip(np.round(weight / scale) - offset, 0, 255)
    return np.asarray((stored + offset) * scale, np.float32)


def program(spelling: str, shape: tuple[int, int], weight: Array) -> str:
    operands, x, y = (
        (f"%w, %x : tensor<{M}x{K}xf32>, tensor<{K}x{N}xf32>", (K, N), (M, N))
        if spelling == "left"
        else (f"%x, %w : tensor<{N}x{K}xf32>, tensor<{K}x{M}xf32>", (N, K), (N, M))
    )
    types = {name: f"tensor<{a}x{b}xf32>" for name, (a, b) in {"x": x, "y": y, "w": shape}.items()}
    return f"""
func.func @f(%x: {types["x"]}) -> {types["y"]} {{
  %w = arith.constant dense_resource<w> : {types["w"]}
  %init = arith.constant dense<0.0> : {types["y"]}
  %y = linalg.matmul ins({operands}) outs(%init : {types["y"]}) -> {types["y"]}
  return %y : {types["y"]}
}}
{{-# dialect_resources: {{ builtin: {{ w: "0x04000000{weight.tobytes().hex()}" }} }} #-}}"""


@pytest.mark.parametrize("spelling", ["left", "right"])
@pytest.mark.parametrize("per_channel", [True, False])
def test_encodings_mean_the_same_after_the_rewrite(spelling: str, per_channel: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    shape, axis = ((M, K), 0) if spelling == "left" else ((K, M), 1)
    weight = rng.standard_normal(shape).astype(np.float32)
    count = M if per_channel else 1
    scales = [0.01 * (i + 1) for i in range(count)]
    offsets = [-128 + 3 * i for i in range(count)]
    before: dict[str, Any] = {
        "param_encodings": {
            "w": [{"bitwidth": 8, "scale": s, "offset": o} for s, o in zip(scales, offsets, strict=True)]
        }
    }
    source, result = tmp_path / "in.json", tmp_path / "out.json"
    source.write_text(json.dumps(before))
    x = rng.standard_normal((K, N) if spelling == "left" else (N, K)).astype(np.float32)
    expected = weight @ x if spelling == "left" else x @ weight
    with ir.Context():
        module = ir.Module.parse(program(spelling, shape, weight))
        qt.optimize(
            module,
            f"qtranspose-attach-encodings{{file={source}}},qtranspose-default{{weights=right}},"
            f"qtranspose-export-encodings{{file={result}}}",
        )
        np.testing.assert_allclose(execution.compile(module)(x), expected, rtol=1e-5, atol=1e-5)
        stored = [c.map for c in qt.derived_constants(module)]
    after = json.loads(result.read_text())["param_encodings"]
    (name,) = after
    assert name == ("w_derived" if spelling == "left" else "w")
    assert len(stored) == (spelling == "left")
    moved = weight.T if spelling == "left" else weight
    new_axis = after[name][0].get("axis", axis) if per_channel else None
    now = fake_quantize(moved, [c["scale"] for c in after[name]], [c["offset"] for c in after[name]], new_axis)
    then = fake_quantize(weight, scales, offsets, axis if per_channel else None)
    np.testing.assert_array_equal(now, then.T if spelling == "left" else then)
