"""Launching kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qtranspose.gpu.ptx.instructions import decode_instruction, synchronized_lanes
from qtranspose.gpu.ptx.machine import Launch, Machine, Step
from qtranspose.gpu.ptx.memory import Memory
from qtranspose.gpu.ptx.parser import Instruction, Kernel, Name
from qtranspose.gpu.ptx.types import PTXError

# Enough threads at a time to amortize the interpreter, few enough for their registers to stay in cache.
_CHUNK_THREADS = 1 << 15
_MAX_BLOCK_THREADS = 1024
_MAX_GRID = (2**31 - 1, 65535, 65535)


def launch(
    kernel: Kernel,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    arguments: Sequence[bytes],
    memory: Memory,
    dynamic_shared: int = 0,
) -> None:
    """Execute a kernel for every thread of a grid.

    Args:
        kernel: to execute.
        grid: blocks in x, y and z.
        block: threads of a block in x, y and z.
        arguments: the bytes of each parameter.
        memory: that the kernel may access.
        dynamic_shared: bytes of dynamic shared memory.

    Raises:
        PTXError: if the launch is invalid, an instruction is not known, or a check fails; the message names the
            instruction.
    """
    threads = int(np.prod(block))
    if min(*grid, *block) < 1 or threads > _MAX_BLOCK_THREADS or any(map(int.__gt__, grid, _MAX_GRID)):
        raise PTXError(f"{kernel.name}: invalid launch of a grid {grid} of blocks {block}")
    if kernel.max_threads is not None and threads > kernel.max_threads:
        raise PTXError(f"{kernel.name}: blocks of {threads} threads, but the kernel allows {kernel.max_threads}")
    sizes = [size for _, size in kernel.parameters]
    if [len(argument) for argument in arguments] != sizes:
        given = [len(argument) for argument in arguments]
        raise PTXError(f"{kernel.name}: arguments of {given} bytes for parameters of {sizes} bytes")

    shared, shared_size = _layout({name: (v.size, v.alignment) for name, v in kernel.shared.items()})
    local, local_size = _layout({name: (v.size, v.alignment) for name, v in kernel.local.items()})
    variables = {}
    try:
        for name, variable in kernel.program.globals.items():
            assert variable.data is not None
            variables[name] = memory.upload(variable.data)
        names = [name for name, _ in kernel.parameters]
        run = Launch(
            kernel,
            grid,
            block,
            dict(zip(names, arguments, strict=True)),
            memory,
            shared,
            shared_size + dynamic_shared,
            local,
            local_size,
            variables,
        )
        if kernel.steps is None:
            kernel.steps = decode(kernel)
        blocks = int(np.prod(grid))
        step = max(1, _CHUNK_THREADS // threads)
        with np.errstate(all="ignore"):
            for first in range(0, blocks, step):
                Machine(run, kernel.steps, first, min(step, blocks - first)).run()
    finally:
        for address in variables.values():
            memory.free(address)


def _layout(variables: dict[str, tuple[int, int]]) -> tuple[dict[str, int], int]:
    """Place variables one after the other, never better aligned than they ask for.

    An access that needs more alignment than was declared is a bug that a lucky placement would hide.
    """
    offsets, end = {}, 0
    for name, (size, alignment) in variables.items():
        offset = -(-end // alignment) * alignment
        if alignment < 16 and offset % (2 * alignment) == 0:
            offset += alignment
        offsets[name] = offset
        end = offset + size
    return offsets, end


def decode(kernel: Kernel) -> list[Step]:
    """Resolve every instruction of a kernel.

    Raises:
        PTXError: naming the first one that is not known.
    """
    steps = []
    for instruction in kernel.instructions:
        targets: tuple[int, ...] = ()
        execute = None
        if instruction.opcode in ("bra", "brx"):
            targets = _branch_targets(kernel, instruction)
        elif instruction.opcode not in ("ret", "exit", "bar", "barrier") or "warp" in instruction.modifiers:
            execute = decode_instruction(instruction)
        elif instruction.opcode in ("bar", "barrier"):
            _check_barrier(instruction)
        steps.append(Step(instruction, execute, targets, synchronized_lanes(instruction)))
    return steps


def _branch_targets(kernel: Kernel, instruction: Instruction) -> tuple[int, ...]:
    name = instruction.operands[-1]
    if not isinstance(name, Name):
        raise PTXError(f"unsupported branch: {instruction.text}")
    names = kernel.branch_targets[name.name] if instruction.opcode == "brx" else (name.name,)
    if any(label not in kernel.labels for label in names):
        raise PTXError(f"branch to an unknown label: {instruction.text}")
    return tuple(kernel.labels[label] for label in names)


def _check_barrier(instruction: Instruction) -> None:
    parts = set(instruction.modifiers) - {"cta", "sync", "aligned"}
    if parts or "sync" not in instruction.modifiers or len(instruction.operands) != 1:
        raise PTXError(f"unsupported instruction: {instruction.text}")
