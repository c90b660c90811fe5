"""IREE: the canonical fused form (matmul with the weight as [n, k]) at its highest optimization level."""

import iree.compiler
import iree.runtime
import numpy as np
from common import Case, Engine, activation, serve, weight


def text(case: Case) -> str:
    n, k, m, g = case.n, case.k, case.m, case.groups
    values, scales, real = f"tensor<{n}x{g}x{k // g}xi8>", f"tensor<{n}x{g}xf16>", f"tensor<{n}x{g}x{k // g}xf32>"
    zeros = f"tensor<{n}x{g}xi8>"
    convert = "sitofp" if case.bits == 8 else "uitofp"
    if case.bits == 4:
        packed = f"tensor<{n}x{g}x{k // g}xi4>"
        values, narrow = packed, "i4"
    else:
        narrow = "i8"
    return f"""
      #w = affine_map<(n, g, k) -> (n, g, k)>
      #s = affine_map<(n, g, k) -> (n, g)>
      func.func @main(%x: tensor<{m}x{k}xf32>, %w: {values}, %s: {scales}, %z: {zeros}) -> tensor<{m}x{n}xf32> {{
        %zero = arith.constant 0.0 : f32
        %none = tensor.empty() : {real}
        %d = linalg.generic {{indexing_maps = [#w, #s, #s, #w], iterator_types = ["parallel", "parallel", "parallel"]}}
            ins(%w, %s, %z : {values}, {scales}, {zeros}) outs(%none : {real}) {{
        ^bb0(%q: {narrow}, %scale: f16, %point: i8, %out: f32):
          %f = arith.{convert} %q : {narrow} to f32
          %p = arith.uitofp %point : i8 to f32
          %c = arith.subf %f, %p : f32
          %e = arith.extf %scale : f16 to f32
          %r = arith.mulf %c, %e : f32
          linalg.yield %r : f32
        }} -> {real}
        %grouped = tensor.expand_shape %x [[0], [1, 2]] output_shape [{m}, {g}, {k // g}]
            : tensor<{m}x{k}xf32> into tensor<{m}x{g}x{k // g}xf32>
        %empty = tensor.empty() : tensor<{m}x{n}xf32>
        %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
        %y = linalg.generic {{indexing_maps = [affine_map<(m, n, g, k) -> (m, g, k)>,
                                               affine_map<(m, n, g, k) -> (n, g, k)>,
                                               affine_map<(m, n, g, k) -> (m, n)>],
                              iterator_types = ["parallel", "parallel", "reduction", "reduction"]}}
            ins(%grouped, %d : tensor<{m}x{g}x{k // g}xf32>, {real}) outs(%init : tensor<{m}x{n}xf32>) {{
        ^bb0(%a: f32, %b: f32, %sum: f32):
          %product = arith.mulf %a, %b : f32
          %next = arith.addf %sum, %product : f32
          linalg.yield %next : f32
        }} -> tensor<{m}x{n}xf32>
        return %y : tensor<{m}x{n}xf32>
      }}"""


def make(case: Case) -> Engine:
    flags = ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"]
    binary = iree.compiler.compile_str(text(case), target_backends=["llvm-cpu"], extra_args=flags)
    config = iree.runtime.Config("local-sync" if case.threads == 1 else "local-task")
    loaded = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, binary), config)
    main, device = loaded["main"], config.device

    def put(array: np.ndarray) -> object:
        return iree.runtime.asdevicearray(device, np.ascontiguousarray(array))

    def nibbles(array: np.ndarray) -> object:
        buffer = device.allocator.allocate_buffer_copy(
            memory_type=iree.runtime.MemoryType.DEVICE_LOCAL,
            allowed_usage=iree.runtime.BufferUsage.DEFAULT,
            device=device,
            buffer=array,
            element_type=iree.runtime.HalElementType.INT_8,
        )
        buffer = buffer.get_buffer() if hasattr(buffer, "get_buffer") else buffer
        shape = [case.n, case.groups, case.k // case.groups]
        return iree.runtime.HalBufferView(buffer, shape, iree.runtime.HalElementType.INT_4)

    x = put(activation(case))
    operands = []
    for number in range(case.sets):
        w = weight(case, number)
        values = w.values.reshape(case.n, case.groups, -1)
        data = nibbles(w.nibbles) if case.bits == 4 else put(values)
        operands.append((data, put(w.scale), put(w.zero_point.view(np.int8))))
    results: list[object] = [None] * case.sets

    def run() -> None:
        for number, given in enumerate(operands):
            results[number] = main(x, *given)

    return run, lambda: results[0].to_host()


if __name__ == "__main__":
    serve(make)
