"""Code as users write it, checked by mypy and pyright and never run."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, assert_type

from pydantic import BaseModel, Field

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Continuation,
    Deny,
    Failed,
    Finished,
    Frame,
    Runner,
    Suspended,
    ToolContext,
    Wait,
    open_store,
    resume,
    run,
    tool,
)
from continuations.core.messages import Message
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.results import Decision, Vote
from continuations.tools import FailedCall, Retries, Tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.errors import AlreadyDecided


class Address(BaseModel):
    street: str
    city: str = "Turin"


def is_large(cents: int) -> bool:
    return cents > 10_000


@tool
def balance(account: str) -> int:
    """Balance in cents."""
    return len(account)


@tool(approval=True)
def transfer(source: str, target: str, cents: int, ctx: ToolContext) -> str:
    """Move money."""
    return f"{source}->{target}: {cents} ({ctx.idempotency_key}, {ctx.fence})"


@tool(
    approval=ApprovalPolicy(
        when=is_large,
        expires_after=timedelta(hours=72),
        on_denied="stop",
    ),
    idempotent=True,
    timeout=30,
)
async def refund(cents: Annotated[int, Field(gt=0)], to: Address | None = None) -> bool:
    """Give money back."""
    return cents > 0 and to is not None


def explain(error: Exception, call: FailedCall) -> str:
    """Explain an error to the model."""
    assert_type(call.attempt, int)
    return f"{call.tool} failed: {type(error).__name__}"


async def explain_later(error: Exception, call: FailedCall) -> str:
    """Explain an error to the model, after a request."""
    return explain(error, call)


@tool(on_error=explain_later)
def post(text: str) -> str:
    """Post a text."""
    return text


@tool(read_only=True, retries=3, on_error=explain)
def rate(currency: str) -> float:
    """Return a rate."""
    return len(currency) / 2


@tool(
    idempotent=True,
    retries=Retries(2, first_delay=timedelta(seconds=1), on=[ConnectionError]),
)
async def book(cents: int) -> str:
    """Book an amount."""
    return f"booked {cents}"


@tool(approval=is_large)
def tip(cents: int) -> None:
    """Leave a tip."""


assert_type(rate("EUR"), float)

# A tool is still the function that it was.
assert_type(balance("a1"), int)
assert_type(
    transfer(
        "a",
        "b",
        1,
        ToolContext(run_id="r", call_id="c", idempotency_key="k", fence=1, attempt=1),
    ),
    str,
)

forecast = Tool.from_schema("forecast", {"type": "object"}, lambda arguments: arguments)


class EchoModel:
    """A model of the application: it needs no base class."""

    name = "echo"

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Repeat the last message."""
        data = {"role": "assistant", "content": request.messages[-1].content}
        return ModelReply(message=Message.from_mapping(data))


echo = Agent("echo", tools=[forecast], model=EchoModel())
accounts = Agent("accounts", tools=[balance, transfer, refund], model="gpt-5-mini")
hr = Agent(
    "hr",
    instructions="You look after people.",
    tools=[accounts.as_tool(name="books", approval=True), tip],
    model=ScriptedModel([ToolCall("books", {"input": "pay"}), "Done."]),
    output_type=Address,
)
recursive_agent: Agent = Agent(
    "circle", tools=lambda: [recursive_agent, balance], model="gpt-5-mini"
)


def without_a_store() -> None:
    outcome = run(hr, "Onboard Jane")
    match outcome:
        case Finished():
            assert_type(outcome, Finished[Address])
            print(outcome.output, outcome.usage.total_tokens)
        case Suspended():
            assert_type(outcome.waits, tuple[Wait, ...])
            data = outcome.continuation.to_bytes()
            assert_type(data, bytes)
            answers = {wait.id: Approve(by="kim") for wait in outcome.waits}
            resume(data, hr, answers=answers)
        case Failed():
            print(outcome.error.code, outcome.error.message)


def with_a_store() -> None:
    runner = Runner([hr, accounts], store=open_store("file:.runs"), lease=10)
    outcome = runner.start([{"role": "user", "content": "hi"}], agent="hr", run_id="j")
    for summary in runner.waiting():
        assert_type(summary.id, str)
        wait = runner.wait(summary.id)
        assert_type(wait.path, tuple[str, ...])
        assert_type(wait.arguments, dict[str, Any])
        decision = runner.decide(wait.id, Deny(by="kim", reason="no"))
        assert_type(decision, Decision | Vote)
        runner.decide(wait.id, Answer({"paid": True}, by="kim"))
    outcome = runner.resume("j", context=object())
    assert_type(outcome, Finished | Suspended | Failed)
    continuation = runner.look("j")
    assert_type(continuation, Continuation)
    assert_type(Continuation.from_bytes(continuation.to_bytes()), Continuation)
    frames: list[Frame] = [continuation.root]
    while frames:
        for call in frames.pop().calls:
            print(call.id, call.tool, call.state, call.arguments)
            if call.frame is not None:
                frames.append(call.frame)
    runner.cancel("j", reason="enough", by="kim")
    assert_type(runner.sweep().resumed, tuple[Finished | Suspended | Failed, ...])


async def asynchronously(waits: Sequence[Wait]) -> None:
    def notify(wait: Wait) -> None:
        print(wait.id)

    runner = AsyncRunner(hr, store="memory:", notify=notify)
    assert_type(await runner.start("hi"), Finished[Address] | Suspended | Failed)
    async for summary in runner.waiting():
        print(summary.run_id, summary.created_at)
    await runner.decide(waits[0].id, Approve(arguments={"cents": 5}))


def winner(error: AlreadyDecided) -> str | None:
    assert_type(error.decision, Decision)
    return error.decision.by
