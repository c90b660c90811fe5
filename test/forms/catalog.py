"""Every instance of every form (``CATALOG``), and the same programs after stock MLIR passes (``DERIVED``)."""

from . import contractions, edges, eight_bit, frontends, packed, structure  # noqa: F401  (they register their forms)
from .registry import CATALOG, Entry, derived, squares

CATALOG += squares()
DERIVED = derived()

__all__ = ["CATALOG", "DERIVED", "Entry"]
