"""What the passes report: every rewrite and every refusal, as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, overload

from qtranspose._mlir import extension, ir
from qtranspose.errors import QTransposeError, source_position


@dataclass(frozen=True)
class Remark:
    """One optimization remark.

    Attributes:
        kind: `passed` (a rewrite), `missed` (a refusal), `failed` or `analysis`.
        name: the stable name of the rewrite or of the reason for a refusal, for example `row-count-not-static`.
        category: `qtranspose` for the passes of this project; upstream passes have their own.
        pass_name: the pass that reported it; empty when it did not say.
        function: the symbol name of the enclosing function; empty when there is none.
        location: where the operation is.
        arguments: key and value of every argument, in order. Free text has the key `Remark`.
    """

    kind: Literal["passed", "missed", "failed", "analysis"]
    name: str
    category: str
    pass_name: str
    function: str
    location: ir.Location
    arguments: tuple[tuple[str, str], ...] = ()

    @property
    def reason(self) -> str:
        """What was found here, for people: the text of the remark and of its reason."""
        return " ".join(value for key, value in self.arguments if key in ("Remark", "Reason"))

    def __str__(self) -> str:
        """Format as `FILE:LINE:COL: kind: name: reason [pass]`."""
        parts = [source_position(self.location), self.kind, self.name, self.reason]
        return ": ".join(filter(None, parts)) + (f" [{self.pass_name}]" if self.pass_name else "")


class RemarkLog(Sequence[Remark]):
    """The remarks recorded so far, in the order in which they were reported."""

    def __init__(self, collector: extension.RemarkCollector) -> None:
        self._collector = collector
        self._records: list[Remark] = []

    def _refresh(self) -> list[Remark]:
        self._records.extend(Remark(*fields) for fields in self._collector.take())
        return self._records

    @overload
    def __getitem__(self, index: int) -> Remark: ...
    @overload
    def __getitem__(self, index: slice) -> list[Remark]: ...
    def __getitem__(self, index: int | slice) -> Remark | list[Remark]:
        return self._refresh()[index]

    def __len__(self) -> int:
        return len(self._refresh())

    def __repr__(self) -> str:
        return f"RemarkLog({self._refresh()!r})"


@contextmanager
def remarks(context: ir.Context) -> Iterator[RemarkLog]:
    """Record every remark that passes report on `context` while the block runs.

        with qt.remarks(ctx) as log:
            qt.optimize(module)
        for remark in log:
            print(remark)

    The log can be read inside and after the block. Blocks nest, also across threads: each sees what is reported while
    it is open. The first block of a context installs MLIR's remark engine and the last one removes it; like any change
    of a context, do neither while another thread runs passes on it that do not hold Python's lock.

    Raises:
        QTransposeError: if something else installed a remark engine on `context` (installing ours would destroy it).
    """
    collector = extension.RemarkCollector(context)
    if not collector.open():
        raise QTransposeError("the context already has a remark engine that qtranspose did not install")
    try:
        yield RemarkLog(collector)
    finally:
        collector.close()
