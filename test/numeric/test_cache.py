"""Code on disk: found again for the same program only, executed like new code, never trusted blindly."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import qtranspose as qt
from mlir import ir
from qtranspose import objects
from qtranspose.cache import CompileCache

PROGRAM = """
  ml_program.global private mutable @calls(dense<0> : tensor<i32>) : tensor<i32>
  func.func @f(%a: tensor<?xf32>, %ok: i1) -> (tensor<?xf32>, tensor<i32>) {
    cf.assert %ok, "not ok"
    %n = ml_program.global_load @calls : tensor<i32>
    %one = arith.constant dense<1> : tensor<i32>
    %next = arith.addi %n, %one : tensor<i32>
    ml_program.global_store @calls = %next : tensor<i32>
    %e = math.exp %a : tensor<?xf32>
    return %e, %next : tensor<?xf32>, tensor<i32>
  }
  func.func @g(%a: tensor<2xf32>) -> tensor<2xf32> {
    return %a : tensor<2xf32>
  }"""
A = np.array([0, 1, -2.5], np.float32)


def build(cache, source=PROGRAM, **options):
    with ir.Context():
        return qt.compile(ir.Module.parse(source), cache=cache, **options)


def entries(directory):
    return sorted(directory.glob("*.code"))


@pytest.fixture
def generated(monkeypatch):
    """The functions that code was generated for."""
    seen = []
    make = objects.GeneratedCode.address

    def address(self, entry):
        seen.append(entry)
        return make(self, entry)

    monkeypatch.setattr(objects.GeneratedCode, "address", address)
    return seen


def test_loaded_code_does_the_same(tmp_path, generated):
    first, second = build(tmp_path), build(tmp_path)
    assert len(generated) == 1
    for executable in (first, second, build(tmp_path)):
        # Each has state of its own.
        for calls in (1, 2):
            exponentials, number = executable(A, True)
            np.testing.assert_allclose(exponentials, np.exp(A), rtol=1e-6)
            assert number == calls
        with pytest.raises(qt.QTransposeError, match="@f: assertion failed: not ok"):
            executable(A, False)
    assert len(generated) == 1


def test_other_processes_find_it(tmp_path):
    build(tmp_path)
    before = entries(tmp_path)
    code = f"""
import numpy as np, qtranspose as qt
from mlir import ir
from qtranspose.objects import LoadedCode
with ir.Context():
    executable = qt.compile(ir.Module.parse({PROGRAM!r}))
assert isinstance(executable._code, LoadedCode)
print(executable(np.zeros(1, np.float32), True)[0][0])"""
    environment = {**os.environ, "QTRANSPOSE_CACHE": str(tmp_path)}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True) == "1.0\n"
    assert entries(tmp_path) == before


def test_what_differs_has_an_entry_of_its_own(tmp_path, monkeypatch):
    build(tmp_path)
    build(tmp_path, function="g")
    build(tmp_path, reassociate=False)
    build(tmp_path, PROGRAM.replace("dense<1>", "dense<2>"))
    assert len(entries(tmp_path)) == 4
    monkeypatch.setattr("qtranspose.cache.host", lambda: "another CPU")
    build(tmp_path)
    assert len(entries(tmp_path)) == 5


def test_contents_of_resources_count(tmp_path):
    def program(last):
        return f"""
          func.func @f() -> tensor<2xi32> {{
            %c = arith.constant dense_resource<w> : tensor<2xi32>
            return %c : tensor<2xi32>
          }}
          {{-# dialect_resources: {{ builtin: {{ w: "0x04000000010000000{last}000000" }} }} #-}}"""

    for last in (2, 3):
        np.testing.assert_array_equal(build(tmp_path, program(last))(), [1, last])
    assert len(entries(tmp_path)) == 2


def lose_all(content):
    return b""


def lose_half(content):
    return content[: len(content) // 2]


def flip_a_bit(content):
    return content[:-100] + bytes([content[-100] ^ 1]) + content[-99:]


def replace_the_head(content):
    return b"[1]\n" + content.partition(b"\n")[2]


@pytest.mark.parametrize("damage", [lose_all, lose_half, flip_a_bit, replace_the_head])
def test_damaged_entries_are_made_anew(tmp_path, generated, damage):
    build(tmp_path)
    (entry,) = entries(tmp_path)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    np.testing.assert_allclose(build(tmp_path)(A, True)[0], np.exp(A), rtol=1e-6)
    assert len(generated) == 2
    assert json.loads(entry.read_bytes().partition(b"\n")[0]) == json.loads(whole.partition(b"\n")[0])


def test_objects_that_cannot_be_loaded_are_made_anew(tmp_path, generated):
    build(tmp_path)
    build(tmp_path, function="g")
    first, second = entries(tmp_path)
    # A whole entry, but of another function.
    first.write_bytes(second.read_bytes())
    build(tmp_path)
    build(tmp_path, function="g")
    assert len(generated) == 3


def test_bytes_that_are_no_object_are_an_error():
    with pytest.raises(qt.QTransposeError, match="cannot load the object file"):
        objects.LoadedCode(b"not an object file", {})


def test_threads_share_a_directory(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        for executable in pool.map(lambda _: build(tmp_path), range(8)):
            np.testing.assert_allclose(executable(A, True)[0], np.exp(A), rtol=1e-6)
    assert [path.suffix for path in tmp_path.iterdir()] == [".code"]


def test_directories_that_cannot_be_used(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(qt.QTransposeError, match=r"cannot use the cache .*file"):
        build(file)
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(qt.QTransposeError, match="others can write to it"):
        build(open_to_all)


def test_without_a_cache_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.delenv("QTRANSPOSE_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    build(None)
    assert not list(tmp_path.iterdir())
    assert CompileCache.from_environment() is None
