"""Calls of the tools of an MCP server: options, approvals, results and lost replies."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Failed,
    Finished,
    Runner,
    Suspended,
    errors,
    run,
    tool,
)
from continuations.events import CallProgress
from continuations.interop.mcp import McpTools
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Money, Retries, Secret
from tests.clocks import ManualClock
from tests.interop.mcp_bank import SCHEMA, Bank

PIXEL = base64.b64encode(b"\x89PNG").decode()


def payer(tools: McpTools, *more: Any, name: str = "pay", **options: Any) -> Agent:
    """Return an agent that pays Jane with a tool of a server."""
    model = ScriptedModel([ToolCall(name, {"to": "Jane"}), "Done."])
    return Agent("payer", tools=[tools, *more], model=model, **options)


def runner_of(bank: Callable[[], Any], **options: Any) -> Runner:
    """Return a runner whose agent has the tools of a bank."""
    return Runner(payer(McpTools(bank, **options)), store="memory:")


def result_of(outcome: Any) -> str:
    """Return what the model read."""
    text: str = outcome.continuation.root.messages[-2]["content"]
    return text


def waiting(outcome: Any, kind: str) -> Any:
    """Return the wait of a run that waits for one thing."""
    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    assert kind == wait.kind
    return wait


# Options ------------------------------------------------------------------------------


def test_model_calls_a_tool_and_reads_its_result() -> None:
    bank = Bank("pay", "refund")
    agent = payer(McpTools(bank))

    outcome = run(agent, "Pay Jane")

    assert "Done." == outcome.result()
    assert "paid Jane" == result_of(outcome)
    assert {"to": "Jane"} == bank.calls[0].arguments
    model: Any = agent.model
    offered = model.requests[0].tools
    assert [("pay", "Do pay."), ("refund", "Do refund.")] == [
        (each.name, each.description) for each in offered
    ]
    assert SCHEMA == dict(offered[0].parameters)


def test_include_and_prefix_choose_and_rename() -> None:
    bank = Bank("pay", "refund")
    tools = McpTools(bank, include=["pay"], prefix="bank_")
    agent = payer(tools, McpTools(Bank("pay")), name="bank_pay")

    assert "paid Jane" == result_of(run(agent, "Pay"))
    model: Any = agent.model
    assert ["bank_pay", "pay"] == [each.name for each in model.requests[0].tools]
    assert "pay" == bank.calls[0].name


def test_hints_of_the_server_are_effect_flags_and_options_go_first() -> None:
    bank = Bank("pay", readOnlyHint=True)
    bank.add("refund", idempotentHint=True)
    bank.add("close", destructiveHint=False)
    options: Any = {"pay": {"read_only": False, "version": "2"}}
    tools = McpTools(bank, tool_options=options, timeout=5)

    listed = {each.name: each for each in run_list(tools)}

    flags = {n: (each.read_only, each.idempotent) for n, each in listed.items()}
    assert {
        "pay": (False, False),
        "refund": (False, True),
        "close": (False, False),
    } == flags
    assert ("2", 5.0) == (listed["pay"].version, listed["pay"].timeout)


def run_list(tools: McpTools) -> Any:
    """Return the tools of a server."""
    return asyncio.run(tools.list_tools())


def test_secret_arguments_stay_secret() -> None:
    options: Any = {"pay": {"readings": {"to": Secret()}, "summary": "Pay"}}
    runner = runner_of(Bank(), approval=True, tool_options=options)
    wait = waiting(runner.start("Pay", run_id="a"), "approval")
    assert ("Pay", "[secret]") == (wait.title, wait.arguments["to"])


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((5,), {}, "server must be a URL, a command or a function, got int"),
        (("",), {}, "server must be a URL"),
        (("pay 'x",), {}, "server must be a URL"),
        ((list[str](),), {}, "server must be a URL"),
        ((["pay", 5],), {}, "server must be a URL"),
        ((Bank,), {}, "server must be a URL"),
        (("ftp://bank",), {}, "server is not a valid URL"),
        (("https://[bank",), {}, "server is not a valid URL"),
        (("https://kim:1234@bank",), {}, "has a user name or a password in its URL"),
        (("bank",), {"headers": {"a": "b"}}, "headers is only for a URL"),
        (("bank",), {"auth": lambda: None}, "auth is only for a URL"),
        (("https://bank",), {"env": {"a": "b"}}, "env is only for a command"),
        (("https://bank",), {"headers": {"a": 5}}, "headers must be a dict of texts"),
        (("bank",), {"env": "a"}, "env must be a dict of texts"),
        (("bank",), {"include": "pay"}, "include must be a list of names"),
        (("bank",), {"include": [5]}, "each name in include must be a str"),
        (("bank",), {"prefix": 5}, "prefix must be a str"),
        (("bank",), {"name": ""}, "name must be a str"),
        (("bank",), {"tool_options": {"pay": 5}}, "tool_options must be a dict"),
        (("bank",), {"tool_options": {"pay": {"x": 5}}}, "x"),
        (("bank",), {"timeout": "5"}, "timeout"),
        (("bank",), {"approval": "yes"}, "approval"),
    ],
)
def test_invalid_option_is_an_error_when_it_is_given(
    arguments: Any, options: Any, text: str
) -> None:
    with pytest.raises(errors.InvalidInput, match=text.replace("[", r"\[")) as raised:
        McpTools(*arguments, **options)
    assert "1234" not in str(raised.value)


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ("https://bank.example:8443/mcp?key=1234", "bank.example"),
        ("/opt/bank --port 5", "bank"),
        (["python", "bank.py"], "python"),
        (Bank(), "the server"),
    ],
)
def test_name_is_the_host_or_the_command(server: Any, name: str) -> None:
    tools = McpTools(server)
    assert (name, f"<McpTools {name}>") == (tools.name, repr(tools))
    assert "ledger" == McpTools(server, name="ledger").name


def test_options_of_an_unknown_tool_stop_the_worker() -> None:
    """A typing error must not leave a tool without its approval."""
    runner = runner_of(Bank(), tool_options={"apy": {"approval": True}})
    with pytest.raises(errors.ToolsUnavailable, match="does not list the tool apy"):
        runner.start("Pay", run_id="a")


def test_option_that_does_not_fit_the_arguments_stops_the_worker() -> None:
    options: Any = {"pay": {"readings": {"cents": Money("EUR", 100)}}}
    runner = runner_of(Bank(), tool_options=options)
    with pytest.raises(errors.ToolsUnavailable, match="readings must be a dict"):
        runner.start("Pay", run_id="a")


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("a.b", SCHEMA),
        ("x" * 70, SCHEMA),
        ("bad", {"type": "object", "properties": {"to": {"$ref": "https://x/y"}}}),
        ("bad", {"type": "object", "properties": {"to": {"type": 5}}}),
    ],
)
def test_tool_that_no_model_can_call_is_left_out(
    name: str, schema: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bank = Bank("pay")
    bank.add("bad")
    bank.change("bad", name=name, input_schema=schema)
    with caplog.at_level(logging.WARNING, logger="continuations"):
        outcome = runner_of(bank, name="bank").start("Pay", run_id="a")
    assert "paid Jane" == result_of(outcome)
    assert "A tool of bank is left out: " in caplog.text


def test_tools_of_a_server_with_endless_pages_are_unavailable() -> None:
    bank = Bank()
    bank.cursor = "again"
    with pytest.raises(errors.ToolsUnavailable, match="ValueError"):
        runner_of(bank).start("Pay", run_id="a")
    assert 100 == len(bank.requests)


# Approvals ----------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["tools", "tool", "agent"])
@pytest.mark.parametrize(
    "change",
    [
        {"description": "Give all money away."},
        {"input_schema": {**SCHEMA, "required": []}},
        {
            "input_schema": {
                **SCHEMA,
                "properties": {"to": {"type": "string", "description": "Thief"}},
            }
        },
    ],
)
def test_changed_tool_asks_again_while_an_approval_waits(
    where: str, change: Any
) -> None:
    bank = Bank()
    options: Any = {
        "tools": {"approval": ApprovalPolicy(name="all")},
        "tool": {"tool_options": {"pay": {"approval": True}}},
        "agent": {},
    }[where]
    policy: Any = {"approval": ApprovalPolicy()} if where == "agent" else {}
    runner = Runner(payer(McpTools(bank, **options), **policy), store="memory:")
    first = waiting(runner.start("Pay", run_id="a"), "approval")
    runner.decide(first.id, Approve(by="kim"))

    bank.change("pay", **change)
    again = waiting(runner.resume("a"), "approval")

    assert [] == bank.calls
    assert first.id != again.id
    runner.decide(again.id, Approve(by="kim"))
    assert isinstance(runner.resume("a"), Finished)
    assert 1 == len(bank.calls)


def test_tool_that_the_server_dropped_keeps_its_approval() -> None:
    bank = Bank("pay", "refund")
    runner = runner_of(bank, approval=True)
    wait = waiting(runner.start("Pay", run_id="a"), "approval")
    runner.decide(wait.id, Approve(by="kim"))
    pay = bank.tools.pop("pay")
    with pytest.raises(errors.AgentChanged, match="has no tool pay"):
        runner.resume("a")
    bank.tools["pay"] = pay
    assert isinstance(runner.resume("a"), Finished)


# Results ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": []}, "null"),
        ({"content": [], "structuredContent": {"cents": 5}}, '{"cents":5}'),
        (
            {
                "content": [
                    {"type": "text", "text": "one"},
                    {"type": "resource_link", "name": "two", "uri": "file:///two"},
                    {
                        "type": "resource",
                        "resource": {"uri": "file:///three", "text": "three"},
                    },
                ]
            },
            "one\ntwo: file:///two\nthree",
        ),
        (
            {"content": [{"type": "text", "text": "no money"}], "isError": True},
            "ERROR: the tool failed: McpToolError: no money",
        ),
        (
            {"content": [], "isError": True},
            "ERROR: the tool failed: McpToolError: the tool failed and gave no reason",
        ),
    ],
)
def test_result_is_what_the_model_reads(result: Any, text: str) -> None:
    bank = Bank()
    bank.reply = lambda _: types.CallToolResult.model_validate(result)
    assert text == result_of(run(payer(McpTools(bank)), "Pay"))


def test_images_sounds_and_files_are_attachments() -> None:
    bank = Bank()
    blob = {"uri": "file:///b/a%3F.pdf", "blob": PIXEL, "mimeType": "application/pdf"}
    content = [
        {"type": "text", "text": "see"},
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"},
        {"type": "resource", "resource": blob},
    ]
    bank.reply = lambda _: types.CallToolResult.model_validate({"content": content})
    outcome: Any = run(payer(McpTools(bank)), "Pay")
    parts = str(outcome.continuation.root.messages)
    for name in ("image/png", "audio/wav", "application/pdf", "see", "a_3F.pdf"):
        assert name in parts


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "data": "%%%", "mimeType": "image/png"},
        {"type": "image", "data": PIXEL, "mimeType": "no type"},
        {"type": "image", "data": "", "mimeType": "image/png"},
    ],
)
def test_broken_attachment_is_an_error_for_the_model(block: Any) -> None:
    bank = Bank()
    bank.reply = lambda _: types.CallToolResult.model_validate({"content": [block]})
    assert result_of(run(payer(McpTools(bank)), "Pay")).startswith("ERROR: the tool")


def test_error_of_the_protocol_is_an_error_for_the_model() -> None:
    bank = Bank()
    bank.reply = lambda _: MCPError(-32602, "no such account")
    outcome = run(payer(McpTools(bank)), "Pay")
    assert "ERROR: the tool failed: McpToolError: no such account" == result_of(outcome)


def test_result_that_breaks_its_schema_is_an_error_for_the_model() -> None:
    bank = Bank()
    schema = {"type": "object", "properties": {"cents": {"type": "integer"}}}
    bank.change("pay", output_schema=schema)
    bank.reply = lambda _: types.CallToolResult(
        content=[], structured_content={"cents": "five"}
    )
    assert "ERROR: the tool failed: " in result_of(run(payer(McpTools(bank)), "Pay"))


def test_progress_of_the_server_is_progress_of_the_call() -> None:
    bank = Bank()
    bank.progress = 0.5
    seen: list[Any] = []

    def note(event: object) -> None:
        if isinstance(event, CallProgress):
            seen.append(event.value)

    run(payer(McpTools(bank)), "Pay", on_event=note)
    assert [{"progress": 0.5, "total": 1.0, "message": "half"}] == seen


def test_workflow_of_an_agent_with_a_server() -> None:
    """A child waits, and its parent with it."""
    bank = Bank()
    child = payer(McpTools(bank, approval=True))
    model = ScriptedModel([ToolCall("payer", {"input": "Pay"}), "All done."])
    runner = Runner(Agent("boss", tools=[child], model=model), store="memory:")
    wait = waiting(runner.start("Go", run_id="a"), "approval")
    assert ("boss", "payer", "pay") == wait.path
    runner.decide(wait.id, Approve(by="kim"))
    assert "All done." == runner.resume("a").result()


# Lost replies -------------------------------------------------------------------------

LOST = [
    MCPError(types.CONNECTION_CLOSED, "Connection closed"),
    MCPError(types.REQUEST_TIMEOUT, "timed out"),
    MCPError(types.PARSE_ERROR, "no JSON"),
]


@pytest.mark.parametrize("error", LOST)
def test_lost_reply_is_an_unknown_outcome(error: MCPError) -> None:
    bank = Bank()
    bank.reply = lambda _: error
    runner = runner_of(bank, name="bank")

    wait = waiting(runner.start("Pay", run_id="a"), "unknown")
    assert "bank did not reply to the call" in (wait.note or "")
    assert isinstance(runner.resume("a"), Suspended)
    assert 1 == len(bank.calls)

    runner.decide(wait.id, Answer("paid Jane", by="kim"))
    assert "paid Jane" == result_of(runner.resume("a"))
    assert 1 == len(bank.calls)


def test_person_who_knows_that_nothing_happened_lets_the_call_run() -> None:
    bank = Bank()
    bank.reply = lambda _: LOST[0]
    clock = ManualClock()
    runner = Runner(payer(McpTools(bank)), store="memory:", clock=clock)
    wait = waiting(runner.start("Pay", run_id="a"), "unknown")
    bank.reply = lambda _: "paid at last"
    with pytest.raises(errors.DecisionRefused, match="may still be running"):
        runner.decide(wait.id, Approve(by="kim"))
    clock.seconds = 31
    runner.decide(wait.id, Approve(by="kim"))
    assert "paid at last" == result_of(runner.resume("a"))
    assert 2 == len(bank.calls)


def test_lost_reply_of_an_idempotent_tool_is_tried_again() -> None:
    bank = Bank("pay", idempotentHint=True)
    replies: list[Any] = ["paid", LOST[0]]
    bank.reply = lambda _: replies.pop()
    retries: Any = {"pay": {"retries": Retries(1, first_delay=0.01)}}
    outcome = runner_of(bank, tool_options=retries).start("Pay", run_id="a")
    assert "paid" == result_of(outcome)
    assert 2 == len(bank.calls)


def test_slow_server_is_an_unknown_outcome() -> None:
    bank = Bank()
    bank.delay = 5
    runner = runner_of(bank, timeout=0.1)
    wait = waiting(runner.start("Pay", run_id="a"), "unknown")
    assert "did not return within 0.1 s" in (wait.note or "")


def test_other_exception_of_a_tool_may_say_that_its_effect_is_unknown() -> None:
    @tool
    def pay() -> str:
        """Pay."""
        raise errors.EffectUnknown("the bank hung up")

    agent = Agent("a", tools=[pay], model=ScriptedModel([ToolCall("pay"), "Done."]))
    runner = Runner(agent, store="memory:")
    wait = waiting(runner.start("Pay", run_id="a"), "unknown")
    assert "the bank hung up" == wait.note
    runner.decide(wait.id, Answer("paid", by="kim"))
    assert isinstance(runner.resume("a"), Finished)

    again = tool(idempotent=True)(pay.function)
    agent = Agent("a", tools=[again], model=ScriptedModel([ToolCall("pay"), "Done."]))
    outcome = run(agent, "Pay")
    assert "EffectUnknown: the bank hung up" in result_of(outcome)


def test_cancelled_run_of_an_unknown_outcome_ends() -> None:
    bank = Bank()
    bank.reply = lambda _: LOST[0]
    runner = runner_of(bank)
    runner.start("Pay", run_id="a")
    runner.cancel("a")
    assert isinstance(runner.resume("a"), Failed)
