"""Reading modules and writing results, with errors fit for a user and no half-written files."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import BinaryIO

from qtranspose.errors import QTransposeError


class OutputFile:
    """A file that appears under its name only when complete.

    Made before the work that fills it, so that a bad path is reported at once. The temporary file lies beside the final
    one and is removed by `discard`, which any process may call.
    """

    def __init__(self, path: str) -> None:
        """Check that `path` can be written.

        Raises:
            QTransposeError: if it cannot.
        """
        self.path = os.path.realpath(path)
        folder = os.path.dirname(self.path)
        if os.path.isdir(self.path):
            raise QTransposeError(f"{path}: cannot write: is a directory")
        if not os.path.isdir(folder):
            raise QTransposeError(f"{path}: cannot write: no such directory")
        # A device or pipe is written in place: renaming over it would destroy it.
        self.in_place = os.path.exists(self.path) and not stat.S_ISREG(os.stat(self.path).st_mode)
        if not os.access(self.path if os.path.exists(self.path) else folder, os.W_OK):
            raise QTransposeError(f"{path}: cannot write: permission denied")
        self.shown = path
        self.temporary = os.path.join(folder, f".{os.path.basename(self.path)}.{os.getpid()}.tmp")

    def write(self, fill: Callable[[BinaryIO], object]) -> None:
        """Let `fill` write the contents, then move them into place.

        Raises:
            QTransposeError: if the file system refuses.
        """
        try:
            with open(self.path if self.in_place else self.temporary, "wb") as file:
                fill(file)
            if not self.in_place:
                os.replace(self.temporary, self.path)
        except OSError as error:
            raise QTransposeError(f"{self.shown}: cannot write: {error.strerror or error}") from error
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove what is left of an unfinished write."""
        if not self.in_place and os.path.lexists(self.temporary):
            os.unlink(self.temporary)
