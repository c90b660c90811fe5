"""A slice of the fuzzer with fixed seeds, and what it found once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mlir import ir

from fuzz.check import PIPELINES, STOCK, complaint
from fuzz.generators import GENERATORS
from fuzz.run import run

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.mlir"))
SLICE = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


@pytest.mark.parametrize("generator", GENERATORS.values(), ids=GENERATORS)
def test_programs(generator: Callable[[random.Random], str]) -> None:
    """The choices are hypothesis's, so that a failing program is shrunk."""

    @SLICE
    @given(
        rng=st.randoms(use_true_random=False),
        stock=st.sampled_from(sorted(set(STOCK))),
        pipeline=st.sampled_from(PIPELINES),
    )
    def holds(rng: random.Random, stock: str, pipeline: str) -> None:
        text = generator(rng)
        found = complaint(text, stock, pipeline, seed=0, compiled=False)
        assert found is None, f"'{stock}' then '{pipeline}': {found}\n{text}"

    holds()


def test_cases_of_a_fixed_seed() -> None:
    tally = run(seed=2026, cases=600, jobs=2)
    assert tally.findings == {}
    assert tally.cases >= 600
    assert tally.compiled > 5


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_regression(path: Path) -> None:
    """The first line names the passes: `// 'STOCK' then 'PIPELINE'`."""
    text = path.read_text()
    _, stock, _, pipeline, _ = text.splitlines()[0].split("'")
    assert complaint(text, stock, pipeline, seed=0) is None


def test_a_wrong_pipeline_is_found() -> None:
    """The check can fail: MLIR 22.1.8 specializes products of unsigned numbers to signed ones."""
    text = """func.func @f(%a: tensor<3x4xi8>, %b: tensor<4x5xi8>, %c: tensor<3x5xi32>) -> tensor<3x5xi32> {
      %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
          affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
          ins(%a, %b : tensor<3x4xi8>, tensor<4x5xi8>) outs(%c : tensor<3x5xi32>) {
      ^bb0(%p: i8, %q: i8, %acc: i32):
        %x = arith.extui %p : i8 to i32
        %y = arith.extui %q : i8 to i32
        %m = arith.muli %x, %y : i32
        %s = arith.addi %acc, %m : i32
        linalg.yield %s : i32
      } -> tensor<3x5xi32>
      return %r : tensor<3x5xi32>
    }"""
    assert complaint(text, "", "func.func(linalg-specialize-generic-ops)", seed=0) == "changed without a remark"


@pytest.mark.parametrize("generator", GENERATORS.values(), ids=GENERATORS)
def test_generated_programs_are_valid(generator: Callable[[random.Random], str]) -> None:
    for seed in range(50):
        with ir.Context():
            assert ir.Module.parse(generator(random.Random(seed))).operation.verify()
