"""`qt.report`, `qtranspose report` and the traffic that they count."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import qtranspose as qt
from forms.catalog import CATALOG
from forms.llama import Config, Decoder
from mlir import ir
from qtranspose.traffic import contractions, total, weight_paths

ROOT = Path(__file__).parents[2]
INPUTS = ROOT / "test" / "Inputs"
SHARED = ROOT.parent / "shared"

LINEAR = """
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @linear(%x: tensor<ROWSx64xf32>, %q: tensor<48x64xi8>, %acc: tensor<ROWSx48xf32>) -> tensor<ROWSx48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x64xi8>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<ROWSx64xf32>, tensor<64x48xf32>)
      outs(%acc : tensor<ROWSx48xf32>) -> tensor<ROWSx48xf32>
  return %y : tensor<ROWSx48xf32>
}
"""
# A weight that the program computes: the dequantized one plus a product.
MERGED = (
    LINEAR.replace("ROWS", "4")
    .replace(
        "  %f = tensor.empty()",
        """  %a = arith.constant dense<0.5> : tensor<48x2xf32>
  %b = arith.constant dense<0.25> : tensor<2x64xf32>
  %z = arith.constant dense<0.0> : tensor<48x64xf32>
  %p = linalg.matmul ins(%a, %b : tensor<48x2xf32>, tensor<2x64xf32>) outs(%z : tensor<48x64xf32>) -> tensor<48x64xf32>
  %m = arith.addf %w, %p : tensor<48x64xf32>
  %f = tensor.empty()""",
    )
    .replace("ins(%w : tensor<48x64xf32>) outs(%f", "ins(%m : tensor<48x64xf32>) outs(%f")
)


def cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "qtranspose.cli", "report", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("rows", "decision"), [(1, "per element"), (200, "per tile")])
def test_one_weight(rows: int, decision: str) -> None:
    with ir.Context():
        module = ir.Module.parse(LINEAR.replace("ROWS", str(rows)))
        text = str(module)
        report = qt.report(module)
        assert str(module) == text
    (entry,) = report.contractions
    assert (entry.function, entry.operation, entry.decision) == ("linear", "linalg.matmul", decision)
    assert entry.location.startswith("-:")
    assert entry.forms == ((1, "int8 (si8) [64x48]"),)
    assert not entry.refusals
    # The dequantized weight and its transpose are written and read: four times 48 x 64 x 4 bytes.
    assert (entry.before.leaf_bytes, entry.before.moved_bytes, entry.before.transposes) == (3072, 4 * 12288, 1)
    assert entry.after == entry.before.__class__(1, 3072, 0, 0)
    assert (report.before, report.after) == (entry.before, entry.after)


def test_a_refusal_is_reported_with_its_reason() -> None:
    with ir.Context():
        report = qt.report(ir.Module.parse(MERGED))
    entry = report.contractions[-1]
    assert entry.decision == "kept"
    assert [(r.pass_name, r.reason) for r in entry.refusals] == [
        ("qtranspose-fuse-dequant-into-matmul", "computed-at-run-time")
    ]
    assert "refused: computed-at-run-time (qtranspose-fuse-dequant-into-matmul): " in str(report)
    assert json.loads(report.to_json())["contractions"][-1]["refusals"][0]["reason"] == "computed-at-run-time"


def test_a_decoder_is_told_apart_by_projection() -> None:
    with ir.Context():
        report = qt.report(ir.Module.parse(Decoder(Config(), 2).text))
    assert len(report.contractions) == 14
    assert {entry.decision for entry in report.contractions} == {"per element"}
    for entry in report.contractions:
        assert entry.after is not None
        assert entry.after.bytes <= entry.before.leaf_bytes
        assert (entry.before.transposes, entry.after.transposes) == (1, 0)
        assert entry.forms[0][1].startswith("int4 (ui4 in i8, 2 per byte")


def test_pieces_of_a_contraction_are_summed() -> None:
    (form,) = [entry for entry in CATALOG if entry.name == "concat_n_w8_w4_48x64_m4"]
    with ir.Context():
        report = qt.report(ir.Module.parse(form.build().mlir))
    (entry,) = report.contractions
    assert entry.after == report.after
    assert report.after.weights > report.before.weights == 1
    assert report.after.moved_bytes == 0


def test_without_a_pipeline_nothing_changes() -> None:
    with ir.Context():
        report = qt.report(ir.Module.parse(LINEAR.replace("ROWS", "2")), "none")
    assert report.contractions[0].after == report.contractions[0].before
    assert report.contractions[0].decision == "kept"


def test_json_has_the_documented_keys() -> None:
    result = cli(INPUTS / "torch_w4_stack_48x64_m1.mlir", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    traffic = {"weights", "leaf_bytes", "moved_bytes", "bytes", "ratio", "transposes"}
    assert document["schema"] == 1
    assert set(document) == {"schema", "pipeline", "before", "after", "contractions", "remarks"}
    (entry,) = document["contractions"]
    assert set(entry) == {
        *("function", "location", "operation", "weights", "decision", "refusals", "before", "after"),
    }
    assert set(entry["weights"][0]) == {"operand", "form"}
    for summary in (document["before"], document["after"], entry["before"], entry["after"]):
        assert set(summary) == traffic
    assert all(set(r) == {"kind", "name", "pass", "function", "location", "text"} for r in document["remarks"])
    assert document["after"]["ratio"] == 1
    docs = (ROOT / "docs" / "report.md").read_text()
    assert all(f'"{key}"' in docs for key in (*document, *entry, *traffic, "operand", "form", "reason", "detail"))


def test_html_is_escaped_and_complete(tmp_path: Path) -> None:
    source = tmp_path / "<a & b>.mlir"
    source.write_text(LINEAR.replace("ROWS", "1"))
    result = cli(source, "--html", tmp_path / "out.html")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    page = (tmp_path / "out.html").read_text()
    assert "&lt;a &amp; b&gt;.mlir:" in page and "<a & b>" not in page
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n")
    assert "http" not in page


@pytest.mark.parametrize(
    "arguments",
    [
        ["missing.mlir"],
        ["--pipeline", "no-such-pass"],
        ["--html", "no/such/folder/out.html"],
        ["--json", "--html", "x"],
    ],
    ids=["file", "pipeline", "output", "both"],
)
def test_bad_requests_are_one_line(arguments: list[str]) -> None:
    file = [] if arguments[0].endswith(".mlir") else [INPUTS / "torch_w4_stack_48x64_m1.mlir"]
    result = cli(*file, *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("qtranspose: error: ")


def reference_measure(text: str) -> dict[str, float]:
    spec = importlib.util.spec_from_file_location("weight_traffic", SHARED / "tools" / "weight_traffic.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.file_stats(text, text=True)


@pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared beside the checkout")
@pytest.mark.parametrize("pipeline", ["none", "default"])
def test_traffic_is_the_reference_measure(pipeline: str) -> None:
    files = sorted([*INPUTS.glob("*.mlir"), *(SHARED / "inputs").rglob("*.mlir")])
    different = {}
    for file in files:
        with ir.Context() as context:
            context.allow_unregistered_dialects = True
            module = qt.optimize(ir.Module.parseFile(str(file)), pipeline)
            ours, text = total(weight_paths(module)), str(module)
        if "!quant.uniform<u8" in text:  # the reference cannot read unsigned quantized types
            continue
        theirs = reference_measure(text)
        if (ours.weights, ours.leaf_bytes, ours.moved_bytes, ours.transposes) != tuple(
            theirs[key] for key in ("weights", "leaf", "moved", "tr")
        ):
            different[file.name] = (ours, theirs)
    assert not different
    assert len(files) > 90


def test_quantized_matmul_is_a_contraction() -> None:
    text = """
    func.func @f(%a: tensor<8x64xi8>, %b: tensor<64x48xi8>, %z: i32, %c: tensor<8x48xi32>) -> tensor<8x48xi32> {
      %r = linalg.quantized_matmul ins(%a, %b, %z, %z : tensor<8x64xi8>, tensor<64x48xi8>, i32, i32)
        outs(%c : tensor<8x48xi32>) -> tensor<8x48xi32>
      return %r : tensor<8x48xi32>
    }"""
    with ir.Context():
        (op,) = contractions(ir.Module.parse(text))
        assert op.name == "linalg.quantized_matmul"
