"""What follows from a fact for the frames around the call."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from continuations.core import messages as said
from continuations.core import soundness, transcript
from continuations.core.calls import Nested, Proposed, Ready, Returned, Waiting
from continuations.core.events import (
    Approved,
    Begun,
    CallReturned,
    Denied,
    Entered,
    Event,
    Expired,
    Interrupted,
    ModelReplied,
    Rejected,
    Reopened,
    Repeated,
    RunStopped,
    UserSaid,
)
from continuations.core.reducer import advance
from continuations.core.run import Failure
from continuations.core.table import ROOT
from continuations.core.usage import Usage
from continuations.errors import IllegalTransition
from tests.core.rows import (
    admitted,
    assistant,
    decided,
    deepest,
    entered,
    gated,
    new_table,
    one_call,
    request,
    says,
    told,
    tower,
    wait_for,
    wants,
)

if TYPE_CHECKING:
    from continuations.core.table import Table

STOP = RunStopped(failure=Failure(code="cancelled", message="by kim"))


def contents(table: Table, frame: str = ROOT) -> list[str]:
    """Return what the tool messages of a frame say."""
    messages = table.logs[frame].messages
    return [message.content for message in messages if message.role == "tool"]


def kind_of(value: object) -> str:
    """Return the name of a test's case."""
    return type(value).__name__


# Replies ----------------------------------------------------------------------


def test_words_end_the_root_and_the_run() -> None:
    table = told(new_table(), says("done"))

    assert ("finished", "done") == (table.run.status, table.run.output)
    assert not table.agenda
    assert ["user", "assistant"] == [m.role for m in table.logs[ROOT].messages]


def test_empty_words_are_an_end_too() -> None:
    assert "" == told(new_table(), says("")).run.output


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_reply_that_was_cut_is_no_answer(finish: str) -> None:
    table = told(new_table(), says("half an ans", finish=finish))

    assert "failed" == table.run.status
    assert table.run.failure is not None
    assert finish == table.run.failure.code
    assert table.run.output is None


def test_a_reply_of_the_wrong_type_fails_the_run() -> None:
    reply = ModelReplied(
        frame=ROOT, message=assistant("x"), usage=Usage(), fault="no invoice"
    )

    table = told(new_table(), reply)

    assert Failure(code="output", message="no invoice") == table.run.failure


def test_calls_are_proposed_in_the_models_order() -> None:
    calls = [request("b", "1", '{"x":'), request("a", "2"), request("b", "1")]
    reply = ModelReplied(
        frame=ROOT, message=assistant("so", *calls), usage=Usage(requests=1)
    )

    table = told(new_table(), reply)

    assert ("c3", "c4", "c5") == table.frames[ROOT].open
    assert ["b", "a", "b"] == [call.tool for call in table.calls.values()]
    assert ["1", "2", "call_c5"] == [c.provider_id for c in table.calls.values()]
    assert '{"x":' == table.calls["c3"].written
    assert all(call.state == Proposed() for call in table.calls.values())


def test_usage_is_summed_over_the_whole_tree() -> None:
    """R-B8."""
    table = told(new_table(), wants("agent"), admitted("c3"), entered("c3"))

    table = told(table, says("below", frame="f4"), says("above"))

    expected = Usage(requests=3, input_tokens=20, output_tokens=4)
    assert expected == table.run.usage


@pytest.mark.parametrize(
    "message", [said.user("x"), said.tool("p0", "x"), said.system("x")]
)
def test_only_an_assistant_replies(message: said.Message) -> None:
    """B-10."""
    reply = ModelReplied(frame=ROOT, message=message, usage=Usage())

    with pytest.raises(IllegalTransition):
        advance(new_table(), reply)


# Batches ----------------------------------------------------------------------


def test_the_model_is_asked_again_when_every_call_has_its_result() -> None:
    """R-D4, deepagentsjs#150: [free, gated, gated]."""
    table = told(new_table(), wants("free", "gated", "gated"))
    table = told(table, admitted("c3"), Begun(call="c3"))
    table = told(table, gated("c4", "w1"), gated("c5", "w2"))

    table = told(table, CallReturned(call="c3", content="one"))
    assert Returned("one") == table.calls["c3"].state
    assert not contents(table)
    assert not table.agenda

    table = told(table, Denied(call="c5", decision=decided(wait_id="w2")))
    assert not contents(table)

    table = told(table, Approved(call="c4", digest="d1"), Begun(call="c4"))
    table = told(table, CallReturned(call="c4", content="two"))
    assert ["one", "two"] == contents(table)[:2]
    assert contents(table)[2].startswith("DENIED")
    assert not table.calls
    assert not table.waits
    assert [ROOT] == list(table.agenda)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_waits_may_be_decided_in_any_order(order: tuple[int, ...]) -> None:
    """R-B6, X-03: the model reads the same, in the order of its calls."""
    table = told(new_table(), wants("a", "b", "c"))
    calls = table.frames[ROOT].open
    for number, call in enumerate(calls):
        table = told(table, gated(call, f"w{number}"))
    endings: list[list[Event]] = [
        [Denied(call=calls[0], decision=decided(wait_id="w0", reason="too much"))],
        [Expired(call=calls[1], decision=decided("expire", "w1"))],
        [
            Approved(call=calls[2], digest="d1"),
            Begun(call=calls[2]),
            CallReturned(call=calls[2], content="ran"),
        ],
    ]
    for index in order:
        table = told(table, *endings[index])

    heads = [text.split()[0] for text in contents(table)]
    assert ["DENIED:", "EXPIRED:", "ran"] == heads
    assert transcript.fault(table.logs[ROOT].messages) is None


def test_a_decision_of_one_wait_leaves_the_others_open() -> None:
    """X-03, R-B6: partial decisions stand."""
    table = told(new_table(), wants("a", "b"))
    table = told(table, gated("c3", "w1"), gated("c4", "w2"))

    table = told(table, Denied(call="c3", decision=decided()))

    assert ["w2"] == list(table.waits)
    assert Waiting("w2") == table.calls["c4"].state


# Agents below -----------------------------------------------------------------


def test_a_sub_agents_last_words_are_the_result_of_its_call() -> None:
    """R-B1, SL-L6."""
    table = told(new_table(), wants("agent"), admitted("c3"), entered("c3"))
    assert Nested("f4") == table.calls["c3"].state
    assert 1 == table.frames["f4"].depth

    table = told(table, says("paid", frame="f4"))

    assert ["paid"] == contents(table)
    assert [ROOT] == list(table.frames) == list(table.logs) == list(table.agenda)


def test_a_thousand_levels_end_one_after_the_other() -> None:
    """R-B1, R-I4: without recursion, upwards to the root."""
    table = tower(1000)
    top = table.frames[deepest(table)]
    assert 999 == top.depth

    call = top.open[0]
    table = told(table, Approved(call=call, digest="d1"), Begun(call=call))
    table = told(table, CallReturned(call=call, content="paid"))
    for frame in reversed(list(table.frames)):
        table = told(table, says("up", frame=frame))

    assert ("finished", "up") == (table.run.status, table.run.output)
    assert [ROOT] == list(table.frames)


def test_a_failing_sub_agent_fails_its_call_and_not_the_run() -> None:
    """SL-L8, X-08: at every level."""
    table = told(new_table(), wants("agent"), admitted("c3"), entered("c3"))

    table = told(table, says("half", frame="f4", finish="length"))

    assert "running" == table.run.status
    assert ["the model's reply was cut off at its length limit"] == contents(table)


def test_two_sub_agents_of_one_turn_keep_their_frames_apart() -> None:
    """R-B2, openai-agents#5141: equal names, equal arguments."""
    table = told(new_table(), wants("agent", "agent"))
    for call in ("c3", "c4"):
        table = told(table, admitted(call), entered(call, "same"))

    table = told(table, says("second", frame="f7"), says("first", frame="f5"))

    assert ["first", "second"] == contents(table)


def test_agents_that_use_up_their_turns_end_level_by_level() -> None:
    """R-B8: with a valid transcript at each."""
    below = Entered(call="c3", agent="below", messages=(said.user("q"),), max_turns=1)
    table = told(new_table(max_turns=1), wants("agent"), admitted("c3"), below)

    table = told(table, wants("free", frame="f4"), admitted("c6"), Begun(call="c6"))
    table = told(table, CallReturned(call="c6", content="late"))

    assert table.run.failure is not None
    assert "max_turns" == table.run.failure.code
    assert "agent hr used all of its 1 turns" in table.run.failure.message
    assert "agent below used all of its 1 turns" in contents(table)[0]
    assert transcript.fault(table.logs[ROOT].messages) is None


# Crashes and edits ------------------------------------------------------------


def test_attempts_are_counted_over_repeats() -> None:
    """R-A7, R-A9."""
    table = told(one_call(Proposed()), admitted("c3", repeatable=True))
    for _ in range(3):
        table = told(table, Begun(call="c3"), Repeated(call="c3"))

    assert 3 == table.calls["c3"].attempts
    assert Ready() == table.calls["c3"].state


def test_an_unknown_outcome_can_be_opened_anew() -> None:
    """B-1: the old wait goes, the new one stands, the rows fit."""
    lost = Interrupted(call="c3", wait=wait_for("c3", "w1", "unknown"))
    table = told(one_call(Ready()), Begun(call="c3"), lost)

    table = told(table, Reopened(call="c3", wait=wait_for("c3", "w2", "unknown")))

    assert ["w2"] == list(table.waits)
    assert soundness.fault(table) is None


def test_an_edit_keeps_the_first_original_and_tells_the_model() -> None:
    """R-C10, X-09, SL-L10."""
    edit = Approved(call="c3", digest="d2", arguments='{"cents":5}')
    again = Approved(call="c3", digest="d3", arguments="{}")
    lost = Interrupted(call="c3", wait=wait_for("c3", "w2", "unknown"))
    table = told(one_call(Waiting("w1")), edit)
    assert ('{"cents":5}', '{"cents":500}', "d2") == (
        table.calls["c3"].arguments,
        table.calls["c3"].original,
        table.calls["c3"].approved,
    )

    table = told(table, Begun(call="c3"), lost, again, Begun(call="c3"))
    call = table.calls["c3"]
    assert ("{}", '{"cents":500}', "d3") == (
        call.arguments,
        call.original,
        call.approved,
    )

    wrong = Rejected(call="c4", code="arguments", content="ERROR")
    table = told(table, wrong, CallReturned(call="c3", content="ran"))

    assert "It was run with {}, not as you wrote it." in contents(table)[0]
    assert contents(table)[0].endswith("\nran")
    asked = table.logs[ROOT].messages[1]
    assert "{}" == asked.requests[0].arguments


def test_a_plain_yes_changes_no_arguments() -> None:
    table = told(one_call(Waiting("w1")), Approved(call="c3", digest="d1"))

    call = table.calls["c3"]
    assert ('{"cents":500}', None, "d1") == (
        call.arguments,
        call.original,
        call.approved,
    )


# The run as a whole -----------------------------------------------------------


def test_cancelling_closes_the_whole_tree() -> None:
    """R-F6, X-10: finished results stay, every transcript is whole."""
    table = told(new_table(), wants("free", "agent", "gated"))
    table = told(table, admitted("c3"), Begun(call="c3"), gated("c5", "w1"))
    table = told(table, CallReturned(call="c3", content="kept"))
    table = told(table, admitted("c4"), entered("c4"))
    table = told(table, wants("gated", "free", frame="f6"))
    inner = table.frames["f6"].open
    table = told(table, gated(inner[0], "w2"), admitted(inner[1]))
    table = told(table, Begun(call=inner[1]))

    table = told(table, STOP)

    assert ("cancelled", STOP.failure) == (table.run.status, table.run.failure)
    assert "kept" == contents(table)[0]
    assert contents(table)[1].startswith("CANCELLED in the middle")
    assert contents(table)[2].startswith("CANCELLED: it was not executed")
    assert "its outcome is not known" in contents(table, "f6")[1]
    assert not table.waits
    assert not table.agenda
    assert soundness.fault(table) is None
    for log in table.logs.values():
        assert transcript.fault(log.messages) is None


def test_a_run_that_is_stopped_for_another_reason_failed() -> None:
    failure = Failure(code="denied", message="transfer was denied")

    assert "failed" == told(new_table(), RunStopped(failure=failure)).run.status


@pytest.mark.parametrize("event", [says("x"), STOP, Begun(call="c3")], ids=kind_of)
def test_whatever_comes_after_the_end_is_too_late(event: Event) -> None:
    with pytest.raises(IllegalTransition, match="comes too late"):
        advance(told(new_table(), says("done")), event)


def test_messages_of_the_inbox_follow_one_another() -> None:
    """R-D8, X-12: never between a call and its result, none twice, none left out."""
    first = UserSaid(number=1, message=said.user("wait"))
    table = told(new_table(), first)
    assert 1 == table.run.inbox

    for late in (first, UserSaid(number=3, message=said.user("gap"))):
        with pytest.raises(IllegalTransition):
            advance(table, late)
    with pytest.raises(IllegalTransition):
        advance(told(table, wants("a")), UserSaid(number=2, message=said.user("x")))


@pytest.mark.parametrize("message", [said.tool("p0", "x"), assistant("I am you")])
def test_nobody_speaks_for_a_tool_or_the_model(message: said.Message) -> None:
    """B-10: an orphan would brick the run."""
    with pytest.raises(IllegalTransition):
        advance(new_table(), UserSaid(number=1, message=message))
