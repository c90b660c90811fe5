"""Give hostile input to the command line: `python -m hostile.run --cases N [--seed S]` in the folder `test`.

A case is one run of `qtranspose` in a process of its own, with at most 60 s and 4 GB, on a damaged module (text or
bytecode), pipeline, archive or encodings file. It must end with status 0, or with status 2, exactly one line on stderr
and nothing on stdout or in the files it was to write. Case number i of a seed is always the same.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import qtranspose
from fuzz.generators import GENERATORS
from qtranspose import cli

from . import mutations as damage

SECONDS = 60
MEMORY = 4 << 30
TOOL = Path(qtranspose.__file__).parent / "_bin" / "qtranspose-opt"
INPUTS = sorted((Path(__file__).parents[1] / "Inputs").glob("*.mlir"))
PIPELINES = (
    "default",
    "qtranspose-default{weights=right}",
    "qtranspose-fold-transpose-into-dequant{multi-use=clone consumer-layout=nk}",
    "qtranspose-fuse-dequant-into-matmul{decision=tile few-rows=4},qtranspose-tile-fused-dequant{tile-elements=64}",
    "qtranspose-absorb-transposes{into-contractions=false}",
    "qtranspose-static-lhs-to-rhs{batch=batched paired-batches=refuse}",
    "qtranspose-lower-quantized-matmul{allow-reassociation=true}",
    "canonicalize,cse,qtranspose-default",
)
LAYER = """\
func.func @layer(%x: tensor<2x3xf32>, %s: tensor<4xi8>, %i: index) -> (tensor<2x3xf32>, tensor<4xi8>) {
  return %x, %s : tensor<2x3xf32>, tensor<4xi8>
}
"""
ARRAYS = {"in0": np.zeros((2, 3), np.float32), "in1": np.arange(4, dtype=np.int8), "in2": np.array(3, np.int64)}
NAMED = """\
func.func @main(%x: tensor<3x5xf32> loc("input")) -> tensor<2x5xf32> {
  %w = arith.constant dense_resource<weight> : tensor<2x3xf32>
  %b = arith.constant dense<[1.0, 2.0]> : tensor<2xf32> loc("bias")
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x5xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x5xf32>) -> tensor<2x5xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x5xf32>) outs(%f : tensor<2x5xf32>)
      -> tensor<2x5xf32> loc("product")
  %r = linalg.broadcast ins(%b : tensor<2xf32>) outs(%e : tensor<2x5xf32>) dimensions = [1]
  %s = linalg.add ins(%y, %r : tensor<2x5xf32>, tensor<2x5xf32>) outs(%e : tensor<2x5xf32>) -> tensor<2x5xf32>
  return %s : tensor<2x5xf32>
}
{-#
  dialect_resources: { builtin: { weight: "0x040000000000803F0000004000004040000080400000A0400000C040" } }
#-}
"""
CHANNEL = {"bitwidth": 8, "dtype": "int", "is_symmetric": "True", "scale": 0.5, "offset": -128, "min": -1.0, "max": 1.0}
ENCODINGS: tuple[dict[str, Any], ...] = (
    {
        "version": "0.6.1",
        "param_encodings": {"weight": [CHANNEL, {**CHANNEL, "scale": 0.25}], "bias": [CHANNEL]},
        "activation_encodings": {"input": [CHANNEL], "product": {"output": {"0": CHANNEL}, "input": {"0": CHANNEL}}},
        "quantizer_args": {"activation_bitwidth": 8},
    },
    {
        "version": "1.0.0",
        "param_encodings": [
            {"name": "weight", "bw": 8, "is_sym": True, "scale": [0.5, 0.25], "offset": [-128, -127], "axis": 0},
            {"name": "bias", "bw": 4, "dtype": "INT", "enc_type": "PER_TENSOR", "scale": [2], "offset": [-3]},
        ],
        "activation_encodings": [{"name": "input", "bw": 16, "dtype": "FLOAT"}],
    },
)


@dataclass
class Case:
    """A command line, in a folder of its own, and what it may write there."""

    kind: str
    arguments: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


@cache
def _bytecode(text: str) -> bytes:
    return subprocess.run([TOOL, "--emit-bytecode"], input=text.encode(), capture_output=True, check=True).stdout


def _program(rng: random.Random) -> str:
    if rng.random() < 0.15:
        return rng.choice(INPUTS).read_text()
    return GENERATORS[rng.choice(sorted(GENERATORS))](rng)


def _command(rng: random.Random, kind: str, data: bytes, small: bool) -> Case:
    """One of the commands on a module; large ones are for `opt` and `report` only."""
    name = rng.choice(("opt", "opt", "report", "run", "verify") if small else ("opt", "report"))
    pipeline = rng.choice(PIPELINES)
    arguments = [name, "m.mlir", "--pipeline", pipeline]
    if name == "verify":
        return Case(kind, [*arguments, "--trials", "1"], {"m.mlir": data})
    if name == "report" and rng.random() < 0.3:
        return Case(kind, [*arguments, "--html", "out.html"], {"m.mlir": data}, ("out.html",))
    if name == "run" and rng.random() < 0.5:
        return Case(kind, [*arguments, "--outputs", "out.npz"], {"m.mlir": data}, ("out.npz",))
    if name == "opt" and rng.random() < 0.5:
        return Case(kind, [*arguments, "-o", "out.mlir"], {"m.mlir": data}, ("out.mlir",))
    return Case(kind, arguments, {"m.mlir": data})


def _text_bytes(rng: random.Random) -> Case:
    text = _program(rng)
    return _command(rng, "module bytes", damage.damaged_bytes(rng, text.encode()), len(text) < 20_000)


def _text_ops(rng: random.Random) -> Case:
    text = _program(rng)
    return _command(rng, "module ops", damage.damaged_module(rng, text).encode(), len(text) < 20_000)


def _bytecode_bytes(rng: random.Random) -> Case:
    text = GENERATORS["products"](random.Random(rng.randrange(4)))
    return _command(rng, "bytecode", damage.damaged_bytes(rng, _bytecode(text)), True)


def _two_modules(rng: random.Random) -> Case:
    text = GENERATORS["products"](rng)
    files = {"m.mlir": text.encode(), "after.mlir": damage.damaged_module(rng, text).encode()}
    return Case("two modules", ["verify", "m.mlir", "after.mlir", "--trials", "1"], files)


def _pipeline(rng: random.Random) -> Case:
    text = GENERATORS["products"](rng)
    pipeline = damage.damaged_pipeline(rng, rng.choice(PIPELINES))
    return Case(
        "pipeline", ["opt", "m.mlir", "--pipeline", pipeline, "-o", "o.mlir"], {"m.mlir": text.encode()}, ("o.mlir",)
    )


def _archive(rng: random.Random) -> Case:
    files = {"m.mlir": LAYER.encode(), "in.npz": damage.archive(rng, ARRAYS)}
    return Case("archive", ["run", "m.mlir", "--inputs", "in.npz", "--outputs", "out.npz"], files, ("out.npz",))


def _encodings(rng: random.Random) -> Case:
    text = NAMED if rng.random() < 0.8 else damage.damaged_module(rng, NAMED)
    document = damage.damaged_json(rng, rng.choice(ENCODINGS))
    passes = rng.choice(("", "qtranspose-default{weights=right},", "canonicalize,"))
    pipeline = f"qtranspose-attach-encodings{{file=in.json}},{passes}qtranspose-export-encodings{{file=out.json}}"
    files = {"m.mlir": text.encode(), "in.json": document.encode(errors="surrogatepass")}
    return Case("encodings", ["opt", "m.mlir", "--pipeline", pipeline], files, ("out.json",))


KINDS: dict[Callable[[random.Random], Case], int] = {
    _text_ops: 10,
    _text_bytes: 4,
    _bytecode_bytes: 2,
    _two_modules: 2,
    _pipeline: 3,
    _archive: 3,
    _encodings: 3,
}


def build(seed: int, number: int) -> Case:
    rng = random.Random(seed * 1_000_003 + number)
    return rng.choices(list(KINDS), list(KINDS.values()))[0](rng)


def _child(case: Case) -> None:
    """The command in this process, which was forked for it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(f"../{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    try:
        os._exit(cli.main(case.arguments))
    except SystemExit as exit:
        os._exit(exit.code if isinstance(exit.code, int) else 2)
    except BaseException:
        os._exit(70)


def run_case(case: Case, folder: Path) -> tuple[str, str]:
    """Run it in `folder`, which is emptied; return what came of it, and what is wrong or was said."""
    shutil.rmtree(folder, ignore_errors=True)
    work = folder / "work"
    work.mkdir(parents=True)
    for name, data in case.files.items():
        (work / name).write_bytes(data)
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(work)
        _child(case)
    deadline = time.monotonic() + SECONDS
    pause = 0.005
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "fault", f"no end within {SECONDS} s"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    stdout, stderr = ((folder / name).read_bytes().decode(errors="replace") for name in ("stdout", "stderr"))
    if os.WIFSIGNALED(status):
        return "fault", f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return judge(case, os.WEXITSTATUS(status), stdout, stderr, {path.name for path in work.iterdir()})


def judge(case: Case, code: int, stdout: str, stderr: str, left: set[str]) -> tuple[str, str]:
    lines = stderr.splitlines()
    unknown = left - set(case.files) - set(case.outputs)
    if unknown:
        return "fault", f"files are left: {sorted(unknown)}"
    if code == 0:
        missing = set(case.outputs) - left
        return ("fault", f"no {sorted(missing)}") if missing and case.kind != "encodings" else ("done", "")
    if code == 1 and case.kind == "two modules" and "mismatch" in stdout:
        return "mismatch", stdout
    if code != 2:
        return "fault", f"status {code}: {stdout[:300]} {stderr[:300]}"
    written = set(case.outputs) & left
    if stdout or written:
        return "fault", f"partial output: {sorted(written)} {stdout[:100]}"
    if len(lines) != 1 or not lines[0].startswith("qtranspose: error: "):
        return "fault", f"stderr: {stderr[:500]}"
    if "internal error" in stderr:
        return "fault", lines[0]
    crashed = re.search(r"the compiler stopped|stopped by SIG", lines[0])
    return ("isolated" if crashed else "refused"), lines[0]


def work(seed: int, numbers: range) -> list[tuple[int, str, str, str]]:
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            case = build(seed, number)
            results.append((number, case.kind, *run_case(case, Path(folder) / "case")))
    return results


def run(seed: int, cases: int, jobs: int, first: int = 0) -> list[tuple[int, str, str, str]]:
    """Return number, kind, what came of it and what was said, per case."""
    chunk = 25
    ranges = [range(start, min(start + chunk, first + cases)) for start in range(first, first + cases, chunk)]
    if jobs == 1:
        return [result for numbers in ranges for result in work(seed, numbers)]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        return [r for results in pool.starmap(work, [(seed, numbers) for numbers in ranges], 1) for r in results]


def main() -> int:
    # Archives are to have members twice.
    warnings.filterwarnings("ignore", "Duplicate name")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--log", type=Path, help="append one JSON line about this run")
    parser.add_argument("--show", action="store_true", help="print what the isolated ones said too")
    options = parser.parse_args()
    start = time.monotonic()
    results = run(options.seed, options.cases, options.jobs, options.first)
    totals: dict[str, Counter[str]] = {}
    for number, kind, outcome, said in results:
        totals.setdefault(kind, Counter())[outcome] += 1
        if outcome == "fault" or (options.show and outcome == "isolated"):
            print(f"seed {options.seed} case {number} ({kind}): {outcome}: {said.strip()[:300]}")
    for kind, counts in sorted(totals.items()):
        print(f"{kind:14}", ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    faults = sum(counts["fault"] for counts in totals.values())
    print(f"{len(results)} cases, {faults} faults, {time.monotonic() - start:.0f} s")
    if options.log:
        line = {"seed": options.seed, "first": options.first, "cases": len(results), "totals": totals}
        with options.log.open("a") as file:
            file.write(json.dumps(line) + "\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
