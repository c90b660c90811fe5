"""The `.npz` protocol of the command line: arguments `in0..`, results `out0..`, in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

from qtranspose.elements import Array
from qtranspose.errors import QTransposeError
from qtranspose.functions import Signature


def load_inputs(path: str, signature: Signature) -> list[Array]:
    """Read the arguments of a function from `in0`, `in1`, ... of an archive; other names are ignored.

    Returns:
        One array per argument, with the types of `qtranspose.elements` and the shapes found in the file.

    Raises:
        QTransposeError: if the file cannot be read, an argument is missing or left over, or its shape or type is wrong.
    """
    try:
        archive = np.load(path, allow_pickle=False)
    except Exception as error:
        if isinstance(error, OSError) and error.strerror:
            raise QTransposeError(f"{path}: {error.strerror}") from error
        raise QTransposeError(f"{path}: not a readable .npz archive") from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise QTransposeError(f"{path}: a single .npy array, not an .npz archive")
    with archive:
        names = [f"in{number}" for number in range(len(signature.arguments))]
        present = sorted((key for key in archive.files if re.fullmatch(r"in\d+", key)), key=lambda key: int(key[2:]))
        if present != names:
            raise QTransposeError(
                f"{path}: has {', '.join(present) or 'no inputs'}, but @{signature.name} takes "
                f"{', '.join(names) or 'no arguments'}"
            )
        arrays = []
        for name, type in zip(names, signature.arguments, strict=True):
            try:
                array = archive[name]
            except Exception as error:
                raise QTransposeError(f"{path}: cannot read {name}: {str(error).splitlines()[0]}") from error
            if not isinstance(array, np.ndarray):
                raise QTransposeError(f"{path}: {name} is not an array")
            try:
                array = type.element.from_storage(array)
            except QTransposeError as error:
                raise QTransposeError(f"{path}: {name} {error}") from error
            if not type.accepts(array.shape):
                raise QTransposeError(f"{path}: {name} has shape {list(array.shape)}, expected {type.name}")
            arrays.append(array)
        return arrays


def save_outputs(file: BinaryIO, results: Sequence[Array], signature: Signature) -> None:
    """Write the results of a function as `out0`, `out1`, ..."""
    arrays = {
        f"out{number}": type.element.to_storage(array)
        for number, (array, type) in enumerate(zip(results, signature.results, strict=True))
    }
    np.savez(file, allow_pickle=False, **arrays)
