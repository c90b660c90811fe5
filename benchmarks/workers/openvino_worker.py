"""OpenVINO: compressed weights that its CPU plugin dequantizes in the matmul, all in one model.

`group` is how many activations share a scale when they are quantized on the way; 0 keeps f32.
"""

import numpy as np
import openvino
from common import Array, Case, Engine, activation, serve, weight
from openvino import opset13 as op


def make(case: Case, group: int) -> Engine:
    kept: list[object] = []  # constants refer to the arrays

    def constant(array: Array, shape: list[int] | None = None, type: openvino.Type | None = None) -> openvino.Node:
        kept.append(array)
        if type is None:
            return op.constant(array)
        return op.constant(openvino.Tensor(array, shape=openvino.Shape(shape), type=type))

    parameter = op.parameter([case.m, case.k], np.float32, name="x")
    results = []
    for number in range(case.sets):
        w = weight(case, number)
        scale = np.ascontiguousarray(w.scale.reshape(case.n, case.groups, 1))
        if case.bits == 4:
            grouped = [case.n, case.groups, case.k // case.groups]
            data = op.convert(constant(w.nibbles.reshape(-1), grouped, openvino.Type.u4), np.float16)
            zeros = constant(w.zero_nibbles.reshape(-1), [case.n, case.groups, 1], openvino.Type.u4)
            data = op.multiply(op.subtract(data, op.convert(zeros, np.float16)), constant(scale))
            data = op.reshape(data, op.constant(np.array([case.n, case.k], np.int64)), False)
        else:
            data = op.multiply(op.convert(constant(w.values), np.float16), constant(scale[:, :, 0]))
        results.append(op.result(op.matmul(parameter, op.convert(data, np.float32), False, True)))
    settings = {
        "INFERENCE_NUM_THREADS": case.threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": group,
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(openvino.Model(results, [parameter]), "CPU", settings)
    request = compiled.create_infer_request()
    kept.append(activation(case))
    request.set_input_tensor(0, openvino.Tensor(kept[-1], shared_memory=True))

    def run(kept: list[object] = kept) -> None:
        request.infer()

    return run, lambda: request.get_output_tensor(0).data


if __name__ == "__main__":
    serve(make)
