"""The first state of a run, and the waits that calls come to stand at."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.core import jsontext
from continuations.core.frames import FrameRow, Log
from continuations.core.messages import MalformedMessage, Message, system, user
from continuations.core.run import Budget, RunRow
from continuations.core.table import ROOT, Table, path_of
from continuations.core.transcript import fault
from continuations.core.waits import Wait, call_digest
from continuations.errors import InvalidInput
from continuations.ledger import layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from continuations.authoring.agent import Agent, AnyTool
    from continuations.core.calls import CallRow
    from continuations.core.waits import WaitKind

Input: TypeAlias = "str | Sequence[Mapping[str, Any]]"


def first_messages(agent: Agent, given: Input) -> tuple[Message, ...]:
    """Return the messages that a frame begins with; raises `InvalidInput`.

    An agent's instructions come first, unless the messages bring a system or
    developer message of their own.
    """
    if isinstance(given, str):
        messages: tuple[Message, ...] = (user(given),)
    elif isinstance(given, list | tuple) and given:
        messages = tuple(_message(n, item) for n, item in enumerate(given, 1))
    else:
        msg = "The input is a text, or a list of messages that is not empty."
        raise InvalidInput(msg)
    leads = messages[0].role in ("system", "developer")
    if agent.instructions and not leads:
        messages = (system(agent.instructions), *messages)
    wrong = fault(messages)
    if wrong is not None:
        msg = f"The input is not a conversation that can be sent: {wrong}."
        raise InvalidInput(msg)
    return messages


def _message(place: int, given: object) -> Message:
    try:
        message = Message.of(jsontext.mapping(given) or {})
    except (MalformedMessage, jsontext.NotJson) as error:
        msg = f"Message {place} of the input is none: {error}."
        raise InvalidInput(msg) from None
    content = message.data.get("content")
    if content or (message.calls and message.role == "assistant"):
        return message
    msg = f"Message {place} of the input has no content: a text, or a list of parts."
    raise InvalidInput(msg)


def said_by_user(text: object) -> Message:
    """Return a text as a user message; raises `InvalidInput`."""
    if not isinstance(text, str) or not text:
        msg = f"A message is a text that is not empty, not {str(text)[:40]!r}."
        raise InvalidInput(msg)
    return user(text)


def checked(budget: object) -> Budget | None:
    """Return a budget that is one; raises `InvalidInput`."""
    if budget is None:
        return None
    if isinstance(budget, Budget):
        limits = [n for n in (budget.requests, budget.tokens) if n is not None]
        if all(type(limit) is int and limit > 0 for limit in limits):
            return budget
    msg = f"A budget is Budget(requests=…, tokens=…), whole numbers above 0: {budget}"
    raise InvalidInput(msg)


def opened(
    agent: Agent,
    messages: tuple[Message, ...],
    *,
    run_id: str,
    birth: str,
    manifest: str,
    now: datetime,
    budget: Budget | None = None,
) -> Table:
    """Return the first state of a run."""
    # Not the instructions: a job that is delivered again after a new prompt was
    # deployed is the same job.
    own = bool(agent.instructions) and messages[0] == system(agent.instructions)
    texts = [message.text for message in messages[own:]]
    run = RunRow(
        id=run_id,
        birth=birth,
        agent=agent.name,
        created_at=now,
        input_digest=jsontext.digest(agent.name, *texts),
        next_id=3,
        budget=checked(budget),
    )
    frame = FrameRow(id=ROOT, agent=agent.name, call=None, max_turns=agent.max_turns)
    return Table.of(
        run=run,
        manifest=manifest,
        frames={ROOT: frame},
        calls={},
        waits={},
        logs={ROOT: Log(2, messages)},
    )


def digest_of(table: Table, call: CallRow, arguments: str, meaning: str) -> str:
    """Return the digest that an approval of a call is bound to."""
    return call_digest(
        birth=table.run.birth,
        frame_id=call.frame,
        call_id=call.id,
        arguments=arguments,
        meaning=meaning,
    )


def approved_meaning(tool: AnyTool) -> str:
    """Return what an approval binds of a tool; a strict policy minds its words."""
    strict = tool.approval is not None and tool.approval.strict
    return f"{tool.meaning} {tool.wording}" if strict else tool.meaning


def new_wait(
    table: Table,
    call: CallRow,
    tool: AnyTool | None,
    *,
    kind: WaitKind,
    now: datetime,
    ulid: str,
    arguments: str | None = None,
    note: str | None = None,
) -> Wait:
    """Return the wait at which a call comes to stand; its id was never used."""
    arguments = arguments or call.arguments or "{}"
    policy = tool.approval if tool is not None else None
    meaning = call.meaning or ""
    if kind == "approval" and tool is not None:
        meaning = approved_meaning(tool)
    gated = kind == "approval" and policy is not None
    until = policy.decision_time if gated and policy else None
    valid = policy.execution_time if gated and policy else None
    return Wait(
        id=layout.wait_id(kind, ulid, table.run.id),
        run_id=table.run.id,
        call_id=call.id,
        kind=kind,
        path=(*path_of(table, call.frame), call.tool),
        tool=call.tool,
        arguments_json=arguments,
        schema_json=tool.schema_json if tool is not None else "{}",
        digest=digest_of(table, call, arguments, meaning),
        created_at=now,
        deadline=now + until if until is not None else None,
        valid_for=valid // timedelta(seconds=1) if valid is not None else None,
        policy=policy.label if gated and policy else None,
        denial_stops=bool(gated and policy and policy.on_denied == "stop"),
        expiry_stops=bool(gated and policy and policy.on_expired == "stop"),
        note=note,
    )
