"""Calls at which an agent of another kit is paused, as waits of a run.

A run of the workflow `paused_calls` has one wait for each call: an approval, a question
or a job. People decide it at any door. The modules `langgraph`, `openai_agents` and
`pydantic_ai` open such runs, and hand their decisions back to the kit.

    runner = AsyncRunner([agent, paused_calls], store="s3://bucket/runs")
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

from pydantic import WithJsonSchema

from continuations import (
    ApprovalPolicy,
    AsyncRunner,
    Finished,
    Flow,
    Suspended,
    ask,
    errors,
    external,
    tool,
    workflow,
)
from continuations.events import CallProposed, WaitDecided, WaitOpened
from continuations.serve.option_checks import check_async_runner, check_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations import Frame, Outcome

__all__ = [
    "CallKind",
    "CallVerdict",
    "PausedCall",
    "keep_approval",
    "make_paused_calls",
    "open_calls",
    "paused_calls",
    "read_verdicts",
]

CallKind: TypeAlias = Literal["approval", "question", "external"]
Ending: TypeAlias = Literal[
    "approved", "answered", "denied", "failed", "expired", "cancelled"
]
_ENDINGS: dict[type[errors.CallError], Ending] = {
    errors.CallDenied: "denied",
    errors.CallFailed: "failed",
    errors.CallExpired: "expired",
    errors.CallCancelled: "cancelled",
}
_MAX_QUESTION = 8_000


@dataclass(frozen=True, kw_only=True)
class PausedCall:
    """One call of another kit that waits.

    Attributes:
        id: The id of the call or interrupt in the other kit.
        tool: The name of the tool.
        arguments: The arguments as JSON values. People see them, and an approval is
            bound to them.
        kind: `"approval"`, `"question"` for a person, or `"external"`: the result of
            another system.
        editable: Whether an approver may change the arguments.
        schema: The JSON Schema of the answer to a question; `None`: any JSON value.
        within: The time to answer a question or a job, in seconds. `None`: no limit.
    """

    id: str
    tool: str
    arguments: Mapping[str, Any]
    kind: CallKind = "approval"
    editable: bool = False
    schema: Mapping[str, Any] | None = None
    within: float | None = None


@dataclass(frozen=True, kw_only=True)
class CallVerdict:
    """How the wait of one call ended.

    Attributes:
        call: The call.
        ending: `"approved"` only after a recorded `Approve`; `"answered"`, `"denied"`,
            `"failed"`, `"expired"` or `"cancelled"`.
        arguments: The arguments that were approved, with the edits of the approver.
        value: The answer, or `None`. That of an approval is a text for the agent.
        reason: Why the call was denied or failed, or `None`.
        by: The name of the decider, or `None`.
    """

    call: PausedCall
    ending: Ending
    arguments: Mapping[str, Any]
    value: Any = None
    reason: str | None = None
    by: str | None = None

    @property
    def refusal(self) -> str:
        """Why the call does not run, for its agent, if it was not approved."""
        if self.ending == "answered":
            return f"A person answered instead: {self.value}"
        return self.reason or f"The call was {self.ending}."


def make_paused_calls(
    name: str = "paused_calls", *, approval: ApprovalPolicy | None = None
) -> Any:
    """Make a workflow that holds paused calls.

    Args:
        name: The name of the workflow, as the runner knows it.
        approval: The policy of every approval: who decides, and how long. Its
            condition gets `tool` and `arguments`. Default: one decision of any person.

    Returns:
        The workflow, for `AsyncRunner([...])` and for `flow=` of the doors.

    Raises:
        InvalidInput: The policy has a form or edit rule, which no other kit takes.
    """
    check_type("approval", approval, ApprovalPolicy | None, "an ApprovalPolicy or None")
    policy = ApprovalPolicy() if approval is None else approval
    if policy.form is not None or policy.editable is not None:
        raise errors.InvalidInput(
            "make_paused_calls: approval has form or editable, which cannot be handed "
            "to another kit. Leave both out of the ApprovalPolicy."
        )

    fixed = _approval_tool("paused_call", replace(policy, editable=[]))
    editable = _approval_tool(
        "editable_paused_call", replace(policy, editable=["arguments"])
    )

    async def end_of(flow: Flow, call: PausedCall) -> list[Any]:
        try:
            if call.kind == "approval":
                target = editable if call.editable else fixed
                arguments = dict(call.arguments)
                value = await flow.call(target, call.tool, arguments)
                return ["approved", value]
            wait = ask if call.kind == "question" else external
            limit = call.within
            value = await wait(_text(call), _type(call), within=limit)
        except errors.CallError as error:
            return [_ENDINGS[type(error)], error.text]
        else:
            return ["answered", value]

    @workflow(name=name, tools=[fixed, editable])
    async def hold(flow: Flow, kit: str, state: str, calls: list[Any]) -> list[Any]:
        """Hold the paused calls of an agent of another kit."""
        del kit, state  # kept for the door
        ends = [end_of(flow, PausedCall(**each)) for each in calls]
        return list(await asyncio.gather(*ends))

    return hold


def _approval_tool(name: str, policy: ApprovalPolicy) -> Any:
    @tool(name=name, approval=policy, read_only=True, summary="Run {tool}")
    def paused_call(tool: str, arguments: dict[str, Any]) -> str:
        """Run a call of an agent of another kit.

        Args:
            tool: The tool of the other kit.
            arguments: The arguments of the call.
        """
        del tool
        return json.dumps(arguments)

    return paused_call


def _text(call: PausedCall) -> str:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    text = f"{call.tool}: {arguments}"
    return text if len(text) <= _MAX_QUESTION else f"{text[:_MAX_QUESTION]}…"


def _type(call: PausedCall) -> Any:
    if call.schema is None:
        return Any
    return Annotated[Any, WithJsonSchema(dict(call.schema))]


paused_calls = make_paused_calls()


async def open_calls(
    runner: AsyncRunner,
    calls: Sequence[PausedCall],
    *,
    kit: str,
    run_id: str,
    state: str = "",
    flow: Any = paused_calls,
    by: str | None = None,
    title: str | None = None,
) -> Outcome[Any]:
    """Start a run with one wait for each call. A repeat returns the same run.

    Args:
        runner: A runner that has the workflow among its agents.
        calls: The calls.
        kit: The name of the other kit. Its door takes the decisions.
        run_id: The id of the run.
        state: A text that the run keeps, such as a digest of the paused agent. People
            who may view the run can read it.
        flow: The workflow, of `make_paused_calls`.
        by: The requester, for `not_requester`.
        title: The subject of the run, on one line.

    Returns:
        `Suspended`, with the waits.

    Raises:
        InvalidInput: There is no call, or a value is not JSON.
        RunExists: The run id belongs to other calls or to another state.
    """
    check_async_runner(runner)
    if not calls:
        msg = f"run {run_id} was not opened: the agent of {kit} is not paused at a call"
        raise errors.InvalidInput(f"{msg}. Open it while it waits for a person.")
    rows = [asdict(each) for each in calls]
    try:
        bound = flow.bind(kit, state, rows)
        return await runner.start(
            bound, run_id=run_id, agent=flow.name, by=by, title=title
        )
    except errors.RunExists as error:
        msg = (
            f"run {run_id} was not opened: it holds other calls or another state. Use "
            "another run id for each pause of an agent."
        )
        raise errors.RunExists(msg, run_id=run_id) from error


async def read_verdicts(
    runner: AsyncRunner, run_id: str, *, kit: str, flow: Any = paused_calls
) -> tuple[str, list[CallVerdict]]:
    """Resume a run; return its state and decisions once all calls are decided.

    Args:
        runner: A runner that has the workflow among its agents.
        run_id: The id of the run.
        kit: The name of the kit that opened it.
        flow: The workflow with which it was opened.

    Returns:
        The kept text, and a verdict for each call, in their order.

    Raises:
        NotFinished: A call is not decided.
        RunFailed: The run was cancelled or has failed.
        InvalidInput: The run holds no paused calls of this kit.
        RunBusy, StaleRun: Another process works on the run.
        StoreError: The store failed.
    """
    check_async_runner(runner)
    opened = _opened((await runner.look(run_id)).root, kit, flow)
    if opened is None:
        msg = f"run {run_id} holds no paused calls of {kit}. Pass the id with which"
        raise errors.InvalidInput(f"{msg} the calls were opened.", run_id=run_id)
    outcome = await runner.resume(run_id)
    if isinstance(outcome, Suspended):
        ids = ", ".join(wait.id for wait in outcome.waits[:3])
        msg = (
            f"run {run_id} was not handed back: {len(outcome.waits)} of its calls are "
            f"not decided ({ids}). Decide each of them, then call again."
        )
        raise errors.NotFinished(msg, run_id=run_id, outcome=outcome)
    if not isinstance(outcome, Finished):
        msg = f"run {run_id} was not handed back: it was cancelled or has failed."
        raise errors.RunFailed(f"{msg} Open it anew.", run_id=run_id, outcome=outcome)
    calls = [PausedCall(**each) for each in opened["calls"]]
    endings = cast("list[tuple[Ending, Any]]", outcome.output)
    decided = await _decisions(runner, run_id)
    verdicts = [
        _verdict(run_id, call, ending, value, decision)
        for call, (ending, value), decision in zip(calls, endings, decided, strict=True)
    ]
    return opened["state"], verdicts


def _opened(root: Frame, kit: str, flow: Any) -> Any:
    """Return the arguments with which the calls were opened, or `None`."""
    if root.agent != flow.name:
        return None
    try:
        arguments: Any = json.loads(root.messages[0]["content"])
        return arguments if arguments["kit"] == kit else None
    except (ValueError, TypeError, LookupError):  # another workflow of this name
        return None


async def _decisions(
    runner: AsyncRunner, run_id: str
) -> list[tuple[str | None, str | None]]:
    """Return the kind of the last decision of each call, and who made it."""
    calls: dict[str, tuple[str | None, str | None]] = {}
    call_of: dict[str, str] = {}
    async for event in runner.events(run_id):
        match event:
            case CallProposed():
                calls[event.tool_call_id] = (None, None)
            case WaitOpened():
                call_of[event.wait.id] = event.wait.call_id
            case WaitDecided() if event.wait_id in call_of:
                calls[call_of[event.wait_id]] = (event.kind, event.by)
            case _:
                pass
    return list(calls.values())


def _verdict(
    run_id: str,
    call: PausedCall,
    ending: Ending,
    value: Any,
    decision: tuple[str | None, str | None],
) -> CallVerdict:
    kind, by = decision
    if ending == "approved" and kind is None:
        msg = (
            f"run {run_id} was not handed back: nobody approved the call "
            f"{call.id}, because the policy does not ask. Open it with a policy "
            "that asks a person."
        )
        raise errors.InvalidInput(msg, run_id=run_id)
    if ending == "approved" and kind == "approve":
        approved = json.loads(value)
        return CallVerdict(call=call, ending=ending, arguments=approved, by=by)
    verdict = CallVerdict(call=call, ending=ending, arguments=call.arguments, by=by)
    if ending in ("approved", "answered"):
        # A result that a person gave is no approval.
        return replace(verdict, ending="answered", value=value)
    return replace(verdict, reason=value)


def digest_of(value: Any) -> str:
    """Return a digest of JSON values, whatever the order of their keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def refuse_unchanged(run_id: str, kept: str, now: str, what: str) -> None:
    """Raise `InvalidInput` if a paused agent is not the one that was opened."""
    if kept != now:
        msg = (
            f"run {run_id} was not handed back: {what} is not the one that was opened."
            " Its decisions fit the old one only. Open the new one under another id."
        )
        raise errors.InvalidInput(msg, run_id=run_id)


def keep_approval(label: str, name: str, options: Any) -> None:
    """Let a tool ask that asks in its kit; raises `InvalidInput`.

    Args:
        label: The function that makes the tool.
        name: The name of the tool.
        options: The options of the user, which may get an `approval`.
    """
    approval = options.get("approval")
    if approval is False:
        raise errors.InvalidInput(
            f"{label}: tool {name} needs an approval, and approval=False would drop it."
            " Leave approval out, or pass a policy."
        )
    if approval is None:
        options["approval"] = True
