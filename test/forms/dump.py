"""Write every program as NAME.mlir beside NAME.npz (in0.., out0..; bf16 as uint16): ``python -m forms.dump OUTDIR``."""

from __future__ import annotations

import argparse
from pathlib import Path

import ml_dtypes
import numpy as np

from .catalog import CATALOG, DERIVED
from .program import Program


def portable(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array


def write(program: Program, folder: Path) -> None:
    (folder / f"{program.name}.mlir").write_text(program.mlir)
    arrays = {f"in{i}": portable(a) for i, a in enumerate(program.inputs)}
    arrays |= {f"out{i}": portable(a) for i, a in enumerate(program.outputs)}
    np.savez(folder / f"{program.name}.npz", **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--derived", action="store_true", help="the programs after stock passes, too")
    parser.add_argument("--only", default="", help="names that contain this text")
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    for entry in CATALOG + (DERIVED if options.derived else []):
        if options.only in entry.name:
            write(entry.build(), folder)


if __name__ == "__main__":
    main()
