"""Loads, stores, asynchronous copies and calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qtranspose.gpu.ptx.instructions.registry import Modifiers, address_of, decodes, group_of
from qtranspose.gpu.ptx.machine import Execute, Machine, source, target
from qtranspose.gpu.ptx.memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_END, check_alignment
from qtranspose.gpu.ptx.parser import Address, Group, Immediate, Instruction, Name
from qtranspose.gpu.ptx.types import TYPES, Array, PTXError, ScalarType, bits_of, view_as

_SPACES = ("global", "shared", "local", "param", "const", "shared::cta")
# Hints and memory orders: all accesses here are sequentially consistent.
_HINTS = (
    *(
        "weak",
        "relaxed",
        "acquire",
        "release",
        "volatile",
        "cta",
        "gpu",
        "sys",
        "nc",
        "ca",
        "cg",
        "cs",
        "cv",
        "wb",
        "wt",
    ),
    *("L1::evict_last", "L1::evict_first", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B"),
)
_COUNTS = {"v2": 2, "v4": 4, "v8": 8}


@dataclass(frozen=True)
class _Form:
    """What `ld` and `st` access: the space, the type of an element, and how many."""

    space: str
    type: ScalarType
    count: int

    @classmethod
    def of(cls, instruction: Instruction) -> _Form:
        modifiers = Modifiers(instruction)
        space = modifiers.choice(*_SPACES) or "generic"
        while modifiers.choice(*_HINTS):
            pass
        vector = modifiers.choice(*_COUNTS)
        type = modifiers.type()
        modifiers.done()
        if type.bits < 8:
            raise PTXError("unsupported type")
        return cls(space.partition(":")[0], type, _COUNTS[vector] if vector else 1)


@decodes("ld", "ldu")
def _load(instruction: Instruction) -> Execute:
    form = _Form.of(instruction)
    type = form.type
    writes = [target(operand, type) for operand in group_of(instruction.operands[0])]
    if len(writes) != form.count:
        raise PTXError("unexpected operands")
    if form.space == "param":
        return _load_parameter(address_of(instruction.operands[1]), type, writes)
    addresses = thread_addresses(instruction.operands[1], form.space)

    def execute(machine: Machine) -> None:
        values = load(machine, form.space, addresses(machine), type.size, form.count)
        for write, value in zip(writes, values, strict=True):
            write(machine, view_as(value, type))

    return execute


def _load_parameter(address: Address, type: ScalarType, writes: list[Callable[[Machine, Array], None]]) -> Execute:
    if not isinstance(address.base, Name):
        raise PTXError("a parameter is not addressed by name")
    name = address.base.name

    def execute(machine: Machine) -> None:
        data = machine.launch.parameters.get(name)
        if data is None:
            raise PTXError(f"unknown parameter {name}")
        for position, write in enumerate(writes):
            start = address.offset + position * type.size
            if start < 0 or start + type.size > len(data):
                raise PTXError(f"parameter {name} has {len(data)} bytes")
            write(machine, view_as(np.frombuffer(data, type.storage, 1, start)[0], type))

    return execute


@decodes("st")
def _store(instruction: Instruction) -> Execute:
    form = _Form.of(instruction)
    type = form.type
    reads = [source(operand, type) for operand in group_of(instruction.operands[1])]
    if len(reads) != form.count:
        raise PTXError("unexpected operands")
    if form.space == "param":
        base = address_of(instruction.operands[0])
        if not isinstance(base.base, Name):
            raise PTXError("a parameter is not addressed by name")
        name, offset = base.base.name, base.offset

        def store_parameter(machine: Machine) -> None:
            values = machine.call_parameters.setdefault(name, {})
            for position, read in enumerate(reads):
                values[offset + position * type.size] = read(machine)

        return store_parameter
    addresses = thread_addresses(instruction.operands[0], form.space)

    def execute(machine: Machine) -> None:
        values = [bits_of(read(machine), type) for read in reads]
        store(machine, form.space, addresses(machine), type.size, values)

    return execute


def thread_addresses(operand: object, space: str) -> Callable[[Machine], Array]:
    """Return a function that computes one address per active thread."""
    address = operand
    if not isinstance(address, Address):
        raise PTXError("an operand is not an address")
    narrow = getattr(getattr(address.base, "type", None), "bits", 64) == 32
    read = source(address.base, TYPES["u32" if narrow and space in ("shared", "local") else "u64"])
    offset = np.uint64(address.offset & (2**64 - 1))
    return lambda machine: machine.spread(np.asarray(read(machine).astype(np.uint64) + offset))


def load(machine: Machine, space: str, addresses: Array, size: int, count: int) -> list[Array]:
    """Read `count` elements of `size` bytes at the address of each active thread.

    Raises:
        PTXError: if an address is out of bounds or not aligned, or the access races.
    """
    space, addresses = _resolve(space, addresses)
    if space in ("global", "const"):
        return machine.launch.memory.load(addresses, size, count)
    threads = machine.active_numbers()
    data, rows = _private(machine, space, threads, addresses, size * count, is_store=False)
    width = size * count
    gathered = data[rows[:, None], addresses.astype(np.int64)[:, None] + np.arange(width)]
    elements = np.ascontiguousarray(gathered).view(f"u{size}").reshape(len(threads), count)
    return [np.ascontiguousarray(elements[:, position]) for position in range(count)]


def store(machine: Machine, space: str, addresses: Array, size: int, values: list[Array]) -> None:
    """Write consecutive elements of `size` bytes at the address of each active thread.

    Raises:
        PTXError: as `load`.
    """
    space, addresses = _resolve(space, addresses)
    if space == "global":
        machine.launch.memory.store(addresses, size, values)
        return
    if space == "const":
        raise PTXError("store to constant memory")
    threads = machine.active_numbers()
    width = size * len(values)
    data, rows = _private(machine, space, threads, addresses, width, is_store=True)
    elements = np.empty((len(threads), len(values)), f"u{size}")
    for position, value in enumerate(values):
        elements[:, position] = value
    places = rows[:, None], addresses.astype(np.int64)[:, None] + np.arange(width)
    stored = elements.view(np.uint8)
    data[places] = stored
    if space == "shared" and not np.array_equal(data[places], stored):
        raise PTXError("race on shared memory: threads store different values to one address")


def _resolve(space: str, addresses: Array) -> tuple[str, Array]:
    """Find out which space generic addresses belong to."""
    if space != "generic":
        return space, addresses
    low, high = int(addresses.min()), int(addresses.max())
    if high < SHARED_WINDOW:
        return "global", addresses
    for name, start, end in (("shared", SHARED_WINDOW, LOCAL_WINDOW), ("local", LOCAL_WINDOW, WINDOW_END)):
        if start <= low and high < end:
            return name, addresses - np.uint64(start)
    raise PTXError("generic addresses in several spaces at once")


def _private(
    machine: Machine, space: str, threads: Array, offsets: Array, width: int, is_store: bool
) -> tuple[Array, Array]:
    """Check accesses to shared or local memory and return its bytes, and the row of each thread."""
    what = f"{space} {'store' if is_store else 'load'}"
    check_alignment(offsets, width, what)
    if space == "shared":
        data, rows, size = machine.shared, machine.block[threads], machine.launch.shared_size
    else:
        data, rows, size = machine.local, threads, machine.launch.local_size
    last = int(offsets.max())
    if last + width > size:
        raise PTXError(f"out of bounds: {what} at offset {last} of {size} bytes")
    if space == "shared" and machine.races:
        machine.races.check(threads, offsets.astype(np.int64), width, is_store)
    return data, rows


@dataclass
class _Copy:
    """An asynchronous copy that has not landed: one row of data per thread, and the group that each belongs to."""

    threads: Array
    addresses: Array
    groups: Array
    data: list[Array]


class _Copies:
    """The asynchronous copies in flight. Data lands as late as a kernel allows: when a thread waits for its group."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._committed = np.zeros(machine.threads, np.int64)
        self._flying: list[_Copy] = []

    @classmethod
    def of(cls, machine: Machine) -> _Copies:
        copies = machine.extra.setdefault("copies", cls(machine))
        assert isinstance(copies, _Copies)
        return copies

    def start(self, addresses: Array, data: list[Array]) -> None:
        threads = self._machine.active_numbers()
        self._flying.append(_Copy(threads, addresses, self._committed[threads], data))

    def commit(self) -> None:
        self._committed[self._machine.active_numbers()] += 1

    def wait(self, pending: int | None) -> None:
        """Let all but the latest `pending` groups of the active threads land; None: all, committed or not."""
        machine = self._machine
        waits = np.zeros(machine.threads, bool)
        waits[machine.active_numbers()] = True
        active = machine.active
        flying = []
        for copy in self._flying:
            landing = waits[copy.threads]
            if pending is not None:
                landing &= copy.groups < self._committed[copy.threads] - pending
            if landing.any():
                machine.active = copy.threads[landing]
                store(machine, "shared", copy.addresses[landing], 4, [word[landing] for word in copy.data])
            if not landing.all():
                left = ~landing
                rest = [word[left] for word in copy.data]
                flying.append(_Copy(copy.threads[left], copy.addresses[left], copy.groups[left], rest))
        machine.active = active
        self._flying = flying


@decodes("cp")
def _copy_async(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    modifiers.one_of("async")
    what = modifiers.choice("commit_group", "wait_group", "wait_all")
    if what:
        modifiers.done()
        if what == "commit_group":
            return lambda machine: _Copies.of(machine).commit()
        pending = _number(instruction.operands[0]) if what == "wait_group" else None
        return lambda machine: _Copies.of(machine).wait(pending)
    modifiers.one_of("ca", "cg")
    modifiers.one_of("shared", "shared::cta")
    modifiers.one_of("global")
    while modifiers.choice("L2::64B", "L2::128B", "L2::256B"):
        pass
    modifiers.done()
    to = thread_addresses(instruction.operands[0], "shared")
    origin = thread_addresses(instruction.operands[1], "global")
    size = _number(instruction.operands[2])
    if size not in (4, 8, 16):
        raise PTXError("unexpected operands")
    valid = source(instruction.operands[3], TYPES["u32"]) if len(instruction.operands) > 3 else None

    def execute(machine: Machine) -> None:
        destinations, origins = to(machine), origin(machine)
        check_alignment(destinations, size, "shared store")
        words = [np.zeros(len(origins), np.uint32) for _ in range(size // 4)]
        # Bytes beyond the valid ones are not read and become zero.
        counts = machine.spread(valid(machine)) if valid else np.full(len(origins), size, np.uint32)
        if (counts % 4 != 0).any() or (counts > size).any():
            raise PTXError("only whole words of cp.async can be left out")
        if (counts == size).all():
            words = machine.launch.memory.load(origins, 4, size // 4)
            check_alignment(origins, size, "global load")
        else:
            for position, word in enumerate(words):
                some = counts > 4 * position
                if some.any():
                    word[some] = machine.launch.memory.load(origins[some] + np.uint64(4 * position), 4, 1)[0]
        _Copies.of(machine).start(destinations, words)

    return execute


def _number(operand: object) -> int:
    if not isinstance(operand, Immediate):
        raise PTXError("an operand is not a number")
    return int(operand.text, 0)


@decodes("call")
def _call(instruction: Instruction) -> Execute:
    """Only `__assertfail`, which a failed `cf.assert` calls with its message first."""
    callee = instruction.operands[0]
    if not isinstance(callee, Name) or callee.name != "__assertfail":
        raise PTXError("unknown function")
    parameters = [operand for operand in instruction.operands[1:] if isinstance(operand, Group)]
    first = parameters[0].operands[0]
    if not isinstance(first, Name):
        raise PTXError("unexpected operands")
    name = first.name

    def execute(machine: Machine) -> None:
        address = int(machine.spread(machine.call_parameters[name][0])[0])
        raise PTXError(f"assertion failed: {_string(machine, address)}")

    return execute


def _string(machine: Machine, address: int) -> str:
    text = bytearray()
    while byte := int(machine.launch.memory.view(address + len(text), 1)[0]):
        text.append(byte)
    return text.decode(errors="replace")
