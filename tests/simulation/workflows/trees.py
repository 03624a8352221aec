"""Trees with workflows: as the root, below an agent, and in another workflow.

A deployment changes one call of each tree, or adds a call under a patch. The functions
here are the code of workflows: they run again in every replay.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Flow,
    ask,
    sleep,
    wait_for,
    workflow,
)
from continuations.errors import CallError
from tests.simulation.events.actors import EVENT_KEY, EVENT_NAME
from tests.simulation.tools import TOOLS
from tests.simulation.waits.tools import result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from continuations.authoring.workflow.workflow import Workflow
    from tests.simulation.fault_schedule import Deployment

    Code: TypeAlias = "Callable[[Parts], Workflow[Any, Any]]"

# The answer to each question of a workflow, if no person gives another one.
FLOW_ANSWER = result_of("ask_only", "1")
_TOOL_NAMES = ("act", "look", "push", "pay", "post", "book", "slow", "fail", "sign")
# This workflow awaits something that nothing sets, in so many of its runs.
STUCK_TREE, _STUCK_RUNS = "flow_errors", 0.4
# The call that a deployment changes: its tool, and its argument.
FIRST_CALL = ("act", "sign")
CHANGED_CALLS: Mapping[str, tuple[str, str]] = {
    "other_argument": ("act", "book"),
    "other_tool": ("push", "sign"),
}
_LINES: Mapping[str, Sequence[Any]] = {
    "go": [[("inner", "1"), ("act", "2")], "end"],
    "A": [[("pay", "1")], [("post", "3"), ("act", "3")], "A end"],
    "B": [[("act", "1"), ("look", "2")], [("post", "2")], "B end"],
    "C": [[("push", "1")], "C end"],
}


@dataclass(frozen=True)
class Parts:
    """The tools and agents of one deployment.

    Attributes:
        name: The name of the tree.
        change: The deployment.
    """

    name: str
    change: Deployment | None

    @cached_property
    def agents(self) -> Mapping[str, Agent]:
        """The agents that a workflow calls; `checked` needs an approval."""
        return {name: self.agent(name) for name in ("clerk", "teller")}

    @cached_property
    def checked(self) -> Any:
        """An agent that needs an approval."""
        return self.agent("checked").as_tool(approval=ApprovalPolicy())

    def agent(self, name: str, *tools: Any) -> Agent:
        """Make an agent with a scripted model."""
        from tests.simulation.agents import SimModel  # noqa: PLC0415 - it imports this

        below = [TOOLS[each] for each in ("act", "look", "push", "pay", "post")]
        return Agent(name, tools=[*below, *tools], model=SimModel(_LINES, {}))

    def workflow(
        self, function: Any, name: str | None = None, *agents: Any
    ) -> Workflow[Any, Any]:
        return workflow(
            name=name or self.name,
            tools=[*(TOOLS[each] for each in _TOOL_NAMES), self.checked],
            agents=[*self.agents.values(), *agents],
        )(function)

    def changing(self, flow: Flow) -> Coroutine[Any, Any, Any]:
        """Return the call that a deployment may change."""
        tool, what = CHANGED_CALLS.get(str(self.change), FIRST_CALL)
        return flow.call(TOOLS[tool], what)

    async def patched(self, flow: Flow) -> None:
        """Make one more call in the code of a deployment with a patch."""
        if self.change == "patched" and flow.patched("one more"):
            await call(flow, "look", "3")

    @property
    def nap(self) -> timedelta:
        """How long a workflow sleeps; a deployment with a patch changes that too."""
        return timedelta(seconds=45 if self.change == "patched" else 90)


def call(flow: Flow, tool: str, what: str) -> Coroutine[Any, Any, Any]:
    """Return a call of a tool."""
    return flow.call(TOOLS[tool], what)


def _steps(parts: Parts) -> Workflow[Any, Any]:
    async def code(flow: Flow) -> str:
        what = flow.random.choice(("1", "2", "3"))
        first = await call(flow, "act", what)
        paid = await call(flow, "pay", "2")
        await parts.changing(flow)
        await parts.patched(flow)
        if flow.uuid().int % 2:
            await call(flow, "push", "1")
        answer = await ask("Which one?", str)
        last = await flow.call(parts.agents["clerk"], "A")
        return f"{first == result_of('act', what)} {paid} {answer} {last}"

    return parts.workflow(code)


def _gathered(parts: Parts) -> Workflow[Any, Any]:
    async def later(flow: Flow) -> str:
        answer = await ask("And then?", str)
        await parts.patched(flow)
        return answer

    async def code(flow: Flow) -> str:
        async with asyncio.TaskGroup() as group:
            acted = group.create_task(call(flow, "act", "1"))
            paid = group.create_task(call(flow, "pay", "2"))
            told = group.create_task(flow.call(parts.agents["clerk"], "A"))
            answer = group.create_task(later(flow))
        await parts.changing(flow)
        more = await asyncio.gather(
            call(flow, "look", "3"),
            call(flow, "post", "22"),
            flow.call(parts.checked, "C"),
            ask("And now?", str),
            ask("And here?", str),
            ask("And there?", str),
        )
        ended = (acted.result(), paid.result(), told.result(), answer.result(), *more)
        return " ".join(ended)

    return parts.workflow(code)


def _race(parts: Parts) -> Workflow[Any, Any]:
    async def both(flow: Flow) -> str:
        await call(flow, "act", "1")
        return str(await call(flow, "act", "22"))

    async def code(flow: Flow) -> str:
        tasks = [
            asyncio.create_task(call(flow, "pay", "1")),
            asyncio.create_task(flow.call(parts.agents["clerk"], "A")),
            asyncio.create_task(flow.call(parts.agents["teller"], "B")),
            asyncio.create_task(ask("Stop?")),
            asyncio.create_task(call(flow, "post", "2")),
        ]
        # Calls that begin while others end.
        tasks.append(asyncio.create_task(both(flow)))
        done, pending = await asyncio.wait(
            tasks[:-1], return_when=asyncio.FIRST_COMPLETED
        )
        for task in (*pending, tasks[-1]):
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        await parts.changing(flow)
        await parts.patched(flow)
        last = await call(flow, "pay", "3")
        kinds = " ".join(type(each).__name__ for each in ended)
        return f"{len(done)} {kinds} {last}"

    return parts.workflow(code)


def _in_time(parts: Parts) -> Workflow[Any, Any]:
    async def code(flow: Flow) -> str:
        ended: list[str] = []
        for number, target in enumerate(("pay", "clerk", "post"), 1):
            try:
                async with asyncio.timeout(20 * number):
                    if target == "clerk":
                        ended.append(await flow.call(parts.agents["clerk"], "A"))
                    else:
                        ended.append(await call(flow, target, str(number)))
            except TimeoutError:
                ended.append("late")
                await call(flow, "act", str(number))
            if number == 1:
                await parts.changing(flow)
        await parts.patched(flow)
        try:
            async with asyncio.timeout(70):
                answer = await ask(
                    "Which?", str, within=45, on_deadline=Answer(FLOW_ANSWER)
                )
        except TimeoutError:
            answer = "none"
        return f"{ended} {answer}"

    return parts.workflow(code)


def _naps(parts: Parts) -> Workflow[Any, Any]:
    async def ticks(flow: Flow) -> None:
        for what in ("1", "2", "3"):
            await sleep(timedelta(seconds=5))
            await call(flow, "look", what)

    async def code(flow: Flow) -> str:
        await sleep(timedelta(seconds=10))
        slow = asyncio.create_task(call(flow, "slow", "1"))
        ticking = asyncio.create_task(ticks(flow))
        await asyncio.gather(slow, ticking)
        await parts.changing(flow)
        napping = asyncio.create_task(asyncio.sleep(parts.nap.total_seconds()))
        told = await flow.call(parts.agents["clerk"], "A")
        await parts.patched(flow)
        await napping
        return f"{slow.result()} {told}"

    return parts.workflow(code)


def _events(parts: Parts) -> Workflow[Any, Any]:
    async def code(flow: Flow) -> str:
        event = wait_for(EVENT_NAME, str, key=EVENT_KEY, within=60)
        mail = asyncio.create_task(_or_error(event))
        answer = asyncio.create_task(_or_error(ask("Which?", str, within=90)))
        paid = asyncio.create_task(_or_error(call(flow, "sign", "1")))
        ended = [await each for each in (mail, answer, paid)]
        await parts.changing(flow)
        await parts.patched(flow)
        again = await _or_error(wait_for(EVENT_NAME, key=EVENT_KEY, within=30))
        return f"{ended} {again}"

    return parts.workflow(code)


async def _or_error(awaited: Any) -> Any:
    """Return the value of a call, or the kind of its error."""
    try:
        return await awaited
    except CallError as error:
        return f"{type(error).__name__} {error.code}"


def _errors(parts: Parts) -> Workflow[Any, Any]:
    async def code(flow: Flow) -> str:
        failed = await _or_error(call(flow, "fail", "1"))
        paid = await asyncio.gather(
            _or_error(call(flow, "pay", "1")),
            _or_error(flow.call(parts.checked, "C")),
            _or_error(call(flow, "book", "22")),
        )
        await parts.changing(flow)
        await parts.patched(flow)
        async with asyncio.timeout(500):
            told = await _or_error(flow.call(parts.agents["teller"], "B"))
        if flow.random.random() < _STUCK_RUNS:
            await asyncio.Event().wait()
        return f"{failed} {paid} {told}"

    return parts.workflow(code)


def _inner(parts: Parts) -> Workflow[Any, Any]:
    # The only parameter has the name that models give to the input of an agent.
    async def inner(flow: Flow, input: str) -> str:  # noqa: A002
        first = await call(flow, "act", input)
        await parts.changing(flow)
        await parts.patched(flow)
        told = await flow.call(parts.agents["clerk"], "A")
        answer = await ask("Which one?", str)
        return f"{first} {told} {answer}"

    return parts.workflow(inner, "inner")


def _below(parts: Parts) -> Agent:
    return parts.agent(parts.name, _inner(parts))


def _nested(parts: Parts) -> Workflow[Any, Any]:
    inner = _inner(parts)

    async def code(flow: Flow) -> str:
        told = asyncio.create_task(flow.call(inner, "2"))
        try:
            async with asyncio.timeout(45):
                paid = await call(flow, "pay", "3")
        except TimeoutError:
            paid = "late"
        try:
            async with asyncio.timeout(60):
                return f"{paid} {await told}"
        except TimeoutError:
            return f"{paid} {await call(flow, 'push', '3')}"

    return parts.workflow(code, None, inner)


MONTH = timedelta(seconds=90)


def _months(parts: Parts) -> Workflow[Any, Any]:
    async def code(flow: Flow, month: int = 1) -> str:
        waiting = asyncio.create_task(call(flow, "pay", "22"))
        acted = await call(flow, "act", str(month))
        if month > 1:
            await parts.changing(flow)
        # A shorter sleep could end before the outcome of `pay`, which is recorded.
        await sleep(MONTH)
        if month < 3:
            flow.restart(month + 1)
        await parts.patched(flow)
        waiting.cancel()
        return str(acted)

    return parts.workflow(code)


def _left_open(parts: Parts) -> Workflow[Any, Any]:
    async def code(flow: Flow) -> str:
        tasks = [
            asyncio.create_task(call(flow, "pay", "1")),
            asyncio.create_task(flow.call(parts.agents["teller"], "B")),
            asyncio.create_task(call(flow, "slow", "3")),
            asyncio.create_task(_endless(flow)),
        ]
        answer = await ask("Enough?", str)
        await parts.changing(flow)
        await parts.patched(flow)
        return f"{answer} {len(tasks)}"

    return parts.workflow(code)


async def _endless(flow: Flow) -> None:
    while True:
        await call(flow, "look", "1")
        await asyncio.sleep(30)


@dataclass(frozen=True, slots=True)
class FlowTree:
    """A tree with workflows; it has the attributes of `agents.Tree` that others use.

    Attributes:
        name: The name of the tree, and of its root.
        code: Makes the root.
        by_clock: Whether its end depends on who or what comes first.
    """

    name: str
    code: Callable[[Parts], Agent]
    by_clock: bool = False

    @property
    def sub_agents(self) -> Mapping[str, Any]:
        """The agents below it that need an approval."""
        return {"checked?": {}}

    @property
    def tool_names(self) -> frozenset[str]:
        return frozenset(_TOOL_NAMES)

    def make_root(self, change: Deployment | None) -> Agent:
        return self.code(Parts(self.name, change))


_ALL = (
    FlowTree("flow_steps", _steps),
    FlowTree("flow_gathered", _gathered),
    FlowTree("flow_race", _race, by_clock=True),
    FlowTree("flow_in_time", _in_time, by_clock=True),
    FlowTree("flow_naps", _naps),
    FlowTree("flow_events", _events, by_clock=True),
    FlowTree(STUCK_TREE, _errors, by_clock=True),
    FlowTree("flow_below", _below),
    FlowTree("flow_nested", _nested, by_clock=True),
    FlowTree("flow_months", _months, by_clock=True),
    FlowTree("flow_left_open", _left_open, by_clock=True),
)
FLOW_TREES: dict[str, FlowTree] = {tree.name: tree for tree in _ALL}
