"""The lock files pin what pyproject.toml declares, by hash, and name no place to get it from."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ["build.txt", "dev.txt", "bench.txt"]


def locked(name: str) -> dict[str, str]:
    """Return the pin of each package of a lock file, with the hashes that follow it."""
    text = (ROOT / "requirements" / name).read_text()
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    return {line.split("==")[0].lower().replace("_", "-"): line for line in text.splitlines() if line.strip()}


def test_pyproject_pins_are_the_locked_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lock = locked("build.txt")
    for pin in {*project["build-system"]["requires"], *project["project"]["dependencies"]}:
        name, version = pin.split("==")
        assert lock[name.lower().replace("_", "-")].startswith(f"{name.lower().replace('_', '-')}=={version} ")


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_pinned_by_hash(name: str) -> None:
    lock = locked(name)
    assert lock
    for line in lock.values():
        assert re.match(r"[\w.-]+==[\w.]+ ", line), line
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), line


@pytest.mark.parametrize("name", [*LOCKS, "build.in", "dev.in", "bench.in"])
def test_no_index_is_named(name: str) -> None:
    assert not re.search(r"://|--(extra-)?index-url|--find-links", (ROOT / "requirements" / name).read_text())
