"""What all workers of the CPU benchmark share: the cases, their weights, the reference, and the line protocol.

A worker is a process that measures one engine. It reads requests as lines of JSON and answers each with one:

    {"do": "setup", "case": {...}, "options": {...}}  ->  {"error": max relative error, "setup_s": ...}
    {"do": "run"}                                     ->  {"seconds": per matmul, one pass over all weights}
    {"do": "quit"}

A failure is answered by {"failed": reason}. Everything else that an engine prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """`y[m, n] = sum_k x[m, k] W[n, k]` with quantized `W` and f32 `x`, for as many `W` in turn as `sets` says."""

    n: int
    k: int
    m: int = 1
    bits: int = 4
    group: int = 0  # columns that share a scale; 0: all of a row
    asymmetric: bool = False  # else the zero point is 8 (4 bits) or 0 (8 bits)
    threads: int = 1
    sets: int = 1

    @property
    def groups(self) -> int:
        return self.k // self.group if self.group else 1

    @property
    def bytes(self) -> int:
        """Of one `W`: values, f16 scales, zero points of a byte."""
        return self.n * self.k * self.bits // 8 + self.n * self.groups * (3 if self.asymmetric else 2)

    def __str__(self) -> str:
        form = (
            f"int{self.bits} " + (f"g{self.group}" if self.group else "per row") + (" asym" if self.asymmetric else "")
        )
        heat = "cold" if self.sets > 1 else "hot"
        return f"{form} {self.n}x{self.k} M={self.m} {heat} {self.threads}t"


@dataclass(frozen=True)
class Weight:
    """`W[n, k] = scale[n, k // group] * (values[n, k] - zero_point[n, k // group])`."""

    values: Array  # [n, k], u8 of 4 bits or i8
    scale: Array  # [n, groups], f16
    zero_point: Array  # [n, groups], u8

    @property
    def nibbles(self) -> Array:
        """Two columns a byte, `[n, k / 2]`, the even one in the low half."""
        return np.ascontiguousarray(self.values[:, ::2] | self.values[:, 1::2] << 4)

    @property
    def zero_nibbles(self) -> Array:
        return np.ascontiguousarray(self.zero_point[:, ::2] | self.zero_point[:, 1::2] << 4)

    def dequantized(self, rows: slice = slice(None)) -> Array:
        """Exactly, since a small integer times an f16 is an f32."""
        values = self.values[rows].astype(np.float32)
        grouped = values.reshape(len(values), self.scale.shape[1], -1)
        grouped = (grouped - self.zero_point[rows, :, None]) * self.scale[rows, :, None].astype(np.float32)
        return grouped.reshape(values.shape)


def weight(case: Case, number: int) -> Weight:
    random = np.random.default_rng(1000 + number)
    shape = (case.n, case.groups)
    scale = random.uniform(0.5, 1.5, shape).astype(np.float32) / 64
    if case.bits == 8:
        values = random.integers(-127, 128, (case.n, case.k), dtype=np.int8)
        return Weight(values, (scale / 16).astype(np.float16), np.zeros(shape, np.uint8))
    values = random.integers(0, 16, (case.n, case.k), dtype=np.uint8)
    zeros = random.integers(4, 13, shape, dtype=np.uint8) if case.asymmetric else np.full(shape, 8, np.uint8)
    return Weight(values, scale.astype(np.float16), zeros)


def activation(case: Case) -> Array:
    return np.random.default_rng(1).standard_normal((case.m, case.k)).astype(np.float32)


def error(case: Case, result: Array) -> float:
    """Largest error over the largest result, of up to four rows, against float64."""
    x = activation(case)[:4].astype(np.float64)
    first = weight(case, 0)
    expected = np.empty((len(x), case.n))
    for start in range(0, case.n, 1024):
        rows = slice(start, start + 1024)
        expected[:, rows] = x @ first.dequantized(rows).astype(np.float64).T
    given = np.asarray(result, np.float64).reshape(case.m, case.n)[: len(x)]
    return float(np.abs(given - expected).max() / np.abs(expected).max())


# One pass over all weights, and the result for the first.
Engine = tuple[Callable[[], object], Callable[[], Array]]


def serve(make: Callable[..., Engine]) -> None:
    """Answer requests until told to quit; `make(case, **options)` sets an engine up."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    run: Callable[[], object] | None = None
    sets = 1
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            if request["do"] == "setup":
                start = time.perf_counter()
                case = Case(**request["case"])
                run, result = make(case, **request["options"])
                sets = case.sets
                answer = {"setup_s": time.perf_counter() - start}
                run()
                answer["error"] = error(case, result())
            elif request["do"] == "run":
                assert run is not None
                start = time.perf_counter()
                run()
                answer = {"seconds": (time.perf_counter() - start) / sets}
            else:
                return
        except Exception as failure:
            traceback.print_exc()
            answer = {"failed": f"{type(failure).__name__}: {failure}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
