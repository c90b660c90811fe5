"""A slice of the hostile input with a fixed seed, and that the runner sees what is wrong."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostile import run as hostile
from hostile.run import Case, build, judge, run_case

ERROR = "qtranspose: error: no\n"


def test_a_slice(tmp_path: Path) -> None:
    """In a process that has no MLIR, as the command line forks before it loads it."""
    log = tmp_path / "log"
    command = [
        sys.executable,
        "-m",
        "hostile.run",
        "--cases",
        "300",
        "--seed",
        "2026",
        "--jobs",
        "2",
        "--log",
        str(log),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stdout + done.stderr
    totals = json.loads(log.read_text())["totals"]
    assert set(totals) >= {"module ops", "module bytes", "bytecode", "pipeline", "archive", "encodings", "two modules"}
    assert sum(counts.get("fault", 0) for counts in totals.values()) == 0
    # Enough gets past the parsers.
    assert sum(counts.get("done", 0) for counts in totals.values()) >= 20


def test_a_case_is_always_the_same() -> None:
    for number in range(20):
        assert build(5, number) == build(5, number)


@pytest.mark.parametrize(
    ("code", "stdout", "stderr", "left", "said"),
    [
        (1, "", "", set(), "status 1"),
        (139, "", "", set(), "status 139"),
        (2, "", "", set(), "stderr"),
        (2, "", ERROR * 2, set(), "stderr"),
        (2, "", "Traceback\n", set(), "stderr"),
        (2, "module {", ERROR, set(), "partial output"),
        (2, "", ERROR, {"out"}, "partial output"),
        (2, "", ERROR, {"tmp123"}, "files are left"),
        (2, "", "qtranspose: error: internal error: KeyError\n", set(), "internal error"),
        (0, "", "", set(), "no ['out']"),
    ],
)
def test_faults(code: int, stdout: str, stderr: str, left: set[str], said: str) -> None:
    outcome, text = judge(Case("archive", [], {}, ("out",)), code, stdout, stderr, left)
    assert outcome == "fault"
    assert said in text


def test_what_is_right() -> None:
    case = Case("archive", [], {}, ("out",))
    assert judge(case, 0, "", "", {"out"})[0] == "done"
    assert judge(case, 2, "", ERROR, set())[0] == "refused"
    stopped = "qtranspose: error: the compiler stopped: Assertion `x' failed (SIGABRT)\n"
    assert judge(case, 2, "", stopped, set())[0] == "isolated"


@pytest.mark.parametrize("how", ["signal", "time", "memory"])
def test_limits(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(_: list[str]) -> int:
        if how == "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "time":
            time.sleep(60)
        else:
            bytearray(hostile.MEMORY)
        return 0

    monkeypatch.setattr(hostile.cli, "main", main)
    monkeypatch.setattr(hostile, "SECONDS", 1)
    outcome, text = run_case(Case("x", []), tmp_path / "case")
    assert outcome == "fault"
    assert {"signal": "SIGKILL", "time": "no end", "memory": "status 70"}[how] in text


def test_damage_is_damage() -> None:
    rng = random.Random(0)
    text = hostile.NAMED
    changed = [hostile.damage.damaged_module(rng, text) != text for _ in range(100)]
    assert sum(changed) > 80
