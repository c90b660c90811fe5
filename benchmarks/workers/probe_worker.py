"""The read probe: plain vector loads and adds over as many bytes as the weights have, on as many threads."""

import ctypes
from pathlib import Path

import mlir
import numpy as np
from common import Case, Engine, activation, serve, weight
from mlir import ir
from mlir.execution_engine import ExecutionEngine
from mlir.passmanager import PassManager

# Four independent sums, so that adds do not wait for each other. `%size` is a multiple of 128.
TEXT = """
func.func @read(%bytes: memref<?xi32>, %sums: memref<?x8xi32>) attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c24 = arith.constant 24 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant dense<0> : vector<8xi32>
  %threads = memref.dim %sums, %c0 : memref<?x8xi32>
  %size = memref.dim %bytes, %c0 : memref<?xi32>
  %blocks = arith.divui %size, %c32 : index
  scf.parallel (%thread) = (%c0) to (%threads) step (%c1) {
    %next = arith.addi %thread, %c1 : index
    %from0 = arith.muli %thread, %blocks : index
    %from1 = arith.divui %from0, %threads : index
    %from = arith.muli %from1, %c32 : index
    %to0 = arith.muli %next, %blocks : index
    %to1 = arith.divui %to0, %threads : index
    %to = arith.muli %to1, %c32 : index
    %r:4 = scf.for %i = %from to %to step %c32 iter_args(%a = %zero, %b = %zero, %c = %zero, %d = %zero)
        -> (vector<8xi32>, vector<8xi32>, vector<8xi32>, vector<8xi32>) {
      %i1 = arith.addi %i, %c8 : index
      %i2 = arith.addi %i, %c16 : index
      %i3 = arith.addi %i, %c24 : index
      %v0 = vector.load %bytes[%i] : memref<?xi32>, vector<8xi32>
      %v1 = vector.load %bytes[%i1] : memref<?xi32>, vector<8xi32>
      %v2 = vector.load %bytes[%i2] : memref<?xi32>, vector<8xi32>
      %v3 = vector.load %bytes[%i3] : memref<?xi32>, vector<8xi32>
      %a1 = arith.addi %a, %v0 : vector<8xi32>
      %b1 = arith.addi %b, %v1 : vector<8xi32>
      %c1_ = arith.addi %c, %v2 : vector<8xi32>
      %d1 = arith.addi %d, %v3 : vector<8xi32>
      scf.yield %a1, %b1, %c1_, %d1 : vector<8xi32>, vector<8xi32>, vector<8xi32>, vector<8xi32>
    }
    %s0 = arith.addi %r#0, %r#1 : vector<8xi32>
    %s1 = arith.addi %r#2, %r#3 : vector<8xi32>
    %s = arith.addi %s0, %s1 : vector<8xi32>
    vector.store %s, %sums[%thread, %c0] : memref<?x8xi32>, vector<8xi32>
    scf.reduce
  }
  return
}
"""
ASYNC = "async-parallel-for{async-dispatch=false num-workers=%d min-task-size=1},async-to-async-runtime,"
ASYNC += "async-runtime-ref-counting,async-runtime-ref-counting-opt,"
LOWER = "convert-scf-to-cf,convert-vector-to-llvm,%s"
LOWER += "expand-strided-metadata,finalize-memref-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,"
LOWER += "convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts"


def descriptor(rank: int) -> type[ctypes.Structure]:
    pointers = [("allocated", ctypes.c_void_p), ("aligned", ctypes.c_void_p), ("offset", ctypes.c_int64)]
    sizes = [("sizes", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)]
    return type("Descriptor", (ctypes.Structure,), {"_fields_": pointers + sizes})


def describe(array: np.ndarray) -> ctypes.Structure:
    rank = array.ndim
    sizes = (ctypes.c_int64 * rank)(*array.shape)
    strides = (ctypes.c_int64 * rank)(*(stride // array.itemsize for stride in array.strides))
    return descriptor(rank)(array.ctypes.data, array.ctypes.data, 0, sizes, strides)


def make(case: Case) -> Engine:
    parallel = case.threads > 1
    start = ASYNC % case.threads if parallel else ""
    lower = LOWER % ("convert-async-to-llvm," if parallel else "")
    libraries = [
        str(Path(mlir.__path__[0], "lib", f"libmlir_{name}.so")) for name in ("async_runtime", "c_runner_utils")
    ]
    with ir.Context():
        program = ir.Module.parse(TEXT)
        PassManager.parse(f"builtin.module({start}{lower})").run(program.operation)
        engine = ExecutionEngine(program, opt_level=3, shared_libs=libraries if parallel else [])
    random = np.random.default_rng(0)
    data = [random.integers(-9, 9, case.bytes // 4, dtype=np.int32) for _ in range(case.sets)]
    sums = np.zeros((case.threads, 8), np.int32)
    function = engine.lookup("read")
    calls = []
    for array in data:
        given = [ctypes.pointer(ctypes.pointer(describe(operand))) for operand in (array, sums)]
        calls.append((ctypes.c_void_p * 2)(*(ctypes.cast(pointer, ctypes.c_void_p) for pointer in given)))
        calls[-1].kept = given

    def run(kept: object = (engine, data)) -> None:
        for call in calls:
            function(call)

    run()
    assert sums.sum(dtype=np.int32) == data[-1][: data[-1].size // 32 * 32].sum(dtype=np.int32)
    # It computes no matmul; the error that is asked for is that of an exact result.
    first = weight(case, 0).dequantized().astype(np.float64)
    return run, lambda: activation(case).astype(np.float64) @ first.T


if __name__ == "__main__":
    serve(make)
