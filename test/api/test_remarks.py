"""`qt.remarks`: what passes report reaches Python complete, once, in order, and only while asked for."""

import dataclasses
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import qtranspose as qt
from mlir import ir

FOLD = "qtranspose-fold-transpose-into-dequant"


def layer(name: str, op: str) -> str:
    """One function with a transposed dequantization; refused when `op` is not a dequantization."""
    return f"""
func.func @{name}(%q: tensor<3x5xi8>) -> tensor<5x3xf32> {{
  %e = tensor.empty() : tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %0 = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
                       iterator_types = ["parallel", "parallel"]}}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {{
  ^bb0(%in: i8, %out: f32):
    %a = {op}
    linalg.yield %a : f32
  }} -> tensor<3x5xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}}"""


GOOD = "arith.sitofp %in : i8 to f32"
# The result depends on the position, so it cannot be computed in another order without care.
BAD = "func.call @effect(%in) : (i8) -> f32"
MODULE = "func.func private @effect(i8) -> f32" + layer("good", GOOD) + layer("bad", BAD)


def parse(text: str = MODULE) -> ir.Module:
    return ir.Module.parse(text)


def test_rewrites_and_refusals_are_recorded() -> None:
    with ir.Context() as context, qt.remarks(context) as log:
        qt.optimize(parse(), FOLD)
        missed, passed = log
    assert (passed.kind, passed.name, passed.function) == ("passed", "fold-transpose", "good")
    assert (missed.kind, missed.name, missed.function) == ("missed", "side-effects-in-body", "bad")
    for remark in (passed, missed):
        assert (remark.category, remark.pass_name) == ("qtranspose", FOLD)
        assert remark.reason
        assert isinstance(remark.location, ir.Location)
    assert str(missed).startswith("-:25:8: missed: side-effects-in-body: ")
    assert str(missed).endswith(f" [{FOLD}]")


def test_records_outlive_the_block_and_the_module() -> None:
    context = ir.Context()
    with context, qt.remarks(context) as log:
        qt.optimize(parse(), FOLD)
    del context
    gc.collect()
    assert sorted(remark.function for remark in log) == ["bad", "good"]
    assert all("-:" in str(remark) for remark in log)


def test_records_are_frozen_values() -> None:
    with ir.Context() as context, qt.remarks(context) as log:
        qt.optimize(parse(), FOLD)
        qt.optimize(parse(), FOLD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        log[0].name = "other"  # type: ignore[misc]
    assert log[0] == log[2]
    assert log[0] != log[1]


def test_log_reads_like_a_list() -> None:
    with ir.Context() as context, qt.remarks(context) as log:
        assert len(log) == 0
        assert list(log) == []
        qt.optimize(parse(), FOLD)
        assert len(log) == 2
        assert log[-1] is log[1]
        assert log[:1] == [log[0]]
        assert log[0] in log
        with pytest.raises(IndexError):
            log[2]


def test_nothing_is_recorded_outside_the_block() -> None:
    with ir.Context() as context:
        qt.optimize(parse(), FOLD)
        with qt.remarks(context) as log:
            pass
        qt.optimize(parse(), FOLD)
        assert list(log) == []
        with qt.remarks(context) as again:
            qt.optimize(parse(), FOLD)
    assert len(again) == 2


def test_nested_blocks_see_what_happens_while_they_are_open() -> None:
    with ir.Context() as context, qt.remarks(context) as outer:
        qt.optimize(parse(layer("one", GOOD)), FOLD)
        with qt.remarks(context) as inner:
            qt.optimize(parse(layer("two", GOOD)), FOLD)
        qt.optimize(parse(layer("three", GOOD)), FOLD)
    assert [remark.function for remark in outer] == ["one", "two", "three"]
    assert [remark.function for remark in inner] == ["two"]


def test_blocks_may_close_in_any_order() -> None:
    with ir.Context() as context:
        first, second = qt.remarks(context), qt.remarks(context)
        log_1, log_2 = first.__enter__(), second.__enter__()
        first.__exit__(None, None, None)
        qt.optimize(parse(layer("f", GOOD)), FOLD)
        second.__exit__(None, None, None)
    assert (len(log_1), len(log_2)) == (0, 1)


def test_contexts_do_not_mix() -> None:
    one, two = ir.Context(), ir.Context()
    with qt.remarks(one) as log_1, qt.remarks(two) as log_2:
        qt.optimize(ir.Module.parse(layer("f", GOOD), one), FOLD)
    assert (len(log_1), len(log_2)) == (1, 0)


def test_an_exception_closes_the_block() -> None:
    with ir.Context() as context:
        with pytest.raises(ZeroDivisionError), qt.remarks(context) as log:
            qt.optimize(parse(layer("before", GOOD)), FOLD)
            raise ZeroDivisionError
        qt.optimize(parse(layer("after", GOOD)), FOLD)
        assert [remark.function for remark in log] == ["before"]


def test_threads_with_a_context_each() -> None:
    def work(number: int) -> list[str]:
        functions = []
        for round in range(20):
            with ir.Context() as context, qt.remarks(context) as log:
                qt.optimize(parse(layer(f"f{number}_{round}", GOOD)), FOLD)
            functions += [remark.function for remark in log]
        return functions

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    assert results == [[f"f{number}_{round}" for round in range(20)] for number in range(4)]


def test_threads_sharing_a_context() -> None:
    """Every thread's block sees at least its own remarks, and an enclosing one sees each remark exactly once."""
    context = ir.Context()
    barrier = threading.Barrier(4)

    def work(number: int) -> list[str]:
        barrier.wait()
        functions = []
        for round in range(20):
            with qt.remarks(context) as log:
                qt.optimize(ir.Module.parse(layer(f"f{number}_{round}", GOOD), context), FOLD)
            functions += [remark.function for remark in log if remark.function.startswith(f"f{number}_")]
        return functions

    with qt.remarks(context) as everything, ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    assert results == [[f"f{number}_{round}" for round in range(20)] for number in range(4)]
    assert sorted(remark.function for remark in everything) == sorted(name for names in results for name in names)


def test_remarks_of_passes_that_run_on_worker_threads() -> None:
    """MLIR runs a function pass on many functions at once; none of the remarks may be lost."""
    text = "".join(layer(f"f{number}", GOOD) for number in range(64))
    with ir.Context() as context:
        context.enable_multithreading(True)
        with qt.remarks(context) as log:
            qt.optimize(parse(text), FOLD)
    assert sorted(remark.function for remark in log) == sorted(f"f{number}" for number in range(64))
