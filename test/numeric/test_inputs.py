"""`qtranspose run` on programs with reference results, as they are and after the default pipeline.

Those of `test/Inputs` have references that NumPy computed; those of `../shared/inputs`, beside a checkout, the results
of the untransformed programs under stock MLIR.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from forms.catalog import CATALOG
from forms.dump import INPUTS, write

ROOT = Path(__file__).parents[2]
OWN = ROOT / "test" / "Inputs"
SHARED = ROOT.parent / "shared" / "inputs"

PROGRAMS = sorted(OWN.glob("*.npz")) + sorted(SHARED.rglob("*.npz"))
# Of the largest result: float sums may be in another order than the reference's.
TOLERANCES = {np.dtype(np.float16): 2e-2, np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-4}


def wide(array: np.ndarray) -> np.ndarray:
    """A result as numbers: bf16 is stored by its bits."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def mismatch(got: np.ndarray, want: np.ndarray) -> str | None:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if want.dtype.kind in "iub" and want.dtype != np.uint16:
        return None if np.array_equal(got, want) else "integers differ"
    scale = np.abs(wide(want)).max(initial=0)
    error = np.abs(wide(got) - wide(want)).max(initial=0)
    return None if error <= TOLERANCES.get(want.dtype, 2e-2) * scale else f"error {error:.3g} of {scale:.3g}"


@pytest.mark.parametrize("pipeline", ["none", "default"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_run(program: Path, pipeline: str, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    command = [sys.executable, "-m", "qtranspose.cli", "run", program.with_suffix(".mlir"), "--pipeline", pipeline]
    command += ["--inputs", program, "--outputs", out]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    reference, results = np.load(program), np.load(out)
    names = {name for name in reference.files if name.startswith("out")}
    assert names and set(results.files) == names
    assert {name: mismatch(results[name], reference[name]) for name in names} == dict.fromkeys(names)


def test_shared_inputs_are_there() -> None:
    if not SHARED.is_dir():
        pytest.skip("no ../shared/inputs beside the checkout: only the project's own inputs were run")
    assert sum(SHARED in program.parents for program in PROGRAMS) >= 80


def test_own_inputs_are_what_the_generator_writes(tmp_path: Path) -> None:
    entries = {entry.name: entry for entry in CATALOG}
    assert {path.stem for path in OWN.glob("*.mlir")} == set(INPUTS)
    for name in INPUTS:
        write(entries[name].build(), tmp_path)
        assert (tmp_path / f"{name}.mlir").read_text() == (OWN / f"{name}.mlir").read_text()
        fresh, kept = np.load(tmp_path / f"{name}.npz"), np.load(OWN / f"{name}.npz")
        assert fresh.files == kept.files
        # Sums in float64 may differ in the last bit between machines.
        assert all(np.array_equal(fresh[key], kept[key]) for key in kept.files if key.startswith("in"))
        assert not any(mismatch(fresh[key], kept[key]) for key in kept.files if key.startswith("out"))
