"""Runner options, starting, resuming, sending, cancelling and looking."""

from __future__ import annotations

from continuations.errors import (
    AgentChanged,
    ClockOff,
    ContinuationsError,
    InvalidId,
    InvalidInput,
    NotFinished,
    PriceUnknown,
    RunBusy,
    RunExists,
    RunFailed,
    RunNotFound,
    StaleRun,
    StoreUnavailable,
    TranscriptInvalid,
    VersionNotFound,
)
from tests.errors.case import Area, Case

# A call that needs no approval; the worker stops before it begins.
_ACCEPTED_CALL = """
                script = [ToolCall("book", {"room": "1"}), "done"]
                runner = Runner(clerk(book, script=script), store=store, clock=clock)
                pauses = iter([False, False])
                runner.start(
                    TASK, run_id="jane-1", should_pause=lambda: next(pauses, True)
                )
"""
_SUB_AGENT = """
                def boss(*tools):
                    script = [ToolCall("clerk", {"input": "pay"}), "done"]
                    return Agent("boss", tools=tools, model=ScriptedModel(script))
                runner = Runner(boss(clerk()), store=store, clock=clock)
                wait = start("jane-1", runner)
"""

OUTCOMES = Area(
    "Outcomes, and calls in the manner of other packages",
    (
        Case(
            "outcome-suspended",
            NotFinished,
            "outcome.result()",
            """
                runner.decide(outcome.waits[0].id, Approve(by="kim"))
                runner.resume("jane-1").result()
            """,
            setup='outcome = runner.start(TASK, run_id="jane-1")',
            names=("approval (pay)", "resume('jane-1')"),
        ),
        Case(
            "outcome-stored",
            NotFinished,
            "outcome.result()",
            'runner.resume("jane-1")',
            setup='outcome = runner.start(TASK, run_id="jane-1", work=False)',
            names=("no worker runs", "resume('jane-1')"),
        ),
        Case(
            "outcome-cancelled",
            RunFailed,
            'runner.resume("jane-1").result()',
            'runner.start(TASK, run_id="jane-2")',
            setup='start(); runner.cancel("jane-1")',
            names=("cancelled", "Start a new run"),
        ),
        Case(
            "decide-with-a-run",
            InvalidInput,
            'runner.decide("jane-1", wait.id, Approve(by="kim"))',
            'runner.decide(wait.id, Approve(by="kim"))',
            setup="wait = start()",
            names=("decide(wait_id, Approve(by=...))",),
        ),
        Case(
            "plain-for",
            InvalidInput,
            "list(AsyncRunner(clerk(), store=store).waiting())",
            "list(runner.waiting())",
            names=("async for", "Runner"),
        ),
    ),
)
OPTIONS = Area(
    "Runner options",
    (
        Case(
            "runner-agents",
            InvalidInput,
            'Runner("1", store="memory:")',
            'Runner(clerk(), store="memory:"); Runner([clerk()], store="memory:")',
            names=("agents", "'1'"),
        ),
        Case(
            "runner-store",
            InvalidInput,
            "Runner(clerk(), store=5)",
            'Runner(clerk(), store="memory:"); Runner(clerk(), store=folder)',
            names=("store",),
        ),
        Case(
            "runner-on-event",
            InvalidInput,
            "Runner(clerk(), store=folder, on_event=5)",
            "Runner(clerk(), store=folder, on_event=print)",
            names=("on_event", "int"),
        ),
        Case(
            "stream-outcome-too-early",
            ContinuationsError,
            "stream.outcome",
            "list(stream); stream.outcome",
            setup="""
                stream = Runner(clerk(), store=folder).stream(TASK)
            """,
            names=("stream.outcome",),
        ),
        Case(
            "stream-outcome-after-a-break",
            ContinuationsError,
            "stream.outcome",
            """
                again = Runner(clerk(), store=folder).resume_stream("r1")
                list(again); again.outcome
            """,
            setup="""
                stream = Runner(clerk(), store=folder).stream(TASK, run_id="r1")
                for event in stream: break
            """,
            names=("stream.outcome", "resume_stream"),
        ),
        Case(
            "stream-iterated-twice",
            ContinuationsError,
            "list(stream)",
            """
                events = list(Runner(clerk(), store=folder).stream(TASK))
                assert events
            """,
            setup="""
                stream = Runner(clerk(), store=folder).stream(TASK)
                list(stream)
            """,
            names=("stream", "list(stream)"),
        ),
        Case(
            "runner-on-event-parameters",
            InvalidInput,
            "Runner(clerk(), store=folder, on_event=lambda run, event: None)",
            "Runner(clerk(), store=folder, on_event=lambda event: None)",
            names=("on_event", "<lambda>(run, event)"),
        ),
        Case(
            "input-of-pairs",
            InvalidInput,
            'run(clerk(), [("user", TASK)])',
            'run(clerk(), [{"role": "user", "content": TASK}])',
            names=("input[0]", "tuple"),
        ),
        Case(
            "runner-store-url",
            InvalidInput,
            'Runner(clerk(), store="runs")',
            'Runner(clerk(), store="file:runs")',
            names=("store", "runs", "file:runs"),
        ),
        Case(
            "runner-lease",
            InvalidInput,
            'Runner(clerk(), store="memory:", lease=0)',
            'Runner(clerk(), store="memory:", lease=0.1)',
            names=("lease",),
        ),
        Case(
            "runner-lease-for-store",
            InvalidInput,
            'Runner(clerk(), store="s3://bucket/runs", lease=2.5)',
            'Runner(clerk(), store="s3://bucket/runs", lease=3)',
            names=("lease", "2.5", "3 seconds"),
        ),
        Case(
            "drift-without-agents",
            InvalidInput,
            "list(Runner([], store=folder).drift())",
            "list(Runner([clerk()], store=folder).drift())",
            names=("drift", "Runner([agent]"),
        ),
        Case(
            "runner-renamed",
            InvalidInput,
            'Runner(clerk(), store="memory:", renamed=["pay"])',
            'Runner(clerk(), store="memory:", renamed={"office": "clerk"})',
            names=("renamed", "pay"),
        ),
        Case(
            "runner-renamed-circle",
            InvalidInput,
            'Runner(clerk(), store="memory:", renamed={"a": "b", "b": "a"})',
            'Runner(clerk(), store="memory:", renamed={"a": "b", "b": "clerk"})',
            names=("renamed", "b -> a -> b"),
        ),
        Case(
            "runner-renamed-unknown",
            InvalidInput,
            'Runner(clerk(), store="memory:", renamed={"office": "clark"})',
            'Runner(clerk(), store="memory:", renamed={"office": "clerk"})',
            names=("renamed", "office", "clark"),
        ),
        Case(
            "runner-renamed-ambiguous",
            InvalidInput,
            'Runner([clerk(), other], store="memory:", renamed={"clerk": "cashier"})',
            'Runner([other], store="memory:", renamed={"clerk": "cashier"})',
            setup='other = Agent("cashier")',
            names=("renamed", "clerk", "cashier", "the root agents"),
        ),
        Case(
            "runner-max-attempts",
            InvalidInput,
            'Runner(clerk(), store="memory:", max_attempts=0)',
            'Runner(clerk(), store="memory:", max_attempts=1)',
            names=("max_attempts",),
        ),
        Case(
            "runner-max-model-failures",
            InvalidInput,
            'Runner(clerk(), store="memory:", max_model_failures=0)',
            'Runner(clerk(), store="memory:", max_model_failures=None)',
            names=("max_model_failures",),
        ),
        Case(
            "runner-context-type",
            InvalidInput,
            'Runner(clerk(), store="memory:", context_type="Session")',
            'Runner(clerk(), store="memory:", context_type=dict)',
            names=("context_type",),
        ),
        Case(
            "run-context",
            InvalidInput,
            'Runner(clerk(), store="memory:", context_type=dict).start(TASK)',
            'Runner(clerk(), store="memory:", context_type=dict).start(TASK, context={})',
            names=("context", "dict", "NoneType"),
        ),
        Case(
            "run-should-pause",
            InvalidInput,
            'Runner(clerk(), store="memory:").start(TASK, should_pause=5)',
            'Runner(clerk(), store="memory:").start(TASK, should_pause=lambda: True)',
            names=("should_pause", "5"),
        ),
        Case(
            "run-max-depth",
            InvalidInput,
            "run(clerk(), TASK, max_depth=0)",
            "run(clerk(), TASK, max_depth=1)",
            names=("max_depth",),
        ),
        Case(
            "start-empty-input",
            InvalidInput,
            'run(clerk(), "")',
            "run(clerk(), TASK)",
            names=("input",),
        ),
        Case(
            "runner-max-depth",
            InvalidInput,
            'Runner(clerk(), store="memory:", max_depth=0)',
            'Runner(clerk(), store="memory:", max_depth=1)',
            names=("max_depth",),
        ),
        Case(
            "runner-model-retry-time",
            InvalidInput,
            'Runner(clerk(), store="memory:", model_retry_time=timedelta(days=1))',
            'Runner(clerk(), store="memory:", model_retry_time=timedelta(minutes=1))',
            names=("model_retry_time",),
        ),
        Case(
            "runner-notify",
            InvalidInput,
            'Runner(clerk(), store="memory:", notify="kim@example.com")',
            'Runner(clerk(), store="memory:", notify=print)',
            names=("notify",),
        ),
        Case(
            "runner-clock",
            InvalidInput,
            'Runner(clerk(), store="memory:", clock=datetime)',
            'Runner(clerk(), store="memory:", clock=clock)',
            names=("clock", "elapsed"),
        ),
        Case(
            "runner-ids",
            InvalidInput,
            'Runner(clerk(), store="memory:", ids=object())',
            'Runner(clerk(), store="memory:", ids=None)',
            names=("ids", "ulid"),
        ),
        Case(
            "serve-forever-interval",
            InvalidInput,
            "runner.serve_forever(interval=0)",
            """
                async def serve(stop):
                    stop.set()
                    await runner.async_runner.serve_forever(interval=0.1, stop=stop)
                await_(serve(asyncio.Event()))
            """,
            names=("interval",),
        ),
        Case(
            "serve-forever-max-concurrent-runs",
            InvalidInput,
            "runner.serve_forever(max_concurrent_runs=0)",
            """
                async def serve(stop):
                    stop.set()
                    await runner.async_runner.serve_forever(max_concurrent_runs=1, stop=stop)
                await_(serve(asyncio.Event()))
            """,
            names=("max_concurrent_runs",),
        ),
        Case(
            "serve-forever-stop",
            InvalidInput,
            "await_(runner.async_runner.serve_forever(stop=True))",
            """
                async def serve(stop):
                    stop.set()
                    await runner.async_runner.serve_forever(stop=stop)
                await_(serve(asyncio.Event()))
            """,
            names=("stop", "asyncio.Event"),
        ),
    ),
)

_NESTED = """
    def nested(levels):
        content = TASK
        for _ in range(levels): content = [content]
        return content
"""

_PRICES = """
    from continuations.prices import Price, Prices
    price = Price(input="0.25", output="2")
    prices = Prices({"scripted": price})
"""

STARTING = Area(
    "Starting a run",
    (
        Case(
            "start-labels",
            InvalidInput,
            'runner.start(TASK, labels=["finance"])',
            'runner.start(TASK, labels={"team": "finance"})',
            names=("labels", "finance"),
        ),
        Case(
            "start-label",
            InvalidInput,
            'runner.start(TASK, labels={"team": "human resources"})',
            'runner.start(TASK, labels={"team": "hr"}, title="human resources")',
            names=("label", "team", "title"),
        ),
        Case(
            "start-too-many-labels",
            InvalidInput,
            'runner.start(TASK, labels={f"label{n}": "x" for n in range(17)})',
            'runner.start(TASK, labels={f"label{n}": "x" for n in range(16)})',
            names=("labels", "17", "16"),
        ),
        Case(
            "start-settings",
            InvalidInput,
            'runner.start(TASK, settings="low")',
            'runner.start(TASK, settings={"temperature": 0})',
            names=("settings",),
        ),
        Case(
            "start-reserved-settings",
            InvalidInput,
            'runner.start(TASK, settings={"model": "gpt-5"})',
            "runner.start(TASK, settings={})",
            names=("settings", "model"),
        ),
        Case(
            "start-settings-of-a-client",
            InvalidInput,
            'runner.start(TASK, settings={"api_key": "k"})',
            'OpenAIChat("gpt-5", api_key="k")',
            setup="from continuations.models.openai_chat import OpenAIChat",
            names=("settings", "api_key", "OpenAIChat"),
        ),
        Case(
            "start-settings-no-json",
            InvalidInput,
            'runner.start(TASK, settings={"stop": {"a"}})',
            'runner.start(TASK, settings={"stop": ["a"]})',
            names=("settings", "JSON"),
        ),
        Case(
            "start-long-settings",
            InvalidInput,
            'runner.start(TASK, settings={"metadata": "x" * 30_000})',
            'runner.start("x" * 30_000, settings={"metadata": "x"})',
            names=("settings", "20,000"),
        ),
        Case(
            "start-title",
            InvalidInput,
            'runner.start(TASK, title="Pay\\nJane")',
            'runner.start(TASK, title="Pay Jane")',
            names=("title",),
        ),
        Case(
            "start-run-id",
            InvalidId,
            'runner.start(TASK, run_id="Jane Doe")',
            'runner.start(TASK, run_id="jane-doe")',
            names=("run_id", "Jane Doe"),
        ),
        Case(
            "start-empty-list",
            InvalidInput,
            "runner.start([])",
            'runner.start([{"role": "user", "content": TASK}])',
            names=("input",),
        ),
        Case(
            "start-input-type",
            InvalidInput,
            "runner.start(5)",
            "runner.start(TASK)",
            names=("input",),
        ),
        Case(
            "start-message-without-role",
            InvalidInput,
            'runner.start([{"content": TASK}])',
            'runner.start([{"role": "user", "content": TASK}])',
            names=("input[0]", "role"),
        ),
        Case(
            "start-message-of-unknown-role",
            InvalidInput,
            'runner.start([{"role": "boss", "content": TASK}])',
            'runner.start([{"role": "user", "content": TASK}])',
            names=("input[0]", "role", "user"),
        ),
        Case(
            "start-message-without-content",
            InvalidInput,
            'runner.start([{"role": "user", "content": ""}])',
            'runner.start([{"role": "user", "content": TASK}])',
            names=("input[0]", "content"),
        ),
        Case(
            "start-tool-message-without-id",
            InvalidInput,
            'runner.start([{"role": "tool", "content": "paid"}])',
            'runner.start([{"role": "user", "content": TASK}])',
            names=("input[0]", "tool_call_id"),
        ),
        Case(
            "start-message-that-is-no-json",
            InvalidInput,
            'runner.start([{"role": "user", "content": (TASK,)}])',
            'runner.start([{"role": "user", "content": TASK}])',
            names=("input[0]",),
        ),
        Case(
            "start-message-key",
            InvalidInput,
            'runner.start([{"role": "user", "content": [{1: TASK}]}])',
            'runner.start([{"role": "user", "content": TASK}])',
            names=("input[0]", "1"),
        ),
        Case(
            "start-message-too-deep",
            InvalidInput,
            'runner.start([{"role": "user", "content": nested(300)}])',
            'runner.start([{"role": "user", "content": nested(3)}])',
            setup=_NESTED,
            names=("input[0]", "200"),
        ),
        Case(
            "start-message-far-too-deep",
            InvalidInput,
            'runner.start([{"role": "user", "content": nested(100_000)}])',
            'runner.start([{"role": "user", "content": nested(3)}])',
            setup=_NESTED,
            names=("input[0]", "200"),
        ),
        Case(
            "start-tool-calls-type",
            InvalidInput,
            'runner.start([{"role": "assistant", "tool_calls": "pay"}])',
            'runner.start([{"role": "user", "content": TASK}])',
            names=("input[0]", "tool_calls"),
        ),
        Case(
            "start-tool-call-without-name",
            InvalidInput,
            'runner.start([{"role": "assistant", "tool_calls": [{"id": "a"}]}])',
            'runner.start([{"role": "user", "content": TASK}])',
            names=("input[0]", "name"),
        ),
        Case(
            "start-conversation-without-result",
            InvalidInput,
            'runner.start([*asked, {"role": "user", "content": TASK}])',
            """
                result = {"role": "tool", "tool_call_id": "a", "content": "paid"}
                runner.start([*asked, result])
            """,
            setup="""
                call = {"id": "a", "type": "function",
                        "function": {"name": "pay", "arguments": "{}"}}
                asked = [{"role": "user", "content": TASK},
                         {"role": "assistant", "tool_calls": [call]}]
            """,
            names=("input",),
        ),
        Case(
            "start-budget-type",
            InvalidInput,
            "runner.start(TASK, budget=1000)",
            "runner.start(TASK, budget=Budget(tokens=1000))",
            names=("budget",),
        ),
        Case(
            "start-budget-of-zero",
            InvalidInput,
            "runner.start(TASK, budget=Budget(requests=0))",
            "runner.start(TASK, budget=Budget(requests=1))",
            names=("budget", "requests"),
        ),
        Case(
            "start-budget-in-money-of-zero",
            InvalidInput,
            'runner.start(TASK, budget=Budget(cost="0"))',
            'run(clerk(), TASK, budget=Budget(cost="2.50"), prices=prices)',
            setup=_PRICES,
            names=("budget.cost", "2.50"),
        ),
        Case(
            "start-budget-as-a-float",
            InvalidInput,
            "runner.start(TASK, budget=Budget(cost=0.25))",
            'run(clerk(), TASK, budget=Budget(cost="0.25"), prices=prices)',
            setup=_PRICES,
            names=("budget.cost", "0.25", "float"),
        ),
        Case(
            "start-budget-without-prices",
            PriceUnknown,
            'runner.start(TASK, budget=Budget(cost="1", currency="USD"))',
            'Runner(clerk(), store="memory:", prices=prices).start(TASK, budget=Budget(cost="1"))',
            setup=_PRICES,
            names=("budget", "prices"),
        ),
        Case(
            "start-budget-of-an-unpriced-model",
            PriceUnknown,
            'run(clerk(), TASK, budget=Budget(cost="1"), prices=Prices({}))',
            'run(clerk(), TASK, budget=Budget(cost="1"), prices=prices)',
            setup=_PRICES,
            names=("scripted", "prices="),
        ),
        Case(
            "start-budget-in-another-currency",
            PriceUnknown,
            'run(clerk(), TASK, budget=Budget(cost="1", currency="EUR"), prices=prices)',
            """
                euros = Prices({"scripted": price}, currency="EUR")
                run(clerk(), TASK, budget=Budget(cost="1", currency="EUR"), prices=euros)
            """,
            setup=_PRICES,
            names=("EUR", "USD"),
        ),
        Case(
            "prices-no-mapping",
            InvalidInput,
            "Prices([price])",
            'Prices({"scripted": price})',
            setup=_PRICES,
            names=("prices", "Price"),
        ),
        Case(
            "prices-no-name",
            InvalidInput,
            "Prices({5: price})",
            'Prices({"scripted": price})',
            setup=_PRICES,
            names=("prices",),
        ),
        Case(
            "prices-no-price",
            InvalidInput,
            'Prices({"scripted": "0.25"})',
            'Prices({"scripted": Price(input="0.25", output="2")})',
            setup=_PRICES,
            names=("prices", "scripted", "Price"),
        ),
        Case(
            "prices-currency",
            InvalidInput,
            'Prices({"scripted": price}, currency="dollars")',
            'Prices({"scripted": price}, currency="USD")',
            setup=_PRICES,
            names=("currency", "USD"),
        ),
        Case(
            "runner-prices",
            InvalidInput,
            'Runner(clerk(), store="memory:", prices={"scripted": price})',
            'Runner(clerk(), store="memory:", prices=Prices({"scripted": price}))',
            setup=_PRICES,
            names=("prices", "Prices"),
        ),
        Case(
            "start-unknown-agent",
            InvalidInput,
            'runner.start(TASK, agent="boss")',
            'runner.start(TASK, agent="clerk")',
            names=("agent", "boss", "clerk"),
        ),
        Case(
            "start-without-agents",
            InvalidInput,
            'Runner([], store="memory:").start(TASK)',
            'Runner(clerk(), store="memory:").start(TASK)',
            names=("agents",),
        ),
        Case(
            "start-which-agent",
            InvalidInput,
            "two.start(TASK)",
            'two.start(TASK, agent="clerk")',
            setup='two = Runner([clerk(), talker()], store="memory:")',
            names=("agent", "clerk", "talker"),
        ),
        Case(
            "start-same-id-other-input",
            RunExists,
            'runner.start("Pay Joe", run_id="jane-1")',
            'runner.start("Pay Joe", run_id="joe-1"); runner.resume("jane-1")',
            setup="start()",
        ),
        Case(
            "start-within-an-async-tool",
            ContinuationsError,
            "raise caught[0]",
            'from continuations import aio; await_(aio.run(clerk(), TASK)); await_(AsyncRunner(clerk(), store="memory:").start(TASK))',
            setup="""
                caught = []
                @tool
                async def ask_again() -> str:
                    "Ask again."
                    try:
                        runner.start(TASK)
                    except ContinuationsError as error:
                        caught.append(error)
                    return "asked"
                run(clerk(ask_again, script=[ToolCall("ask_again"), "done"]), TASK)
            """,
            names=("AsyncRunner", "continuations.aio"),
        ),
        Case(
            "run-agent-type",
            InvalidInput,
            'run("clerk", TASK)',
            "run(clerk(), TASK)",
            names=("agent", "str"),
        ),
    ),
)

CRASHED = """
    faulty = faults.FaultyStore(store, faults.on("create", faults.crashed("after"), prefix="runs/", skip=1))
    try:
        Runner(clerk(book, script=[ToolCall("book", {"room": "5"}), "done"]), store=faulty, clock=clock).start(TASK, run_id="jane-1")
    except BaseException: pass
    runner = Runner(clerk(book), store=store, clock=clock)
"""

RESUMING = Area(
    "Resuming a run",
    (
        Case(
            "resume-run-id",
            InvalidId,
            'runner.resume("")',
            'start(); runner.resume("jane-1")',
            names=("run_id",),
        ),
        Case(
            "resume-unknown-run",
            RunNotFound,
            'runner.resume("jane-2")',
            'start("jane-2"); runner.resume("jane-2")',
        ),
        Case(
            "resume-busy",
            RunBusy,
            'runner.resume("jane-1")',
            'clock.advance(31); runner.resume("jane-1")',
            setup=CRASHED,
        ),
        Case(
            "resume-overtaken",
            StaleRun,
            'slow.resume("jane-1")',
            'other.look("jane-1"); other.resume("jane-1")',
            setup="""
                @tool(approval=True)
                def wait_long() -> str:
                    "Wait until another process takes the run over."
                    clock.advance(60)
                    other.resume("jane-1")
                    return "waited"
                agent = clerk(wait_long, script=[ToolCall("wait_long"), "done"])
                slow = Runner(agent, store=store, clock=clock)
                other = Runner(agent, store=store, clock=clock)
                slow.decide(start("jane-1", slow).id, Approve())
            """,
        ),
        Case(
            "start-with-wrong-clock",
            ClockOff,
            'runner.start(TASK, run_id="jane-1")',
            'clock.advance(3600); runner.start(TASK, run_id="jane-1")',
            setup="""
                right_time = clock.now() + timedelta(hours=1)
                store = storage.MemoryStore(clock=lambda: right_time)
                runner = Runner(clerk(), store=store, clock=clock)
            """,
        ),
        Case(
            "start-on-slow-store",
            StoreUnavailable,
            'Runner(talker(), store=slow, clock=clock, lease=1).start(TASK, run_id="jane-1")',
            'Runner(talker(), store=slow, clock=clock, lease=60).start(TASK, run_id="jane-2")',
            setup="""
                class Slow(storage.MemoryStore):
                    async def create(self, key, body):
                        clock.advance(0.8)
                        return await super().create(key, body)
                slow = Slow()
            """,
            names=("lease",),
        ),
        Case(
            "resume-broken-conversation",
            TranscriptInvalid,
            "resume(broken, clerk(), answers={wait_id: Approve()})",
            "finished(resume(good, clerk(), answers={wait_id: Approve()}))",
            setup="""
                from dataclasses import replace
                good = run(clerk(), TASK).continuation
                wait_id = good.waits[0].id
                state = good.run_state
                log = state.logs["f1"].appended(user_message("Hurry."))
                broken = Continuation(replace(state, logs={"f1": log}))
            """,
        ),
        Case(
            "resume-without-root-agent",
            AgentChanged,
            'Runner(talker(), store=store, clock=clock).resume("jane-1")',
            'runner.resume("jane-1")',
            setup="wait = start(); runner.decide(wait.id, Approve())",
            names=("clerk", "talker"),
        ),
        Case(
            "resume-without-tool",
            AgentChanged,
            'Runner(clerk(pay), store=store, clock=clock).resume("jane-1")',
            'runner.resume("jane-1")',
            setup=_ACCEPTED_CALL,
            names=("clerk", "book"),
        ),
        Case(
            "resume-without-tool-and-cancel",
            AgentChanged,
            'Runner(clerk(pay), store=store, clock=clock).resume("jane-1")',
            'runner.cancel("jane-1", call="clerk/book"); runner.resume("jane-1")',
            setup=_ACCEPTED_CALL,
            names=("clerk", "book", "cancel('jane-1'"),
        ),
        Case(
            "resume-without-approved-tool",
            AgentChanged,
            'Runner(clerk(book), store=store, clock=clock).resume("jane-1")',
            """
                old = Runner(clerk(book), store=store, clock=clock)
                old.resume("jane-1", reopen=True)
            """,
            setup="wait = start(); runner.decide(wait.id, Approve())",
            names=("clerk", "pay", "reopen=True"),
        ),
        Case(
            "resume-without-store-and-tool",
            AgentChanged,
            "resume(asked, clerk(book), answers={wait_id: Approve()})",
            "resume(asked, clerk(book), answers={wait_id: Deny()})",
            setup="asked = run(clerk(), TASK).continuation; wait_id = asked.waits[0].id",
            names=("pay", "Nothing ran", "Deny()"),
        ),
        Case(
            "resume-with-changed-tool",
            AgentChanged,
            'Runner(clerk(changed), store=store, clock=clock).resume("jane-1")',
            'runner.resume("jane-1")',
            setup=f"""{_ACCEPTED_CALL}
                @tool(name="book")
                def changed(floor: int) -> str: "Book a floor."
            """,
            names=("clerk", "book"),
        ),
        Case(
            "resume-without-sub-agent",
            AgentChanged,
            'Runner(boss(book), store=store, clock=clock).resume("jane-1")',
            """
                runner.decide(wait.id, Deny())
                outcome = Runner(boss(book), store=store, clock=clock).resume("jane-1")
                assert outcome.output == "done"
            """,
            setup=_SUB_AGENT,
            names=("boss", "clerk", "Deny or Answer"),
        ),
        Case(
            "resume-without-approved-sub-agent",
            AgentChanged,
            'Runner(boss(book), store=store, clock=clock).resume("jane-1")',
            'assert runner.cancel("jane-1").status == "cancelled"',
            setup=f"""{_SUB_AGENT}
                runner.decide(wait.id, Approve())
            """,
            names=("boss", "clerk", "cancel the run"),
        ),
        Case(
            "resume-with-function-for-sub-agent",
            AgentChanged,
            'Runner(boss(function), store=store, clock=clock).resume("jane-1")',
            """
                runner.decide(wait.id, Answer("paid by hand"))
                outcome = Runner(boss(function), store=store, clock=clock).resume("jane-1")
                assert outcome.output == "done"
            """,
            setup=f"""{_SUB_AGENT}
                function = tool(book.function, name="clerk")
            """,
            names=("boss", "clerk", "Deny or Answer"),
        ),
        Case(
            "resume-with-other-output-type",
            AgentChanged,
            'Runner(talker(output_type=int), store=store).resume("jane-1")',
            'runner.look("jane-1").output',
            setup="""
                runner = Runner(talker("done"), store=store)
                runner.start(TASK, run_id="jane-1")
            """,
            names=("talker", "output_type"),
        ),
    ),
)

SENDING = Area(
    "Sending, cancelling, looking",
    (
        Case(
            "send-empty-text",
            InvalidInput,
            'runner.send("jane-1", "")',
            'runner.send("jane-1", "Hurry.")',
            setup="start()",
            names=("text",),
        ),
        Case(
            "send-by",
            InvalidInput,
            'runner.send("jane-1", "Hurry.", by=5)',
            'runner.send("jane-1", "Hurry.", by="kim")',
            setup="start()",
            names=("by",),
        ),
        Case(
            "send-to-ended-run",
            InvalidInput,
            'runner.send("jane-1", "Hurry.")',
            'runner.start("Hurry.", run_id="jane-2")',
            setup='start(); runner.cancel("jane-1")',
            names=("jane-1", "cancelled"),
        ),
        Case(
            "send-to-unknown-run",
            RunNotFound,
            'runner.send("jane-2", "Hurry.")',
            'start("jane-2"); runner.send("jane-2", "Hurry.")',
        ),
        Case(
            "signal-name",
            InvalidInput,
            'runner.signal("jane-1", "")',
            'runner.signal("jane-1", "receipt")',
            setup="start()",
            names=("name",),
        ),
        Case(
            "signal-data",
            InvalidInput,
            'runner.signal("jane-1", "receipt", {1, 2})',
            'runner.signal("jane-1", "receipt", [1, 2])',
            setup="start()",
            names=("data",),
        ),
        Case(
            "publish-key",
            InvalidInput,
            'runner.publish("receipt", key=" ")',
            'runner.publish("receipt", key="order-7")',
            names=("key",),
        ),
        Case(
            "publish-with-a-used-id",
            InvalidInput,
            'runner.publish("receipt", 2, id="mail-7")',
            'runner.publish("receipt", 2, id="mail-8")',
            setup='runner.publish("receipt", 1, id="mail-7")',
            names=("receipt", "other data"),
        ),
        Case(
            "signal-to-ended-run",
            InvalidInput,
            'runner.signal("jane-1", "receipt")',
            'runner.start("Hurry.", run_id="jane-2")',
            setup='start(); runner.cancel("jane-1")',
            names=("jane-1", "cancelled", "signals"),
        ),
        Case(
            "pause-of-ended-run",
            InvalidInput,
            'runner.pause("jane-1")',
            'runner.start("Hurry.", run_id="jane-2")',
            setup='start(); runner.cancel("jane-1")',
            names=("jane-1", "cancelled", "paused"),
        ),
        Case(
            "cancel-of-unknown-call",
            InvalidInput,
            'runner.cancel("jane-1", call="c99")',
            'runner.cancel("jane-1", call=wait.call_id)',
            setup="wait = start()",
            names=("c99", "jane-1", "Open calls"),
        ),
        Case(
            "signal-with-a-used-id",
            InvalidInput,
            'runner.signal("jane-1", "receipt", 2, id="mail-7")',
            'runner.signal("jane-1", "receipt", 2, id="mail-8")',
            setup='start(); runner.signal("jane-1", "receipt", 1, id="mail-7")',
            names=("jane-1", "signal 1"),
        ),
        Case(
            "signal-too-many",
            InvalidInput,
            'runner.signal("jane-1", "receipt")',
            'runner.resume("jane-1")',
            setup="""
                start()
                for number in range(100):
                    runner.signal("jane-1", "receipt", number)
            """,
            names=("jane-1", "100"),
        ),
        Case(
            "cancel-reason",
            InvalidInput,
            'runner.cancel("jane-1", reason=5)',
            'runner.cancel("jane-1", reason="No longer needed.")',
            setup="start()",
            names=("reason",),
        ),
        Case(
            "cancel-unknown-run",
            RunNotFound,
            'runner.cancel("jane-2")',
            'start("jane-2"); runner.cancel("jane-2")',
        ),
        Case(
            "look-at-unknown-run",
            RunNotFound,
            'runner.look("jane-2")',
            'start("jane-2"); runner.look("jane-2")',
        ),
        Case(
            "look-at-version-type",
            InvalidInput,
            'runner.look("jane-1", version="1")',
            'runner.look("jane-1", version=1)',
            setup="start()",
            names=("version",),
        ),
        Case(
            "look-at-unknown-version",
            VersionNotFound,
            'runner.look("jane-1", version=99)',
            'runner.look("jane-1", version=runner.look("jane-1").version)',
            setup="start()",
            names=("99",),
        ),
        Case(
            "look-at-version-zero",
            VersionNotFound,
            'runner.look("jane-1", version=0)',
            'runner.look("jane-1", version=1)',
            setup="start()",
            names=("version",),
        ),
        Case(
            "notify-without-notifier",
            InvalidInput,
            "runner.notify(wait.id)",
            "Runner([], store=store, clock=clock, notify=print).notify(wait.id)",
            setup="wait = start(); print = lambda wait: None",
            names=("notify",),
        ),
    ),
)
