"""`qt.verify`: right rewrites pass, each kind of wrong one is caught, and the pass that made it is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import qtranspose as qt
from forms.catalog import CATALOG
from mlir import ir

INPUTS = Path(__file__).parents[1] / "Inputs"

# A square weight, so that an exchanged axis is not a type error.
LINEAR = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0, d1 floordiv 4)>
func.func @main(%x: tensor<?x16xf32>, %bias: tensor<16xf32>) -> tensor<?x16xf32> {
  %q = arith.constant dense<WEIGHT> : tensor<16x16xi8>
  %s = arith.constant dense<SCALE> : tensor<16x4xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x16xf32>
  %e = tensor.empty() : tensor<16x16xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<16x16xi8>, tensor<16x4xf32>) outs(%e : tensor<16x16xf32>) {
  ^bb0(%in: i8, %scale: f32, %out: f32):
    %zero = arith.constant 3 : i32
    %wide = arith.extsi %in : i8 to i32
    %shifted = arith.subi %wide, %zero : i32
    %float = arith.sitofp %shifted : i32 to f32
    %r = arith.mulf %float, %scale : f32
    linalg.yield %r : f32
  } -> tensor<16x16xf32>
  %t = linalg.transpose ins(%w : tensor<16x16xf32>) outs(%e : tensor<16x16xf32>) permutation = [1, 0]
  %f0 = tensor.empty(%n) : tensor<?x16xf32>
  %f = linalg.broadcast ins(%bias : tensor<16xf32>) outs(%f0 : tensor<?x16xf32>) dimensions = [0]
  %y = linalg.matmul ins(%x, %t : tensor<?x16xf32>, tensor<16x16xf32>) outs(%f : tensor<?x16xf32>) -> tensor<?x16xf32>
  return %y : tensor<?x16xf32>
}
"""


def program() -> str:
    rng = np.random.default_rng(3)
    weight = rng.integers(-128, 128, (16, 16)).tolist()
    scale = rng.uniform(0.01, 0.02, (16, 4)).astype(np.float32).tolist()
    return LINEAR.replace("WEIGHT", str(weight)).replace("SCALE", str(scale))


WRONG = {
    "axis": ("permutation = [1, 0]", "permutation = [0, 1]"),
    "group": ("d1 floordiv 4", "d1 mod 4"),
    "zero_point": ("arith.constant 3 : i32", "arith.constant 4 : i32"),
    "signedness": ("arith.extsi", "arith.extui"),
    "bias": ("outs(%f : tensor<?x16xf32>) -> tensor<?x16xf32>", "outs(%f0 : tensor<?x16xf32>) -> tensor<?x16xf32>"),
    "one_element": ("dense<[[", "dense<[[1"),
    "scale_of_another_row": ("(d0, d1 floordiv 4)", "((d0 + 1) mod 16, d1 floordiv 4)"),
}


# PITFALL 26
@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_program_is_caught(kind: str) -> None:
    right, wrong = WRONG[kind]
    assert right in program()
    with ir.Context():
        text = program().replace(right, wrong, 1)
        if kind == "one_element":
            number = int(program().partition("dense<[[")[2].partition(",")[0])
            text = program().replace(f"dense<[[{number},", f"dense<[[{number ^ 1},", 1)
        outcome = qt.verify(ir.Module.parse(program()), ir.Module.parse(text))
    assert not outcome.ok
    mismatch = outcome.mismatch
    assert mismatch is not None
    assert mismatch.function == "main"
    assert mismatch.sizes == (1,)
    assert abs(mismatch.after - mismatch.expected) > mismatch.bound >= abs(mismatch.before - mismatch.expected)


def test_sums_in_another_order_are_right() -> None:
    """The bound allows reassociation, and not much more."""
    one = """func.func @f(%a: tensor<64xf32>, %b: tensor<64xf32>, %i: tensor<f32>) -> tensor<f32> {
      %r = linalg.dot ins(%a, %b : tensor<64xf32>, tensor<64xf32>) outs(%i : tensor<f32>) -> tensor<f32>
      return %r : tensor<f32>
    }"""
    two = """
    #a = affine_map<(d0, d1) -> (d1 * 8 + d0)>
    func.func @f(%a: tensor<64xf32>, %b: tensor<64xf32>, %i: tensor<f32>) -> tensor<f32> {
      %x = tensor.expand_shape %a [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
      %y = tensor.expand_shape %b [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d1, d0)>,
          affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]}
          ins(%x, %y : tensor<8x8xf32>, tensor<8x8xf32>) outs(%i : tensor<f32>) {
      ^bb0(%p: f32, %q: f32, %acc: f32):
        %m = arith.mulf %p, %q : f32
        %s = arith.addf %acc, %m : f32
        linalg.yield %s : f32
      } -> tensor<f32>
      return %r : tensor<f32>
    }"""
    with ir.Context():
        outcome = qt.verify(ir.Module.parse(one), ir.Module.parse(two), trials=12)
    assert outcome.ok
    assert outcome.identical < outcome.elements
    assert 0 < outcome.worst < 0.5


@pytest.mark.parametrize("name", [path.stem for path in sorted(INPUTS.glob("*.mlir"))])
def test_the_default_pipeline_is_right(name: str) -> None:
    with ir.Context():
        module = ir.Module.parseFile(str(INPUTS / f"{name}.mlir"))
        text = str(module)
        outcome = qt.verify(module)
        assert str(module) == text
    assert outcome.ok
    assert outcome.trials == 4
    assert not outcome.unbounded


def test_the_first_wrong_pass_is_named() -> None:
    """`linalg-specialize-generic-ops` of MLIR 22.1.8 takes a product of unsigned numbers for one of signed ones."""
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
    with ir.Context():
        pipeline = "canonicalize,func.func(linalg-specialize-generic-ops),cse"
        outcome = qt.verify(ir.Module.parse(text), pipeline=pipeline)
    assert outcome.mismatch is not None
    assert outcome.mismatch.culprit is not None
    assert outcome.mismatch.culprit.startswith("func.func(linalg-specialize-generic-ops")


def test_all_public_functions_are_checked() -> None:
    text = """
    func.func @one(%x: tensor<2xi32>) -> tensor<2xi32> { return %x : tensor<2xi32> }
    func.func @two(%x: tensor<2xi32>) -> tensor<2xi32> {
      %y = arith.OP %x, %x : tensor<2xi32>
      return %y : tensor<2xi32>
    }
    """
    with ir.Context():
        before, after = (ir.Module.parse(text.replace("OP", op)) for op in ("addi", "subi"))
        outcome = qt.verify(before, after)
        assert outcome.mismatch is not None and outcome.mismatch.function == "two"
        assert qt.verify(before, after, function="one").ok


def test_nan_and_infinity_must_agree() -> None:
    text = """func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = arith.OP %x, %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }"""
    with ir.Context():
        before, after = (ir.Module.parse(text.replace("OP", op)) for op in ("maximumf", "maxnumf"))
        assert qt.verify(before, after).ok
        zero = ir.Module.parse(text.replace("OP", "subf"))
        assert not qt.verify(before, zero).ok


def cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "qtranspose.cli", "verify", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_command_line(tmp_path: Path) -> None:
    before, after = tmp_path / "before.mlir", tmp_path / "after.mlir"
    before.write_text(program())
    after.write_text(program().replace("arith.extsi", "arith.extui"))
    good = cli(before)
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.startswith("ok: ")
    bad = cli(before, after)
    assert (bad.returncode, bad.stderr) == (1, "")
    assert bad.stdout.startswith("mismatch: @main: result 0[")
    for arguments in ([before, "missing.mlir"], [before, "--function", "g"], [before, "--trials", "0"]):
        result = cli(*arguments)
        assert (result.returncode, result.stdout) == (2, "")
        assert len(result.stderr.splitlines()) == 1


FAMILIES = list({entry.family: entry for entry in reversed(CATALOG)}.values())[::-1]


@pytest.mark.parametrize("entry", FAMILIES[::3], ids=lambda entry: entry.name)
def test_the_reference_agrees_with_numpy(entry: object) -> None:
    """The evaluation and its bound, against the oracle that does not read the program."""
    from qtranspose.reference import evaluate

    built = entry.build()  # type: ignore[attr-defined]
    with ir.Context():
        numbers = evaluate(ir.Module.parse(built.mlir), built.inputs)
    for number, want, error in zip(numbers, built.outputs, built.errors, strict=True):
        distance = np.abs(number.value.astype(np.float64) - want.astype(np.float64))
        assert np.all(distance <= number.error + error)
        assert np.all(np.isfinite(number.error))
