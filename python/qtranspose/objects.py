"""Machine code of this host: generated from the LLVM dialect, or loaded from an object file made earlier."""

from __future__ import annotations

import ctypes
import platform
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from mlir.execution_engine import ExecutionEngine

from qtranspose._mlir import extension, ir
from qtranspose.errors import QTransposeError

# Its stubs in 22.1.8 do not know `enable_object_dump`.
_ENGINE: Any = ExecutionEngine
_TARGETS = {"x86_64": "X86", "AMD64": "X86", "aarch64": "AArch64", "arm64": "AArch64"}


class Code(Protocol):
    """Code in this process; it goes with the last reference to this object."""

    def address(self, entry: str) -> int:
        """Return the address of the function `entry(void **arguments)`, or 0."""


class GeneratedCode:
    """Code of a module in the LLVM dialect."""

    def __init__(self, module: ir.Module, symbols: Mapping[str, int], *, keep_object: bool) -> None:
        """Generate code.

        Args:
            module: in the LLVM dialect.
            symbols: the addresses of functions that it calls.
            keep_object: whether `object_file` is needed.
        """
        self._engine = _ENGINE(module, opt_level=3, enable_object_dump=keep_object)
        for name, address in symbols.items():
            self._engine.raw_register_runtime(name, ctypes.c_void_p(address))

    def address(self, entry: str) -> int:
        """See `Code`."""
        return self._engine.raw_lookup(entry) or 0

    def object_file(self) -> bytes:
        """Return the object file of the code; `address` has been called before."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "code.o"
            self._engine.dump_to_object_file(str(path))
            return path.read_bytes()


class LoadedCode:
    """Code of an object file that `GeneratedCode` has made for this host."""

    def __init__(self, object_file: bytes, symbols: Mapping[str, int]) -> None:
        """Load an object file.

        Args:
            object_file: its contents; they are trusted.
            symbols: the addresses of functions that it calls.

        Raises:
            QTransposeError: if it cannot be loaded.
        """
        llvm = _llvm()
        self._jit = ctypes.c_void_p()
        _check(llvm.LLVMOrcCreateLLJIT(ctypes.byref(self._jit), None))
        library = llvm.LLVMOrcLLJITGetMainJITDylib(self._jit)
        pairs = (_Symbol * len(symbols))()
        for pair, (name, address) in zip(pairs, symbols.items(), strict=True):
            pair.name = llvm.LLVMOrcLLJITMangleAndIntern(self._jit, name.encode())
            pair.address, pair.flags = address, _EXPORTED
        _check(llvm.LLVMOrcJITDylibDefine(library, llvm.LLVMOrcAbsoluteSymbols(pairs, len(symbols))))
        buffer = llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy(object_file, len(object_file), b"object")
        _check(llvm.LLVMOrcLLJITAddObjectFile(self._jit, library, buffer))

    def address(self, entry: str) -> int:
        """See `Code`.

        Raises:
            QTransposeError: if the object has no such function, or calls what there is not.
        """
        address = ctypes.c_uint64()
        # The name of the function that takes all arguments as one pointer.
        name = f"_mlir_{entry}".encode()
        _check(_llvm().LLVMOrcLLJITLookup(self._jit, ctypes.byref(address), name))
        return address.value

    def __del__(self) -> None:
        if getattr(self, "_jit", None):
            _check(_llvm().LLVMOrcDisposeLLJIT(self._jit))


def can_load() -> bool:
    """Whether object files can be loaded on this host."""
    return platform.machine() in _TARGETS


@lru_cache(maxsize=1)
def host() -> str:
    """Return what code of this host depends on: triple, CPU, features."""
    llvm = _llvm()
    parts = (llvm.LLVMGetDefaultTargetTriple, llvm.LLVMGetHostCPUName, llvm.LLVMGetHostCPUFeatures)
    return " ".join(part().decode() for part in parts)


_EXPORTED = 1


class _Symbol(ctypes.Structure):
    """`LLVMOrcCSymbolMapPair`."""

    _fields_ = [
        ("name", ctypes.c_void_p),
        ("address", ctypes.c_uint64),
        ("flags", ctypes.c_uint8),
        ("target_flags", ctypes.c_uint8),
    ]


def _check(error: int | None) -> None:
    if error:
        message = _llvm().LLVMGetErrorMessage(error).decode(errors="replace")
        raise QTransposeError(f"cannot load the object file: {message}")


@lru_cache(maxsize=1)
def _llvm() -> ctypes.CDLL:
    """Return LLVM's C interface, which the extension links, ready for code of this host."""
    llvm = ctypes.CDLL(extension.__file__)
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    functions: dict[str, tuple[Any, list[Any]]] = {
        "LLVMGetDefaultTargetTriple": (text, []),
        "LLVMGetHostCPUName": (text, []),
        "LLVMGetHostCPUFeatures": (text, []),
        "LLVMGetErrorMessage": (text, [pointer]),
        "LLVMOrcCreateLLJIT": (pointer, [pointer, pointer]),
        "LLVMOrcDisposeLLJIT": (pointer, [pointer]),
        "LLVMOrcLLJITGetMainJITDylib": (pointer, [pointer]),
        "LLVMOrcLLJITMangleAndIntern": (pointer, [pointer, text]),
        "LLVMOrcAbsoluteSymbols": (pointer, [pointer, size]),
        "LLVMOrcJITDylibDefine": (pointer, [pointer, pointer]),
        "LLVMCreateMemoryBufferWithMemoryRangeCopy": (pointer, [text, size, text]),
        "LLVMOrcLLJITAddObjectFile": (pointer, [pointer, pointer, pointer]),
        "LLVMOrcLLJITLookup": (pointer, [pointer, pointer, text]),
    }
    for name, (result, arguments) in functions.items():
        function = getattr(llvm, name)
        function.restype, function.argtypes = result, arguments
    for part in ("TargetInfo", "Target", "TargetMC") if can_load() else ():
        getattr(llvm, f"LLVMInitialize{_TARGETS[platform.machine()]}{part}")()
    return llvm
