"""Good bytes made bad in ways that only the innermost checks can see.

An object is opened, one or a few of its values are changed, and it is sealed again with
the digest that belongs to it: so the change is not seen by its digest, but by who reads
the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack

from continuations import Suspended, run
from continuations.core import jsontext
from continuations.wire.envelope import digest_of, unseal
from tests.hostile import shop
from tests.wire.golden.make import FOLDER

if TYPE_CHECKING:
    from random import Random

    from continuations.wire.envelope import Opened

Path = tuple[Any, ...]

# What is put in the place of a value, or into it.
_SCALARS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**53,
    2**63 - 1,
    2**64 - 1,
    -(2**63),
    1.5,
    float("nan"),
    float("inf"),
    "",
    "f1",
    "c1",
    "f2",
    "c999999999999999999999",
    "f\u0661",
    "waiting",
    "running",
    "finished",
    "\ud800",
    "\0",
    "../../etc/passwd",
    "x" * 5000,
    "{}",
    "[]",
    "null",
    "NaN",
    "1e999",
    "9" * 5000,
    '{"role":"user","content":"x"}',
    '{"role":"assistant","tool_calls":[]}',
    '{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]}',
    '{"role":"tool","tool_call_id":"none","content":""}',
    '{"a":1,"a":2}',
    "[" * 100_000,
    '{"a":' * 3000,
    b"",
    b"\x80",
    [],
    {},
    [[]],
    {"kind": "started"},
    {"kind": "nested", "frame": "f1"},
    {"kind": "waiting", "wait": "approval-00000000000000000000000000@x"},
]


def seeds() -> dict[str, bytes]:
    """Return good bytes of every kind and shape; the golden ones and a real run's."""
    found = {
        path.stem.removeprefix("v1-"): path.read_bytes()
        for path in sorted(FOLDER.glob("*.bin"))
    }
    outcome = run(shop.agent(), "go")
    assert isinstance(outcome, Suspended)
    found["shop"] = outcome.continuation.to_bytes()
    return found


def resealed(header: object, body: object, size: Any = None) -> bytes:
    """Return an object of any values, with the right digest."""
    packed = packed_as(body)
    fields = jsontext.mapping(header)
    if fields is not None:
        header = {**fields, "size": len(packed) if size is None else size}
    top = packed_as(header)
    data = b"CONT\0\1\0\0" + len(top).to_bytes(4, "big") + top + packed
    return data + digest_of(data)


def packed_as(value: object) -> bytes:
    """Return msgpack, whatever the value."""
    packed: bytes = msgpack.packb(value, unicode_errors="surrogatepass")
    return packed


def paths(value: object) -> list[Path]:
    """Return the way to every value in a value, the root's too."""
    found: list[Path] = []
    todo: list[tuple[Path, object]] = [((), value)]
    while todo:
        path, item = todo.pop()
        found.append(path)
        fields, items = jsontext.mapping(item), jsontext.items(item)
        if fields is not None:
            todo += [((*path, key), inner) for key, inner in fields.items()]
        elif items is not None:
            todo += [((*path, place), inner) for place, inner in enumerate(items)]
    return found


def at(value: Any, path: Path) -> Any:
    """Return the value at a path."""
    for step in path:
        value = value[step]
    return value


def mutated(seed: bytes, dice: Random) -> bytes:
    """Return a seed with a few changes, rightly signed."""
    opened = unseal(seed, "the seed")
    if dice.random() < 0.15:
        return _raw(opened, dice)
    values: list[Any] = [dict(opened.header), opened.body]
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        values = _changed(values, dice)
    size = dice.choice((0, 1, -1, 2**40, "x")) if dice.random() < 0.03 else None
    return resealed(values[0], values[1], size)


def _changed(values: list[Any], dice: Random) -> list[Any]:
    path = dice.choice(paths(values)[1:])
    dice.choice(_CHANGES)(values, at(values, path[:-1]), path[-1], dice)
    # A value may now stand inside itself; packing it breaks that.
    try:
        again: Any = msgpack.unpackb(packed_as(values), unicode_errors="surrogatepass")
    except (ValueError, OverflowError, RecursionError):
        return [{"kind": "continuation", "run": "r", "version": 1}, {"run": {}}]
    changed: list[Any] = again
    return changed if len(changed) == 2 else [{}, changed]


def _replaced(_: Any, where: Any, step: Any, dice: Random) -> None:
    where[step] = dice.choice(_SCALARS)


def _borrowed(values: Any, where: Any, step: Any, dice: Random) -> None:
    where[step] = at(values, dice.choice(paths(values)[1:]))


def _dropped(_: Any, where: Any, step: Any, __: Random) -> None:
    del where[step]


def _doubled(_: Any, where: Any, step: Any, dice: Random) -> None:
    if isinstance(where, dict):
        where[dice.choice(("id", "wait", "frame", "q", ""))] = where[step]
    else:
        where.insert(step, where[step])


def _nudged(_: Any, where: Any, step: Any, dice: Random) -> None:
    if isinstance(where[step], str):
        where[step] = _text(where[step], dice)
    elif type(where[step]) is int:
        where[step] += dice.choice((-1, 1, 1000, -1000))


def _nested(_: Any, where: Any, step: Any, dice: Random) -> None:
    for _ in range(dice.choice((1, 5, 300))):
        where[step] = [where[step]] if dice.random() < 0.5 else {"a": where[step]}


def _shuffled(_: Any, where: Any, step: Any, dice: Random) -> None:
    if isinstance(where[step], list):
        dice.shuffle(where[step])


_CHANGES = [
    _replaced,
    _replaced,
    _replaced,
    _borrowed,
    _dropped,
    _doubled,
    _nudged,
    _nested,
    _shuffled,
]


def _text(text: str, dice: Random) -> str:
    place = dice.randrange(len(text) + 1)
    match dice.randrange(4):
        case 0:
            return text[:place]
        case 1:
            return text + text
        case 2:
            return text[:place] + dice.choice('{}[]",:\\\0\ud800e9') + text[place:]
        case _:
            return text[:place] + text[place + 1 :]


def _raw(opened: Opened, dice: Random) -> bytes:
    """Change the packed bytes themselves: other types, other lengths, keys twice."""
    header = packed_as({**opened.header, "size": len(packed_as(opened.body))})
    parts = [bytearray(header), bytearray(packed_as(opened.body))]
    for _ in range(dice.choice((1, 1, 2, 4))):
        part = dice.choice(parts)
        place = dice.randrange(len(part) + 1)
        match dice.randrange(4):
            case 0:
                part[place : place + 1] = dice.randbytes(1)
            case 1:
                part[place:place] = dice.randbytes(dice.choice((1, 2, 5)))
            case 2:
                del part[place : place + dice.choice((1, 2, 9))]
            case _:
                part[place:place] = part[place : place + 40]
    top, body = bytes(parts[0]), bytes(parts[1])
    data = b"CONT\0\1\0\0" + len(top).to_bytes(4, "big") + top + body
    return data + digest_of(data)
