"""The memory of an emulated GPU: global memory, and the windows of the other spaces in the generic one."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from qtranspose.gpu.ptx.types import Array, PTXError

# Above every address of a process on x86-64 and aarch64.
SHARED_WINDOW = 0x7_0000_0000_0000
LOCAL_WINDOW = 0x7_1000_0000_0000
WINDOW_END = 0x7_2000_0000_0000

# cudaMalloc's alignment.
ALIGNMENT = 256
# What memory that was never written holds: far from zero under every type.
POISON = 0xCD

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass
class _Allocation:
    base: int
    size: int
    bytes: Array
    read_only: bool
    owner: Array | None


class Memory:
    """Global memory: allocations at real addresses of this process, which kernels may access and nothing else."""

    def __init__(self) -> None:
        self._allocations: dict[int, _Allocation] = {}
        self._sorted: tuple[Array, list[_Allocation]] | None = None

    def allocate(self, size: int) -> int:
        """Return the address of new memory of `size` bytes, not initialized."""
        owner = np.full(max(size, 1) + ALIGNMENT, POISON, np.uint8)
        start = -owner.ctypes.data % ALIGNMENT
        base = owner.ctypes.data + start
        self._add(_Allocation(base, size, owner[start : start + size], False, owner))
        return int(base)

    def upload(self, array: Array, read_only: bool = False) -> int:
        """Return the address of a copy of a C-contiguous array; kernels may not store to it if `read_only`."""
        base = self.allocate(array.nbytes)
        allocation = self._allocations[base]
        allocation.bytes[:] = array.reshape(-1).view(np.uint8)
        allocation.read_only = read_only
        return base

    def view(self, address: int, size: int) -> Array:
        """Return the bytes of a range within one allocation, to read or write from the host.

        Raises:
            PTXError: if no allocation holds the range.
        """
        for allocation in self._allocations.values():
            offset = address - allocation.base
            if offset >= 0 and offset + size <= allocation.size:
                return allocation.bytes[offset : offset + size]
        raise PTXError(f"{address:#x} is not an address of device memory with {size} bytes")

    def map(self, address: int, size: int, read_only: bool = False) -> None:
        """Let kernels access memory of the process that somebody else owns and keeps alive."""
        buffer = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        self._add(_Allocation(address, size, buffer, read_only, None))

    def free(self, address: int) -> None:
        """Forget the allocation that starts at an address.

        Raises:
            PTXError: if there is none.
        """
        if self._allocations.pop(address, None) is None:
            raise PTXError(f"{address:#x} is freed, but not allocated")
        self._sorted = None

    def __len__(self) -> int:
        return len(self._allocations)

    def load(self, addresses: Array, size: int, count: int) -> list[Array]:
        """Read `count` consecutive elements of `size` bytes at each address.

        Raises:
            PTXError: for an address outside of every allocation, or not aligned to all of the elements.
        """
        parts = self._parts(addresses, size * count, "load")
        if len(parts) == 1:
            return _columns(_gather(*parts[0][1:], size, count))
        rows = np.empty((len(addresses), count), _UNSIGNED[size])
        for lanes, allocation, offsets in parts:
            rows[lanes] = _gather(allocation, offsets, size, count)
        return _columns(rows)

    def store(self, addresses: Array, size: int, values: list[Array]) -> None:
        """Write consecutive elements of `size` bytes at each address; each value is scalar or one per address.

        Raises:
            PTXError: as `load`; and if memory is read-only, or two threads store different values to one place.
        """
        rows = np.empty((len(addresses), len(values)), _UNSIGNED[size])
        for position, value in enumerate(values):
            rows[:, position] = value
        for lanes, allocation, offsets in self._parts(addresses, size * len(values), "store"):
            if allocation.read_only:
                raise PTXError(f"store to read-only memory at {int(addresses[lanes][0]):#x}")
            elements = _elements(allocation, size, len(values))
            index = offsets // (size * len(values))
            elements[index] = rows[lanes]
            if not np.array_equal(elements[index], rows[lanes]):
                raise PTXError("race: threads store different values to one address of global memory")

    def _add(self, allocation: _Allocation) -> None:
        self._allocations[allocation.base] = allocation
        self._sorted = None

    def _parts(self, addresses: Array, size: int, what: str) -> list[tuple[Array | slice, _Allocation, Array]]:
        """Group addresses by allocation: (which of them, allocation, offsets)."""
        check_alignment(addresses, size, f"global {what}")
        if self._sorted is None:
            ordered = sorted(self._allocations.values(), key=lambda allocation: allocation.base)
            self._sorted = np.array([allocation.base for allocation in ordered], np.uint64), ordered
        bases, allocations = self._sorted
        low, high = addresses.min(), addresses.max()
        first = int(np.searchsorted(bases, low, side="right")) - 1
        if first >= 0:
            found = allocations[first]
            if int(high) + size <= found.base + found.size:
                return [(slice(None), found, (addresses - bases[first]).astype(np.int64))]
        owners = np.searchsorted(bases, addresses, side="right").astype(np.int64) - 1
        parts: list[tuple[Array | slice, _Allocation, Array]] = []
        for owner in np.unique(owners):
            lanes = np.nonzero(owners == owner)[0]
            inside = addresses[lanes]
            if owner < 0:
                raise PTXError(_outside(what, int(inside[0]), len(lanes)))
            found = allocations[owner]
            bad = inside.astype(object) + size > found.base + found.size
            if bad.any():
                raise PTXError(_outside(what, int(inside[bad][0]), int(bad.sum())))
            parts.append((lanes, found, (inside - bases[owner]).astype(np.int64)))
        return parts


def check_alignment(addresses: Array, size: int, what: str) -> None:
    """Raise a PTXError if an address is not a multiple of `size`, a power of two."""
    wrong = addresses & np.uint64(size - 1)
    if wrong.any():
        first = int(addresses[np.nonzero(wrong)[0][0]])
        raise PTXError(f"misaligned {what} of {size} bytes at {first:#x}")


def _outside(what: str, address: int, lanes: int) -> str:
    return f"out of bounds: global {what} at {address:#x} ({lanes} threads)"


def _elements(allocation: _Allocation, size: int, count: int) -> Array:
    width = size * count
    whole = allocation.bytes[: allocation.size // width * width]
    return whole.view(_UNSIGNED[size]).reshape(-1, count)


def _gather(allocation: _Allocation, offsets: Array, size: int, count: int) -> Array:
    return np.take(_elements(allocation, size, count), offsets // (size * count), axis=0)


def _columns(rows: Array) -> list[Array]:
    return [np.ascontiguousarray(rows[:, position]) for position in range(rows.shape[1])]
