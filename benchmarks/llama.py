"""Time of the default pipeline on Llama decoders of 1, 8 and 32 layers, beside stock MLIR's best recipe.

    python benchmarks/llama.py [--layers 1 8 32] [--rounds 5] [--json OUT]

Both run on the same module (Llama 3 8B widths, int4 groups of 128, weights as arguments), in turn, in this process.
Printed: the best and median time of each, their ratio, and time per layer over that of the smallest module.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

import qtranspose as qt
from forms.llama import REAL, Decoder
from mlir import ir

STOCK = "linalg-generalize-named-ops,linalg-fold-unit-extent-dims,linalg-fuse-elementwise-ops,canonicalize,cse"
PIPELINES = {"qtranspose-default": "default", "stock": STOCK}


def seconds(text: str, pipeline: str) -> float:
    with ir.Context():
        module = ir.Module.parse(text)
        start = time.perf_counter()
        qt.optimize(module, pipeline)
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for layers in options.layers:
        text = Decoder(REAL, layers).text
        times: dict[str, list[float]] = {name: [] for name in PIPELINES}
        for _ in range(options.rounds):
            for name, pipeline in PIPELINES.items():
                times[name].append(seconds(text, pipeline))
        best = {name: min(values) for name, values in times.items()}
        median = {name: statistics.median(values) for name, values in times.items()}
        row = {"layers": layers, "best_s": best, "median_s": median}
        row["ratio"] = best["qtranspose-default"] / best["stock"]
        rows.append(row)
        row["over_linear"] = (best["qtranspose-default"] / layers) / (
            rows[0]["best_s"]["qtranspose-default"] / rows[0]["layers"]
        )
        print(
            f"{layers:3} layers: qtranspose-default {best['qtranspose-default'] * 1e3:8.1f} ms (median "
            f"{median['qtranspose-default'] * 1e3:8.1f}), stock {best['stock'] * 1e3:8.1f} ms (median "
            f"{median['stock'] * 1e3:8.1f}), ratio {row['ratio']:.2f}, per layer over {rows[0]['layers']}-layer "
            f"module {row['over_linear']:.2f}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
