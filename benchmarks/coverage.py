"""Weight traffic that a pipeline leaves on the programs of a folder, beside a rival command line.

    python benchmarks/coverage.py FOLDER... [--pipeline P] [--rival 'mlir-opt --some-pass {in} -o {out}'] [--json OUT]

For every program in which a stored weight reaches a contraction: bytes moved per weight over its quantized bytes
(`qtranspose.traffic`), as given and after each, and the transposes left on those paths. A program that fails, or whose
weights vanish from view, counts as it was given and is listed.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import qtranspose as qt
from mlir import ir
from qtranspose.traffic import Traffic, total, weight_paths


def parse(path: Path) -> ir.Module:
    context = ir.Context()
    context.allow_unregistered_dialects = True
    return ir.Module.parseFile(str(path), context)


def ours(path: Path, pipeline: str) -> Traffic:
    return total(weight_paths(qt.optimize(parse(path), pipeline)))


def rival(path: Path, command: str) -> Traffic:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.mlir")
        line = command.format(**{"in": shlex.quote(str(path)), "out": shlex.quote(str(out))})
        result = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        if result.returncode:
            raise RuntimeError((result.stderr.strip().splitlines() or [f"exit status {result.returncode}"])[0])
        return total(weight_paths(parse(out)))


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--pipeline", default="default")
    parser.add_argument("--rival", metavar="COMMAND")
    parser.add_argument("--quiet", action="store_true", help="summary only")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tools: dict[str, Callable[[Path], Traffic]] = {options.pipeline: lambda path: ours(path, options.pipeline)}
    if options.rival:
        tools["rival"] = lambda path: rival(path, options.rival)

    rows = []
    for path in sorted(p for folder in options.folders for p in folder.rglob("*.mlir")):
        before = total(weight_paths(parse(path)))
        if not before.leaf_bytes:
            continue
        row: dict[str, object] = {
            "file": str(path),
            "before": before.bytes / before.leaf_bytes,
            "transposes": before.transposes,
        }
        line = f"{path.parent.name}/{path.name}: {row['before']:.2f}"
        for name, tool in tools.items():
            try:
                after = tool(path)
                if after.weights < before.weights:
                    raise RuntimeError(f"{before.weights - after.weights} of {before.weights} weights out of view")
                row[name] = {"ratio": after.bytes / before.leaf_bytes, "transposes": after.transposes}
                line += f", {name} {after.bytes / before.leaf_bytes:.2f}"
            except (RuntimeError, qt.QTransposeError, ir.MLIRError) as error:
                row[name] = {"ratio": row["before"], "transposes": before.transposes, "failure": str(error)[:200]}
                line += f", {name} FAILED: {str(error)[:120]}"
        rows.append(row)
        if not options.quiet:
            print(line)

    before = [float(row["before"]) for row in rows]
    print(
        f"{len(rows)} programs with weights; bytes over quantized bytes: as given {geometric_mean(before):.2f} "
        f"(geometric mean), {sum(int(row['transposes']) for row in rows)} transposes"
    )
    for name in tools:
        results = [row[name] for row in rows]
        ratios = [result["ratio"] for result in results]
        print(
            f"{name}: {geometric_mean(ratios):.2f}, {sum(r <= 1.05 for r in ratios)} of {len(rows)} at <= 1.05, "
            f"{sum(result['transposes'] for result in results)} transposes, "
            f"{sum('failure' in result for result in results)} failed"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
