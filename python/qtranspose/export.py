"""Object files and C headers: compiled functions for programs without Python and MLIR."""

from __future__ import annotations

import io
import os
import re
import subprocess
from pathlib import Path

from qtranspose._mlir import ir
from qtranspose.errors import QTransposeError
from qtranspose.execution import ASSERT_HANDLER, assert_messages, callable_function, cpu_pipeline, lower, symbol
from qtranspose.files import OutputFile
from qtranspose.functions import Signature, ValueType

_PACKAGE = Path(ir.__file__).parent
_TRANSLATE = _PACKAGE / "bin" / "mlir-translate"
_LLVM = _PACKAGE.parent / "llvm" / "bin"


def export_object(
    module: ir.Module,
    directory: str | os.PathLike[str],
    function: str | None = None,
    *,
    reassociate: bool = True,
    triple: str | None = None,
    cpu: str | None = None,
) -> tuple[Path, Path]:
    """Compile one function of `module`, and what it calls, to an object file, and declare it in a C header.

    The function is `qtranspose_NAME` in C, in the files `NAME.o` and `NAME.h`; the header says how to call it. The
    object is position independent and needs the C and mathematics libraries only.

    Args:
        module: as `qtranspose.compile` takes it; it is not changed.
        directory: where to write the files; it is created if there is none.
        function: name of the function; None means the first public one with a body.
        reassociate: see `qtranspose.compile`.
        triple: LLVM's name of the machine to compile for, like `aarch64-linux-gnu`; None means this one.
        cpu: LLVM's name of the processor to compile for; None means the host's, or with `triple` any of its kind.

    Returns:
        The paths of the object file and the header.

    Raises:
        QTransposeError: as for `qtranspose.compile`, if the function or a scalar of it has no counterpart in C, if LLVM
            knows no such machine or processor, or a file cannot be written.
    """
    types, _ = callable_function(module, function)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", types.name):
        raise QTransposeError(f"@{types.name} cannot be the name of a function in C")
    name = f"qtranspose_{types.name}"
    with module.context, ir.Location.unknown():
        lowered = lower(module, types.name, cpu_pipeline(reassociate), c_interface=True)
        messages = assert_messages(lowered)
        header = _header(name, types, messages)
        _rename(lowered, f"_mlir_ciface_{symbol(types.name)}", name)
        if messages:
            _rename(lowered, f"_mlir_ciface_{ASSERT_HANDLER}", f"{name}_failed")
        code = _object_file(lowered, name, triple, cpu or (None if triple else "native"))
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise QTransposeError(f"{os.fspath(directory)}: cannot write: {error.strerror or error}") from error
    paths = Path(directory) / f"{types.name}.o", Path(directory) / f"{types.name}.h"
    files = [OutputFile(str(path)) for path in paths]
    for file, content in zip(files, (code, header.encode()), strict=True):
        file.write(lambda output, content=content: output.write(content))  # type: ignore[misc]
    return paths


def _rename(module: ir.Module, name: str, renamed: str) -> None:
    for op in module.body.operations:
        if "sym_name" in op.attributes and ir.StringAttr(op.attributes["sym_name"]).value == name:
            ir.SymbolTable.replace_all_symbol_uses(name, renamed, module.operation)
            ir.SymbolTable.set_symbol_name(op, renamed)


def _object_file(module: ir.Module, name: str, triple: str | None, cpu: str | None) -> bytes:
    """Generate an object file of a module in the LLVM dialect, in which only `name` is visible."""
    machine = [f"-mtriple={triple}"] * bool(triple) + [f"-mcpu={cpu}"] * bool(cpu)
    bytecode = io.BytesIO()
    module.operation.write_bytecode(bytecode)
    text = _tool([str(_TRANSLATE), "--mlir-to-llvmir"], bytecode.getvalue())
    visible = ["-passes=internalize,default<O3>", f"-internalize-public-api-list={name}"]
    optimized = _tool([str(_LLVM / "opt"), *machine, *visible], text)
    return _tool([str(_LLVM / "llc"), *machine, "-O3", "-relocation-model=pic", "-filetype=obj", "-o", "-"], optimized)


def _tool(command: list[str], content: bytes) -> bytes:
    done = subprocess.run(command, input=content, capture_output=True, check=False)
    complaint = done.stderr.decode(errors="replace").strip()
    # LLVM falls back to another processor when it does not know one.
    if done.returncode or "is not a recognized" in complaint:
        lines = [line for line in complaint.splitlines() if "warning:" not in line]
        reason = lines[0].removeprefix(command[0]).lstrip(": ") if lines else f"exit status {done.returncode}"
        raise QTransposeError(f"cannot generate an object file: {reason}")
    return done.stdout


def _header(name: str, types: Signature, messages: list[str]) -> str:
    """Return the declaration of a function in C."""
    structs = []
    parameters = []
    for number, type in enumerate(types.arguments):
        if type.is_scalar:
            parameters.append(f"{_scalar(type, f'argument {number}', is_argument=True)} in{number}")
        else:
            structs.append(_descriptor(f"{name}_in{number}", type))
            parameters.append(f"{name}_in{number} *in{number}")
    returned = "void"
    fields = []
    for number, type in enumerate(types.results):
        if type.is_scalar:
            returned = _scalar(type, f"result {number}")
            fields.append(f"  {returned} out{number};")
        else:
            structs.append(_descriptor(f"{name}_out{number}", type))
            fields.append(f"  {name}_out{number} out{number};")
    if len(fields) > 1:
        structs.append(f"typedef struct {{\n{chr(10).join(fields)}\n}} {name}_results;\n")
        returned, parameters = "void", [f"{name}_results *results", *parameters]
    elif fields and not types.results[0].is_scalar:
        returned, parameters = "void", [f"{name}_out0 *out0", *parameters]
    failure = ""
    if messages:
        texts = "".join(f"//   {number}: {' '.join(text.split())}\n" for number, text in enumerate(messages))
        failure = f"""
// To be defined by the program: called when an assertion fails; what is computed after it means nothing.
{texts}void {name}_failed(int64_t number);
"""
    return f"""// Made by qtranspose from @{types.name}.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

// A tensor is C-contiguous: `offset` is 0, `strides` are in elements, row-major. Arguments are only read: set `data`,
// aligned to the element type, and the rest; `allocated` is not used. A result is in memory from malloc: free
// `allocated` of each, once if several results have the same. Floats that C has no type for are their bits; an integer
// of fewer bits than its C type must be in range.

{"".join(structs)}{failure}
{returned} {name}({", ".join(parameters) or "void"});

#ifdef __cplusplus
}}
#endif
"""


def _descriptor(name: str, type: ValueType) -> str:
    sizes = "".join(f"\n  int64_t {part}[{len(type.shape)}];" for part in ("shape", "strides") if type.shape)
    element = _element(type)
    return f"""// {type.name}
typedef struct {{
  {element} *allocated;
  {element} *data;
  int64_t offset;{sizes}
}} {name};

"""


def _element(type: ValueType) -> str:
    element = type.element
    if element.name in ("f32", "f64"):
        return "float" if element.name == "f32" else "double"
    if element.kind == "float" or element.bits == 1:
        return f"uint{8 * element.dtype.itemsize}_t"
    return f"{element.dtype}_t"


def _scalar(type: ValueType, what: str, *, is_argument: bool = False) -> str:
    """Return the C type of a scalar.

    Raises:
        QTransposeError: if there is none that is passed the same way.
    """
    element = type.element
    if element.name in ("f32", "f64") or (element.kind == "int" and element.bits == 8 * element.dtype.itemsize):
        return _element(type)
    # Of a returned `i1` only one bit is defined, of a `bool` all.
    if element.dtype == bool and is_argument:
        return "bool"
    raise QTransposeError(f"{what} is a scalar of type {type.name}, which C has no type for")
