"""Detection of races on shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qtranspose.gpu.ptx.types import Array, PTXError

if TYPE_CHECKING:
    from qtranspose.gpu.ptx.machine import Machine

_NOBODY = -1
_SEVERAL = -2


class SharedRaces:
    """Remembers who accessed each byte of shared memory since the last barrier.

    Two accesses of different threads to one byte, one of them a store, race unless a barrier of the block lies between
    them, or, for threads of one warp, a warp-level one (`bar.warp.sync`).
    """

    def __init__(self, machine: Machine) -> None:
        """Watch the shared memory of a machine's blocks."""
        self._machine = machine
        blocks, size = machine.shared.shape
        self._size = size
        self._block_epoch = np.zeros(blocks, np.int32)
        self._warp_epoch = np.zeros(int(machine.warp[-1]) + 1, np.int32)
        self._writer = _Accesses(blocks * size)
        self._reader = _Accesses(blocks * size)

    def synchronize_blocks(self, blocks: Array) -> None:
        """Note that the threads of some blocks (a mask) passed a barrier."""
        self._block_epoch[blocks] += 1

    def synchronize_warps(self) -> None:
        """Note that the active threads passed a warp-level barrier."""
        self._warp_epoch[np.unique(self._machine.select(self._machine.warp))] += 1

    def check(self, threads: Array, offsets: Array, size: int, is_store: bool) -> None:
        """Check and note an access of `size` bytes at an offset into shared memory by each of some threads.

        Raises:
            PTXError: if it races with an earlier access.
        """
        machine = self._machine
        warps = machine.warp[threads]
        blocks = machine.block[threads]
        now = self._block_epoch[blocks], self._warp_epoch[warps]
        start = blocks * self._size + offsets
        for byte in range(size):
            place = start + byte
            clash = self._writer.conflicts(place, threads, warps, now)
            if is_store:
                clash |= self._reader.conflicts(place, threads, warps, now)
            if clash.any():
                thread = int(machine.thread[threads[np.argmax(clash)]])
                does = "writes" if is_store else "reads"
                raise PTXError(
                    f"race on shared memory: thread {thread} of a block {does} what another thread accessed, "
                    "with no barrier in between"
                )
            (self._writer if is_store else self._reader).note(place, threads, warps, now)


class _Accesses:
    """The last threads that accessed each byte in one way: one of them, or several of one warp, or of several."""

    def __init__(self, size: int) -> None:
        self._thread = np.full(size, _NOBODY, np.int32)
        self._warp = np.full(size, _NOBODY, np.int32)
        self._block_epoch = np.full(size, _NOBODY, np.int32)
        self._warp_epoch = np.full(size, _NOBODY, np.int32)

    def conflicts(self, place: Array, threads: Array, warps: Array, now: tuple[Array, Array]) -> Array:
        """Which of the places were accessed by another thread, with no barrier since."""
        recent = self._block_epoch[place] == now[0]
        same_warp = self._warp[place] == warps
        other = (self._thread[place] != threads) & (self._warp_epoch[place] == now[1])
        return np.asarray(recent & np.where(same_warp, other, True))

    def note(self, place: Array, threads: Array, warps: Array, now: tuple[Array, Array]) -> None:
        """Add accesses; several in one instruction may be to one place."""
        recent = self._block_epoch[place] == now[0]
        same_warp = recent & (self._warp[place] == warps)
        same_thread = same_warp & (self._warp_epoch[place] == now[1]) & (self._thread[place] == threads)
        stale_in_warp = same_warp & (self._warp_epoch[place] != now[1])
        thread = np.where(same_thread | stale_in_warp | ~recent, threads, _SEVERAL)
        warp = np.where(same_warp | ~recent, warps, _SEVERAL)
        self._thread[place] = thread
        self._warp[place] = warp
        self._block_epoch[place] = now[0]
        self._warp_epoch[place] = now[1]
        # Whoever lost his place to another access of the same instruction was there too.
        lost = (self._thread[place] != threads) & (thread != _SEVERAL)
        if lost.any():
            places = place[lost]
            apart = self._warp[places] != warps[lost]
            self._thread[places] = _SEVERAL
            self._warp[places[apart]] = _SEVERAL
