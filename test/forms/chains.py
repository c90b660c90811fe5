"""Dequantization chains shared by the forms: storage [..., n, k] to floating point."""

from __future__ import annotations

import numpy as np

from .builders import Body, Builder, Scalar, T
from .oracle import Quant


def axis_param(b: Builder, values: np.ndarray, et: str, rank: str) -> T:
    """A per-axis parameter stored as [n, 1] ("2d") or as [n] and expanded ("1d")."""
    if rank == "2d":
        return b.weight(values, et)
    return b.unsqueeze(b.weight(values[..., 0], et), values.ndim - 1)


def torch_chain(
    b: Builder, w: T, q: Quant, *, signed: bool, zp: str = "float", rank: str = "2d", last: bool = True
) -> T:
    """The unfused torch chain on storage ``w`` [..., n, k]: convert, subtract, multiply; groups by expand/collapse.

    ``zp`` is how the zero point is stored: "float" in the weight's type, "i8"/"u8" converted beside it, "i32"
    subtracted before the conversion, "scalar" a constant in the body. ``last=False``: w is [k, n] with groups along
    the rows.
    """
    et = q.et
    grouped = q.scale.ndim and q.groups > 1
    axis = w.rank - (1 if last else 2)
    if grouped:
        w = b.split(w, axis, int(w.sizes[axis]) // q.groups)

    def param(values: np.ndarray, as_et: str) -> T:
        if not grouped:
            return axis_param(b, values, as_et, rank) if last else b.weight(values[..., 0], as_et)
        if last:
            return b.unsqueeze(b.weight(values, as_et), axis + 1)
        return b.unsqueeze(b.weight(values.swapaxes(-1, -2), as_et), axis + 1)

    if q.zp is not None and zp == "i32":
        w = b.binary("subi", b.convert(w, "i32", signed), param(q.zp, "i32"))
        signed = True
    w = b.convert(w, et, signed)
    if q.zp is not None and zp == "scalar":
        w = b.binary("subf", w, float(q.zp))
    elif q.zp is not None and zp != "i32":
        stored = param(q.zp, et if zp == "float" else "i8")
        w = b.binary("subf", w, b.convert(stored, et, zp == "i8"))
    if q.scale.ndim == 0:
        if q.et == "f32":  # a Python float of the traced program: f64, truncated in the body
            w = b.ew(lambda e, x: e.mulf(x, e.truncf(e.const(float(q.scale), "f64"), to="f32")), w)
        else:
            w = b.binary("mulf", w, float(q.scale))
    else:
        w = b.binary("mulf", w, param(q.scale, et))
    return b.merge(w, axis) if grouped else w


def onnx_chain(b: Builder, w: T, q: Quant, axis: int, signed: bool) -> T:
    """torch-mlir's DequantizeLinear: one generic with integer subtraction in the body."""
    et = q.et
    ident = ", ".join(f"d{i}" for i in range(w.rank))
    if q.scale.ndim == 0:

        def per_tensor(e: Body, x: Scalar) -> Scalar:
            wide = e.to(x, "i64", signed)
            shifted = e.subi(wide, e.const(float(q.zp if q.zp is not None else 0), "i64"))
            return e.mulf(e.sitofp(shifted, to=et), e.const(float(q.scale), et))

        return b.generic([(w, ident)], w.sizes, et, per_tensor)

    def per_axis(e: Body, x: Scalar, s: Scalar, z: Scalar) -> Scalar:
        z16, x16 = e.to(z, "i16", signed), e.to(x, "i16", signed)
        return e.mulf(e.sitofp(e.subi(x16, z16), to=et), s)

    zp = np.zeros_like(q.scale) if q.zp is None else q.zp
    scale, zero = b.weight(q.scale[..., 0].reshape(-1), et), b.weight(zp[..., 0].reshape(-1), "i8")
    return b.generic([(w, ident), (scale, f"d{axis}"), (zero, f"d{axis}")], w.sizes, et, per_axis)
