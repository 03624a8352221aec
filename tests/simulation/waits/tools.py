"""Tools that wait, and the other system that ends some of their waits.

The function of each tool records an effect and returns a wait. The `on_answer` function
of some of them records one too.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations import (
    Answer,
    ContinuationsError,
    Deny,
    Fail,
    ToolContext,
    ask,
    external,
    sleep,
    tool,
    wait_for,
)
from continuations.core import jsontext
from continuations.tools import ToolWait
from tests.simulation.events.actors import EVENT_KEY, EVENT_NAME
from tests.simulation.processes import current_process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations.authoring.tool.tool import Tool
    from continuations.core.rows.decisions import Verdict
    from tests.simulation.sim_environment import SimEnvironment
    from tests.simulation.tools import SimCall

    Perform: TypeAlias = "Callable[[SimCall, float], Any]"

# Within an early answer, the tool has not returned: it takes this long.
_WORK_SECONDS = 3.0
STANDARD = "the standard one"


@dataclass(frozen=True, slots=True)
class WaitingTool:
    """A tool that waits.

    Attributes:
        wait: Returns the wait for an argument.
        answer_type: The type of the answer that its `on_answer` function takes, or
            `None` if there is no such function.
        starts_job: Whether the tool gives another system the id of its wait.
        stops_job: Whether the tool has an `on_cancel` function.
        options: Options of the tool.
        stages: How often the `on_answer` function is called. Each call but the last
            one returns the next wait, which `again` makes.
        again: Returns the wait for an argument and the number of its stage.
    """

    wait: Callable[[str], ToolWait[Any]]
    answer_type: type | None = None
    starts_job: bool = False
    stops_job: bool = False
    options: Mapping[str, Any] | None = None
    stages: int = 1
    again: Callable[[str, int], ToolWait[Any]] | None = None


WAITING_TOOLS: dict[str, WaitingTool] = {
    "ask_only": WaitingTool(lambda what: ask(f"{what}?")),
    # The function takes fewer values than the wait.
    "ask_then": WaitingTool(lambda what: ask(f"{what}?", Any), answer_type=str),
    "ask_standard": WaitingTool(
        lambda what: ask(f"{what}?", within=45, on_deadline=Answer(STANDARD)),
        answer_type=str,
        options={"idempotent": True},
    ),
    "ask_or_deny": WaitingTool(
        lambda what: ask(f"{what}?", within=50, on_deadline=Deny(reason="late")),
        answer_type=str,
    ),
    "ask_or_fail": WaitingTool(
        lambda what: ask(f"{what}?", within=40, on_deadline=Fail("late"))
    ),
    "nap": WaitingTool(lambda _: sleep(35), answer_type=str),
    "nap_only": WaitingTool(lambda _: sleep(20)),
    "job": WaitingTool(
        lambda what: external(what, str, within=120), answer_type=str, starts_job=True
    ),
    "job_again": WaitingTool(
        external, starts_job=True, options={"idempotent": True}, answer_type=str
    ),
    "job_stop": WaitingTool(
        lambda what: external(what, str, within=60), starts_job=True, stops_job=True
    ),
    "event": WaitingTool(lambda what: wait_for("mail", str, key=what, within=90)),
    "letter": WaitingTool(lambda _: wait_for(EVENT_NAME, str, key=EVENT_KEY)),
    # The function takes fewer values than the wait.
    "letter_then": WaitingTool(
        lambda _: wait_for(EVENT_NAME, key=EVENT_KEY),
        answer_type=str,
        options={"idempotent": True},
    ),
    "letter_soon": WaitingTool(
        lambda _: wait_for(EVENT_NAME, str, key=EVENT_KEY, within=60),
        options={"idempotent": True},
    ),
    "post": WaitingTool(lambda _: wait_for(EVENT_NAME, str)),
    # The memo is the number of the call of `on_answer` that gets the answer.
    "ask_thrice": WaitingTool(
        lambda what: ask(f"{what}?", memo=1),
        answer_type=str,
        stages=3,
        again=lambda what, stage: ask(f"{what} ({stage})?", memo=stage),
    ),
    "ask_and_nap": WaitingTool(
        lambda what: ask(f"{what}?", within=60, on_deadline=Answer("on"), memo=1),
        answer_type=str,
        stages=3,
        again=lambda _, stage: sleep(15, memo=stage),
        options={"idempotent": True},
    ),
    "poll": WaitingTool(
        lambda what: external(what, within=15, on_deadline=Answer("poll"), memo=1),
        answer_type=str,
        starts_job=True,
        stages=4,
        again=lambda what, stage: external(
            what, within=10 * stage, on_deadline=Answer("poll"), memo=stage
        ),
    ),
}


def final_result(name: str, result: str) -> str:
    """Return the result of a call of any tool, after its answer if it waits.

    Args:
        name: The tool.
        result: The result of its function, if it did not wait.
    """
    declaration = WAITING_TOOLS.get(name)
    if declaration is None:
        return result
    if declaration.answer_type is not None:
        return f"{result}, after the answer"
    return "The time has come." if name == "nap_only" else result


def make_waiting_tool(
    name: str,
    declaration: WaitingTool,
    perform: Perform,
    new_call: Callable[..., SimCall],
) -> Tool[Any, Any]:
    """Return a tool that waits; `perform` records an effect and takes some time."""

    async def work(what: str, ctx: ToolContext) -> Any:
        await act(what, ctx, 0, None)
        return declaration.wait(what)

    async def act(what: str, ctx: ToolContext, stage: int, answer: str | None) -> None:
        arguments = jsontext.canonical({"what": what})
        starts = declaration.starts_job and stage < declaration.stages
        environment = current_process().environment
        start = partial(start_job, environment, name, what, ctx, stage)
        options: Any = {"on_sent": start} if starts else {}
        call = new_call(
            made, what, arguments, ctx, stage=stage, answer=answer, **options
        )
        await perform(call, _WORK_SECONDS if starts else 0.5)

    async def received(answer: Any, what: str, ctx: ToolContext) -> Any:
        stage = ctx.stage
        await act(what, ctx, stage, jsontext.canonical(answer))
        if declaration.again is not None and not declaration.starts_job:
            # A job may answer before the wait is stored, and with it the memo.
            assert ctx.memo == stage
        if declaration.again is not None and stage < declaration.stages:
            return declaration.again(what, stage + 1)
        return final_result(name, result_of(name, what))

    options: Any = declaration.options or {}
    made: Tool[Any, Any] = tool(work, name=name, description="Wait.", **options)

    async def stop(ctx: ToolContext) -> None:
        process = current_process()
        await asyncio.sleep(process.rng.random())
        at = process.environment.next_timestamp
        process.environment.stops.append((ctx.idempotency_key, at))

    if declaration.stops_job:
        made.on_cancel(stop)
    if declaration.answer_type is not None:
        received.__annotations__["answer"] = declaration.answer_type
        made.on_answer(received)
    return made


# The other system -------------------------------------------------------------------


def result_of(name: str, what: str) -> str:
    return f"{name} {what} done"


def start_job(
    environment: SimEnvironment, name: str, what: str, ctx: ToolContext, stage: int
) -> None:
    """Let another system end a wait: before the tool returns, later, late, or twice."""
    from tests.simulation.actors import Actor  # noqa: PLC0415 - it imports the tools

    environment.jobs.setdefault(ctx.wait_id, (ctx.run_id, ctx.call_id, stage))
    actor = Actor(environment, f"system{len(environment.processes)}")
    actor.process.run(_answer(actor, ctx.wait_id, result_of(name, what)))


async def _answer(actor: Any, wait_id: str, value: str) -> None:
    from tests.simulation.actors import decide_wait  # noqa: PLC0415 - see above

    rng, environment = actor.rng, actor.environment
    draws = [rng.random() for _ in range(4)]
    delay = draws[0] * 2 * _WORK_SECONDS if draws[1] < 0.6 else draws[0] * 150
    await asyncio.sleep(delay)
    verdict: Verdict = Answer(value, by=actor.name)
    if environment.allow_denials and draws[2] < 0.2:
        verdict = Fail("broken", by=actor.name)
    for _ in range(4):
        result = await decide_wait(actor, wait_id, verdict)
        if draws[3] > 0.7:  # once more, to be sure
            draws[3] = 0.0
        elif isinstance(result, ContinuationsError | None):
            await asyncio.sleep(20 * draws[3])
        else:
            break


def draw_answer(actor: Any, result: str) -> Verdict:
    """Draw a verdict for a wait that a tool opened."""
    draw = actor.rng.random() if actor.environment.allow_denials else 0.0
    by = actor.name
    choices: list[tuple[float, Callable[[], Verdict]]] = [
        (0.6, partial(Answer, result, by=by)),
        (0.7, partial(Answer, 9, by=by)),
        (0.8, partial(Answer, f"{by} says so", by=by)),
        (0.9, partial(Fail, "no", by=by)),
    ]
    return next((make() for limit, make in choices if draw < limit), Deny(by=by))
