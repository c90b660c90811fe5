"""An emulator of PTX, the assembly language of NVIDIA GPUs, in NumPy.

It executes the kernels that LLVM's NVPTX backend emits, on memory of this process, and checks what a GPU does not:
bounds and alignment of every access, barriers and warp-synchronous instructions that not all their threads reach, and
races on shared memory. It says nothing about speed, and its threads advance in lockstep, so a race on global memory
shows only where one instruction stores different values to one place.

    program = parse(text)
    memory = Memory()
    pointer = memory.allocate(1024)
    launch(program.kernels["k"], (4, 1, 1), (128, 1, 1), [pointer.to_bytes(8, "little")], memory)
"""

from qtranspose.gpu.ptx.launcher import launch
from qtranspose.gpu.ptx.memory import Memory
from qtranspose.gpu.ptx.parser import Kernel, Program, parse
from qtranspose.gpu.ptx.types import PTXError

__all__ = ["Kernel", "Memory", "PTXError", "Program", "launch", "parse"]
