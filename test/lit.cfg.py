"""Lit configuration: `lit test` runs every .mlir file and the scripts of test/python.

The `qtranspose` package is whichever one the running interpreter imports (installed, or a source tree on PYTHONPATH),
so the suite tests what a user would get. Substitutions: %PYTHON, %plugin (the pass plugin), %inputs (test/Inputs).
"""

import importlib.util
import os
import sys
from pathlib import Path

import lit.formats

config = config  # noqa: F821  (injected by lit)


def package_dir(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        lit_config.fatal(f"no `{name}` package in {sys.executable}: run `make build`")  # noqa: F821
    return Path(next(iter(spec.submodule_search_locations))).resolve()


test_dir = Path(__file__).parent.resolve()
qtranspose = package_dir("qtranspose")

config.name = "qtranspose"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]  # and .py in test/python, see its lit.local.cfg
# Programs that pytest reads.
config.excludes = ["Inputs", "regressions"]
config.test_source_root = str(test_dir)
config.test_exec_root = str(test_dir.parent / "build" / "test")
config.substitutions += [
    ("%PYTHON", sys.executable),
    ("%plugin", str(qtranspose / "_lib" / "QTransposePlugin.so")),
    ("%inputs", str(test_dir / "Inputs")),
]
# First on PATH, so that no other LLVM of the machine can stand in: the native tool, then the wheels' mlir-opt and
# FileCheck, then the console scripts.
tools = [qtranspose / "_bin", package_dir("mlir") / "bin", package_dir("llvm") / "bin", Path(sys.executable).parent]
config.environment["PATH"] = os.pathsep.join([*map(str, tools), os.environ["PATH"]])
config.environment["FILECHECK_OPTS"] = "-enable-var-scope --dump-input-filter=error"
for variable in ("PYTHONPATH", "LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
