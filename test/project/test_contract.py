"""Every capability has its parts: pass, header or source, lit tests, pattern set, reason with a negative test."""

import importlib.util
import re
from pathlib import Path

import pytest
import qtranspose as qt

ROOT = Path(__file__).parents[2]
CORE = ROOT / "mlir_passes"
TRANSFORMS = ROOT / "test" / "Transforms"
PASSES_TD = (CORE / "include" / "qtranspose" / "Passes.td").read_text()
PASSES = {
    name: text for name, text in re.findall(r'Pass<"(qtranspose-[a-z-]+)".*?>\s*\{(.*?)\n\}', PASSES_TD, flags=re.S)
}
REASONS = re.findall(
    r'^QTRANSPOSE_REASON\(\s*\w+,\s*"([^"]+)"',
    (CORE / "include" / "qtranspose" / "Utils" / "Reasons.def").read_text(),
    flags=re.M,
)


def stem(name: str) -> str:
    return name.removeprefix("qtranspose-")


def test_the_definitions_were_read() -> None:
    assert len(PASSES) == PASSES_TD.count("\n    : Pass<") + len(re.findall(r"^def \w+ : Pass<", PASSES_TD, flags=re.M))
    assert len(PASSES) >= 10 and len(REASONS) >= 30
    assert len(set(REASONS)) == len(REASONS)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_has_tests_of_its_name(name: str) -> None:
    assert (TRANSFORMS / f"{stem(name)}.mlir").is_file()
    assert (TRANSFORMS / f"{stem(name)}_negative.mlir").is_file()


def source_stem(name: str) -> str:
    return "".join(word.capitalize() for word in stem(name).split("-"))


SOURCES = {path.stem: path.read_text() for path in (CORE / "lib" / "Transforms").glob("*.cpp")}


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_has_a_source_of_its_name(name: str) -> None:
    assert source_stem(name) in SOURCES


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_a_source_is_a_pass_or_serves_one_through_a_header(source: str) -> None:
    """The first header a source includes is the one it implements."""
    passes = {source_stem(name) for name in PASSES}
    if source in passes:
        return
    header = re.findall(r'^#include "(qtranspose/.*)"', SOURCES[source], flags=re.M)[0]
    assert header.startswith("qtranspose/Transforms/")
    assert (CORE / "include" / header).is_file()
    users = [path for path in CORE.rglob("*.*") if f'#include "{header}"' in path.read_text()]
    assert len(users) >= 2


PIPELINES = re.sub("//.*", "", (CORE / "lib" / "Pipelines.cpp").read_text())
NUMERIC = "".join(path.read_text() for path in (ROOT / "test" / "numeric").glob("*.py"))


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_executed(name: str) -> None:
    """By its name, or within a pipeline that numeric tests run."""
    assert re.search(rf"{name}(?![\w-])", NUMERIC + PIPELINES)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_a_pattern_set_or_says_why_not(name: str) -> None:
    has_patterns = stem(name).replace("-", "_") in qt.patterns.names()
    says_why_not = "Not a pattern set:" in PASSES[name]
    assert has_patterns != says_why_not


# Why a part of a rewrite was left out, while the rest was applied.
PARTIAL = {"residual-in-old-layout"}


# PITFALL 31
@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_has_a_negative_test(reason: str) -> None:
    """A negative test checks that the printed module stays the same and that the remark has the name."""
    check = re.compile(rf"^// \w+(?:-[\w-]+)?: .*\[Missed\] {re.escape(reason)}(?![\w-])", flags=re.M)
    files = [path for path in TRANSFORMS.glob("*.mlir") if check.search(path.read_text())]
    assert files
    unchanged = re.compile(r"^// (RUN|DEFINE): .*diff %t", flags=re.M)
    negative = [path for path in files if path.stem.endswith("_negative") and unchanged.search(path.read_text())]
    assert bool(negative) != (reason in PARTIAL)


def test_every_pitfall_has_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    tests = generate.marked_tests()
    assert len(tests) >= 33
    assert [number for number, covered in tests.items() if not covered] == []
