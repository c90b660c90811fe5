"""Programs compute their references after `qtranspose-fold-transpose-into-dequant`, with each of its options."""

import multiprocessing

import pytest
import qtranspose as qt  # noqa: F401  (registers the passes)
from forms.catalog import CATALOG, Entry
from mlir import ir
from mlir.passmanager import PassManager
from qtranspose import execution

FAMILIES = list({entry.family: entry for entry in reversed(CATALOG)}.values())[::-1]
"""The first instance of every family."""

OPTIONS = ["consumer-layout=nk", "multi-use=clone", "multi-use=read", "matvec-only"]
CASES = [(entry, "") for entry in FAMILIES]
CASES += [(entry, options) for i, options in enumerate(OPTIONS) for entry in FAMILIES[i :: len(OPTIONS)]]


def complaint(entry: Entry, options: str | None) -> str | None:
    """Fold (unless options is None), compile and run; what is wrong with the results, or None."""
    program = entry.build()
    with ir.Context():
        module = ir.Module.parse(program.mlir)
        if options is not None:
            passes = PassManager.parse(f"builtin.module(qtranspose-fold-transpose-into-dequant{{{options}}})")
            passes.run(module.operation)
            once = str(module)
            passes.run(module.operation)
            if str(module) != once:
                return "the pass changed its own output"
        results = execution.compile(module)(*program.inputs)
    return program.mismatch(results if isinstance(results, tuple) else (results,))


def isolated_complaint(entry: Entry, options: str | None) -> str | None:
    """The same in a process of its own, which the compiler may abort."""
    fork = multiprocessing.get_context("fork")
    receive, send = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: send.send(complaint(entry, options)))
    child.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        return "the compiler stopped"
    finally:
        child.join()


@pytest.mark.parametrize(("entry", "options"), CASES, ids=[f"{e.name}-{o or 'default'}" for e, o in CASES])
def test_folded_program_matches_its_reference(entry: Entry, options: str) -> None:
    found = isolated_complaint(entry, options)
    if found and isolated_complaint(entry, None):
        pytest.skip("not executed untransformed either")
    assert found is None
