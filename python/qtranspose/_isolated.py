"""Running work in a child process, so that an abort inside LLVM ends in one clear line instead of a crash."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import IO, NoReturn

from qtranspose.errors import QTransposeError

BAD_INPUT = 2


def run_isolated(work: Callable[[], int]) -> int:
    """Run `work` in a forked child and return the exit status to end with.

    The child prints its output itself, to the real stdout. Its stderr is shown only if it succeeds (status 0 or 1):
    otherwise exactly one line is printed, from the `QTransposeError` that it raised or the assertion that killed it.
    Call this before MLIR is loaded: its threads would not survive the fork. An unexpected exception is reported in one
    line too; the environment variable QTRANSPOSE_TRACEBACK=1 adds the traceback.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as noise, tempfile.TemporaryFile() as message:
        child = os.fork()
        if child == 0:
            _run_child(work, noise, message)
        status = _wait(child)
        noise_text, message_text = _contents(noise), _contents(message)
    if os.WIFSIGNALED(status):
        print_error(_describe_crash(os.WTERMSIG(status), noise_text))
        return BAD_INPUT
    code = os.WEXITSTATUS(status)
    if code == BAD_INPUT:
        if os.environ.get("QTRANSPOSE_TRACEBACK") == "1":
            sys.stderr.write(noise_text)
        print_error(message_text)
    else:
        sys.stderr.write(noise_text)
    return code


def print_error(message: str) -> None:
    """Print a message as the one line on stderr that a failing command leaves."""
    print("qtranspose: error:", " ".join(message.splitlines()), file=sys.stderr)


def _run_child(work: Callable[[], int], noise: IO[bytes], message: IO[bytes]) -> NoReturn:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(noise.fileno(), 2)
    code = BAD_INPUT
    try:
        code = work()
        sys.stdout.flush()
    except QTransposeError as error:
        message.write(_encoded(str(error)))
    except BrokenPipeError:
        code = 0
    except MemoryError:
        message.write(b"out of memory")
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BaseException as error:
        traceback.print_exc()
        message.write(_encoded(f"internal error: {type(error).__name__}: {error}"))
    message.flush()
    sys.stderr.flush()
    # No interpreter shutdown: it would flush the parent's buffers and run its exit handlers a second time.
    os._exit(code)


def _encoded(text: str) -> bytes:
    """File names that are not UTF-8 reach Python as lone surrogates."""
    return text.encode(errors="backslashreplace")


def _wait(child: int) -> int:
    while True:
        try:
            return os.waitpid(child, 0)[1]
        except KeyboardInterrupt:
            continue  # The terminal interrupts the child too; its status says so.


def _contents(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _describe_crash(number: int, stderr: str) -> str:
    """Describe a child killed by signal `number` by the assertion or fatal error that it printed, if any."""
    name = signal.Signals(number).name
    lines = [line for line in stderr.splitlines() if line.strip()]
    for line in lines:
        found = re.search(r"Assertion `.*' failed|LLVM ERROR: .*|terminate called .*", line)
        if found:
            return f"the compiler stopped: {found[0]} ({name})"
    detail = f": {lines[0]}" if lines and number == signal.SIGABRT else ""
    return f"stopped by {name}{detail}"
