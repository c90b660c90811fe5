"""Quantized matmuls on the CPU: qtranspose, a read of as many bytes, and other engines on the same weights.

    python benchmarks/cpu.py [--suite gemv4 gemv8 gemm] [--shape NxK] [--hot] [--threads 1 2] [--rounds 12]
                             [--engines NAME...] [--peers PYTHON] [--rotate MB] [--json OUT] [--plot OUT.svg]

Every engine is a process of its own (benchmarks/workers); those of other projects run on the Python of `--peers`, an
environment with requirements/peers.txt. Engines take turns: one pass each over all weights, then the next round. A case
is cold if its weights are more than `--rotate` MB in all (110, or the last cache if larger, up to 1 GB)
and are passed over in turn; it is hot with one weight. Weights are random, scales f16, the reference is float64.

Printed per case and engine: minimum, first quartile and median of the time of one matmul; the read probe's over each
(`of probe`); multiply-adds; the largest error over the largest result. Then, per case, what the fastest engine with the
same kind of activations takes over qtranspose (above 1: qtranspose is faster).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

WORKERS = Path(__file__).resolve().parent / "workers"
sys.path.insert(0, str(WORKERS))

from common import Case  # noqa: E402


@dataclass(frozen=True)
class Engine:
    """A worker and its options; `exact` engines keep f32 activations and sums."""

    worker: str
    exact: bool
    options: dict[str, Any] = field(default_factory=dict)


ENGINES = {
    "probe": Engine("probe", True),
    "qtranspose": Engine("qtranspose", True),
    "qtranspose int8": Engine("qtranspose", False, {"activations": "int8"}),
    "onnxruntime": Engine("onnxruntime", True, {"accuracy_level": 0}),
    "onnxruntime int8": Engine("onnxruntime", False, {"accuracy_level": 4}),
    "openvino": Engine("openvino", True, {"group": 0}),
    "openvino int8": Engine("openvino", False, {"group": 32}),
    "torch bf16": Engine("torch", False, {"kind": "bf16"}),
    "torch dense": Engine("torch", True, {"kind": "dense"}),
    "iree": Engine("iree", True),
}
OURS = ("probe", "qtranspose")
SHAPES = ((4096, 4096), (11008, 4096), (4096, 11008))


def cases(suite: str) -> Iterator[Case]:
    """The cases of a suite, for one thread and without rotation."""
    if suite == "gemv8":
        yield from (Case(n, k, bits=8) for n, k in SHAPES)
    elif suite == "gemv4":
        for n, k in SHAPES:
            for group in (32, 128):
                yield from (Case(n, k, group=group, asymmetric=asymmetric) for asymmetric in (False, True))
    elif suite == "gemm":
        yield from (Case(4096, 4096, m=m, group=32) for m in (2, 4, 8, 16, 32, 128, 512))
    else:
        raise SystemExit(f"unknown suite '{suite}'")


def last_cache_bytes() -> int:
    sizes = [0]
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        sizes.append(int(text[:-1]) * {"K": 2**10, "M": 2**20, "G": 2**30}[text[-1]])
    return max(sizes)


class Worker:
    """A process that measures one engine."""

    def __init__(self, python: Path, engine: Engine, threads: int) -> None:
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONWARNINGS="ignore")
        self.process = subprocess.Popen(
            [str(python), str(WORKERS / f"{engine.worker}_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"failed": f"the process ended ({self.process.wait()})"}

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def measure(case: Case, engines: dict[str, Engine], peers: Path | None, rounds: int) -> dict[str, Any]:
    """Set every engine up, then let them take turns."""
    workers: dict[str, Worker] = {}
    results: dict[str, Any] = {}
    for name, engine in engines.items():
        if engine.worker not in OURS and peers is None:
            continue
        worker = Worker(Path(sys.executable) if engine.worker in OURS else peers or Path(), engine, case.threads)
        # Dense weights are eight times as large, and as many of them do not fit.
        given = replace(case, sets=min(case.sets, 3)) if engine.options.get("kind") == "dense" else case
        answer = worker.ask(do="setup", case=asdict(given), options=engine.options)
        if "failed" in answer:
            print(f"  {name}: not measured: {answer['failed'].splitlines()[0]}", flush=True)
            worker.close()
            continue
        workers[name] = worker
        results[name] = {"error": answer["error"], "setup_s": answer["setup_s"], "seconds": []}
    for turn in range(rounds + 1):
        for name, worker in workers.items():
            # Threads of the engine before may still be waiting for work.
            if case.threads > 1:
                time.sleep(0.1)
            answer = worker.ask(do="run")
            if turn and "seconds" in answer:
                results[name]["seconds"].append(answer["seconds"])
    for worker in workers.values():
        worker.close()
    return {name: result for name, result in results.items() if result["seconds"]}


def quartiles(seconds: list[float]) -> tuple[float, float, float]:
    """Minimum, first quartile, median."""
    if len(seconds) < 2:
        return seconds[0], seconds[0], seconds[0]
    return min(seconds), statistics.quantiles(seconds, n=4, method="inclusive")[0], statistics.median(seconds)


def show(case: Case, results: dict[str, Any], engines: dict[str, Engine]) -> None:
    megabytes = case.bytes / 1e6
    print(f"{case}: {megabytes:.2f} MB, {case.sets} weights, load {os.getloadavg()[0]:.2f}")
    probe = quartiles(results["probe"]["seconds"]) if "probe" in results else (math.nan,) * 3
    for name, result in results.items():
        times = quartiles(result["seconds"])
        print(
            f"  {name:17} us {times[0] * 1e6:9.0f} {times[1] * 1e6:9.0f} {times[2] * 1e6:9.0f}   of probe "
            + " ".join(f"{a / b:5.2f}" for a, b in zip(probe, times, strict=True))
            + f"   {case.m * case.n * case.k / times[0] / 1e9:8.2f} GMAC/s   error {result['error']:.1e}"
        )
    for ours in ("qtranspose", "qtranspose int8"):
        rivals = {
            name: quartiles(result["seconds"])
            for name, result in results.items()
            if engines[name].worker not in OURS and engines[name].exact == engines.get(ours, ENGINES[ours]).exact
        }
        if ours not in results or not rivals:
            continue
        times = quartiles(results[ours]["seconds"])
        best = [min(rivals, key=lambda name: rivals[name][index]) for index in range(3)]
        ratios = " ".join(f"{rivals[name][index] / times[index]:.2f}x ({name})" for index, name in enumerate(best))
        print(f"  {ours} against the fastest with the same activations: {ratios}")
    sys.stdout.flush()


def plot(document: list[dict[str, Any]], file: Path) -> None:
    """Time over the read probe's, per case and engine."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in document if row["case"]["m"] == 1 and "probe" in row["results"]]
    figure, axis = pyplot.subplots(figsize=(11, 0.3 * len(rows) + 2), layout="constrained")
    for name in ENGINES:
        points = [
            (quartiles(row["results"]["probe"]["seconds"])[1] / quartiles(row["results"][name]["seconds"])[1], place)
            for place, row in enumerate(rows)
            if name in row["results"]
        ]
        if points:
            axis.scatter(*zip(*points, strict=True), label=name, s=60 if name.startswith("qt") else 25)
    axis.axvline(1, color="grey")
    axis.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=7)
    axis.set_xlabel("read probe's time over the engine's (first quartiles); 1 is the speed of memory")
    axis.legend(fontsize=7)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", nargs="+", default=["gemv4", "gemv8", "gemm"], help="gemv4, gemv8, gemm")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--shape", help="only cases of this NxK")
    parser.add_argument("--peers", type=Path, help="the Python of the environment with requirements/peers.txt")
    parser.add_argument("--rotate", type=float, help="MB of weights in cold cases")
    parser.add_argument("--hot", action="store_true", help="one weight only")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    rotate = options.rotate * 1e6 if options.rotate else min(max(110e6, 1.2 * last_cache_bytes()), 1e9)
    chosen = {name: ENGINES[name] for name in options.engines}
    document = []
    for suite in options.suite:
        for case in cases(suite):
            if options.shape and options.shape != f"{case.n}x{case.k}":
                continue
            for threads in options.threads:
                sets = 1 if options.hot or case.m > 1 else math.ceil(rotate / case.bytes)
                given = replace(case, threads=threads, sets=sets)
                engines = {name: engine for name, engine in chosen.items() if given.m == 1 or name != "probe"}
                results = measure(given, engines, options.peers, options.rounds)
                show(given, results, engines)
                document.append({"name": str(given), "case": asdict(given), "results": results})
                if options.json:
                    about = {"machine": platform.machine(), "processor": processor(), "cases": document}
                    options.json.write_text(json.dumps(about, indent=1) + "\n")
    if options.plot:
        plot(document, options.plot)


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return f"{names[0].partition(':')[2].strip()}, {len(names)} cores" if names else platform.processor()


if __name__ == "__main__":
    main()
