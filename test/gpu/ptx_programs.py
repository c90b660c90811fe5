"""Small PTX kernels around a few instructions, one element per thread."""

import numpy as np
from qtranspose.gpu import ptx

# Register type and suffix of loads and stores by element size.
_REGISTERS = {1: ("b16", "u8"), 2: ("b16", "b16"), 4: ("b32", "b32"), 8: ("b64", "b64")}


def wrap(body, declarations="", parameters=("p",)):
    declared = ", ".join(f".param .u64 {name}" for name in parameters)
    return f"""
.version 8.0
.target sm_80
.address_size 64
{declarations}
.visible .entry k({declared})
{{
  {body}
}}
"""


def execute(text, arguments, grid=1, block=32, memory=None, dynamic_shared=0):
    """Launch kernel `k` on addresses."""
    launched = [int(argument).to_bytes(8, "little") for argument in arguments]
    kernel = ptx.parse(text).kernels["k"]
    ptx.launch(kernel, _triple(grid), _triple(block), launched, memory or ptx.Memory(), dynamic_shared)


def _triple(size):
    return size if isinstance(size, tuple) else (size, 1, 1)


def elementwise(code, inputs, dtype, registers=""):
    """Run `code` on registers %a0, %a1, ..., one per array, and return what it leaves in %d (%p if bool), per element.

    The result and inputs of 1 byte are in registers of 16 bits.
    """
    dtype = np.dtype(dtype)
    count = len(inputs[0])
    memory = ptx.Memory()
    addresses = [memory.upload(np.ascontiguousarray(array)) for array in inputs]
    addresses.append(memory.allocate(count * dtype.itemsize))
    size, store = _REGISTERS[dtype.itemsize]
    lines = [
        f".reg .b64 %i, %at, %q; .reg .b32 %t, %u, %v; .reg .pred %p, %q1; .reg .{size} %d; {registers}",
        "mov.u32 %t, %tid.x; mov.u32 %u, %ctaid.x; mov.u32 %v, %ntid.x; mad.lo.s32 %t, %u, %v, %t;",
    ]
    for number, array in enumerate(inputs):
        width, load = _REGISTERS[array.dtype.itemsize]
        lines.append(
            f".reg .{width} %a{number}; ld.param.b64 %q, [p{number}]; mul.wide.u32 %i, %t, {array.dtype.itemsize}; "
            f"add.s64 %at, %q, %i; ld.global.{load} %a{number}, [%at];"
        )
    lines.append(code)
    if dtype == np.bool_:
        lines.append("selp.b16 %d, 1, 0, %p;")
    lines.append(f"ld.param.b64 %q, [p{len(inputs)}]; mul.wide.u32 %i, %t, {dtype.itemsize}; add.s64 %at, %q, %i;")
    lines.append(f"st.global.{store} [%at], %d; ret;")
    text = wrap("\n".join(lines), parameters=[f"p{number}" for number in range(len(addresses))])
    block = 32 if count % 32 == 0 else count
    execute(text, addresses, grid=count // block, block=block, memory=memory)
    return memory.view(addresses[-1], count * dtype.itemsize).view(dtype).copy()
