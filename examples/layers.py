"""Quantized linear layers in the form in which torch-mlir prints them, of any size and with reproducible weights.

Usage: python examples/layers.py FOLDER [--out-features N] [--in-features K] [--rows M]

Writes int8_linear.mlir and int4_group_linear.mlir into FOLDER, with their inputs and expected results beside them
(NAME.npz: in0, out0).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Layer:
    """A program with one function `name`, an input for it, and the result that NumPy computes in float64."""

    name: str
    description: str
    text: str
    input: Array
    expected: Array


def int8_linear(rows: int, out_features: int, in_features: int) -> Layer:
    """`x @ dequantize(W).T`: W is int8 `[out_features, in_features]`, scale and zero point are per output feature."""
    random = np.random.default_rng(8)
    weight = random.integers(-128, 128, (out_features, in_features), dtype=np.int8)
    zero_point = random.integers(-8, 9, (out_features, 1)).astype(np.float32)
    scale = random.uniform(0.5, 1.5, (out_features, 1)).astype(np.float32) / 1024
    x = random.standard_normal((rows, in_features), dtype=np.float32)
    dequantized = (weight - zero_point.astype(np.float64)) * scale
    sizes = {"M": rows, "N": out_features, "K": in_features}
    constants: dict[str, Array] = {"weight": weight, "zero_point": zero_point, "scale": scale}
    about = f"x[{rows}, {in_features}] @ W[{out_features}, {in_features}]^T, W int8 with a scale and zero point per row"
    return Layer("int8_linear", about, _program("int8_linear", sizes, constants), x, x @ dequantized.T)


def int4_group_linear(rows: int, out_features: int, in_features: int, group: int = 128) -> Layer:
    """As `int8_linear` with unsigned 4-bit values, two a byte; scale and zero point are per `group` input features."""
    random = np.random.default_rng(4)
    groups = in_features // group
    values = random.integers(0, 16, (out_features, in_features), dtype=np.uint8)
    zero_point = random.integers(4, 13, (out_features, groups)).astype(np.float32)
    scale = random.uniform(0.5, 1.5, (out_features, groups)).astype(np.float32) / 64
    x = random.standard_normal((rows, in_features), dtype=np.float32)
    grouped = values.reshape(out_features, groups, group) - zero_point[..., None].astype(np.float64)
    dequantized = (grouped * scale[..., None]).reshape(out_features, in_features)
    # P bytes a row, the even column of each pair in the low half; C groups of G columns.
    sizes = {"M": rows, "N": out_features, "K": in_features, "P": in_features // 2, "C": groups, "G": group}
    packed = values[:, ::2] | values[:, 1::2] << 4
    constants: dict[str, Array] = {"weight": packed, "zero_point": zero_point, "scale": scale}
    about = f"x[{rows}, {in_features}] @ W[{out_features}, {in_features}]^T, W int4 with a scale per {group} columns"
    return Layer("int4_group_linear", about, _program("int4_group_linear", sizes, constants), x, x @ dequantized.T)


def _program(name: str, sizes: dict[str, int], constants: dict[str, Array]) -> str:
    """Fill in the sizes of NAME.mlir.in, and add the constants in the section that MLIR keeps for large ones."""
    template = Template((Path(__file__).parent / f"{name}.mlir.in").read_text())
    blobs = ",\n".join(
        f'      {name}: "0x{array.dtype.itemsize.to_bytes(4, "little").hex()}{array.tobytes().hex()}"'
        for name, array in constants.items()
    )
    section = f"{{-#\n  dialect_resources: {{\n    builtin: {{\n{blobs}\n    }}\n  }}\n#-}}"
    return f"{template.substitute(sizes)}\n{section}\n"


def main() -> None:
    """Write the layers that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--out-features", type=int, default=1024)
    parser.add_argument("--in-features", type=int, default=4096, help="a multiple of 128")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for make in (int8_linear, int4_group_linear):
        layer = make(options.rows, options.out_features, options.in_features)
        (options.folder / f"{layer.name}.mlir").write_text(layer.text)
        np.savez(options.folder / f"{layer.name}.npz", in0=layer.input, out0=layer.expected.astype(np.float32))


if __name__ == "__main__":
    main()
