"""LangGraph: the interrupts of a checkpoint as waits.

await open_interrupts(runner, graph.get_state(config), run_id="order-17")
command = await resume_command(runner, graph.get_state(config), run_id="order-17")
graph.invoke(command, config)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, cast

from annotated_types import MinLen
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from continuations.errors import InvalidInput
from continuations.interop import missing_package
from continuations.interop.paused_calls import (
    CallVerdict,
    PausedCall,
    digest_of,
    open_calls,
    paused_calls,
    read_verdicts,
    refuse_unchanged,
)

try:
    from langgraph.types import Command, Interrupt, StateSnapshot
except ImportError as error:
    raise missing_package("langgraph", "langgraph", error) from None

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations import AsyncRunner, Outcome

__all__ = ["open_interrupts", "resume_command"]

_KIT = "langgraph"


async def open_interrupts(
    runner: AsyncRunner,
    snapshot: StateSnapshot,
    *,
    run_id: str,
    flow: Any = paused_calls,
    by: str | None = None,
    title: str | None = None,
) -> Outcome[Any]:
    """Open the interrupts of a checkpoint.

    An interrupt of `HumanInTheLoopMiddleware` (`action_requests`) becomes an approval
    for each action. Any other one becomes a question, whose answer is the value of
    `Command(resume=...)`. It must fit `response_schema`, if the interrupt has one.

    Args:
        runner: A runner that has `paused_calls` among its agents.
        snapshot: The newest state: `graph.get_state(config)`, or of `aget_state`.
        run_id: The id of the run. Use another one for each pause.
        flow: The workflow, of `make_paused_calls`.
        by: The requester.
        title: The subject of the run, on one line.

    Returns:
        `Suspended`, with the waits.

    Raises:
        InvalidInput: The checkpoint has no open interrupt, an interrupt has a value
            that is not JSON, or an action that forbids approval or denial.
        RunExists: The run id belongs to another checkpoint.
    """
    calls = [call for each in _interrupts(snapshot) for call in _calls(each)]
    return await open_calls(
        runner,
        calls,
        kit=_KIT,
        run_id=run_id,
        state=_state(snapshot),
        flow=flow,
        by=by,
        title=title,
    )


async def resume_command(
    runner: AsyncRunner,
    snapshot: StateSnapshot,
    *,
    run_id: str,
    flow: Any = paused_calls,
) -> Command[Any]:
    """Return the decisions as a `Command(resume=...)`, by the id of each interrupt.

    Only an `Approve` becomes an approve or edit decision. A question that was declined,
    or that expired, has no value to resume with: then the function raises.

    Args:
        runner: The runner.
        snapshot: The state as it is now, which must be the checkpoint that was opened.
        run_id: The id of the run.
        flow: The workflow with which it was opened.

    Returns:
        The command.

    Raises:
        InvalidInput: The graph has moved on, or a question has no answer.
        NotFinished: An interrupt is not decided.
        RunFailed: The run was cancelled.
    """
    interrupts = _interrupts(snapshot)
    kept, verdicts = await read_verdicts(runner, run_id, kit=_KIT, flow=flow)
    refuse_unchanged(run_id, kept, _state(snapshot), "the checkpoint of the graph")
    left = iter(verdicts)
    resume: dict[str, Any] = {}
    for each in interrupts:
        decided = [next(left) for _ in _calls(each)]
        if _request(each.value) is None:
            resume[each.id] = _answer(run_id, decided[0])
        else:
            resume[each.id] = {"decisions": [_decision(one) for one in decided]}
    return Command(resume=resume)


def _interrupts(snapshot: StateSnapshot) -> tuple[Interrupt[Any], ...]:
    if not isinstance(cast("Any", snapshot), StateSnapshot):
        got = type(snapshot).__name__
        msg = f"snapshot must be a StateSnapshot, got {got}. Pass graph.get_state("
        raise InvalidInput(f"{msg}config).")
    return snapshot.interrupts


def _state(snapshot: StateSnapshot) -> str:
    """Return what names the checkpoint and its interrupts, as JSON text."""
    place = snapshot.config.get("configurable", {})
    names = ("thread_id", "checkpoint_ns", "checkpoint_id")
    interrupts = [[each.id, _json(each.value)] for each in snapshot.interrupts]
    values = {name: str(place.get(name, "")) for name in names}
    return json.dumps({**values, "interrupts": digest_of(interrupts)})


def _json(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(
            f"the interrupt was not opened: its value ({type(value).__name__}) is not "
            "JSON, so no person could read it. Call interrupt(...) with JSON values."
        ) from None


class _Action(TypedDict):
    name: str
    args: dict[str, Any]


class _Review(TypedDict):
    action_name: str
    allowed_decisions: list[str]


class _Request(TypedDict):
    """A request of LangChain's `HumanInTheLoopMiddleware`."""

    action_requests: Annotated[list[_Action], MinLen(1)]
    review_configs: NotRequired[list[_Review]]


_REQUEST = TypeAdapter(_Request)


def _request(value: Any) -> _Request | None:
    try:
        return _REQUEST.validate_python(_json(value), strict=True)
    except ValidationError:
        return None


def _calls(interrupt: Interrupt[Any]) -> list[PausedCall]:
    request = _request(interrupt.value)
    if request is None:
        schema: Any = interrupt.response_schema
        return [
            PausedCall(
                id=interrupt.id,
                tool="interrupt",
                arguments={"value": _json(interrupt.value)},
                kind="question",
                schema=cast("Any", schema) if isinstance(schema, dict) else None,
            )
        ]
    reviews = request.get("review_configs", [])
    allowed = {each["action_name"]: set(each["allowed_decisions"]) for each in reviews}
    return [_action(interrupt.id, each, allowed) for each in request["action_requests"]]


def _action(
    interrupt_id: str, action: _Action, allowed: Mapping[str, set[str]]
) -> PausedCall:
    name = action["name"]
    decisions = allowed.get(name, {"approve", "reject"})
    if not {"approve", "reject"} <= decisions:
        raise InvalidInput(
            f"the interrupt was not opened: the action {name} does not allow both "
            "approve and reject, so a decision could not be carried over. Decide it "
            "in LangGraph."
        )
    return PausedCall(
        id=interrupt_id,
        tool=name,
        arguments=action["args"],
        editable="edit" in decisions,
    )


def _answer(run_id: str, verdict: CallVerdict) -> Any:
    if verdict.ending != "answered":
        msg = (
            f"run {run_id} was not handed back: the question of interrupt "
            f"{verdict.call.id} has no answer ({verdict.ending}). Resume the graph "
            "with a value of your own."
        )
        raise InvalidInput(msg, run_id=run_id)
    return verdict.value


def _decision(verdict: CallVerdict) -> dict[str, Any]:
    if verdict.ending == "approved":
        if verdict.arguments == verdict.call.arguments:
            return {"type": "approve"}
        action = {"name": verdict.call.tool, "args": dict(verdict.arguments)}
        return {"type": "edit", "edited_action": action}
    return {"type": "reject", "message": verdict.refusal}
