"""A few bytes that want to become many; set off in a process of their own.

python -m tests.hostile.bombs [NAME]     prints what each raised and what it cost
"""

from __future__ import annotations

import json
import random
import re
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from continuations.errors import ContinuationsError
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import digest_of, read_header, unseal
from continuations.wire.records import decode_wait, encode_wait
from tests.core.rows import RUN, wait_for
from tests.wire.objects import HEADER, pack
from tests.wire.objects import body as good_body

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STATUS = Path("/proc/self/status")
MILLION = 1 << 20
LIST = b"\xdd" + MILLION.to_bytes(4, "big")
MOST = 64 << 20
# What this process may have at all: a bomb that goes off takes nobody else along.
LIMIT = 3 << 29


def squeezed(
    body: bytes, size: int | None = None, header: Mapping[str, object] = HEADER
) -> bytes:
    """Return an object of this body, compressed and signed."""
    return signed(zstd.compress(body, 3), len(body) if size is None else size, header)


def signed(stored: bytes, size: int, header: Mapping[str, object]) -> bytes:
    """Return an object of a compressed body, with a right digest."""
    top = pack({**header, "size": size})
    data = b"CONT\0\1\1\0" + len(top).to_bytes(4, "big") + top + stored
    return data + digest_of(data)


def lists_of(item: bytes, mib: int) -> bytes:
    """Return a list of lists of a million items, so large."""
    return squeezed(_lists_of(item, mib))


def _lists_of(item: bytes, mib: int) -> bytes:
    inner = LIST + item * MILLION
    count = max(1, (mib << 20) // len(inner))
    return b"\xdd" + count.to_bytes(4, "big") + inner * count


def noise(body: bytes | str) -> bytes:
    """Return as much as it takes to pass for an honest object of this size."""
    return random.Random(1).randbytes(len(body) // 1000)  # noqa: S311


def among_noise(body: bytes) -> bytes:
    """Return an object of this body that does not compress too well to be true."""
    rest = noise(body)
    return squeezed(b"\x92\xc6" + len(rest).to_bytes(4, "big") + rest + body)


def in_a_message(json_text: str, *, honest: bool = False) -> bytes:
    """Return a run whose one message holds a JSON text as a field of a stranger."""
    body = good_body()
    frame = next(iter(body["logs"]))
    said = noise(json_text).hex() if honest else "x"
    text = '{"role":"user","content":"' + said + '","y":' + json_text + "}"
    body["logs"][frame]["add"] = [text]
    return squeezed(pack(body))


def in_a_wait(field: str, text: str, *, honest: bool = False) -> bytes:
    """Return a run whose wait holds a text, and another a note."""
    body = good_body()
    body["waits"][0][field] = text
    body["waits"][0]["note"] = noise(text).hex() if honest else "x"
    return squeezed(pack(body))


def in_a_wait_object(field: str, text: str) -> bytes:
    """Return a wait object that holds a text, and noise in its note."""
    opened = unseal(encode_wait(wait_for("c3")), "the wait")
    body: Any = {**cast("Any", opened.body), field: text, "note": noise(text).hex()}
    return squeezed(pack(body), header=opened.header)


def longest_text(mib: int) -> bytes:
    """Return an object that is one text, made without having it."""
    size = mib << 20
    maker, block = zstd.ZstdCompressor(), bytes(MILLION)
    parts = [maker.compress(b"\xdb" + size.to_bytes(4, "big"))]
    parts += [maker.compress(block) for _ in range(mib)]
    return signed(b"".join((*parts, maker.flush())), 5 + size, HEADER)


# They would hold as well of a reader that takes nothing: so this is what it takes.
DUDS: dict[str, Callable[[], bytes]] = {
    "a message": lambda: in_a_message("[{}]"),
    "a wait": lambda: in_a_wait("arguments", '{"a":[{}]}', honest=True),
    "a wait object": lambda: in_a_wait_object("schema", '{"a":[{}]}'),
}
BOMBS: dict[str, Callable[[], bytes]] = {
    "maps": lambda: lists_of(b"\x80", 16),
    "lists": lambda: lists_of(b"\x90", 16),
    "numbers": lambda: lists_of(b"\x01", 16),
    "floats": lambda: lists_of(b"\xcb" + b"?" * 8, 16),
    "texts": lambda: lists_of(b"\xa1a", 16),
    "large numbers": lambda: lists_of(b"\xcf" + b"\xff" * 8, 16),
    "maps among noise": lambda: among_noise(_lists_of(b"\x80", 64)),
    "lists among noise": lambda: among_noise(_lists_of(b"\x90", 64)),
    "numbers among noise": lambda: among_noise(_lists_of(b"\x01", 64)),
    "floats among noise": lambda: among_noise(_lists_of(b"\xcb" + b"?" * 8, 64)),
    "texts among noise": lambda: among_noise(_lists_of(b"\xa1a", 64)),
    "a level a byte among noise": lambda: among_noise(b"\x91" * MOST),
    "JSON maps among noise": lambda: in_a_message(
        "[" + "{}," * (8 << 20) + "{}]", honest=True
    ),
    "JSON lists among noise": lambda: in_a_message(
        "[" + "[]," * (8 << 20) + "[]]", honest=True
    ),
    "a few maps": lambda: lists_of(b"\x80", 4),
    "one level a byte": lambda: squeezed(b"\x91" * MOST),
    "a map a byte": lambda: squeezed(b"\x81" * MOST),
    "headers of millions": lambda: squeezed(LIST * 1000 + b"\x01" * MILLION),
    "one map with a million keys": lambda: squeezed(
        b"\xdf"
        + MILLION.to_bytes(4, "big")
        + b"".join(pack(f"k{number}") + b"\xc0" for number in range(MILLION))
    ),
    "zeros": lambda: squeezed(bytes(MOST)),
    "more than it says": lambda: squeezed(bytes(MOST), size=100),
    "more than there may be": lambda: squeezed(bytes(100), size=1 << 50),
    "one text as long as there may be": lambda: longest_text(255),
    "JSON maps": lambda: in_a_message("[" + "{}," * (8 << 20) + "{}]"),
    "JSON lists": lambda: in_a_message("[" + "[]," * (2 << 20) + "[]]"),
    "deep JSON among noise": lambda: in_a_message("[" * (8 << 20), honest=True),
    "a number among noise": lambda: in_a_message("9" * (8 << 20), honest=True),
    "deep JSON": lambda: in_a_message("[" * (16 << 20)),
    "deep and closed JSON": lambda: in_a_message("[" * 100_000 + "]" * 100_000),
    "JSON of one number": lambda: in_a_message("9" * (16 << 20)),
    "arguments of brackets": lambda: in_a_wait("arguments", "[" * (16 << 20)),
    "arguments of brackets among noise": lambda: in_a_wait(
        "arguments", '{"a":' + "[" * (8 << 20), honest=True
    ),
    "a schema of maps among noise": lambda: in_a_wait(
        "schema", '{"a":[' + "{}," * (8 << 20) + "{}]}", honest=True
    ),
    "a wait object's arguments of maps": lambda: in_a_wait_object(
        "arguments", '{"a":[' + "{}," * (8 << 20) + "{}]}"
    ),
    "a wait object's schema of brackets": lambda: in_a_wait_object(
        "schema", '{"a":' * (4 << 20)
    ),
}


def read(data: bytes) -> None:
    """Read an object as whoever meets its kind would."""
    if read_header(data, "the bomb")["kind"] == "wait":
        decode_wait(data, "the bomb", RUN)
    else:
        Continuation.from_bytes(data).to_json()


def set_off(name: str) -> dict[str, object]:
    """Set off one bomb; returns what it raised, and what it cost beyond its bytes."""
    data = {**BOMBS, **DUDS}[name]()
    _forget_peak()
    before, began = _peak(), time.process_time()
    raised = ""
    try:
        read(data)
    except ContinuationsError as error:
        raised = type(error).__name__
    except MemoryError:
        raised = "MemoryError"
    cpu = round(time.process_time() - began, 2)
    mib = _peak() - before
    return {"name": name, "raised": raised, "cpu": cpu, "mib": mib, "stored": len(data)}


def main() -> None:
    """Set off the bombs that are named, or all, and those that are none."""
    # Not every system keeps such a limit.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    for name in sys.argv[1:] or [*BOMBS, *DUDS]:
        sys.stdout.write(json.dumps(set_off(name)) + "\n")
        sys.stdout.flush()


def _peak() -> int:
    """Return the most memory that the process had, in MiB."""
    if STATUS.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text())
        if found:
            return int(found[1]) >> 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _forget_peak() -> None:
    # Where it cannot be forgotten, what making the bomb took hides a smaller one.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
