"""A run and a thread whose calls have a secret argument, in every state of a call."""

from __future__ import annotations

from typing import Annotated, Any
from unittest.mock import patch

from continuations import Agent, Approve, AsyncRunner, Grant, Suspended, Wait, ask, tool
from continuations.attachments import Image
from continuations.ledger.decisions import run_grants
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Secret, ToolWait
from continuations_storage import Store

PIN = "planted-pin-9876"
RUN, KEY = "jane-1", "k"
PHOTO = Image(b"\x89PNG", "image/png")
# Words of the transcript, which contain no secret.
WORDS = "words-of-the-transcript"


def make_agents(*, echo: bool) -> list[Agent[Any]]:
    """Return the agents; with `echo`, results and outputs repeat the secret."""
    said = PIN if echo else WORDS

    @tool(approval=True, summary="Send {cents} to {to}")
    def send(to: str, cents: int, pin: Annotated[str, Secret()]) -> str:
        """Send money."""
        del pin
        return f"sent {cents} to {to}: {said}"

    @tool
    def seat(pin: Annotated[str, Secret()]) -> ToolWait[str]:
        """Choose a seat."""
        return ask(f"Which seat for {pin}?")

    def sending(to: str, cents: object = 5) -> ToolCall:
        return ToolCall("send", {"to": to, "cents": cents, "pin": PIN})

    clerk = Agent("clerk", tools=[send], model=ScriptedModel([sending("Lee"), "sent"]))
    calls = [
        sending("Kim"),
        sending("nobody", "invalid"),
        ToolCall("seat", {"pin": PIN}),
        ToolCall("clerk", {"input": "Pay Lee"}),
    ]
    boss = Agent(
        "boss",
        tools=[send, seat, clerk],
        model=ScriptedModel([calls, f"all done: {said}"]),
    )
    chat = Agent(
        "chat",
        tools=[send],
        model=ScriptedModel([f"hello {said}", sending("Kim"), f"bye {said}"]),
    )
    return [boss, chat]


def _find_no_problem(wait: Wait, grant: object) -> None:
    del wait, grant


async def open_scene(store: str | Store, *, echo: bool) -> tuple[AsyncRunner, Wait]:
    """Start a run and a thread; return the runner, and an open wait for an approval.

    One call of the run was approved with edited arguments, one was refused, one asks a
    question, and one of a sub-agent waits. The approval has stored a grant with the
    secret in its condition, which no interface accepts.
    """
    runner = AsyncRunner(make_agents(echo=echo), store=store)
    with_photo: list[Any] = ["Pay Kim and Lee", PHOTO]
    asked = await runner.start(with_photo, agent="boss", run_id=RUN)
    assert isinstance(asked, Suspended)
    by_path = {wait.path: wait for wait in asked.waits}
    kim, lee = by_path["boss", "send"], by_path["boss", "clerk", "send"]
    edit = {"to": "Kim", "cents": 6, "pin": "[secret]"}
    grant = Grant("send", {"properties": {"pin": {"const": PIN}}})
    with patch.object(run_grants, "find_problem", _find_no_problem):
        approve = Approve(arguments=edit, by="kim", remember=grant)
        await runner.decide(kim.id, approve)
        await runner.resume(RUN)
    assert 1 == len(await runner.grants(RUN))
    thread = runner.thread("chat", key=KEY)
    await thread.send("hi")
    await thread.send("pay")
    return runner, lee
