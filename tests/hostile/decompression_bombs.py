"""Small objects that decompress to huge ones, read in a process of their own.

    python -m tests.hostile.decompression_bombs [NAME ...]

prints the error, the processor time and the memory of each.
"""

from __future__ import annotations

import json
import random
import re
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from continuations.errors import ContinuationsError
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import (
    decode_object,
    decode_object_header,
    object_digest,
)
from continuations.wire.records import WAIT
from tests.core.rows import RUN, make_wait
from tests.wire.handmade_objects import HEADER, pack
from tests.wire.handmade_objects import stored_fields as good_body

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


STATUS = Path("/proc/self/status")
MEBI = 1 << 20
LONG_LIST_HEADER = b"\xdd" + MEBI.to_bytes(4, "big")
BODY_SIZE = 64 << 20
# The memory limit of this process, which protects other processes.
MEMORY_LIMIT = 3 << 29


def compressed_object(
    body: bytes, size: int | None = None, header: Mapping[str, object] = HEADER
) -> bytes:
    """Return an object of a body, compressed, with a right digest."""
    return object_with_digest(
        zstd.compress(body, 3), len(body) if size is None else size, header
    )


def object_with_digest(stored: bytes, size: int, header: Mapping[str, object]) -> bytes:
    """Return an object of a compressed body, with a right digest."""
    top = pack({**header, "size": size})
    data = b"CONT\0\1\1\0" + len(top).to_bytes(4, "big") + top + stored
    return data + object_digest(data)


def object_of_lists(item: bytes, mib: int) -> bytes:
    """Return a list of lists of a million items, of a size in MiB."""
    return compressed_object(_packed_lists(item, mib))


def _packed_lists(item: bytes, mib: int) -> bytes:
    inner = LONG_LIST_HEADER + item * MEBI
    count = max(1, (mib << 20) // len(inner))
    return b"\xdd" + count.to_bytes(4, "big") + inner * count


def incompressible_bytes(body: bytes | str) -> bytes:
    """Return random bytes, so that the compression ratio of the object is normal."""
    return random.Random(1).randbytes(len(body) // 1000)  # noqa: S311


def object_with_noise(body: bytes) -> bytes:
    """Return an object of a body that has a normal compression ratio."""
    rest = incompressible_bytes(body)
    return compressed_object(b"\x92\xc6" + len(rest).to_bytes(4, "big") + rest + body)


def run_with_message_json(json_text: str, *, with_noise: bool = False) -> bytes:
    """Return a run whose only message has an unknown field with a JSON text."""
    body = good_body()
    frame = next(iter(body["logs"]))
    content = incompressible_bytes(json_text).hex() if with_noise else "x"
    text = '{"role":"user","content":"' + content + '","y":' + json_text + "}"
    body["logs"][frame]["add"] = [text]
    return compressed_object(pack(body))


def run_with_wait_text(field: str, text: str, *, with_noise: bool = False) -> bytes:
    body = good_body()
    body["waits"][0][field] = text
    body["waits"][0]["note"] = incompressible_bytes(text).hex() if with_noise else "x"
    return compressed_object(pack(body))


def wait_object_with_text(field: str, text: str) -> bytes:
    """Return a wait object with a text in a field, and random bytes in its note."""
    opened = decode_object(WAIT.encode(make_wait("c3")), "the wait")
    body: Any = {
        **cast("Any", opened.body),
        field: text,
        "note": incompressible_bytes(text).hex(),
    }
    return compressed_object(pack(body), header=opened.header)


def object_of_one_text(mib: int) -> bytes:
    """Return an object that is one text, compressed piece by piece."""
    size = mib << 20
    maker, block = zstd.ZstdCompressor(), bytes(MEBI)
    parts = [maker.compress(b"\xdb" + size.to_bytes(4, "big"))]
    parts += [maker.compress(block) for _ in range(mib)]
    return object_with_digest(b"".join((*parts, maker.flush())), 5 + size, HEADER)


# Valid objects: a reader that accepts nothing would pass the other checks.
HARMLESS: dict[str, Callable[[], bytes]] = {
    "a message": lambda: run_with_message_json("[{}]"),
    "a wait": lambda: run_with_wait_text("arguments", '{"a":[{}]}', with_noise=True),
    "a wait object": lambda: wait_object_with_text("schema", '{"a":[{}]}'),
}
BOMBS: dict[str, Callable[[], bytes]] = {
    "maps": lambda: object_of_lists(b"\x80", 16),
    "lists": lambda: object_of_lists(b"\x90", 16),
    "numbers": lambda: object_of_lists(b"\x01", 16),
    "floats": lambda: object_of_lists(b"\xcb" + b"?" * 8, 16),
    "texts": lambda: object_of_lists(b"\xa1a", 16),
    "large numbers": lambda: object_of_lists(b"\xcf" + b"\xff" * 8, 16),
    "maps among noise": lambda: object_with_noise(_packed_lists(b"\x80", 64)),
    "lists among noise": lambda: object_with_noise(_packed_lists(b"\x90", 64)),
    "numbers among noise": lambda: object_with_noise(_packed_lists(b"\x01", 64)),
    "floats among noise": lambda: object_with_noise(
        _packed_lists(b"\xcb" + b"?" * 8, 64)
    ),
    "texts among noise": lambda: object_with_noise(_packed_lists(b"\xa1a", 64)),
    "a level a byte among noise": lambda: object_with_noise(b"\x91" * BODY_SIZE),
    "JSON maps among noise": lambda: run_with_message_json(
        "[" + "{}," * (8 << 20) + "{}]", with_noise=True
    ),
    "JSON lists among noise": lambda: run_with_message_json(
        "[" + "[]," * (8 << 20) + "[]]", with_noise=True
    ),
    "a few maps": lambda: object_of_lists(b"\x80", 4),
    "one level a byte": lambda: compressed_object(b"\x91" * BODY_SIZE),
    "a map a byte": lambda: compressed_object(b"\x81" * BODY_SIZE),
    "headers of millions": lambda: compressed_object(
        LONG_LIST_HEADER * 1000 + b"\x01" * MEBI
    ),
    "one map with a million keys": lambda: compressed_object(
        b"\xdf"
        + MEBI.to_bytes(4, "big")
        + b"".join(pack(f"k{number}") + b"\xc0" for number in range(MEBI))
    ),
    "zeros": lambda: compressed_object(bytes(BODY_SIZE)),
    "more than it says": lambda: compressed_object(bytes(BODY_SIZE), size=100),
    "more than there may be": lambda: compressed_object(bytes(100), size=1 << 50),
    "one text as long as there may be": lambda: object_of_one_text(255),
    "JSON maps": lambda: run_with_message_json("[" + "{}," * (8 << 20) + "{}]"),
    "JSON lists": lambda: run_with_message_json("[" + "[]," * (2 << 20) + "[]]"),
    "deep JSON among noise": lambda: run_with_message_json(
        "[" * (8 << 20), with_noise=True
    ),
    "a number among noise": lambda: run_with_message_json(
        "9" * (8 << 20), with_noise=True
    ),
    "deep JSON": lambda: run_with_message_json("[" * (16 << 20)),
    "deep and closed JSON": lambda: run_with_message_json(
        "[" * 100_000 + "]" * 100_000
    ),
    "JSON of one number": lambda: run_with_message_json("9" * (16 << 20)),
    "arguments of brackets": lambda: run_with_wait_text("arguments", "[" * (16 << 20)),
    "arguments of brackets among noise": lambda: run_with_wait_text(
        "arguments", '{"a":' + "[" * (8 << 20), with_noise=True
    ),
    "a schema of maps among noise": lambda: run_with_wait_text(
        "schema", '{"a":[' + "{}," * (8 << 20) + "{}]}", with_noise=True
    ),
    "a wait object's arguments of maps": lambda: wait_object_with_text(
        "arguments", '{"a":[' + "{}," * (8 << 20) + "{}]}"
    ),
    "a wait object's schema of brackets": lambda: wait_object_with_text(
        "schema", '{"a":' * (4 << 20)
    ),
}


def read_object(data: bytes) -> None:
    """Read an object as the library reads its kind."""
    if decode_object_header(data, "the bomb")["kind"] == "wait":
        WAIT.decode(data, "the bomb", RUN)
    else:
        Continuation.from_bytes(data).to_json()


def measure_bomb(name: str) -> dict[str, object]:
    """Read one bomb; returns its error, processor time, memory and stored size."""
    data = {**BOMBS, **HARMLESS}[name]()
    _reset_peak_memory()
    before, began = _peak_memory_mib(), time.process_time()
    raised = ""
    try:
        read_object(data)
    except ContinuationsError as error:
        raised = type(error).__name__
    except MemoryError:
        raised = "MemoryError"
    cpu = round(time.process_time() - began, 2)
    mib = _peak_memory_mib() - before
    return {"name": name, "raised": raised, "cpu": cpu, "mib": mib, "stored": len(data)}


def main() -> None:
    """Read the bombs that are named, or all of them and the valid objects."""
    # Some systems do not support this limit.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    for name in sys.argv[1:] or [*BOMBS, *HARMLESS]:
        sys.stdout.write(json.dumps(measure_bomb(name)) + "\n")
        sys.stdout.flush()


def _peak_memory_mib() -> int:
    """Return the peak memory of this process in MiB."""
    if STATUS.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text())
        if found:
            return int(found[1]) >> 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _reset_peak_memory() -> None:
    # Elsewhere the memory for making the bomb hides a smaller peak.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
