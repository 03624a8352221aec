"""Stored versions, and runs that are rebuilt from a chain of deltas."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core.changes.events import Approved, CallStarted
from continuations.core.messages import Message, user_message
from continuations.core.rows.calls import Waiting
from continuations.core.rows.delta import diff
from continuations.core.rows.run import ENDED_STATUSES, RUN_STATUSES, RunRow
from continuations.core.rows.state import ROOT_FRAME_ID, Draft, RunState
from continuations.errors import Corrupt, FormatError
from continuations.ledger.loaded_version import Tree
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import encode_object
from continuations.wire.versions import (
    VersionHeader,
    check_state,
    decode_header,
    decode_version,
    encode_version,
    rebuild_state,
)
from tests.core import rows
from tests.core.schedules import CHOICES, first_state, run_schedule
from tests.sampling import examples
from tests.wire.handmade_objects import small_continuation, stored_fields
from tests.wire.strategies import COUNT, TEXT, TIME

NAME = "runs/jane-1/v/2"
FULL_HEADER = VersionHeader(
    run_id=rows.RUN,
    number=6,
    root=3,
    base=4,
    base_digest=bytes(16),
    status="running",
    at=rows.MOMENT,
    claimed_until=rows.MOMENT,
    markers=("m/1", "m/2"),
)
HEADERS = st.builds(
    VersionHeader,
    run_id=TEXT,
    number=COUNT,
    root=COUNT,
    base=COUNT,
    base_digest=st.none() | st.binary(max_size=16),
    status=st.sampled_from(sorted(RUN_STATUSES)),
    at=TIME,
    claimed_until=st.none() | TIME,
    markers=st.lists(TEXT, max_size=2).map(tuple),
)


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(HEADERS)
def test_any_header_comes_back(header: VersionHeader) -> None:
    state = rows.new_state()
    run = replace(state.run, id=header.run_id, status=header.status)
    delta = diff(None, replace(state, run=run))
    data = encode_version(header, delta)

    base = run if header.base else None
    assert header == decode_header(data, NAME)
    assert header == decode_version(data, NAME, base).header
    assert delta == decode_version(data, NAME, base).delta


# Strictness -------------------------------------------------------------------

FIELDS: dict[str, Any] = {
    "kind": "version",
    "run": rows.RUN,
    "number": 6,
    "root": 3,
    "base": 4,
    "base_digest": b"ab",
    "status": "running",
    "at": 1,
    "until": 2,
    "markers": ["m"],
}
REQUIRED = {"kind", "run", "number", "root", "status", "at"}


@pytest.mark.parametrize("field", FIELDS)
def test_header_field_of_another_type_is_rejected(field: str) -> None:
    for wrong in (None, True, -1, 1.5, "text", b"x", [1], {"x": 1}):
        if field == "base_digest" and isinstance(wrong, bytes):
            continue
        if type(wrong) is type(FIELDS[field]) and field == "run":
            continue
        data = encode_object({**FIELDS, field: wrong}, stored_fields())
        with pytest.raises(FormatError, match=rf"header of {NAME}.*{field}"):
            decode_header(data, NAME)
        with pytest.raises(FormatError, match=rf"header of {NAME}.*{field}"):
            decode_version(data, NAME)


@pytest.mark.parametrize("field", FIELDS)
def test_missing_header_field_is_rejected_if_required(field: str) -> None:
    data = encode_object(
        {k: v for k, v in FIELDS.items() if k != field}, stored_fields()
    )

    if field in REQUIRED:
        with pytest.raises(FormatError, match=f"'{field}' is missing"):
            decode_version(data, NAME)
    else:
        assert decode_version(data, NAME)


def test_unknown_header_field_is_rejected() -> None:
    with pytest.raises(FormatError, match="unknown fields: zz_new"):
        decode_header(encode_object({**FIELDS, "zz_new": 1}, stored_fields()), NAME)


@pytest.mark.parametrize("kind", ["wait", "continuation", "erased", ""])
def test_object_of_another_kind_is_rejected(kind: str) -> None:
    with pytest.raises(FormatError, match="kind"):
        decode_header(encode_object({**FIELDS, "kind": kind}, stored_fields()), NAME)
    with pytest.raises(FormatError):
        decode_version(small_continuation(), NAME)


@pytest.mark.parametrize(("field", "value"), [("run", "other"), ("status", "failed")])
def test_header_that_contradicts_the_body_is_corrupt(field: str, value: str) -> None:
    with pytest.raises(Corrupt):
        decode_version(encode_object({**FIELDS, field: value}, stored_fields()), NAME)


def test_decode_header_does_not_read_the_body() -> None:
    """Operators and sweeps read headers without decoding the rows."""
    assert (
        rows.RUN
        == decode_header(encode_object(FIELDS, {"sealed": "elsewhere"}), NAME).run_id
    )


# Deltas on the wrong base ---------------------------------------------------------


def test_delta_on_the_wrong_base_is_corrupt() -> None:
    """Objects may have been swapped or restored from different backups."""
    before = rows.apply_events(
        rows.new_state(user_message("1"), user_message("2")),
        rows.reply_with_calls("free"),
    )
    grown = Draft(before)
    grown.append(ROOT_FRAME_ID, user_message("3"))
    delta = diff(before, grown.to_run_state())

    with pytest.raises(Corrupt, match=NAME):
        rebuild_state(rows.new_state(), delta, NAME)
    with pytest.raises(Corrupt, match=NAME):
        rebuild_state(None, delta, NAME)


def test_check_state_names_the_version_with_invalid_rows() -> None:
    state = rows.state_with_call_in(Waiting("w1"))

    assert state is check_state(state, NAME)
    with pytest.raises(FormatError, match=f"{NAME} is invalid: call c3"):
        check_state(replace(state, waits={}), NAME)


# Histories of versions ------------------------------------------------------------


class InMemoryVersions:
    """Versions in memory, written and read as `ledger.versions` does."""

    def __init__(self) -> None:
        self.objects: dict[int, bytes] = {}
        self.tree = Tree(1)

    @property
    def newest(self) -> int:
        return max(self.objects, default=0)

    def append(self, steps: dict[int, RunState], state: RunState) -> None:
        """Write the next version as a delta from one of the known states."""
        number = self.newest + 1
        base = self.tree.base(number)
        header = VersionHeader(
            run_id=state.run.id,
            number=number,
            root=self.tree.root,
            base=base,
            base_digest=None,
            status=state.run.status,
            at=rows.MOMENT,
        )
        delta = diff(steps[base] if base else None, state)
        self.objects[number] = encode_version(header, delta)

    def load(self, number: int) -> dict[int, RunState]:
        """Return a version and all versions that it was rebuilt from."""
        header = decode_header(self.objects[number], NAME)
        tree = Tree(header.root)
        state: RunState | None = None
        steps: dict[int, RunState] = {}
        for n in reversed(tree.chain(number)):
            version = decode_version(
                self.objects[n], NAME, state.run if state else None
            )
            assert tree.base(n) == version.header.base
            state = rebuild_state(state, version.delta, NAME)
            steps[n] = state
        check_state(steps[number], NAME)
        return steps


def with_rewritten_logs(state: RunState, rng: random.Random) -> RunState:
    draft = Draft(state)
    for frame in state.frames.values():
        if frame.open_call_ids or rng.random() < 0.5:
            continue
        old = state.logs[frame.id].messages
        keep = rng.randrange(len(old) + 1)
        again = Message.from_json(old[0].text)
        rest = (user_message("summary"), again)[: rng.randrange(1, 3)]
        draft.start_log(frame.id, (*old[:keep], *rest))
    return draft.to_run_state()


def assert_same_state(expected: RunState, actual: RunState) -> None:
    assert expected == actual
    assert set(expected.runnable) == set(actual.runnable)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(CHOICES, st.integers(0, 2**32))
def test_every_version_is_rebuilt_from_its_chain(choices: list[int], seed: int) -> None:
    """A state rebuilt from deltas equals its full copy, whatever happened before."""
    rng = random.Random(seed)  # noqa: S311 - a schedule, not a secret
    ledger = InMemoryVersions()
    copies: dict[int, bytes] = {}
    steps: dict[int, RunState] = {}

    def between(_: int, state: RunState) -> RunState:
        nonlocal steps
        if rng.random() < 0.3:
            return state
        if rng.random() < 0.2 and state.run.status not in ENDED_STATUSES:
            state = with_rewritten_logs(state, rng)
        if rng.random() < 0.1:
            # A repair starts a new root, from which the tree is counted.
            ledger.tree = replace(ledger.tree, root=ledger.newest + 1)
        ledger.append(steps, state)
        number = ledger.newest
        copies[number] = Continuation(state).to_bytes()
        kept = ledger.tree.chain(number)
        steps = {n: steps[n] for n in kept if n in steps} | {number: state}
        if rng.random() < 0.3:
            # Another process takes over and knows only the versions that it read.
            steps = ledger.load(number)
            state = steps[number]
        return state

    run_schedule(first_state(choices), choices, between_events=between)

    for number, copy in copies.items():
        assert_same_state(
            Continuation.from_bytes(copy).run_state, ledger.load(number)[number]
        )


def base_run_row(data: bytes) -> RunRow | None:
    """Return the row from which a delta takes the constant fields of the run."""
    return rows.new_state().run if decode_header(data, NAME).base else None


def test_long_run_needs_a_logarithmic_number_of_reads_and_copies() -> None:
    """At most log2(n) + 1 objects are read, and a message is in at most as many."""
    ledger = InMemoryVersions()
    steps: dict[int, RunState] = {}
    state = rows.new_state()
    for number in range(1, 257):
        draft = Draft(state)
        draft.append(ROOT_FRAME_ID, user_message(f"<{number}>" + "x" * 250))
        state = draft.to_run_state()
        ledger.append(steps, state)
        kept = ledger.tree.chain(number)
        steps = {n: steps[n] for n in kept if n in steps} | {number: state}

    assert max(len(ledger.load(number)) for number in ledger.objects) <= 9
    copies = [
        sum(
            f"<{number}>" in message.text
            for data in ledger.objects.values()
            for log in decode_version(
                data, NAME, base_run_row(data)
            ).delta.logs.values()
            for message in log.added
        )
        for number in (1, 2, 100, 200, 256)
    ]
    assert max(copies) <= 9
    assert_same_state(state, ledger.load(256)[256])


def test_delta_of_a_deep_run_holds_only_changed_rows() -> None:
    """A claim and a decision store only the rows that they change."""
    state = rows.nested_agents(1000)
    (wait,) = state.waits.values()
    approved = rows.apply_events(
        state,
        Approved(call_id=wait.call_id, digest="d1"),
        CallStarted(call_id=wait.call_id),
    )

    delta = diff(state, approved)

    assert (0, 1, 0) == (len(delta.frames), len(delta.calls), len(delta.waits))
    assert (wait.id,) == delta.removed_ids
    assert len(encode_version(FULL_HEADER, delta)) < 1000
