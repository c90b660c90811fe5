"""`-DMLIR_DIR=` builds against an MLIR 22 that is not the interpreter's `mlir` package."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from installed import LLVM, MLIR

ROOT = Path(__file__).parents[2]
FOLDERS = {MLIR: ["_mlir_libs", "bin", "include", "lib"], LLVM: ["bin", "include", "lib"]}


def run(*command: str | Path) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture
def prefix() -> Iterator[Path]:
    """A copy of the wheels' prefix made of hard links, on the file system of the checkout."""
    prefix = ROOT / "build" / "relocated" / "prefix"
    shutil.rmtree(prefix.parent, ignore_errors=True)
    for package, folders in FOLDERS.items():
        for folder in folders:
            shutil.copytree(package / folder, prefix / package.name / folder, copy_function=link, symlinks=True)
    yield prefix
    shutil.rmtree(prefix.parent)


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # the interpreter's packages are on another file system
        shutil.copy2(source, target)


@pytest.mark.relocated
def test_build_against_a_relocated_install(prefix: Path) -> None:
    build = prefix.parent / "build"
    arguments = [f"-DMLIR_DIR={prefix}/mlir/lib/cmake/mlir", f"-DPython_EXECUTABLE={sys.executable}"]
    # Only that it builds and runs is of interest, so compile as quickly as possible.
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DCMAKE_CXX_FLAGS_RELEASE=-O0", *arguments)
    run("cmake", "--build", build)
    run("cmake", "--install", build, "--prefix", prefix.parent / "site", "--component", "qtranspose")

    tool = prefix.parent / "site" / "qtranspose" / "_bin" / "qtranspose-opt"
    pipeline = "--pass-pipeline=builtin.module(qtranspose-fold-transpose-into-dequant)"
    module = ROOT / "test" / "Tools" / "plugin.mlir"
    plugin = prefix.parent / "site" / "qtranspose" / "_lib" / "QTransposePlugin.so"
    mlir_opt = prefix / "mlir" / "bin" / "mlir-opt"
    ours = run(tool, module, pipeline, "--split-input-file")
    assert ours == run(mlir_opt, f"--load-pass-plugin={plugin}", module, pipeline, "--split-input-file")
    # Every library comes from the relocated prefix: none from the interpreter's packages.
    loaded = run("ldd", tool)
    assert f"{prefix}/mlir/lib/libMLIR.so" in loaded
    assert str(MLIR) not in loaded
    assert str(LLVM) not in loaded
