"""Bad input to the command line: exit status 2, exactly one line on stderr, no traceback, nothing left behind."""

import io
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

LAYER = """\
func.func @layer(%x: tensor<2x3xf32>, %s: tensor<4xi8>) -> (tensor<2x3xf32>, tensor<4xi8>) {
  return %x, %s : tensor<2x3xf32>, tensor<4xi8>
}
func.func private @declared(tensor<2xf32>) -> tensor<2xf32>
"""
GOOD = {"in0": np.zeros((2, 3), np.float32), "in1": np.zeros(4, np.int8)}


COMMANDS = ["run", "opt", "verify", "report"]


def cli(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "qtranspose.cli", *arguments],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        timeout=120,
    )


def refuse(arguments: Sequence[str | Path], *expected: str, cwd: Path | None = None) -> None:
    done = cli(*arguments, cwd=cwd)
    assert done.returncode == 2, done
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("qtranspose: error: "), lines[0]
    for text in expected:
        assert text in lines[0]


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    path = tmp_path / "layer.mlir"
    path.write_text(LAYER)
    return path


# Usage.


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "COMMAND"),
        (["frobnicate"], "frobnicate"),
        (["run"], "FILE"),
        (["run", "x.mlir", "--frobnicate"], "--frobnicate"),
        (["run", "x.mlir", "--threads", "0"], "--threads"),
        (["run", "x.mlir", "--threads", "-2"], "--threads"),
        (["run", "x.mlir", "--threads", "many"], "many"),
        (["run", "x.mlir", "--target", "abacus"], "abacus"),
        (["compile", "x.mlir"], "--aot"),
        (["compile", "x.mlir", "--aot", "out", "--target", "abacus"], "abacus"),
    ],
)
def test_usage(arguments: list[str], expected: str) -> None:
    refuse(arguments, expected)


def test_help_is_not_an_error() -> None:
    for arguments in (["--help"], ["run", "--help"], ["opt", "--help"]):
        done = cli(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert "usage: qtranspose" in done.stdout


# The module file.


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_file(command: str) -> None:
    refuse([command, "no/such.mlir"], "no/such.mlir: No such file")


def test_missing_or_other_transformed_program(layer: Path) -> None:
    refuse(["verify", layer, "no/such.mlir"], "no/such.mlir: No such file")
    other = layer.with_name("other.mlir")
    other.write_text("func.func @layer(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {\n  return %x : tensor<3x2xf32>\n}")
    refuse(["verify", layer, other], "@layer has other arguments or results")


@pytest.mark.parametrize("command", COMMANDS)
def test_directory(command: str, tmp_path: Path) -> None:
    refuse([command, tmp_path], f"{tmp_path}: Is a directory")


@pytest.mark.parametrize("command", COMMANDS)
def test_names_that_are_not_utf8_or_not_one_line(command: str, tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.mlir")
    refuse([command, name], "\\udcff.mlir: No such file", cwd=tmp_path)
    (tmp_path / name).write_text("x")
    refuse([command, name], "\\udcff.mlir:1:1: custom op 'x' is unknown", cwd=tmp_path)
    (tmp_path / name).write_text(LAYER)
    assert cli(command, name, cwd=tmp_path).returncode == 0
    refuse([command, "two\nlines.mlir"], "two lines.mlir: No such file", cwd=tmp_path)


MODULES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "no public function"),
    "zeros": (bytes(64), "no public function"),
    "not_utf8": (b"func.func @f() {\n  \xff\xfe\n}", "neither MLIR text nor MLIR bytecode"),
    "elf": (b"\x7fELF\x02\x01\x01" + bytes(57), "neither MLIR text nor MLIR bytecode"),
    "bad_bytecode": (b"ML\xefR" + b"\x01garbage" * 4, "bad bytecode"),
    "truncated_bytecode": (b"ML\xefR", "bad bytecode"),
    "diagnostic_not_utf8": (
        b'func.func @f() {\n  func.call @"\\FF"() : () -> ()\n  return\n}',
        "what MLIR says about it is not UTF-8",
    ),
    "syntax": (b"func.func @f() {\n  return %x :\n}", "bad.mlir:2:14: "),
    "unclosed": (b"func.func @f() {", "bad.mlir:1:15: "),
    "verifier": (
        b"func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {\n  return %a, %a : tensor<2xf32>, tensor<2xf32>\n}",
        "bad.mlir:2:3: 'func.return' op has 2 operands",
    ),
    "unknown_dialect": (b'func.func @f() {\n  "torch.op"() : () -> ()\n  return\n}', "bad.mlir:2:13: "),
    "unknown_custom_op": (b"func.func @f() {\n  torch.op\n  return\n}", "Dialect `torch' not found"),
    "unknown_op": (b'func.func @f() {\n  "arith.frob"() : () -> ()\n  return\n}', "bad.mlir:2:3: "),
    "bad_resource": (
        b"func.func @f() {\n  %c = arith.constant dense_resource<w> : tensor<4xi8>\n  return\n}\n"
        b'{-# dialect_resources: { builtin: { w: "zz" } } #-}',
        "bad.mlir:5:",
    ),
    "memref_of_vector": (
        b"func.func @f(%a: memref<2xvector<4xf32>>) {\n  return\n}",
        "bad.mlir:1:1: argument 0 of @f: unsupported element type 'vector<4xf32>'",
    ),
    "complex": (
        b"func.func @f(%a: tensor<2xf32>, %b: tensor<2xcomplex<f32>>) {\n  return\n}",
        "bad.mlir:1:1: argument 1 of @f: unsupported element type 'complex<f32>'",
    ),
    "quantized_result": (
        b"func.func @f(%a: tensor<2x!quant.uniform<i8:f32, 1.0>>) -> tensor<2x!quant.uniform<i8:f32, 1.0>> {\n"
        b"  return %a : tensor<2x!quant.uniform<i8:f32, 1.0>>\n}",
        "unsupported element type '!quant.uniform<i8:f32",
    ),
    "wide_integer": (b"func.func @f(%a: tensor<2xi128>) {\n  return\n}", "unsupported element type 'i128'"),
    "unranked": (b"func.func @f(%a: tensor<*xf32>) {\n  return\n}", "unsupported type 'tensor<*xf32>'"),
    "only_private": (b"func.func private @f() {\n  return\n}", "no public function with a body"),
}


@pytest.mark.parametrize(("contents", "expected"), MODULES.values(), ids=MODULES.keys())
def test_bad_module(contents: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "bad.mlir").write_bytes(contents)
    refuse(["run", "bad.mlir", "--outputs", "out.npz"], "bad.mlir", expected, cwd=tmp_path)
    assert os.listdir(tmp_path) == ["bad.mlir"]


@pytest.mark.parametrize("command", ["run", "verify"])
def test_unknown_function(command: str, layer: Path) -> None:
    refuse([command, layer, "--function", "other"], f"{layer}: no function @other", "@layer")


def test_arguments_that_do_not_fit_in_memory(tmp_path: Path) -> None:
    large = "tensor<1000000x1000000x1000000xf32>"
    (tmp_path / "f.mlir").write_text(f"func.func @f(%x: {large}) -> {large} {{\n  return %x : {large}\n}}")
    refuse(["run", "f.mlir"], "out of memory", cwd=tmp_path)


def test_function_without_body(layer: Path) -> None:
    refuse(["run", layer, "--function", "declared"], f"{layer}: ", "@declared is only declared")


# The arrays.


def raw(name: str, header: str) -> bytes:
    """An archive whose one member has a handwritten .npy header and no data."""
    text = header.encode() + b"\n"
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    return body.getvalue()


def saved(**arrays: object) -> bytes:
    body = io.BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]
    return body.getvalue()


def members(**contents: bytes) -> bytes:
    """An archive of members with these names and bytes."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return body.getvalue()


def npy(array: np.ndarray) -> bytes:
    body = io.BytesIO()
    np.save(body, array)
    return body.getvalue()


def truncated() -> bytes:
    whole = saved(**GOOD)
    return whole[: len(whole) // 2]


def flipped() -> bytes:
    """One wrong bit in the data of in0, which the checksum of the archive notices."""
    whole = bytearray(saved(in0=np.full((2, 3), 7, np.float32), in1=GOOD["in1"]))
    whole[whole.index(np.float32(7).tobytes())] ^= 1
    return bytes(whole)


def single_array() -> bytes:
    body = io.BytesIO()
    np.save(body, GOOD["in0"])
    return body.getvalue()


ARCHIVES: dict[str, tuple[Callable[[], bytes], str]] = {
    "not_an_archive": (lambda: b"hello", "not a readable .npz"),
    "empty_file": (lambda: b"", "not a readable .npz"),
    "truncated": (truncated, "not a readable .npz"),
    "flipped_bit": (flipped, "cannot read in0"),
    "single_array": (single_array, "not an .npz archive"),
    "no_keys": (lambda: saved(), "has no inputs, but @layer takes in0, in1"),
    "other_keys": (lambda: saved(x=GOOD["in0"], y=GOOD["in1"]), "has no inputs, but @layer takes in0, in1"),
    "too_few": (lambda: saved(in0=GOOD["in0"]), "has in0, but @layer takes in0, in1"),
    "too_many": (lambda: saved(**GOOD, in2=GOOD["in0"]), "has in0, in1, in2, but @layer takes in0, in1"),
    "gap": (lambda: saved(in0=GOOD["in0"], in2=GOOD["in1"]), "has in0, in2, but @layer takes in0, in1"),
    "shape": (
        lambda: saved(in0=np.zeros((3, 2), np.float32), in1=GOOD["in1"]),
        "in0 has shape [3, 2], expected tensor",
    ),
    "rank": (lambda: saved(in0=np.zeros(6, np.float32), in1=GOOD["in1"]), "in0 has shape [6], expected tensor"),
    "wider_float": (lambda: saved(in0=np.zeros((2, 3)), in1=GOOD["in1"]), "in0 has dtype float64, expected float32"),
    "int_for_float": (
        lambda: saved(in0=np.zeros((2, 3), np.int32), in1=GOOD["in1"]),
        "in0 has dtype int32, expected float32 for f32",
    ),
    "wider_int": (lambda: saved(in0=GOOD["in0"], in1=np.zeros(4, np.int16)), "in1 has dtype int16, expected int8"),
    "text": (lambda: saved(in0=np.array("hello"), in1=GOOD["in1"]), "in0 has dtype <U5"),
    "complex": (lambda: saved(in0=np.zeros((2, 3), complex), in1=GOOD["in1"]), "in0 has dtype complex128"),
    "records": (lambda: saved(in0=np.zeros((2, 3), "f4,i4"), in1=GOOD["in1"]), "in0 has dtype [('f0'"),
    "short_member": (
        lambda: members(**{"in0.npy": npy(GOOD["in0"])[:-5], "in1.npy": npy(GOOD["in1"])}),
        "cannot read in0: ",
    ),
    "no_array": (lambda: members(**{"in0": b"hello", "in1.npy": npy(GOOD["in1"])}), "in0 is not an array"),
    "pickled": (lambda: saved(in0=np.array([None, {}], object), in1=GOOD["in1"]), "cannot read in0"),
    "huge": (
        lambda: raw("in0", "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,), }"),
        "takes in0, in1",
    ),
}


@pytest.mark.parametrize(("archive", "expected"), ARCHIVES.values(), ids=ARCHIVES.keys())
def test_bad_archive(archive: Callable[[], bytes], expected: str, layer: Path) -> None:
    inputs = layer.with_name("in.npz")
    inputs.write_bytes(archive())
    before = sorted(os.listdir(layer.parent))
    refuse(["run", layer, "--inputs", inputs, "--outputs", layer.with_name("out.npz")], f"{inputs}: ", expected)
    assert sorted(os.listdir(layer.parent)) == before


class Intruder:
    """Would leave a folder behind if it were unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("how", ["member", "whole_file", "header"])
def test_no_code_of_an_archive_is_executed(how: str, layer: Path) -> None:
    intruder = Intruder(layer.with_name("intruded"))
    if how == "member":
        archive = saved(in0=np.array([intruder], object), in1=GOOD["in1"])
    elif how == "whole_file":
        archive = pickle.dumps(intruder)
    else:
        archive = raw("in0", f"{{'descr': __import__('os').mkdir({str(intruder.folder)!r}), 'shape': (2, 3)}}")
    inputs = layer.with_name("in.npz")
    inputs.write_bytes(archive)
    refuse(["run", layer, "--inputs", inputs], f"{inputs}: ")
    assert not intruder.folder.exists()
    if how == "whole_file":
        pickle.loads(archive)
        assert intruder.folder.exists()


def test_impossible_header(tmp_path: Path) -> None:
    """A header that promises a petabyte must not be believed."""
    (tmp_path / "f.mlir").write_text(
        "func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {\n  return %x : tensor<?xf32>\n}"
    )
    (tmp_path / "in.npz").write_bytes(ARCHIVES["huge"][0]())
    refuse(["run", "f.mlir", "--inputs", "in.npz"], "in.npz: cannot read in0", cwd=tmp_path)


def test_missing_archive(layer: Path) -> None:
    refuse(["run", layer, "--inputs", "no/such.npz"], "no/such.npz: No such file")


def test_archive_is_directory(layer: Path) -> None:
    refuse(["run", layer, "--inputs", layer.parent], f"{layer.parent}: Is a directory")


@pytest.mark.parametrize(
    ("type", "array", "expected"),
    [
        ("bf16", np.zeros(4, np.float32), "expected uint16 for bf16"),
        ("f8E4M3FN", np.zeros(4, np.float16), "expected uint8 for f8E4M3FN"),
        ("i1", np.array([0, 1, 2, 1], np.uint8), "outside [0, 1]"),
        ("i4", np.array([0, 16, 2, 1], np.int8), "outside [-8, 15]"),
        ("si4", np.array([0, 8, 2, 1], np.int8), "outside [-8, 7]"),
        ("ui8", np.zeros(4, np.int8), "expected uint8 for ui8"),
    ],
)
def test_element_types(type: str, array: np.ndarray, expected: str, tmp_path: Path) -> None:
    tensor = f"tensor<4x{type}>"
    (tmp_path / "f.mlir").write_text(f"func.func @f(%x: {tensor}) -> {tensor} {{\n  return %x : {tensor}\n}}")
    np.savez(tmp_path / "in.npz", in0=array)
    refuse(["run", "f.mlir", "--inputs", "in.npz"], "in.npz: in0 has", expected, cwd=tmp_path)


# The pipeline.


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ("no-such-pass", "'no-such-pass' does not refer to a registered pass"),
        ("builtin.module(no-such-pass)", "'no-such-pass' does not refer to a registered pass"),
        ("canonicalize{no-such-option=1}", "no such option"),
        ("canonicalize,", "does not refer to a registered pass"),
        ("func.func(canonicalize", "parentheses"),
    ],
)
def test_bad_pipeline(command: str, pipeline: str, expected: str, layer: Path) -> None:
    refuse([command, layer, "--pipeline", pipeline], f"bad pipeline '{pipeline}': ", expected)


def test_failing_pipeline(tmp_path: Path) -> None:
    """The pass fails at an operation: the message has its position, and no output appears."""
    (tmp_path / "f.mlir").write_text(
        "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %0 = tosa.abs %a : (tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}"
    )
    refuse(
        ["opt", "f.mlir", "--pipeline", "one-shot-bufferize", "-o", "out.mlir"],
        "f.mlir:2:8: pipeline 'one-shot-bufferize' failed: ",
        cwd=tmp_path,
    )
    assert os.listdir(tmp_path) == ["f.mlir"]


# The output.


WRITERS = [["run", "--outputs"], ["opt", "-o"], ["report", "--html"]]


@pytest.mark.parametrize("arguments", WRITERS, ids=lambda words: words[0])
def test_unwritable_output(arguments: list[str], layer: Path) -> None:
    refuse([*arguments, layer.parent / "no" / "out", layer], "no/out: cannot write: no such directory")
    refuse([*arguments, layer.parent, layer], f"{layer.parent}: cannot write: is a directory")
    assert os.listdir(layer.parent) == ["layer.mlir"]


def test_objects_that_cannot_be_made(layer: Path) -> None:
    for options, message in (
        (["--aot", layer], f"{layer}: cannot write: File exists"),
        (["--aot", layer.parent / "out", "--cpu", "abacus"], "layer.mlir: cannot generate an object file: 'abacus'"),
        (["--aot", layer.parent / "out", "--function", "other"], "layer.mlir: no function @other"),
        (["--aot", layer.parent / "out", "--triple", "nowhere"], "layer.mlir: cannot generate an object file: "),
    ):
        refuse(["compile", layer, *options], message)
    assert os.listdir(layer.parent) == ["layer.mlir"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("stdout", "message"),
    [
        (">/dev/full", "cannot write to standard output: No space left on device"),
        (">&-", "standard output is closed"),
    ],
)
def test_stdout_that_takes_nothing(command: str, stdout: str, message: str, layer: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {stdout}', "sh", sys.executable, "-m", "qtranspose.cli", command, layer],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (2, f"qtranspose: error: {message}\n")


@pytest.mark.parametrize("arguments", WRITERS, ids=lambda words: words[0])
def test_full_disk(arguments: list[str], layer: Path) -> None:
    refuse([*arguments, "/dev/full", layer], "/dev/full: cannot write: No space left")
    assert Path("/dev/full").is_char_device()


def test_an_old_output_survives_a_failure(layer: Path) -> None:
    out = layer.with_name("out.npz")
    out.write_bytes(b"precious")
    refuse(["run", layer, "--function", "other", "--outputs", out])
    assert out.read_bytes() == b"precious"


# Aborts inside LLVM.


# PITFALL 9
@pytest.mark.parametrize(
    ("death", "line"),
    [
        (
            'os.write(2, b"x.cpp:1: f(): Assertion `a && b\' failed.\\nStack dump:\\n0. junk\\n"); os.abort()',
            "the compiler stopped: Assertion `a && b' failed (SIGABRT)",
        ),
        ("os.write(2, b'LLVM ERROR: no\\n'); os.abort()", "the compiler stopped: LLVM ERROR: no (SIGABRT)"),
        ("os.kill(os.getpid(), 11)", "stopped by SIGSEGV"),
        ("os.kill(os.getpid(), 9)", "stopped by SIGKILL"),
        ("raise RuntimeError('two\\nlines')", "internal error: RuntimeError: two lines"),
        ("raise MemoryError", "out of memory"),
    ],
)
def test_death_of_the_child_is_one_line(death: str, line: str) -> None:
    code = (
        "import os, sys\n"
        "from qtranspose._isolated import run_isolated\n"
        "def work():\n"
        f"    {death}\n"
        "sys.exit(run_isolated(work))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"qtranspose: error: {line}\n")


# PITFALL 9
def test_an_abort_of_mlir_itself_is_one_line(tmp_path: Path) -> None:
    """The parser asserts on negative zero points of sub-channel types."""
    (tmp_path / "f.mlir").write_text(
        "!q = !quant.uniform<i8:f32:{0:1,1:2}, {{1.0:-3, 2.0:-4}, {3.0:-5, 4.0:-6}}>\n"
        "func.func @f(%a: tensor<2x4x!q>) -> tensor<2x4xf32> {\n"
        "  %0 = quant.dcast %a : tensor<2x4x!q> to tensor<2x4xf32>\n"
        "  return %0 : tensor<2x4xf32>\n}"
    )
    refuse(
        ["opt", "f.mlir", "--pipeline", "func.func(lower-quant-ops)", "-o", "out.mlir"],
        "the compiler stopped: Assertion `",
        cwd=tmp_path,
    )
    assert os.listdir(tmp_path) == ["f.mlir"]
