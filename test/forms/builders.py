"""Composable emitters of linalg-on-tensors text, in the spelling of the frontends.

A ``Module`` collects functions and ``dense_resource`` blobs; a ``Builder`` emits one function. Every method appends
one op (or the fixed op group a frontend prints for it) and returns a ``T``: the SSA name, element type and sizes of
the result. Sizes are Python ints, or the SSA name of an index value where the dimension is dynamic. References are
never computed here: the oracle in ``oracle.py`` knows the logical weights only, not the program text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

NUMPY = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "i2": np.int8,
    "i4": np.int8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}
BITS = {"i1": 1, "i2": 2, "i4": 4, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
BITS |= {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "f8E4M3FN": 8, "f8E5M2": 8}
TORCH = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}
TORCH |= {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}
TORCH |= {"f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}
Size = int | str


@dataclass(frozen=True)
class T:
    """A tensor value: SSA name, element type, sizes (int, or the SSA name of a dynamic size)."""

    name: str
    et: str
    sizes: tuple[Size, ...]

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def type(self) -> str:
        return tensor_type(self.sizes, self.et)


@dataclass(frozen=True)
class Scalar:
    """A scalar value inside or outside a body."""

    name: str
    type: str


def tensor_type(sizes: Sequence[Size], et: str) -> str:
    return f"tensor<{''.join('?x' if isinstance(s, str) else f'{s}x' for s in sizes)}{et}>"


def is_float(et: str) -> bool:
    return et[0] in "fb"


def as_bytes(array: np.ndarray, et: str) -> bytes:
    return np.ascontiguousarray(array).astype(NUMPY[et]).tobytes()


def dense(array: np.ndarray, et: str) -> str:
    """A ``dense<>`` attribute body; a hex string unless the array is a splat."""
    array = np.asarray(array)
    if array.size and (array == array.flat[0]).all():
        value = array.flat[0]
        return f"dense<{float(value):.17e}>" if is_float(et) else f"dense<{int(value)}>"
    return f'dense<"0x{as_bytes(array, et).hex().upper()}">'


def dims(rank: int) -> str:
    return ", ".join(f"d{i}" for i in range(rank))


def broadcast_map(source: Sequence[Size], result: Sequence[Size]) -> str:
    """NumPy broadcasting as torch-mlir prints it: aligned right, a stretched unit dim becomes the constant 0."""
    shift = len(result) - len(source)
    return ", ".join("0" if s == 1 and result[i + shift] != 1 else f"d{i + shift}" for i, s in enumerate(source))


class Body:
    """Emits the scalar ops of a ``linalg.generic`` region: ``e.mulf(a, b)``, ``e.sitofp(a, to="f32")``."""

    def __init__(self, builder: Builder) -> None:
        self.b = builder

    def __getattr__(self, op: str) -> Callable[..., Scalar]:
        if op.startswith("_"):
            raise AttributeError(op)

        def emit(*xs: Scalar, to: str | None = None, pred: str = "") -> Scalar:
            name = self.b.fresh()
            operands = ", ".join(x.name for x in xs)
            head = f"arith.{op.rstrip('_')} {pred + ', ' if pred else ''}{operands}"
            if op == "select":
                self.b.line(f"{name} = {head} : {xs[1].type}")
                return Scalar(name, xs[1].type)
            self.b.line(f"{name} = {head} : {xs[0].type}" + (f" to {to}" if to else ""))
            return Scalar(name, to or ("i1" if op.startswith("cmp") else xs[0].type))

        return emit

    def const(self, value: float, et: str) -> Scalar:
        return self.b.scalar(value, et)

    def round(self, x: Scalar) -> Scalar:
        return self.math("roundeven", x)

    def math(self, op: str, x: Scalar) -> Scalar:
        name = self.b.fresh()
        self.b.line(f"{name} = math.{op} {x.name} : {x.type}")
        return Scalar(name, x.type)

    def index(self, dim: int) -> Scalar:
        name = self.b.fresh()
        self.b.line(f"{name} = linalg.index {dim} : index")
        return Scalar(name, "index")

    def extract(self, tensor: T, *indices: Scalar) -> Scalar:
        name = self.b.fresh()
        self.b.line(f"{name} = tensor.extract {tensor.name}[{', '.join(i.name for i in indices)}] : {tensor.type}")
        return Scalar(name, tensor.et)

    def to(self, x: Scalar, et: str, signed: bool = True) -> Scalar:
        """Convert to ``et`` with the op a frontend picks; nothing when the type is already right."""
        if x.type == et:
            return x
        if is_float(x.type):
            return (self.extf if BITS[x.type] < BITS[et] else self.truncf)(x, to=et)
        if is_float(et):
            return (self.sitofp if signed else self.uitofp)(x, to=et)
        if BITS[x.type] < BITS[et]:
            return (self.extsi if signed else self.extui)(x, to=et)
        return self.trunci(x, to=et)


@dataclass
class Module:
    """The whole program text: functions in order, globals, resources, inputs of the entry function."""

    attributes: str = ""
    functions: list[str] = field(default_factory=list)
    globals: list[str] = field(default_factory=list)
    resources: dict[str, str] = field(default_factory=dict)
    inputs: list[np.ndarray] = field(default_factory=list)
    weight_bytes: float = 0.0
    serial: int = 0

    def resource(self, array: np.ndarray, et: str) -> str:
        """A ``dense_resource`` reference; the blob starts with its alignment as four little-endian bytes."""
        stem = "_".join(["torch_tensor", *map(str, array.shape)]) + f"_torch.{TORCH[et]}"
        name = stem if stem not in self.resources else f"{stem}_{sum(k.startswith(stem) for k in self.resources)}"
        align = max(BITS[et] // 8, 1)
        self.resources[name] = "0x" + (align.to_bytes(4, "little") + as_bytes(array, et)).hex().upper()
        return f"dense_resource<{name}>"

    def text(self) -> str:
        out = [f"module {self.attributes}{{", *self.globals, *self.functions, "}"]
        if self.resources:
            blobs = ",\n".join(f'      {name}: "{blob}"' for name, blob in self.resources.items())
            out.append("{-#\n  dialect_resources: {\n    builtin: {\n" + blobs + "\n    }\n  }\n#-}")
        return "\n".join(out) + "\n"


class Builder:
    """Emits one function of a module."""

    def __init__(self, module: Module, where: str = "res") -> None:
        self.module = module
        self.where = where
        self.consts: dict[str, str] = {}
        self.lines: list[str] = []
        self.args: list[T] = []

    # Plumbing -------------------------------------------------------------------------------------------------------

    def fresh(self) -> str:
        self.module.serial += 1
        return f"%v{self.module.serial}"

    def line(self, text: str) -> None:
        self.lines.append(text)

    def define(self, et: str, sizes: Sequence[Size], text: str) -> T:
        """Append ``%new = text`` and describe its result."""
        name = self.fresh()
        self.line(f"{name} = {text}")
        return T(name, et, tuple(sizes))

    def _hoist(self, text: str, et: str, sizes: Sequence[Size]) -> T:
        """Constants are printed once each at the head of the function, as the frontends' canonicalizer leaves them."""
        if text not in self.consts:
            self.consts[text] = self.fresh()
        return T(self.consts[text], et, tuple(sizes))

    # Values without operands ----------------------------------------------------------------------------------------

    def arg(self, array: np.ndarray, et: str, dynamic: Sequence[int] = ()) -> T:
        """A function argument fed by ``array``; the dims in ``dynamic`` are printed ``?``."""
        self.module.inputs.append(np.asarray(array).astype(NUMPY[et]))
        return self.param([None if i in dynamic else s for i, s in enumerate(array.shape)], et)

    def param(self, sizes: Sequence[int | None], et: str) -> T:
        """A function argument of this type, without an input array (helper functions)."""
        name = f"%arg{len(self.args)}"
        static = T(name, et, tuple("?" if s is None else s for s in sizes))
        self.args.append(static)
        return T(name, et, tuple(self.dim(static, i) if s is None else s for i, s in enumerate(sizes)))

    def dim(self, t: T, i: int) -> str:
        index = self._hoist(f"arith.constant {i} : index", "index", ()).name
        return self.define("index", (), f"tensor.dim {t.name}, {index} : {t.type}").name

    def scalar(self, value: float, et: str) -> Scalar:
        if is_float(et):
            raw = int.from_bytes(as_bytes(np.array(value), et), "little")
            text = f"0x{raw:0{BITS[et] // 4}X}"
        else:
            text = str(int(value))
        return Scalar(self._hoist(f"arith.constant {text} : {et}", et, ()).name, et)

    def const(self, array: np.ndarray, et: str, where: str | None = None) -> T:
        """A tensor constant that is not part of the weight (shift vectors, biases, tables of a frontend)."""
        array = np.asarray(array)
        where = where or ("dense" if self.where == "arg" else self.where)
        body = self.module.resource(array, et) if where == "res" else dense(array, et)
        return self._hoist(f"arith.constant {body} : {tensor_type(array.shape, et)}", et, array.shape)

    def weight(self, array: np.ndarray, et: str) -> T:
        """Stored weight data (quantized values, scales, zero points, codebooks): a constant or an argument."""
        self.module.weight_bytes += array.size * BITS[et] / 8
        if self.where == "arg":
            return self.arg(array, et)
        return self.const(array, et, "dense" if BITS[et] < 8 else None)

    def empty(self, sizes: Sequence[Size], et: str) -> T:
        dynamic = ", ".join(s for s in sizes if isinstance(s, str))
        return self.define(et, sizes, f"tensor.empty({dynamic}) : {tensor_type(sizes, et)}")

    def fill(self, value: float, sizes: Sequence[Size], et: str) -> T:
        c, out = self.scalar(value, et), self.empty(sizes, et)
        return self.define(et, sizes, f"linalg.fill ins({c.name} : {et}) outs({out.name} : {out.type}) -> {out.type}")

    # Element by element ---------------------------------------------------------------------------------------------

    def generic(
        self,
        ins: Sequence[tuple[T, str]],
        sizes: Sequence[Size],
        et: str,
        body: Callable[..., Scalar],
        *,
        out_map: str | None = None,
        iters: str | None = None,
        init: T | None = None,
    ) -> T:
        """A ``linalg.generic``; maps are comma-separated results, ``iters`` is e.g. "ppr" (default: all parallel)."""
        iters = iters or "p" * len(sizes)
        space = dims(len(iters))
        init = init or self.empty(sizes, et)
        maps = [m for _, m in ins] + [dims(len(sizes)) if out_map is None else out_map]
        params = [Scalar(self.fresh(), t.et) for t, _ in ins] + [Scalar(self.fresh(), et)]
        name = self.fresh()
        operands = f"ins({', '.join(t.name for t, _ in ins)} : {', '.join(t.type for t, _ in ins)}) " if ins else ""
        map_text = ", ".join(f"affine_map<({space}) -> ({m})>" for m in maps)
        iter_text = ", ".join('"parallel"' if c == "p" else '"reduction"' for c in iters)
        traits = f"{{indexing_maps = [{map_text}], iterator_types = [{iter_text}]}}"
        self.line(f"{name} = linalg.generic {traits} {operands}outs({init.name} : {init.type}) {{")
        self.line(f"^bb0({', '.join(f'{p.name}: {p.type}' for p in params)}):")
        result = body(Body(self), *(params if iters.count("r") else params[:-1]))
        self.line(f"linalg.yield {result.name} : {result.type}")
        self.line(f"}} -> {tensor_type(sizes, et)}")
        return T(name, et, tuple(sizes))

    def ew(self, body: Callable[..., Scalar], *ins: T, et: str | None = None, sizes: Sequence[Size] | None = None) -> T:
        """An elementwise generic with NumPy broadcasting, in the torch-mlir spelling."""
        if sizes is None:
            rank = max(t.rank for t in ins)
            padded = [(1,) * (rank - t.rank) + t.sizes for t in ins]
            sizes = [next((p[i] for p in padded if p[i] != 1), 1) for i in range(rank)]
        return self.generic([(t, broadcast_map(t.sizes, sizes)) for t in ins], sizes, et or ins[0].et, body)

    def convert(self, t: T, et: str, signed: bool = True) -> T:
        return t if t.et == et else self.ew(lambda e, x: e.to(x, et, signed), t, et=et)

    def binary(self, op: str, a: T, b: T | float) -> T:
        """``a op b`` as one generic; a Python number becomes a scalar constant captured by the body."""
        if isinstance(b, T):
            return self.ew(lambda e, x, y: getattr(e, op)(x, y), a, b)
        return self.ew(lambda e, x: getattr(e, op)(x, e.const(b, a.et)), a)

    def broadcast(self, t: T, sizes: Sequence[Size], source_map: str | None = None) -> T:
        """A copying generic used as a broadcast or a transpose (JAX, ONNX Expand)."""
        return self.generic([(t, source_map or broadcast_map(t.sizes, sizes))], sizes, t.et, lambda e, x: x)

    # Moving data ----------------------------------------------------------------------------------------------------

    def transpose(self, t: T, perm: Sequence[int], named: bool = True) -> T:
        sizes = [t.sizes[p] for p in perm]
        if not named:
            inverse = [list(perm).index(i) for i in range(t.rank)]
            return self.broadcast(t, sizes, ", ".join(f"d{i}" for i in inverse))
        out = self.empty(sizes, t.et)
        operands = f"ins({t.name} : {t.type}) outs({out.name} : {out.type})"
        return self.define(t.et, sizes, f"linalg.transpose {operands} permutation = {list(perm)}")

    def expand(self, t: T, groups: Sequence[Sequence[int]], sizes: Sequence[Size]) -> T:
        to = tensor_type(sizes, t.et)
        shape = ", ".join(map(str, sizes))
        groups_text = f"[{', '.join(str(list(g)) for g in groups)}]"
        return self.define(
            t.et, sizes, f"tensor.expand_shape {t.name} {groups_text} output_shape [{shape}] : {t.type} into {to}"
        )

    def collapse(self, t: T, groups: Sequence[Sequence[int]]) -> T:
        sizes: list[Size] = []
        for group in groups:
            members = [t.sizes[i] for i in group if t.sizes[i] != 1]
            sizes.append(members[0] if len(members) == 1 else int(np.prod([int(s) for s in members])))
        groups_text = f"[{', '.join(str(list(g)) for g in groups)}]"
        to = tensor_type(sizes, t.et)
        return self.define(t.et, sizes, f"tensor.collapse_shape {t.name} {groups_text} : {t.type} into {to}")

    def split(self, t: T, axis: int, inner: int) -> T:
        """Split ``axis`` into (size / inner, inner)."""
        groups = [[i] if i < axis else [i, i + 1] if i == axis else [i + 1] for i in range(t.rank)]
        return self.expand(t, groups, [*t.sizes[:axis], t.sizes[axis] // inner, inner, *t.sizes[axis + 1 :]])

    def merge(self, t: T, axis: int) -> T:
        """Merge ``axis`` with the axis after it."""
        return self.collapse(t, [[i] if i < axis else [i, i + 1] if i == axis else [i + 1] for i in range(t.rank - 1)])

    def unsqueeze(self, t: T, axis: int) -> T:
        """Insert a unit dim at ``axis``, grouped with the neighbour torch-mlir picks (the one before it)."""
        sizes = [*t.sizes[:axis], 1, *t.sizes[axis:]]
        anchor = max(axis - 1, 0)
        groups = [[i] if i < anchor else [i, i + 1] if i == anchor else [i + 1] for i in range(t.rank)]
        return self.expand(t, groups, sizes)

    def concat(self, axis: int, *ts: T) -> T:
        sizes = list(ts[0].sizes)
        sizes[axis] = sum(int(t.sizes[axis]) for t in ts)
        types = ", ".join(t.type for t in ts)
        names = ", ".join(t.name for t in ts)
        to = tensor_type(sizes, ts[0].et)
        return self.define(ts[0].et, sizes, f"tensor.concat dim({axis}) {names} : ({types}) -> {to}")

    def slice(
        self, t: T, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None, drop: int = 0
    ) -> T:
        """``tensor.extract_slice``; the first ``drop`` dims, of size one, are dropped."""
        where = f"{list(offsets)} {list(sizes)} {list(strides or [1] * t.rank)}"
        to = tensor_type(sizes[drop:], t.et)
        return self.define(t.et, sizes[drop:], f"tensor.extract_slice {t.name}{where} : {t.type} to {to}")

    def insert(self, source: T, into: T, offsets: Sequence[int], strides: Sequence[int] | None = None) -> T:
        """``tensor.insert_slice``; leading dims of ``into`` match ``source``, further ones are dropped unit dims."""
        sizes = [*source.sizes, *[1] * (into.rank - source.rank)]
        where = f"{list(offsets)} {sizes} {list(strides or [1] * into.rank)}"
        text = f"tensor.insert_slice {source.name} into {into.name}{where} : {source.type} into {into.type}"
        return self.define(into.et, into.sizes, text)

    # Contractions ---------------------------------------------------------------------------------------------------

    def named(self, op: str, ins: Sequence[T | Scalar], init: T, attributes: str = "") -> T:
        operands = f"ins({', '.join(t.name for t in ins)} : {', '.join(t.type for t in ins)})"
        text = f"linalg.{op} {attributes}{operands} outs({init.name} : {init.type}) -> {init.type}"
        return self.define(init.et, init.sizes, text)

    def mapped(self, op: str, ins: Sequence[T], init: T, space: int, maps: Sequence[str]) -> T:
        """A named contraction with explicit indexing maps (transposed operands, ``linalg.contract``)."""
        text = ", ".join(f"affine_map<({dims(space)}) -> ({m})>" for m in maps)
        return self.named(op, ins, init, f"indexing_maps = [{text}] ")

    def contract(self, ins: Sequence[tuple[T, str]], sizes: Sequence[Size], et: str, out_map: str, iters: str) -> T:
        """A multiply-accumulate generic over a zero-filled accumulator."""
        add, mul = ("addf", "mulf") if is_float(et) else ("addi", "muli")

        def body(e: Body, x: Scalar, y: Scalar, acc: Scalar) -> Scalar:
            return getattr(e, add)(acc, getattr(e, mul)(e.to(x, et), e.to(y, et)))

        return self.generic(ins, sizes, et, body, out_map=out_map, iters=iters, init=self.fill(0, sizes, et))

    # Finishing ------------------------------------------------------------------------------------------------------

    def call(self, callee: str, args: Sequence[T], et: str, sizes: Sequence[Size]) -> T:
        types = ", ".join(t.type for t in args)
        names = ", ".join(t.name for t in args)
        return self.define(et, sizes, f"func.call @{callee}({names}) : ({types}) -> {tensor_type(sizes, et)}")

    def finish(self, name: str, results: Sequence[T], visibility: str = "", attributes: str = "") -> None:
        """Add the function to its module."""
        args = ", ".join(f"{a.name}: {a.type}" for a in self.args)
        types = ", ".join(r.type for r in results)
        head = f"func.func {visibility}@{name}({args}) -> ({types}) {attributes}{{"
        consts = [f"{value} = {text}" for text, value in self.consts.items()]
        tail = f"return {', '.join(r.name for r in results)} : {types}"
        self.module.functions.append("\n".join([head, *consts, *self.lines, tail, "}"]))
