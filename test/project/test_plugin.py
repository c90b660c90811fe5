"""Stock `mlir-opt` with the plugin does exactly what `qtranspose-opt` does, on the inputs of the lit suite."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from installed import MLIR_OPT, OPT, PLUGIN

TRANSFORMS = Path(__file__).parents[1] / "Transforms"
ARGUMENTS = [
    "--split-input-file",
    "--allow-unregistered-dialect",
    "--mlir-print-debuginfo",
    "--remarks-filter=qtranspose.*",
    "--remark-format=emitRemark",
]


def run_lines(test: Path) -> Iterator[str]:
    """Return the RUN lines of a test file with lit's DEFINE and REDEFINE expanded."""
    defined: dict[str, str] = {}
    text = re.sub(r"\\\n//\s*((RUN|DEFINE):)?", "", test.read_text())
    for kind, line in re.findall(r"^// (RUN|DEFINE|REDEFINE): (.*)$", text, flags=re.M):
        if kind != "RUN":
            name, _, value = line.partition(" = ")
            defined[name] = value
            continue
        while found := next((name for name in defined if name in line), None):
            line = line.replace(found, defined[found])
        yield line


def pipelines(test: Path) -> set[str]:
    """Return the pipeline of each RUN line of a test file that runs passes of ours."""
    found = set()
    for line in run_lines(test):
        found |= set(re.findall(r"--pass-pipeline=['\"](.*?)['\"](?=\s)", line))
        flags = re.findall(r"\s--?(qtranspose-[a-z-]+)(?:=(?:\"(.*?)\"|'(.*?)'|(\S+)))?", line)
        passes = [name + "{" + (a or b or c) + "}" if a or b or c else name for name, a, b, c in flags]
        if passes:
            found.add(f"builtin.module({','.join(passes)})")
    return found


CASES = sorted({(test.name, pipeline) for test in TRANSFORMS.glob("*.mlir") for pipeline in pipelines(test)})


def run(tool: list[str | Path], name: str, pipeline: str) -> tuple[int, str, str]:
    command = [*tool, TRANSFORMS / name, f"--pass-pipeline={pipeline}", *ARGUMENTS]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout, result.stderr


@pytest.mark.parametrize(("name", "pipeline"), CASES)
def test_plugin_equals_tool(name: str, pipeline: str) -> None:
    ours = run([OPT], name, pipeline)
    assert "does not refer to a registered pass" not in ours[2], ours[2]
    assert run([MLIR_OPT, f"--load-pass-plugin={PLUGIN}"], name, pipeline) == ours


def test_the_suite_is_covered() -> None:
    assert {test.name for test in TRANSFORMS.glob("*.mlir")} == {name for name, _ in CASES}
