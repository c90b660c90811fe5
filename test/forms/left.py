"""Contractions with a static left operand as text, with NumPy references; dims are letters, as in einsum."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import qtranspose as qt
from mlir import ir
from mlir.passmanager import PassManager
from qtranspose import execution

from .builders import NUMPY, dense, is_float

EXTENSION = {"f": "arith.extf", "i": "arith.extsi", "u": "arith.extui"}


def tensor(shape: Sequence[int | None], et: str) -> str:
    return "tensor<" + "".join(f"{'?' if n is None else n}x" for n in shape) + f"{et}>"


def affine_map(loops: str, dims: str) -> str:
    return f"affine_map<({', '.join(loops)}) -> ({', '.join(dims)})>"


def labels(shape: Sequence[int], et: str, seed: int = 0) -> np.ndarray:
    """Integers of which no row, column or batch equals another, in the range of `et`."""
    rng = np.random.default_rng([seed, *shape])
    low, high = (-8, 8) if et in ("i4", "f16", "bf16") else (-100, 100)
    return rng.integers(low, high, tuple(shape)).astype(NUMPY[et])


def identity_generic(result: str, inputs: Sequence[tuple[str, str, str]], shape: str, dims: str, body: str) -> str:
    """An elementwise generic; `inputs` are (name, type, dims), `body` computes %v from %x0, %x1, ..."""
    maps = ", ".join([*(affine_map(dims, d) for _, _, d in inputs), affine_map(dims, dims)])
    parallel = ", ".join(['"parallel"'] * len(dims))
    operands = ", ".join(name for name, _, _ in inputs)
    types = ", ".join(kind for _, kind, _ in inputs)
    elements = [kind.rstrip(">").split("x")[-1].removeprefix("tensor<") for _, kind, _ in inputs]
    out = shape.rstrip(">").split("x")[-1]
    arguments = ", ".join(f"%x{i}: {et}" for i, et in enumerate(elements))
    return (
        f"%{result} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{parallel}]}}\n"
        f"  ins({operands} : {types}) outs(%{result}_e : {shape}) {{\n"
        f"^bb0({arguments}, %out: {out}):\n{body}\n  linalg.yield %v : {out}\n}} -> {shape}"
    )


@dataclass
class Program:
    """One function, built line by line, with the arguments it is called with."""

    sizes: dict[str, int]
    dynamic: str = ""
    lines: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    inputs: list[np.ndarray] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)
    result: tuple[str, str] = ("", "")
    serial: itertools.count[int] = field(default_factory=itertools.count)

    def fresh(self, stem: str) -> str:
        return f"{stem}{next(self.serial)}"

    def shape(self, dims: str) -> list[int]:
        return [self.sizes[d] for d in dims]

    def type(self, dims: str, et: str) -> str:
        return tensor([None if d in self.dynamic else self.sizes[d] for d in dims], et)

    def argument(self, array: np.ndarray, dims: str, et: str, mark: str = "") -> str:
        name = self.fresh("%a")
        self.arguments.append(f"{name}: {self.type(dims, et)}{mark}")
        self.inputs.append(array)
        return name

    def constant(self, array: np.ndarray, et: str, resource: bool = False) -> str:
        name = self.fresh("%c")
        value = dense(array, et)
        if not array.size:
            value = "dense<>"
        elif resource:
            key = self.fresh("weight")
            width = array.dtype.itemsize
            self.resources.append(f'{key}: "0x{width.to_bytes(4, "little").hex()}{array.tobytes().hex()}"')
            value = f"dense_resource<{key}>"
        self.lines.append(f"{name} = arith.constant {value} : {tensor(array.shape, et)}")
        return name

    def empty(self, name: str, dims: str, et: str, like: str = "", like_dims: str = "", like_et: str = "") -> None:
        """`tensor.empty`, its dynamic sizes read off `like`."""
        sizes = []
        for d in dims:
            if d in self.dynamic:
                index, size = self.fresh("%i"), self.fresh("%d")
                self.lines.append(f"{index} = arith.constant {like_dims.index(d)} : index")
                self.lines.append(f"{size} = tensor.dim {like}, {index} : {self.type(like_dims, like_et)}")
                sizes.append(size)
        self.lines.append(f"%{name} = tensor.empty({', '.join(sizes)}) : {self.type(dims, et)}")

    def contract(
        self,
        spec: str,
        weight: tuple[str, str],
        activation: tuple[str, str],
        init: tuple[str, str],
        signs: str = "ii",
        op: str = "generic",
        loops: str = "",
    ) -> str:
        """`weight` and `activation` are (name, element type); `signs` says how integers are widened."""
        operands, out = spec.split("->")
        w, a = operands.split(",")
        loops = loops or "".join(dict.fromkeys(out + w + a))
        kinds = ", ".join('"parallel"' if d in out else '"reduction"' for d in loops)
        maps = ", ".join(affine_map(loops, d) for d in (w, a, out))
        types = f"{self.type(w, weight[1])}, {self.type(a, activation[1])}"
        result, acc = self.type(out, init[1]), init[1]
        name = self.fresh("%y")
        ins = f"ins({weight[0]}, {activation[0]} : {types}) outs({init[0]} : {result})"
        if op != "generic":
            self.lines.append(f"{name} = linalg.{op} {ins} -> {result}")
            return name
        body, factors = [], []
        for i, (et, sign) in enumerate(zip((weight[1], activation[1]), signs, strict=True)):
            factors.append(f"%x{i}")
            if et != acc:
                factors[i] = f"%w{i}"
                extension = EXTENSION["f" if is_float(et) else sign]
                body.append(f"%w{i} = {extension} %x{i} : {et} to {acc}")
        kind = "f" if is_float(acc) else "i"
        body.append(f"%p = arith.mul{kind} {factors[0]}, {factors[1]} : {acc}")
        body.append(f"%s = arith.add{kind} %acc, %p : {acc}")
        text = "\n".join(body)
        self.lines.append(
            f"{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} {ins} {{\n"
            f"^bb0(%x0: {weight[1]}, %x1: {activation[1]}, %acc: {acc}):\n{text}\n"
            f"linalg.yield %s : {acc}\n}} -> {result}"
        )
        return name

    def elementwise(self, dims: str, et: str, inputs: Sequence[tuple[str, str, str]], body: str) -> str:
        """A generic over `dims`; `inputs` are (name, dims, element type) of tensors whose sizes are static."""
        name = self.fresh("e")
        first = inputs[0]
        self.empty(f"{name}_e", dims, et, first[0], first[1], first[2])
        typed = [(n, self.type(d, t), d) for n, d, t in inputs]
        self.lines.append(identity_generic(name, typed, self.type(dims, et), dims, body))
        return f"%{name}"

    def text(self) -> str:
        body = "\n".join(self.lines)
        blobs = f"\n{{-#\ndialect_resources: {{builtin: {{{', '.join(self.resources)}}}}}\n#-}}"
        name, kind = self.result
        return f"func.func @f({', '.join(self.arguments)}) -> {kind} {{\n{body}\nreturn {name} : {kind}\n}}" + (
            blobs if self.resources else ""
        )


def rewrite(text: str, options: str = "", passes: str = "") -> tuple[str, list[qt.Remark]]:
    """The text after the pass, which must find nothing more to do in it, and its remarks."""
    with ir.Context() as context:
        module = ir.Module.parse(text)
        pipeline = passes or f"qtranspose-static-lhs-to-rhs{{{options}}}"
        with qt.remarks(context) as remarks:
            PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
        module.operation.verify()
        after = str(module)
        if not passes:
            PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
            assert str(module) == after
        return after, list(remarks)


def run(text: str, inputs: Sequence[np.ndarray]) -> np.ndarray:
    with ir.Context():
        results = execution.compile(ir.Module.parse(text))(*inputs)
    assert not isinstance(results, tuple)
    return np.asarray(results)


def moved(remarks: Sequence[qt.Remark]) -> int:
    """How many weights were moved."""
    return sum(remark.name == "static-lhs-to-rhs" for remark in remarks)
