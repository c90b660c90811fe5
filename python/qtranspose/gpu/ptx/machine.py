"""The threads of a running kernel: registers, control flow, barriers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qtranspose.gpu.ptx.memory import POISON, Memory
from qtranspose.gpu.ptx.parser import Immediate, Instruction, Kernel, Name, Operand, Register
from qtranspose.gpu.ptx.races import SharedRaces
from qtranspose.gpu.ptx.types import TYPES, Array, PTXError, ScalarType, bits_of, view_as

WARP = 32
ALL_LANES = Immediate("-1")

# All threads, a run of consecutive ones, or a sorted list.
Active = slice | Array | None
Execute = Callable[["Machine"], None]


@dataclass(frozen=True)
class Launch:
    """The arguments of a kernel launch, and what all its threads share.

    Attributes:
        kernel: to execute.
        grid: blocks in x, y and z.
        block: threads of a block in x, y and z.
        parameters: the bytes of each kernel parameter, by name.
        memory: global memory.
        shared: offset of each variable in a block's shared memory.
        shared_size: bytes of shared memory.
        local: offset of each variable in a thread's local memory.
        local_size: bytes of local memory.
        globals: address of each variable of the program in global memory.
    """

    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    parameters: dict[str, bytes]
    memory: Memory
    shared: dict[str, int]
    shared_size: int
    local: dict[str, int]
    local_size: int
    globals: dict[str, int]


@dataclass(frozen=True)
class Step:
    """A decoded instruction.

    Attributes:
        instruction: that it came from.
        execute: what it does; None for control flow.
        targets: positions that a branch goes to.
        synchronizes: None, or the mask of the lanes that must arrive together (a register or a number).
    """

    instruction: Instruction
    execute: Execute | None
    targets: tuple[int, ...] = ()
    synchronizes: Operand | None = None


class Machine:
    """The threads of some consecutive blocks, in lockstep where their control flow agrees.

    Threads at the same instruction form a group. The group that is furthest behind runs first, so that diverged threads
    meet again where their paths join.

    Attributes:
        launch: what is executed.
        threads: how many.
        active: those that execute the current instruction.
        thread: position of each thread in its block.
        block: number of each thread's block among those of this machine.
        warp: number of each thread's warp among those of this machine.
        lane: of each thread in its warp.
        registers: contents of each register: one value for all threads, or one per thread.
        shared: bytes of each block's shared memory.
        local: bytes of each thread's local memory.
        call_parameters: values of the `.param` variables of a call, by name and offset.
        races: the race detector of shared memory.
        extra: state that instructions keep, by name.
    """

    def __init__(self, launch: Launch, code: list[Step], first_block: int, blocks: int) -> None:
        """Set up the threads of `blocks` blocks, from number `first_block` on."""
        self.launch = launch
        self._code = code
        self._blocks = blocks
        size = int(np.prod(launch.block))
        self.threads = blocks * size
        numbers = np.arange(self.threads)
        self.block = numbers // size
        self.thread = numbers % size
        self.lane = self.thread % WARP
        self._warps_per_block = -(-size // WARP)
        self.warp = self.block * self._warps_per_block + self.thread // WARP
        # The first thread of each thread's warp, and how many the warp has.
        self.warp_start = self.block * size + (self.thread - self.lane)
        self.warp_size = np.minimum(WARP, size - (self.thread - self.lane))
        self._existing = _mask_of(self.warp_size)
        self.active: Active = None
        self.registers: list[Array] = [np.zeros((), type.storage) for type in launch.kernel.registers]
        self._owned = [False] * len(self.registers)
        self.shared = np.full((blocks, max(launch.shared_size, 1)), POISON, np.uint8)
        self.local = np.full((self.threads, launch.local_size), POISON, np.uint8)
        self.call_parameters: dict[str, dict[int, Array]] = {}
        several_threads = size > 1 and launch.shared_size > 0
        self.races = SharedRaces(self) if several_threads else None
        self.extra: dict[str, object] = {}
        self._special = _special_registers(self, first_block)
        self._exited = np.zeros(self.threads, bool)
        self._waiting = np.full(self.threads, -1)
        self._ready: dict[int, Active] = {0: None}
        self._deferred: set[int] = set()

    # Registers

    @property
    def count(self) -> int:
        """How many threads are active."""
        if self.active is None:
            return self.threads
        if isinstance(self.active, slice):
            return int(self.active.stop - self.active.start)
        return len(self.active)

    def select(self, per_thread: Array) -> Array:
        """Return the elements of the active threads."""
        return per_thread if self.active is None else per_thread[self.active]

    def spread(self, value: Array) -> Array:
        """Return one element per active thread of a value that may be the same for all."""
        return np.broadcast_to(value, (self.count,)) if value.ndim == 0 else value

    def read_register(self, index: int) -> Array:
        """Return the bits of a register: a scalar if it is the same for all threads, else one per active thread."""
        value = self.registers[index]
        if value.ndim == 0 or self.active is None:
            self._owned[index] = False
            return value
        if isinstance(self.active, slice):
            self._owned[index] = False
            return value[self.active]
        return np.take(value, self.active)

    def write_register(self, index: int, bits: Array) -> None:
        """Set a register of the active threads."""
        if self.active is None:
            self.registers[index] = bits
            self._owned[index] = False
            return
        if not self._owned[index]:
            # Its array may be an operand's too.
            self.registers[index] = np.array(np.broadcast_to(self.registers[index], (self.threads,)))
            self._owned[index] = True
        self.registers[index][self.active] = bits

    def special(self, name: str) -> Array:
        """Return a special register.

        Raises:
            PTXError: if there is no such register.
        """
        if name not in self._special:
            raise PTXError(f"unknown register or name: {name}")
        value = self._special[name]
        return value if value.ndim == 0 else self.select(value)

    # Control flow

    def run(self) -> None:
        """Execute until every thread has exited."""
        while True:
            runnable = [position for position in self._ready if position not in self._deferred]
            if runnable:
                self._run_group(min(runnable))
            elif not self._release_barriers():
                break
        if self._ready or (self._waiting >= 0).any():
            raise PTXError(self._describe_deadlock())

    def _run_group(self, position: int) -> None:
        """Run one group until it branches apart, exits, waits or meets another group."""
        active = self._ready.pop(position)
        while True:
            if position >= len(self._code):
                self._exit(active)
                return
            step = self._code[position]
            instruction = step.instruction
            self.active = active
            if step.synchronizes is not None:
                active, late = self._arrived(step.synchronizes)
                if late is not None:
                    self._put(position, late)
                    self._deferred.add(position)
                    if active is _NOBODY:
                        return
                self.active = active
            taken, rest = self._guarded(instruction)
            if taken is not _NOBODY:
                self.active = taken
                if step.execute is not None:
                    try:
                        step.execute(self)
                    except PTXError as error:
                        raise PTXError(f"{self.launch.kernel.name}: {error}\n  in `{instruction.text}`") from None
                elif step.targets:
                    self._branch(step, taken)
                    active = rest
                elif instruction.opcode in ("ret", "exit"):
                    self._exit(taken)
                    active = rest
                else:
                    self._waiting[_selector(taken)] = position
                    active = rest
            if active is _NOBODY:
                return
            position += 1
            # A branch has put its target aside: the group that is behind continues.
            if position in self._ready or (step.targets and self._ready and min(self._ready) < position):
                self._put(position, active)
                return

    def _guarded(self, instruction: Instruction) -> tuple[Active, Active]:
        """Split the active threads into those that execute an instruction and the others."""
        if instruction.guard is None:
            return self.active, _NOBODY
        holds = self.read_register(instruction.guard.index)
        if instruction.negated:
            holds = ~holds
        if holds.all():
            return self.active, _NOBODY
        if not holds.any():
            return _NOBODY, self.active
        threads = self._numbers(self.active)
        return _compact(threads[holds], self.threads), _compact(threads[~holds], self.threads)

    def _branch(self, step: Step, active: Active) -> None:
        if len(step.targets) == 1:
            self._put(step.targets[0], active)
            return
        index = step.instruction.operands[0]
        assert isinstance(index, Register)
        choices = self.spread(self.read_register(index.index))
        threads = self._numbers(active)
        for choice in np.unique(choices):
            if choice >= len(step.targets):
                raise PTXError(f"branch index {choice} out of range in `{step.instruction.text}`")
            self._put(step.targets[int(choice)], _compact(threads[choices == choice], self.threads))

    def _put(self, position: int, active: Active) -> None:
        """Let threads continue at a position, together with those that are there already."""
        self._deferred.discard(position)
        if position in self._ready:
            there = self._numbers(self._ready[position])
            active = _compact(np.sort(np.concatenate([there, self._numbers(active)])), self.threads)
        self._ready[position] = active

    def _exit(self, active: Active) -> None:
        self._exited[_selector(active)] = True

    def _arrived(self, lanes: Operand) -> tuple[Active, Active]:
        """Split the active threads into those whose whole group of lanes is here, and those that must wait."""
        if self.active is None and lanes == ALL_LANES:
            return self.active, None
        threads = self._numbers(self.active)
        mask = self.spread(source(lanes, TYPES["b32"])(self))
        warp, lane = self.warp[threads], self.lane[threads]
        if ((mask >> lane.astype(np.uint32)) & np.uint32(1) == 0).any():
            raise PTXError("a thread executes a warp-synchronous instruction whose mask leaves it out")
        present = np.zeros(self._blocks * self._warps_per_block, np.uint32)
        np.bitwise_or.at(present, warp, np.uint32(1) << lane.astype(np.uint32))
        complete = (mask & self._existing[threads]) & ~present[warp] == 0
        if complete.all():
            return self.active, None
        here, late = threads[complete], threads[~complete]
        return (_compact(here, self.threads) if len(here) else _NOBODY), _compact(late, self.threads)

    def _release_barriers(self) -> bool:
        """Let the blocks continue all of whose threads wait at one barrier; return whether there was any."""
        waiting = self._waiting.reshape(self._blocks, -1)
        complete = (waiting[:, 0] >= 0) & (waiting == waiting[:, :1]).all(axis=1)
        if not complete.any():
            return False
        if self.races:
            self.races.synchronize_blocks(complete)
        threads = np.nonzero(complete[self.block])[0]
        positions = self._waiting[threads]
        self._waiting[threads] = -1
        for position in np.unique(positions):
            self._put(int(position) + 1, _compact(threads[positions == position], self.threads))
        return True

    def _describe_deadlock(self) -> str:
        name = self.launch.kernel.name
        if self._ready:
            position = min(self._ready)
            missing = "not all lanes of a warp reach this instruction together"
        else:
            position = int(self._waiting[self._waiting >= 0].min())
            missing = "not all threads of a block reach this barrier"
        return f"{name}: divergent synchronization: {missing}\n  in `{self._code[position].instruction.text}`"

    def _numbers(self, active: Active) -> Array:
        if active is None:
            return np.arange(self.threads)
        return np.arange(active.start, active.stop) if isinstance(active, slice) else active

    def active_numbers(self) -> Array:
        """Return the numbers of the active threads."""
        return self._numbers(self.active)


# Told apart from None, which is everybody.
_NOBODY = slice(0, 0)


def _selector(active: Active) -> slice | Array:
    return slice(None) if active is None else active


def _compact(threads: Array, total: int) -> Active:
    """Return sorted thread numbers in the cheapest form."""
    if len(threads) == total:
        return None
    first, last = int(threads[0]), int(threads[-1])
    return slice(first, last + 1) if last - first + 1 == len(threads) else threads


def _mask_of(sizes: Array) -> Array:
    """Return the lane masks of warps of some sizes."""
    return ((np.uint64(1) << sizes.astype(np.uint64)) - np.uint64(1)).astype(np.uint32)


def _special_registers(machine: Machine, first_block: int) -> dict[str, Array]:
    grid, block = machine.launch.grid, machine.launch.block
    thread, number = machine.thread, machine.block + first_block
    blocks = [number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])]
    threads = [thread % block[0], thread // block[0] % block[1], thread // (block[0] * block[1])]
    registers: dict[str, Array] = {}
    for axis, letter in enumerate("xyz"):
        registers[f"%ctaid.{letter}"] = blocks[axis] if grid[axis] > 1 else np.zeros(())
        registers[f"%tid.{letter}"] = threads[axis] if block[axis] > 1 else np.zeros(())
        registers[f"%nctaid.{letter}"] = np.array(grid[axis])
        registers[f"%ntid.{letter}"] = np.array(block[axis])
    registers["%laneid"] = machine.lane
    registers["%warpid"] = thread // WARP
    registers["WARP_SZ"] = np.array(WARP)
    return {name: np.asarray(value).astype(np.uint32) for name, value in registers.items()}


# Operands


def source(operand: Operand, type: ScalarType) -> Callable[[Machine], Array]:
    """Return a function that reads an operand as a type: a scalar, or one value per active thread.

    Raises:
        PTXError: if the operand is not a value of that type.
    """
    if isinstance(operand, Register):
        index, declared = operand.index, operand.type
        if declared.bits == type.bits:
            return lambda machine: view_as(machine.read_register(index), type)
        if declared.bits > type.bits and type.bits > 1:
            narrow = type.storage
            return lambda machine: view_as(machine.read_register(index).astype(narrow), type)
        raise PTXError(f"a register of {declared.bits} bits is read as .{type.name}")
    if isinstance(operand, Immediate):
        value = view_as(np.array(_immediate_bits(operand.text, type), type.storage), type)
        return lambda machine: value
    if isinstance(operand, Name):
        return _named(operand.name, type)
    raise PTXError("an operand is not a value")


def _named(name: str, type: ScalarType) -> Callable[[Machine], Array]:
    def read(machine: Machine) -> Array:
        launch = machine.launch
        for offsets in (launch.shared, launch.local, launch.globals):
            if name in offsets:
                return view_as(np.array(offsets[name], type.storage), type)
        return view_as(machine.special(name).astype(type.storage), type)

    return read


def _immediate_bits(text: str, type: ScalarType) -> int:
    prefix = text[:2].lower()
    if prefix in ("0f", "0d"):
        bits = int(text[2:], 16)
        width = 32 if prefix == "0f" else 64
        if type.bits == width:
            return bits
        single = np.array(bits, f"u{width // 8}").view(f"f{width // 8}")
        if not type.is_float or type.lanes != 1:
            raise PTXError(f"{text} is not a number of type .{type.name}")
        return int(single.astype(type.dtype).view(type.storage))
    number = int(text.rstrip("U"), 0)
    if type.name == "pred":
        return number & 1
    return number & ((1 << type.bits) - 1)


def target(operand: Operand, type: ScalarType) -> Callable[[Machine, Array], None]:
    """Return a function that writes a value of a type to an operand, extending it to the register's width.

    Raises:
        PTXError: if the operand is not a register that can hold it.
    """
    if isinstance(operand, Name) and operand.name == "_":
        return lambda machine, value: None
    if not isinstance(operand, Register):
        raise PTXError("the destination is not a register")
    index, declared = operand.index, operand.type
    if declared.bits == type.bits:
        return lambda machine, value: machine.write_register(index, bits_of(np.asarray(value), type))
    if declared.bits < type.bits or type.lanes != 1 or type.bits == 1:
        raise PTXError(f"a register of {declared.bits} bits is written as .{type.name}")
    wide = np.dtype(f"{'i' if type.is_signed else 'u'}{declared.bits // 8}")
    narrow = type.dtype if type.is_signed else type.storage

    def write(machine: Machine, value: Array) -> None:
        extended = np.asarray(value).view(narrow).astype(wide)
        machine.write_register(index, extended.view(declared.storage))

    return write
