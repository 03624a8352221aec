"""Stored objects with wrong values and a right digest.

A mutation opens an object, changes a few of its values and computes the digest again.
So the digest does not show the change; only the reader of the value can.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgpack

from continuations import Suspended, run
from continuations.core import jsontext
from continuations.wire.envelope import DecodedObject, decode_object, object_digest
from tests.hostile import sample_store
from tests.wire.golden.write_golden import FOLDER

ValuePath = tuple[Any, ...]

# Replacements for a value.
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


def make_valid_objects() -> dict[str, bytes]:
    """Return valid bytes of every kind and shape: golden files and a real run."""
    objects = {
        path.stem.removeprefix("v1-"): path.read_bytes()
        for path in sorted(FOLDER.glob("*.bin"))
    }
    outcome = run(sample_store.sample_agent(), "go")
    assert isinstance(outcome, Suspended)
    objects["sample run"] = outcome.continuation.to_bytes()
    return objects


def seal_with_digest(header: object, body: object, size: Any = None) -> bytes:
    """Return an object of any header and body, with the right digest."""
    packed = pack(body)
    fields = jsontext.as_object(header)
    if fields is not None:
        header = {**fields, "size": len(packed) if size is None else size}
    top = pack(header)
    data = b"CONT\0\1\0\0" + len(top).to_bytes(4, "big") + top + packed
    return data + object_digest(data)


def pack(value: object) -> bytes:
    """Return a value of any kind as msgpack."""
    packed: bytes = msgpack.packb(value, unicode_errors="surrogatepass")
    return packed


def value_paths(value: object) -> list[ValuePath]:
    """Return the path of every value inside a value, also of the value itself."""
    paths: list[ValuePath] = []
    todo: list[tuple[ValuePath, object]] = [((), value)]
    while todo:
        path, item = todo.pop()
        paths.append(path)
        fields, items = jsontext.as_object(item), jsontext.as_array(item)
        if fields is not None:
            todo += [((*path, key), inner) for key, inner in fields.items()]
        elif items is not None:
            todo += [((*path, place), inner) for place, inner in enumerate(items)]
    return paths


def value_at(value: Any, path: ValuePath) -> Any:
    for step in path:
        value = value[step]
    return value


def mutate(seed: bytes, rng: Random) -> bytes:
    """Return a valid object with a few changes and the right digest."""
    opened = decode_object(seed, "the seed")
    if rng.random() < 0.15:
        return _mutate_packed_bytes(opened, rng)
    values: list[Any] = [dict(opened.header), opened.body]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        values = _change_one_value(values, rng)
    size = rng.choice((0, 1, -1, 2**40, "x")) if rng.random() < 0.03 else None
    return seal_with_digest(values[0], values[1], size)


def _change_one_value(values: list[Any], rng: Random) -> list[Any]:
    path = rng.choice(value_paths(values)[1:])
    rng.choice(_CHANGES)(values, value_at(values, path[:-1]), path[-1], rng)
    # A value may now contain itself; packing it raises an error then.
    try:
        again: Any = msgpack.unpackb(pack(values), unicode_errors="surrogatepass")
    except (ValueError, OverflowError, RecursionError):
        return [{"kind": "continuation", "run": "r", "version": 1}, {"run": {}}]
    changed: list[Any] = again
    return changed if len(changed) == 2 else [{}, changed]


def _replace(_: Any, parent: Any, key: Any, rng: Random) -> None:
    parent[key] = rng.choice(_SCALARS)


def _copy_other_value(values: Any, parent: Any, key: Any, rng: Random) -> None:
    parent[key] = value_at(values, rng.choice(value_paths(values)[1:]))


def _delete(_: Any, parent: Any, key: Any, __: Random) -> None:
    del parent[key]


def _duplicate(_: Any, parent: Any, key: Any, rng: Random) -> None:
    if isinstance(parent, dict):
        parent[rng.choice(("id", "wait", "frame", "q", ""))] = parent[key]
    else:
        parent.insert(key, parent[key])


def _change_slightly(_: Any, parent: Any, key: Any, rng: Random) -> None:
    if isinstance(parent[key], str):
        parent[key] = _mutate_text(parent[key], rng)
    elif type(parent[key]) is int:
        parent[key] += rng.choice((-1, 1, 1000, -1000))


def _wrap(_: Any, parent: Any, key: Any, rng: Random) -> None:
    for _ in range(rng.choice((1, 5, 300))):
        parent[key] = [parent[key]] if rng.random() < 0.5 else {"a": parent[key]}


def _shuffle(_: Any, parent: Any, key: Any, rng: Random) -> None:
    if isinstance(parent[key], list):
        rng.shuffle(parent[key])


_CHANGES = [
    _replace,
    _replace,
    _replace,
    _copy_other_value,
    _delete,
    _duplicate,
    _change_slightly,
    _wrap,
    _shuffle,
]


def _mutate_text(text: str, rng: Random) -> str:
    place = rng.randrange(len(text) + 1)
    match rng.randrange(4):
        case 0:
            return text[:place]
        case 1:
            return text + text
        case 2:
            return text[:place] + rng.choice('{}[]",:\\\0\ud800e9') + text[place:]
        case _:
            return text[:place] + text[place + 1 :]


def _mutate_packed_bytes(opened: DecodedObject, rng: Random) -> bytes:
    """Change the packed bytes: other types, other lengths, duplicate keys."""
    header = pack({**opened.header, "size": len(pack(opened.body))})
    parts = [bytearray(header), bytearray(pack(opened.body))]
    for _ in range(rng.choice((1, 1, 2, 4))):
        part = rng.choice(parts)
        place = rng.randrange(len(part) + 1)
        match rng.randrange(4):
            case 0:
                part[place : place + 1] = rng.randbytes(1)
            case 1:
                part[place:place] = rng.randbytes(rng.choice((1, 2, 5)))
            case 2:
                del part[place : place + rng.choice((1, 2, 9))]
            case _:
                part[place:place] = part[place : place + 40]
    top, body = bytes(parts[0]), bytes(parts[1])
    data = b"CONT\0\1\0\0" + len(top).to_bytes(4, "big") + top + body
    return data + object_digest(data)
