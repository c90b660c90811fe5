"""Many threads: calls of one executable, and passes in contexts of their own."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import qtranspose as qt
from fuzz.generators import GENERATORS
from mlir import ir
from qtranspose.functions import find_function, signature
from qtranspose.sampling import random_inputs

THREADS = 8
PIPELINES = ("default", "qtranspose-default{weights=right}", "qtranspose-lower-quantized-matmul{allow-reassociation}")


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], object]) -> list[object]:
    """Run in all threads at once, and return what each returned; an error of any is one of the test."""
    barrier = threading.Barrier(THREADS)

    def wait_and_work(number: int) -> object:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(wait_and_work, range(THREADS)))


def program(number: int) -> str:
    names = sorted(GENERATORS)
    return GENERATORS[names[number % len(names)]](random.Random(number))


@pytest.mark.parametrize("number", range(6))
def test_calls_of_one_executable(number: int) -> None:
    """Each thread calls it with inputs of its own; results are those of a call that is alone."""
    with ir.Context():
        module = qt.optimize(ir.Module.parse(program(number)))
        types = signature(find_function(module, None))
        executable = qt.compile(module)
    inputs = [random_inputs(types, seed) for seed in range(THREADS)]

    def call(seed: int) -> list[bytes]:
        results = executable(*inputs[seed])
        return [array.tobytes() for array in (results if isinstance(results, tuple) else (results,))]

    alone = [call(seed) for seed in range(THREADS)]

    def call_often(seed: int) -> bool:
        return all(call(seed) == alone[seed] for _ in range(200))

    assert together(call_often) == [True] * THREADS


def test_failed_assertions_belong_to_their_calls() -> None:
    text = """func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
      %zero = arith.constant 0 : index
      %three = arith.constant 3 : index
      %n = tensor.dim %x, %zero : tensor<?xf32>
      %fits = arith.cmpi eq, %n, %three : index
      cf.assert %fits, "three, please"
      return %x : tensor<?xf32>
    }"""
    with ir.Context():
        executable = qt.compile(ir.Module.parse(text))

    def call(number: int) -> int:
        failures = 0
        for turn in range(200):
            size = 3 if (number + turn) % 2 else 4
            try:
                result = executable(np.full(size, number, np.float32))
                assert result.tolist() == [number] * 3
            except qt.QTransposeError as error:
                assert size == 4
                assert "three, please" in str(error)
                failures += 1
        return failures

    assert together(call) == [100] * THREADS


def transformed(number: int) -> list[str]:
    """What passes make of a program, and the remarks, in a context of its own."""
    said = []
    for pipeline in PIPELINES:
        with ir.Context() as context, qt.remarks(context) as remarks:
            said.append(str(qt.optimize(ir.Module.parse(program(number)), pipeline)))
            said += [str(remark) for remark in remarks]
    return said


def test_passes_in_contexts_of_their_own() -> None:
    numbers = range(10)
    alone = [transformed(number) for number in numbers]

    def run(thread: int) -> bool:
        # Each starts elsewhere.
        return all(transformed((number + thread) % 10) == alone[(number + thread) % 10] for number in numbers)

    assert together(run) == [True] * THREADS


def test_everything_at_once() -> None:
    """Threads transform, compile, execute and verify."""

    def run(thread: int) -> bool:
        with ir.Context():
            module = ir.Module.parse(program(thread))
            return qt.verify(module, pipeline=PIPELINES[thread % 2], trials=1).ok

    assert together(run) == [True] * THREADS
