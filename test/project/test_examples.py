"""The examples are programs that work."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str) -> str:
    command = [sys.executable, EXAMPLES / name]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_demo() -> None:
    output = run("demo.py")
    transposes = [line.split()[1:] for line in output.splitlines() if line.strip().startswith("transposes")]
    assert transposes == [["1", "0"], ["1", "0"]]
    assert output.count("fused: per element") == 2
    assert output.strip().endswith("largest result: yes")


def test_python_pattern() -> None:
    assert run("python_pattern.py")
