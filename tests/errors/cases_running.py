"""Runner options, starting, resuming, sending, cancelling and looking."""

from __future__ import annotations

from continuations import errors
from tests.errors.case import Area, Case

# A workflow that waits, and its code after a change.
_WORKFLOWS = """
                from continuations import workflow
                @workflow(name="trip")
                async def before(flow): return await ask("Which room?")
                @workflow(name="trip", tools=[book])
                async def without_patch(flow):
                    await flow.call(book, "1")
                    return await ask("Which room?")
                @workflow(name="trip", tools=[book])
                async def with_patch(flow):
                    if flow.patched("book first"): await flow.call(book, "1")
                    return await ask("Which room?")
                old = Runner(before, store=store, clock=clock)
                old.start(before.bind(), run_id="jane-1")
"""
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
            errors.NotFinished,
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
            errors.NotFinished,
            "outcome.result()",
            'runner.resume("jane-1")',
            setup='outcome = runner.start(TASK, run_id="jane-1", work=False)',
            names=("no worker runs", "resume('jane-1')"),
        ),
        Case(
            "outcome-cancelled",
            errors.RunFailed,
            'runner.resume("jane-1").result()',
            'runner.start(TASK, run_id="jane-2")',
            setup='start(); runner.cancel("jane-1")',
            names=("cancelled", "Start a new run"),
        ),
    ),
)
OPTIONS = Area(
    "Runner options",
    (
        Case(
            "stream-iterated-twice",
            errors.ContinuationsError,
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
            "runner-max-model-failures",
            errors.InvalidInput,
            'Runner(clerk(), store="memory:", max_model_failures=0)',
            'Runner(clerk(), store="memory:", max_model_failures=None)',
            names=("max_model_failures",),
        ),
        Case(
            "run-should-pause",
            errors.InvalidInput,
            'Runner(clerk(), store="memory:").start(TASK, should_pause=5)',
            'Runner(clerk(), store="memory:").start(TASK, should_pause=lambda: True)',
            names=("should_pause", "5"),
        ),
    ),
)


_PRICES = """
    from continuations.prices import Price, Prices
    price = Price(input="0.25", output="2")
    prices = Prices({"scripted": price})
"""

STARTING = Area(
    "Starting a run",
    (
        Case(
            "start-budget-without-prices",
            errors.PriceUnknown,
            'runner.start(TASK, budget=Budget(cost="1", currency="USD"))',
            'Runner(clerk(), store="memory:", prices=prices).start(TASK, budget=Budget(cost="1"))',
            setup=_PRICES,
            names=("budget", "prices"),
        ),
        Case(
            "start-same-id-other-input",
            errors.RunExists,
            'runner.start("Pay Joe", run_id="jane-1")',
            'runner.start("Pay Joe", run_id="joe-1"); runner.resume("jane-1")',
            setup="start()",
        ),
        Case(
            "start-within-an-async-tool",
            errors.ContinuationsError,
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
            errors.InvalidInput,
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
            "resume-busy",
            errors.RunBusy,
            'runner.resume("jane-1")',
            'clock.advance(31); runner.resume("jane-1")',
            setup=CRASHED,
        ),
        Case(
            "resume-overtaken",
            errors.StaleRun,
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
            errors.ClockOff,
            'runner.start(TASK, run_id="jane-1")',
            'clock.advance(3600); runner.start(TASK, run_id="jane-1")',
            setup="""
                right_time = clock.now() + timedelta(hours=1)
                store = storage.MemoryStore(clock=lambda: right_time)
                runner = Runner(clerk(), store=store, clock=clock)
            """,
        ),
        Case(
            "resume-broken-conversation",
            errors.TranscriptInvalid,
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
            errors.AgentChanged,
            'Runner(talker(), store=store, clock=clock).resume("jane-1")',
            'runner.resume("jane-1")',
            setup="wait = start(); runner.decide(wait.id, Approve())",
            names=("clerk", "talker"),
        ),
        Case(
            "resume-without-tool",
            errors.AgentChanged,
            'Runner(clerk(pay), store=store, clock=clock).resume("jane-1")',
            'runner.resume("jane-1")',
            setup=_ACCEPTED_CALL,
            names=("clerk", "book"),
        ),
        Case(
            "resume-without-tool-and-cancel",
            errors.AgentChanged,
            'Runner(clerk(pay), store=store, clock=clock).resume("jane-1")',
            'runner.cancel("jane-1", call="clerk/book"); runner.resume("jane-1")',
            setup=_ACCEPTED_CALL,
            names=("clerk", "book", "cancel('jane-1'"),
        ),
        Case(
            "resume-without-approved-tool",
            errors.AgentChanged,
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
            errors.AgentChanged,
            "resume(asked, clerk(book), answers={wait_id: Approve()})",
            "resume(asked, clerk(book), answers={wait_id: Deny()})",
            setup="asked = run(clerk(), TASK).continuation; wait_id = asked.waits[0].id",
            names=("pay", "Nothing ran", "Deny()"),
        ),
        Case(
            "resume-with-changed-tool",
            errors.AgentChanged,
            'Runner(clerk(changed), store=store, clock=clock).resume("jane-1")',
            'runner.resume("jane-1")',
            setup=f"""{_ACCEPTED_CALL}
                @tool(name="book")
                def changed(floor: int) -> str: "Book a floor."
            """,
            names=("clerk", "book"),
        ),
        Case(
            "resume-with-changed-workflow",
            errors.WorkflowChanged,
            'Runner(without_patch, store=store, clock=clock).resume("jane-1")',
            """
                Runner(with_patch, store=store, clock=clock).resume("jane-1")
                old.resume("jane-1")
            """,
            setup=_WORKFLOWS,
            names=("jane-1", "trip", "book", "flow.patched", "Nothing was written"),
        ),
        Case(
            "resume-without-sub-agent",
            errors.AgentChanged,
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
            errors.AgentChanged,
            'Runner(boss(book), store=store, clock=clock).resume("jane-1")',
            'assert runner.cancel("jane-1").status == "cancelled"',
            setup=f"""{_SUB_AGENT}
                runner.decide(wait.id, Approve())
            """,
            names=("boss", "clerk", "cancel the run"),
        ),
        Case(
            "resume-with-function-for-sub-agent",
            errors.AgentChanged,
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
            errors.AgentChanged,
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
            "send-by",
            errors.InvalidInput,
            'runner.send("jane-1", "Hurry.", by=5)',
            'runner.send("jane-1", "Hurry.", by="kim")',
            setup="start()",
            names=("by",),
        ),
        Case(
            "send-to-ended-run",
            errors.InvalidInput,
            'runner.send("jane-1", "Hurry.")',
            'runner.start("Hurry.", run_id="jane-2")',
            setup='start(); runner.cancel("jane-1")',
            names=("jane-1", "cancelled"),
        ),
        Case(
            "signal-data",
            errors.InvalidInput,
            'runner.signal("jane-1", "receipt", {1, 2})',
            'runner.signal("jane-1", "receipt", [1, 2])',
            setup="start()",
            names=("data",),
        ),
        Case(
            "publish-key",
            errors.InvalidInput,
            'runner.publish("receipt", key=" ")',
            'runner.publish("receipt", key="order-7")',
            names=("key",),
        ),
        Case(
            "signal-too-many",
            errors.InvalidInput,
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
            "look-at-unknown-run",
            errors.RunNotFound,
            'runner.look("jane-2")',
            'start("jane-2"); runner.look("jane-2")',
        ),
        Case(
            "look-at-version-type",
            errors.InvalidInput,
            'runner.look("jane-1", version="1")',
            'runner.look("jane-1", version=1)',
            setup="start()",
            names=("version",),
        ),
        Case(
            "notify-without-notifier",
            errors.InvalidInput,
            "runner.notify(wait.id)",
            "Runner([], store=store, clock=clock, notify=print).notify(wait.id)",
            setup="wait = start(); print = lambda wait: None",
            names=("notify",),
        ),
    ),
)
