"""A Llama decoder as torch-mlir prints it: int4 groups or int8 rows, rotary embeddings, grouped-query attention.

All weights are function arguments, so that a module with real widths has no data. ``Decoder.reference`` computes the
same in float64 from the logical weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .builders import Body, Builder, Module, Scalar, T
from .packed import nibbles, pack, stack
from .program import matmul


@dataclass(frozen=True)
class Config:
    """Sizes of one decoder layer; ``group`` is that of int4 weights, None stands for int8 with a scale per row."""

    hidden: int = 32
    heads: int = 4
    kv_heads: int = 2
    intermediate: int = 48
    group: int | None = 16
    rows: int = 5

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        """Name to (outputs, inputs) of every projection of a layer."""
        kv = self.kv_heads * self.head_dim
        return {
            "q": (self.hidden, self.hidden),
            "k": (kv, self.hidden),
            "v": (kv, self.hidden),
            "o": (self.hidden, self.hidden),
            "gate": (self.intermediate, self.hidden),
            "up": (self.intermediate, self.hidden),
            "down": (self.hidden, self.intermediate),
        }


REAL = Config(hidden=4096, heads=32, kv_heads=8, intermediate=14336, group=128, rows=1)
"""The widths of Llama 3 8B, decoding one token."""


class Decoder:
    """Emits ``layers`` layers; with an ``rng`` also the inputs and what they give."""

    def __init__(self, config: Config, layers: int, rng: np.random.Generator | None = None) -> None:
        self.config, self.layers, self.rng = config, layers, rng
        self.module = Module()
        self.b = Builder(self.module, "arg")
        self.reference: np.ndarray | None = None
        c, b = config, self.b
        angles = np.outer(np.arange(c.rows), 1e4 ** -(np.arange(c.head_dim // 2) / (c.head_dim // 2)))
        angles = np.concatenate((angles, angles), axis=1)
        if rng is None:
            x = b.param([1, c.rows, c.hidden], "f32")
            self.cos, self.sin = (b.param([c.rows, c.head_dim], "f32") for _ in range(2))
        else:
            self.value = rng.standard_normal((1, c.rows, c.hidden)).astype(np.float32)
            x = b.arg(self.value, "f32")
            self.value = self.value.astype(np.float64)
            self.angles = [f(angles).astype(np.float32) for f in (np.cos, np.sin)]
            self.cos, self.sin = (b.arg(a, "f32") for a in self.angles)
        for _ in range(layers):
            x = self.layer(x)
        b.finish("decoder", [x])
        if rng is not None:
            self.reference = self.value

    @property
    def text(self) -> str:
        return self.module.text()

    @property
    def inputs(self) -> list[np.ndarray]:
        return self.module.inputs

    # Weights ----------------------------------------------------------------------------------------------------------

    def vector(self, size: int) -> tuple[T, np.ndarray | None]:
        if self.rng is None:
            return self.b.param([size], "f32"), None
        value = self.rng.uniform(0.5, 1.5, size).astype(np.float32)
        return self.b.arg(value, "f32"), value

    def weight(self, n: int, k: int) -> tuple[T, np.ndarray | None]:
        """A dequantized weight [n, k] and its value."""
        b, group = self.b, self.config.group
        groups = 1 if group is None else k // group
        scale_shape = [n, 1] if group is None else [n, groups, 1]
        data: list[np.ndarray | None] = [None] * 3
        value = None
        if self.rng is not None:
            low, high = (-128, 128) if group is None else (0, 16)
            q = self.rng.integers(low, high, (n, k))
            scale = (self.rng.uniform(0.5, 2, (n, groups)) / (high - low) / k**0.5).astype(np.float32)
            zero = self.rng.uniform(6, 9, (n, groups)).astype(np.float32)
            spread = [np.repeat(p.astype(np.float64), k // groups, axis=1) for p in (scale, zero)]
            value = (q - (0 if group is None else spread[1])) * spread[0]
            data = [q if group is None else pack(q, 4, "i8"), scale.reshape(scale_shape), zero.reshape(scale_shape)]

        def stored(array: np.ndarray | None, shape: list[int], et: str) -> T:
            return b.param(list(shape), et) if array is None else b.arg(array, et)

        if group is None:
            w = b.convert(stored(data[0], [n, k], "i8"), "f32")
            return b.binary("mulf", w, stored(data[1], scale_shape, "f32")), value
        w = b.split(stack(b, *nibbles(b, stored(data[0], [n, k // 2], "i8"))), 1, group)
        w = b.binary("subf", b.convert(w, "f32", signed=False), stored(data[2], scale_shape, "f32"))
        return b.merge(b.binary("mulf", w, stored(data[1], scale_shape, "f32")), 1), value

    def linear(self, x: T, name: str) -> tuple[T, np.ndarray | None]:
        w, value = self.weight(*self.config.projections[name])
        return matmul(self.b, x, self.b.transpose(w, [1, 0])), value

    # Layers -----------------------------------------------------------------------------------------------------------

    def norm(self, x: T) -> tuple[T, np.ndarray | None]:
        b = self.b
        weight, value = self.vector(self.config.hidden)
        square = b.ew(lambda e, v: e.mulf(v, v), x)
        total = b.generic(
            [(square, "d0, d1, d2")],
            (*x.sizes[:2], 1),
            "f32",
            lambda e, v, acc: e.addf(v, acc),
            out_map="d0, d1, 0",
            iters="ppr",
            init=b.fill(0, (*x.sizes[:2], 1), "f32"),
        )

        def scale(e: Body, v: Scalar) -> Scalar:
            mean = e.divf(v, e.const(self.config.hidden, "f32"))
            return e.math("rsqrt", e.addf(mean, e.const(1e-6, "f32")))

        normal = b.binary("mulf", x, b.ew(scale, total))
        return b.binary("mulf", weight, normal), value

    def heads_of(self, x: T, heads: int) -> T:
        """[1, rows, heads * d] to [1, heads, rows, d]."""
        return self.b.transpose(self.b.split(x, 2, self.config.head_dim), [0, 2, 1, 3])

    def rotate(self, x: T) -> T:
        b, half = self.b, self.config.head_dim // 2
        sizes = [int(s) for s in x.sizes[:3]]
        low, high = (b.slice(x, [0, 0, 0, at], [*sizes, half]) for at in (0, half))
        turned = b.concat(3, b.ew(lambda e, v: e.negf(v), high), low)
        return b.binary("addf", b.binary("mulf", x, self.cos), b.binary("mulf", turned, self.sin))

    def repeat(self, x: T) -> T:
        """Every key head once per query head that reads it."""
        c = self.config
        sizes = (1, c.kv_heads, c.heads // c.kv_heads, *x.sizes[2:])
        return self.b.merge(self.b.broadcast(x, sizes, "d0, d1, d3, d4"), 1)

    def softmax(self, x: T) -> T:
        b = self.b

        def reduce(values: T, op: str, start: float) -> T:
            return b.generic(
                [(values, "d0, d1, d2")],
                (*x.sizes[:2], 1),
                "f32",
                lambda e, v, acc: getattr(e, op)(v, acc),
                out_map="d0, d1, 0",
                iters="ppr",
                init=b.fill(start, (*x.sizes[:2], 1), "f32"),
            )

        shifted = b.binary("subf", x, reduce(x, "maximumf", -np.inf))
        power = b.ew(lambda e, v: e.math("exp", v), shifted)
        return b.binary("divf", power, reduce(power, "addf", 0))

    def attention(self, q: T, k: T, v: T) -> T:
        b, c = self.b, self.config
        q, k = self.rotate(self.heads_of(q, c.heads)), self.rotate(self.heads_of(k, c.kv_heads))
        k, v = self.repeat(k), self.repeat(self.heads_of(v, c.kv_heads))
        q, v, k = (b.merge(t, 0) for t in (q, v, b.transpose(k, [0, 1, 3, 2])))
        scores = b.named("batch_matmul", [q, k], b.fill(0, (c.heads, c.rows, c.rows), "f32"))
        scores = b.binary("mulf", scores, c.head_dim**-0.5)
        mixed = b.named("batch_matmul", [self.softmax(scores), v], b.fill(0, (c.heads, c.rows, c.head_dim), "f32"))
        return b.merge(b.transpose(b.unsqueeze(mixed, 0), [0, 2, 1, 3]), 2)

    def layer(self, x: T) -> T:
        b = self.b
        first, first_value = self.norm(x)
        (q, qw), (k, kw), (v, vw) = (self.linear(first, name) for name in "qkv")
        o, ow = self.linear(self.attention(q, k, v), "o")
        x = b.binary("addf", x, o)
        second, second_value = self.norm(x)
        (gate, gw), (up, uw) = (self.linear(second, name) for name in ("gate", "up"))

        def silu(e: Body, value: Scalar) -> Scalar:
            one = e.const(1, "f32")
            return e.mulf(value, e.divf(one, e.addf(one, e.math("exp", e.negf(value)))))

        down, dw = self.linear(b.binary("mulf", b.ew(silu, gate), up), "down")
        if self.rng is not None:
            self.value = self._layer(self.value, first_value, [qw, kw, vw, ow], second_value, [gw, uw, dw])
        return b.binary("addf", x, down)

    # Reference --------------------------------------------------------------------------------------------------------

    def _layer(self, x, first, attention, second, mlp) -> np.ndarray:  # type: ignore[no-untyped-def]
        c = self.config

        def norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
            return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight

        def rotate(x: np.ndarray) -> np.ndarray:
            low, high = np.split(x, 2, axis=-1)
            return x * self.angles[0] + np.concatenate((-high, low), axis=-1) * self.angles[1]

        qw, kw, vw, ow = attention
        normal = norm(x, first)
        q, k, v = ((normal @ w.T).reshape(c.rows, -1, c.head_dim).swapaxes(0, 1) for w in (qw, kw, vw))
        q, k = rotate(q), rotate(k)
        k, v = (np.repeat(t, c.heads // c.kv_heads, axis=0) for t in (k, v))
        scores = np.exp(q @ k.swapaxes(1, 2) * c.head_dim**-0.5)
        mixed = scores / scores.sum(-1, keepdims=True) @ v
        x = x + mixed.swapaxes(0, 1).reshape(1, c.rows, -1) @ ow.T
        normal = norm(x, second)
        gw, uw, dw = mlp
        gate = normal @ gw.T
        return x + (gate / (1 + np.exp(-gate)) * (normal @ uw.T)) @ dw.T
