"""ONNX Runtime: MatMulNBits, all weights in one graph. `accuracy_level` 0 keeps f32 activations, 4 quantizes them."""

import numpy as np
import onnxruntime
from common import Case, Engine, activation, serve, weight
from onnx import TensorProto, helper, numpy_helper


def make(case: Case, accuracy_level: int) -> Engine:
    # The operator wants groups; 8-bit rows are cut into groups of 128 of one scale.
    group = case.group or 128
    groups = case.k // group
    nodes, constants = [], []
    for number in range(case.sets):
        w = weight(case, number)
        names = ["x", f"w{number}", f"s{number}"]
        data = w.nibbles if case.bits == 4 else (w.values.astype(np.int16) + 128).astype(np.uint8)
        scale = np.broadcast_to(w.scale.astype(np.float32), (case.n, groups))
        constants.append(numpy_helper.from_array(data.reshape(case.n, groups, -1), names[1]))
        constants.append(numpy_helper.from_array(np.ascontiguousarray(scale), names[2]))
        if case.asymmetric:
            names.append(f"z{number}")
            constants.append(numpy_helper.from_array(w.zero_nibbles, names[3]))
        attributes = {"K": case.k, "N": case.n, "bits": case.bits, "block_size": group}
        nodes.append(
            helper.make_node(
                "MatMulNBits",
                names,
                [f"y{number}"],
                domain="com.microsoft",
                accuracy_level=accuracy_level,
                **attributes,
            )
        )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [case.m, case.k])
    ys = [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, [case.m, case.n]) for node in nodes]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph(nodes, "matmuls", [x], ys, constants), opset_imports=opsets, ir_version=10
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = case.threads, 1
    serialized = model.SerializeToString()
    session = onnxruntime.InferenceSession(serialized, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("x", activation(case))
    results = [np.zeros((case.m, case.n), np.float32) for _ in nodes]
    for node, result in zip(nodes, results, strict=True):
        binding.bind_output(node.output[0], "cpu", 0, np.float32, result.shape, result.ctypes.data)
    return lambda: session.run_with_iobinding(binding), lambda: results[0]


if __name__ == "__main__":
    serve(make)
