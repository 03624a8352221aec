"""Write the golden files that do not exist yet.

    python -m tests.wire.golden.write_golden

Each object has two files: `v1-<name>.bin` with its bytes, and `v1-<name>.json` with a
description of the value, made before it was encoded. The number is that of the object's
format. Existing files are never changed, because every later release must read them.
"""

from __future__ import annotations

import json
import sys
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from continuations.core.messages import Message
from continuations.core.rows.frames import MessageLog
from continuations.core.rows.state import RunState
from continuations.core.rows.waits import Wait
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import format_number
from continuations.wire.versions import VersionObject
from tests.wire.golden.records import golden_objects

FOLDER = Path(__file__).parent

# The descriptions in the .json files are frozen, like the bytes. If the code renames a
# class or an attribute, this table gets its name in the descriptions. An attribute that
# maps to None is not part of a description: it follows from others or from the bytes.
DESCRIBED_NAMES: dict[type, tuple[str, dict[str, str | None]]] = {
    RunState: ("RunState", {"runnable": None, "suspending": None}),
    MessageLog: ("MessageLog", {"_check": None, "_entries": None}),
    VersionObject: ("VersionObject", {"digest": None}),
    Wait: ("Wait", {"votes": None, "last_slot": None, "notice": None}),
}


def describe(value: object) -> Any:  # noqa: PLR0911 - one row for each type
    """Return the JSON description of a value, in the names of `DESCRIBED_NAMES`."""
    match value:
        case Continuation():
            state = describe(value.run_state)
            return {"version": value.version, "state": state} | (
                {"files": describe(dict(value.files))} if value.files else {}
            )
        case Message(metadata_json=str(metadata)):
            return {"text": value.text, "metadata": metadata}
        case Message():
            return value.text
        case datetime():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case dict():
            items = cast("dict[str, object]", value).items()
            return {key: describe(inner) for key, inner in items}
        case tuple():
            return [describe(inner) for inner in cast("tuple[object, ...]", value)]
        case None | str() | int():
            return value
        case bytes():
            return value.hex()
        case _:
            return _describe_row(value)


def _describe_row(value: object) -> dict[str, Any]:
    assert is_dataclass(value)
    cls = type(value)
    class_name, names = DESCRIBED_NAMES.get(cls, (cls.__name__, {}))
    described: dict[str, Any] = {"type": class_name}
    for field in fields(value):
        name = names.get(field.name, field.name)
        attribute = getattr(value, field.name)
        # A later table may have more attributes, which are empty in this object.
        if name is not None and attribute not in (None, False, "", b"", (), {}):
            described[name] = describe(attribute)
    return described


def write_missing(folder: Path) -> list[str]:
    """Write the files that do not exist yet; return the names of their objects."""
    written: list[str] = []
    for name, golden in golden_objects().items():
        body = golden.data
        stem = f"v{format_number(body)}-{name}"
        data, description = folder / f"{stem}.bin", folder / f"{stem}.json"
        if data.exists():
            continue
        text = json.dumps(describe(golden.value), indent=1) + "\n"
        # Mode "x" never opens an existing file.
        with data.open("xb") as file:
            file.write(body)
        with description.open("x", encoding="ascii") as file:
            file.write(text)
        written.append(name)
    return written


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}\n" for name in write_missing(FOLDER)))
