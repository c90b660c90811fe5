"""The list of instances; a form is a function that emits one program into a ``Case``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from mlir import ir
from mlir.passmanager import PassManager

from .program import Case, P, Program

Form = Callable[[Case], None]

STATES = {
    "fuse": "func.func(linalg-fuse-elementwise-ops)",
    "unitfold_fuse": "func.func(linalg-fold-unit-extent-dims,linalg-fuse-elementwise-ops),canonicalize,cse",
    "generalized": "func.func(linalg-generalize-named-ops),canonicalize,cse",
    "stock": "func.func(linalg-generalize-named-ops,linalg-fold-unit-extent-dims,linalg-fuse-elementwise-ops),"
    "canonicalize,cse",
    "lower_quant": "func.func(lower-quant-ops),canonicalize",
}
"""Passes other people ran before us: the state name and the stock pipeline that leads to it."""


@dataclass(frozen=True)
class Entry:
    """One instance of the catalog; ``build`` is deterministic. ``state`` names stock passes already run on it."""

    family: str
    form: Form
    p: P
    tags: frozenset[str]
    state: str = ""

    @property
    def name(self) -> str:
        return f"{self.family}_{self.p.label()}" + (f".{self.state}" if self.state else "")

    def vary(self, rng: np.random.Generator) -> Entry:
        """Return another instance: new data, other rows, n and k multiplied (which keeps what the form divides by)."""
        p, square = self.p, self.p.n == self.p.k
        n, k = (int(f) for f in rng.integers(1, 4, 2))
        rows = p.m if "degenerate" in self.tags or p.m in (None, 1) else int(rng.integers(1, 9))
        seed = int(rng.integers(1 << 31))
        return replace(self, p=replace(p, n=p.n * n, k=p.k * (n if square else k), m=rows, seed=seed))

    def build(self) -> Program:
        case = Case(self.p)
        self.form(case)
        program = case.program(f"{self.family}_{self.p.label()}", sorted(self.tags))
        if not self.state:
            return program
        with ir.Context():
            module = ir.Module.parse(program.mlir)
            PassManager.parse(f"builtin.module({STATES[self.state]})").run(module.operation)
            return replace(program, name=self.name, mlir=str(module))


CATALOG: list[Entry] = []


def register(family: str, form: Form, shapes: Sequence[P], *tags: str) -> None:
    """Add one entry per shape; "hidden" (from the traffic measure) and "exempt" forms are not measurable."""
    kinds = set(tags) if {"hidden", "exempt"} & set(tags) else {*tags, "measurable"}
    CATALOG.extend(Entry(family, form, p, frozenset(kinds)) for p in shapes)


def squares() -> list[Entry]:
    """A square instance of every family that has none: what is transposed by mistake fits there, and shows."""
    families: dict[str, list[Entry]] = {}
    for entry in CATALOG:
        families.setdefault(entry.family, []).append(entry)

    def size(entry: Entry) -> int:  # a multiple of both keeps what the form divides by
        return math.lcm(entry.p.n, entry.p.k)

    lacking = [e for e in families.values() if all(i.p.n != i.p.k for i in e) and "degenerate" not in e[0].tags]
    chosen = [min(entries, key=size) for entries in lacking]
    return [replace(entry, p=replace(entry.p, n=size(entry), k=size(entry))) for entry in chosen]


def derived() -> list[Entry]:
    """Instances after stock passes ("derived"); what the measure sees of them is open.

    Every family's first instance in every state and with its weights as arguments, and every instance with quant types
    after their lowering.
    """
    first = {entry.family: entry for entry in reversed(CATALOG)}
    chosen = [(e, s) for e in reversed(first.values()) for s in STATES if s != "lower_quant"]
    chosen += [(e, "lower_quant") for e in CATALOG if "quant" in e.tags]
    chosen += [(replace(e, p=replace(e.p, where="arg")), "") for e in reversed(first.values()) if e.p.where != "arg"]
    return [replace(e, state=s, tags=(e.tags - {"measurable"}) | {"derived"}) for e, s in chosen]
