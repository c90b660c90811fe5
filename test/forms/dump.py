"""Write every program as NAME.mlir beside NAME.npz (in0.., out0..; bf16 as uint16): ``python -m forms.dump OUTDIR``.

``--inputs`` writes the programs of ``test/Inputs``, which the repository keeps as files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from .catalog import CATALOG, DERIVED
from .program import Program

INPUTS = (
    "torch_w8_zp_float_40x40_m5_g8",
    "torch_w8_u8_zp_u8_21x35_mdyn_g7",
    "torch_w4_stack_48x64_m1",
    "gptq_w4_48x64_m4_f16",
    "awq_w4_48x64_m4_f16",
    "mlc_q4f16_kn_48x64_m1_g32_f16",
    "pt2e_group_floordiv_48x64_m1",
    "fp8_e4m3_48x64_m4",
    "nf4_48x64_m4_g64",
    "onnx_matmulnbits_48x64_m1_g32_dense",
    "tflite_fc_i8_48x64_m1",
    "op_conv_2d_nhwc_fhwc_w8_48x64_m5",
    "left_w8_bias_m_48x64_m16",
    "experts_w4_12x64_m5_b4",
    "qkv_w4_48x64_m5_b2",
    "torchao_int8da_int8w_48x64_m8",
)
"""The programs kept in ``test/Inputs``: one of each kind of frontend, small."""


def portable(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array


def write(program: Program, folder: Path) -> None:
    (folder / f"{program.name}.mlir").write_text(program.mlir)
    arrays = {f"in{i}": portable(a) for i, a in enumerate(program.inputs)}
    arrays |= {f"out{i}": portable(a) for i, a in enumerate(program.outputs)}
    np.savez_compressed(folder / f"{program.name}.npz", **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--derived", action="store_true", help="the programs after stock passes, too")
    parser.add_argument("--inputs", action="store_true", help="only the programs kept in test/Inputs")
    parser.add_argument("--only", default="", help="names that contain this text")
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    for entry in CATALOG + (DERIVED if options.derived else []):
        if options.only in entry.name and (not options.inputs or entry.name in INPUTS):
            write(entry.build(), folder)


if __name__ == "__main__":
    main()
