"""Files of SnapLogic's prototype: reading, adopting, deciding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Continuation,
    Deny,
    Finished,
    Runner,
    Suspended,
    resume,
)
from continuations.errors import DecisionRefused, FormatError, InvalidInput, RunExists
from continuations.interop import snaplogic
from continuations.interop.snaplogic import PausedRun
from tests.engine.agent_builders import tool_results
from tests.interop import snaplogic_files as files
from tests.run_environment import RunEnvironment


def adopted(paused: PausedRun, *, approval: bool = True) -> tuple[Runner, Suspended]:
    """Return a runner on a new store that has adopted a paused run."""
    runner = Runner(files.make_desk(approval=approval), store="memory:")
    outcome = runner.adopt(paused.continuation, run_id="jane-1")
    assert isinstance(outcome, Suspended)
    return runner, outcome


@pytest.mark.parametrize("approval", [True, False])
def test_nested_file_runs_to_its_end_with_each_decision_on_its_own_call(
    environment: RunEnvironment, approval: bool
) -> None:
    """One call is approved and one is denied, by full path; only one of them runs.

    It makes no difference whether the tool of this process needs an approval.
    """
    # Given a file that waits for two approvals, three levels deep
    agent = files.make_desk(approval=approval)
    paused = snaplogic.read(files.nested(), agent)
    runner, outcome = adopted(paused, approval=approval)
    assert [] == environment.effect_names()
    waits = {paused.path_of(wait): wait.id for wait in outcome.waits}
    above = ("call_d", "call_c")
    assert {(*above, "call_1"), (*above, "call_2")} == set(waits)
    assert ("desk", "clerk", "booker", "book") == outcome.waits[0].path

    # When nothing is decided, nothing runs
    assert isinstance(runner.resume("jane-1"), Suspended)
    assert [] == environment.effect_names()

    # When each is decided
    runner.decide(waits[*above, "call_1"], Deny(reason="too late"))
    runner.decide(waits[*above, "call_2"], Approve(by="kim"))
    end = runner.resume("jane-1")

    # Then only the approved one ran, and every agent went on
    assert isinstance(end, Finished)
    assert "desk done" == end.output
    assert ["book LX 9"] == environment.effect_names()
    assert ['{"seats":3}', "clerk done"] == [
        message["content"]
        for message in end.continuation.root.messages
        if message["role"] == "tool"
    ]


def test_file_with_a_requester_is_decided_by_another_person(
    environment: RunEnvironment,
) -> None:
    """A file names no requester, so a policy that excludes the requester needs one."""
    policy = ApprovalPolicy(not_requester=True)
    paused = snaplogic.read(files.nested(), files.make_desk(approval=policy))
    runner = Runner(files.make_desk(approval=policy), store="memory:")

    outcome = runner.adopt(paused.continuation, run_id="jane-1", by="jane")

    assert isinstance(outcome, Suspended)
    for wait in outcome.waits:
        with pytest.raises(DecisionRefused, match="jane requested the run"):
            runner.decide(wait.id, Approve(by="jane"))
        runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(runner.resume("jane-1"), Finished)
    assert ["book LX 8", "book LX 9"] == sorted(environment.effect_names())


def test_false_in_a_file_decides_nothing() -> None:
    agent = files.make_desk()
    paused = snaplogic.read(files.nested(approved=(False, True)), agent)
    _, outcome = adopted(paused)

    decisions = paused.decisions(outcome.waits, by="kim")

    (wait_id,) = decisions
    (wait,) = [each for each in outcome.waits if each.id == wait_id]
    assert {"flight": "LX 9"} == wait.arguments
    assert isinstance(decisions[wait_id], Approve)
    assert "kim" == decisions[wait_id].by


def test_decisions_of_processed_are_not_read() -> None:
    """The prototype writes true there at the last id, also for a rejected call."""
    file = files.flat()
    file["continuation"]["processed"][0]["approved"] = True
    paused = snaplogic.read(file, files.make_desk())

    assert {} == paused.decisions(paused.continuation.waits)


def test_reading_again_gives_the_same_ids_with_and_without_decisions() -> None:
    agent = files.make_desk()
    plain = snaplogic.read(files.nested(), agent)
    approved = snaplogic.read(files.nested(approved=(True, True)), agent)
    runner, outcome = adopted(plain)

    again = runner.adopt(approved.continuation, run_id="jane-1")

    assert isinstance(again, Suspended)
    assert outcome.waits == again.waits
    assert [w.id for w in plain.continuation.waits] == [
        w.id for w in approved.continuation.waits
    ]
    with pytest.raises(RunExists, match="jane-1"):
        runner.adopt(snaplogic.read(files.flat(), agent).continuation, run_id="jane-1")


def test_paused_run_resumes_without_a_store(environment: RunEnvironment) -> None:
    agent = files.make_desk()
    paused = snaplogic.read(json.dumps(files.flat()).encode(), agent)
    data = paused.continuation.to_bytes()
    (wait,) = Continuation.from_bytes(data).waits

    end = resume(data, agent, answers={wait.id: Approve()})

    assert isinstance(end, Finished)
    assert ["book LX 8"] == environment.effect_names()
    results = ["LX 8 has seats", "booked LX 8"]
    assert results == tool_results(end.continuation.root.messages)


def test_rejected_call_never_runs_and_the_agent_goes_on(
    environment: RunEnvironment,
) -> None:
    runner, outcome = adopted(snaplogic.read(files.rejected(), files.make_desk()))
    assert ((), True) == (outcome.waits, outcome.paused)

    end = runner.resume("jane-1")

    assert isinstance(end, Finished)
    assert [] == environment.effect_names()
    (_, denied) = tool_results(end.continuation.root.messages)
    assert denied.startswith("DENIED")


def test_suspended_file_goes_on_with_the_next_resume() -> None:
    runner, outcome = adopted(snaplogic.read(files.suspended(), files.make_desk()))

    assert outcome.paused
    assert 1 == len(runner.sweep().resumed)


def test_calls_that_a_suspension_lost_wait_for_an_approval_again(
    environment: RunEnvironment,
) -> None:
    """The prototype loses pending calls if it suspends on a resume."""
    file = files.flat()
    messages = file["continuation"]["messages"]
    lost = {"continuation": {"messages": messages}, "end_reason": "suspended"}

    runner, outcome = adopted(snaplogic.read(lost, files.make_desk(approval=False)))

    assert isinstance(runner.resume("jane-1"), Suspended)
    assert [] == environment.effect_names()
    (wait,) = outcome.waits
    assert wait.note is not None
    assert "may have been approved" in wait.note


def test_arguments_that_do_not_fit_end_the_call_with_an_error(
    environment: RunEnvironment,
) -> None:
    text = json.dumps(files.flat()).replace('\\"LX 8\\"', "8")
    paused = snaplogic.read(text.encode(), files.make_desk())
    assert () == paused.continuation.waits

    end = resume(paused.continuation, files.make_desk())

    assert isinstance(end, Finished)
    assert [] == environment.effect_names()
    assert "ERROR" in tool_results(end.continuation.root.messages)[1]


def test_results_in_another_order_are_put_in_the_order_of_their_calls() -> None:
    file = files.suspended()
    messages = file["continuation"]["messages"]
    first = messages[2]["tool_calls"][0]
    messages[2]["tool_calls"] = [{**first, "id": "call_x"}, first]
    messages.append({"role": "tool", "tool_call_id": "call_x", "content": "x"})

    paused = snaplogic.read(file, files.make_desk())

    results = tool_results(paused.continuation.root.messages)
    assert ["x", "LX 8 has seats"] == results


def change(file: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Set or, with `...`, delete a value of a file in place."""
    *steps, last = [int(s) if s.isdecimal() else s for s in path.split(".")]
    place: Any = file
    for step in steps:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return file


DEEP = "continuation.resume_request.0.continuation.resume_request.0.continuation"
DEEP_FIELD = (
    r"continuation\.resume_request\[0\]\.continuation\.resume_request\[0\]\."
    r"continuation"
)


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("continuation", ..., r"field continuation is missing"),
        ("continuation", [], r"field continuation must be an object and is a list"),
        ("continuation.messages", [], r"field continuation\.messages is empty"),
        ("continuation.messages.0.role", "boss", r"field continuation\.messages\[0\] "),
        ("continuation.messages.1.content", 7, r"continuation\.messages\[1\]\.content"),
        ("continuation.messages.2.tool_calls.0.id", "", r"tool_calls\[0\]\.id is miss"),
        (f"{DEEP}.resume_request.0.id", "x", DEEP_FIELD + r"\.resume_request\[0\]\.id"),
        (f"{DEEP}.resume_request.1", ..., DEEP_FIELD + r"\.processed\[1\]\.id is not"),
        (
            f"{DEEP}.resume_request.0.function.arguments",
            '{"flight": "LX 1"}',
            r"arguments differs from .*Approve\(arguments",
        ),
        (f"{DEEP}.processed.0.approved", "no", DEEP_FIELD + r"\.processed\[0\]\.appro"),
        (f"{DEEP}.processed.0.id", "x", DEEP_FIELD + r"\.processed\[0\]\.id is not in"),
        ("approval_info.0.path_ids", ["call_1"], r"approval_info\[0\]\.path_ids names"),
        (
            "approval_info.0.approved",
            1,
            r"approval_info\[0\]\.approved must be true or",
        ),
        (
            "approval_info.1.path_ids",
            ["call_d", "call_c", "call_1"],
            r"approval_info\[1\]\.path_ids is listed twice",
        ),
        ("end_reason", "completed", r"field end_reason is 'completed'"),
    ],
)
def test_contradiction_is_refused_by_the_name_of_file_and_field(
    tmp_path: Path, path: str, value: Any, field: str
) -> None:
    file = tmp_path / "jane.json"
    file.write_text(json.dumps(change(files.nested(), path, value)))

    with pytest.raises(FormatError, match=field) as caught:
        snaplogic.read(file, files.make_desk())

    assert str(caught.value).startswith(f"{file} was not read: field ")


def test_completed_file_is_refused_because_nothing_is_paused_in_it() -> None:
    with pytest.raises(FormatError, match="nothing is paused in"):
        snaplogic.read(files.completed(), files.make_desk())


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[1]", b'{"a": 1, "a": 2}'])
def test_file_that_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        snaplogic.read(data, files.make_desk())


def test_missing_file_and_missing_agents_are_named(tmp_path: Path) -> None:
    desk = files.make_desk()
    with pytest.raises(FormatError, match=r"gone\.json"):
        snaplogic.read(tmp_path / "gone.json", desk)
    with pytest.raises(FormatError, match="tool 'clerk', which agent 'desk'"):
        snaplogic.read(files.nested(), Agent("desk"))
    with pytest.raises(InvalidInput, match="agent must be an Agent"):
        snaplogic.read(files.flat(), "desk")  # type: ignore[arg-type]
    (wait,) = snaplogic.read(files.flat(), desk).continuation.waits
    with pytest.raises(InvalidInput, match="belongs to no call of the file"):
        snaplogic.read(files.rejected(), desk).path_of(wait)
