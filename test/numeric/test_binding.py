"""Calls into given arrays, bound calls, and arrays of other libraries."""

import gc
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pytest
import qtranspose as qt
from mlir import ir
from qtranspose.dlpack import _content, _Tensor, _VersionedTensor, as_array

TWICE = """
  func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {
    %r = arith.addf %a, %a : tensor<?xf32>
    return %r : tensor<?xf32>
  }"""
PAIR = """
  func.func @f(%a: tensor<3x2xi32>, %n: i4) -> (tensor<2x3xi32>, i4, tensor<2x3xi32>) {
    %e = tensor.empty() : tensor<2x3xi32>
    %t = linalg.transpose ins(%a : tensor<3x2xi32>) outs(%e : tensor<2x3xi32>) permutation = [1, 0]
    %m = arith.addi %n, %n : i4
    return %t, %m, %t : tensor<2x3xi32>, i4, tensor<2x3xi32>
  }"""
CHECKED = """
  func.func @f(%a: tensor<2xf32>, %ok: i1) -> tensor<2xf32> {
    cf.assert %ok, "not ok"
    %r = arith.addf %a, %a : tensor<2xf32>
    return %r : tensor<2xf32>
  }"""


def build(source, **options):
    with ir.Context():
        return qt.compile(ir.Module.parse(source), **options)


class Foreign:
    """An array of another library: all that is known of it is DLPack. Types that NumPy has none of go by their code."""

    def __init__(self, array, code=None, device=1, versioned=True):
        self.array, self.code, self.device, self.versioned = array, code, device, versioned

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, *, max_version=None, **options):
        version = max_version if self.versioned else None
        capsule = self.array.__dlpack__(max_version=version)
        if self.code is not None:
            if version:
                _VersionedTensor.from_address(_content(capsule, b"dltensor_versioned")).tensor.code = self.code
            else:
                _Tensor.from_address(_content(capsule, b"dltensor")).code = self.code
        return capsule


def test_out_takes_the_result():
    a = np.arange(5, dtype=np.float32)
    out = np.zeros(5, np.float32)
    assert build(TWICE)(a, out=out) is out
    np.testing.assert_array_equal(out, 2 * a)


def test_out_may_be_the_argument():
    a = np.arange(5, dtype=np.float32)
    build(TWICE)(a, out=a)
    np.testing.assert_array_equal(a, 2 * np.arange(5))


def test_several_results_and_scalars():
    a = np.arange(6, dtype=np.int32).reshape(3, 2)
    first, second = np.zeros((2, 2, 3), np.int32)
    scalar = np.zeros((), np.int8)
    build(PAIR)(a, -3, out=(first, scalar, second))
    np.testing.assert_array_equal(first, a.T)
    np.testing.assert_array_equal(second, a.T)
    assert scalar == -6


def test_a_bound_call_reads_and_writes_in_place():
    a, out = np.ones(4, np.float32), np.zeros(4, np.float32)
    call = build(TWICE).bind(a, out=out)
    for value in range(3):
        a[:] = value
        call()
        np.testing.assert_array_equal(out, np.full(4, 2 * value))


def test_a_bound_call_keeps_what_it_needs():
    call = build(TWICE).bind(np.ones(1000, np.float32), out=np.zeros(1000, np.float32))
    gc.collect()
    call()
    np.testing.assert_array_equal(call.out[0], np.full(1000, 2))


def test_a_bound_call_frees_results():
    n = 1 << 20
    call = build(TWICE).bind(np.ones(n, np.float32), out=np.zeros(n, np.float32))

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    call()
    before = resident()
    for _ in range(50):
        call()
    assert resident() - before < 10 * 4 * n


def test_calls_of_one_binding_wait_for_one_another():
    a, out = np.ones(1 << 12, np.float32), np.zeros(1 << 12, np.float32)
    call = build(TWICE).bind(a, out=out)
    threads = [threading.Thread(target=lambda: [call() for _ in range(200)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(out, 2 * a)


def test_a_bound_call_costs_little():
    """Far above what is measured (2 us, docs/execution.md), far below what an unbound call costs under load."""
    call = build(TWICE).bind(np.ones(4, np.float32), out=np.zeros(4, np.float32))
    times = []
    for _ in range(200):
        start = time.perf_counter()
        for _ in range(10):
            call()
        times.append((time.perf_counter() - start) / 10)
    assert min(times) < 10e-6


def test_failed_assertions_leave_out_alone():
    executable = build(CHECKED)
    out = np.full(2, 7, np.float32)
    for _ in range(2):
        with pytest.raises(qt.QTransposeError, match="assertion failed: not ok"):
            executable(np.ones(2, np.float32), False, out=out)
        np.testing.assert_array_equal(out, [7, 7])
    executable(np.ones(2, np.float32), True, out=out)
    np.testing.assert_array_equal(out, [2, 2])


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros(3, np.float64), "has dtype float64"),
        (np.zeros((3, 1), np.float32), r"has shape \[3, 1\]"),
        (np.zeros(6, np.float32)[::2], "is not a writable, aligned, C-contiguous array"),
        (np.frombuffer(bytes(12), np.float32), "is not a writable"),
        ([0.0, 0.0, 0.0], "out has 3 arrays for 1 results"),
        ((1.0,), "is no array"),
        (np.zeros(4, np.float32), r"result 0 has shape \[3\], its array \[4\]"),
    ],
)
def test_bad_out(out, message):
    before = np.array(out, copy=True)
    with pytest.raises(qt.QTransposeError, match=message):
        build(TWICE)(np.ones(3, np.float32), out=out)
    np.testing.assert_array_equal(out, before)


def test_out_arrays_do_not_overlap():
    out = np.zeros((2, 3), np.int32)
    with pytest.raises(qt.QTransposeError, match="array 2 of out shares memory"):
        build(PAIR)(np.zeros((3, 2), np.int32), 0, out=(out, np.zeros((), np.int8), out))


def test_what_has_to_be_copied_is_not_bound():
    out = np.zeros(3, np.float32)
    executable = build(TWICE)
    for given in (np.ones(6, np.float32)[::2], [1.0, 2.0, 3.0]):
        with pytest.raises(qt.QTransposeError, match="argument 0 of @f"):
            executable.bind(given, out=out)


# DLPack


def test_arrays_of_other_libraries_are_not_copied():
    a, out = Foreign(np.arange(4, dtype=np.float32)), Foreign(np.zeros(4, np.float32))
    call = build(TWICE).bind(a, out=out)
    a.array[:] = 5
    call()
    np.testing.assert_array_equal(out.array, np.full(4, 10))


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize(
    ("name", "code", "dtype"),
    [("bf16", 4, ml_dtypes.bfloat16), ("f8E4M3FN", 10, ml_dtypes.float8_e4m3fn), ("f8E5M2", 12, ml_dtypes.float8_e5m2)],
)
def test_types_that_numpy_does_not_know(name, code, dtype, versioned):
    executable = build(f"""
      func.func @f(%a: tensor<2x3x{name}>) -> tensor<2x3xf32> {{
        %r = arith.extf %a : tensor<2x3x{name}> to tensor<2x3xf32>
        return %r : tensor<2x3xf32>
      }}""")
    values = np.array([[1, -2, 0.5], [0.25, 4, 8]]).astype(dtype)
    bits = values.view(f"u{values.itemsize}")
    np.testing.assert_array_equal(executable(Foreign(bits, code, versioned=versioned)), values.astype(np.float32))
    turned = Foreign(np.ascontiguousarray(bits.T).T, code, versioned=versioned)
    np.testing.assert_array_equal(executable(turned), values.astype(np.float32))


def test_only_what_may_be_written_to_is():
    executable = build("""
      func.func @f(%a: tensor<3xf32>) -> tensor<3xbf16> {
        %r = arith.truncf %a : tensor<3xf32> to tensor<3xbf16>
        return %r : tensor<3xbf16>
      }""")
    a, bits = np.array([1, 2, -4], np.float32), np.zeros(3, np.uint16)
    with pytest.raises(qt.QTransposeError, match="array 0 of out is not a writable"):
        executable(a, out=Foreign(bits, 4, versioned=False))
    executable(a, out=Foreign(bits, 4))
    np.testing.assert_array_equal(bits, a.astype(ml_dtypes.bfloat16).view(np.uint16))
    bits.flags.writeable = False
    with pytest.raises(qt.QTransposeError, match="array 0 of out is not a writable"):
        executable(a, out=Foreign(bits, 4))


def test_memory_of_a_capsule_lives_as_long_as_its_view():
    array = np.ones(3, np.uint16)
    count = sys.getrefcount(array)
    view = as_array(Foreign(array, 4))
    gc.collect()
    assert sys.getrefcount(array) == count + 1
    array[0] = 0x4000
    assert view[0] == 2
    del view
    gc.collect()
    assert sys.getrefcount(array) == count


def test_results_are_given_without_a_copy():
    result = build(TWICE)(np.ones(3, np.float32))
    other = np.from_dlpack(result)
    result[0] = 9
    assert other[0] == 9


def test_unreadable_memory():
    executable = build(TWICE)
    with pytest.raises(qt.QTransposeError, match=r"argument 0 of @f is in the memory of another device.*\(2, 0\)"):
        executable(Foreign(np.ones(3, np.float32), device=2))
    with pytest.raises(qt.QTransposeError, match="unknown DLPack type 99 of 32 bits"):
        executable(Foreign(np.ones(3, np.float32), code=99))
