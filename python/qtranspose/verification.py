"""Checking that a transformed program computes what the original computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, product
from typing import Any

import numpy as np

from qtranspose._mlir import ir
from qtranspose.elements import Array
from qtranspose.errors import QTransposeError
from qtranspose.execution import Executable, compile
from qtranspose.functions import Signature, find_function, public_functions, signature
from qtranspose.modules import copy_module
from qtranspose.pipelines import optimize, parse_pipeline, top_level_passes
from qtranspose.reference import Number, ProgramAssertsError, UnsupportedError, evaluate
from qtranspose.sampling import Kind, sample_inputs

_SIZES = (3, 2, 5, 1, 4, 7)
# Wide integers may be indices into something small.
_LARGEST_INDICES = (15, 3, 1, 0)


@dataclass(frozen=True)
class Mismatch:
    """One element that is not what it must be.

    Attributes:
        function: the function that was called.
        inputs: what it was called with.
        result: the number of the result.
        index: of the element in it.
        before: its value as the original program gives it.
        after: its value as the transformed program gives it.
        expected: the exact value; None where the reference does not know the program.
        bound: how far from it a correct execution may be; 0 for integers.
        sizes: of the dynamic dims of the arguments, in order of appearance: the smallest that were found to fail.
        culprit: the first pass of the pipeline after which the result is wrong; None if there is no pipeline, or the
            original program is already wrong.
    """

    function: str
    inputs: tuple[Array, ...]
    result: int
    index: tuple[int, ...]
    before: Any
    after: Any
    expected: Any
    bound: float
    sizes: tuple[int, ...]
    culprit: str | None = None

    def __str__(self) -> str:
        """Format in one line."""
        at = f"@{self.function}: result {self.result}{list(self.index)}"
        sizes = f" (dynamic sizes {list(self.sizes)})" if self.sizes else ""
        expected = "" if self.expected is None else f", expected {self.expected} within {self.bound:.3g}"
        culprit = f"; first wrong after '{self.culprit}'" if self.culprit else ""
        return f"{at} is {self.after}, before {self.before}{expected}{sizes}{culprit}"


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`.

    Attributes:
        mismatch: the first wrong element, or None.
        trials: how many times the two programs were executed and compared.
        elements: how many elements were compared.
        identical: how many of them were bit for bit the same.
        unbounded: how many differ where there is no bound, because the program does not define its result there (a
            float converted to an integer that does not hold it, say) or an intermediate result may overflow.
        worst: the largest error of the transformed program against the exact value, as a fraction of its bound.
    """

    mismatch: Mismatch | None
    trials: int
    elements: int
    identical: int
    unbounded: int
    worst: float

    @property
    def ok(self) -> bool:
        """Whether nothing wrong was found."""
        return self.mismatch is None

    def __str__(self) -> str:
        """Format in one line."""
        if self.mismatch:
            return f"mismatch: {self.mismatch}"
        text = f"ok: {self.elements} elements of {self.trials} trials agree, {self.identical} bit for bit"
        if self.identical < self.elements - self.unbounded:
            text += f", the others within {self.worst:.2g} of their error bound"
        return text + (f"; {self.unbounded} differ where the program defines no result" if self.unbounded else "")


def verify(
    module: ir.Module,
    after: ir.Module | None = None,
    *,
    pipeline: str = "default",
    function: str | None = None,
    trials: int = 4,
    seed: int = 0,
) -> Verification:
    """Execute a program before and after a transformation on random and adversarial inputs, and compare.

    Integers must be equal. Floats must both lie within a bound of the exact value that follows from the types, the
    operations and the length of the sums (see `qtranspose.reference`); any order of the sums is allowed. NaN and
    infinities must agree, but where rounding may decide. Neither module is changed.

    Args:
        module: the original.
        after: the transformed program; if None, it is `module` after `pipeline`.
        pipeline: as `optimize` takes it; not used if `after` is given.
        function: what to call; None means every public function with a body.
        trials: how many inputs, and sizes of dynamic dims, to try per function.
        seed: of the random inputs.

    Raises:
        QTransposeError: if either program cannot be compiled, the two have different functions, no sizes of dynamic
            dims are found that the program takes, or floats differ and the reference does not know the program.
    """
    if trials < 1:
        raise QTransposeError(f"verify: trials must be positive, got {trials}")
    transformed = after if after is not None else optimize(copy_module(module), pipeline)
    names = [function] if function else [signature(op).name for op in public_functions(module)]
    if not names:
        raise QTransposeError("the module has no public function with a body")
    tally = _Tally()
    for name in names:
        check = _Check(module, transformed, name, tally)
        for trial in range(trials):
            mismatch = check.trial(trial, seed)
            if mismatch is None:
                continue
            mismatch = check.smaller(mismatch, trial, seed)
            if after is None and mismatch.after is not mismatch.before:
                mismatch = _blame(mismatch, module, pipeline)
            return tally.outcome(mismatch)
    return tally.outcome(None)


@dataclass
class _Tally:
    trials: int = 0
    elements: int = 0
    identical: int = 0
    unbounded: int = 0
    worst: float = 0.0

    def outcome(self, mismatch: Mismatch | None) -> Verification:
        return Verification(mismatch, self.trials, self.elements, self.identical, self.unbounded, self.worst)


class _Check:
    """The executables of one function before and after."""

    def __init__(self, module: ir.Module, transformed: ir.Module, name: str, tally: _Tally) -> None:
        self.module, self.name, self.tally = module, name, tally
        self.types = signature(find_function(module, name))
        other = signature(find_function(transformed, name))
        if (self.types.arguments, self.types.results) != (other.arguments, other.results):
            raise QTransposeError(f"@{name} has other arguments or results after the transformation")
        self.before = compile(module, function=name, reassociate=False)
        self.after = compile(transformed, function=name, reassociate=False)

    def trial(self, number: int, seed: int) -> Mismatch | None:
        """Compare on inputs of the kind and sizes of trial `number`; None if all is well or the program asserts."""
        try:
            inputs, sizes, reference = find_inputs(self.module, self.name, self.kind(number), seed + number, number)
        except ProgramAssertsError:
            return None
        return self.compare(inputs, sizes, reference)

    def kind(self, number: int) -> Kind:
        return list(Kind)[number % len(Kind)]

    def compare(
        self, inputs: Sequence[Array], sizes: tuple[int, ...], reference: list[Number] | None
    ) -> Mismatch | None:
        before, after = (_call(executable, inputs) for executable in (self.before, self.after))
        self.tally.trials += 1
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            exact = reference[number] if reference else None
            at = _first_wrong(old, new, exact, self.tally, f"@{self.name}")
            if at is None:
                continue
            expected = exact.value[at] if exact else None
            bound = float(np.broadcast_to(exact.error, exact.shape)[at]) if exact else 0.0
            return Mismatch(self.name, tuple(inputs), number, at, old[at], new[at], expected, bound, sizes)
        return None

    def smaller(self, mismatch: Mismatch, number: int, seed: int) -> Mismatch:
        """Find a mismatch of the same kind of inputs with smaller dynamic dims."""
        best = mismatch
        for dim in range(len(best.sizes)):
            for size in range(best.sizes[dim]):
                sizes = (*best.sizes[:dim], size, *best.sizes[dim + 1 :])
                inputs = sample_inputs(self.types, self.kind(number), seed + number, sizes)
                try:
                    found = self.compare(inputs, sizes, _reference(self.module, self.types, inputs))
                except QTransposeError:
                    continue
                if found:
                    best = found
                    break
        return best


def find_inputs(
    module: ir.Module, function: str, kind: Kind, seed: int, trial: int = 0
) -> tuple[list[Array], tuple[int, ...], list[Number] | None]:
    """Find inputs that a function takes: return them, the sizes of their dynamic dims, and the exact results.

    There are none (None) if the reference does not know the program.

    Args:
        module: the program.
        function: of it.
        kind: of inputs.
        seed: of the random inputs.
        trial: chooses the sizes that are tried first.

    Raises:
        ProgramAssertsError: if the program does, on inputs of a size that it otherwise takes.
        QTransposeError: if no inputs are found.
    """
    types = signature(find_function(module, function))
    for sizes, largest_index in product(_sizes(types, trial), _LARGEST_INDICES):
        inputs = sample_inputs(types, kind, seed, sizes, largest_index)
        try:
            return inputs, sizes, _reference(module, types, inputs)
        except ProgramAssertsError:
            raise
        except QTransposeError:
            continue
    raise QTransposeError(f"@{function}: found no sizes of dynamic dims, or indices, that the program takes")


def _reference(module: ir.Module, types: Signature, inputs: Sequence[Array]) -> list[Number] | None:
    """Return the exact results and their bounds; None if the reference does not know the program."""
    try:
        return evaluate(module, inputs, types.name)
    except UnsupportedError:
        if any(None in type.shape for type in types.arguments) and len({*_dynamic(types, inputs)}) > 1:
            # Sizes that do not fit could only be found out by executing them.
            raise QTransposeError("sizes may not fit") from None
        return None


def _blame(mismatch: Mismatch, module: ir.Module, pipeline: str) -> Mismatch:
    """Name the first pass after which the result is wrong."""
    passes = top_level_passes(parse_pipeline(pipeline, module.context))
    current = copy_module(module)
    for text in passes:
        optimize(current, text)
        results = _call(compile(current, function=mismatch.function, reassociate=False), mismatch.inputs)
        value = results[mismatch.result][mismatch.index]
        if not _same(value, mismatch.before) and not (
            mismatch.expected is not None and np.abs(np.float64(value) - mismatch.expected) <= mismatch.bound
        ):
            return Mismatch(**{**mismatch.__dict__, "culprit": text})
    return mismatch


def _call(executable: Executable, inputs: Sequence[Array]) -> tuple[Array, ...]:
    results = executable(*inputs)
    return results if isinstance(results, tuple) else (results,)


def _dynamic(types: Signature, inputs: Sequence[Array]) -> Iterator[int]:
    for type, array in zip(types.arguments, inputs, strict=True):
        yield from (have for want, have in zip(type.shape, array.shape, strict=True) if want is None)


def _sizes(types: Signature, trial: int) -> Iterator[tuple[int, ...]]:
    """Sizes of the dynamic dims to try, best first: all different, then all equal."""
    dims = sum(extent is None for type in types.arguments for extent in type.shape)
    if dims == 0:
        yield ()
        return
    if dims > 1:
        yield tuple(_SIZES[(trial + dim) % len(_SIZES)] for dim in range(dims))
    for size in islice(count(trial), len(_SIZES)):
        yield (_SIZES[size % len(_SIZES)],) * dims


def _same(old: Any, new: Any) -> Any:
    with np.errstate(invalid="ignore"):
        equal = old == new
    return equal | ((old != old) & (new != new))


def _first_wrong(old: Array, new: Array, exact: Number | None, tally: _Tally, what: str) -> tuple[int, ...] | None:
    """Return the index of the first element that is wrong, in either program."""
    tally.elements += old.size
    same = np.asarray(_same(old, new))
    tally.identical += int(same.sum())
    if exact is None:
        if old.dtype.kind not in "iub" and not same.all():
            raise QTransposeError(
                f"{what}: floats differ, and the reference that would bound them does not know the program"
            )
        wrong = ~same
    else:
        bound = np.broadcast_to(exact.error, old.shape)
        error = np.maximum(distance(old, exact.value), distance(new, exact.value))
        defined = np.isfinite(bound)
        tally.unbounded += int((~same & ~defined).sum())
        with np.errstate(all="ignore"):
            ratio = np.where(defined & (bound > 0), distance(new, exact.value) / bound, 0.0)
        tally.worst = max(tally.worst, float(ratio.max(initial=0)))
        wrong = ~(error <= bound)
    return tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.any() else None


def distance(array: Array, exact: Any) -> Any:
    """Return the distance to the exact value; infinite where only one is finite, or they are different infinities."""
    if array.dtype.kind in "iub":
        # Differences of 64-bit integers may not fit in one.
        unequal = array != exact
        with np.errstate(over="ignore"):
            apart = np.abs(array.astype(np.float64) - exact.astype(np.float64))
        return np.where(unequal, np.maximum(apart, 1.0), 0.0)
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        apart = np.abs(wide - exact)
        return np.where(np.asarray(_same(wide, exact)), 0.0, np.where(np.isnan(apart), np.inf, apart))
