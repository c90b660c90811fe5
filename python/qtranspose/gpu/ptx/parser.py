"""Parsing PTX text into programs that `qtranspose.gpu.ptx.machine` executes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from qtranspose.gpu.ptx.types import TYPES, Array, PTXError, ScalarType

if TYPE_CHECKING:
    from qtranspose.gpu.ptx.machine import Step


@dataclass(frozen=True)
class Register:
    """A virtual register: a position in the register file and its declared type."""

    index: int
    type: ScalarType


@dataclass(frozen=True)
class Name:
    """A special register (`%tid.x`), a variable, a parameter, a label or a function."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A literal number, as written."""

    text: str


@dataclass(frozen=True)
class Address:
    """`[base+offset]`."""

    base: Register | Name | Immediate
    offset: int


@dataclass(frozen=True)
class Group:
    """`{a, b}`, `(a, b)` or `p|q`; in `p|q` and for `_` the sink is a `Name`."""

    operands: tuple[Operand, ...]


Operand = Register | Name | Immediate | Address | Group


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: up to the first dot.
        modifiers: the parts after it.
        operands: in order.
        guard: the predicate register of `@p` or `@!p`.
        negated: whether the guard is `@!p`.
        text: as written, for messages.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    negated: bool
    text: str


@dataclass
class Variable:
    """A variable in shared, local, global or constant memory.

    Attributes:
        size: in bytes.
        alignment: in bytes.
        data: initial bytes of a global or constant variable.
    """

    size: int
    alignment: int
    data: Array | None = None


@dataclass
class Kernel:
    """An entry point.

    Attributes:
        name: of the function.
        parameters: name and size in bytes of each, in order.
        instructions: of the body.
        registers: the type of each register.
        labels: the position of the instruction that follows each label.
        branch_targets: the labels of each `.branchtargets` list.
        call_parameters: size of each `.param` variable that the body declares.
        shared: variables in shared memory, those of the program included.
        local: variables in each thread's own memory.
        max_threads: the largest block that `.maxntid` or `.reqntid` allows; None if there is no limit.
        program: the program that the kernel is part of.
        steps: the decoded instructions, once the kernel has been launched.
    """

    name: str
    program: Program
    parameters: list[tuple[str, int]] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    registers: list[ScalarType] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    call_parameters: dict[str, int] = field(default_factory=dict)
    shared: dict[str, Variable] = field(default_factory=dict)
    local: dict[str, Variable] = field(default_factory=dict)
    max_threads: int | None = None
    steps: list[Step] | None = field(default=None, repr=False)


@dataclass
class Program:
    """What a PTX module defines: its kernels and the variables in global and constant memory."""

    kernels: dict[str, Kernel] = field(default_factory=dict)
    globals: dict[str, Variable] = field(default_factory=dict)


_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?P<space>global|const|shared|local)\s+"
    r"(?:\.align\s+(?P<alignment>\d+)\s+)?\.(?P<type>\w+)\s+(?P<name>[\w$]+)"
    r"\s*(?P<array>\[\s*(?P<count>\d*)\s*\])?\s*(?:=\s*(?P<value>.+))?$",
    re.S,
)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.(?P<type>\w+)\s+"
    r"(?:\.ptr\s*(?:\.(?:global|shared|const|local)\s*)?(?:\.align\s+\d+\s+)?)?"
    r"(?P<name>[\w$]+)(?:\[(?P<count>\d+)\])?$"
)
_REGISTERS = re.compile(r"(?P<name>%?[\w$]+)(?:<(?P<count>\d+)>)?$")
_ADDRESS = re.compile(r"(?P<base>[%\w$.]+)\s*(?:\+\s*(?P<offset>-?\w+))?$")
_NUMBER = re.compile(r"-?(?:0[fFdD][0-9a-fA-F]+|0[xX][0-9a-fA-F]+|\d+)U?$")


def parse(text: str) -> Program:
    """Parse a PTX module.

    Raises:
        PTXError: if it has a form that LLVM does not emit, such as device functions that are not inlined.
    """
    text = re.sub(r"/\*.*?\*/", "", text.rstrip("\0"), flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    # These directives end with their line, not with a semicolon.
    text = re.sub(r"^\s*\.(?:version|target|address_size|file|loc)\b[^\n;]*$", "", text, flags=re.M)
    program = Program()
    shared: dict[str, Variable] = {}
    for header, body in _top_level(text):
        if ".entry" in header:
            kernel = _kernel(header, body or "", program)
            program.kernels[kernel.name] = kernel
        elif ".func" in header:
            if body is not None:
                raise PTXError(f"unsupported device function: {' '.join(header.split())}")
        elif header:
            space, name, variable = _variable(header + (body or ""))
            (shared if space == "shared" else program.globals)[name] = variable
    for kernel in program.kernels.values():
        kernel.shared = {**shared, **kernel.shared}
    return program


def _top_level(text: str) -> Iterator[tuple[str, str | None]]:
    """Split a module into statements: (text, None) up to `;`, and (header, body) of functions."""
    position = 0
    while position < len(text):
        found = re.compile(r"[;{]").search(text, position)
        if not found:
            return
        header = text[position : found.start()].strip()
        if found[0] == ";":
            yield header, None
            position = found.end()
        elif "=" in header:  # The braces of an initial value.
            end = text.index(";", found.start())
            yield text[position:end].strip(), None
            position = end + 1
        else:
            end = _closing(text, found.start())
            yield header, text[found.end() : end]
            position = end + 1


def _closing(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise PTXError("unbalanced braces")


def _type(name: str) -> ScalarType:
    if name not in TYPES:
        raise PTXError(f"unsupported type .{name}")
    return TYPES[name]


def _variable(text: str) -> tuple[str, str, Variable]:
    found = _VARIABLE.match(text)
    if not found:
        raise PTXError(f"unsupported directive: {' '.join(text.split())}")
    type = _type(found["type"])
    count = int(found["count"] or 0) if found["array"] else 1
    data = None
    if found["space"] in ("global", "const"):
        values = [int(value.rstrip("U"), 0) for value in re.findall(r"-?\w+", found["value"] or "")]
        data = np.zeros(max(count, len(values), 1), type.storage)
        data[: len(values)] = np.array([value & ((1 << type.bits) - 1) for value in values], type.storage)
    return found["space"], found["name"], Variable(type.size * count, int(found["alignment"] or type.size), data)


def _kernel(header: str, body: str, program: Program) -> Kernel:
    found = re.search(r"\.entry\s+([\w$]+)\s*(?:\((.*?)\))?(.*)", header, re.S)
    if not found:
        raise PTXError(f"unsupported directive: {' '.join(header.split())}")
    kernel = Kernel(found[1], program)
    for parameter in filter(None, (text.strip() for text in (found[2] or "").split(","))):
        name, size = _parameter(parameter)
        kernel.parameters.append((name, size))
    limit = re.search(r"\.(?:maxntid|reqntid)\s+([\d,\s]+)", found[3])
    if limit:
        kernel.max_threads = int(np.prod([int(size) for size in limit[1].split(",")]))
    _Body(kernel).parse(body)
    return kernel


def _parameter(text: str) -> tuple[str, int]:
    found = _PARAMETER.match(" ".join(text.split()))
    if not found:
        raise PTXError(f"unsupported parameter: {' '.join(text.split())}")
    return found["name"], _type(found["type"]).size * int(found["count"] or 1)


class _Body:
    """The statements of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._registers: dict[str, Register] = {}

    def parse(self, text: str) -> None:
        for statement in re.split(r"[;{}]", self._protect(text)):
            self._statement(" ".join(statement.replace("\1", "{").replace("\2", "}").split()))

    @staticmethod
    def _protect(text: str) -> str:
        """Replace the braces of operands by other characters; those that remain are scopes."""
        return re.sub(r"\{([^{};]*)\}", lambda group: f"\1{group[1]}\2", text)

    def _statement(self, text: str) -> None:
        while label := re.match(r"([$\w]+):\s*", text):
            self._kernel.labels[label[1]] = len(self._kernel.instructions)
            text = text[label.end() :]
            if text.startswith(".branchtargets"):
                self._kernel.branch_targets[label[1]] = tuple(
                    name.strip() for name in text.split(None, 1)[1].split(",")
                )
                return
        if not text or text.startswith(".pragma"):
            return
        if text.startswith(".reg"):
            self._declare_registers(text)
        elif text.startswith(".param"):
            name, size = _parameter(text)
            self._kernel.call_parameters[name] = size
        elif text.startswith("."):
            space, name, variable = _variable(text)
            target = {"shared": self._kernel.shared, "local": self._kernel.local}.get(space)
            if target is None:
                raise PTXError(f"unsupported directive: {text}")
            target[name] = variable
        else:
            self._kernel.instructions.append(self._instruction(text))

    def _declare_registers(self, text: str) -> None:
        found = re.match(r"\.reg\s+\.(\w+)\s+(.*)", text)
        if not found:
            raise PTXError(f"unsupported directive: {text}")
        type = _type(found[1])
        for declared in found[2].split(","):
            names = _REGISTERS.match(declared.strip())
            if not names:
                raise PTXError(f"unsupported directive: {text}")
            suffixes = [""] if names["count"] is None else map(str, range(int(names["count"])))
            for suffix in suffixes:
                self._registers[names["name"] + suffix] = Register(len(self._kernel.registers), type)
                self._kernel.registers.append(type)

    def _instruction(self, text: str) -> Instruction:
        whole = text
        guard, negated = None, False
        if text[0] == "@":
            predicate, text = text.split(" ", 1)
            negated = predicate[1] == "!"
            operand = self._operand(predicate.lstrip("@!"))
            if not isinstance(operand, Register):
                raise PTXError(f"unsupported guard: {whole}")
            guard = operand
        name, _, rest = text.partition(" ")
        opcode, *modifiers = name.split(".")
        operands = tuple(self._operand(part) for part in _split(rest))
        return Instruction(opcode, tuple(modifiers), operands, guard, negated, whole)

    def _operand(self, text: str) -> Operand:
        if text[0] in "{(":
            return Group(tuple(self._operand(part) for part in _split(text[1:-1])))
        if text[0] == "[":
            found = _ADDRESS.match(text[1:-1].strip())
            if not found:
                raise PTXError(f"unsupported address: {text}")
            base = self._operand(found["base"])
            if isinstance(base, (Address, Group)):
                raise PTXError(f"unsupported address: {text}")
            return Address(base, int(found["offset"] or "0", 0))
        if "|" in text:
            return Group(tuple(self._operand(part.strip()) for part in text.split("|")))
        if text in self._registers:
            return self._registers[text]
        return Immediate(text) if _NUMBER.match(text) else Name(text)


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += {"[": 1, "{": 1, "(": 1, "]": -1, "}": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [part for part in [*parts, text[start:].strip()] if part]
