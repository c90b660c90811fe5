"""Compiled code on disk, to be loaded instead of compiled again."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from qtranspose._mlir import extension, ir
from qtranspose.errors import QTransposeError
from qtranspose.objects import host

ENVIRONMENT = "QTRANSPOSE_CACHE"


@dataclass(frozen=True)
class CacheEntry:
    """What is kept of a compilation.

    Attributes:
        object_file: the code.
        messages: of the assertions of the program, by number.
    """

    object_file: bytes
    messages: list[str]


class CompileCache:
    """A directory of compiled code.

    An entry is found again for the same module, function, options, host (CPU and its features) and build of the passes.
    Entries are written completely or not at all, so that processes may share a directory; damaged ones count as
    missing. Nothing is ever removed.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Use a directory; it is created if there is none.

        Raises:
            QTransposeError: if that fails, or others may write to it: the code in it is executed.
        """
        self._directory = Path(directory)
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self._directory.stat()
        except OSError as error:
            raise QTransposeError(f"cannot use the cache '{directory}': {error.strerror or error}") from error
        if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise QTransposeError(f"cannot use the cache '{directory}': others can write to it")

    @classmethod
    def from_environment(cls) -> CompileCache | None:
        """Return the cache in the directory that the environment variable QTRANSPOSE_CACHE names, if it is set."""
        directory = os.environ.get(ENVIRONMENT)
        return cls(directory) if directory else None

    def key(self, module: ir.Module, options: Sequence[str]) -> str:
        """Return the name of the entry of a module that is compiled with these options."""
        bytecode = io.BytesIO()
        module.operation.write_bytecode(bytecode)
        digest = hashlib.sha256()
        for part in (_build(), host().encode(), *map(str.encode, options), bytecode.getvalue()):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.hexdigest()

    def load(self, key: str) -> CacheEntry | None:
        """Return an entry; None if there is none, or it is damaged."""
        try:
            content = self._path(key).read_bytes()
            head, _, object_file = content.partition(b"\n")
            description = json.loads(head)
            if description["sha256"] == hashlib.sha256(object_file).hexdigest():
                return CacheEntry(object_file, [str(message) for message in description["messages"]])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def store(self, key: str, entry: CacheEntry) -> None:
        """Keep an entry; without effect if the directory is full or read-only."""
        digest = hashlib.sha256(entry.object_file).hexdigest()
        head = json.dumps({"sha256": digest, "messages": entry.messages})
        with suppress(OSError):
            descriptor, temporary = tempfile.mkstemp(dir=self._directory)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(head.encode() + b"\n" + entry.object_file)
                os.replace(temporary, self._path(key))
            except OSError:
                os.unlink(temporary)
                raise

    def _path(self, key: str) -> Path:
        return self._directory / f"{key}.code"


@lru_cache(maxsize=1)
def _build() -> bytes:
    """Return what tells one build of the passes and of LLVM from another."""
    with open(extension.__file__, "rb") as file:
        parts = [hashlib.file_digest(file, "sha256").hexdigest()]
    # The version of a distribution would take longer to find than most entries take to load.
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[-1].rstrip("\n") for line in maps if "/lib" in line}
    for path in sorted(paths):
        if Path(path).name.startswith(("libLLVM", "libMLIR")):
            status = os.stat(path)
            parts.append(f"{Path(path).name} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(parts).encode()
