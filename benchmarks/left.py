"""What it costs to move a weight from the left of a matmul to the right, and what it gives.

    python benchmarks/left.py [--weights i8 f32] [--log2-macs 24] [--rounds 7] [--json OUT] [--plot OUT.svg]

`Y[b.., m, n] = sum_k W[m, k] A[b.., k, n]` with one constant `W` for all batches, at a fixed number of multiply-adds,
for several M, N, K, batch sizes and numbers of batch dims. Each program is measured in four forms, on one thread:

* left: as found, with the passes of `qtranspose-default`;
* flatten, batched: weight on the right, `batch=flatten` (rows of one matmul) or `batch=batched`, with the transposes of
  run-time tensors, as a backend needs it that only takes plain matmuls;
* absorbed: `qtranspose-default{weights=right}`, where these transposes become indexing maps.

Per program and form:

* preprocessing: time of the rewrite on the weight as a constant, less the same with the weight as an argument, which is
  everything but the re-ordering of the data (best of the rounds);
* peak memory: how much the resident set grows while the passes run, in a process of its own (Linux);
* artifact: the resulting module as bytecode, weight included;
* temporaries: buffers that upstream's bufferization allocates, apart from the result;
* transposes: bytes read and written by the transposes of run-time tensors that remain;
* core: time of the contraction alone; total: of the whole program (medians of rounds, forms taking turns).

All forms of a program are compared first. The last lines say where the rewrite does not pay on this machine.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import qtranspose as qt
from mlir import ir
from mlir.dialects import arith, func
from mlir.passmanager import PassManager
from qtranspose.traffic import contractions, is_transpose, num_bytes

Array = np.ndarray[Any, np.dtype[Any]]
FUSE = "qtranspose-fold-transpose-into-dequant,qtranspose-fuse-dequant-into-matmul"
FORMS = {
    "left": "qtranspose-default",
    "flatten": f"qtranspose-static-lhs-to-rhs{{batch=flatten}},{FUSE}",
    "batched": f"qtranspose-static-lhs-to-rhs{{batch=batched}},{FUSE}",
    "absorbed": "qtranspose-default{weights=right}",
}
BUFFERIZE = (
    "one-shot-bufferize{bufferize-function-boundaries=true function-boundary-type-conversion=identity-layout-map}"
)


@dataclass(frozen=True)
class Program:
    """One matmul with its weight on the left: sizes, and the element type that the weight is stored in."""

    m: int
    k: int
    n: int
    batch: tuple[int, ...]
    stored: str

    def __str__(self) -> str:
        return f"{self.stored} {self.m}x{self.k} @ {'x'.join(map(str, (*self.batch, self.k, self.n)))}"

    def weight(self) -> Array:
        random = np.random.default_rng(0)
        if self.stored == "i8":
            return random.integers(-128, 128, (self.m, self.k), np.int8)
        return random.standard_normal((self.m, self.k)).astype(np.float32)

    def activation(self) -> Array:
        return np.random.default_rng(1).standard_normal((*self.batch, self.k, self.n)).astype(np.float32)

    def module(self, constant: bool) -> ir.Module:
        """Build the program; the weight is a resource, or else an argument that is marked constant."""
        dims = [f"b{i}" for i in range(len(self.batch))] + ["m", "n", "k"]
        maps = [["m", "k"], [*dims[: len(self.batch)], "k", "n"], dims[:-1]]
        spelled = ", ".join(f"affine_map<({', '.join(dims)}) -> ({', '.join(dim)})>" for dim in maps)
        kinds = ", ".join(f'"{"reduction" if dim == "k" else "parallel"}"' for dim in dims)
        weight = f"tensor<{self.m}x{self.k}x{self.stored}>"
        input = f"tensor<{'x'.join(map(str, (*self.batch, self.k, self.n)))}xf32>"
        result = f"tensor<{'x'.join(map(str, (*self.batch, self.m, self.n)))}xf32>"
        text = f"""
          func.func @main(%a: {input}, %w: {weight} {{qtranspose.constant}}) -> {result} {{
            %zero = arith.constant 0.0 : f32
            {self._dequantize()}
            %empty = tensor.empty() : {result}
            %init = linalg.fill ins(%zero : f32) outs(%empty : {result}) -> {result}
            %y = linalg.generic {{indexing_maps = [{spelled}], iterator_types = [{kinds}]}}
                ins(%real, %a : tensor<{self.m}x{self.k}xf32>, {input}) outs(%init : {result}) {{
            ^bb0(%x0: f32, %x1: f32, %sum: f32):
              %product = arith.mulf %x0, %x1 : f32
              %next = arith.addf %sum, %product : f32
              linalg.yield %next : f32
            }} -> {result}
            return %y : {result}
          }}"""
        module = ir.Module.parse(text)
        if constant:
            function = next(iter(module.body))
            block = function.regions[0].blocks[0]
            argument = block.arguments[1]
            with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
                data = ir.DenseResourceElementsAttr.get_from_buffer(
                    self.weight(), "weight", ir.RankedTensorType(argument.type)
                )
                argument.replace_all_uses_with(arith.ConstantOp(argument.type, data).result)
            block.erase_argument(1)
            types = function.attributes["function_type"].value
            function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types.inputs[:1], types.results))
            function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get({})])
        return module

    def _dequantize(self) -> str:
        weight, real = f"tensor<{self.m}x{self.k}x{self.stored}>", f"tensor<{self.m}x{self.k}xf32>"
        if self.stored != "i8":
            return f"%real = tensor.cast %w : {weight} to {real}"
        scale = ", ".join(f"{value:.6e}" for value in np.random.default_rng(2).uniform(0.01, 0.02, self.m))
        return f"""
            %scale = arith.constant dense<[{scale}]> : tensor<{self.m}xf32>
            %none = tensor.empty() : {real}
            %real = linalg.generic {{indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>,
                                                      affine_map<(m, k) -> (m, k)>],
                                     iterator_types = ["parallel", "parallel"]}}
                ins(%w, %scale : {weight}, tensor<{self.m}xf32>) outs(%none : {real}) {{
            ^bb0(%q: i8, %s: f32, %out: f32):
              %f = arith.sitofp %q : i8 to f32
              %d = arith.mulf %f, %s : f32
              linalg.yield %d : f32
            }} -> {real}"""


def programs(stored: str, log2_macs: int) -> Iterator[Program]:
    """Sizes whose product is 2**log2_macs; N takes what M, K and the batch leave."""
    rest = log2_macs
    for m, k, batch in [
        (9, 9, ()),
        (12, 12, ()),
        (12, 6, ()),
        (6, 12, ()),
        (6, 6, ()),
        (8, 8, (3,)),
        (7, 7, (6,)),
        (7, 7, (3, 3)),
        (7, 7, (2, 2, 2)),
        (7, 7, (2, 1, 2, 1)),
        (5, 5, (11,)),
        (4, 4, (15,)),
    ]:
        n = rest - m - k - sum(batch)
        if n >= 0:
            yield Program(2**m, 2**k, 2**n, tuple(2**b for b in batch), stored)


def operations(op: ir.Operation | ir.Module) -> Iterator[ir.Operation]:
    for region in op.operation.regions:
        for block in region:
            for inner in block:
                yield inner.operation
                yield from operations(inner)


def isolate(contraction: ir.Operation) -> ir.Module:
    """Make a program of `contraction` alone: what is computed from constants comes along, the rest are arguments."""
    inputs: list[ir.Value] = []

    def is_static(value: ir.Value) -> bool:
        return not isinstance(value.owner, ir.Block) and all(map(is_static, value.owner.operands))

    for operand in contraction.operands:
        if not is_static(operand) and operand not in inputs:
            inputs.append(operand)
    module = ir.Module.create(ir.Location.unknown())
    results = [result.type for result in contraction.results]
    with ir.InsertionPoint(module.body), ir.Location.unknown():
        function = func.FuncOp("main", ([value.type for value in inputs], results))
        block = function.add_entry_block()
    copies: dict[ir.Value, ir.Value] = dict(zip(inputs, block.arguments, strict=True))

    def copy(value: ir.Value) -> ir.Value:
        if value not in copies:
            copies[value] = clone(value.owner).results[ir.OpResult(value).result_number]
        return copies[value]

    def clone(op: ir.Operation) -> ir.Operation:
        operands = [copy(operand) for operand in op.operands]
        new = op.operation.clone(ir.InsertionPoint(block))
        for index, operand in enumerate(operands):
            new.operands[index] = operand
        return new

    with ir.Location.unknown():
        core = clone(contraction)
        with ir.InsertionPoint(block):
            func.ReturnOp(list(core.results))
    return module


def best(action: Callable[[], Callable[[], object]], rounds: int) -> float:
    """Run what `action` prepares; return the shortest time."""
    times = []
    for _ in range(rounds):
        run = action()
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def preprocessing(program: Program, pipeline: str, rounds: int) -> float:
    def with_weight(constant: bool) -> float:
        return best(lambda: (lambda module: lambda: qt.optimize(module, pipeline))(program.module(constant)), rounds)

    return max(with_weight(True) - with_weight(False), 0.0)


def _resident(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def _growth(program: Program, pipeline: str, pipe: Any) -> None:
    with ir.Context():
        module = program.module(True)
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
        before = _resident("VmRSS")
        qt.optimize(module, pipeline)
        pipe.send(max(_resident("VmHWM") - before, 0))


def peak_memory(program: Program, pipeline: str) -> float:
    """Growth of the resident set, in bytes; NaN where the system does not tell."""
    if not sys.platform.startswith("linux"):
        return math.nan
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_growth, args=(program, pipeline, there))
    process.start()
    grown = here.recv()
    process.join()
    return float(grown)


def temporaries(module: ir.Module) -> float:
    copy = ir.Module.parse(module.operation.get_asm(binary=False), module.context)
    PassManager.parse(f"builtin.module({BUFFERIZE},canonicalize)").run(copy.operation)
    allocated = [op.results[0] for op in operations(copy) if op.name == "memref.alloc"]
    returned = [value for op in operations(copy) if op.name == "func.return" for value in op.operands]
    return sum(map(num_bytes, allocated)) - sum(map(num_bytes, returned))


def transposed(module: ir.Module) -> float:
    moves = [op for op in operations(module) if is_transpose(op)]
    return sum(num_bytes(op.operands[0]) + num_bytes(op.results[0]) for op in moves)


@dataclass
class Row:
    """Seconds and bytes of one form of one program."""

    preprocessing_s: float
    peak_bytes: float
    artifact_bytes: int
    temporary_bytes: float
    transpose_bytes: float
    core_s: float = math.nan
    total_s: float = math.nan


def measure(program: Program, rounds: int) -> dict[str, Row]:
    rows, runs, calls = {}, {}, {}
    activation = program.activation()
    with ir.Context():
        for form, pipeline in FORMS.items():
            module = qt.optimize(program.module(True), pipeline)
            bytecode = Path(__file__).with_suffix(".mlirbc.tmp")
            try:
                with bytecode.open("wb") as file:
                    module.operation.write_bytecode(file)
                size = bytecode.stat().st_size
            finally:
                bytecode.unlink(missing_ok=True)
            rows[form] = Row(
                preprocessing_s=0.0 if form == "left" else preprocessing(program, pipeline, rounds),
                peak_bytes=peak_memory(program, pipeline),
                artifact_bytes=size,
                temporary_bytes=temporaries(module),
                transpose_bytes=transposed(module),
            )
            whole = qt.compile(module)
            core_module = isolate(next(iter(contractions(module))))
            core = qt.compile(core_module)
            shape = next(iter(core_module.body)).regions[0].blocks[0].arguments[0].type.shape
            operand = np.resize(activation, shape)
            runs[form] = whole(activation)
            calls[form] = {"total_s": (whole, activation), "core_s": (core, operand)}
        for form, result in runs.items():
            np.testing.assert_allclose(result, runs["left"], rtol=1e-4, atol=1e-3, err_msg=f"{program} {form}")
        times: dict[tuple[str, str], list[float]] = {(form, what): [] for form in calls for what in calls[form]}
        for _ in range(rounds):
            for form, what in times:
                run, argument = calls[form][what]
                start = time.perf_counter()
                run(argument)
                times[form, what].append(time.perf_counter() - start)
    for (form, what), values in times.items():
        setattr(rows[form], what, statistics.median(values))
    return rows


def plot(table: dict[str, dict[str, Row]], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [
        ("total_s", 1e3, "whole program, ms"),
        ("core_s", 1e3, "core matmul, ms"),
        ("preprocessing_s", 1e3, "constant preprocessing, ms"),
        ("transpose_bytes", 2**-20, "transposes at run time, MiB"),
        ("temporary_bytes", 2**-20, "temporaries, MiB"),
        ("peak_bytes", 2**-20, "peak compile memory, MiB"),
        ("artifact_bytes", 2**-20, "artifact, MiB"),
    ]
    figure, axes = pyplot.subplots(len(panels), 1, figsize=(11, 2.1 * len(panels)), sharex=True, layout="constrained")
    places = np.arange(len(table))
    for axis, (what, unit, title) in zip(axes, panels, strict=True):
        for index, form in enumerate(FORMS):
            heights = [getattr(rows[form], what) * unit for rows in table.values()]
            axis.bar(places + 0.2 * (index - 1.5), heights, 0.2, label=form)
        axis.set_ylabel(title, fontsize=7)
    axes[0].legend()
    axes[-1].set_xticks(places, list(table), rotation=60, ha="right", fontsize=7)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", nargs="+", choices=["i8", "f32"], default=["i8", "f32"])
    parser.add_argument("--log2-macs", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    table: dict[str, dict[str, Row]] = {}
    print(
        f"{'program':32} {'form':9} {'preproc. ms':>11} {'peak MiB':>9} {'artifact MiB':>12} {'temp. MiB':>9} "
        f"{'transp. MiB':>11} {'core ms':>9} {'total ms':>9} {'/ left':>6}"
    )
    for stored in options.weights:
        for program in programs(stored, options.log2_macs):
            rows = table[str(program)] = measure(program, options.rounds)
            for form, row in rows.items():
                print(
                    f"{str(program) if form == 'left' else '':32} {form:9} {row.preprocessing_s * 1e3:11.2f} "
                    f"{row.peak_bytes / 2**20:9.2f} {row.artifact_bytes / 2**20:12.2f} "
                    f"{row.temporary_bytes / 2**20:9.2f} {row.transpose_bytes / 2**20:11.2f} {row.core_s * 1e3:9.2f} "
                    f"{row.total_s * 1e3:9.2f} {row.total_s / rows['left'].total_s:6.2f}",
                    flush=True,
                )
    for form in list(FORMS)[1:]:
        ratios = {name: rows[form].total_s / rows["left"].total_s for name, rows in table.items()}
        slower = [f"{name} ({ratio:.2f})" for name, ratio in ratios.items() if ratio > 1.05]
        mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
        print(f"{form}: geometric mean of total / left {mean:.2f}; does not pay for: {', '.join(slower) or 'none'}")
    if options.json:
        document = {name: {form: asdict(row) for form, row in rows.items()} for name, rows in table.items()}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    if options.plot:
        plot(table, options.plot)


if __name__ == "__main__":
    main()
