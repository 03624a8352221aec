"""Deciding waits, with and without a store."""

from __future__ import annotations

from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    DecisionRefused,
    InvalidInput,
    WaitExpired,
    WaitNotFound,
)
from tests.errors.case import Area, Case

_UNKNOWN = """
    faulty = faults.FaultyStore(store, faults.on("create", faults.crashed("before"), prefix="runs/", skip=2))
    agent = clerk(book, script=[ToolCall("book", {"room": "5"}), "done"])
    try:
        Runner(agent, store=faulty, clock=clock).start(TASK, run_id="jane-1")
    except BaseException: pass
    clock.advance(31)
    runner = Runner(agent, store=store, clock=clock)
    (wait,) = runner.resume("jane-1").waits
    assert wait.kind == "unknown"
"""
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
            WaitNotFound,
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
            WaitNotFound,
            'runner.decide("jane-1", Approve())',
            "runner.decide(runner.look('jane-1').waits[0].id, Approve())",
            setup=_START,
            names=("look('jane-1').waits",),
        ),
        Case(
            "decide-wait-object",
            WaitNotFound,
            "runner.decide(wait, Approve())",
            "runner.decide(wait.id, Approve())",
            setup=_START,
            names=("wait_id", "Wait", "wait.id"),
        ),
        Case(
            "decide-run-and-wait",
            InvalidInput,
            'runner.decide("jane-1", wait.id)',
            'runner.decide(wait.id, Approve(by="kim"))',
            setup=_START,
            names=("decide(wait_id, Approve(by=...))",),
        ),
        Case(
            "decide-by-beside-the-verdict",
            InvalidInput,
            'runner.decide(wait.id, Approve(), by="kim")',
            'runner.decide(wait.id, Approve(by="kim"))',
            setup=_START,
            names=("by", "Approve(by=...)"),
        ),
        Case(
            "decide-unknown-wait",
            WaitNotFound,
            'Runner([], store="memory:").decide(wait.id, Approve())',
            "(summary,) = runner.waiting(); runner.decide(summary.id, Approve())",
            setup=_START,
        ),
        Case(
            "decide-replaced-wait",
            WaitNotFound,
            'runner.decide(wait.id.replace("-0", "-1"), Approve())',
            "(summary,) = runner.waiting(); runner.decide(summary.id, Approve())",
            setup=_START,
        ),
        Case(
            "decide-with-no-verdict",
            DecisionRefused,
            'runner.decide(wait.id, "yes")',
            "runner.decide(wait.id, Approve())",
            setup=_START,
            names=("Approve",),
        ),
        Case(
            "decide-with-class",
            DecisionRefused,
            "runner.decide(wait.id, Approve)",
            'runner.decide(wait.id, Approve(by="kim"))',
            setup=_START,
            names=("Approve", 'Approve(by="kim")'),
        ),
        Case(
            "decide-timer",
            DecisionRefused,
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
            DecisionRefused,
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
            "decide-by",
            DecisionRefused,
            "runner.decide(wait.id, Approve(by=5))",
            'runner.decide(wait.id, Approve(by="kim"))',
            setup=_START,
            names=("by",),
        ),
        Case(
            "decide-by-long",
            DecisionRefused,
            "runner.decide(wait.id, Approve(by='x' * 256))",
            "runner.decide(wait.id, Approve(by='kim'))",
            setup="wait = start()",
            names=("by", "255"),
        ),
        Case(
            "decide-by-hidden",
            DecisionRefused,
            "runner.decide(wait.id, Approve(by=' kim'))",
            'runner.decide(wait.id, Approve(by="kim"))',
            setup=_START,
            names=("by",),
        ),
        Case(
            "decide-what-was-not-shown",
            DecisionRefused,
            'runner.decide(wait.id, Approve(), shown="0" * 64)',
            "runner.decide(wait.id, Approve(), shown=runner.wait(wait.id).digest)",
            setup=_START,
            names=("shown",),
        ),
        Case(
            "decide-shown-type",
            DecisionRefused,
            "runner.decide(wait.id, Approve(), shown=wait)",
            "runner.decide(wait.id, Approve(), shown=wait.digest)",
            setup=_START,
            names=("shown",),
        ),
        Case(
            "decide-reason",
            DecisionRefused,
            'runner.decide(wait.id, Deny(reason=["too much"]))',
            'runner.decide(wait.id, Deny(reason="too much"))',
            setup=_START,
            names=("reason",),
        ),
        Case(
            "decide-approve-while-the-call-may-be-running",
            DecisionRefused,
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
            "decide-arguments-type",
            DecisionRefused,
            "runner.decide(wait.id, Approve(arguments=[400]))",
            'runner.decide(wait.id, Approve(arguments={"cents": 400}))',
            setup=_START,
            names=("arguments",),
        ),
        Case(
            "decide-arguments-that-are-no-json",
            DecisionRefused,
            'runner.decide(wait.id, Approve(arguments={"cents": {400}}))',
            'runner.decide(wait.id, Approve(arguments={"cents": 400}))',
            setup=_START,
            names=("arguments",),
        ),
        Case(
            "decide-arguments-against-schema",
            DecisionRefused,
            'runner.decide(wait.id, Approve(arguments={"cents": NOTE}))',
            'runner.decide(wait.id, Approve(arguments={"cents": 400}))',
            setup=_START,
            names=("arguments", "cents"),
        ),
        Case(
            "decide-arguments-with-unusable-schema",
            DecisionRefused,
            'runner.decide(wait.id, Approve(arguments={"code": "b"}))',
            "runner.decide(wait.id, Approve())",
            setup="""
                class Code(BaseModel): code: str
                Code.__get_pydantic_json_schema__ = classmethod(
                    lambda cls, core, handler: {"type": "object", "properties": {"code": {"pattern": "("}}})
                @tool(approval=True)
                def enter(code: Code) -> str: "Enter."
                script = [ToolCall("enter", {"code": {"code": "a"}}), "done"]
                runner = Runner(clerk(enter, script=script), store=store, clock=clock)
                wait = start("jane-1", runner)
            """,
            names=("arguments",),
        ),
        Case(
            "decide-answer-that-is-no-json",
            DecisionRefused,
            'runner.decide(wait.id, Answer({"booked"}))',
            'runner.decide(wait.id, Answer("booked"))',
            setup=_UNKNOWN,
            names=("set",),
        ),
        Case(
            "decide-unknown-outcome-with-edit",
            DecisionRefused,
            'runner.decide(wait.id, Approve(arguments={"room": "6"}))',
            "runner.decide(wait.id, Approve())",
            setup=_UNKNOWN,
            names=("arguments",),
        ),
        Case(
            "decide-twice",
            AlreadyDecided,
            'runner.decide(wait.id, Deny(by="kim"))',
            'runner.resume("jane-1")',
            setup='wait = start(); runner.decide(wait.id, Approve(by="jo"))',
            names=("approve", "jo"),
        ),
        Case(
            "decide-after-deadline",
            WaitExpired,
            "runner.decide(wait.id, Approve())",
            'finished(runner.resume("jane-1"))',
            setup=_EXPIRED,
        ),
        Case(
            "decide-after-recorded-deadline",
            WaitExpired,
            "runner.decide(wait.id, Approve())",
            'finished(runner.resume("jane-1"))',
            setup=f"{_EXPIRED}\n    runner.sweep()",
        ),
        Case(
            "decide-in-cancelled-run",
            Cancelled,
            "runner.decide(wait.id, Approve())",
            'start("jane-2")',
            setup='wait = start(); runner.cancel("jane-1")',
        ),
        Case(
            "wait-of-decided-wait",
            AlreadyDecided,
            "runner.wait(wait.id)",
            'finished(runner.resume("jane-1"))',
            setup="wait = start(); runner.decide(wait.id, Approve())",
        ),
        Case(
            "wait-unknown",
            WaitNotFound,
            'runner.wait("approval-1@jane-1")',
            "(summary,) = runner.waiting(); runner.wait(summary.id)",
            setup=_START,
            names=("approval-1",),
        ),
    ),
)

STORELESS = Area(
    "Resuming without a store",
    (
        Case(
            "storeless-unknown-wait",
            WaitNotFound,
            'resume(data, clerk(), answers={"approval-1": Approve()})',
            "finished(resume(data, clerk(), answers={wait_id: Approve()}))",
            setup="""
                outcome = run(clerk(), TASK)
                data, wait_id = outcome.continuation.to_bytes(), outcome.waits[0].id
            """,
            names=("answers", "approval-1"),
        ),
        Case(
            "storeless-refused-decision",
            DecisionRefused,
            'resume(data, clerk(), answers={wait_id: "yes"})',
            "finished(resume(data, clerk(), answers={wait_id: Approve()}))",
            setup="""
                outcome = run(clerk(), TASK)
                data, wait_id = outcome.continuation.to_bytes(), outcome.waits[0].id
            """,
            names=("Approve",),
        ),
        Case(
            "storeless-answers-type",
            InvalidInput,
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
            InvalidInput,
            "resume(data, pay)",
            "resume(data, clerk())",
            setup="data = run(clerk(), TASK).continuation.to_bytes()",
            names=("agent",),
        ),
    ),
)
