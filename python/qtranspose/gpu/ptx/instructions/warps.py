"""Instructions that exchange data between the lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qtranspose.gpu.ptx.instructions.registry import Modifiers, decodes
from qtranspose.gpu.ptx.machine import WARP, Execute, Machine, source, target
from qtranspose.gpu.ptx.parser import Group, Instruction
from qtranspose.gpu.ptx.types import TYPES, PTXError

_WORD = TYPES["b32"]


@decodes("shfl")
def _shuffle(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    modifiers.one_of("sync")
    mode = modifiers.one_of("up", "down", "bfly", "idx")
    if modifiers.type() != _WORD:
        raise PTXError("unsupported type")
    modifiers.done()
    to, value, offset, clamp, _ = instruction.operands
    destinations = to.operands if isinstance(to, Group) else (to,)
    writes = [target(destinations[0], _WORD)]
    valid = target(destinations[1], TYPES["pred"]) if len(destinations) > 1 else None
    read, by, limits = source(value, _WORD), source(offset, _WORD), source(clamp, _WORD)

    def execute(machine: Machine) -> None:
        lane = machine.select(machine.lane)
        distance, packed = by(machine).astype(np.int64), limits(machine).astype(np.int64)
        segment, bound = packed >> 8 & 31, packed & 31
        last = (lane & segment) | (bound & ~segment)
        if mode == "up":
            origin, inside = lane - distance, lane - distance >= last
        elif mode == "down":
            origin, inside = lane + distance, lane + distance <= last
        elif mode == "bfly":
            origin, inside = lane ^ distance, (lane ^ distance) <= last
        else:
            origin = (lane & segment) | (distance & ~segment & 31)
            inside = origin <= last
        origin = np.where(inside, origin, lane)
        if (origin >= machine.select(machine.warp_size)).any():
            raise PTXError("a lane reads from one that does not exist: the block is not a multiple of 32 threads")
        values = machine.spread(read(machine))
        everybody = np.zeros(machine.threads, np.uint32)
        threads = machine.active_numbers()
        everybody[threads] = values
        there = np.zeros(machine.threads, bool)
        there[threads] = True
        sources = machine.select(machine.warp_start) + origin
        if not there[sources].all():
            raise PTXError("a lane reads from one that does not execute the instruction")
        writes[0](machine, everybody[sources])
        if valid:
            valid(machine, inside)

    return execute


@decodes("vote")
def _vote(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    modifiers.one_of("sync")
    mode = modifiers.one_of("all", "any", "uni", "ballot")
    result = modifiers.type()
    modifiers.done()
    predicate = source(instruction.operands[1], TYPES["pred"])
    write = target(instruction.operands[0], result)

    def execute(machine: Machine) -> None:
        holds = machine.spread(predicate(machine))
        warp, lane = machine.select(machine.warp), machine.select(machine.lane)
        ballots = np.zeros(int(machine.warp[-1]) + 1, np.uint32)
        present = np.zeros_like(ballots)
        bits = np.uint32(1) << lane.astype(np.uint32)
        np.bitwise_or.at(present, warp, bits)
        np.bitwise_or.at(ballots, warp[holds], bits[holds])
        answers = {
            "ballot": ballots,
            "any": ballots != 0,
            "all": ballots == present,
            "uni": (ballots == 0) | (ballots == present),
        }
        write(machine, answers[mode][warp])

    return execute


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
    "and": np.bitwise_and.at,
    "or": np.bitwise_or.at,
    "xor": np.bitwise_xor.at,
}


@decodes("redux")
def _reduce(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    modifiers.one_of("sync")
    name = modifiers.one_of(*_REDUCTIONS)
    type = modifiers.type()
    modifiers.done()
    read, write = source(instruction.operands[1], type), target(instruction.operands[0], type)

    def execute(machine: Machine) -> None:
        values, warp = machine.spread(read(machine)), machine.select(machine.warp)
        totals = np.zeros(int(machine.warp[-1]) + 1, type.dtype)
        if name in ("min", "max", "and"):
            totals[warp] = values  # Any value of the warp: these operations are idempotent.
        _REDUCTIONS[name](totals, warp, values)
        write(machine, totals[warp])

    return execute


@decodes("bar", "barrier")
def _warp_barrier(instruction: Instruction) -> Execute:
    """`bar.warp.sync`; barriers of a block are control flow."""
    modifiers = Modifiers(instruction)
    modifiers.one_of("warp")
    modifiers.one_of("sync")
    modifiers.done()

    def execute(machine: Machine) -> None:
        if machine.races:
            machine.races.synchronize_warps()

    return execute


@decodes("membar", "fence")
def _fence(instruction: Instruction) -> Execute:
    # Accesses are sequentially consistent anyway.
    return lambda machine: None


def full_warps(machine: Machine) -> int:
    """Return the number of active warps, all of whose lanes must be active.

    Raises:
        PTXError: if one has fewer than 32 lanes.
    """
    if machine.count % WARP or (machine.select(machine.warp_size) != WARP).any():
        raise PTXError("a warp has fewer than 32 lanes")
    return machine.count // WARP
