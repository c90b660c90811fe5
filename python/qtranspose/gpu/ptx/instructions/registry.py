"""The table of decoders, and what they share."""

from __future__ import annotations

from collections.abc import Callable

from qtranspose.gpu.ptx.machine import ALL_LANES, Execute
from qtranspose.gpu.ptx.parser import Address, Group, Instruction, Operand
from qtranspose.gpu.ptx.types import TYPES, PTXError, ScalarType

Decoder = Callable[[Instruction], Execute]
_DECODERS: dict[str, Decoder] = {}


def decodes(*opcodes: str) -> Callable[[Decoder], Decoder]:
    """Register a decoder of some opcodes."""

    def register(decoder: Decoder) -> Decoder:
        for opcode in opcodes:
            _DECODERS[opcode] = decoder
        return decoder

    return register


def decode_instruction(instruction: Instruction) -> Execute:
    """Return what an instruction does.

    Raises:
        PTXError: if it, one of its modifiers or its operands are not known.
    """
    decoder = _DECODERS.get(instruction.opcode)
    if decoder is None:
        raise PTXError(f"unknown instruction: {instruction.text}")
    try:
        return decoder(instruction)
    except PTXError as error:
        raise PTXError(f"unsupported instruction: {instruction.text} ({error})") from None
    except (ValueError, IndexError, TypeError):
        raise PTXError(f"unsupported instruction: {instruction.text} (unexpected operands)") from None


def synchronized_lanes(instruction: Instruction) -> Operand | None:
    """Return the operand that names the lanes which must execute an instruction together; None for most."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in ("mma", "ldmatrix") or (opcode in ("bar", "barrier") and "warp" not in modifiers):
        return ALL_LANES
    if "sync" in modifiers and opcode in ("shfl", "vote", "redux", "bar"):
        return instruction.operands[-1]
    return None


class Modifiers:
    """The modifiers of an instruction, taken one by one; all must be known."""

    def __init__(self, instruction: Instruction) -> None:
        self._left = list(instruction.modifiers)

    def flag(self, name: str) -> bool:
        """Take a modifier, if it is there."""
        return self.choice(name) is not None

    def choice(self, *names: str) -> str | None:
        """Take the first modifier that is one of some names."""
        for name in self._left:
            if name in names:
                self._left.remove(name)
                return name
        return None

    def one_of(self, *names: str) -> str:
        """Take a modifier that must be there.

        Raises:
            PTXError: if it is not.
        """
        name = self.choice(*names)
        if name is None:
            raise PTXError(f"none of .{', .'.join(names)}")
        return name

    def types(self) -> list[ScalarType]:
        """Take all types, in order."""
        types = [TYPES[name] for name in self._left if name in TYPES]
        self._left = [name for name in self._left if name not in TYPES]
        return types

    def type(self) -> ScalarType:
        """Take the only type.

        Raises:
            PTXError: if there is none, or several.
        """
        types = self.types()
        if len(types) != 1:
            raise PTXError("not one type")
        return types[0]

    def done(self) -> None:
        """Check that nothing is left.

        Raises:
            PTXError: if something is.
        """
        if self._left:
            raise PTXError(f"unknown modifier .{self._left[0]}")


def group_of(operand: Operand) -> tuple[Operand, ...]:
    """Return the operands of `{a, b}`, or the operand itself."""
    return operand.operands if isinstance(operand, Group) else (operand,)


def address_of(operand: Operand) -> Address:
    """Return an operand that must be an address.

    Raises:
        PTXError: if it is not.
    """
    if not isinstance(operand, Address):
        raise PTXError("an operand is not an address")
    return operand
