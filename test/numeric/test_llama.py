"""A whole Llama decoder: every projection is traced and fused, no transpose is left, and the result stays right."""

from __future__ import annotations

import numpy as np
import pytest
import qtranspose as qt
from forms.llama import Config, Decoder
from mlir import ir

CASES = {
    "w4_prefill": (Config(), 2),
    "w4_decode": (Config(rows=1), 1),
    "w8_prefill": (Config(group=None), 1),
    "w8_decode": (Config(group=None, rows=1), 1),
    "w4_many_rows": (Config(rows=12, kv_heads=4), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_decoder(name: str) -> None:
    decoder = Decoder(*CASES[name], np.random.default_rng(7))
    with ir.Context() as context:
        module = ir.Module.parse(decoder.text)
        before = qt.compile(module)(*decoder.inputs)
        with qt.remarks(context) as remarks:
            qt.optimize(module)
        after = qt.compile(module)(*decoder.inputs)
        text = str(module)
        qt.optimize(module)
        assert str(module) == text
    fused = [remark for remark in remarks if remark.name == "fused"]
    assert len(fused) == decoder.layers * len(decoder.config.projections)
    assert "linalg.transpose" not in text
    bound = 1e-5 * np.abs(decoder.reference).max()
    assert np.abs(before - decoder.reference).max() < bound
    assert np.abs(after - decoder.reference).max() < bound
