"""Slack: a message for each wait, a modal with the whole call, and its decision."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from continuations import Approve, AsyncRunner, Finished, Identity, Wait
from continuations.models.scripted import ToolCall
from continuations.serve.dispatch import InlineDispatcher
from tests.interop.slack.set_up import make_app, make_notifier, set_up
from tests.interop.slack.waiting_agents import (
    PIN,
    choose,
    choose_any,
    choose_seat,
    make_runner,
    start,
    transfer,
    transfer_call,
)
from tests.interop.slack.web_api import (
    Person,
    SlackApi,
    shown_text,
)


def decision_of(runner: AsyncRunner[Any]) -> Any:
    """Return the only recorded decision."""
    [line] = asyncio.run(runner.audit("r-1"))
    return line


def test_a_message_has_title_deadline_and_one_button(api: SlackApi) -> None:
    """The message names the effect and the run, and shows no argument as such."""
    set_up(api, transfer_call(), [transfer])
    text = shown_text(api.message["blocks"])
    assert "Send €12,400.00 to Meridian" in text
    assert "Requested by mara" in text
    assert "Run r-1" in text
    buttons = [b for b in api.message["blocks"] if b["type"] == "actions"]
    assert [e["text"]["text"] for b in buttons for e in b["elements"]] == ["Review"]
    assert PIN not in str(api.calls)


def test_a_click_shows_the_whole_call_in_private_and_approve_decides(
    api: SlackApi,
) -> None:
    """The run goes on with exactly the call that the modal showed."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    view = kim.review("Your decision")
    text = shown_text(view["blocks"])
    for part in ("Meridian", "1240000", "€12,400.00", "The effect cannot be undone."):
        assert part in text
    assert kim.submit(view, "approve")["response_action"] == "update"
    api.view_with("Recorded: Approved")
    api.wait_until(lambda: "Approved by kim." in shown_text(api.message["blocks"]))
    assert not [b for b in api.message["blocks"] if b["type"] == "actions"]
    line = decision_of(runner)
    assert (line.verdict, line.by, line.door) == ("approve", "kim", "slack")
    assert isinstance(asyncio.run(runner.resume("r-1")), Finished)
    assert PIN not in str(api.calls)


def test_a_denial_has_a_reason(api: SlackApi) -> None:
    """The agent reads the reason."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    kim.submit(kim.review("Your decision"), "deny", "Not this year.")
    api.view_with("Recorded: Denied")
    api.wait_until(lambda: "Denied by kim." in shown_text(api.message["blocks"]))
    line = decision_of(runner)
    assert (line.verdict, line.reason) == ("deny", "Not this year.")


def test_a_question_gets_a_typed_answer(api: SlackApi) -> None:
    """Texts, numbers, choices and truth values have inputs, also inside objects."""
    runner, kim = set_up(api, ToolCall("choose", {}), [choose])
    view = kim.review("Which laptop?")
    errors = kim.submit(view, "answer")["errors"]
    assert len(errors) == 4, errors
    values = {"Model": "M-1", "Count": "2", "Size": "large", "Insured": "Yes"}
    kim.submit(view, "answer", **values)
    api.view_with("Recorded: Answered")
    assert decision_of(runner).verdict == "answer"
    assert isinstance(asyncio.run(runner.resume("r-1")), Finished)
    [result] = [
        m for m in asyncio.run(runner.look("r-1")).root.messages if m["role"] == "tool"
    ]
    assert json.loads(result["content"]) == {
        "model": "M-1",
        "count": 2,
        "size": "large",
        "insured": True,
        "case": {"color": "black"},
    }


def test_a_question_for_a_text_gets_the_text(api: SlackApi) -> None:
    """A plain text needs no JSON."""
    runner, kim = set_up(api, ToolCall("choose_seat", {}), [choose_seat])
    kim.submit(kim.review("Which seat?"), "answer", Answer="12, window")
    api.view_with("Recorded: Answered")
    assert decision_of(runner).verdict == "answer"


def test_a_form_without_inputs_has_a_link_and_nothing_to_submit(api: SlackApi) -> None:
    """Lists of numbers are answered on the page."""
    runner = make_runner(
        ToolCall("choose_any", {}), [choose_any], notify=make_notifier(api)
    )
    asyncio.run(start(runner))

    def link(wait: Wait, person: Identity) -> str:
        return f"https://a/{person.name}/{wait.id}"

    app = make_app(api, runner, link=link)
    view = Person(api=api, app=app).review("does not fit")
    assert "submit" not in view
    assert "https://a/kim/question-" in str(view)


def test_the_dispatcher_resumes_the_run(api: SlackApi) -> None:
    """The run goes on without a sweep."""
    runner = make_runner(transfer_call(), [transfer], notify=make_notifier(api))
    asyncio.run(start(runner))
    app = make_app(api, runner, dispatcher=InlineDispatcher(runner))
    kim = Person(api=api, app=app)
    kim.submit(kim.review("Your decision"), "approve")
    api.view_with("Recorded")
    for _ in range(3000):
        if asyncio.run(runner.look("r-1")).status == "finished":
            break
        asyncio.run(asyncio.sleep(0.02))
    assert asyncio.run(runner.look("r-1")).status == "finished"


def test_a_decision_by_another_door_edits_the_message(api: SlackApi) -> None:
    """The message says who decided; another process knows it by the shared store."""
    runner, _ = set_up(api, transfer_call(), [transfer])
    waits = asyncio.run(runner.look("r-1")).waits
    asyncio.run(runner.decide(waits[0].id, Approve(by="lee")))
    api.wait_until(lambda: "Approved by lee." in shown_text(api.message["blocks"]))
    assert not [b for b in api.message["blocks"] if b["type"] == "actions"]


def test_a_question_is_declined_without_an_answer(api: SlackApi) -> None:
    """The inputs belong to one choice, and no other choice needs them."""
    runner, kim = set_up(api, ToolCall("choose", {}), [choose])
    view = kim.review("Which laptop?")
    assert kim.submit(view, "deny", Model="M-1")["response_action"] == "update"
    api.view_with("Recorded: Denied")
    assert decision_of(runner).verdict == "deny"
