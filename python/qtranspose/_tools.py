"""Console scripts for the native tools that live inside the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def opt() -> NoReturn:
    """Run `qtranspose-opt`, an `mlir-opt` that also knows the qtranspose passes."""
    tool = Path(__file__).parent / "_bin" / "qtranspose-opt"
    os.execv(tool, [str(tool), *sys.argv[1:]])
