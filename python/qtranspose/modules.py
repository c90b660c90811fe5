"""Reading modules from files, and copying them."""

from __future__ import annotations

import os

from qtranspose._mlir import MLIR_ERRORS, ir
from qtranspose.errors import QTransposeError

BYTECODE_MAGIC = b"ML\xefR"


def read_module(path: str, context: ir.Context) -> ir.Module:
    """Parse and verify a file of MLIR text or bytecode.

    Raises:
        QTransposeError: if it cannot be read or is not a valid module; the message starts with the file and, where MLIR
            gives one, the position.
    """
    try:
        with open(path, "rb") as file:
            # MLIR opens files by their name in UTF-8, and a second time, which a pipe does not allow.
            data = None if os.path.isfile(path) and _is_utf8(path) else file.read()
            start = data[:4] if data is not None else file.read(4)
    except OSError as error:
        raise QTransposeError(f"{path}: {error.strerror or error}") from error
    try:
        return ir.Module.parse(data, context) if data is not None else ir.Module.parseFile(path, context)
    except MLIR_ERRORS as error:
        if start == BYTECODE_MAGIC:
            raise QTransposeError(f"{path}: bad bytecode: {_reason(error)}") from error
        if not _is_text(path, data):
            raise QTransposeError(f"{path}: neither MLIR text nor MLIR bytecode") from error
        reason = QTransposeError.from_mlir(error).args[0]
        if reason.startswith("-:"):
            reason = path + reason[1:]
        if "unregistered dialect" in reason:
            reason = f"{reason.partition(' If this is')[0]} No dialect of MLIR 22 or of qtranspose has this operation."
        raise QTransposeError(reason if reason.startswith(path) else f"{path}: {reason}") from error


def _reason(error: Exception) -> str:
    """Return the first diagnostic without its position: bytecode has none worth showing."""
    diagnostics = getattr(error, "error_diagnostics", None)
    reason = diagnostics[0].message if diagnostics else QTransposeError.from_mlir(error).args[0]
    return str(reason).splitlines()[0]


def _is_utf8(path: str) -> bool:
    try:
        return bool(path.encode())
    except UnicodeEncodeError:
        return False


def _is_text(path: str, data: bytes | None) -> bool:
    if data is None:
        with open(path, "rb") as file:
            data = file.read()
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def copy_module(module: ir.Module) -> ir.Module:
    """Return a copy with the same locations; big constants are shared."""
    source = module.operation.clone()
    copy = ir.Module.create(source.location)
    for name in source.attributes:
        copy.operation.attributes[name] = source.attributes[name]
    for op in list(source.regions[0].blocks[0].operations):
        copy.body.append(op)
    return copy
