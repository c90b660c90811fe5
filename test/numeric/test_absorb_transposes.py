"""Random chains of layout changes around arithmetic: `qtranspose-absorb-transposes` does not change a result.

The oracle is NumPy; values are small integers in f32, so every result is exact in any order.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import prod

import numpy as np
import pytest
import qtranspose as qt
from mlir import ir
from numpy.typing import NDArray

Array = NDArray[np.float32]


@dataclass
class Program:
    """Text and value of a program of one function, built op by op."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    arguments: list[Array] = field(default_factory=list)
    values: list[tuple[str, Array]] = field(default_factory=list)
    names: int = 0

    def type(self, array: Array) -> str:
        return f"tensor<{''.join(f'{size}x' for size in array.shape)}f32>"

    def name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def argument(self, shape: tuple[int, ...]) -> tuple[str, Array]:
        count = prod(shape)
        array = (np.arange(count) * 7 % 13 - 6).astype(np.float32).reshape(shape)
        self.arguments.append(array)
        return f"%a{len(self.arguments) - 1}", array

    def emit(self, text: str, array: Array) -> tuple[str, Array]:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name, np.ascontiguousarray(array)

    def init(self, shape: tuple[int, ...], filled: bool) -> str:
        array = np.zeros(shape, np.float32)
        empty, _ = self.emit(f"tensor.empty() : {self.type(array)}", array)
        if not filled:
            return empty
        name = self.name()
        self.lines.append(
            f"{name} = linalg.fill ins(%zero : f32) outs({empty} : {self.type(array)}) -> {self.type(array)}"
        )
        return name

    def transpose(self, value: tuple[str, Array]) -> tuple[str, Array]:
        name, array = value
        permutation = list(range(array.ndim))
        self.rng.shuffle(permutation)
        result = array.transpose(permutation)
        init = self.init(result.shape, filled=False)
        return self.emit(
            f"linalg.transpose ins({name} : {self.type(array)}) outs({init} : {self.type(result)}) "
            f"permutation = {permutation}",
            result,
        )

    def collapse(self, value: tuple[str, Array]) -> tuple[str, Array]:
        name, array = value
        if array.ndim < 2:
            return value
        cut = self.rng.randrange(array.ndim - 1)
        groups = [[d] for d in range(cut)] + [[cut, cut + 1]] + [[d] for d in range(cut + 2, array.ndim)]
        result = array.reshape([prod(array.shape[d] for d in group) for group in groups])
        return self.emit(f"tensor.collapse_shape {name} {groups} : {self.type(array)} into {self.type(result)}", result)

    def expand(self, value: tuple[str, Array]) -> tuple[str, Array]:
        name, array = value
        if array.ndim > 4 or array.ndim == 0:
            return value
        dim = self.rng.randrange(array.ndim)
        outer = self.rng.choice([f for f in range(1, array.shape[dim] + 1) if array.shape[dim] % f == 0])
        shape = [*array.shape[:dim], outer, array.shape[dim] // outer, *array.shape[dim + 1 :]]
        groups = [[d] for d in range(dim)] + [[dim, dim + 1]] + [[d + 1] for d in range(dim + 1, array.ndim)]
        result = array.reshape(shape)
        return self.emit(
            f"tensor.expand_shape {name} {groups} output_shape {shape} : {self.type(array)} into {self.type(result)}",
            result,
        )

    def slice(self, value: tuple[str, Array]) -> tuple[str, Array]:
        name, array = value
        if array.ndim == 0:
            return value
        dim = self.rng.randrange(array.ndim)
        offset = self.rng.randrange(array.shape[dim])
        stride = self.rng.choice((1, 1, 2))
        size = -(-(array.shape[dim] - offset) // stride)
        index = tuple(np.s_[offset::stride] if d == dim else np.s_[:] for d in range(array.ndim))
        result = array[index]
        offsets = [offset if d == dim else 0 for d in range(array.ndim)]
        sizes = [size if d == dim else array.shape[d] for d in range(array.ndim)]
        strides = [stride if d == dim else 1 for d in range(array.ndim)]
        return self.emit(
            f"tensor.extract_slice {name}{offsets} {sizes} {strides} : {self.type(array)} to {self.type(result)}",
            result,
        )

    def add(self, value: tuple[str, Array]) -> tuple[str, Array]:
        name, array = value
        other = self.same_shape(array) if self.rng.random() < 0.5 else value
        result = array + other[1]
        type = self.type(array)
        if self.rng.random() < 0.3:
            return self.emit(f"arith.addf {name}, {other[0]} : {type}", result)
        init = self.init(array.shape, filled=False)
        return self.emit(f"linalg.add ins({name}, {other[0]} : {type}, {type}) outs({init} : {type}) -> {type}", result)

    def same_shape(self, array: Array) -> tuple[str, Array]:
        found = [value for value in self.values if value[1].shape == array.shape]
        return self.rng.choice(found) if found else self.argument(array.shape)

    def matmul(self, value: tuple[str, Array]) -> tuple[str, Array]:
        name, array = value
        if array.ndim not in (2, 3):
            return value
        batch, columns = array.shape[:-2], self.rng.choice((1, 3))
        other, weights = self.argument((*batch, array.shape[-1], columns))
        result = array @ weights
        op = "matmul" if array.ndim == 2 else "batch_matmul"
        init = self.init(result.shape, filled=True)
        return self.emit(
            f"linalg.{op} ins({name}, {other} : {self.type(array)}, {self.type(weights)}) "
            f"outs({init} : {self.type(result)}) -> {self.type(result)}",
            result,
        )

    def concat(self, value: tuple[str, Array]) -> tuple[str, Array]:
        name, array = value
        if array.ndim == 0:
            return value
        dim = self.rng.randrange(array.ndim)
        other = self.same_shape(array)
        result = np.concatenate((array, other[1]), axis=dim)
        type = self.type(array)
        return self.emit(
            f"tensor.concat dim({dim}) {name}, {other[0]} : ({type}, {type}) -> {self.type(result)}", result
        )

    def build(self, length: int) -> str:
        shape = tuple(self.rng.choice((1, 2, 3, 4)) for _ in range(self.rng.choice((2, 3))))
        self.values.append(self.argument(shape))
        weights = {"transpose": 6, "collapse": 3, "expand": 3, "add": 3, "matmul": 2, "slice": 1, "concat": 1}
        for _ in range(length):
            step = getattr(self, self.rng.choices(list(weights), list(weights.values()))[0])
            # Mostly a chain, at times a second use.
            source = self.values[-1] if self.rng.random() < 0.85 else self.rng.choice(self.values)
            result = step(source)
            if result is not source and result[1].size <= 4096:
                self.values.append(result)
        results = [self.values[-1], self.rng.choice(self.values)]
        arguments = ", ".join(f"%a{n}: {self.type(a)}" for n, a in enumerate(self.arguments))
        types = ", ".join(self.type(a) for _, a in results)
        self.results = [a for _, a in results]
        body = "\n".join(f"  {line}" for line in self.lines)
        return (
            f"func.func @main({arguments}) -> ({types}) {{\n  %zero = arith.constant 0.0 : f32\n{body}\n"
            f"  return {', '.join(n for n, _ in results)} : {types}\n}}\n"
        )


def count_transposes(module: ir.Module) -> int:
    return str(module).count("linalg.transpose")


@pytest.mark.parametrize("seed", range(150))
def test_results_stay(seed: int) -> None:
    program = Program(random.Random(seed))
    text = program.build(length=10)
    with ir.Context():
        module = ir.Module.parse(text)
        before = count_transposes(module)
        qt.optimize(module, "qtranspose-absorb-transposes")
        once = str(module)
        assert count_transposes(module) <= before
        qt.optimize(module, "qtranspose-absorb-transposes")
        assert str(module) == once
        results = qt.compile(module)(*program.arguments)
    for result, expected in zip(results, program.results, strict=True):
        np.testing.assert_array_equal(result, expected, err_msg=text)


def test_most_are_absorbed() -> None:
    """The random programs really exercise the rewrites."""
    before = after = 0
    for seed in range(150):
        with ir.Context():
            module = ir.Module.parse(Program(random.Random(seed)).build(length=10))
            before += count_transposes(module)
            qt.optimize(module, "qtranspose-absorb-transposes,canonicalize")
            after += count_transposes(module)
    assert before > 300
    assert after < before / 3
