"""Waits, the rules of their kinds, and the digest that an approval is bound to."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from continuations.core.rows.calls import STATE_TYPES
from continuations.core.rows.decisions import VERDICT_KINDS
from continuations.core.rows.wait_rules import WAIT_KINDS, WAIT_RULES, WaitKind
from continuations.core.rows.waits import call_digest
from tests.core.rows import make_frame_wait, make_wait

PARTS = {
    "run_nonce": "n",
    "frame_id": "f1",
    "call_id": "c3",
    "arguments": '{"cents":5}',
    "contract_digest": "d",
}


def call_digest_with(**changes: str) -> str:
    parts = PARTS | changes
    return call_digest(
        run_nonce=parts["run_nonce"],
        frame_id=parts["frame_id"],
        call_id=parts["call_id"],
        arguments=parts["arguments"],
        contract_digest=parts["contract_digest"],
    )


def test_digest_of_equal_parts_is_equal() -> None:
    assert call_digest_with() == call_digest_with()
    assert 64 == len(call_digest_with())


@pytest.mark.parametrize("part", PARTS)
def test_digest_covers_each_part(part: str) -> None:
    """The parts are run, frame, call, arguments and contract of the tool."""
    assert call_digest_with() != call_digest_with(**{part: PARTS[part] + "x"})


def test_digest_separates_its_parts() -> None:
    assert call_digest_with(frame_id="f1", call_id="c3") != call_digest_with(
        frame_id="f1c", call_id="3"
    )


def test_arguments_and_schema_are_copies() -> None:
    wait = make_wait("c3")
    wait.arguments["cents"] = 1
    wait.schema["type"] = "array"

    assert {"cents": 500} == wait.arguments
    assert {"type": "object"} == wait.schema


def test_wait_kinds_match_the_type() -> None:
    tools = {"question", "event", "timer", "external"}
    others = {"approval", "unknown", "model", "operator", "input", "output", "alarm"}
    assert others | tools == WAIT_KINDS == set(get_args(WaitKind))


def test_every_kind_of_wait_has_rules_with_known_states_and_verdicts() -> None:
    assert WAIT_RULES.keys() == WAIT_KINDS
    for rules in WAIT_RULES.values():
        assert rules.call_state in STATE_TYPES or "call" not in rules.subjects
        assert set(rules.verdicts) <= set(VERDICT_KINDS.values())
        assert not rules.allows_edits or "approve" in rules.verdicts


def test_every_verdict_is_offered_with_words_of_its_own() -> None:
    """Pages, mails and the command line take the words for people from the table."""
    words = [
        (kind, each.label, each.meaning)
        for kind, rules in WAIT_RULES.items()
        for each in rules.verdicts.values()
    ]

    assert 16 == len(set(words)) == len(words)
    assert all(text for each in words for text in each)
    assert all("{tool}" in rules.question for rules in WAIT_RULES.values())


def test_the_first_verdict_that_is_offered_never_repeats_a_call() -> None:
    """A person who decides by habit does not repeat a call."""
    first = {
        kind: next(iter(rules.verdicts))
        for kind, rules in WAIT_RULES.items()
        if rules.verdicts
    }

    for kind in ("approval", "input", "output"):
        assert "approve" == first.pop(kind)
    assert {"answer"} == set(first.values())


def test_wait_names_one_subject() -> None:
    waits = [
        make_wait("c3"),
        make_frame_wait("f1"),
        replace(make_wait("c3"), call_id=""),
    ]

    assert ["call", "frame", "run"] == [wait.subject for wait in waits]
    assert [3, 1, 0] == [wait.sort_key()[1] for wait in waits]


def test_wait_has_the_rules_of_its_kind() -> None:
    assert WAIT_RULES["unknown"] is make_wait("c3", kind="unknown").rules
