"""Deciding waits, with and without a store."""

from __future__ import annotations

from continuations import errors
from tests.errors.case import Area, Case

_EXPIRED = """
    policy = ApprovalPolicy(expires_after=60)
    runner = Runner(clerk(tool(pay.function, approval=policy)), store=store, clock=clock)
    wait = start("jane-1", runner)
    clock.advance(61)
"""
_START = "wait = start()"

DECIDING = Area(
    "Deciding a wait",
    (
        Case(
            "decide-no-wait-id",
            errors.WaitNotFound,
            'runner.decide("jane-1", Approve())',
            """
                (summary,) = runner.waiting()
                runner.decide(summary.id, Approve())
            """,
            setup=_START,
            names=("jane-1",),
        ),
        Case(
            "decide-run",
            errors.WaitNotFound,
            'runner.decide("jane-1", Approve())',
            "runner.decide(runner.look('jane-1').waits[0].id, Approve())",
            setup=_START,
            names=("look('jane-1').waits",),
        ),
        Case(
            "decide-timer",
            errors.DecisionRefused,
            "runner.decide(wait.id, Answer(1))",
            'runner.cancel("jane-1")',
            setup="""
                @tool
                def nap():
                    "Wait."
                    return sleep(60)
                agent = clerk(nap, script=[ToolCall("nap", {}), "done"])
                runner = Runner(agent, store=store, clock=clock)
                (wait,) = runner.start(TASK, run_id="jane-1").waits
            """,
            names=("timer", "the clock", "cancel"),
        ),
        Case(
            "decide-pause",
            errors.DecisionRefused,
            "runner.decide(pause.id, Approve())",
            'runner.unpause("jane-1")',
            setup="""
                start()
                (pause,) = [
                    wait
                    for wait in runner.pause("jane-1").waits
                    if wait.kind == "operator"
                ]
            """,
            names=("operator", "jane-1"),
        ),
        Case(
            "decide-what-was-not-shown",
            errors.DecisionRefused,
            'runner.decide(wait.id, Approve(), shown="0" * 64)',
            "runner.decide(wait.id, Approve(), shown=runner.wait(wait.id).digest)",
            setup=_START,
            names=("shown",),
        ),
        Case(
            "decide-approve-while-the-call-may-be-running",
            errors.DecisionRefused,
            "runner.decide(wait.id, Approve())",
            "clock.advance(31); runner.decide(wait.id, Approve())",
            setup="""
                @tool(timeout=0.01)
                async def hang() -> str:
                    "Hang."
                    await asyncio.sleep(5)
                agent = clerk(hang, script=[ToolCall("hang", {}), "done"])
                runner = Runner(agent, store=store, clock=clock)
                wait = start("jane-1", runner)
            """,
            names=("may still be running until", "UTC"),
        ),
        Case(
            "decide-twice",
            errors.AlreadyDecided,
            'runner.decide(wait.id, Deny(by="kim"))',
            'runner.resume("jane-1")',
            setup='wait = start(); runner.decide(wait.id, Approve(by="jo"))',
            names=("approve", "jo"),
        ),
        Case(
            "decide-after-deadline",
            errors.WaitExpired,
            "runner.decide(wait.id, Approve())",
            'finished(runner.resume("jane-1"))',
            setup=_EXPIRED,
        ),
        Case(
            "decide-after-recorded-deadline",
            errors.WaitExpired,
            "runner.decide(wait.id, Approve())",
            'finished(runner.resume("jane-1"))',
            setup=f"{_EXPIRED}\n    runner.sweep()",
        ),
        Case(
            "decide-in-cancelled-run",
            errors.Cancelled,
            "runner.decide(wait.id, Approve())",
            'start("jane-2")',
            setup='wait = start(); runner.cancel("jane-1")',
        ),
        Case(
            "wait-of-decided-wait",
            errors.AlreadyDecided,
            "runner.wait(wait.id)",
            'finished(runner.resume("jane-1"))',
            setup="wait = start(); runner.decide(wait.id, Approve())",
        ),
    ),
)

STORELESS = Area(
    "Resuming without a store",
    (
        Case(
            "storeless-unknown-wait",
            errors.WaitNotFound,
            'resume(data, clerk(), answers={"approval-1": Approve()})',
            "finished(resume(data, clerk(), answers={wait_id: Approve()}))",
            setup="""
                outcome = run(clerk(), TASK)
                data, wait_id = outcome.continuation.to_bytes(), outcome.waits[0].id
            """,
            names=("answers", "approval-1"),
        ),
        Case(
            "storeless-answers-type",
            errors.InvalidInput,
            "resume(data, clerk(), answers=[Approve()])",
            "finished(resume(data, clerk(), answers={wait_id: Approve()}))",
            setup="""
                outcome = run(clerk(), TASK)
                data, wait_id = outcome.continuation.to_bytes(), outcome.waits[0].id
            """,
            names=("answers", "list"),
        ),
        Case(
            "storeless-agent-type",
            errors.InvalidInput,
            "resume(data, pay)",
            "resume(data, clerk())",
            setup="data = run(clerk(), TASK).continuation.to_bytes()",
            names=("agent",),
        ),
    ),
)
