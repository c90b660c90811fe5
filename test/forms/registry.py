"""The list of instances; a form is a function that emits one program into a ``Case``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .program import Case, P, Program

Form = Callable[[Case], None]


@dataclass(frozen=True)
class Entry:
    """One instance of the catalog; ``build`` is deterministic."""

    name: str
    form: Form
    p: P
    tags: frozenset[str]

    def build(self) -> Program:
        case = Case(self.p)
        self.form(case)
        return case.program(self.name, sorted(self.tags))


CATALOG: list[Entry] = []


def register(name: str, form: Form, shapes: Sequence[P], *tags: str) -> None:
    """Add one entry per shape; "hidden" and "exempt" forms are not measurable."""
    kinds = set(tags) if {"hidden", "exempt"} & set(tags) else {*tags, "measurable"}
    CATALOG.extend(Entry(f"{name}_{p.label()}", form, p, frozenset(kinds)) for p in shapes)
