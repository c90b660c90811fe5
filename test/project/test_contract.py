"""Every pass has its tests, and every refusal reason has one: the file names and the reasons are a contract."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TRANSFORMS = ROOT / "test" / "Transforms"


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


generate = load_generator()
PASSES = re.findall(r'Pass<"(?:qtranspose-)([a-z0-9-]+)"', generate.PASSES.read_text())
REASONS = [name for name, _ in generate.reasons()]


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("suffix", [".mlir", "_negative.mlir"])
def test_pass_has_a_test_file(name: str, suffix: str) -> None:
    text = (TRANSFORMS / f"{name}{suffix}").read_text()
    assert f"qtranspose-{name}" in text


@pytest.mark.parametrize("reason", REASONS)
def test_reason_has_a_negative_test(reason: str) -> None:
    tests = [*TRANSFORMS.glob("*_negative.mlir"), *(ROOT / "test" / "python").glob("*_negative.py")]
    assert any(re.search(rf"(?<![\w-]){reason}(?![\w-])", test.read_text()) for test in tests)


def test_documents_are_current(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 0, capsys.readouterr().err
