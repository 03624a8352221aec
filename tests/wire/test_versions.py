"""A stored version: a plain header and a delta; a run rebuilt from its chain."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core import messages as said
from continuations.core.calls import Waiting
from continuations.core.delta import diff
from continuations.core.draft import Draft
from continuations.core.events import Approved, Begun
from continuations.core.run import ENDED, STATUSES, RunRow
from continuations.core.table import ROOT, Table
from continuations.errors import Corrupt, FormatError
from continuations.ledger import fenwick
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import seal
from continuations.wire.versions import (
    Header,
    checked,
    decode_header,
    decode_version,
    encode_version,
    rebuilt,
)
from tests.core.rows import (
    MOMENT,
    RUN,
    new_table,
    one_call,
    told,
    tower,
    wants,
)
from tests.core.schedules import CHOICES, begin, play
from tests.wire.objects import body, small
from tests.wire.shapes import COUNT, TEXT, WHEN

NAME = "runs/jane-1/v/2"
FULL = Header(
    run_id=RUN,
    number=6,
    root=3,
    base=4,
    base_digest=bytes(16),
    status="running",
    at=MOMENT,
    until=MOMENT,
    markers=("m/1", "m/2"),
)
HEADERS = st.builds(
    Header,
    run_id=TEXT,
    number=COUNT,
    root=COUNT,
    base=COUNT,
    base_digest=st.none() | st.binary(max_size=16),
    status=st.sampled_from(sorted(STATUSES)),
    at=WHEN,
    until=st.none() | WHEN,
    markers=st.lists(TEXT, max_size=2).map(tuple),
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(HEADERS)
def test_any_header_comes_back(header: Header) -> None:
    table = new_table()
    run = replace(table.run, id=header.run_id, status=header.status)
    delta = diff(None, replace(table, run=run))
    data = encode_version(header, delta)

    base = run if header.base else None
    assert header == decode_header(data, NAME)
    assert header == decode_version(data, NAME, base).header
    assert delta == decode_version(data, NAME, base).delta


# Strictness -------------------------------------------------------------------

FIELDS: dict[str, Any] = {
    "kind": "version",
    "run": RUN,
    "number": 6,
    "root": 3,
    "base": 4,
    "base_digest": b"ab",
    "status": "running",
    "at": 1,
    "until": 2,
    "markers": ["m"],
}
NEEDED = {"kind", "run", "number", "root", "status", "at"}


@pytest.mark.parametrize("field", FIELDS)
def test_a_header_field_of_another_type_is_refused(field: str) -> None:
    for wrong in (None, True, -1, 1.5, "text", b"x", [1], {"x": 1}):
        if field == "base_digest" and isinstance(wrong, bytes):
            continue
        if type(wrong) is type(FIELDS[field]) and field == "run":
            continue
        data = seal({**FIELDS, field: wrong}, body())
        with pytest.raises(FormatError, match=rf"header of {NAME}.*{field}"):
            decode_header(data, NAME)
        with pytest.raises(FormatError, match=rf"header of {NAME}.*{field}"):
            decode_version(data, NAME)


@pytest.mark.parametrize("field", FIELDS)
def test_a_header_field_that_is_missing(field: str) -> None:
    data = seal({k: v for k, v in FIELDS.items() if k != field}, body())

    if field in NEEDED:
        with pytest.raises(FormatError, match=f"lacks {field}"):
            decode_version(data, NAME)
    else:
        assert decode_version(data, NAME)


def test_an_unknown_header_field_is_refused() -> None:
    """X-17."""
    with pytest.raises(FormatError, match="unknown fields: zz_new"):
        decode_header(seal({**FIELDS, "zz_new": 1}, body()), NAME)


@pytest.mark.parametrize("kind", ["wait", "continuation", "erased", ""])
def test_an_object_of_another_kind_is_no_version(kind: str) -> None:
    with pytest.raises(FormatError, match="kind"):
        decode_header(seal({**FIELDS, "kind": kind}, body()), NAME)
    with pytest.raises(FormatError):
        decode_version(small(), NAME)


@pytest.mark.parametrize(("field", "value"), [("run", "other"), ("status", "failed")])
def test_header_and_body_must_say_the_same(field: str, value: str) -> None:
    """R-C8, B-11."""
    with pytest.raises(Corrupt):
        decode_version(seal({**FIELDS, field: value}, body()), NAME)


def test_the_header_alone_does_not_look_at_the_body() -> None:
    """R-J1, X-17: what operators and the sweep may read needs neither key nor rows."""
    assert RUN == decode_header(seal(FIELDS, {"sealed": "elsewhere"}), NAME).run_id


def test_a_header_holds_nothing_that_was_said() -> None:
    """R-I5."""
    secret = new_table(said.user("my secret" * 100))
    data = encode_version(replace(FULL, status="running"), diff(None, secret))

    assert b"secret" not in data


# A delta on the wrong table ------------------------------------------------------


def test_a_delta_that_does_not_fit_is_damage() -> None:
    """R-C8: rolled back or swapped objects."""
    before = told(new_table(said.user("1"), said.user("2")), wants("free"))
    grown = Draft(before)
    grown.append(ROOT, said.user("3"))
    delta = diff(before, grown.table())

    with pytest.raises(Corrupt, match=NAME):
        rebuilt(new_table(), delta, NAME)
    with pytest.raises(Corrupt, match=NAME):
        rebuilt(None, delta, NAME)


def test_rows_that_do_not_fit_together_are_refused_by_name() -> None:
    table = one_call(Waiting("w1"))

    assert table is checked(table, NAME)
    with pytest.raises(FormatError, match=f"{NAME} is not a run that can be"):
        checked(replace(table, waits={}), NAME)


# A history, version by version ---------------------------------------------------


class Ledger:
    """Versions in a list: written and read as `ledger.versions` does."""

    def __init__(self) -> None:
        self.objects: dict[int, bytes] = {}
        self.root = 1

    @property
    def newest(self) -> int:
        return max(self.objects, default=0)

    def append(self, steps: dict[int, Table], table: Table) -> None:
        """Write the next version as a delta from one of the tables at hand."""
        number = self.newest + 1
        base = fenwick.base(number, self.root)
        header = Header(
            run_id=table.run.id,
            number=number,
            root=self.root,
            base=base,
            base_digest=None,
            status=table.run.status,
            at=MOMENT,
        )
        delta = diff(steps[base] if base else None, table)
        self.objects[number] = encode_version(header, delta)

    def load(self, number: int) -> dict[int, Table]:
        """Return a version and all that it was rebuilt from."""
        root = decode_header(self.objects[number], NAME).root
        table: Table | None = None
        steps: dict[int, Table] = {}
        for n in reversed(fenwick.chain(number, root)):
            version = decode_version(
                self.objects[n], NAME, table.run if table else None
            )
            assert fenwick.base(n, root) == version.header.base
            table = rebuilt(table, version.delta, NAME)
            steps[n] = table
        checked(steps[number], NAME)
        return steps


def rewritten(table: Table, dice: random.Random) -> Table:
    """Return a run some of whose logs another hand has written anew."""
    draft = Draft(table)
    for frame in table.frames.values():
        if frame.open or dice.random() < 0.5:
            continue
        old = table.logs[frame.id].messages
        keep = dice.randrange(len(old) + 1)
        again = said.Message.read(old[0].text)
        rest = (said.user("summary"), again)[: dice.randrange(1, 3)]
        draft.new_log(frame.id, (*old[:keep], *rest))
    return draft.table()


def same(expected: Table, actual: Table) -> None:
    assert expected == actual
    assert set(expected.agenda) == set(actual.agenda)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(CHOICES, st.integers(0, 2**32))
def test_every_version_is_rebuilt_from_its_chain(choices: list[int], seed: int) -> None:
    """Deltas = full copies: with rewrites, takeovers by other processes, new roots."""
    dice = random.Random(seed)  # noqa: S311 - a schedule, not a secret
    ledger = Ledger()
    whole: dict[int, bytes] = {}
    steps: dict[int, Table] = {}

    def between(_: int, table: Table) -> Table:
        nonlocal steps
        if dice.random() < 0.3:
            return table
        if dice.random() < 0.2 and table.run.status not in ENDED:
            table = rewritten(table, dice)
        if dice.random() < 0.1:
            # Repair or compaction: the tree counts from here again.
            ledger.root = ledger.newest + 1
        ledger.append(steps, table)
        number = ledger.newest
        whole[number] = Continuation(table).to_bytes()
        kept = fenwick.chain(number, ledger.root)
        steps = {n: steps[n] for n in kept if n in steps} | {number: table}
        if dice.random() < 0.3:
            # Another process takes over: all that it has is what it read.
            steps = ledger.load(number)
            table = steps[number]
        return table

    play(begin(choices), choices, between=between)

    for number, copy in whole.items():
        same(Continuation.from_bytes(copy).table, ledger.load(number)[number])


def known(data: bytes) -> RunRow | None:
    """Return the row that a version takes what never changes from."""
    return new_table().run if decode_header(data, NAME).base else None


def test_a_long_run_is_written_a_few_times_and_read_in_a_few_steps() -> None:
    """R-E8: at most log2(n) + 1 objects, a message in at most as many of them."""
    ledger = Ledger()
    steps: dict[int, Table] = {}
    table = new_table()
    for number in range(1, 257):
        draft = Draft(table)
        draft.append(ROOT, said.user(f"<{number}>" + "x" * 250))
        table = draft.table()
        ledger.append(steps, table)
        kept = fenwick.chain(number, 1)
        steps = {n: steps[n] for n in kept if n in steps} | {number: table}

    assert max(len(ledger.load(number)) for number in ledger.objects) <= 9
    copies = [
        sum(
            f"<{number}>" in message.text
            for data in ledger.objects.values()
            for log in decode_version(data, NAME, known(data)).delta.logs.values()
            for message in log.add
        )
        for number in (1, 2, 100, 200, 256)
    ]
    assert max(copies) <= 9
    same(table, ledger.load(256)[256])


def test_what_changed_in_a_tower_is_all_that_is_written() -> None:
    """A claim and one decision cost the rows they touch, a thousand levels deep."""
    table = tower(1000)
    (wait,) = table.waits.values()
    yes = told(
        table, Approved(call=wait.call_id, digest="d1"), Begun(call=wait.call_id)
    )

    delta = diff(table, yes)

    assert (0, 1, 0) == (len(delta.frames), len(delta.calls), len(delta.waits))
    assert (wait.id,) == delta.gone
    assert len(encode_version(FULL, delta)) < 1000
