"""Where the packages under test live."""

import importlib.util
from pathlib import Path


def package_dir(name: str) -> Path:
    """Return the folder of an importable package, without importing it."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.submodule_search_locations is not None, f"no package {name}"
    return Path(next(iter(spec.submodule_search_locations))).resolve()


QTRANSPOSE, MLIR, LLVM = (package_dir(name) for name in ("qtranspose", "mlir", "llvm"))
OPT = QTRANSPOSE / "_bin" / "qtranspose-opt"
PLUGIN = QTRANSPOSE / "_lib" / "QTransposePlugin.so"
MLIR_OPT = MLIR / "bin" / "mlir-opt"
