"""What a pipeline makes of each weight of a program: found form, decision, reason, bytes and transposes."""

from __future__ import annotations

import html
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from qtranspose._mlir import ir
from qtranspose.errors import source_position
from qtranspose.modules import copy_module
from qtranspose.pipelines import optimize
from qtranspose.remarks import Remark, remarks
from qtranspose.trace import trace
from qtranspose.traffic import Traffic, WeightPath, contractions, total, weight_paths

SCHEMA = 1
_TAG = "qtranspose.contraction."
_DECISION = re.compile(r"(per element|per tile|materialized) \(used")


@dataclass(frozen=True)
class Refused:
    """A rewrite that was not applied.

    Attributes:
        pass_name: the pass.
        reason: the stable name, see docs/refusals.md.
        detail: what was found here.
    """

    pass_name: str
    reason: str
    detail: str


@dataclass(frozen=True)
class ContractionReport:
    """One contraction that uses weights, or for which a pass said why it found none.

    Attributes:
        function: the symbol name of the function that it is in.
        location: `FILE:LINE:COL`, or empty.
        operation: its name before the pipeline.
        forms: of each operand that holds a weight: its number and what it is, in one line.
        decision: where its weights are dequantized now: `per element`, `per tile`, `materialized`, a comma-separated
            list if they differ, `kept` if the contraction was not rewritten.
        refusals: what was not done to the contraction, and why.
        before: the traffic of its weights in the program as given; nothing if they are not stored.
        after: the same after the pipeline; None if the contraction cannot be found there, which only passes of others
            cause.
    """

    function: str
    location: str
    operation: str
    forms: tuple[tuple[int, str], ...]
    decision: str
    refusals: tuple[Refused, ...]
    before: Traffic
    after: Traffic | None


@dataclass(frozen=True)
class Report:
    """What a pipeline makes of the weights of a module.

    Attributes:
        pipeline: as given.
        contractions: every contraction that uses a weight, in program order.
        before: traffic of all weights of the module as given.
        after: the same after the pipeline.
        remarks: everything that the passes reported, in order.
    """

    pipeline: str
    contractions: tuple[ContractionReport, ...]
    before: Traffic
    after: Traffic
    remarks: tuple[Remark, ...]

    def to_json(self) -> str:
        """Format as JSON of the schema that docs/report.md describes."""
        quantized = self.before.leaf_bytes
        document = {
            "schema": SCHEMA,
            "pipeline": self.pipeline,
            "before": _traffic(self.before, quantized),
            "after": _traffic(self.after, quantized),
            "contractions": [
                {
                    "function": entry.function,
                    "location": entry.location,
                    "operation": entry.operation,
                    "weights": [{"operand": number, "form": form} for number, form in entry.forms],
                    "decision": entry.decision,
                    "refusals": [
                        {"pass": refused.pass_name, "reason": refused.reason, "detail": refused.detail}
                        for refused in entry.refusals
                    ],
                    "before": _traffic(entry.before, entry.before.leaf_bytes),
                    "after": entry.after and _traffic(entry.after, entry.before.leaf_bytes),
                }
                for entry in self.contractions
            ],
            "remarks": [
                {
                    "kind": remark.kind,
                    "name": remark.name,
                    "pass": remark.pass_name,
                    "function": remark.function,
                    "location": source_position(remark.location),
                    "text": remark.reason,
                }
                for remark in self.remarks
            ],
        }
        return json.dumps(document, indent=2) + "\n"

    def __str__(self) -> str:
        """Format as text, one paragraph per contraction and a line of totals."""
        lines = []
        for entry in self.contractions:
            lines.append(f"@{entry.function} {entry.operation}" + (f" at {entry.location}" if entry.location else ""))
            lines += [f"  operand {number}: {form}" for number, form in entry.forms]
            lines.append(f"  {entry.decision}; {_change(entry.before, entry.after)}")
            lines += [f"  refused: {r.reason} ({r.pass_name}): {r.detail}" for r in entry.refusals]
        lines.append(f"{len(self.contractions)} contractions with weights; {_change(self.before, self.after)}")
        return "\n".join(lines)

    def to_html(self) -> str:
        """Format as one HTML page that refers to nothing outside of it."""
        rows = []
        for entry in self.contractions:
            cells = [
                f"@{entry.function}\n{entry.operation}\n{entry.location}",
                "\n".join(f"operand {number}: {form}" for number, form in entry.forms),
                "\n".join([entry.decision, *(f"{r.reason} ({r.pass_name}): {r.detail}" for r in entry.refusals)]),
                *_cells(entry.before, entry.after),
            ]
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
        totals = "".join(f"<td>{html.escape(cell)}</td>" for cell in ("all", "", "", *_cells(self.before, self.after)))
        return _PAGE.format(pipeline=html.escape(self.pipeline), rows="\n".join(rows), totals=totals)


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>qtranspose report</title><style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2em; }}
table {{ border-collapse: collapse; }}
td, th {{ border: 1px solid #bbb; padding: .3em .6em; text-align: left; vertical-align: top; white-space: pre-wrap; }}
td:nth-child(n+4) {{ text-align: right; }}
</style></head><body><h1>qtranspose report</h1><p>Pipeline: <code>{pipeline}</code></p>
<table><tr><th>contraction</th><th>weights</th><th>decision</th><th>bytes before</th><th>bytes after</th>
<th>ratio</th><th>transposes</th></tr>
{rows}
<tr>{totals}</tr></table></body></html>
"""


def report(module: ir.Module, pipeline: str = "default") -> Report:
    """Run `pipeline` on a copy of `module` and say what became of each weight. The module is not changed.

    Bytes are those of `qtranspose.traffic`. A contraction is found again by its location, which rewrites carry on.

    Raises:
        QTransposeError: if the pipeline is malformed or a pass fails, or remarks of this context are already taken by
            something that is not of this package.
    """
    copy = copy_module(module)
    with copy.context, remarks(copy.context) as log:
        weights: dict[ir.Operation, list[WeightPath]] = defaultdict(list)
        for path in weight_paths(copy):
            weights[path.contraction].append(path)
        known = []
        for number, contraction in enumerate(contractions(copy)):
            paths, place = weights[contraction], contraction.location
            forms = tuple((path.operand, str(trace(contraction.operands[path.operand]))) for path in paths)
            known.append((_function(contraction), source_position(place), contraction.name, forms, total(paths)))
            contraction.location = ir.Location.name(f"{_TAG}{number}", place)
        before = total(path for paths in weights.values() for path in paths)
        optimize(copy, pipeline)
        found = tuple(log)
        after: dict[int, Traffic] = defaultdict(Traffic)
        everything = Traffic()
        for path in weight_paths(copy):
            everything += path.traffic
            for number in _tags(path.contraction.location):
                after[number] += path.traffic
    remarked: dict[int, list[Remark]] = defaultdict(list)
    for remark in found:
        for number in _tags(remark.location):
            remarked[number].append(remark)
    entries = []
    for number, (function, location, operation, forms, traffic) in enumerate(known):
        mine = remarked[number]
        if not forms and not any(remark.name == "fused" or remark.kind == "missed" for remark in mine):
            continue
        decisions = [d for remark in mine if remark.name == "fused" for d in _DECISION.findall(remark.reason)]
        entries.append(
            ContractionReport(
                function,
                location,
                operation,
                forms,
                ", ".join(dict.fromkeys(decisions)) or "kept",
                tuple(Refused(r.pass_name, r.name, r.reason) for r in mine if r.kind in ("missed", "failed")),
                traffic,
                after.get(number, None if forms else Traffic()),
            )
        )
    return Report(pipeline, tuple(entries), before, everything, tuple(found))


def _tags(location: ir.Location) -> set[int]:
    """Return the numbers of the contractions that an op at `location` was made from."""
    found = set()
    pending = [location]
    while pending:
        current = pending.pop()
        if current.is_a_name():
            if current.name_str.startswith(_TAG):
                found.add(int(current.name_str.removeprefix(_TAG)))
            pending.append(current.child_loc)
        elif current.is_a_fused():
            pending.extend(current.locations)
        elif current.is_a_callsite():
            pending.append(current.callee)
    return found


def _function(op: ir.Operation) -> str:
    parent: Any = op.parent
    while parent is not None and "sym_name" not in parent.attributes:
        parent = parent.parent
    return "" if parent is None else ir.StringAttr(parent.attributes["sym_name"]).value


def _traffic(traffic: Traffic, quantized: float) -> dict[str, float | int | None]:
    return {
        "weights": traffic.weights,
        "leaf_bytes": traffic.leaf_bytes,
        "moved_bytes": traffic.moved_bytes,
        "bytes": traffic.bytes,
        "ratio": traffic.bytes / quantized if quantized else None,
        "transposes": traffic.transposes,
    }


def _cells(before: Traffic, after: Traffic | None) -> tuple[str, str, str, str]:
    if after is None:
        return f"{before.bytes:,.0f}", "not found", "", str(before.transposes)
    ratio = f"{after.bytes / before.leaf_bytes:.2f}" if before.leaf_bytes else ""
    return f"{before.bytes:,.0f}", f"{after.bytes:,.0f}", ratio, f"{before.transposes} -> {after.transposes}"


def _change(before: Traffic, after: Traffic | None) -> str:
    old, new, ratio, transposes = _cells(before, after)
    stored = f" ({ratio} of the stored bytes)" if ratio else ""
    return f"bytes {old} -> {new}{stored}, transposes {transposes}"
