"""Evaluation of programs in NumPy, without the compiler, with a bound on the rounding error of every element.

The results say what a correct execution may return: integers exactly, floats within a bound that follows from the
element types, the operations and the length of the sums. `qtranspose verify` compares with it.
"""

from qtranspose.reference.interpreter import (
    ProgramAssertsError,
    SizesError,
    UndefinedError,
    UnsupportedError,
    evaluate,
)
from qtranspose.reference.numbers import Number

__all__ = ["Number", "ProgramAssertsError", "SizesError", "UndefinedError", "UnsupportedError", "evaluate"]
