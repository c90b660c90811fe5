"""The `qtranspose` command.

Exit status: 0 done, 1 a check failed, 2 bad usage or bad input (one line on stderr).

MLIR is loaded only in a forked child (see `qtranspose._isolated`), hence the imports inside functions.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from qtranspose._isolated import BAD_INPUT, print_error, run_isolated
from qtranspose.errors import QTransposeError
from qtranspose.files import OutputFile

if TYPE_CHECKING:
    from qtranspose.elements import Array
    from qtranspose.functions import Signature

CHECK_FAILED = 1
TARGETS = ("cpu", "gpu-emulated", "cuda", "opencl")


class _Parser(argparse.ArgumentParser):
    """Reports bad usage like bad input: one line, status 2."""

    def error(self, message: str) -> NoReturn:
        print_error(f"{message} (try '{self.prog} --help')")
        sys.exit(BAD_INPUT)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive whole number")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="qtranspose", description="Transform, run and check MLIR modules with quantized weights.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    def command(name: str, help: str, pipeline: str = "default") -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        sub.add_argument("file", metavar="FILE", help="linalg-on-tensors module, MLIR text or bytecode")
        sub.add_argument(
            "--pipeline",
            default=pipeline,
            help="'default', 'none', a pass list or 'builtin.module(...)' (default: %(default)s)",
        )
        return sub

    run = command("run", "execute a function and print or save its results")
    run.add_argument("--function", metavar="F", help="function to call (default: the first public one)")
    run.add_argument("--inputs", metavar="IN.npz", help="arguments in0, in1, ... (default: seeded random, '?' is 3)")
    run.add_argument("--outputs", metavar="OUT.npz", help="save results as out0, out1, ... (default: print a summary)")
    run.add_argument("--target", default="cpu", choices=TARGETS, help="where to execute (default: %(default)s)")
    run.add_argument("--threads", type=_positive, metavar="N", help="worker threads (default: the target's choice)")

    opt = command("opt", "run a pass pipeline and print the module")
    opt.add_argument("-o", dest="output", metavar="OUT.mlir", help="write to a file (default: stdout)")

    compile = command("compile", "write an object file and a C header of a function")
    compile.add_argument("--aot", metavar="DIR", required=True, help="where to write NAME.o and NAME.h")
    compile.add_argument("--function", metavar="F", help="function to compile (default: the first public one)")
    compile.add_argument("--target", default="cpu", choices=["cpu"], help="what to compile for (default: %(default)s)")
    compile.add_argument("--triple", metavar="T", help="machine, like aarch64-linux-gnu (default: this one)")
    compile.add_argument("--cpu", metavar="C", help="processor (default: this one; with --triple: any)")

    verify = command("verify", "execute a program before and after a pipeline and compare")
    verify.add_argument("after", metavar="AFTER.mlir", nargs="?", help="the transformed program, instead of a pipeline")
    verify.add_argument("--function", metavar="F", help="function to call (default: every public one)")
    verify.add_argument("--trials", type=_positive, default=4, metavar="N", help="inputs to try (default: %(default)s)")
    verify.add_argument("--seed", type=int, default=0, metavar="S", help="of the random inputs (default: %(default)s)")

    report = command("report", "say what a pipeline makes of each weight")
    form = report.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON (see docs/report.md) rather than text")
    form.add_argument("--html", dest="output", metavar="OUT.html", help="write one HTML page rather than text")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open until the end)
    if sys.stdout is None:
        print_error("standard output is closed")
        return BAD_INPUT
    options = _parser().parse_args(arguments)
    output = None
    try:
        path = getattr(options, "outputs", None) or getattr(options, "output", None)
        output = OutputFile(path) if path else None
        return run_isolated(lambda: _COMMANDS[options.command](options, output))
    except QTransposeError as error:
        print_error(str(error))
        return BAD_INPUT
    finally:
        if output:
            output.discard()


def _run(options: argparse.Namespace, output: OutputFile | None) -> int:
    import qtranspose as qt
    from qtranspose._mlir import ir
    from qtranspose.functions import find_function, signature
    from qtranspose.modules import read_module
    from qtranspose.npz import load_inputs, save_outputs
    from qtranspose.pipelines import parse_pipeline
    from qtranspose.sampling import random_inputs

    context = ir.Context()
    with context:
        parse_pipeline(options.pipeline, context)
        module = read_module(options.file, context)
        with _about(options.file):
            types = signature(find_function(module, options.function))
        inputs = load_inputs(options.inputs, types) if options.inputs else random_inputs(types)
        with _about(options.file):
            qt.optimize(module, options.pipeline)
            executable = qt.compile(module, target=options.target, threads=options.threads, function=types.name)
            returned = executable(*inputs)
    results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    if output:
        output.write(lambda file: save_outputs(file, results, types))
    else:
        _print(f"{_summary(results, types)}\n")
    return 0


def _opt(options: argparse.Namespace, output: OutputFile | None) -> int:
    import qtranspose as qt
    from qtranspose._mlir import ir
    from qtranspose.modules import read_module
    from qtranspose.pipelines import parse_pipeline

    context = ir.Context()
    with context:
        parse_pipeline(options.pipeline, context)
        module = read_module(options.file, context)
        with _about(options.file):
            qt.optimize(module, options.pipeline)
        text = f"{module}\n"
    if output:
        output.write(lambda file: file.write(text.encode()))
    else:
        _print(text)
    return 0


def _compile(options: argparse.Namespace, output: OutputFile | None) -> int:
    import qtranspose as qt
    from qtranspose._mlir import ir
    from qtranspose.modules import read_module
    from qtranspose.pipelines import parse_pipeline

    context = ir.Context()
    with context:
        parse_pipeline(options.pipeline, context)
        module = read_module(options.file, context)
        with _about(options.file):
            qt.optimize(module, options.pipeline)
            paths = qt.export_object(module, options.aot, options.function, triple=options.triple, cpu=options.cpu)
    _print("".join(f"{path}\n" for path in paths))
    return 0


def _verify(options: argparse.Namespace, output: OutputFile | None) -> int:
    import qtranspose as qt
    from qtranspose._mlir import ir
    from qtranspose.modules import read_module
    from qtranspose.pipelines import parse_pipeline

    context = ir.Context()
    with context:
        parse_pipeline(options.pipeline, context)
        module = read_module(options.file, context)
        after = read_module(options.after, context) if options.after else None
        with _about(options.file):
            outcome = qt.verify(
                module,
                after,
                pipeline=options.pipeline,
                function=options.function,
                trials=options.trials,
                seed=options.seed,
            )
    _print(f"{outcome}\n")
    return 0 if outcome.ok else CHECK_FAILED


def _report(options: argparse.Namespace, output: OutputFile | None) -> int:
    import qtranspose as qt
    from qtranspose._mlir import ir
    from qtranspose.modules import read_module
    from qtranspose.pipelines import parse_pipeline

    context = ir.Context()
    with context:
        parse_pipeline(options.pipeline, context)
        module = read_module(options.file, context)
        with _about(options.file):
            report = qt.report(module, options.pipeline)
        if output:
            page = report.to_html().encode()
            output.write(lambda file: file.write(page))
        else:
            _print(report.to_json() if options.json else f"{report}\n")
    return 0


def _print(text: str) -> None:
    """Write to stdout at once.

    Raises:
        QTransposeError: if that is refused; a reader that has gone away is no error.
    """
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise QTransposeError(f"cannot write to standard output: {error.strerror or error}") from error


@contextmanager
def _about(path: str) -> Iterator[None]:
    """Name the file in errors that have no position in it."""
    try:
        yield
    except QTransposeError as error:
        text = str(error)
        raise QTransposeError(text if text.startswith(path) else f"{path}: {text}") from error


def _summary(results: Sequence[Array], signature: Signature) -> str:
    """One line per result: type, shape, extremes and mean, and the values themselves if they are few."""
    import numpy as np

    lines = []
    for number, (array, type) in enumerate(zip(results, signature.results, strict=True)):
        line = f"out{number}: {type.name} {array.dtype}{list(array.shape)}"
        if array.size:
            wide = array.astype(np.float64 if type.element.kind == "float" else np.int64)
            line += f" min={wide.min():.6g} max={wide.max():.6g} mean={wide.mean():.6g}"
        if 0 < array.size <= 8:
            line += f" values=[{', '.join(f'{value:.6g}' for value in wide.reshape(-1))}]"
        lines.append(line)
    return "\n".join(lines)


_COMMANDS = {"compile": _compile, "run": _run, "opt": _opt, "report": _report, "verify": _verify}

if __name__ == "__main__":
    sys.exit(main())
