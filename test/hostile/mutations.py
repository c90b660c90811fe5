"""Random damage to bytes, MLIR text, pipelines, `.npz` archives and encodings.

Every choice goes through a `random.Random`. Damage is small, so that much of it gets past the parsers.
"""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from typing import Any

import numpy as np

NUMBERS = ("0", "1", "-1", "2", "7", "255", "65536", "2147483648", "-9223372036854775808", "9223372036854775807")
NUMBERS += (
    "18446744073709551616",
    "1e400",
    "-0.0",
    "0x7FF0000000000000",
    "0x7FC00000",
    "340282366920938463463374607431",
)
TYPES = ("i1", "i2", "i3", "i4", "i8", "i16", "i32", "i64", "i128", "index", "f16", "bf16", "f32", "f64", "f128")
TYPES += ("f8E4M3FN", "f8E5M2", "f4E2M1FN", "tf32", "si8", "ui8", "complex<f32>", "none", "vector<4xf32>")
TYPES += ("!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<u8:f32:1, {0.5, 0.25}>", "tensor<2x3xf32>", "memref<4xi8>")
OPERATIONS = {
    "extsi": ("extui", "trunci", "sitofp"),
    "sitofp": ("uitofp", "bitcast", "fptosi"),
    "mulf": ("subf", "divf", "addf", "remf", "maximumf"),
    "addf": ("subf", "mulf", "minimumf"),
    "muli": ("addi", "divsi", "remui", "shli"),
    "addi": ("subi", "muli", "ceildivsi"),
    "matmul": ("batch_matmul", "matvec", "quantized_matmul", "contract", "mmt4d", "add"),
    "contract": ("matmul", "generic", "reduce"),
    "transpose": ("broadcast", "copy", "reduce", "unpack"),
    "collapse_shape": ("expand_shape", "reshape", "cast"),
    "expand_shape": ("collapse_shape", "extract_slice"),
    "parallel": ("reduction", "window"),
    "reduction": ("parallel",),
    "floordiv": ("mod", "ceildiv", "+", "*"),
    "empty": ("splat", "dim", "from_elements"),
    "yield": ("index", "return"),
}
WORDS = (
    "affine_map tensor memref vector linalg.generic arith.constant func.func return dense dense_resource opaque sparse"
)
WORDS += (
    " scf.for cf.br llvm.mlir.undef quant.dcast ub.poison gpu.launch transform.sequence complex unit loc #map @main"
)


def damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    """A few bytes changed, lost, added, repeated or moved."""
    array = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(array) + 1)
        length = rng.choice((1, 1, 2, 8, 64))
        kind = rng.randrange(6)
        if kind == 0 and array:
            array[at - 1] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del array[at : at + length]
        elif kind == 2:
            array[at:at] = rng.randbytes(length)
        elif kind == 3:
            array[at:at] = array[at : at + length] * rng.choice((1, 2, 100))
        elif kind == 4:
            array = array[:at]
        else:
            other = rng.randrange(len(array) + 1)
            array[at : at + length] = array[other : other + length]
    return bytes(array)


def _replace_one(rng: random.Random, text: str, pattern: str, new: Any) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    one = rng.choice(found)
    return text[: one.start()] + (new(one) if callable(new) else new) + text[one.end() :]


def _size(rng: random.Random, text: str) -> str:
    """Every occurrence of one size, or one, replaced by another: with all of them the program often stays valid."""
    sizes = sorted(set(re.findall(r"(?<=[<x])\d+(?=x)", text)))
    if not sizes:
        return text
    old, new = rng.choice(sizes), rng.choice(("0", "1", "?", "2", "3", "1000000", "4294967296", "4611686018427387904"))
    if rng.random() < 0.7:
        return re.sub(rf"(?<=[<x]){old}(?=x)", new, text)
    return _replace_one(rng, text, rf"(?<=[<x]){old}(?=x)", new)


def _type(rng: random.Random, text: str) -> str:
    types = sorted(set(re.findall(r"\b(?:i\d+|f\d+|bf16|index)\b", text)))
    if not types:
        return text
    old, new = rng.choice(types), rng.choice(TYPES)
    if rng.random() < 0.6:
        return re.sub(rf"\b{old}\b", lambda _: new, text)
    return _replace_one(rng, text, rf"\b{old}\b", lambda _: new)


def _operation(rng: random.Random, text: str) -> str:
    known = [name for name in OPERATIONS if re.search(rf"\b{name}\b", text)]
    if not known:
        return text
    old = rng.choice(known)
    new = rng.choice(OPERATIONS[old])
    return re.sub(rf"\b{old}\b", new, text) if rng.random() < 0.3 else _replace_one(rng, text, rf"\b{old}\b", new)


def _operand(rng: random.Random, text: str) -> str:
    names = sorted(set(re.findall(r"%[\w#]+", text)))
    return _replace_one(rng, text, r"%[\w#]+", rng.choice(names)) if names else text


def _map(rng: random.Random, text: str) -> str:
    def new(found: re.Match[str]) -> str:
        dims = [part.strip() for part in found[1].split(",") if part.strip()] or ["0"]
        results = [part.strip() for part in found[2].split(",") if part.strip()]
        for _ in range(rng.choice((1, 1, 2))):
            kind = rng.randrange(5)
            if kind == 0 and len(results) > 1:
                rng.shuffle(results)
            elif kind == 1 and results:
                results.pop(rng.randrange(len(results)))
            elif kind == 2:
                results.append(rng.choice(dims))
            elif results:
                expression = rng.choice(("0", "{} * 2", "{} floordiv 2", "{} mod 2", "{} + 1", "-{}", "{} floordiv 0"))
                results[rng.randrange(len(results))] = expression.format(rng.choice(dims))
        return f"affine_map<({', '.join(dims)}) -> ({', '.join(results)})>"

    return _replace_one(rng, text, r"affine_map<\(([^()]*)\) -> \(([^()]*)\)>", new)


def _line(rng: random.Random, text: str) -> str:
    lines = text.splitlines()
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        lines.pop(at)
    elif kind == 1:
        lines.insert(other, lines[at])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = lines[other]
    return "\n".join(lines)


def _number(rng: random.Random, text: str) -> str:
    return _replace_one(rng, text, r"(?<![\w%#.x])-?\d+(?:\.\d+)?(?![\w.])", rng.choice(NUMBERS))


def _permutation(rng: random.Random, text: str) -> str:
    def new(found: re.Match[str]) -> str:
        values = [value.strip() for value in found[1].split(",")]
        if rng.random() < 0.5:
            rng.shuffle(values)
        else:
            values[rng.randrange(len(values))] = rng.choice(NUMBERS[:9])
        return f"[{', '.join(values)}]"

    return _replace_one(rng, text, r"\[((?:\d+(?:, )?)+)\]", new)


def _attribute(rng: random.Random, text: str) -> str:
    """An encoding, an argument attribute, a visibility or a location where there was none."""
    kind = rng.randrange(5)
    if kind == 0:
        return _replace_one(rng, text, r"(?<=\d|\?)x(i8|f32)>", lambda found: f'x{found[1]}, "{rng.choice("ab")}">')
    if kind == 1:
        return _replace_one(
            rng, text, r"(%a\d+: tensor<[^>]*>)", lambda found: found[1] + ' {qtranspose.encoding = "x"}'
        )
    if kind == 2:
        return _replace_one(rng, text, r"func\.func @main", "func.func private @main")
    if kind == 3:
        return _replace_one(rng, text, r"-> (tensor<[^>]*>)\n", lambda found: f'-> {found[1]} loc("w")\n')
    return _replace_one(rng, text, r"linalg\.generic \{", 'linalg.generic {library_call = "x", ')


def _word(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return f"{text[:at]} {rng.choice(WORDS.split())} {text[at:]}"


def _deep(rng: random.Random, text: str) -> str:
    """Nesting that recursion would not survive."""
    depth = rng.choice((100, 10_000, 100_000))
    open, close = rng.choice((("[", "]"), ("(", ")"), ("tuple<", ">"), ("{a = ", "}"), ("-", "")))
    at = rng.randrange(len(text) + 1)
    return text[:at] + open * depth + close * depth + text[at:]


_OF_OPS = (
    _size,
    _size,
    _size,
    _type,
    _type,
    _operand,
    _operation,
    _operation,
    _operand,
    _map,
    _map,
    _line,
    _number,
    _permutation,
)
_OF_OPS += (_attribute, _word)


def damaged_module(rng: random.Random, text: str) -> str:
    """Ops, types, sizes, maps, operands and attributes changed."""
    if rng.random() < 0.01:
        return _deep(rng, text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice(_OF_OPS)(rng, text)
    return text


def damaged_pipeline(rng: random.Random, text: str) -> str:
    for _ in range(rng.choice((1, 1, 2))):
        kind = rng.randrange(7)
        if kind == 0:
            text = _replace_one(
                rng, text, r"(?<==)[\w-]+", rng.choice((*NUMBERS, "", "{}", "auto", "nk", "ünï", "'x y'"))
            )
        elif kind == 1:
            text = _replace_one(rng, text, r"[\w-]+(?==)", rng.choice(("tile-elements", "file", "x", "")))
        elif kind == 2:
            text = (
                text
                + ","
                + rng.choice(("", text, "no-such-pass", "func.func()", "any(cse)", "func.func(canonicalize)"))
            )
        elif kind == 3:
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(("(", ")", "{", "}", ",", " ", "=", "\\", "\n", "\t", '"')) + text[at:]
        elif kind == 4:
            text = rng.choice(("func.func({})", "builtin.module({})", "any({})", "gpu.module({})", "({})")).format(text)
        elif kind == 5:
            text = damaged_bytes(rng, text.encode()).decode(errors="replace").replace("\0", "")
        else:
            text = "func.func(" * 300 + text + ")" * 300
    return text


def archive(rng: random.Random, arrays: dict[str, np.ndarray]) -> bytes:
    """An archive of the arrays, with members, headers or bytes damaged."""
    members: list[tuple[str, bytes]] = []
    for name, array in arrays.items():
        file = io.BytesIO()
        np.lib.format.write_array(file, array, allow_pickle=False)
        members.append((f"{name}.npy", file.getvalue()))
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(members))
        name, data = members[at]
        kind = rng.randrange(8)
        if kind == 0:
            members.pop(at) if len(members) > 1 else None
        elif kind == 1:
            members.append((rng.choice((name, "in99.npy", "../in0.npy", "in0", "in-1.npy", "a" * 500)), data))
        elif kind == 2:
            members[at] = (name, damaged_bytes(rng, data))
        elif kind == 3:
            shape = rng.choice(
                (b"(0,)", b"(-1,)", b"(9223372036854775807, 4)", b"(1000000000000,)", b"()", b"3", b"('a',)")
            )
            members[at] = (name, re.sub(rb"\([\d, ]*\)", shape, data, count=1))
        elif kind == 4:
            kinds = (
                b"'|O'",
                b"'<f8'",
                b"'>f4'",
                b"'<U4'",
                b"'<M8'",
                b"'|V4'",
                b"[('a', '<f4')]",
                b"'<f0'",
                b"__import__('os')",
            )
            members[at] = (name, re.sub(rb"'[<>|][a-z]\d'", rng.choice(kinds), data, count=1))
        elif kind == 5:
            members[at] = (name, data.replace(b"False", b"True ", 1))
        elif kind == 6:
            members[at] = (name, data[: rng.randrange(len(data) + 1)])
        else:
            members[at] = (name, bytes([*data[:6], rng.randrange(5), *data[7:]]))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as target:
        for name, data in members:
            target.writestr(name, data)
    return damaged_bytes(rng, file.getvalue()) if rng.random() < 0.4 else file.getvalue()


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    places = [at]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        places += _places(part, (*at, key))
    return places


def damaged_json(rng: random.Random, document: dict[str, Any]) -> str:
    """Values of other types and sizes, keys lost and repeated, or the text damaged."""
    document = json.loads(json.dumps(document))
    others: tuple[Any, ...] = (None, True, "", "x", [], {}, [[]], -1, 0, 10**30, 1e308, float("nan"), float("inf"), "4")
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = [place for place in _places(document) if place]
        if not places:
            break
        *path, last = rng.choice(places)
        parent: Any = document
        for key in path:
            parent = parent[key]
        kind = rng.randrange(4)
        if kind == 0:
            del parent[last]
        elif kind == 1 and isinstance(parent, list):
            parent[last:last] = [parent[last]] * rng.choice((1, 3, 2000))
        elif kind == 1:
            parent["\ud800" if rng.random() < 0.1 else str(last) + "x"] = parent[last]
        elif kind == 2 and isinstance(parent[last], (int, float)):
            parent[last] = rng.choice((-1, 0, 1, 31, 1 << 31, 1 << 63, 1 << 64, 1e-320, -0.5, 0.1, True))
        else:
            parent[last] = rng.choice(others)
    text = json.dumps(document)
    if rng.random() < 0.3:
        text = damaged_bytes(rng, text.encode()).decode(errors="replace")
    if rng.random() < 0.02:
        text = '{"param_encodings": ' + "[" * 100_000 + "]" * 100_000 + "}"
    return text
