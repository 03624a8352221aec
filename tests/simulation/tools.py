"""The tools of the simulation: each takes virtual time and records its effect.

The record is kept in the environment, which no simulated crash reaches. A deployment
replaces the code of some tools; see `deployed_tools`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias, get_args

from continuations import Answer, ApprovalPolicy, Approve, ToolContext, tool
from continuations.authoring.tool.tool import Tool
from continuations.core import jsontext
from tests.own_task import cancel_own_task
from tests.simulation.fault_schedule import Deployment, FlowChange
from tests.simulation.files.actors import drawn_file
from tests.simulation.policy.tools import RULE_POLICIES, checked_policy, strict_policy
from tests.simulation.processes import ProcessKilled, current_process
from tests.simulation.seams.tools import REQUESTED_POLICIES, first_name, names_after
from tests.simulation.sim_environment import Effect
from tests.simulation.state.tools import KEEPING_TOOLS, keep, results
from tests.simulation.virtual_loop import NO_PROCESS
from tests.simulation.votes.tools import VOTING_POLICIES
from tests.simulation.waits.tools import (
    WAITING_TOOLS,
    final_result,
    make_waiting_tool,
    result_of,
)


@dataclass(frozen=True, slots=True)
class SimCall:
    """One execution of a tool.

    Attributes:
        code: The tool, as deployed in this process.
        what: The argument of the tool.
        arguments: The effective arguments as canonical JSON.
        ctx: The context of the call.
        stage: 0 for the tool's function, n for the n-th call of `on_answer`.
        answer: The answer that the function got, as canonical JSON.
        on_sent: Called when the first byte of the call was sent.
    """

    code: Tool[Any, Any]
    what: str
    arguments: str
    ctx: ToolContext
    stage: int = 0
    answer: str | None = None
    on_sent: Callable[[], None] | None = None

    @property
    def result(self) -> str:
        return result_of(first_name(self.code.name), self.what)


Body: TypeAlias = Callable[[SimCall], Coroutine[Any, Any, str]]


# Functions of tools -----------------------------------------------------------------


async def perform_effect(call: SimCall, seconds: float) -> str:
    """Record an effect, take some virtual seconds, and return the tool's result."""
    process = current_process()
    record = await _send_call(call)
    record()
    if process.draw_fault("die_in_call") is not None:
        await process.die_here()
    await asyncio.sleep(seconds)
    if process.draw_fault("die_in_call") is not None:
        await process.die_here()
    return call.result


async def _send_call(call: SimCall) -> Callable[[], None]:
    """Send the first byte of a call; return the function that records its effect."""
    process = current_process()
    environment = process.environment
    if environment.closed:
        raise ProcessKilled
    await process.freeze_before_call()
    sample, sent_at = process.clock_sample, environment.next_timestamp

    def record() -> None:
        effect = Effect(
            process=process.name,
            code=call.code,
            run_id=call.ctx.run_id,
            call_id=call.ctx.call_id,
            idempotency_key=call.ctx.idempotency_key,
            arguments=call.arguments,
            fence=call.ctx.fence,
            attempt=call.ctx.attempt,
            clock_sample=sample,
            sent_at=sent_at,
            began_at=environment.next_timestamp,
            stage=call.stage,
            answer=call.answer,
        )
        environment.effects.append(effect)
        if call.on_sent is not None:
            call.on_sent()
        environment.log_event(
            process.name,
            "effect",
            effect.tool,
            call.what,
            effect.call_id,
            f"fence {effect.fence}",
        )

    return record


TIMEOUT_SECONDS = 2.0
# A claim lasts at least this long after the first byte of a call, by the store's time.
_LATEST_EFFECT_SECONDS = 7.0


async def _transfer(call: SimCall) -> str:
    """Ask another system, which acts at once, late or never, and may not reply."""
    process = current_process()
    record = await _send_call(call)
    draw = process.draw_fault("tool_times_out")
    if draw is None or draw < 0.4:
        record()
    elif draw < 0.8:
        late = TIMEOUT_SECONDS + (draw - 0.4) / 0.4 * (
            _LATEST_EFFECT_SECONDS - TIMEOUT_SECONDS
        )
        process.environment.loop.call_later(late, record, context=NO_PROCESS)
    await asyncio.sleep(0.5 if draw is None else 2 * TIMEOUT_SECONDS)
    return call.result


async def _fail(call: SimCall) -> str:
    await perform_effect(call, 0.5)
    raise ValueError(call.what)


async def _draw(call: SimCall) -> Any:
    return [await perform_effect(call, 0.5), drawn_file(call.what)]


async def _keep(call: SimCall) -> str:
    return keep(call.ctx, call.what, await perform_effect(call, 0.5))


async def _keep_and_fail(call: SimCall) -> str:
    raise ValueError(await _keep(call))


async def _kill_worker(call: SimCall) -> str:
    """Kill the worker, also after all other faults have stopped."""
    result = await perform_effect(call, 0.1)
    process = current_process()
    if process.environment.faults.record(f"{process.name}/0 kill_worker"):
        await process.die_here()
    return result


async def _cancel_self(call: SimCall) -> str:
    await perform_effect(call, 0.1)
    return str(await _cancel_task_of_process())


async def _poisoned_policy(what: str) -> bool:
    del what
    return await _cancel_task_of_process()


async def _cancel_task_of_process() -> bool:
    current_process().cancelled_itself = True
    return await cancel_own_task()


async def verify(what: str, ctx: ToolContext) -> Answer | Approve | None:
    """Look the call up among the effects; for a `what` of odd length, find nothing."""
    process = current_process()
    await asyncio.sleep(0.3)
    if len(what) % 2:
        return None
    for effect in process.environment.effects:
        if effect.idempotency_key == ctx.idempotency_key:
            return Answer(result_of(effect.tool, what))
    return Approve()


async def _verify_with_note(
    what: str, note: str, ctx: ToolContext
) -> Answer | Approve | None:
    del note
    return await verify(what, ctx)


# The tools --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Declaration:
    """The function of a tool, and its options."""

    body: Body
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _acts(seconds: float, **options: Any) -> _Declaration:
    async def body(call: SimCall) -> str:
        return await perform_effect(call, seconds)

    return _Declaration(body, options)


_KEEPS: Mapping[str, Any] = {"idempotent": True, "writes_state": True}
_DECLARATIONS: dict[str, _Declaration] = {
    "act": _acts(0.5),
    "look": _acts(0.2, read_only=True),
    "push": _acts(0.5, idempotent=True),
    "check": _acts(0.7, verify=verify),
    "slow": _acts(42.0),
    "slow_idempotent": _acts(38.0, idempotent=True),
    "kill_worker": _Declaration(_kill_worker, {"idempotent": True}),
    "fail": _Declaration(_fail),
    "pay": _acts(0.5, approval=True),
    "slow_payment": _acts(35.0, approval=True),
    "post": _acts(0.5, approval=True, idempotent=True),
    "book": _acts(0.5, approval=True, verify=verify),
    "sign": _acts(0.5, approval=ApprovalPolicy(expires_after=45)),
    "expiry_stops": _acts(
        0.5, approval=ApprovalPolicy(expires_after=60, on_expired="stop")
    ),
    "short_approval": _acts(0.5, approval=ApprovalPolicy(valid_for=15)),
    "denial_stops": _acts(0.5, approval=ApprovalPolicy(on_denied="stop")),
    "cancel_self": _Declaration(_cancel_self, {"idempotent": True}),
    "poisoned": _acts(0.5, approval=_poisoned_policy),
    "short_post": _acts(0.5, approval=ApprovalPolicy(valid_for=15), idempotent=True),
    "transfer": _Declaration(_transfer, {"timeout": TIMEOUT_SECONDS}),
    "charge": _Declaration(
        _transfer, {"timeout": TIMEOUT_SECONDS, "approval": True, "verify": verify}
    ),
    "keep": _Declaration(_keep, _KEEPS),
    "keep_approved": _Declaration(_keep, {**_KEEPS, "approval": True}),
    "keep_and_fail": _Declaration(_keep_and_fail, _KEEPS),
    **{name: _acts(0.5, approval=policy) for name, policy in VOTING_POLICIES.items()},
    # Repeatable: an answer of a person about an unknown outcome has no attachment.
    "draw": _Declaration(_draw, {"idempotent": True}),
    "draw_approved": _Declaration(_draw, {"idempotent": True, "approval": True}),
    **{name: _acts(0.5, approval=policy) for name, policy in RULE_POLICIES.items()},
    **{
        name: _acts(0.5, approval=policy) for name, policy in REQUESTED_POLICIES.items()
    },
}
# Deployments that leave the code of tools as it is.
_SAME_TOOLS = (None, "renames", *get_args(FlowChange))
# Their runs never end, or end after too many attempts.
_NEVER_CHANGED = frozenset({"cancel_self", "poisoned", "kill_worker"})


def _make_tool(name: str, declaration: _Declaration, **changes: Any) -> Tool[Any, Any]:
    async def work(what: str, ctx: ToolContext) -> str:
        arguments = jsontext.canonical({"what": what})
        return await declaration.body(SimCall(made, what, arguments, ctx))

    options = {**declaration.options, **changes}
    made = tool(work, name=name, description="Work.", **options)
    return made


def _make_tool_with_note(name: str, declaration: _Declaration) -> Tool[Any, Any]:
    """Make a tool with one more parameter."""

    async def work(what: str, ctx: ToolContext, note: str = "none") -> str:
        arguments = jsontext.canonical({"what": what, "note": note})
        return await declaration.body(SimCall(made, what, arguments, ctx))

    options = dict(declaration.options)
    if "verify" in options:
        options["verify"] = _verify_with_note
    made = tool(work, name=name, description="Work.", **options)
    return made


async def _perform(call: SimCall, seconds: float) -> str:
    return await perform_effect(call, seconds)


@cache
def deployed_tools(change: Deployment | None) -> Mapping[str, Tool[Any, Any]]:
    """Return the tools by their first names, as they are after a deployment.

    Args:
        change: The deployment. With `parameter` or `version`, the tools that need
            approval have one more parameter, or another version; with `removal` they
            are gone. With `approval`, all tools need approval. With `strict` or
            `recheck`, the policies of those that need it get that option. With
            `renames`, some tools have another name.
    """
    tools: dict[str, Tool[Any, Any]] = {}
    new_names = names_after(change)
    for name, waiting_tool in WAITING_TOOLS.items():
        tools[name] = make_waiting_tool(name, waiting_tool, _perform, SimCall)
    for name, declaration in _DECLARATIONS.items():
        needs_approval = "approval" in declaration.options
        if change in _SAME_TOOLS or name in _NEVER_CHANGED:
            tools[name] = _make_tool(new_names.get(name, name), declaration)
        elif needs_approval == (change == "approval"):
            # The deployment does not concern this tool.
            tools[name] = _make_tool(name, declaration)
        elif change == "parameter":
            tools[name] = _make_tool_with_note(name, declaration)
        elif change == "version":
            tools[name] = _make_tool(name, declaration, version="2")
        elif change == "strict":
            policy = strict_policy(declaration.options["approval"])
            tools[name] = _make_tool(name, declaration, approval=policy)
        elif change == "recheck":
            policy = checked_policy(declaration.options["approval"], name)
            tools[name] = _make_tool(name, declaration, approval=policy)
        elif change == "approval":
            tools[name] = _make_tool(name, declaration, approval=True)
    return tools


TOOLS = deployed_tools(None)
REPEATABLE = frozenset(name for name, each in TOOLS.items() if each.repeatable)


def results_without_errors() -> frozenset[str]:
    """Return the JSON of every result of the tools that never raise."""
    return _RESULTS_WITHOUT_ERRORS


_RESULTS_WITHOUT_ERRORS = frozenset(
    jsontext.canonical(result)
    for name in TOOLS
    if name != "fail"
    for what in ("1", "2", "3", "22", *TOOLS)
    for result in (
        result_of(name, what),
        final_result(name, result_of(name, what)),
        *(results(result_of(name, what)) if name in KEEPING_TOOLS else ()),
    )
)
