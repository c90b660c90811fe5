"""A producer marked `qtranspose.tile_fused` promises that no buffer of its size exists in the lowered program."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

import pytest
import qtranspose as qt
from forms.catalog import CATALOG, Entry
from forms.llama import Config, Decoder
from mlir import ir
from qtranspose.pipelines import parse_pipeline, top_level_passes

DYNAMIC = 7


def static_sizes(type: ir.Type) -> int:
    shaped = ir.RankedTensorType(type)
    return prod(DYNAMIC if shaped.is_dynamic_dim(dim) else shaped.get_dim_size(dim) for dim in range(shaped.rank))


def marked(module: ir.Module, mark: str) -> dict[str, int]:
    """Elements of the smallest producer with this mark, per element type."""
    found: dict[str, int] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if mark in op.attributes:
            element = str(ir.RankedTensorType(op.results[0].type).element_type)
            found[element] = min(found.get(element, 1 << 60), static_sizes(op.results[0].type))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def largest_buffers(module: ir.Module) -> dict[str, int]:
    """Elements of the largest buffer that the program allocates, per element type."""
    largest: dict[str, int] = {}
    for shape, element in re.findall(r"memref\.alloc[a]?\(.*?\).*: memref<((?:[\d?]+x)*)(\w+)>", str(module)):
        count = prod(DYNAMIC if size == "?" else int(size) for size in shape.split("x") if size)
        largest[element] = max(largest.get(element, 0), count)
    return largest


def lowered_to_buffers(module: ir.Module) -> ir.Module:
    """Run `qtranspose-to-cpu` up to where buffers become pointers."""
    passes = top_level_passes(parse_pipeline("qtranspose-to-cpu", module.context))
    end = next(i for i, text in enumerate(passes) if text.startswith("finalize-memref-to-llvm"))
    return qt.optimize(module, ",".join(passes[:end]))


def sizes(text: str, decision: str, mark: str) -> tuple[dict[str, int], dict[str, int]]:
    """Elements of the marked producers, and of the largest buffers of the lowered program."""
    with ir.Context():
        module = qt.optimize(ir.Module.parse(text), f"qtranspose-fuse-dequant-into-matmul{{decision={decision}}}")
        producers = marked(module, mark)
        return producers, largest_buffers(lowered_to_buffers(module))


def check(text: str) -> None:
    producers, buffers = sizes(text, "tile", "qtranspose.tile_fused")
    assert producers
    for element, size in producers.items():
        assert buffers.get(element, 0) < size, (element, size, buffers)


# Large enough for several tiles, and more than the activations have.
LARGE = {entry.family: entry for entry in CATALOG if entry.p.n == 48 and entry.p.k == 64 and not entry.p.batch}


def enlarged(entry: Entry) -> Entry:
    return replace(entry, p=replace(entry.p, n=entry.p.n * 8, k=entry.p.k * 8))


@pytest.mark.parametrize("family", ["torch_w8_sym_axis", "torch_w4_stack", "gptq_w4", "awq_w4", "mlc_q4f16_kn", "nf4"])
def test_no_buffer_of_the_dequantized_weight(family: str) -> None:
    check(enlarged(LARGE[family]).build().mlir)


def test_no_buffer_of_a_weight_of_a_decoder() -> None:
    config = Config(hidden=256, heads=4, kv_heads=2, intermediate=512, group=128, rows=3)
    check(Decoder(config, 1).text)


def test_a_materialized_weight_has_a_buffer() -> None:
    """The comparison above can fail."""
    text = enlarged(LARGE["torch_w8_sym_axis"]).build().mlir
    producers, buffers = sizes(text, "materialize", "qtranspose.materialized")
    assert producers == {"f32": 48 * 64 * 64}
    assert buffers["f32"] >= producers["f32"]
