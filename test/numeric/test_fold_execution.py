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

OPTIONS = ["", "consumer-layout=nk", "multi-use=clone", "multi-use=read", "matvec-only"]


def complaint(entry: Entry, options: str) -> str | None:
    """Fold, compile and run the program; what is wrong with the results, or None."""
    program = entry.build()
    with ir.Context():
        module = ir.Module.parse(program.mlir)
        passes = PassManager.parse(f"builtin.module(qtranspose-fold-transpose-into-dequant{{{options}}})")
        passes.run(module.operation)
        once = str(module)
        passes.run(module.operation)
        if str(module) != once:
            return "the pass changed its own output"
        results = execution.compile(module)(*program.inputs)
    return program.mismatch(results if isinstance(results, tuple) else (results,))


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: o or "default")
@pytest.mark.parametrize("entry", FAMILIES, ids=lambda e: e.name)
def test_folded_program_matches_its_reference(entry: Entry, options: str) -> None:
    fork = multiprocessing.get_context("fork")  # an abort of the compiler is then this test's failure only
    receive, send = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: send.send(complaint(entry, options)))
    child.start()
    send.close()
    try:
        assert receive.recv() is None
    except EOFError:
        pytest.fail("the compiler stopped")
    finally:
        child.join()
