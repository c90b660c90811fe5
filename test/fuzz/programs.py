"""Random linalg-on-tensors programs.

Every choice goes through a `random.Random`, so that `hypothesis` can make the choices too and shrink a failing program
(`hypothesis.strategies.randoms`). Values are small integers, or floats of few bits, so that most results are exact in
any order of evaluation; what is not is bounded by `qt.verify`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod

STORAGE = ("i8", "i8", "i8", "i4", "i32", "i16", "f8E4M3FN")
FLOATS = ("f32", "f32", "f32", "f16", "bf16", "f64")


@dataclass(frozen=True)
class Tensor:
    """A value: its name, sizes, which of them the text does not say, and element type."""

    name: str
    sizes: tuple[int, ...]
    et: str
    dynamic: frozenset[int] = frozenset()
    encoding: str = ""

    @property
    def type(self) -> str:
        dims = "".join("?x" if dim in self.dynamic else f"{size}x" for dim, size in enumerate(self.sizes))
        encoding = f', "{self.encoding}"' if self.encoding else ""
        return f"tensor<{dims}{self.et}{encoding}>"

    @property
    def is_float(self) -> bool:
        return self.et[0] in "fb"


@dataclass
class Writer:
    """Writes one function."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    arguments: list[Tensor] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # Sources

    def argument(
        self, sizes: tuple[int, ...], et: str, dynamic: frozenset[int] = frozenset(), encoding: str = ""
    ) -> Tensor:
        tensor = Tensor(f"%a{len(self.arguments)}", sizes, et, dynamic, encoding)
        self.arguments.append(tensor)
        return tensor

    def constant(self, sizes: tuple[int, ...], et: str) -> Tensor:
        tensor = Tensor(self.name(), sizes, et)
        value = self.resource(sizes) if et == "i8" and prod(sizes) and self.chance(0.1) else self.dense(sizes, et)
        self.lines.append(f"{tensor.name} = arith.constant {value} : {tensor.type}")
        return tensor

    def resource(self, sizes: tuple[int, ...]) -> str:
        """Bytes in a blob beside the program."""
        data = bytes(self.rng.randrange(256) for _ in range(prod(sizes)))
        # Preceded by the alignment of the blob.
        self.resources.append(f'r{len(self.resources)}: "0x01000000{data.hex()}"')
        return f"dense_resource<r{len(self.resources) - 1}>"

    def dense(self, sizes: tuple[int, ...], et: str) -> str:
        def element() -> str:
            if et[0] in "fb":
                return f"{self.rng.randrange(-12, 13) / 4:.2f}"
            bits = int(et[1:])
            return str(self.rng.randrange(-(1 << min(bits - 1, 7)), 1 << min(bits - 1, 7)))

        if self.chance(0.1):
            return f"dense<{element()}>"

        def nested(sizes: tuple[int, ...]) -> str:
            return f"[{', '.join(nested(sizes[1:]) for _ in range(sizes[0]))}]" if sizes else element()

        return f"dense<{nested(sizes)}>" if prod(sizes) else "dense<>"

    def parameter(self, sizes: tuple[int, ...], et: str) -> Tensor:
        return self.argument(sizes, et) if self.chance(0.3) else self.constant(sizes, et)

    def size_of(self, tensor: Tensor, dim: int) -> str:
        index = self.name()
        self.lines.append(f"{index} = arith.constant {dim} : index")
        size = self.name()
        self.lines.append(f"{size} = tensor.dim {tensor.name}, {index} : {tensor.type}")
        return size

    def empty(self, like: list[tuple[Tensor, int]], et: str, encoding: str = "") -> Tensor:
        """A tensor of the sizes of these dims."""
        sizes = tuple(source.sizes[dim] for source, dim in like)
        dynamic = frozenset(i for i, (source, dim) in enumerate(like) if dim in source.dynamic)
        names = [self.size_of(source, dim) for i, (source, dim) in enumerate(like) if i in dynamic]
        tensor = Tensor(self.name(), sizes, et, dynamic, encoding)
        self.lines.append(f"{tensor.name} = tensor.empty({', '.join(names)}) : {tensor.type}")
        return tensor

    def filled(self, like: list[tuple[Tensor, int]], et: str) -> Tensor:
        empty = self.empty(like, et)
        zero = self.name()
        self.lines.append(f"{zero} = arith.constant {'0.0' if empty.is_float else '0'} : {et}")
        return self.result(empty, f"linalg.fill ins({zero} : {et}) outs({empty.name} : {empty.type}) -> {empty.type}")

    def result(self, like: Tensor, text: str) -> Tensor:
        tensor = replace(like, name=self.name())
        self.lines.append(f"{tensor.name} = {text}")
        return tensor

    # Element by element

    def elementwise(self, inputs: list[tuple[Tensor, str]], out: Tensor, body: list[str]) -> Tensor:
        """A generic; `body` computes %r from %x0, %x1, ... and the maps are given as results."""
        loops = ", ".join(f"d{i}" for i in range(len(out.sizes)))
        maps = ", ".join(f"affine_map<({loops}) -> ({m})>" for m in [*(m for _, m in inputs), loops])
        parallel = ", ".join(['"parallel"'] * len(out.sizes))
        names, types = ", ".join(t.name for t, _ in inputs), ", ".join(t.type for t, _ in inputs)
        arguments = ", ".join(f"%x{i}: {t.et}" for i, (t, _) in enumerate(inputs))
        lines = "\n    ".join(body)
        return self.result(
            out,
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{parallel}]}} ins({names} : {types}) "
            f"outs({out.name} : {out.type}) {{\n  ^bb0({arguments}, %o: {out.et}):\n    {lines}\n"
            f"    linalg.yield %r : {out.et}\n  }} -> {out.type}",
        )

    def like(self, tensor: Tensor, et: str | None = None) -> Tensor:
        return self.empty([(tensor, dim) for dim in range(len(tensor.sizes))], et or tensor.et)

    def identity(self, tensor: Tensor) -> str:
        return ", ".join(f"d{i}" for i in range(len(tensor.sizes)))

    # Moves

    def transpose(self, tensor: Tensor, permutation: list[int] | None = None) -> Tensor:
        if permutation is None:
            permutation = list(range(len(tensor.sizes)))
            self.rng.shuffle(permutation)
        out = self.empty([(tensor, dim) for dim in permutation], tensor.et, tensor.encoding)
        if self.chance(0.25):
            return self.copied(tensor, ", ".join(f"d{permutation.index(dim)}" for dim in range(len(permutation))), out)
        return self.result(
            out,
            f"linalg.transpose ins({tensor.name} : {tensor.type}) outs({out.name} : {out.type}) "
            f"permutation = {permutation}",
        )

    def copied(self, tensor: Tensor, map: str, out: Tensor) -> Tensor:
        loops = ", ".join(f"d{i}" for i in range(len(out.sizes)))
        parallel = ", ".join(['"parallel"'] * len(out.sizes))
        return self.result(
            out,
            f"linalg.generic {{indexing_maps = [affine_map<({loops}) -> ({map})>, affine_map<({loops}) -> ({loops})>], "
            f"iterator_types = [{parallel}]}} ins({tensor.name} : {tensor.type}) outs({out.name} : {out.type}) {{\n"
            f"  ^bb0(%x: {tensor.et}, %o: {out.et}):\n    linalg.yield %x : {out.et}\n  }} -> {out.type}",
        )

    def split(self, tensor: Tensor, dim: int, inner: int) -> Tensor:
        sizes = (*tensor.sizes[:dim], tensor.sizes[dim] // inner, inner, *tensor.sizes[dim + 1 :])
        groups = [[i] if i < dim else [i, i + 1] if i == dim else [i + 1] for i in range(len(tensor.sizes))]
        dynamic = frozenset(i if i < dim else i + 1 for i in tensor.dynamic)
        names = [
            self.size_of(tensor, i if i < dim else i - 1) if i in dynamic else str(sizes[i]) for i in range(len(sizes))
        ]
        out = Tensor(self.name(), sizes, tensor.et, dynamic)
        self.lines.append(
            f"{out.name} = tensor.expand_shape {tensor.name} {groups} output_shape [{', '.join(names)}] : "
            f"{tensor.type} into {out.type}"
        )
        return out

    def merge(self, tensor: Tensor, dim: int) -> Tensor:
        sizes = (*tensor.sizes[:dim], tensor.sizes[dim] * tensor.sizes[dim + 1], *tensor.sizes[dim + 2 :])
        groups = [[i] if i < dim else [i, i + 1] if i == dim else [i + 1] for i in range(len(sizes))]
        dynamic = frozenset(i if i <= dim else i - 1 for i in tensor.dynamic)
        out = Tensor(self.name(), sizes, tensor.et, dynamic)
        self.lines.append(f"{out.name} = tensor.collapse_shape {tensor.name} {groups} : {tensor.type} into {out.type}")
        return out

    def part(self, tensor: Tensor, dim: int, offset: int, size: int, stride: int = 1) -> Tensor:
        offsets = [offset if i == dim else 0 for i in range(len(tensor.sizes))]
        strides = [stride if i == dim else 1 for i in range(len(tensor.sizes))]
        sizes = [
            str(size) if i == dim else self.size_of(tensor, i) if i in tensor.dynamic else str(n)
            for i, n in enumerate(tensor.sizes)
        ]
        out = Tensor(
            self.name(),
            tuple(size if i == dim else n for i, n in enumerate(tensor.sizes)),
            tensor.et,
            tensor.dynamic - {dim},
        )
        self.lines.append(
            f"{out.name} = tensor.extract_slice {tensor.name}{offsets} [{', '.join(sizes)}] {strides} : "
            f"{tensor.type} to {out.type}"
        )
        return out

    def concat(self, dim: int, first: Tensor, second: Tensor) -> Tensor:
        sizes = tuple(n + second.sizes[i] if i == dim else n for i, n in enumerate(first.sizes))
        out = Tensor(self.name(), sizes, first.et, first.dynamic)
        self.lines.append(
            f"{out.name} = tensor.concat dim({dim}) {first.name}, {second.name} : ({first.type}, {second.type}) -> "
            f"{out.type}"
        )
        return out

    def moved(self, tensor: Tensor, length: int) -> Tensor:
        """A few random moves of all elements."""
        for _ in range(length):
            rank = len(tensor.sizes)
            kind = self.rng.choice(("transpose", "split", "merge", "transpose"))
            if kind == "transpose" and rank > 1:
                tensor = self.transpose(tensor)
            elif kind == "split" and 0 < rank < 5:
                dim = self.rng.randrange(rank)
                factors = [f for f in range(1, tensor.sizes[dim] + 1) if tensor.sizes[dim] % f == 0]
                if dim not in tensor.dynamic and factors:
                    tensor = self.split(tensor, dim, self.rng.choice(factors))
            elif kind == "merge" and rank > 1:
                dim = self.rng.randrange(rank - 1)
                if not {dim, dim + 1} & tensor.dynamic:
                    tensor = self.merge(tensor, dim)
        return tensor

    # Weights

    def weight(self, n: int, k: int, et: str) -> Tensor:
        """A dequantized weight [n, k] in one of many spellings."""
        storage = self.rng.choice(STORAGE)
        signed = self.chance(0.7)
        if storage == "i32":
            q = self.packed(n, k, signed)
        else:
            q = self.parameter((n, k), storage)
            if self.chance(0.2):
                q = self.transpose(self.parameter((k, n), storage), [1, 0])
        groups = [g for g in range(1, k + 1) if k % g == 0]
        group = self.rng.choice([*groups, k, k]) if k else 0
        grouped = k > 0 and group < k
        w = self.split(q, 1, group) if grouped else q
        w = self.converted(w, et, signed)
        row = "d0, d1, 0" if grouped else "d0, 0"
        shape = (n, k // group, 1) if grouped else (n, 1)
        if self.chance(0.3):
            row, shape = ("", ())
        for op in ("subf", "mulf"):
            if op == "subf" and self.chance(0.5):
                continue
            value = self.parameter(shape, et)
            w = self.elementwise(
                [(w, self.identity(w)), (value, row)], self.like(w), [f"%r = arith.{op} %x0, %x1 : {et}"]
            )
        return self.merge(w, 1) if grouped else w

    def packed(self, n: int, k: int, signed: bool) -> Tensor:
        """Two or four numbers in a byte, side by side or in halves."""
        per = self.rng.choice((2, 4))
        if k % per or not k:
            return self.parameter((n, k), "i8")
        bits = 8 // per
        words = self.parameter((n, k // per), "i8")
        pieces = []
        for position in range(per):
            body = [f"%s = arith.constant {bits * position} : i8", f"%m = arith.constant {(1 << bits) - 1} : i8"]
            body += ["%t = arith.shrui %x0, %s : i8", "%r = arith.andi %t, %m : i8"]
            pieces.append(self.elementwise([(words, self.identity(words))], self.like(words), body))
        interleaved = self.chance(0.7)
        if interleaved:
            pieces = [self.split(piece, 1, 1) for piece in pieces]
        whole = pieces[0]
        for piece in pieces[1:]:
            whole = self.concat(2 if interleaved else 1, whole, piece)
        return self.merge(whole, 1) if interleaved else whole

    def converted(self, tensor: Tensor, et: str, signed: bool) -> Tensor:
        if tensor.is_float:
            body = [f"%r = arith.extf %x0 : {tensor.et} to {et}"]
        else:
            body = [f"%r = arith.{'sitofp' if signed else 'uitofp'} %x0 : {tensor.et} to {et}"]
        return self.elementwise([(tensor, self.identity(tensor))], self.like(tensor, et), body)

    # Contractions

    def matmul(self, lhs: Tensor, rhs: Tensor, et: str) -> Tensor:
        """[m, k] by [k, n], in a random spelling, on a random accumulator."""
        if self.chance(0.75):
            init = self.filled([(lhs, 0), (rhs, 1)], et)
        elif 0 in lhs.dynamic or 1 in rhs.dynamic:
            init = self.argument((lhs.sizes[0], rhs.sizes[1]), et, frozenset({0} if 0 in lhs.dynamic else {1}))
        else:
            init = self.parameter((lhs.sizes[0], rhs.sizes[1]), et)
        a, b, c = "m, k", "k, n", "m, n"
        if self.chance(0.2):
            lhs, a = self.transpose(lhs, [1, 0]), "k, m"
        if self.chance(0.2):
            rhs, b = self.transpose(rhs, [1, 0]), "n, k"
        ins = f"ins({lhs.name}, {rhs.name} : {lhs.type}, {rhs.type}) outs({init.name} : {init.type}) -> {init.type}"
        maps = ", ".join(f"affine_map<(m, n, k) -> ({m})>" for m in (a, b, c))
        plain = (a, b) == ("m, k", "k, n")
        kind = self.rng.choice(("matmul", "matmul", "contract", "generic"))
        if kind == "matmul":
            return self.result(init, f"linalg.matmul {'' if plain else f'indexing_maps = [{maps}] '}{ins}")
        if kind == "contract":
            return self.result(init, f"linalg.contract indexing_maps = [{maps}] {ins}")
        head, _, tail = ins.rpartition(" -> ")
        order = ("%x, %y", "%y, %x")[self.chance(0.3)]
        return self.result(
            init,
            f"linalg.generic {{indexing_maps = [{maps}], "
            f'iterator_types = ["parallel", "parallel", "reduction"]}} {head} '
            f"{{\n  ^bb0(%x: {et}, %y: {et}, %acc: {et}):\n    %p = arith.mulf {order} : {et}\n"
            f"    %s = arith.addf %acc, %p : {et}\n    linalg.yield %s : {et}\n  }} -> {tail}",
        )

    def after(self, y: Tensor) -> Tensor:
        """What follows a contraction."""
        et = y.et
        if self.chance(0.4):
            dim = self.rng.randrange(2)
            if dim not in y.dynamic:
                bias = self.parameter((y.sizes[dim],), et)
                order = ("%x0, %x1", "%x1, %x0")[self.chance(0.3)]
                y = self.elementwise(
                    [(y, "d0, d1"), (bias, f"d{dim}")], self.like(y), [f"%r = arith.addf {order} : {et}"]
                )
        if self.chance(0.2):
            body = [f"%z = arith.constant 0.0 : {et}", f"%r = arith.maximumf %x0, %z : {et}"]
            y = self.elementwise([(y, "d0, d1")], self.like(y), body)
        if self.chance(0.3):
            y = self.moved(y, self.rng.randrange(1, 4))
        return y


def layer(rng: random.Random) -> str:
    """One or two products with a quantized weight, on either side, shared or in a chain."""
    w = Writer(rng)
    sizes = (1, 2, 3, 4, 6, 8)
    n, k, m = rng.choice(sizes), rng.choice((*sizes, 12, 16)), rng.choice((1, 1, 2, 3, 5, 9))
    if rng.random() < 0.03:
        n, k, m = rng.choice(((0, k, m), (n, 0, m), (n, k, 0)))
    et = rng.choice(FLOATS)
    left = rng.random() < 0.3
    dynamic = frozenset({1 if left else 0}) if rng.random() < 0.3 else frozenset()
    weight = w.weight(n, k, et)
    results = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        x = w.argument((k, m) if left else (m, k), et, dynamic)
        if not dynamic and w.chance(0.15):
            x = w.moved(x, 2)
            while len(x.sizes) > 2:
                x = w.merge(x, 0)
            if x.sizes not in ((k, m), (m, k)) or x.sizes != ((k, m) if left else (m, k)):
                x = w.argument((k, m) if left else (m, k), et, dynamic)
        y = w.matmul(weight, x, et) if left else w.matmul(x, w.transpose(weight, [1, 0]), et)
        results.append(w.after(y))
    if w.chance(0.05):
        results.append(weight)
    return function(w, results)


def layouts(rng: random.Random) -> str:
    """A chain of moves around arithmetic on run-time tensors."""
    w = Writer(rng)
    et = rng.choice(("f32", "f32", "i32"))
    rank = rng.choice((2, 3))
    values = [w.argument(tuple(rng.choice((1, 2, 3, 4)) for _ in range(rank)), et)]
    add = "addf" if et[0] == "f" else "addi"

    def same(x: Tensor) -> Tensor:
        found = [v for v in values if v.sizes == x.sizes]
        return rng.choice(found) if found else w.argument(x.sizes, et)

    def cut(x: Tensor) -> Tensor:
        dim = rng.randrange(len(x.sizes))
        offset, stride = rng.randrange(x.sizes[dim]), rng.choice((1, 1, 2))
        return w.part(x, dim, offset, -(-(x.sizes[dim] - offset) // stride), stride)

    def product(x: Tensor) -> Tensor:
        if len(x.sizes) != 2 or et != "f32":
            return w.moved(x, 1)
        return w.matmul(x, w.argument((x.sizes[1], rng.choice((1, 3))), et), et)

    def total(x: Tensor) -> Tensor:
        y = same(x)
        if rng.random() < 0.3:
            return w.result(x, f"arith.{add} {x.name}, {y.name} : {x.type}")
        return w.elementwise([(x, w.identity(x)), (y, w.identity(y))], w.like(x), [f"%r = arith.{add} %x0, %x1 : {et}"])

    steps: dict[Callable[[Tensor], Tensor], int] = {
        lambda x: w.transpose(x): 6,
        lambda x: w.moved(x, 2): 4,
        total: 3,
        product: 2,
        cut: 1,
        lambda x: w.concat(rng.randrange(len(x.sizes)), x, same(x)): 1,
    }
    for _ in range(rng.randrange(4, 14)):
        source = values[-1] if rng.random() < 0.85 else rng.choice(values)
        if not source.sizes:
            continue
        step = rng.choices(list(steps), list(steps.values()))[0]
        found = step(source)
        if prod(found.sizes) <= 2048:
            values.append(found)
    return function(w, [values[-1], rng.choice(values)])


def function(w: Writer, results: list[Tensor]) -> str:
    arguments = ", ".join(f"{a.name}: {a.type}" for a in w.arguments)
    types = ", ".join(r.type for r in results)
    body = "\n".join(f"  {line}" for line in w.lines)
    names = ", ".join(r.name for r in results)
    text = f"func.func @main({arguments}) -> ({types}) {{\n{body}\n  return {names} : {types}\n}}\n"
    if w.resources:
        text += f"{{-#\n  dialect_resources: {{ builtin: {{ {', '.join(w.resources)} }} }}\n#-}}\n"
    return text
