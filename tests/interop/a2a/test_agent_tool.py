"""An agent of another system as a tool: our own server, and servers of other kinds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCard, Part, TaskState
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from continuations import Agent, Answer, Approve, AsyncRunner, Suspended, Wait
from continuations.errors import DecisionRefused, InvalidInput
from continuations.interop import a2a
from continuations.interop.a2a.task_states import data_part
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.testing import FrozenClock, memory_store
from continuations_storage import Store
from tests.crash_points import CrashPoint, every_crash
from tests.interop.a2a.application import URL, make_app, make_runner
from tests.run_environment import RunEnvironment


def headers_of_kim(_ctx: object) -> dict[str, str]:
    """Return the identity of the tests' server."""
    return {"x-user": "kim"}


class Boss:
    """A runner whose agent gives one message to the agent of another system."""

    def __init__(self, app: ASGIApp, message: str, **options: Any) -> None:
        self.app = app
        self.requests: list[httpx.Request] = []
        self.clock = FrozenClock()
        self.store: Store = memory_store(self.clock)
        self._message = message
        self._options: dict[str, Any] = {"headers": headers_of_kim, **options}
        self.make()

    def make(self) -> None:
        """Make the runner anew, as another process does."""
        remote = a2a.a2a_agent(
            URL, name="clerk", http_client=self._client, **self._options
        )
        call = ToolCall("clerk", {"message": self._message})

        def act(request: ModelRequest) -> Any:
            last = request.messages[-1].data
            return str(last["content"]) if last["role"] == "tool" else [call]

        agent = Agent("boss", tools=[remote], model=ScriptedModel(act))
        self.runner = AsyncRunner(agent, store=self.store, clock=self.clock)

    def _client(self) -> httpx.AsyncClient:
        async def note(request: httpx.Request) -> None:
            self.requests.append(request)

        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), event_hooks={"request": [note]}
        )

    async def start(self) -> Any:
        """Start the run."""
        return await self.runner.start("go", run_id="r1")

    async def look_again(self, after: timedelta = timedelta(minutes=11)) -> Any:
        """Resume the run after some time, as a sweep of another process does."""
        self.clock.advance(seconds=after.total_seconds())
        self.make()
        await self.runner.sweep()
        return await self.runner.resume("r1")

    async def to_question(self) -> Wait:
        """Return the question of the run, once there is one."""
        outcome = await self.start()
        for _ in range(5):
            assert isinstance(outcome, Suspended)
            if outcome.waits[0].kind == "question":
                return outcome.waits[0]
            outcome = await self.look_again()
        raise AssertionError(outcome)

    async def to_end(self) -> str:
        """Return the output of the run."""
        outcome: Any = await self.start()
        for _ in range(20):
            if outcome.status == "finished":
                return str(outcome.output)
            await asyncio.sleep(0.02)  # the other agent works in real time
            outcome = await self.look_again()
        raise AssertionError(outcome)

    async def answer(self, wait: Wait, value: Any) -> None:
        """Answer a question in a new process."""
        self.make()
        await self.runner.decide(wait.id, Answer(value, by="jane"))


# Our own server ---------------------------------------------------------------------


async def test_call_waits_for_the_task_and_returns_its_output() -> None:
    boss = Boss(make_app(make_runner("memory:")), "hello")
    outcome = await boss.start()
    assert isinstance(outcome, Suspended)
    assert ["timer"] == [wait.kind for wait in outcome.waits]
    assert "You said: hello" == await boss.to_end()
    assert {"kim"} == {each.headers["x-user"] for each in boss.requests}
    assert "x-user" not in repr((await boss.runner.look("r1")).to_json())


async def test_remote_approval_is_a_question_of_ours(
    environment: RunEnvironment,
) -> None:
    remote = make_runner("memory:")
    boss = Boss(make_app(remote), "pay 5")
    wait = await boss.to_question()
    assert wait.question is not None
    assert "Agent clerk asks: Pay 5 cents" in wait.question
    assert '"cents": 5' in wait.question
    for wrong in ("yes", "Approve", True, {"decision": "approve"}):
        with pytest.raises(DecisionRefused):
            await boss.answer(wait, wrong)
    assert [] == environment.effect_names()

    await boss.answer(wait, "approve")
    assert "Result: paid 5" == await boss.to_end()
    assert ["pay 5"] == environment.effect_names()


async def test_denial_reaches_the_other_system(environment: RunEnvironment) -> None:
    boss = Boss(make_app(make_runner("memory:")), "pay 5")
    await boss.answer(await boss.to_question(), "deny")
    assert "denied" in (await boss.to_end()).lower()
    assert [] == environment.effect_names()


async def test_remote_question_has_its_type() -> None:
    boss = Boss(make_app(make_runner("memory:")), "ask")
    wait = await boss.to_question()
    assert '{"type":"integer"}' == wait.answer_schema_json
    with pytest.raises(DecisionRefused):
        await boss.answer(wait, "many")
    await boss.answer(wait, 7)
    assert "Result: 7" == await boss.to_end()


async def test_two_remote_waits_are_asked_one_by_one(
    environment: RunEnvironment,
) -> None:
    boss = Boss(make_app(make_runner("memory:")), "pay 5 and 6")
    await boss.answer(await boss.to_question(), "approve")
    outcome = await boss.runner.resume("r1")
    while outcome.waits[0].kind != "question":
        outcome = await boss.look_again()
    await boss.answer(outcome.waits[0], "approve")
    assert "Result: paid 5, paid 6" == await boss.to_end()
    assert ["pay 5", "pay 6"] == sorted(environment.effect_names())


async def test_cancelled_run_cancels_the_remote_task() -> None:
    remote = make_runner("memory:")
    for message in ("pay 5", "rest"):
        boss = Boss(make_app(remote), message)
        await boss.start()
        await boss.look_again(timedelta(seconds=2))
        [task_id] = [each.run_id async for each in remote.runs(status="live")]
        await boss.runner.cancel("r1")
        boss.make()  # the worker that calls `on_cancel`
        await boss.runner.resume("r1")
        assert "cancelled" == (await remote.look(task_id)).status


async def test_looks_become_rarer() -> None:
    boss = Boss(make_app(make_runner("memory:")), "rest")
    outcome = await boss.start()
    waited: list[float] = []
    for _ in range(12):
        deadline = outcome.waits[0].deadline
        waited.append(round((deadline - boss.clock.now()).total_seconds()))
        outcome = await boss.look_again(timedelta(seconds=waited[-1] + 0.1))
    assert [1, 2, 4, 8] == waited[:4]
    assert 600 == waited[-1]


async def test_call_waits_for_approval_first() -> None:
    boss = Boss(make_app(make_runner("memory:")), "hello", approval=True)
    outcome = await boss.start()
    assert [] == boss.requests
    [wait] = outcome.waits
    await boss.runner.decide(wait.id, Approve(by="jane"))
    assert "You said: hello" == await boss.to_end()


async def test_unreachable_server_is_asked_again_later() -> None:
    app = make_app(make_runner("memory:"))
    boss = Boss(app, "pay 5")
    wait = await boss.to_question()

    async def broken(_scope: Any, _receive: Any, _send: Any) -> None:
        raise httpx.ConnectError("no route")

    boss.app = broken
    await boss.answer(wait, "approve")
    outcome = await boss.runner.resume("r1")
    assert ["timer"] == [each.kind for each in outcome.waits]
    await boss.look_again()

    boss.app = app
    # The answer did not arrive, so the task still asks, and so do we.
    outcome = await boss.look_again()
    assert ["question"] == [each.kind for each in outcome.waits]
    await boss.answer(outcome.waits[0], "approve")
    assert "Result: paid 5" == await boss.to_end()


async def test_answer_that_is_on_its_way_is_not_asked_again(
    environment: RunEnvironment,
) -> None:
    app = make_app(make_runner("memory:"))
    boss = Boss(app, "pay 5")
    wait = await boss.to_question()
    late: list[Any] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        request: dict[str, Any] = {**await receive(), "more_body": False}

        async def replay() -> Any:
            return request

        if b"SendMessage" in request["body"]:
            late.append((scope, replay))
            raise httpx.ReadTimeout("no response")
        await app(scope, replay, send)

    async def ignore(_message: Any) -> None:
        pass

    boss.app = slow
    await boss.answer(wait, "approve")
    outcome = await boss.runner.resume("r1")
    assert ["timer"] == [each.kind for each in outcome.waits]
    [(scope, receive)] = late
    await app(scope, receive, ignore)
    while (outcome := await boss.look_again()).status != "finished":
        assert ["timer"] == [each.kind for each in outcome.waits]
    assert "Result: paid 5" == outcome.output
    assert ["pay 5"] == environment.effect_names()


async def test_error_of_the_other_system_is_looked_at_again() -> None:
    app = make_app(make_runner("memory:"))
    boss = Boss(app, "rest")
    await boss.start()

    async def failing(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "GET":
            await app(scope, receive, send)
            return
        body = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "x"}}
        await JSONResponse(body)(scope, receive, send)

    boss.app = failing
    outcome = await boss.look_again()
    assert ["timer"] == [each.kind for each in outcome.waits]


async def test_answer_that_another_person_gave_there_is_found() -> None:
    remote = make_runner("memory:")
    boss = Boss(make_app(remote), "pay 5")
    wait = await boss.to_question()
    [task_id] = [each.run_id async for each in remote.runs()]
    [there] = (await remote.look(task_id)).waits
    await remote.decide(there.id, Approve(by="pat"))
    await remote.resume(task_id)

    await boss.answer(wait, "deny")
    assert "Result: paid 5" == await boss.to_end()


async def test_refused_identity_is_an_error_that_the_model_reads() -> None:
    boss = Boss(make_app(make_runner("memory:")), "hello", headers=None)
    assert "agent clerk did not answer" in await boss.to_end()


# Crashes ----------------------------------------------------------------------------


def test_crash_at_each_point_of_an_answer_pays_once(
    environment: RunEnvironment,
) -> None:
    async def try_point(point: CrashPoint) -> None:
        environment.clear_logs()
        boss = Boss(make_app(make_runner("memory:")), "pay 5")
        wait = await boss.to_question()
        store = boss.store
        with point.process(store) as dying:
            boss.store = dying
            await boss.answer(wait, "approve")
            await boss.runner.resume("r1")
        boss.store = store
        await boss.look_again()
        outcome = await boss.runner.resume("r1")
        asked = [each for each in outcome.waits if each.kind == "question"]
        # The person answers a second time only if the first answer did not arrive.
        for each in asked:
            assert [] == environment.effect_names()
            await boss.answer(each, "approve")
        assert "Result: paid 5" == await boss.to_end()
        assert ["pay 5"] == environment.effect_names()

    for point in every_crash("before", "after", more_than=5):
        asyncio.run(try_point(point))


@pytest.mark.parametrize("idempotent", [False, True])
def test_crash_at_each_point_of_the_message_starts_one_task(
    *, idempotent: bool
) -> None:
    kinds: list[str] = []

    async def try_point(point: CrashPoint) -> None:
        remote = make_runner("memory:")
        boss = Boss(make_app(remote), "pay 5", idempotent=idempotent)
        store = boss.store
        with point.process(store) as dying:
            boss.store = dying
            boss.make()
            await boss.start()
        boss.store = store
        boss.make()
        boss.clock.advance(minutes=2)
        outcome = await boss.start()
        kinds.extend(each.kind for each in outcome.waits)
        assert 1 >= len([each async for each in remote.runs()])

    for point in every_crash("before", "after", more_than=5):
        asyncio.run(try_point(point))
    # Without the promise of the other system, a person says what happened.
    assert idempotent is ("unknown" not in kinds)


# Servers of other kinds ---------------------------------------------------------------


class Script(AgentExecutor):
    """An agent of the SDK's own server; each message runs the next step."""

    def __init__(self, *steps: Callable[[TaskUpdater, RequestContext], Any]) -> None:
        self._steps = list(steps)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if context.current_task is None:
            assert context.message is not None
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        await self._steps.pop(0)(updater, context)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


@asynccontextmanager
async def sdk_app(
    *steps: Callable[[TaskUpdater, RequestContext], Any],
) -> AsyncGenerator[Starlette]:
    """Run a server of the SDK alone."""
    card = a2a.card(make_runner("memory:"), URL)
    card.capabilities.streaming = False
    handler = DefaultRequestHandler(Script(*steps), InMemoryTaskStore(), card)
    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")]
    yield Starlette(routes=routes)
    await handler.aclose()


def asks(*parts: Part) -> Callable[[TaskUpdater, RequestContext], Any]:
    """Return a step that requires input."""

    async def step(updater: TaskUpdater, _context: RequestContext) -> None:
        await updater.requires_input(updater.new_agent_message([*parts]))

    return step


async def repeat(updater: TaskUpdater, context: RequestContext) -> None:
    """Complete the task with the user's text."""
    await updater.add_artifact([Part(text=f"got {context.get_user_input()}")])
    await updater.complete()


async def test_question_of_any_server_is_answered_with_a_text() -> None:
    async with sdk_app(asks(Part(text="Which city?")), repeat) as app:
        boss = Boss(app, "fly")
        wait = await boss.to_question()
        assert "Agent clerk asks: Which city?" == wait.question
        await boss.answer(wait, "Oslo")
        assert "got Oslo" == await boss.to_end()


HOSTILE_WAITS: list[Any] = [
    {"wait": ["x"], "kind": "approval"},
    {"wait": "x", "kind": None},
    {"wait": "x", "kind": "question", "schema": {"properties": {"value": 5}}},
    {"wait": "x", "kind": "question", "schema": "no"},
    {
        "wait": "x",
        "kind": "question",
        "schema": {"properties": {"value": {"$ref": "http://127.0.0.1:9/s.json"}}},
    },
    {"wait": "x", "kind": "approval", "title": ["a"], "arguments": [[[]]]},
]


@pytest.mark.parametrize("value", HOSTILE_WAITS)
async def test_hostile_wait_can_still_be_answered(value: Any) -> None:
    async with sdk_app(asks(Part(text="?"), data_part(value)), repeat) as app:
        boss = Boss(app, "fly")
        wait = await boss.to_question()
        is_choice = "approve" in (wait.answer_schema_json or "")
        await boss.answer(wait, "approve" if is_choice else "Oslo")
        assert (await boss.to_end()).startswith("got")


async def test_question_that_is_too_long_fails_the_call() -> None:
    async with sdk_app(asks(Part(text="x" * 30_000))) as app:
        boss = Boss(app, "fly")
        await boss.start()
        assert "too long to show" in await boss.to_end()


@pytest.mark.parametrize(
    ("end", "word"),
    [("failed", "failed"), ("reject", "rejected"), ("cancel", "cancel")],
)
async def test_failed_task_is_an_error_that_the_model_reads(
    end: str, word: str
) -> None:
    async def step(updater: TaskUpdater, _context: RequestContext) -> None:
        message = updater.new_agent_message([Part(text="no money")])
        await getattr(updater, end)(message)

    async with sdk_app(step) as app:
        boss = Boss(app, "fly")
        await boss.start()
        output = await boss.to_end()
        assert word in output
        assert "no money" in output


async def test_login_there_is_asked_of_a_person() -> None:
    async def step(updater: TaskUpdater, _context: RequestContext) -> None:
        message = updater.new_agent_message([Part(text="See https://x")])
        await updater.update_status(TaskState.TASK_STATE_AUTH_REQUIRED, message)

    async with sdk_app(step) as app:
        boss = Boss(app, "fly")
        wait = await boss.to_question()
        assert "Log in for agent clerk. See https://x" == wait.question


async def test_card_of_another_host_is_refused() -> None:
    card = a2a.card(make_runner("memory:"), "https://evil.example")
    app = Starlette(routes=create_agent_card_routes(card))
    boss = Boss(app, "hello")
    assert "names the host evil.example" in await boss.to_end()
    assert [URL] == [str(each.url).split("/.")[0] for each in boss.requests]


async def test_lost_task_is_an_error_that_the_model_reads() -> None:
    async with sdk_app(asks(Part(text="?"))) as app:
        boss = Boss(app, "fly")
        wait = await boss.to_question()
        async with sdk_app() as boss.app:
            await boss.answer(wait, "Oslo")
            assert "TaskNotFound" in await boss.to_end()


def test_wrong_options_are_refused() -> None:
    for card in ("agents.example.com", "ftp://x/y", "https://kim:pw@x", "https://["):
        with pytest.raises(InvalidInput, match="card must be a URL") as refused:
            a2a.a2a_agent(card, name="x")
        assert "pw" not in str(refused.value)
    with pytest.raises(InvalidInput, match="card must be a URL or an AgentCard"):
        a2a.a2a_agent(5, name="x")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="poll must be above zero"):
        a2a.a2a_agent(URL, name="x", poll=timedelta())
    card = AgentCard(name="x", description="Finds flights.")
    assert "Finds flights." == a2a.a2a_agent(card, name="x").description
