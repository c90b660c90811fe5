"""The wheel installs into any environment: its dependencies suffice, and it records no path of the build machine."""

import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from installed import LLVM, QTRANSPOSE

ROOT = Path(__file__).parents[2]
SITE_PACKAGES = Path(sysconfig.get_path("purelib"))
NATIVE = ["_bin/qtranspose-opt", "_lib/QTransposePlugin.so", "_mlir_libs/_qtranspose*.so"]

installed = pytest.mark.skipif(
    ROOT in QTRANSPOSE.parents and SITE_PACKAGES not in QTRANSPOSE.parents,
    reason="qtranspose is a source tree here; `make test` installs it",
)


def run(*command: str | Path, cwd: Path | None = None) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel made from the sources; the build folder of `make build` makes this quick."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, ROOT)
    return next(folder.glob("qtranspose-*.whl"))


@installed
def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for pattern in NATIVE:
        expression = re.escape(f"qtranspose/{pattern}").replace(r"\*", ".*")
        assert sum(bool(re.fullmatch(expression, name)) for name in names) == 1, pattern
    assert not [name for name in names if not re.match(r"qtranspose(-[\d.]+\.dist-info)?/", name)]
    assert not [name for name in names if re.search(r"\.(cpp|h|td|a|o|cmake|pyc)$", name)]


@installed
def test_wheel_runs_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    """Only the declared dependencies are there; pip checks that they suffice, the tools that they work."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    fresh = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for entry in SITE_PACKAGES.iterdir():
        if not re.match(r"qtranspose|.*\.pth$", entry.name):
            (fresh / entry.name).symlink_to(entry)
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-index",
        "--find-links",
        wheel.parent,
        "qtranspose",
    )

    scripts = python.parent
    assert "LLVM version 22" in run(scripts / "qtranspose-opt", "--version")
    assert "qtranspose-fold-transpose-into-dequant" in run(scripts / "qtranspose-opt", "--help")
    script = """if True:
        import mlir.ir as ir, qtranspose
        with ir.Context():
            qtranspose.optimize(ir.Module.parse("func.func @f() { return }"))
        print(qtranspose.__file__)"""
    assert Path(run(python, "-c", script, cwd=tmp_path).strip()).is_relative_to(fresh)


@installed
def test_native_files_record_no_path_of_this_machine() -> None:
    for pattern in NATIVE:
        (path,) = QTRANSPOSE.glob(pattern)
        dynamic = run(LLVM / "bin" / "llvm-readobj", "--dynamic-table", "--needed-libs", path)
        for entries in re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", dynamic):
            assert all(entry.startswith("$ORIGIN/") for entry in entries.split(":")), entries
        content = path.read_bytes()
        for folder in (ROOT, SITE_PACKAGES):
            assert bytes(folder) not in content, f"{path.name} names {folder}"
