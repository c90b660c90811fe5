"""What each PTX instruction does.

A decoder, registered under an opcode, resolves modifiers and operands once and returns the function that executes the
instruction for the active threads of a machine.
"""

from qtranspose.gpu.ptx.instructions import arithmetic, bits, conversion, loads, matrices, warps
from qtranspose.gpu.ptx.instructions.registry import decode_instruction, synchronized_lanes

__all__ = ["arithmetic", "bits", "conversion", "decode_instruction", "loads", "matrices", "synchronized_lanes", "warps"]
