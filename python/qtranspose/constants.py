"""Constants that compiled code reads from memory of its own."""

from __future__ import annotations

import numpy as np

from qtranspose._mlir import ir
from qtranspose._mlir_libs import _qtranspose
from qtranspose.elements import Array

ATTRIBUTE = "qtranspose.external_constants"
_PAGE = 1 << 21
_LINE = 64


class Constants:
    """The external constants of a module, copied into one region.

    NumPy asks the system for large pages for it.

    Attributes:
        addresses: where each symbol's data are.
        sizes: the bytes of each.
    """

    def __init__(self, module: ir.Module) -> None:
        """Copy the constants of `module` (see qtranspose-externalize-constants), and remove them from it."""
        self.addresses: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        attributes = module.operation.attributes
        if ATTRIBUTE not in attributes:
            return
        entries = ir.DictAttr(attributes[ATTRIBUTE])
        constants = {entries[number].name: entries[number].attr for number in range(len(entries))}
        self.sizes = sizes = {name: _qtranspose.constant_size(constant) or 0 for name, constant in constants.items()}
        self._memory: Array = np.empty(sum(size + _LINE for size in sizes.values()) + _PAGE, np.uint8)
        address = self._memory.ctypes.data
        address += -address % _PAGE
        for name, constant in constants.items():
            _qtranspose.copy_constant(constant, address)
            self.addresses[name] = address
            address += sizes[name] + -sizes[name] % _LINE
        del attributes[ATTRIBUTE]
