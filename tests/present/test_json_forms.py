"""Each value has one JSON form, and the published schema describes it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import jsonschema_rs
import pytest

from continuations import Agent, ApprovalPolicy, Approve, Runner, errors, tool
from continuations.core.rows.decisions import DECISION_KINDS, Decision
from continuations.core.rows.waits import Wait, WaitSummary
from continuations.engine.sweep.sweeping import SweepResult
from continuations.ledger.arrivals.recorded_decisions import decided_wait_ids
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.present import json_forms, schemas
from continuations.present.json_forms import Report
from continuations.wire.report import to_json, utc_text
from tests.present.schema_check import (
    SCHEMA_FILE,
    assert_matches_schema,
    load_schema,
)

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)


def make_wait(**changed: Any) -> Wait:
    """Return a wait with every field set."""
    values: dict[str, Any] = {
        "id": "approval-01m7xzj8asw1ramfcps55vy294@jane-1",
        "run_id": "jane-1",
        "call_id": "c3",
        "kind": "approval",
        "path": ("hr", "accounts", "transfer"),
        "tool": "transfer",
        "arguments_json": '{"cents":500}',
        "schema_json": '{"type":"object"}',
        "digest": "d",
        "created_at": NOW,
        "deadline": NOW + timedelta(hours=1),
        "valid_for": 60,
        "policy": "two-eyes",
        "note": "new bank account",
    }
    return Wait(**{**values, **changed})


@tool(approval=ApprovalPolicy(expires_after=timedelta(hours=1)))
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def make_runner() -> Runner:
    """Return a runner of an agent that pays after an approval."""
    clerk = Agent(
        "clerk", tools=[pay], model=ScriptedModel([ToolCall("pay", {"cents": 5}), "ok"])
    )
    boss = Agent(
        "boss",
        tools=[clerk],
        model=ScriptedModel([ToolCall("clerk", {"input": "pay"}), "done"]),
    )
    return Runner(boss, store="memory:")


# The schema ----------------------------------------------------------------------


def test_published_schema_equals_the_code() -> None:
    """If not, run `python -m continuations.present.schemas` (see its docstring)."""
    assert schemas.document() == json.loads(SCHEMA_FILE.read_text())


def test_schema_is_valid_and_refuses_unknown_fields() -> None:
    jsonschema_rs.meta.validate(load_schema())
    form = json_forms.wait_json(make_wait())

    assert_matches_schema("wait", form)
    with pytest.raises(jsonschema_rs.ValidationError):
        assert_matches_schema("wait", {**form, "other": 1})


@pytest.mark.parametrize(
    "text", ["2026-11-21T14:00:00+00:00", "2026-11-21 14:00:00Z", "1763733600000", ""]
)
def test_schema_refuses_other_spellings_of_a_moment(text: str) -> None:
    form = {**json_forms.wait_json(make_wait()), "created_at": text}

    with pytest.raises(jsonschema_rs.ValidationError):
        assert_matches_schema("wait", form)


# Moments -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NOW, "2026-11-21T14:00:00.000Z"),
        (NOW + timedelta(microseconds=125_999), "2026-11-21T14:00:00.125Z"),
        (NOW.astimezone(timezone(timedelta(hours=2))), "2026-11-21T14:00:00.000Z"),
    ],
)
def test_moment_is_utc_text_with_milliseconds(moment: datetime, text: str) -> None:
    assert text == utc_text(moment)


# Waits ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "state"), [(0, "open"), (3600, "open"), (3601, "expired")]
)
def test_wait_has_a_state_at_the_time_of_the_report(seconds: int, state: str) -> None:
    form = json_forms.wait_json(make_wait(), now=NOW + timedelta(seconds=seconds))

    assert state == form["state"]
    assert_matches_schema("wait", form)


def test_wait_without_optional_facts_matches_the_schema() -> None:
    wait = make_wait(deadline=None, valid_for=None, policy=None, note=None)

    assert_matches_schema("wait", json_forms.wait_json(wait, now=NOW))


def test_summary_and_notice_are_parts_of_the_wait() -> None:
    """A reader of one form reads the other: equal names have equal values."""
    listed = WaitSummary(id=make_wait().id, expired=True)
    wait = make_wait(created_at=listed.created_at)
    form = json_forms.wait_json(wait, now=NOW + timedelta(days=1))
    short = to_json(listed)
    notice = json_forms.wait_notice_json(wait, with_arguments=False)
    whole = json_forms.wait_notice_json(wait, with_arguments=True)

    assert short.items() <= form.items()
    assert notice.items() <= whole.items() <= form.items()
    assert "arguments" not in notice
    assert {"cents": 500} == whole["arguments"]
    assert_matches_schema("wait_summary", short)
    assert_matches_schema("wait_notice", notice)
    assert_matches_schema("wait_notice", whole)


# Decisions -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(DECISION_KINDS))
def test_decision_matches_the_schema(kind: Any) -> None:
    decision = Decision(
        id="01d", wait_id=make_wait().id, kind=kind, at=NOW, digest="d", by="kim"
    )

    form = to_json(decision)

    assert ("2026-11-21T14:00:00.000Z", "kim") == (form["at"], form["by"])
    assert {"arguments", "value"}.isdisjoint(form)
    assert_matches_schema("decision", form)


@pytest.mark.parametrize("value", [None, "", 0, {"paid": [1]}])
def test_decision_shows_edited_arguments_and_the_value(value: Any) -> None:
    """A value of `null` is a value, so it is shown."""
    decision = Decision(
        id="01d",
        wait_id=make_wait().id,
        kind="answer",
        at=NOW,
        digest="d",
        arguments='{"cents":7}',
        value=json.dumps(value),
    )

    form = to_json(decision)

    assert ({"cents": 7}, value) == (form["arguments"], form["value"])
    assert_matches_schema("decision", form)


# Runs ----------------------------------------------------------------------------


def test_run_and_outcome_match_the_schema_from_start_to_end() -> None:
    runner = make_runner()
    outcomes = [runner.start("go", run_id="j")]
    [wait] = outcomes[0].continuation.waits
    runner.decide(wait.id, Approve())
    outcomes.append(runner.resume("j"))

    forms = [json_forms.outcome_json(outcome, Report(NOW)) for outcome in outcomes]

    assert ["suspended", "finished"] == [form["status"] for form in forms]
    assert [[wait.id], []] == [[each["id"] for each in form["waits"]] for form in forms]
    for form in forms:
        assert_matches_schema("outcome", form)
    for outcome in outcomes:
        report = json.loads(outcome.continuation.to_json())
        assert_matches_schema("continuation", report)


def test_decided_wait_is_not_among_the_open_waits() -> None:
    runner = make_runner()
    [wait] = runner.start("go", run_id="j").continuation.waits
    runner.decide(wait.id, Approve())
    run = runner.look("j")
    decided = asyncio.run(decided_wait_ids(runner.store, run))

    form = json_forms.run_json(run, Report(NOW, decided))

    assert ([], [wait.id]) == (form["waits"], form["decided"])
    assert_matches_schema("run", form)


def test_run_with_its_stack_equals_the_report_of_the_continuation() -> None:
    """`run` with its stack and `Continuation.to_json` have one form for each row."""
    runner = make_runner()
    run = runner.start("go", run_id="j").continuation

    about = Report(NOW, detail="transcript")
    form = json_forms.run_json(run, about, with_stack=True)
    report = json.loads(run.to_json())

    assert_matches_schema("run", form)
    for wait in form["waits"]:
        del wait["state"]
    assert {"decided": [], "reasons": [], **report} == {
        "format": report["format"],
        **form,
    }
    assert ["boss", "clerk"] == [frame["agent"] for frame in form["frames"]]
    assert [None, form["calls"][0]["id"]] == [
        frame["parent_call_id"] for frame in form["frames"]
    ]


def test_failed_run_matches_the_schema() -> None:
    runner = make_runner()
    runner.start("go", run_id="j")
    run = runner.cancel("j", reason="wrong person")

    form = json_forms.run_json(run, Report(NOW))

    assert ("cancelled", "cancelled") == (form["status"], form["failure"]["code"])
    assert_matches_schema("run", form)


def test_sweep_result_names_problems_and_resumed_runs() -> None:
    runner = make_runner()
    outcome = runner.start("go", run_id="j")
    result = SweepResult(
        runs_checked=4,
        resumed=(outcome,),
        errors={
            "a": errors.RunBusy("busy", run_id="a", until=NOW),
            "b": errors.Corrupt("damaged"),
            "c": errors.StoreDenied("denied"),
        },
        skipped={
            "e": errors.AgentChanged("no agent"),
            "d": errors.NewerFormat("newer"),
        },
    )

    form = json_forms.SWEEP_RESULT.of(result)

    assert {
        "runs_checked": 4,
        "resumed": [{"run_id": "j", "status": "suspended"}],
        "failed": {"a": "run-busy", "b": "unreadable", "c": "store-error"},
        "skipped": ["d", "e"],
        "erased": [],
    } == form
    assert_matches_schema("sweep_result", form)
