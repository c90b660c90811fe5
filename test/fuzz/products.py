"""Random products with quantized weights: batches, permuted dims, control flow, integers, packings, shared parts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from .programs import FLOATS, Tensor, Writer, function

WEIGHTS = ("i8", "i8", "i8", "i4", "i16", "i2")


@dataclass(frozen=True)
class Operand:
    """A value, and the letter of each of its dims."""

    tensor: Tensor
    dims: str

    @property
    def map(self) -> str:
        return ", ".join(self.dims)


# An operand and the results of its map, in letters.
Read = tuple[Operand, str]


class Products:
    """Writes products; sizes go by letters: batches `b`, rows `m`, columns `n`, and `k`, which is summed over."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.w = rng, Writer(rng)
        small = (1, 2, 3, 4, 5, 6, 8)
        self.sizes = {"b": rng.choice((1, 2, 3)), "m": rng.choice((1, 1, 2, 3, 9))}
        self.sizes |= {"n": rng.choice(small), "k": rng.choice((*small, 12, 16))}
        if rng.random() < 0.04:
            self.sizes[rng.choice("bmnk")] = 0
        self.batched = rng.random() < 0.5
        self.dynamic = {letter for letter in "bm" if rng.random() < 0.2}
        # Of weights that are arguments too.
        self.dynamic |= {letter for letter in "nk" if rng.random() < 0.05}
        self.shared: dict[tuple[str, str, str], Operand] = {}

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def permuted(self, dims: str) -> str:
        return "".join(self.rng.sample(dims, len(dims)))

    def parameter(self, dims: str, et: str, encoding: str = "", constants: bool = True) -> Operand:
        """A constant or, always where a size is dynamic, an argument."""
        shape = tuple(self.sizes[letter] for letter in dims)
        dynamic = frozenset(i for i, letter in enumerate(dims) if letter in self.dynamic)
        if dynamic or encoding or not constants or self.chance(0.3):
            return Operand(self.w.argument(shape, et, dynamic, encoding), dims)
        return Operand(self.w.constant(shape, et), dims)

    def transposed(self, operand: Operand, dims: str) -> Operand:
        """The operand with its dims in another order, by one or two transposes."""
        if self.chance(0.15):
            operand = self.transposed(operand, self.permuted(dims))
        if operand.dims == dims and self.chance(0.9):
            return operand
        return Operand(self.w.transpose(operand.tensor, [operand.dims.index(letter) for letter in dims]), dims)

    def empty(self, dims: str, et: str, sources: list[Operand]) -> Tensor:
        """An empty tensor; sizes that are dynamic are those of the operands."""
        sizes = tuple(self.sizes[letter] for letter in dims)
        dynamic = [i for i, letter in enumerate(dims) if letter in self.dynamic]
        names = []
        for i in dynamic:
            source = next(o for o in sources if dims[i] in o.dims)
            names.append(self.w.size_of(source.tensor, source.dims.index(dims[i])))
        tensor = Tensor(self.w.name(), sizes, et, frozenset(dynamic))
        self.w.lines.append(f"{tensor.name} = tensor.empty({', '.join(names)}) : {tensor.type}")
        return tensor

    def filled(self, dims: str, et: str, sources: list[Operand]) -> Operand:
        empty, zero = self.empty(dims, et, sources), self.w.name()
        self.w.lines.append(f"{zero} = arith.constant {'0.0' if empty.is_float else '0'} : {et}")
        text = f"linalg.fill ins({zero} : {et}) outs({empty.name} : {empty.type}) -> {empty.type}"
        return Operand(self.w.result(empty, text), dims)

    def generic(self, inputs: list[Read], outs: list[Operand], loops: str, body: list[str]) -> list[Operand]:
        """A generic whose body computes %r0, ... from %x0, ... and %o0, ...."""
        maps = [f"affine_map<({', '.join(loops)}) -> ({m})>" for m in [*(m for _, m in inputs), *(o.map for o in outs)]]
        kinds = ['"parallel"' if letter in outs[0].dims else '"reduction"' for letter in loops]
        reads = [o.tensor for o, _ in inputs]
        writes = [o.tensor for o in outs]
        arguments = [f"%x{i}: {t.et}" for i, t in enumerate(reads)] + [f"%o{i}: {t.et}" for i, t in enumerate(writes)]
        types = ", ".join(t.type for t in writes)
        name, count = self.w.name(), len(outs)
        self.w.lines.append(
            f"{name}{f':{count}' if count > 1 else ''} = linalg.generic {{indexing_maps = [{', '.join(maps)}], "
            f"iterator_types = [{', '.join(kinds)}]}} ins({', '.join(t.name for t in reads)} : "
            f"{', '.join(t.type for t in reads)}) outs({', '.join(t.name for t in writes)} : {types}) {{\n"
            f"  ^bb0({', '.join(arguments)}):\n    " + "\n    ".join(body) + "\n    "
            f"linalg.yield {', '.join(f'%r{i}' for i in range(count))} : {', '.join(t.et for t in writes)}\n  }} -> "
            + (f"({types})" if count > 1 else types)
        )
        names = [f"{name}#{i}" for i in range(count)] if count > 1 else [name]
        return [replace(o, tensor=replace(o.tensor, name=n)) for n, o in zip(names, outs, strict=True)]

    # Weights

    def along(self, dims: str, et: str, role: str) -> Read:
        """A scale or zero point of a weight: one for all, or per dim, group or batch; may be that of another weight."""
        kinds = ["", "n", "n", "n", "k", "nk", *(["b", "bn"] if "b" in dims else []), "group", "group"]
        kind = self.rng.choice(kinds)
        if kind == "group":
            groups = [g for g in range(1, self.sizes["k"] + 1) if self.sizes["k"] % g == 0]
            if not groups or self.dynamic & set("nk"):
                return self.along(dims, et, role)
            group = self.rng.choice(groups)
            tensor = self.w.parameter((self.sizes["n"], self.sizes["k"] // group), et)
            return Operand(tensor, "n-"), f"n, k floordiv {group}"
        if (role, kind, et) not in self.shared or self.chance(0.5):
            self.shared[role, kind, et] = self.parameter(kind, et)
        operand = self.shared[role, kind, et]
        return operand, operand.map

    def packed(self, dims: str) -> tuple[Read, list[str]]:
        """Several numbers in a word, taken apart by the number of the element."""
        width, bits = self.rng.choice((8, 8, 32)), self.rng.choice((2, 4))
        per = width // bits
        whole = self.sizes["k"]
        if "k" in self.dynamic or not whole or whole % per:
            return self.unpacked(dims)
        self.sizes["k"] = whole // per
        words = self.parameter(dims, f"i{width}")
        self.sizes["k"] = whole
        lines = [
            f"%at = linalg.index {dims.index('k')} : index",
            f"%per = arith.constant {per} : index",
            "%lane = arith.remui %at, %per : index",
            f"%place = arith.index_cast %lane : index to i{width}",
            f"%bits = arith.constant {bits} : i{width}",
            f"%shift = arith.muli %place, %bits : i{width}",
            f"%moved = arith.shrui %x0, %shift : i{width}",
            f"%mask = arith.constant {(1 << bits) - 1} : i{width}",
            f"%low = arith.andi %moved, %mask : i{width}",
            "%none = arith.constant 0 : i32",
            "%wide = arith.extui %low : i8 to i32" if width == 8 else "%wide = arith.addi %low, %none : i32",
        ]
        map = ", ".join(f"k floordiv {per}" if letter == "k" else letter for letter in dims)
        return (Operand(words.tensor, dims.replace("k", "-")), map), lines

    def unpacked(self, dims: str) -> tuple[Read, list[str]]:
        encoding = "layout" if self.chance(0.04) else ""
        stored = self.permuted(dims) if self.chance(0.3) else dims
        q = self.parameter(stored, self.rng.choice(WEIGHTS), encoding)
        if self.chance(0.5):
            q = self.transposed(q, dims)
        extend = self.rng.choice(("extsi", "extsi", "extui"))
        return (q, q.map), [f"%wide = arith.{extend} %x0 : {q.tensor.et} to i32"]

    def weight(self, dims: str, et: str) -> Operand:
        """A dequantized weight, computed by one op from what is stored."""
        stored, lines = self.packed(dims) if self.chance(0.25) else self.unpacked(dims)
        inputs = [stored]
        number = "%wide"
        kind = self.rng.choice(("none", "integer", "tensor", "float"))
        if kind == "tensor":
            inputs.append(self.along(dims, "i8", "zero"))
            lines.append(f"%z = arith.{self.rng.choice(('extsi', 'extui'))} %x1 : i8 to i32")
        elif kind == "integer":
            lines.append(f"%z = arith.constant {self.rng.choice((1, 7, 8, 128, -128, 200))} : i32")
        if kind in ("integer", "tensor"):
            lines.append("%less = arith.subi %wide, %z : i32")
            number = "%less"
        lines.append(f"%real = arith.sitofp {number} : i32 to {et}")
        number = "%real"
        if kind == "float":
            lines += [f"%zf = arith.constant 2.5 : {et}", f"%shifted = arith.subf %real, %zf : {et}"]
            number = "%shifted"
        if self.chance(0.9):
            scale = f"%x{len(inputs)}"
            inputs.append(self.along(dims, et, "scale"))
            order = f"{scale}, {number}" if self.chance(0.2) else f"{number}, {scale}"
            lines.append(f"%r0 = arith.mulf {order} : {et}")
        else:
            lines.append(f"%r0 = arith.negf {number} : {et}")
        count = 2 if self.chance(0.06) else 1
        lines += [f"%r1 = arith.negf %r0 : {et}"] * (count - 1)
        outs = [Operand(self.empty(dims, et, [o for o, _ in inputs]), dims) for _ in range(count)]
        return self.rng.choice(self.generic(inputs, outs, dims, lines))

    # Products

    def init(self, dims: str, et: str, sources: list[Operand]) -> Operand:
        kind = self.rng.choices(("zero", "given", "bias"), (6, 2, 2))[0]
        if kind == "given":
            return self.parameter(dims, et)
        zero = self.filled(dims, et, sources)
        if kind == "zero" or not dims:
            return zero
        letter = self.rng.choice(dims)
        bias = self.parameter(letter, et)
        return self.generic([(bias, letter)], [zero], dims, [f"%r0 = arith.addf %x0, %o0 : {et}"])[0]

    def product(self, a: Operand, b: Operand, out: str, et: str, body: list[str] | None = None) -> Operand:
        """Sum over `k`; the order of the factors and of the loops is random. A body makes it a generic."""
        if self.chance(0.3):
            a, b = b, a
            if body:
                body = [line.replace("%x0", "%x").replace("%x1", "%x0").replace("%x ", "%x1 ") for line in body]
        init = self.init(out, et, [a, b]) if body is None else self.filled(out, et, [a, b])
        loops = out + "k"
        if body is None:
            named = {("bmk", "bkn", "bmn"): "batch_matmul", ("mk", "kn", "mn"): "matmul"}.get((a.dims, b.dims, out))
            ins = (
                f"ins({a.tensor.name}, {b.tensor.name} : {a.tensor.type}, {b.tensor.type}) "
                f"outs({init.tensor.name} : {init.tensor.type}) -> {init.tensor.type}"
            )
            if named and self.chance(0.6):
                return Operand(self.w.result(init.tensor, f"linalg.{named} {ins}"), out)
            if self.chance(0.5):
                maps = ", ".join(f"affine_map<({', '.join(loops)}) -> ({o.map})>" for o in (a, b, init))
                return Operand(self.w.result(init.tensor, f"linalg.contract indexing_maps = [{maps}] {ins}"), out)
            order = "%x1, %x0" if self.chance(0.3) else "%x0, %x1"
            body = [f"%p = arith.mulf {order} : {et}", f"%r0 = arith.addf %o0, %p : {et}"]
        return self.generic([(a, a.map), (b, b.map)], [init], self.permuted(loops), body)[0]

    def dims(self) -> tuple[str, str, str]:
        """Letters of the activation, the weight and the result."""
        a, b = "mk", "nk"
        if self.batched:
            shared = self.rng.choice(("a", "ab", "b"))
            a, b = ("b" + a if "a" in shared else a), ("b" + b if "b" in shared else b)
        out = "b" * self.batched + self.rng.choice(("mn", "mn", "nm"))
        return a, b, out if self.chance(0.8) else self.permuted(out)

    def float_product(self, et: str, weight: Operand | None = None) -> Operand:
        a, b, out = self.dims()
        if weight is None or set(weight.dims) != set(b):
            weight = self.weight(b, et)
        self.last = weight
        x = self.parameter(self.permuted(a) if self.chance(0.3) else a, et, constants=False)
        if self.chance(0.5):
            x = self.transposed(x, a)
        reads = self.permuted(b) if self.chance(0.3) else b[:-2] + "kn"
        return self.product(x, self.transposed(weight, reads) if self.chance(0.8) else weight, out, et)

    def integer_product(self) -> Operand:
        """Stored integers less their zero points, in a named op or a body, scaled afterwards or not."""
        a, b, out = self.dims()
        x = self.parameter(a, "i8", constants=False)
        q = self.parameter(b, "i8")
        zeros = [self.rng.choice((0, 0, 3, 128, -128)) for _ in range(2)]
        named = {"mk": "quantized_matmul", "bmk": "quantized_batch_matmul"}.get(a)
        order = b[:-2] + "kn"
        if named and self.chance(0.4) and len(a) == len(b):
            q = self.transposed(q, order)
            out = a[:-1] + "n"
            points = []
            for zero in zeros:
                points.append(self.w.name())
                self.w.lines.append(f"{points[-1]} = arith.constant {zero} : i32")
            init = self.filled(out, "i32", [x, q])
            y = Operand(
                self.w.result(
                    init.tensor,
                    f"linalg.{named} ins({x.tensor.name}, {q.tensor.name}, {', '.join(points)} : {x.tensor.type}, "
                    f"{q.tensor.type}, i32, i32) outs({init.tensor.name} : {init.tensor.type}) -> {init.tensor.type}",
                ),
                out,
            )
        else:
            if self.chance(0.5):
                q = self.transposed(q, order)
            body = []
            for i, zero in enumerate(zeros):
                body += [
                    f"%w{i} = arith.{self.rng.choice(('extsi', 'extsi', 'extui'))} %x{i} : i8 to i32",
                    f"%z{i} = arith.constant {zero} : i32",
                    f"%d{i} = arith.subi %w{i}, %z{i} : i32",
                ]
            body += ["%p = arith.muli %d0, %d1 : i32", "%r0 = arith.addi %o0, %p : i32"]
            y = self.product(x, q, out, "i32", body)
        if self.chance(0.5):
            scale = self.parameter("n", "f32")
            lines = ["%f = arith.sitofp %x0 : i32 to f32", "%r0 = arith.mulf %f, %x1 : f32"]
            target = Operand(self.empty(y.dims, "f32", [y]), y.dims)
            y = self.generic([(y, y.map), (scale, "n")], [target], y.dims, lines)[0]
        return y

    def both_quantized(self, et: str) -> Operand:
        """A float product of two dequantized operands."""
        a, b, out = self.dims()
        x = self.parameter(a, "i8", constants=False)
        zero, scale = self.rng.choice((0, 3, 128)), self.rng.choice(("0.5", "0.03"))
        lines = [
            f"%w = arith.{self.rng.choice(('extsi', 'extui'))} %x0 : i8 to i32",
            f"%z = arith.constant {zero} : i32",
            "%d = arith.subi %w, %z : i32",
            f"%f = arith.sitofp %d : i32 to {et}",
            f"%s = arith.constant {scale} : {et}",
            f"%r0 = arith.mulf %f, %s : {et}",
        ]
        x = self.generic([(x, x.map)], [Operand(self.empty(a, et, [x]), a)], a, lines)[0]
        return self.product(x, self.transposed(self.weight(b, et), b[:-2] + "kn"), out, et)

    def guarded(self, build: Callable[[], Operand]) -> Operand:
        """What `build` writes, in a loop or a branch."""
        start, shared = len(self.w.lines), dict(self.shared)
        inner = build()
        # What is made in a region cannot be used outside.
        self.shared = shared
        lines, self.w.lines = self.w.lines[start:], self.w.lines[:start]
        type = inner.tensor.type
        if inner.tensor.dynamic:
            self.w.lines += lines
            return inner
        other = self.w.constant(inner.tensor.sizes, inner.tensor.et)
        name = self.w.name()
        body = "\n".join(lines)
        if self.chance(0.5):
            flag, condition = self.w.argument((), "i1"), self.w.name()
            self.w.lines += [
                f"{condition} = tensor.extract {flag.name}[] : {flag.type}",
                f"{name} = scf.if {condition} -> ({type}) {{\n{body}\n  scf.yield {inner.tensor.name} : {type}\n}} "
                f"else {{\n  scf.yield {other.name} : {type}\n}}",
            ]
        else:
            add = "addf" if inner.tensor.is_float else "addi"
            low, high, step = (self.w.name() for _ in range(3))
            self.w.lines += [f"{low} = arith.constant 0 : index", f"{step} = arith.constant 1 : index"]
            self.w.lines += [
                f"{high} = arith.constant {self.rng.choice((0, 1, 2))} : index",
                f"{name} = scf.for %i = {low} to {high} step {step} iter_args(%sum = {other.name}) -> ({type}) {{\n"
                f"{body}\n  %next = arith.{add} %sum, {inner.tensor.name} : {type}\n"
                f"  scf.yield %next : {type}\n}}",
            ]
        return replace(inner, tensor=replace(inner.tensor, name=name))

    def tail(self, y: Operand) -> Operand:
        if y.tensor.is_float and self.chance(0.3):
            letter = self.rng.choice(y.dims)
            bias = self.parameter(letter, y.tensor.et)
            target = Operand(self.empty(y.dims, y.tensor.et, [y]), y.dims)
            lines = [f"%r0 = arith.{self.rng.choice(('addf', 'mulf'))} %x0, %x1 : {y.tensor.et}"]
            y = self.generic([(y, y.map), (bias, letter)], [target], y.dims, lines)[0]
        if self.chance(0.3):
            y = self.transposed(y, self.permuted(y.dims))
        if self.chance(0.15):
            y = Operand(self.w.moved(y.tensor, 2), "")
        return y

    def gather(self, weight: Operand, et: str) -> Operand:
        """Rows of a weight, looked up: an embedding tied to it."""
        index = self.w.argument((3,), "i32")
        letters = weight.dims
        out = Tensor(self.w.name(), (3, *weight.tensor.sizes[1:]), et)
        self.w.lines.append(f"{out.name} = tensor.empty() : {out.type}")
        dims = "r" + letters[1:]
        rest = [f"%j{i} = linalg.index {i} : index" for i in range(1, len(dims))]
        at = ", ".join(["%j0", *(f"%j{i}" for i in range(1, len(dims)))])
        lines = [
            "%j0 = arith.index_cast %x0 : i32 to index",
            *rest,
            f"%r0 = tensor.extract {weight.tensor.name}[{at}] : {weight.tensor.type}",
        ]
        return self.generic([(Operand(index, "r"), "r")], [Operand(out, dims)], dims, lines)[0]


def products(rng: random.Random) -> str:
    """One to three products, in control flow or not, with shared weights and scales."""
    p = Products(rng)
    et = rng.choice(FLOATS)
    results = []
    weight: Operand | None = None
    for _ in range(rng.choice((1, 1, 2, 3))):
        given = weight if rng.random() < 0.5 else None
        kind = rng.choices(("float", "integer", "both"), (6, 3, 2))[0]
        make = {
            "float": partial(p.float_product, et, given),
            "integer": p.integer_product,
            "both": partial(p.both_quantized, et),
        }[kind]
        if rng.random() < 0.2:
            y = p.guarded(make)
        else:
            y = make()
            weight = p.last if kind == "float" else weight
        results.append(p.tail(y).tensor)
    if weight is not None and not weight.tensor.dynamic and weight.tensor.sizes[0] and rng.random() < 0.15:
        results.append(p.gather(weight, et).tensor)
    if weight is not None and rng.random() < 0.05:
        results.append(weight.tensor)
    return function(p.w, results)
