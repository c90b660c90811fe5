"""One generated program, the parameters forms are built from, and the steps most forms share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .builders import NUMPY, Builder, Module, T, is_float
from .oracle import Ref, product

DYNAMIC = 3
"""The size every dynamic dimension has when the program runs."""


@dataclass(frozen=True)
class P:
    """Parameters of one instance: W is [n, k]; the activation has m rows (None: dynamic) under ``batch`` dims."""

    n: int = 48
    k: int = 64
    m: int | None = 1
    g: int = 16
    act: str = "f32"
    where: str = "res"
    batch: tuple[int, ...] = ()
    seed: int = 0

    @property
    def rows(self) -> int:
        return DYNAMIC if self.m is None else self.m

    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.n, self.k, self.rows])

    def label(self) -> str:
        default = P()
        parts = [f"{self.n}x{self.k}", "mdyn" if self.m is None else f"m{self.m}"]
        parts += [f"b{'x'.join(map(str, self.batch))}"] if self.batch else []
        parts += [f"g{self.g}"] if self.g != default.g else []
        parts += [self.act] if self.act != default.act else []
        parts += [self.where] if self.where != default.where else []
        return "_".join(parts)


@dataclass(frozen=True)
class Program:
    """A program with inputs, reference outputs and the per-element error a correct execution may show.

    ``weight_bytes`` counts the stored weight data (values, scales, zero points, codebooks), each tensor once.
    Tags: "measurable" (the traffic measure sees its weights), "exempt" (the dequantized weight must be materialised),
    and what distinguishes the form.
    """

    name: str
    mlir: str
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    errors: tuple[np.ndarray, ...]
    tags: frozenset[str]
    weight_bytes: float

    def mismatch(self, results: Sequence[np.ndarray]) -> str | None:
        """What is wrong with these results, or None."""
        if len(results) != len(self.outputs):
            return f"{len(results)} results, expected {len(self.outputs)}"
        for i, (got, want, error) in enumerate(zip(results, self.outputs, self.errors, strict=True)):
            if got.shape != want.shape:
                return f"result {i}: shape {got.shape}, expected {want.shape}"
            excess = np.abs(got.astype(np.float64) - want.astype(np.float64)) - error
            if not (excess <= 0).all():
                at = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), excess.shape)
                return f"result {i} at {tuple(map(int, at))}: {got[at]}, expected {want[at]} within {error[at]:.3g}"
        return None


@dataclass
class Case:
    """A form under construction."""

    p: P
    rng: np.random.Generator = field(init=False)
    module: Module = field(default_factory=Module)
    refs: list[tuple[Ref, str]] = field(default_factory=list)
    results: list[T] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = self.p.rng()
        self.b = Builder(self.module, self.p.where)

    def activation(
        self, shape: Sequence[int], et: str | None = None, dynamic: Sequence[int] = ()
    ) -> tuple[np.ndarray, T]:
        """A random function argument; returns its exact value in float64 (or integers) and the argument."""
        et = et or self.p.act
        if is_float(et):
            x = self.rng.standard_normal(shape).astype(NUMPY[et])
        else:
            info = np.iinfo(NUMPY[et])
            x = self.rng.integers(info.min, info.max + 1, shape).astype(NUMPY[et])
        return (x.astype(np.float64) if is_float(et) else x.astype(np.int64)), self.b.arg(x, et, dynamic)

    def rows(self, et: str | None = None) -> tuple[np.ndarray, T]:
        """The usual activation [*batch, m, k]."""
        p = self.p
        return self.activation((*p.batch, p.rows, p.k), et, [len(p.batch)] if p.m is None else [])

    def columns(self) -> tuple[np.ndarray, T]:
        """The activation of a weight on the left [*batch, k, m]."""
        p = self.p
        return self.activation((*p.batch, p.k, p.rows), None, [len(p.batch) + 1] if p.m is None else [])

    def result(self, t: T, ref: Ref) -> None:
        self.results.append(t)
        self.refs.append((ref.stored(t.et), t.et))

    def program(self, name: str, tags: Sequence[str]) -> Program:
        self.b.finish(name, self.results)
        functions = self.module.functions
        functions.insert(0, functions.pop())  # tools take the first function as the entry
        return Program(
            name,
            self.module.text(),
            tuple(self.module.inputs),
            tuple(ref.value.astype(NUMPY[et]) for ref, et in self.refs),
            tuple(ref.error for ref, _ in self.refs),
            frozenset(tags),
            self.module.weight_bytes,
        )


def matmul(b: Builder, x: T, w: T) -> T:
    """torch-mlir's matmul of rows [..., m, k] and w [k, n]: leading dims collapsed, f32 sums, result in x's type."""
    lead = x.sizes[:-2]
    if lead:
        x = b.collapse(x, [list(range(x.rank - 1)), [x.rank - 1]])
    acc = "f32" if is_float(x.et) else "i32"
    y = b.named("matmul", [x, w], b.fill(0, (x.sizes[0], w.sizes[1]), acc))
    if acc == "f32":
        y = b.convert(y, x.et)
    return unflatten(b, y, lead)


def unflatten(b: Builder, y: T, lead: Sequence[int | str]) -> T:
    """Restore the leading dims ``lead`` of rows that were collapsed."""
    if not lead:
        return y
    static = int(np.prod([int(s) for s in lead]))
    if isinstance(y.sizes[0], str):
        assert static == 1, "a dynamic row count is only kept apart under unit leading dims"
        rows: int | str = y.sizes[0]
    else:
        rows = y.sizes[0] // static
    rank = len(lead) + 2
    return b.expand(y, [list(range(rank - 1)), [rank - 1]], [*lead, rows, y.sizes[1]])


def linear(c: Case, x: np.ndarray, xt: T, w: np.ndarray, wt: T, bias: bool = False) -> None:
    """``x @ w^T (+ bias)`` as the result, ``wt`` being the dequantized [n, k] tensor (transposed here)."""
    b = c.b
    y, ref = matmul(b, xt, b.transpose(wt, [1, 0])), product(x, w.swapaxes(-1, -2))
    if bias:
        y, ref = add_bias(c, y, ref.stored(xt.et))
    c.result(y, ref)


def add_bias(c: Case, y: T, ref: Ref, first: bool = False) -> tuple[T, Ref]:
    """Add a bias along the last dim; ``first`` makes it the first operand."""
    v = c.rng.standard_normal(int(y.sizes[-1])).astype(NUMPY[y.et])
    bias = c.b.const(v, y.et)
    y = c.b.binary("addf", bias, y) if first else c.b.binary("addf", y, bias)
    return y, Ref(ref.value + v.astype(np.float64), ref.error)
