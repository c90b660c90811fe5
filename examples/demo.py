"""The main job, on two layers as a frontend prints them: optimize, run before and after, compare.

Usage: python examples/demo.py [--rows M] [--out-features N] [--in-features K]

For each layer the program is executed as it is and after `qt.optimize`, both are compared with NumPy in float64, and
the table shows what changed. The exit code is 1 if a result is off or a transpose is left.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import qtranspose as qt
from layers import Layer, int4_group_linear, int8_linear
from mlir import ir

TOLERANCE = 1e-4
"""Largest error allowed, relative to the largest result."""


def operations(op: ir.Operation) -> Iterator[ir.Operation]:
    """Yield `op` and all operations inside."""
    yield op
    for region in op.regions:
        for block in region:
            for inner in block:
                yield from operations(inner.operation)


def statistics(module: ir.Module) -> dict[str, int]:
    """Count the operations in function bodies (what is inside `linalg` operations counts with them), and transposes."""
    names = [op.name for op in operations(module.operation) if op.parent and op.parent.name == "func.func"]
    return {"operations": len(names), "transposes": names.count("linalg.transpose")}


def median_ms(function: Callable[[], object], repeat: int = 7) -> float:
    """Return the median time of a call, in milliseconds; one call before them warms up."""
    function()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3


def execute(module: ir.Module, layer: Layer) -> dict[str, float]:
    """Compile and run; return the time of a call in milliseconds and the error relative to the largest result."""
    executable = qt.compile(module, target="cpu")
    error = np.abs(executable(layer.input) - layer.expected).max() / np.abs(layer.expected).max()
    return {"time (ms)": median_ms(lambda: executable(layer.input)), "error": float(error)}


def show(layer: Layer) -> bool:
    """Print the comparison for one layer; return whether all is well."""
    context = ir.Context()
    with context:
        module = ir.Module.parse(layer.text)
        print(f"\n{layer.name}: {layer.description}")
        before = {**statistics(module), **execute(module, layer)}
        with qt.remarks(context) as remarks:
            qt.optimize(module)
        after = {**statistics(module), **execute(module, layer)}
    print(f"  {'':20}{'before':>12}{'after':>12}")
    for name, value in before.items():
        print(f"  {name:20}{value:12.4g}{after[name]:12.4g}")
    for remark in remarks:
        if remark.kind == "passed":
            print(f"  {remark.name}: {remark.reason}")
    return max(before["error"], after["error"]) <= TOLERANCE and not after["transposes"]


def main() -> int:
    """Run the layers that the command line asks for and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1, help="rows of the activation (default: %(default)s)")
    parser.add_argument("--out-features", type=int, default=1024, help="rows of the weight (default: %(default)s)")
    parser.add_argument("--in-features", type=int, default=4096, help="a multiple of 128 (default: %(default)s)")
    options = parser.parse_args()
    sizes = (options.rows, options.out_features, options.in_features)
    results = [show(make(*sizes)) for make in (int8_linear, int4_group_linear)]
    print("\nagreement within", TOLERANCE, "of the largest result:", "yes" if all(results) else "NO")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
