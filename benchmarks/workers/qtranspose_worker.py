"""qtranspose: the program as a frontend prints it, through `qt.optimize` and `qt.compile`; an executable per weight."""

import time
from typing import Any

import numpy as np
import qtranspose as qt
from common import Array, Case, Engine, activation, serve, weight
from mlir import ir

ROW = 'iterator_types = ["parallel", "parallel"]'
GROUP = 'iterator_types = ["parallel", "parallel", "parallel"]'


def text(case: Case) -> str:
    """As torch-mlir prints a linear layer: unpack, dequantize step by step, transpose, matmul. Constants lack data."""
    n, k, m, g = case.n, case.k, case.m, case.groups
    stored, grouped = (k // 2 if case.bits == 4 else k), f"{n}x{g}x{k // g}"
    unpack = f"%values = tensor.cast %weight : tensor<{n}x{k}xi8> to tensor<{n}x{k}xi8>"
    if case.bits == 4:
        half = f"tensor<{n}x{stored}xi8>"
        unpack = f"""
        %none = tensor.empty() : {half}
        %low = linalg.generic {{indexing_maps = [#id, #id], {ROW}}} ins(%weight : {half}) outs(%none : {half}) {{
        ^bb0(%in: i8, %out: i8):
          %0 = arith.andi %in, %c15 : i8
          linalg.yield %0 : i8
        }} -> {half}
        %high = linalg.generic {{indexing_maps = [#id, #id], {ROW}}} ins(%weight : {half}) outs(%none : {half}) {{
        ^bb0(%in: i8, %out: i8):
          %0 = arith.shrui %in, %c4 : i8
          linalg.yield %0 : i8
        }} -> {half}
        %low1 = tensor.expand_shape %low [[0], [1, 2]] output_shape [{n}, {stored}, 1]
          : {half} into tensor<{n}x{stored}x1xi8>
        %high1 = tensor.expand_shape %high [[0], [1, 2]] output_shape [{n}, {stored}, 1]
          : {half} into tensor<{n}x{stored}x1xi8>
        %pairs = tensor.concat dim(2) %low1, %high1
          : (tensor<{n}x{stored}x1xi8>, tensor<{n}x{stored}x1xi8>) -> tensor<{n}x{stored}x2xi8>
        %values = tensor.collapse_shape %pairs [[0], [1, 2]] : tensor<{n}x{stored}x2xi8> into tensor<{n}x{k}xi8>"""
    zero_point = f"%zero_point = arith.constant dense<0> : tensor<{n}x{g}xi8>" if case.asymmetric else ""
    operand, argument = (", %zero_point", ", %p: i8") if case.asymmetric else ("", "")
    types, map = (f", tensor<{n}x{g}xi8>", "#of_group, ") if case.asymmetric else ("", "")
    point = "%z = arith.uitofp %p : i8 to f32" if case.asymmetric else "%z = arith.constant 8.0 : f32"
    convert, shift = "arith.uitofp", f"{point}\n          %c = arith.subf %f, %z : f32\n          linalg.yield %c : f32"
    if case.bits == 8:
        convert, shift = "arith.sitofp", "linalg.yield %f : f32"
    return f"""
    #id = affine_map<(d0, d1) -> (d0, d1)>
    #all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
    #of_group = affine_map<(d0, d1, d2) -> (d0, d1)>
    module {{
      func.func @main(%x: tensor<{m}x{k}xf32>) -> tensor<{m}x{n}xf32> {{
        %zero = arith.constant 0.0 : f32
        %c15 = arith.constant 15 : i8
        %c4 = arith.constant 4 : i8
        %weight = arith.constant dense<0> : tensor<{n}x{stored}xi8>
        %scale = arith.constant dense<0.0> : tensor<{n}x{g}xf16>
        {zero_point}
        {unpack}
        %grouped = tensor.expand_shape %values [[0], [1, 2]] output_shape [{n}, {g}, {k // g}]
          : tensor<{n}x{k}xi8> into tensor<{grouped}xi8>
        %floats = tensor.empty() : tensor<{grouped}xf32>
        %centered = linalg.generic {{indexing_maps = [#all, {map}#all], {GROUP}}}
            ins(%grouped{operand} : tensor<{grouped}xi8>{types}) outs(%floats : tensor<{grouped}xf32>) {{
        ^bb0(%q: i8{argument}, %out: f32):
          %f = {convert} %q : i8 to f32
          {shift}
        }} -> tensor<{grouped}xf32>
        %scaled = linalg.generic {{indexing_maps = [#all, #of_group, #all], {GROUP}}}
            ins(%centered, %scale : tensor<{grouped}xf32>, tensor<{n}x{g}xf16>) outs(%floats : tensor<{grouped}xf32>) {{
        ^bb0(%c: f32, %s: f16, %out: f32):
          %e = arith.extf %s : f16 to f32
          %r = arith.mulf %c, %e : f32
          linalg.yield %r : f32
        }} -> tensor<{grouped}xf32>
        %real = tensor.collapse_shape %scaled [[0], [1, 2]] : tensor<{grouped}xf32> into tensor<{n}x{k}xf32>
        %across = tensor.empty() : tensor<{k}x{n}xf32>
        %transposed = linalg.transpose ins(%real : tensor<{n}x{k}xf32>) outs(%across : tensor<{k}x{n}xf32>)
          permutation = [1, 0]
        %empty = tensor.empty() : tensor<{m}x{n}xf32>
        %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
        %y = linalg.matmul ins(%x, %transposed : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>)
          outs(%init : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
        return %y : tensor<{m}x{n}xf32>
      }}
    }}"""


def module(case: Case, number: int) -> ir.Module:
    """The program with the data of one weight, as resources."""
    w = weight(case, number)
    data = {
        f"tensor<{case.n}x{case.k // (8 // case.bits)}xi8>": ("weight", w.nibbles if case.bits == 4 else w.values),
        f"tensor<{case.n}x{case.groups}xf16>": ("scale", w.scale),
        f"tensor<{case.n}x{case.groups}xi8>": ("zero_point", w.zero_point.view(np.int8)),
    }
    built = ir.Module.parse(text(case))
    for op in next(iter(built.body)).regions[0].blocks[0]:
        if op.operation.name == "arith.constant" and (found := data.get(str(op.operation.results[0].type))):
            name, array = found
            type = ir.RankedTensorType(op.operation.results[0].type)
            element = ir.F16Type.get() if array.dtype == np.float16 else ir.IntegerType.get_signless(8)
            op.operation.attributes["value"] = ir.DenseResourceElementsAttr.get_from_buffer(
                array, name, ir.RankedTensorType.get(type.shape, element)
            )
    return built


def make(case: Case, **options: Any) -> Engine:
    x = activation(case)
    executables, compile_seconds = [], []
    with ir.Context(), ir.Location.unknown():
        for number in range(case.sets):
            optimized = qt.optimize(module(case, number))
            start = time.perf_counter()
            executables.append(qt.compile(optimized, threads=case.threads, **options))
            compile_seconds.append(time.perf_counter() - start)
    print(f"compiled in {min(compile_seconds):.3f} to {max(compile_seconds):.3f} s", flush=True)
    results: list[Array] = [x] * case.sets

    def run() -> None:
        for number, executable in enumerate(executables):
            results[number] = executable(x)

    return run, lambda: results[0]


if __name__ == "__main__":
    serve(make)
