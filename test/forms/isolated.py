"""Work in a child process with a time limit: an abort or a hang of the compiler is then one test's failure only."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable

import pytest

SECONDS = 120


def complaint(work: Callable[[], str | None], seconds: float = SECONDS) -> str | None:
    """What `work` returned, an exception of it as text, or that it did not end by itself; None if all is well."""
    fork = multiprocessing.get_context("fork")
    receive, send = fork.Pipe(duplex=False)

    def report() -> None:
        try:
            send.send(work())
        except Exception as error:  # whatever it is, it is what the test reports
            send.send(f"{type(error).__name__}: {error}")

    child = fork.Process(target=report)
    child.start()
    send.close()
    try:
        return receive.recv() if receive.poll(seconds) else f"no result within {seconds:g} s"
    except EOFError:
        return "the compiler stopped"
    finally:
        child.kill()
        child.join()


def check(work: Callable[[], str | None]) -> None:
    """Fail with the complaint; skip with it where it starts with `skip: `."""
    found = complaint(work)
    if found and found.startswith("skip: "):
        pytest.skip(found.removeprefix("skip: "))
    assert found is None, found
