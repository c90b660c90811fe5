"""Every instance of every form."""

from . import contractions, eight_bit, packed  # noqa: F401  (they register their forms)
from .registry import CATALOG, Entry

__all__ = ["CATALOG", "Entry"]
