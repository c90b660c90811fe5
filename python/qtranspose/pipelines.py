"""Running pass pipelines on a module, all or nothing."""

from __future__ import annotations

from mlir.passmanager import PassManager

from qtranspose._mlir import MLIR_ERRORS, ir
from qtranspose.errors import QTransposeError

_PARSE_ERRORS: tuple[type[Exception], ...] = (ValueError, *MLIR_ERRORS)
_NAMED = {"default": "builtin.module(qtranspose-default)", "none": "builtin.module()"}


def pipeline_text(pipeline: str) -> str:
    """Return the anchored textual pass pipeline that `pipeline` stands for.

    Args:
        pipeline: `default` (the `qtranspose-default` pipeline), `none` (nothing), a list of passes
            (`canonicalize,cse`), or a whole pipeline (`builtin.module(...)`).
    """
    if pipeline in _NAMED:
        return _NAMED[pipeline]
    text = pipeline.strip()
    return text if text.startswith("builtin.module(") else f"builtin.module({text})"


def parse_pipeline(pipeline: str, context: ir.Context) -> PassManager:
    """Parse `pipeline` (see `pipeline_text`).

    Raises:
        QTransposeError: if it names an unknown pass or option, or is malformed.
    """
    try:
        return PassManager.parse(pipeline_text(pipeline), context)
    except _PARSE_ERRORS as error:
        reason = QTransposeError.from_mlir(error).args[0]
        # The parser reports its own pseudo file and position; the pipeline itself says more.
        reason = reason.partition("error: ")[2] or reason
        raise QTransposeError(f"bad pipeline '{pipeline}': {reason}") from error


def top_level_passes(manager: PassManager) -> list[str]:
    """Return the passes of a pipeline, named pipelines expanded, as texts that `optimize` takes one by one."""
    text = str(manager).removeprefix("builtin.module(").removesuffix(")")
    passes, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "({") - (character in ")}")
        if character == "," and depth == 0:
            passes.append(text[start:position])
            start = position + 1
    return [found for found in [*passes, text[start:]] if found]


def optimize(module: ir.Module, pipeline: str = "default") -> ir.Module:
    """Run a pass pipeline on `module` in place and return it.

    If a pass fails, the module is put back as it was before (its operations are then new objects: references that the
    caller held into it are no longer valid, as after any pass).

    Args:
        module: the module to transform.
        pipeline: `default`, `none`, a list of passes or a `builtin.module(...)` pipeline.

    Raises:
        QTransposeError: if the pipeline is malformed or a pass fails; `__cause__` has MLIR's diagnostics.
    """
    manager = parse_pipeline(pipeline, module.context)
    backup = module.operation.clone()
    try:
        manager.run(module.operation)
    except MLIR_ERRORS as error:
        _replace_contents(module.operation, backup)
        raise QTransposeError.from_mlir(error, f"pipeline '{pipeline}' failed") from error
    return module


def _replace_contents(module: ir.Operation, source: ir.Operation) -> None:
    """Make `module` equal to `source`, whose operations it takes."""
    body = module.regions[0].blocks[0]
    for op in reversed(list(body.operations)):
        op.operation.erase()
    for op in list(source.regions[0].blocks[0].operations):
        body.append(op)
    for name in list(module.attributes):
        del module.attributes[name]
    for name in source.attributes:
        module.attributes[name] = source.attributes[name]
