"""Run many cases: `python -m fuzz.run --cases N [--seed S] [--jobs J] [--log FILE]` in the folder `test`.

A case is a program and a pipeline, executed before and after and compared. Case number i of a seed is always the same.
Each worker process runs a range of cases; one that dies is a finding, and the range goes on after the case that killed
it. Findings are printed, and their programs written to `--findings`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path

from forms.catalog import CATALOG, DERIVED
from numpy.random import default_rng

from .check import choose, complaint
from .programs import GENERATORS

TIMEOUT = 60
CHUNK = 200


def build(seed: int, number: int) -> tuple[str, str, str, str]:
    """Return (kind, program, passes before, pipeline) of a case."""
    rng = random.Random(seed * 1_000_003 + number)
    kind = rng.choices(("form", *GENERATORS), (1, 2, 1))[0]
    if kind == "form":
        entry = rng.choice(CATALOG if rng.random() < 0.7 else DERIVED)
        text = entry.vary(default_rng([seed, number])).build().mlir
        kind = f"form {entry.name}"
    else:
        text = GENERATORS[kind](rng)
    return kind, text, *choose(rng)


def work(seed: int, start: int, end: int, pipe: Connection) -> None:
    for number in range(start, end):
        pipe.send((number, "start", None))
        _, text, stock, pipeline = build(seed, number)
        try:
            found = complaint(text, stock, pipeline, number)
        except Exception as error:  # whatever it is, it is a finding
            found = f"{type(error).__name__}: {error}"
        pipe.send((number, "done", found))
    pipe.close()


def run(seed: int, cases: int, jobs: int, first: int = 0) -> dict[int, str]:
    """Run cases and return what was found, by number."""
    fork = multiprocessing.get_context("fork")
    ranges = [(start, min(start + CHUNK, first + cases)) for start in range(first, first + cases, CHUNK)]
    findings: dict[int, str] = {}
    active: dict[Connection, list] = {}  # type: ignore[type-arg]
    while ranges or active:
        while ranges and len(active) < jobs:
            start, end = ranges.pop(0)
            receive, send = fork.Pipe(duplex=False)
            worker = fork.Process(target=work, args=(seed, start, end, send))
            worker.start()
            send.close()
            active[receive] = [worker, start, end, time.monotonic()]
        for pipe in wait(list(active), timeout=1):
            state = active[pipe]  # type: ignore[index]
            try:
                number, event, found = pipe.recv()  # type: ignore[union-attr]
            except EOFError:
                worker, number, end, _ = active.pop(pipe)  # type: ignore[call-overload]
                worker.join()
                if number < end and worker.exitcode != 0:
                    findings[number] = f"the process died ({worker.exitcode})"
                    ranges.insert(0, (number + 1, end))
                continue
            state[1], state[3] = number, time.monotonic()
            if event == "done" and found:
                findings[number] = found
        for pipe, (worker, number, end, since) in list(active.items()):
            if time.monotonic() - since > TIMEOUT:
                worker.kill()
                worker.join()
                del active[pipe]
                findings[number] = f"no result within {TIMEOUT} s"
                ranges.insert(0, (number + 1, end))
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--log", type=Path, help="append one JSON line about this run")
    parser.add_argument("--findings", type=Path, help="write the programs of findings to this folder")
    options = parser.parse_args()
    start = time.monotonic()
    findings = run(options.seed, options.cases, options.jobs, options.first)
    for number, found in sorted(findings.items()):
        kind, text, stock, pipeline = build(options.seed, number)
        print(f"seed {options.seed} case {number} ({kind}): '{stock}' then '{pipeline}': {found[:300]}")
        if options.findings:
            options.findings.mkdir(parents=True, exist_ok=True)
            header = f"// seed {options.seed}, case {number}: '{stock}' then '{pipeline}'\n// {found.splitlines()[0]}\n"
            (options.findings / f"{options.seed}_{number}.mlir").write_text(header + text)
    summary = {"seed": options.seed, "first": options.first, "cases": options.cases, "findings": len(findings)}
    print(f"{options.cases} cases, {len(findings)} findings, {time.monotonic() - start:.0f} s")
    if options.log:
        with options.log.open("a") as file:
            file.write(json.dumps(summary) + "\n")
    return int(bool(findings))


if __name__ == "__main__":
    raise SystemExit(main())
