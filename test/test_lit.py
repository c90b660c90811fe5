"""The lit suite as pytest tests: lit runs once, each of its test files is one pytest test."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TEST_DIR = Path(__file__).parent


def lit(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from lit.main import main; main()", *arguments, TEST_DIR]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@cache
def discovered() -> list[str]:
    listing = lit("--show-tests")
    assert listing.returncode == 0, listing.stdout + listing.stderr
    return [line.strip() for line in listing.stdout.splitlines() if line.startswith("  ")]


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    report = tmp_path_factory.mktemp("lit") / "results.json"
    run = lit("--output", report)
    assert report.is_file(), run.stdout + run.stderr
    return {test["name"]: test for test in json.loads(report.read_text())["tests"]}


@pytest.mark.parametrize("name", discovered())
def test_lit(name: str, results: dict[str, dict[str, Any]]) -> None:
    outcome = results[name]
    if outcome["code"] == "UNSUPPORTED":
        pytest.skip(outcome["output"] or "unsupported here")
    assert outcome["code"] in ("PASS", "XFAIL"), outcome["output"]
