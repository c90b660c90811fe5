"""Random integer and float arithmetic on stored words: whatever `qt.trace` describes completely, it describes rightly.

Most random bodies are no affine function of some bits; what matters is that the others are not taken for one.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import qtranspose as qt
from mlir import ir
from test_trace_description import Interpreter, execute, is_complete, leaves

FULL = os.environ.get("QTRANSPOSE_FULL") == "1"
BODIES = 40

# `{x}` is the number so far, `{c}` a constant, `{z}` an i8 zero point extended to its type, `{i}` 0 or 4 or 2 in turn.
INTEGER = [
    "arith.andi {x}, {c}",
    "arith.ori {x}, {c}",
    "arith.xori {x}, {c}",
    "arith.shli {x}, {s}",
    "arith.shrui {x}, {s}",
    "arith.shrsi {x}, {s}",
    "arith.shrui {x}, {i}",
    "arith.shrsi {x}, {i}",
    "arith.shli {x}, {i}",
    "arith.addi {x}, {c}",
    "arith.subi {x}, {c}",
    "arith.subi {c}, {x}",
    "arith.muli {x}, {c}",
    "arith.divui {x}, {p}",
    "arith.floordivsi {x}, {p}",
    "arith.remui {x}, {p}",
    "arith.subi {x}, {z}",
    "arith.addi {z}, {x}",
]
FLOAT = [
    "arith.addf {x}, {f}",
    "arith.subf {x}, {f}",
    "arith.subf {f}, {x}",
    "arith.mulf {x}, {f}",
    "arith.divf {x}, {f}",
    "arith.mulf %scale, {x}",
    "arith.negf {x}",
]


class Body:
    """A random chain of operations from an integer word to an f32."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.word = self.width = int(rng.choice([8, 16, 32]))
        self.x = "%word"
        for _ in range(rng.integers(6)):
            self.resize() if rng.random() < 0.3 else self.compute()
        self.x = self.emit(f"arith.{rng.choice(['sitofp', 'uitofp'])} {self.x} : i{self.width} to f32")
        for template in rng.choice(FLOAT, rng.integers(4)):
            f = self.constant(rng.choice([0.5, -2.0, 8.0, 128.0]), "f32")
            self.x = self.emit(template.format(x=self.x, f=f) + " : f32")

    def emit(self, text: str) -> str:
        self.lines.append(f"%v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def constant(self, value: float, type_: str) -> str:
        return self.emit(f"arith.constant {value} : {type_}")

    def resize(self) -> None:
        widths = [w for w in (4, 8, 16, 32, 64) if w != self.width]
        to = int(self.rng.choice(widths))
        op = "trunci" if to < self.width else self.rng.choice(["extsi", "extui"])
        self.x = self.emit(f"arith.{op} {self.x} : i{self.width} to i{to}")
        self.width = to

    def compute(self) -> None:
        type_, half = f"i{self.width}", 1 << (self.width - 1)
        value = int(self.rng.choice([1, 3, 7, 8, 15, 16, 100, 128, 240, 255, half, 2 * half - 1, -8, -128]))
        names = {"x": self.x, "c": self.constant((value + half) % (2 * half) - half, type_)}
        names["s"] = self.constant(int(self.rng.choice([1, 2, self.width // 2, self.width - 1])), type_)
        names["p"] = self.constant(2 if self.width == 4 else int(self.rng.choice([2, 16])), type_)
        index, two = self.emit("linalg.index 1 : index"), self.constant(2, "index")
        odd = self.emit(f"arith.remui {index}, {two} : index")
        step = self.constant(2 if self.width == 4 else int(self.rng.choice([2, 4])), type_)
        names["i"] = self.emit(
            f"arith.muli {self.emit(f'arith.index_cast {odd} : index to {type_}')}, {step} : {type_}"
        )
        zero = {4: "trunci", 8: ""}.get(self.width, self.rng.choice(["extsi", "extui"]))
        names["z"] = self.emit(f"arith.{zero} %zero : i8 to {type_}") if zero else "%zero"
        self.x = self.emit(self.rng.choice(INTEGER).format(**names) + f" : {type_}")


@pytest.mark.parametrize("seed", range(40 if FULL else 4))
def test_random_bodies(seed: int) -> None:
    rng = np.random.default_rng([17, seed])
    described = 0
    for _ in range(BODIES):
        body = Body(rng)
        columns, at = (4, "d1 floordiv 2") if rng.random() < 0.5 else (8, "d1")
        shape = f"4x{columns}xi{body.word}"
        maps = [f"affine_map<(d0, d1) -> ({m})>" for m in (f"d0, {at}", "d0", "d0, d1 floordiv 2", "d0, d1")]
        newline = "\n"
        text = f"""
        func.func @f(%q: tensor<{shape}>, %s: tensor<4xf32>, %z: tensor<4x4xi8>) -> tensor<4x8xf32> {{
          %e = tensor.empty() : tensor<4x8xf32>
          %w = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = ["parallel", "parallel"]}}
              ins(%q, %s, %z : tensor<{shape}>, tensor<4xf32>, tensor<4x4xi8>) outs(%e : tensor<4x8xf32>) {{
          ^bb0(%word: i{body.word}, %scale: f32, %zero: i8, %out: f32):
            {newline.join(body.lines)}
            linalg.yield {body.x} : f32
          }} -> tensor<4x8xf32>
          return %w : tensor<4x8xf32>
        }}"""
        with ir.Context():
            module = ir.Module.parse(text)
            function = module.body.operations[0]
            trace = qt.trace(function.regions[0].blocks[0].operations[1].results[0])
            if trace.description is None or not is_complete(trace.description):
                continue
            described += 1
            needed = list(dict.fromkeys(leaf.value for leaf in leaves(trace.description) if leaf.value is not None))
            half = 1 << (body.word - 1)
            inputs = (
                rng.integers(-half, half, (4, columns)).astype(f"int{body.word}"),
                rng.uniform(0.5, 2, 4).astype(np.float32),
                rng.integers(-128, 128, (4, 4)).astype(np.int8),
            )
            computed, *arrays = execute(module, function, [trace.value, *needed], inputs)
            number = Interpreter((4, 8), dict(zip(needed, arrays, strict=True))).number(trace.description)
            np.testing.assert_allclose(np.broadcast_to(number, (4, 8)), computed, rtol=1e-6, err_msg=f"{trace}\n{text}")
    assert described > BODIES // 10
