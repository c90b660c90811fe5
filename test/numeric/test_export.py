"""Exported functions called from C, and objects for other machines."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import qtranspose as qt
from mlir import ir

INPUTS = Path(__file__).parents[1] / "Inputs"
CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
AARCH64 = 183

SEVERAL = """
  func.func private @malloc(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %r = math.exp %a : tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
  func.func @f(%a: tensor<2x3xf32>, %n: i16, %ok: i1) -> (tensor<3x2xf32>, i16, tensor<?xi8>) {
    cf.assert %ok, "not ok"
    %b = func.call @malloc(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %e = tensor.empty() : tensor<3x2xf32>
    %t = linalg.transpose ins(%b : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
    %m = arith.addi %n, %n : i16
    %i = arith.index_castui %n : i16 to index
    %d = tensor.empty(%i) : tensor<?xi8>
    %seven = arith.constant 7 : i8
    %l = linalg.fill ins(%seven : i8) outs(%d : tensor<?xi8>) -> tensor<?xi8>
    return %t, %m, %l : tensor<3x2xf32>, i16, tensor<?xi8>
  }"""
SEVERAL_MAIN = r"""
#include "f.h"
#include <stdio.h>
#include <stdlib.h>

static int64_t failure = -1;
void qtranspose_f_failed(int64_t number) { failure = number; }

int main(void) {
  float values[6] = {0, 1, 2, 3, -1, -2};
  qtranspose_f_in0 a = {0, values, 0, {2, 3}, {3, 1}};
  qtranspose_f_results r;
  qtranspose_f(&r, &a, 4, true);
  if (failure != -1) return 1;
  for (int i = 0; i < 6; ++i) printf("%.9g ", r.out0.data[i]);
  printf("%d %d", r.out1, (int)r.out2.shape[0]);
  for (int i = 0; i < 4; ++i) printf(" %d", r.out2.data[i]);
  free(r.out0.allocated);
  free(r.out2.allocated);
  qtranspose_f(&r, &a, 1, false);
  free(r.out0.allocated);
  free(r.out2.allocated);
  return failure != 0;
}
"""

needs_cc = pytest.mark.skipif(not CC, reason="no C compiler")


def export(directory, source, **options):
    with ir.Context():
        return qt.export_object(ir.Module.parse(source), directory, **options)


def run(directory, main, *names):
    (directory / "main.c").write_text(main)
    objects = [f"{name}.o" for name in names]
    command = [CC, "-std=c11", "-Wall", "-Wextra", "-Werror", "main.c", *objects, "-lm", "-o", "main"]
    subprocess.run(command, cwd=directory, check=True)
    return subprocess.check_output([directory / "main"], text=True)


@needs_cc
def test_several_results_scalars_and_assertions(tmp_path):
    export(tmp_path, SEVERAL)
    printed = [float(word) for word in run(tmp_path, SEVERAL_MAIN, "f").split()]
    a = np.array([[0, 1, 2], [3, -1, -2]], np.float32)
    np.testing.assert_allclose(printed[:6], np.exp(a).T.ravel(), rtol=1e-6)
    assert printed[6:] == [8, 4, 7, 7, 7, 7]


@needs_cc
def test_a_quantized_layer_matches_its_reference(tmp_path):
    name = "gptq_w4_48x64_m4_f16"
    arrays = np.load(INPUTS / f"{name}.npz")
    source = (INPUTS / f"{name}.mlir").read_text()
    with ir.Context():
        module = qt.optimize(ir.Module.parse(source))
        same = qt.compile(module)(arrays["in0"])
        qt.export_object(module, tmp_path)
    arrays["in0"].tofile(tmp_path / "in0")
    main = f"""
#include "{name}.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) {{
  static uint16_t x[4 * 64];
  FILE *file = fopen("{tmp_path}/in0", "rb");
  if (!file || fread(x, sizeof x, 1, file) != 1) return 1;
  qtranspose_{name}_in0 a = {{0, x, 0, {{4, 64}}, {{64, 1}}}};
  qtranspose_{name}_out0 y;
  qtranspose_{name}(&y, &a);
  for (int i = 0; i < 4 * 48; ++i) printf("%d ", y.data[i]);
  free(y.allocated);
}}"""
    printed = run(tmp_path, main, name).split()
    got = np.array(printed, np.uint16).view(np.float16).reshape(4, 48)
    np.testing.assert_allclose(got, arrays["out0"], rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose(got, same, rtol=1e-2, atol=1e-2)


@needs_cc
def test_two_objects_in_one_cpp_program(tmp_path):
    export(tmp_path, SEVERAL)
    export(tmp_path, SEVERAL.replace("@f(", "@g("))
    (tmp_path / "main.cpp").write_text('#include "f.h"\n#include "g.h"\n')
    subprocess.run([CC, "-Wall", "-Werror", "-fsyntax-only", "main.cpp"], cwd=tmp_path, check=True)
    main = SEVERAL_MAIN.replace('#include "f.h"', '#include "f.h"\n#include "g.h"').replace(
        "int main", "void qtranspose_g_failed(int64_t number) { failure = number; }\nint main"
    )
    assert run(tmp_path, main, "f", "g")


def test_other_machines(tmp_path):
    source = (INPUTS / "gptq_w4_48x64_m4_f16.mlir").read_text()
    path, _ = export(tmp_path, source, triple="aarch64-linux-gnu")
    head = path.read_bytes()[:20]
    assert head[:4] == b"\x7fELF"
    assert int.from_bytes(head[18:20], "little") == AARCH64


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ('func.func @"a.b"() { return }', {}, "cannot be the name of a function in C"),
        ("func.func @f(%a: f16) { return }", {}, "argument 0 is a scalar of type f16"),
        ("func.func @f(%a: i1) -> i1 { return %a : i1 }", {}, "result 0 is a scalar of type i1"),
        ("func.func @f(%a: i4) { return }", {}, "argument 0 is a scalar of type i4"),
        ("func.func @f() { return }", {"triple": "nowhere"}, "cannot generate an object file"),
        ("func.func @f() { return }", {"cpu": "abacus"}, "'abacus' is not a recognized processor"),
        ("func.func @f() { return }", {"function": "g"}, "no function @g"),
    ],
)
def test_refusals_leave_nothing(tmp_path, source, options, message):
    with pytest.raises(qt.QTransposeError, match=message):
        export(tmp_path, source, **options)
    assert not list(tmp_path.iterdir())


def test_directories_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(qt.QTransposeError, match="cannot write"):
        export(tmp_path / "file", "func.func @f() { return }")


def test_command_line(tmp_path):
    command = [sys.executable, "-m", "qtranspose.cli", "compile", INPUTS / "gptq_w4_48x64_m4_f16.mlir"]
    printed = subprocess.check_output([*command, "--target", "cpu", "--aot", tmp_path / "new"], text=True)
    assert [Path(line).suffix for line in printed.splitlines()] == [".o", ".h"]
    assert all(Path(line).stat().st_size for line in printed.splitlines())
