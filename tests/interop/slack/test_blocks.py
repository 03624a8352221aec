"""Every block is one that Slack accepts; nothing is cut."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from continuations import Agent, ApprovalPolicy, AsyncRunner, Suspended, tool
from continuations.core.rows.wait_rules import WAIT_RULES, WaitKind
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.interop.slack.modal import Origin, read_submission, review_modal
from continuations.interop.slack.posting import ended_message, open_message
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.decision_bodies import decision_from_fields
from continuations.serve.pages.decision_view import Decider, decider_of
from continuations.serve.wait_texts import escape_invisible
from tests.interop.slack.set_up import make_app, make_notifier, set_up
from tests.interop.slack.waiting_agents import transfer, transfer_call
from tests.interop.slack.web_api import (
    Person,
    SlackApi,
    check_blocks,
    check_view,
    shown_text,
)
from tests.sampling import examples
from tests.serve.notify.receivers import make_wait

ASKING = [kind for kind in get_args(WaitKind) if WAIT_RULES[kind].asks_person]
NOW = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
LINK = "https://agents.example.com/d/token"


def modal(wait: Any, decider: Decider | None = None, **options: Any) -> dict[str, Any]:
    shown = review_modal(
        wait,
        decider or decider_of(wait, "kim"),
        now=NOW,
        origin=Origin("C1", "1.1", "Title"),
        link=lambda: LINK,
        **options,
    )
    check_view(shown)
    return shown


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=400),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=20), inner, max_size=4)
    ),
    max_leaves=10,
)
arguments_of = st.dictionaries(st.text(max_size=30), values, max_size=60)


@settings(max_examples=examples(300), deadline=None)
@given(arguments=arguments_of, tool_name=st.text(min_size=1, max_size=200))
def test_every_block_is_valid_and_no_argument_is_cut(
    arguments: dict[str, Any], tool_name: str
) -> None:
    """Either each argument is whole, or there is a link and nothing to submit."""
    text = json.dumps(arguments)
    wait = make_wait(
        arguments_json=text, tool=tool_name.encode("utf-8", "replace").decode()
    )
    for with_title in (True, False):
        message = open_message(wait, with_title=with_title)
        check_blocks(message.blocks)
        check_blocks(ended_message("Title", wait.run_id, "Approved by kim.").blocks)
    view = modal(wait)
    shown = shown_text(view["blocks"])
    if "submit" not in view:
        assert LINK in str(view)
        return
    for name, value in arguments.items():
        is_plain = name and name == name.strip()
        own = escape_invisible(name if is_plain else json.dumps(name))
        assert own in shown
        if isinstance(value, str):
            whole = escape_invisible(json.dumps(value, ensure_ascii=False))
            lines = map(escape_invisible, value.split("\n"))
            assert whole in shown or all(line in shown for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        {"page": "x" * 3001},
        {"page": "&" * 700},
        {"page": "\U0001f600" * 1501},
        {f"a{n}": "v" for n in range(60)},
        {f"a{n}": "v" * 2900 for n in range(5)},
    ],
)
def test_a_call_over_a_limit_has_a_link_and_no_inputs(
    arguments: dict[str, Any],
) -> None:
    """A section, the number of blocks and the total have limits."""
    view = modal(make_wait(arguments_json=json.dumps(arguments)))
    assert "submit" not in view
    assert LINK in str(view)
    assert not [block for block in view["blocks"] if block["type"] == "input"]


def test_a_call_just_within_the_limits_is_whole() -> None:
    """The largest section is shown."""
    view = modal(make_wait(arguments_json=json.dumps({"page": "x" * 3000})))
    assert "submit" in view
    assert "x" * 3000 in shown_text(view["blocks"])


def test_without_a_link_a_large_call_names_the_console() -> None:
    """A person learns where to decide."""
    wait = make_wait(arguments_json=json.dumps({"page": "x" * 9000}))
    view = review_modal(
        wait, decider_of(wait, "kim"), now=NOW, origin=Origin(), link=None
    )
    assert "Decide it in the console." in shown_text(view["blocks"])


@pytest.mark.parametrize("kind", ASKING)
def test_each_kind_that_asks_a_person_has_a_message_and_its_choices(kind: Any) -> None:
    """The words are those of the pages."""
    wait = make_wait(id=f"{kind}-01kaj0000000000000000000aa@jane-1", kind=kind)
    check_blocks(open_message(wait, with_title=True).blocks)
    view = modal(wait)
    [choice] = [b for b in view["blocks"] if b.get("block_id") == "choice"]
    offered = [option["value"] for option in choice["element"]["options"]]
    rules = WAIT_RULES[kind]
    expected = [
        v for v in rules.verdicts if not (v == "answer" and rules.follows_policy)
    ]
    assert offered == expected
    assert "initial_option" not in choice["element"]


def test_an_output_of_an_agent_is_decided_in_slack(api: SlackApi) -> None:
    """A guardrail asks; the person reads the whole text."""

    def promises(reply: Any) -> Tripped | None:
        return Tripped("it promises money") if "refund" in reply.text else None

    ask = Guardrail(check=promises, on_trip="ask")
    agent = Agent(
        "letters",
        model=ScriptedModel(["You get a refund of 20 EUR."]),
        guardrails=Guardrails(output=[ask]),
    )
    runner: Any = AsyncRunner(agent, store="memory:", notify=make_notifier(api))
    assert isinstance(asyncio.run(runner.start("Answer", run_id="r-1")), Suspended)
    kim = Person(api=api, app=make_app(api, runner))
    view = kim.review("You get a refund of 20 EUR.")
    kim.submit(view, "approve")
    api.view_with("Recorded: Approved")


def test_an_unknown_outcome_is_settled_in_slack(api: SlackApi) -> None:
    """The result is asked for only with the claim that the call happened."""

    @tool(timeout=0.05)
    async def pay(to: str) -> str:
        """Pay."""
        await asyncio.sleep(60)
        return f"paid {to}"

    runner, kim = set_up(api, ToolCall("pay", {"to": "Jane"}), [pay])
    view = kim.review("did it happen?")
    assert "You checked that the call had its effect" in shown_text(view["blocks"])
    errors = kim.submit(view, "answer")["errors"]
    assert list(errors) == ["field-0"]
    kim.submit(view, "answer", Result="paid Jane")
    api.view_with("Recorded: It happened")
    [line] = asyncio.run(runner.audit("r-1"))
    assert line.verdict == "answer"


def test_a_secret_argument_is_withheld(api: SlackApi) -> None:
    """The modal shows that there is one."""
    _, kim = set_up(api, transfer_call(), [transfer])
    assert "[secret]" in shown_text(kim.review("Your decision")["blocks"])


def test_an_approval_has_its_form(api: SlackApi) -> None:
    """The form of a policy is filled in before the approval is recorded."""

    class Checked(BaseModel):
        ticket: str
        urgent: bool = False

    @tool(approval=ApprovalPolicy(form=Checked))
    def pay(to: str) -> str:
        """Pay."""
        return f"paid {to}"

    runner, kim = set_up(api, ToolCall("pay", {"to": "Jane"}), [pay])
    view = kim.review("Your decision")
    assert kim.submit(view, "approve")["response_action"] == "errors"
    kim.submit(view, "approve", Ticket="T-7", Urgent=["Yes"])
    api.view_with("Recorded: Approved")
    assert runner is not None


schemas = st.fixed_dictionaries(
    {},
    optional={
        "text": st.just(({"type": "string"}, "a text")),
        "count": st.just(({"type": "integer"}, "12")),
        "rate": st.just(({"type": "number"}, "1.5")),
        "day": st.just(({"type": "string", "format": "date"}, "2026-11-24")),
        "size": st.just(({"enum": ["s", 1, None]}, "1")),
        "unit": st.just(({"enum": ["R&D", "<b>&lt;"]}, "<b>&lt;")),
        "sure": st.just(({"type": "boolean"}, "No")),
        "fine": st.just(({"type": "boolean", "default": True}, ["Yes"])),
        "days": st.just(
            ({"type": "array", "items": {"enum": ["mo", "tu", "we"]}}, ["mo", "we"])
        ),
    },
)
EXPECTED: dict[str, Any] = {
    "text": "a text",
    "count": 12,
    "rate": 1.5,
    "day": "2026-11-24",
    "size": 1,
    "unit": "<b>&lt;",
    "sure": False,
    "fine": True,
    "days": ["mo", "we"],
}


@settings(max_examples=examples(120), deadline=None)
@given(chosen=schemas.filter(bool), nested=st.booleans())
def test_a_submitted_form_is_the_value(
    chosen: dict[str, tuple[dict[str, Any], Any]], *, nested: bool
) -> None:
    """Each schema of the subset gives inputs, and a submission gives the value."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: each[0] for name, each in chosen.items()},
        "required": list(chosen),
    }
    value: Any = {name: EXPECTED[name] for name in chosen}
    if nested:
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
        value = {"a": value}
    wait = make_wait(
        id="question-01kaj0000000000000000000aa@jane-1",
        kind="question",
        answer_schema_json=json.dumps(schema),
        question="Which?",
    )
    view = modal(wait)
    person = Person(api=SlackApi(), app=None)  # type: ignore[arg-type] # it sends nothing
    entered = {name.capitalize(): each[1] for name, each in chosen.items()}
    payload = person.submission(view, "answer", **entered)
    submission = read_submission(payload["view"])
    assert submission.errors == {}
    decision: Any = decision_from_fields(submission.fields, "kim")
    assert decision.verdict.value == value
    assert decision.shown == wait.digest
