"""Random chains of layout changes around arithmetic: `qtranspose-absorb-transposes` does not change a result."""

import random

import pytest
import qtranspose as qt
from fuzz.check import complaint
from fuzz.programs import layouts
from mlir import ir


# PITFALL 13
@pytest.mark.parametrize("seed", range(40))
def test_results_stay(seed: int) -> None:
    assert complaint(layouts(random.Random(seed)), "", "qtranspose-absorb-transposes", seed) is None


def test_most_are_absorbed() -> None:
    """The random programs really exercise the rewrites."""
    before = after = 0
    for seed in range(200):
        with ir.Context():
            module = ir.Module.parse(layouts(random.Random(seed)))
            before += str(module).count("linalg.transpose")
            qt.optimize(module, "qtranspose-absorb-transposes,canonicalize")
            after += str(module).count("linalg.transpose")
    assert before > 300
    assert after < before / 2
