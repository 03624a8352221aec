"""Read and decide forged bytes, and record everything that reaches outside.

    python -m tests.hostile.audited_reading URL [--count 300]

An audit hook records every event of CPython by which bytes could reach a file, a
socket, a process or a module. Code in Rust raises no such events. So some schemas refer
to URL, whose server counts its requests, and some to files that would change the
result.

Python imports a module once, and may keep the text of a file. So each round has modules
and files of its own: those of the recorded round were never opened before.

The output is JSON: `events`, `outcomes` by the name of the forged schema, and
`control`: the events of one file and one module that were opened on purpose.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from continuations import (
    Approve,
    AsyncRunner,
    Continuation,
    ContinuationsError,
    Deny,
    Suspended,
    run,
)
from continuations.core import jsontext
from continuations.errors import FormatError
from continuations.ledger import layout
from continuations.ledger.decisions.decisions import build_decision
from continuations.wire.records import WAIT
from continuations_storage import MemoryStore
from tests.hostile import fuzz_from_bytes as fuzz
from tests.hostile import sample_store
from tests.hostile.mutations import mutate

# The names that CPython's documentation lists, by their first part.
WATCHED = (
    "code.",
    "compile",
    "ctypes.",
    "exec",
    "fcntl.",
    "ftplib.",
    "glob.",
    "http.",
    "import",
    "marshal.",
    "mmap.",
    "open",
    "os.",
    "pathlib.",
    "pickle.",
    "shutil.",
    "smtplib.",
    "socket.",
    "sqlite3.",
    "subprocess.",
    "tempfile.",
    "urllib.",
    "webbrowser.",
)
NOW = datetime(2026, 7, 1, tzinfo=UTC)
EDIT = {"what": "x"}
# Modules that nothing here needs: of the round that is not recorded, and of the other.
UNLOADED_MODULES = ("colorsys", "wave")


def forged_schemas(url: str, file: str, module: str) -> dict[str, dict[str, Any]]:
    """Return JSON Schemas that refer to something outside, by name."""
    references = {
        "http": f"{url}/schema.json",
        "http fragment": f"{url}/schema.json#/definitions/a",
        "host only": url.removeprefix("http:"),
        "file": f"file://{file}",
        "path": file,
        "relative": "schema.json",
        "ftp": "ftp://127.0.0.1/schema.json",
        "data": 'data:application/json,{"type":"string"}',
        "json-schema": "json-schema:///schema.json",
        "module": module,
        "member of a module": f"python:{module}.open",
        "newer draft": "https://json-schema.org/draft/2030-01/schema",
    }
    schemas: dict[str, dict[str, Any]] = {}
    for name, reference in references.items():
        schemas[f"$ref {name}"] = {"properties": {"what": {"$ref": reference}}}
        schemas[f"$dynamicRef {name}"] = {
            "properties": {"what": {"$dynamicRef": reference}}
        }
        schemas[f"$schema {name}"] = {"$schema": reference, "type": "object"}
        schemas[f"$id {name}"] = {
            "$id": reference,
            "properties": {"what": {"$ref": "other.json"}},
        }
        schemas[f"format {name}"] = {
            "properties": {"what": {"format": reference, "contentEncoding": reference}}
        }
        schemas[f"keyword {name}"] = {
            reference: {"$ref": reference},
            "$import": reference,
        }
    assert module not in sys.modules
    return schemas


def forged_continuations(data: bytes, schemas: dict[str, Any]) -> dict[str, bytes]:
    """Return the bytes of a run, once for each schema of its waits."""
    state = Continuation.from_bytes(data).run_state
    forged: dict[str, bytes] = {}
    for name, schema in schemas.items():
        text = jsontext.canonical(schema)
        waits = {
            key: replace(wait, schema_json=text) for key, wait in state.waits.items()
        }
        forged[name] = Continuation(replace(state, waits=waits)).to_bytes()
    return forged


def read_and_decide(data: bytes) -> str:
    """Read a continuation completely, and decide its first wait with an edit."""
    continuation = Continuation.from_bytes(data)
    fuzz.read_continuation(data)
    wait = continuation.waits[0]
    now = wait.created_at
    _outcome(
        lambda: build_decision(wait, Deny(by="kim"), now=now, decision_id="0" * 26)
    )
    return _outcome(
        lambda: build_decision(
            wait, Approve(arguments=EDIT), now=now, decision_id="0" * 26
        )
    )


def _outcome(decide: Any) -> str:
    try:
        decide()
    except ContinuationsError as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


async def decide_in_a_store(data: bytes) -> str:
    """Decide a wait whose object in a store is forged."""
    [wait, *_] = Continuation.from_bytes(data).waits
    store = MemoryStore()
    await store.create(layout.wait_key(wait.id), WAIT.encode(wait))
    runner = AsyncRunner([], store=store)
    await runner.wait(wait.id)
    try:
        await runner.decide(wait.id, Approve(arguments=EDIT))
    except ContinuationsError as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


class Recorder:
    """An audit hook, which cannot be removed; it records only while it is on."""

    def __init__(self) -> None:
        self.is_on = False
        self.events: list[str] = []
        sys.addaudithook(self.hook)

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.is_on and event.startswith(WATCHED):
            self.events.append(f"{event} {str(arguments)[:200]}")


def write_schema() -> Path:
    """Write a file with a schema that allows the edit; return its path."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        file.write('{"type": "string", "definitions": {"a": {"type": "string"}}}')
    return Path(file.name)


def compile_values() -> int:
    """Compile the methods of all loaded values, which have names of fields only."""
    modules = [each for name, each in sys.modules.items() if "continuations" in name]
    named = [value for module in modules for value in vars(module).values()]
    classes: list[Any] = [each for each in named if isinstance(each, type)]
    return len([each.__init__ for each in classes])


async def read_all(url: str, count: int) -> dict[str, Any]:
    """Read and decide everything; the first round only loads the modules in use."""
    outcome = await asyncio.to_thread(run, sample_store.sample_agent(), "go")
    assert isinstance(outcome, Suspended)
    data = outcome.continuation.to_bytes()
    rounds = [(module, write_schema()) for module in UNLOADED_MODULES]
    forged = [
        forged_continuations(data, forged_schemas(url, str(file), module))
        for module, file in rounds
    ]
    mutants = [
        mutate(data, Random(number))  # noqa: S311 - not for secrets
        for number in range(count)
        for data in (await asyncio.to_thread(fuzz.valid_objects)).values()
    ]
    recorder = Recorder()
    outcomes: dict[str, str] = {}
    for is_on in (False, True):
        if is_on:
            compile_values()
        recorder.is_on = is_on
        for name, data in forged[is_on].items():
            outcomes[name] = read_and_decide(data)
            outcomes[f"{name}, in a store"] = await decide_in_a_store(data)
        for data in mutants:
            fuzz.read_with_all_readers(data)
            with suppress(FormatError, IndexError):
                read_and_decide(data)
        recorder.is_on = False
    events, recorder.events = recorder.events, []
    module, file = rounds[True]
    recorder.is_on = True
    file.read_text()
    __import__(module)  # importlib raises no event `import`
    recorder.is_on = False
    for _, each in rounds:
        each.unlink()
    return {"events": events, "outcomes": outcomes, "control": recorder.events}


def main() -> None:
    """Print what happened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--count", type=int, default=20)
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(read_all(arguments.url, arguments.count))))  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main()
