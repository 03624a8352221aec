"""A worker reads every stored message before it acts on the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations import Approve, Continuation, Runner, Suspended, resume, tool
from continuations.core import jsontext
from continuations.errors import FormatError
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import check_integrity
from continuations.wire.envelope import decode_object, encode_object
from continuations_storage import MemoryStore
from tests.engine import agent_builders
from tests.engine.agent_builders import make_boss
from tests.ledger.damage import all_objects, overwrite
from tests.outcomes import expect
from tests.scripts import Script, call

SCRIPT: Script = {"go": [[call("pay", what="x")], "end"]}
KEY = layout.version_key("r1", 2)
BAD_TEXTS = ["", "[]", '{"role":"robot"}', '{"role":"tool"}', "{" * 500]


def make_runner(store: MemoryStore, paid: list[str]) -> Runner:
    """Return a runner whose one tool needs a yes."""

    @tool(approval=True)
    def pay(what: str) -> str:
        """Pay."""
        paid.append(what)
        return "paid"

    return agent_builders.make_runner(SCRIPT, pay, store=store)


def store_approved_run(text: str, paid: list[str]) -> MemoryStore:
    """Store a run with an approved call, and a text in place of its last message."""
    store = MemoryStore()
    outcome = expect(make_runner(store, paid).start("go", run_id="r1"), Suspended)
    make_runner(store, paid).decide(outcome.waits[0].id, Approve(by="kim"))

    async def forge() -> None:
        opened = decode_object(await store.read(KEY), KEY)
        body: Any = opened.body
        body["logs"]["f1"]["add"][-1] = text
        await overwrite(store, KEY, encode_object(dict(opened.header), body))

    asyncio.run(forge())
    return store


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_resume_with_an_invalid_message_does_nothing(text: str) -> None:
    """The error names the object; no tool runs, and nothing is written."""
    paid: list[str] = []
    store = store_approved_run(text, paid)
    before = asyncio.run(all_objects(store))

    with pytest.raises(FormatError, match="a text is not a chat message") as caught:
        make_runner(store, paid).resume("r1")

    assert KEY in str(caught.value)
    assert [] == paid
    assert before == asyncio.run(all_objects(store))


def test_sweep_reports_an_invalid_message_and_runs_no_tool() -> None:
    paid: list[str] = []
    store = store_approved_run("{}", paid)

    result = make_runner(store, paid).sweep()

    assert isinstance(result.errors["r1"], FormatError)
    assert [] == paid
    keys = asyncio.run(store.keys(layout.versions_prefix("r1")))
    assert [KEY, layout.version_key("r1", 1)] == keys


def test_look_reads_a_message_when_it_is_needed() -> None:
    store = store_approved_run("{}", [])
    looked = make_runner(store, []).look("r1")

    assert ("suspended", 1) == (looked.status, len(looked.waits))
    for read in (lambda: looked.root.messages[-1], looked.to_json):
        with pytest.raises(FormatError, match="a text is not a chat message"):
            read()


def test_doctor_names_a_version_with_an_invalid_message() -> None:
    store = store_approved_run("{}", [])

    found = asyncio.run(check_integrity(Objects(store), "r1"))

    assert [KEY] == [finding.key for finding in found.findings]
    assert 1 == found.last_good_number


def test_bytes_are_read_at_once() -> None:
    """`from_bytes` and a resume without a store check every message first."""
    outcome = make_runner(MemoryStore(), []).start("go", run_id="r1")
    data = outcome.continuation.to_bytes()
    opened = decode_object(data, "it")
    body: Any = opened.body
    body["logs"]["f1"]["add"][-1] = "{}"
    forged = encode_object(dict(opened.header), body)

    with pytest.raises(FormatError, match="a text is not a chat message"):
        Continuation.from_bytes(forged)
    with pytest.raises(FormatError, match="a text is not a chat message"):
        resume(forged, make_boss(SCRIPT))


def test_load_of_a_long_run_parses_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages are text until one is needed."""
    store = MemoryStore()
    make_runner(store, []).start("go", run_id="r1")
    parsed: list[str] = []
    parse = jsontext.parse

    def counting_parse(text: str | bytes, *, lossless: bool = False) -> Any:
        parsed.append(str(text))
        return parse(text, lossless=lossless)

    monkeypatch.setattr(jsontext, "parse", counting_parse)
    looked = make_runner(store, []).look("r1")

    assert not [text for text in parsed if '"role"' in text]
    assert 2 <= len(looked.root.messages)
    assert [text for text in parsed if '"role"' in text]
