"""PyTorch: its weight-only operators (bf16 activations), and a dense f32 matmul on dequantized weights."""

from collections.abc import Callable

import numpy as np
import torch
from common import Case, Engine, activation, serve, weight

torch.set_grad_enabled(False)


def make(case: Case, kind: str) -> Engine:
    torch.set_num_threads(case.threads)
    x = torch.from_numpy(activation(case))
    if kind == "bf16":
        x = x.to(torch.bfloat16)
    calls: list[Callable[[], torch.Tensor]] = []
    for number in range(case.sets):
        w = weight(case, number)
        scale = w.scale.astype(np.float32)
        if kind == "dense":
            dense = torch.from_numpy(w.dequantized())
            calls.append(lambda dense=dense: torch.nn.functional.linear(x, dense))
        elif case.bits == 8:
            data, row = torch.from_numpy(w.values), torch.from_numpy(scale[:, 0]).to(x.dtype)
            calls.append(lambda data=data, row=row: torch.ops.aten._weight_int8pack_mm(x, data, row))
        else:
            # It computes (values - 8) * scale + zero.
            packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(torch.from_numpy(w.values.astype(np.int32)), 1)
            pairs = np.stack([scale, (8 - w.zero_point.astype(np.float32)) * scale], -1).transpose(1, 0, 2)
            both = torch.from_numpy(np.ascontiguousarray(pairs)).to(x.dtype)
            calls.append(
                lambda packed=packed, both=both: torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, case.group, both)
            )
    results: list[torch.Tensor] = [torch.empty(0)] * len(calls)

    def run() -> None:
        for number, call in enumerate(calls):
            results[number] = call()

    return run, lambda: results[0].float().numpy()


if __name__ == "__main__":
    serve(make)
