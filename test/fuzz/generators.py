"""The generators of random programs, by name."""

from __future__ import annotations

import random
from collections.abc import Callable

from .products import products
from .programs import layer, layouts

GENERATORS: dict[str, Callable[[random.Random], str]] = {"layer": layer, "layouts": layouts, "products": products}
