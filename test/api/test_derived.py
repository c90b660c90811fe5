"""`qt.derived_constants`: provenance and migrated quantization of transposed weights."""

from __future__ import annotations

import numpy as np
import pytest
import qtranspose as qt
from forms.catalog import CATALOG
from mlir import ir
from mlir.passmanager import PassManager

EXPECTED = {
    # One scale and zero point per row of W, which is a column of W^T.
    "op_generic_swapped_maps": (["(d0, d1) -> (d1, d0)"], [("zero_point", (1,), (1,)), ("scale", (1,), (1,))]),
    # The same per group of 16 along the summed dim.
    "left_w4": (["(d0, d1) -> (d1, d0)"] * 3, [("zero_point", (0, 1), (16, 1)), ("scale", (0, 1), (16, 1))]),
}


def derived(text: str) -> tuple[ir.Module, list[qt.DerivedConstant]]:
    module = ir.Module.parse(text)
    qt.patterns.names()
    PassManager.parse("builtin.module(qtranspose-static-lhs-to-rhs)").run(module.operation)
    return module, qt.derived_constants(module)


# PITFALL 28
@pytest.mark.parametrize("name", EXPECTED)
def test_axes_moved_along(name: str) -> None:
    entry = next(e for e in CATALOG if e.name.startswith(name))
    maps, axes = EXPECTED[name]
    with ir.Context():
        _, constants = derived(entry.build().mlir)
        assert [str(c.map) for c in constants] == maps
        assert [(q.role, q.axes, q.groups) for q in constants[0].quantization] == axes
        for constant in constants:
            assert constant.source is not None
            assert constant.source_type.shape == list(reversed(ir.RankedTensorType(constant.value.type).shape))
        assert not any(c.quantization for c in constants[1:])


def test_inline_data_have_no_name() -> None:
    text = """func.func @f(%x: tensor<3x2xf32>, %i: tensor<2x2xf32>) -> tensor<2x2xf32> {
      %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
      %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x2xf32>) outs(%i : tensor<2x2xf32>) -> tensor<2x2xf32>
      return %y : tensor<2x2xf32> }"""
    with ir.Context():
        module, constants = derived(text)
        (constant,) = constants
        assert constant.source is None and constant.quantization == ()
        assert str(constant.source_type) == "tensor<2x3xf32>"
        # The constant is one of the program, whose data are read as ever.
        data = np.array(ir.DenseFPElementsAttr(constant.value.owner.attributes["value"]))
        assert data.tolist() == [[1, -1], [2, 0], [0, 3]]
        assert str(constant.value.owner).split()[0] in str(module)


def test_nothing_derived() -> None:
    with ir.Context():
        assert qt.derived_constants(ir.Module.parse("func.func @f() { return }")) == []
