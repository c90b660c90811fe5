"""Quantization encodings of a model, attached to its tensors and written out again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from qtranspose._mlir import extension, ir
from qtranspose.errors import QTransposeError
from qtranspose.files import OutputFile

Document = Mapping[str, Any] | str | os.PathLike[str]


def _text(encodings: Document) -> tuple[str, str]:
    """Return the JSON text of `encodings` and what to call it in an error."""
    if isinstance(encodings, Mapping):
        try:
            return json.dumps(encodings, allow_nan=False), "encodings"
        except (TypeError, ValueError, RecursionError) as error:
            raise QTransposeError(f"encodings: not JSON: {error}") from error
    path = os.fspath(encodings)
    if path.lstrip().startswith("{"):
        return path, "encodings"
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(), path
    except UnicodeDecodeError as error:
        raise QTransposeError(f"{path}: not JSON: not UTF-8") from error
    except (OSError, ValueError) as error:
        raise QTransposeError(f"{path}: cannot read: {getattr(error, 'strerror', None) or error}") from error


def attach_encodings(module: ir.Module, encodings: Document) -> ir.Module:
    """Attach the encodings of an AIMET or QNN document to the tensors of `module`, in place, and return it.

    What is not found is kept on the module and reported as a remark. Encodings attached before are replaced.

    Args:
        module: the module.
        encodings: the document as a mapping, as JSON text (which starts with a brace), or the path of a file.

    Raises:
        QTransposeError: if the document cannot be read or is malformed; the module is then as it was.
    """
    text, name = _text(encodings)
    try:
        problem = extension.attach_encodings(module.operation, text)
    except (TypeError, UnicodeError) as error:
        raise QTransposeError(f"{name}: not JSON: has characters that are none") from error
    if problem:
        raise QTransposeError(f"{name}: {problem}")
    return module


def export_encodings(module: ir.Module, file: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Return the document that was attached, with parameters named and laid out as they are now.

    The entry of a parameter that is stored in another order has the name of the derived constant and, if it has
    channels, their `axis`. Everything else is as it was.

    Args:
        module: the module.
        file: where to write the document as well; it appears only when complete.

    Raises:
        QTransposeError: if no encodings are attached, or the file cannot be written.
    """
    output = OutputFile(os.fspath(file)) if file is not None else None
    done, text = extension.export_encodings(module.operation)
    if not done:
        raise QTransposeError(text)
    if output is not None:
        output.write(lambda stream: stream.write(text.encode()))
    document: dict[str, Any] = json.loads(text)
    return document
