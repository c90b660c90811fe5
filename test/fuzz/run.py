"""Run many cases: `python -m fuzz.run --cases N [--seed S] [--jobs J] [--log FILE]` in the folder `test`.

A case is a program, and what a pipeline makes of it, both executed on the same inputs and compared (see
`check.Outcome`). Program number i of a seed is always the same. Each worker process runs a range of programs; one that
dies is a finding, and the range goes on after the program that killed it. Findings are printed, and their programs
written to `--findings`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

from forms.catalog import CATALOG, DERIVED
from numpy.random import default_rng

from .check import Outcome, check, choose
from .generators import GENERATORS

TIMEOUT = 60
CHUNK = 100
# Pipelines per program, and the share of programs that are compiled too.
BREADTH = 6
COMPILED = 0.03
WEIGHTS = {"form": 1, "layer": 3, "layouts": 2, "products": 6}


@dataclass(frozen=True)
class Program:
    """Program number `number` of a seed, and what to do with it."""

    kind: str
    text: str
    stock: str
    pipelines: list[str]
    compiled: bool


@dataclass
class Tally:
    """Totals of a run; `findings` by the number of the program: the pipeline and what is wrong."""

    programs: int = 0
    cases: int = 0
    unchanged: int = 0
    compiled: int = 0
    findings: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add(self, number: int, outcome: Outcome) -> None:
        self.programs += 1
        self.cases += outcome.cases
        self.unchanged += outcome.unchanged
        self.compiled += outcome.compiled
        if outcome.finding:
            self.findings[number] = outcome.pipeline, outcome.finding


def build(seed: int, number: int) -> Program:
    rng = random.Random(seed * 1_000_003 + number)
    kind = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    compiled = rng.random() < COMPILED
    stock, pipelines = choose(rng, BREADTH)
    if kind == "form":
        entry = rng.choice(CATALOG if rng.random() < 0.7 else DERIVED)
        text = entry.vary(default_rng([seed, number])).build().mlir
        kind = f"form {entry.name}"
        # These are larger, and the interpreter is slow in loops.
        pipelines = [pipeline.replace("tile-elements=8", "tile-elements=512") for pipeline in pipelines]
    else:
        text = GENERATORS[kind](rng)
    return Program(kind, text, stock, pipelines, compiled)


def work(seed: int, start: int, end: int, pipe: Connection) -> None:
    for number in range(start, end):
        pipe.send((number, None))
        outcome = Outcome()
        try:
            program = build(seed, number)
            outcome = check(program.text, program.stock, program.pipelines, number, program.compiled)
        except Exception as error:  # whatever it is, it is a finding
            outcome.finding = f"{type(error).__name__}: {error}"
        pipe.send((number, outcome))
    pipe.close()


def run(seed: int, cases: int, jobs: int, first: int = 0, note: Callable[[Tally], None] = lambda _: None) -> Tally:
    """Run at least so many cases; `note` is called now and then."""
    fork = multiprocessing.get_context("fork")
    tally, next_number, noted = Tally(), first, 0
    again: list[tuple[int, int]] = []
    active: dict[Connection, list] = {}  # type: ignore[type-arg]
    while active or tally.cases < cases:
        while len(active) < jobs and (again or tally.cases < cases):
            if again:
                start, end = again.pop()
            else:
                start, end = next_number, next_number + min(CHUNK, max(cases - tally.cases, 1))
                next_number = end
            receive, send = fork.Pipe(duplex=False)
            worker = fork.Process(target=work, args=(seed, start, end, send))
            worker.start()
            send.close()
            active[receive] = [worker, start, end, time.monotonic()]
        for pipe in wait(list(active), timeout=1):
            state = active[pipe]  # type: ignore[index]
            try:
                number, outcome = pipe.recv()  # type: ignore[union-attr]
            except EOFError:
                worker, number, end, _ = active.pop(pipe)  # type: ignore[call-overload]
                worker.join()
                if number < end and worker.exitcode != 0:
                    tally.add(number, Outcome(finding=f"the process died ({worker.exitcode})"))
                    again.append((number + 1, end))
                continue
            state[1], state[3] = number, time.monotonic()
            if outcome is not None:
                tally.add(number, outcome)
        for pipe, (worker, number, end, since) in list(active.items()):
            if time.monotonic() - since > TIMEOUT:
                worker.kill()
                worker.join()
                del active[pipe]
                tally.add(number, Outcome(finding=f"no result within {TIMEOUT} s"))
                again.append((number + 1, end))
        if tally.programs - noted >= 1000:
            noted = tally.programs
            note(tally)
    return tally


def report(seed: int, tally: Tally, folder: Path | None) -> None:
    """Print the findings, and write their programs."""
    for number, (pipeline, found) in sorted(tally.findings.items()):
        program = build(seed, number)
        name = f"seed {seed} program {number} ({program.kind})"
        print(f"{name}: '{program.stock}' then '{pipeline}': {found[:300]}")
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            header = f"// '{program.stock}' then '{pipeline}'\n// {found.splitlines()[0]}\n"
            (folder / f"{seed}_{number}.mlir").write_text(header + program.text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--log", type=Path, help="append one JSON line about this run")
    parser.add_argument("--findings", type=Path, help="write the programs of findings to this folder")
    parser.add_argument("--progress", type=Path, help="overwrite this file with the totals now and then")
    options = parser.parse_args()
    start = time.monotonic()

    def summary(tally: Tally) -> str:
        totals = {**asdict(tally), "findings": len(tally.findings)}
        seconds = round(time.monotonic() - start)
        return json.dumps({"seed": options.seed, "first": options.first, **totals, "seconds": seconds})

    def note(tally: Tally) -> None:
        if options.progress:
            options.progress.write_text(summary(tally) + "\n")
        report(options.seed, tally, options.findings)

    tally = run(options.seed, options.cases, options.jobs, options.first, note)
    report(options.seed, tally, options.findings)
    print(summary(tally))
    if options.log:
        with options.log.open("a") as file:
            file.write(summary(tally) + "\n")
    return int(bool(tally.findings))


if __name__ == "__main__":
    raise SystemExit(main())
