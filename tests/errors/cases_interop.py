"""Adopting runs and reading files of other programs."""

from __future__ import annotations

from continuations import errors
from tests.errors.case import Area, Case

_FILE = """
    import json
    from continuations.interop import snaplogic
    from tests.interop.snaplogic_files import completed, flat, make_desk
    def write(name, value):
        (folder / name).write_text(json.dumps(value))
        return folder / name
    desk = make_desk()
    good = write("good.json", flat())
"""
_APP = """
    (folder / "travel.py").write_text(
        "from tests.interop.snaplogic_files import make_desk\\ndesk = make_desk()\\n")
"""

ADOPTING = Area(
    "Adopting runs",
    (
        Case(
            "snaplogic-source",
            errors.InvalidInput,
            "snaplogic.read(7, desk)",
            "snaplogic.read(good, desk)",
            setup=_FILE,
            names=("source",),
        ),
        Case(
            "cli-adopt-decisions",
            "exit 2",
            'cli("adopt", str(good), "--decisions", "--run-id", "jane-1")',
            """
                cli("adopt", str(good), "--decisions", "--as", "snaplogic",
                    "--app", "travel:desk", "--run-id", "jane-1")
            """,
            setup=_FILE + _APP,
            names=("--decisions", "--as snaplogic"),
        ),
    ),
)

_PROTOTYPE = """
    from continuations.interop.agent_continuations import Agent as Old
    from continuations.interop.agent_continuations import ContinuationAgent
    from continuations.interop.agent_continuations import tool as old_tool
    def pay_somebody(cents: int) -> str:
        "Pay."
        return f"paid {cents}"
    payment = old_tool(need_approval=True)(pay_somebody)
    call = {"name": "pay_somebody", "arguments": {"cents": 5}}
    def serve(*replies):
        server = scene.enter_context(ModelServer({"You pay": replies}))
        os.environ.update(server.environment)
    import os
    from tests.model_server import ModelServer
    serve({"tool_calls": [call]}, {"content": "done"})
    prompt = {"prompt": TASK}
"""

PROTOTYPE = Area(
    "Applications of SnapLogic's prototype",
    (
        Case(
            "prototype-pause",
            errors.InvalidInput,
            'Old("You pay", [payment]).request(prompt)',
            'ContinuationAgent("You pay", [payment]).request(prompt)',
            setup=_PROTOTYPE,
            names=("pay_somebody", "approval"),
        ),
        Case(
            "prototype-agent-tool",
            errors.InvalidInput,
            """
                wrong = old_tool(is_agent=True)(lambda given: "paid")
                ContinuationAgent("You pay", [wrong]).request(prompt)
            """,
            """
                below = ContinuationAgent("You pay", [payment])
                right = below.as_tool("payer", "Pays.")
                ContinuationAgent("You pay", [right]).request(prompt)
            """,
            setup=_PROTOTYPE,
            names=("is_agent", "request"),
        ),
        Case(
            "prototype-failed",
            errors.ContinuationsError,
            'Old("You pay", []).request(prompt)',
            """
                serve({"content": "done"})
                Old("You pay", []).request(prompt)
            """,
            setup=_PROTOTYPE + '    serve({"content": "x", "finish_reason": "length"})',
            names=("failed",),
        ),
    ),
)

_KITS = """
    import pydantic_ai
    from continuations.interop.paused_calls import (
        PausedCall, make_paused_calls, open_calls, read_verdicts)
    from continuations.interop.pydantic_ai import from_pydantic_ai
    from continuations import ApprovalPolicy, AsyncRunner
    import asyncio
    flow = make_paused_calls()
    many = AsyncRunner([flow], store=store)
    call = PausedCall(id="1", tool="refund", arguments={"cents": 5})
    def opened(*calls):
        opening = open_calls(many, calls, kit="own", run_id="a-17", flow=flow)
        return asyncio.run(opening)
    def verdicts():
        return asyncio.run(read_verdicts(many, "a-17", kit="own", flow=flow))
    def refund(cents: int) -> str:
        "Refund."
        return "done"
    strict = pydantic_ai.Tool(refund, requires_approval=True)
"""

KITS = Area(
    "Agents and tools of other kits",
    (
        Case(
            "kit-not-paused",
            errors.InvalidInput,
            "opened()",
            "opened(call)",
            setup=_KITS,
            names=("a-17", "not paused"),
        ),
        Case(
            "kit-not-decided",
            errors.NotFinished,
            "verdicts()",
            """
                asyncio.run(many.decide(outcome.waits[0].id, Approve()))
                verdicts()
            """,
            setup=_KITS + "    outcome = opened(call)",
            names=("a-17", "not decided"),
        ),
        Case(
            "kit-approval-dropped",
            errors.InvalidInput,
            "from_pydantic_ai(strict, approval=False)",
            "from_pydantic_ai(strict)",
            setup=_KITS,
            names=("refund", "approval=False"),
        ),
        Case(
            "agui-thread",
            errors.InvalidInput,
            'agui.app(many, thread="chat-1")',
            "agui.app(many, thread=lambda person, thread_id: many.thread(key=thread_id))",
            setup=_KITS + "    from continuations.interop import agui",
            names=("thread", "str"),
        ),
    ),
)

_CLOUDEVENTS = """
    from continuations.interop.cloudevents import CloudEventForm
    from continuations.serve.notify.webhook import WebhookNotifier
    SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    URL = "https://events.example.com/"
"""

CLOUDEVENTS = Area(
    "CloudEvents and notices",
    (
        Case(
            "cloudevents-mode",
            errors.InvalidInput,
            "CloudEventForm('/runs', mode='batch')",
            "CloudEventForm('/runs', mode='binary')",
            setup=_CLOUDEVENTS,
            names=("mode", "structured", "batch"),
        ),
        Case(
            "webhook-types",
            errors.InvalidInput,
            "WebhookNotifier(URL, SECRET, types=['run.over'])",
            "WebhookNotifier(URL, SECRET, types=['run.ended'])",
            setup=_CLOUDEVENTS,
            names=("types", "run.over", "run.ended"),
        ),
    ),
)

_TRACES = """
    from continuations.interop import otel
    from opentelemetry.sdk.trace import TracerProvider
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    runner = Runner(Agent("clerk", model=ScriptedModel(["done"])), store=store)
    class Seen:
        def session(self): ...
"""

TRACES = Area(
    "Traces",
    (
        Case(
            "trace-context",
            errors.InvalidInput,
            'runner.start("Go.", trace_context={"traceparent": "00-1"})',
            'runner.start("Go.", trace_context={"traceparent": parent})',
            setup=_TRACES,
            names=("trace_context", "traceparent"),
        ),
        Case(
            "trace-context-type",
            errors.InvalidInput,
            'runner.start("Go.", trace_context=7)',
            'runner.start("Go.", trace_context={"traceparent": parent})',
            setup=_TRACES,
            names=("trace_context", "int"),
        ),
        Case(
            "observer-type",
            errors.InvalidInput,
            "runner.observe(7)",
            "runner.observe(Seen())",
            setup=_TRACES,
            names=("observer", "session", "int"),
        ),
        Case(
            "observer-twice",
            errors.InvalidInput,
            "otel.instrument(runner)",
            "otel.instrument(Runner([], store=store))",
            setup=_TRACES + "    otel.instrument(runner)",
            names=("instrument", "twice"),
        ),
        Case(
            "otel-runner",
            errors.InvalidInput,
            "otel.instrument(runner.root_agent())",
            "otel.instrument(runner)",
            setup=_TRACES,
            names=("runner", "Agent"),
        ),
        Case(
            "otel-provider",
            errors.InvalidInput,
            "otel.instrument(runner, tracer_provider=7)",
            "otel.instrument(runner, tracer_provider=TracerProvider())",
            setup=_TRACES,
            names=("tracer_provider", "int"),
        ),
        Case(
            "one-trace-provider",
            errors.InvalidInput,
            "otel.instrument(runner, one_trace=True)",
            """
                sdk = TracerProvider()
                otel.instrument(runner, one_trace=True, tracer_provider=sdk)
            """,
            setup=_TRACES,
            names=("one_trace", "tracer_provider"),
        ),
    ),
)

_A2A = """
    from datetime import timedelta
    from continuations import Agent, AsyncRunner
    from continuations.interop import a2a
    from continuations.models.scripted import ScriptedModel
    url = "https://agents.example.com"
    clerk = Agent("clerk", model=ScriptedModel(["Hello."]))
    clerks = AsyncRunner(clerk, store="memory:")
    secret = "whsec_" + "c2VjcmV0" * 4
"""

A2A = Area(
    "A2A",
    (
        Case(
            "a2a-card",
            errors.InvalidInput,
            'a2a.app(clerks, card={"name": "clerk"})',
            "a2a.app(clerks, card=a2a.card(clerks, url))",
            setup=_A2A,
            names=("card", "AgentCard"),
        ),
        Case(
            "a2a-push-secret",
            errors.InvalidInput,
            'a2a.Push("memory:", secret="hunter2")',
            'a2a.Push("memory:", secret=secret)',
            setup=_A2A,
            names=("secret", "whsec_"),
        ),
        Case(
            "a2a-agent-url",
            errors.InvalidInput,
            'a2a.a2a_agent("agents.example.com", name="clerk")',
            'a2a.a2a_agent(url, name="clerk")',
            setup=_A2A,
            names=("card", "https://"),
        ),
        Case(
            "a2a-card-url",
            errors.InvalidInput,
            'a2a.card(clerks, "agents.example.com")',
            "a2a.card(clerks, url)",
            setup=_A2A,
            names=("url", "https://"),
        ),
        Case(
            "a2a-agent-headers",
            errors.InvalidInput,
            'a2a.a2a_agent(url, name="clerk", headers={"authorization": "x"})',
            """
                send = lambda ctx: {"authorization": "x"}
                a2a.a2a_agent(url, name="clerk", headers=send)
            """,
            setup=_A2A,
            names=("headers", "function", "dict"),
        ),
        Case(
            "a2a-agent-poll",
            errors.InvalidInput,
            'a2a.a2a_agent(url, name="clerk", poll=timedelta(0))',
            'a2a.a2a_agent(url, name="clerk", poll=timedelta(seconds=5))',
            setup=_A2A,
            names=("poll",),
        ),
    ),
)

_SLACK = """
    from continuations import AsyncRunner
    from continuations.interop import slack
    def users(user, team):
        return None
    runner = AsyncRunner([], store="memory:")
"""

SLACK = Area(
    "Slack",
    (
        Case(
            "slack-token",
            errors.InvalidInput,
            'slack.Notifier("C1")',
            'slack.Notifier("C1", token="xoxb-1")',
            setup=_SLACK,
            names=("token", "client"),
        ),
        Case(
            "slack-channel",
            errors.InvalidInput,
            'slack.Notifier("", token="xoxb-1")',
            'slack.Notifier("C1", token="xoxb-1")',
            setup=_SLACK,
            names=("channel",),
        ),
        Case(
            "slack-users",
            errors.InvalidInput,
            'slack.handler(runner, users={}, token="xoxb-1")',
            'slack.handler(runner, users=users, token="xoxb-1")',
            setup=_SLACK,
            names=("users", "dict"),
        ),
    ),
)

_BANK = """
    from mcp.shared.exceptions import MCPError
    from continuations.interop.mcp import McpTools
    from tests.interop.mcp_bank import Bank
    bank = Bank()
    def runner_of(**options):
        script = [ToolCall("pay", {"to": "Jane"}), "done"]
        tools = [McpTools(bank, name="bank", **options)]
        agent = Agent("payer", tools=tools, model=ScriptedModel(script))
        return Runner(agent, store=store, clock=clock)
"""

MCP = Area(
    "Tools of MCP servers",
    (
        Case(
            "mcp-server",
            errors.InvalidInput,
            'McpTools("ftp://bank.example/mcp")',
            'McpTools("https://bank.example/mcp")',
            setup=_BANK,
            names=("server", "URL"),
        ),
        Case(
            "mcp-lost",
            errors.ToolsUnavailable,
            'runner_of().start(TASK, run_id="jane-1")',
            """
                bank.error = None
                runner_of().start(TASK, run_id="jane-1")
            """,
            setup=_BANK + '    bank.error = MCPError(-32000, "closed")',
            names=("bank", "MCPError"),
        ),
        Case(
            "mcp-unknown-tool",
            errors.ToolsUnavailable,
            'runner_of(tool_options={"apy": {}}).start(TASK, run_id="jane-1")',
            'runner_of(tool_options={"pay": {}}).start(TASK, run_id="jane-1")',
            setup=_BANK,
            names=("bank", "apy", "tool_options"),
        ),
        Case(
            "http-tools-unavailable",
            "problem 503 tools-unavailable",
            'http("POST", "/runs", {"input": TASK, "run_id": "jane-1"})',
            """
                bank.error = None
                http("POST", "/runs", {"input": TASK, "run_id": "jane-1"})
            """,
            setup=_BANK
            + """
    bank.error = MCPError(-32000, "closed")
    scene.runner = runner_of()
""",
        ),
    ),
)
