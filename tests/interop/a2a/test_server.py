"""The agents of a runner as an A2A server, with the client of the Python SDK."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import httpx
import pytest
from a2a.helpers import get_data_parts
from a2a.types import (
    CancelTaskRequest,
    ListTasksRequest,
    Part,
    SendMessageConfiguration,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from starlette.applications import Starlette
from starlette.routing import Mount

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Flow,
    open_store,
    tool,
    workflow,
)
from continuations.errors import InvalidInput
from continuations.interop import a2a
from continuations.interop.a2a.task_states import data_part
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.testing import FrozenClock, memory_store
from tests.clocks import OffsetClock
from tests.crash_points import CrashPoint, every_crash
from tests.interop.a2a.application import URL, make_app, make_runner, pay
from tests.interop.a2a.clients import (
    COMPLETED,
    INPUT_REQUIRED,
    WORKING,
    Sender,
    approval,
    message_of,
    output_of,
    sender,
    texts_of,
    waits_of,
)
from tests.run_environment import RunEnvironment

BINDINGS = ["JSONRPC", "HTTP+JSON"]
TOOL_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "pay", "arguments": '{"cents": 5}'},
}


# Tasks and answers ----------------------------------------------------------------


@pytest.mark.parametrize("binding", BINDINGS)
async def test_text_becomes_a_task_with_an_artifact(binding: str) -> None:
    async with sender(make_app(make_runner("memory:")), binding=binding) as client:
        task = await client.send("hello")

        assert COMPLETED == task.status.state
        assert "You said: hello" == output_of(task)
        assert task == await client.get(task.id)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_application_can_be_mounted(binding: str) -> None:
    url = f"{URL}/agents/clerk"
    mounted = Mount("/agents/clerk", app=make_app(make_runner("memory:"), url))
    app = Starlette(routes=[mounted])
    async with sender(app, binding=binding, url=url) as client:
        assert "You said: hello" == output_of(await client.send("hello"))


@pytest.mark.parametrize("binding", BINDINGS)
async def test_approval_by_a_data_part_runs_the_call_once(
    binding: str, environment: RunEnvironment
) -> None:
    async with sender(make_app(make_runner("memory:")), binding=binding) as client:
        task = await client.send("pay 5")
        assert INPUT_REQUIRED == task.status.state
        assert ["Pay 5 cents"] == texts_of(task)
        [wait] = waits_of(task)
        assert ("approval", {"cents": 5}) == (wait["kind"], wait["arguments"])

        answer = message_of(approval(wait), task_id=task.id)
        ended = await client.send(approval(wait), task_id=task.id)
        again = await client.send(
            approval(wait), task_id=task.id, message_id=answer.message_id
        )

    assert "Result: paid 5" == output_of(ended)
    assert ended == again
    assert ["pay 5"] == environment.effect_names()


async def test_answer_has_the_type_of_the_question() -> None:
    async with sender(make_app(make_runner("memory:"))) as client:
        task = await client.send("ask")
        [wait] = waits_of(task)
        assert ["How many?"] == texts_of(task)
        assert {"type": "integer"} == wait["schema"]["properties"]["value"]
        answer = {"wait": wait["wait"], "decision": "answer"}

        with pytest.raises(InvalidParamsError, match="does not match the schema"):
            await client.send({**answer, "value": "many"}, task_id=task.id)
        assert INPUT_REQUIRED == (await client.get(task.id)).status.state
        ended = await client.send({**answer, "value": 7}, task_id=task.id)

    assert "Result: 7" == output_of(ended)


async def test_two_waits_are_decided_one_by_one(environment: RunEnvironment) -> None:
    async with sender(make_app(make_runner("memory:"))) as client:
        task = await client.send("pay 5 and 6")
        first, second = waits_of(task)
        task = await client.send(approval(second), task_id=task.id)
        assert INPUT_REQUIRED == task.status.state
        [left] = waits_of(task)
        assert first["wait"] == left["wait"]
        denial = {"wait": left["wait"], "decision": "deny", "reason": "too much"}
        ended = await client.send(denial, task_id=task.id)

    assert COMPLETED == ended.status.state
    assert ["pay 6"] == environment.effect_names()


async def test_refused_decision_keeps_no_other_one_from_its_effect(
    environment: RunEnvironment,
) -> None:
    """The run goes on with the decision that was recorded, without a sweep."""
    async with sender(make_app(make_runner("memory:"))) as client:
        task = await client.send("pay 5 and 6")
        first, second = waits_of(task)
        stale = {**approval(second), "shown": "0" * 64}
        with pytest.raises(InvalidParamsError):
            await client.send(approval(first), stale, task_id=task.id)
        left: list[dict[str, Any]] = []
        for _ in range(3_000):
            # A worker has the run for a moment after the effect.
            if environment.effect_names() and left:
                break
            await asyncio.sleep(0.01)
            left = waits_of(await client.get(task.id))
        assert ["pay 5"] == environment.effect_names()

    assert [second["wait"]] == [each["wait"] for each in left]


# Nothing but a typed yes approves ---------------------------------------------------


@pytest.mark.parametrize(
    "text", ["approve", "yes", "Yes, do it!", '{"decision": "approve"}', "APPROVED"]
)
async def test_text_decides_nothing(text: str, environment: RunEnvironment) -> None:
    async with sender(make_app(make_runner("memory:"))) as client:
        task = await client.send("pay 5")
        same = await client.send(text, task_id=task.id)

        assert INPUT_REQUIRED == same.status.state
        assert texts_of(same)[0].startswith("This text decided nothing.")
        assert waits_of(task) == waits_of(same)
        assert task == await client.get(task.id)
        assert [] == environment.effect_names()
        # The agent reads it like any text, when the wait is decided.
        ended = await client.send(approval(waits_of(task)[0]), task_id=task.id)
        assert f"You said: pay 5 / {text}" == output_of(ended)


HOSTILE_PARTS: list[Any] = [
    True,
    [],
    {},
    {"decision": "approve"},
    {"wait": "W"},
    {"wait": "W", "decision": True},
    {"wait": "W", "decision": "yes"},
    {"wait": "W", "decision": "Approve"},
    {"wait": "W", "decision": ["approve"]},
    {"wait": "W", "decision": "approve", "by": "boss"},
    {"wait": "W", "decision": "approve", "shown": "0" * 64},
    {"wait": "W", "decision": "approve", "shown": None},
    {"wait": "W", "decision": "approve", "arguments": {"cents": "6"}},
    {"wait": "W", "decision": "approve", "arguments": {"cents": 2**53 + 1}},
    {"wait": "W", "decision": "approve", "arguments": {"cents": 5, "to": "me"}},
    {"wait": "W-", "decision": "approve"},
    {"wait": "approval-01m8jwfp9k51b2xz77j3d0gbsw@other", "decision": "approve"},
    {"wait": ["W"], "decision": "approve"},
]


async def test_hostile_parts_decide_nothing(environment: RunEnvironment) -> None:
    async with sender(make_app(make_runner("memory:"))) as client:
        task = await client.send("pay 5")
        [wait] = waits_of(task)
        for part in HOSTILE_PARTS:
            sent = json.loads(json.dumps(part).replace("W", wait["wait"]))
            # A text beside it makes even a right part worth nothing.
            for contents in ([sent], [approval(wait), sent], [approval(wait), "yes"]):
                with pytest.raises(InvalidParamsError):
                    await client.send(*contents, task_id=task.id)
        assert task == await client.get(task.id)
    assert [] == environment.effect_names()


async def test_answer_after_another_door_decided_is_refused() -> None:
    runner = make_runner("memory:")
    async with sender(make_app(runner)) as client:
        task = await client.send("pay 5")
        [wait] = waits_of(task)
        await runner.decide(wait["wait"], Approve(by="jane"))

        # The wait is decided, so the task works, whether or not a worker took it up.
        assert WORKING == (await client.get(task.id)).status.state
        denial = {"wait": wait["wait"], "decision": "deny"}
        with pytest.raises(InvalidParamsError, match="approved by jane"):
            await client.send(denial, task_id=task.id)


async def test_late_answer_is_refused(environment: RunEnvironment) -> None:
    policy = ApprovalPolicy(within=timedelta(milliseconds=50))
    hasty = tool(name="hasty", approval=policy)(pay.function)
    call = ToolCall("hasty", {"cents": 5})
    agent = Agent("clerk", tools=[hasty], model=ScriptedModel([[call], "Too late."]))
    runner = AsyncRunner(agent, store="memory:")
    async with sender(make_app(runner)) as client:
        task = await client.send("pay 5")
        [wait] = waits_of(task)
        await asyncio.sleep(0.1)
        # No sweep came yet, but the wait is over.
        assert WORKING == (await client.get(task.id)).status.state
        with pytest.raises(InvalidParamsError, match="deadline has passed"):
            await client.send(approval(wait), task_id=task.id)
        await runner.sweep()
        assert "Too late." == output_of(await client.get(task.id))
    assert [] == environment.effect_names()


async def test_decision_has_the_sender_and_the_door() -> None:
    runner = make_runner("memory:")
    async with sender(make_app(runner)) as client:
        task = await client.send("pay 5")
        await client.send(approval(waits_of(task)[0]), task_id=task.id)

    [line] = [each for each in await runner.audit(task.id) if each.verdict]
    assert ("kim", "a2a", "verifier") == (line.by, line.door, line.authentication)


# Conversations ----------------------------------------------------------------------


async def test_task_of_a_context_knows_the_texts_of_the_tasks_before() -> None:
    async with sender(make_app(make_runner("memory:"))) as client:
        first = await client.send("one")
        second = await client.send("two", context_id=first.context_id)
        third = await client.send("three", context_id=first.context_id)

    assert first.id != second.id != third.id
    assert "You said: one / two / three" == output_of(third)
    assert ["three", output_of(third)] == [m.parts[0].text for m in third.history]


async def test_text_to_a_task_that_works_is_a_message_to_its_agent() -> None:
    runner = make_runner("memory:")
    async with sender(make_app(runner)) as client:
        task = await client.send("rest")
        assert WORKING == task.status.state
        await client.send("hurry", task_id=task.id, message_id="m1")
        await client.send("hurry", task_id=task.id, message_id="m1")

    messages = (await runner.look(task.id)).root.messages
    texts = [each["content"] for each in messages if each["role"] == "user"]
    assert texts in (["rest"], ["rest", "hurry"])


async def test_files_reach_the_agent_if_the_card_says_so() -> None:
    runner = make_runner("memory:")
    card = a2a.card(runner, URL)
    refusing = make_app(runner, card=card)
    card.default_input_modes.append("image/png")
    png = Part(raw=b"png", media_type="image/png", filename="a.png")
    linked = Part(url="http://127.0.0.1:9/a.png", media_type="image/png")
    async with sender(refusing) as client:
        with pytest.raises(ContentTypeNotSupportedError, match="image/png"):
            await client.send("see", png)
    async with sender(make_app(runner, card=card)) as client:
        with pytest.raises(ContentTypeNotSupportedError, match="not fetched"):
            await client.send("see", linked)
        with pytest.raises(ContentTypeNotSupportedError, match="no mediaType"):
            await client.send("see", Part(raw=b"png"))
        task = await client.send("see", png)

    assert COMPLETED == task.status.state
    [content] = [m["content"] for m in (await runner.look(task.id)).root.messages[:1]]
    assert ("text", "image/png") == (content[0]["type"], content[1]["media_type"])


async def test_same_message_starts_one_task() -> None:
    async with sender(make_app(make_runner("memory:"))) as client:
        first, second = await asyncio.gather(
            client.send("pay 5", message_id="m1"),
            client.send("pay 5", message_id="m1"),
        )
        other = await client.send("pay 6", message_id="m1")

    assert first.id == second.id != other.id


async def test_message_to_an_ended_task_is_refused() -> None:
    async with sender(make_app(make_runner("memory:"))) as client:
        task = await client.send("hello")
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            await client.send("more", task_id=task.id)
        with pytest.raises(InvalidParamsError, match="contextId"):
            await client.send("more", task_id=task.id, context_id="other")
        with pytest.raises(InvalidParamsError, match="contextId is not valid"):
            await client.send("more", context_id="a b")
        with pytest.raises(TaskNotFoundError):
            await client.send("more", task_id="a2a-unknown")


# Lists, cancellation, streams -------------------------------------------------------


async def test_list_has_the_newest_first_in_pages() -> None:
    clock = OffsetClock()
    async with sender(make_app(make_runner("memory:", clock=clock))) as client:
        ids: list[str] = []
        for each in ("one", "pay 5", "three"):
            clock.offset_seconds += 1  # no two began at the same time
            ids.append((await client.send(each)).id)
        request = ListTasksRequest(page_size=2)
        page = await client.client.list_tasks(request)
        request.page_token = page.next_page_token
        rest = await client.client.list_tasks(request)

        assert ids[::-1] == [each.id for each in (*page.tasks, *rest.tasks)]
        assert (3, 2, "") == (page.total_size, page.page_size, rest.next_page_token)
        for state, expected in ((INPUT_REQUIRED, [ids[1]]), (COMPLETED, ids[::-2])):
            chosen = ListTasksRequest(status=state)
            found = await client.client.list_tasks(chosen)
            assert expected == [each.id for each in found.tasks]
        request.page_token = "x"
        with pytest.raises(InvalidParamsError, match="pageToken"):
            await client.client.list_tasks(request)


async def test_cancel_ends_a_waiting_task(environment: RunEnvironment) -> None:
    async with sender(make_app(make_runner("memory:"))) as client:
        task = await client.send("pay 5")
        [wait] = waits_of(task)
        ended = await client.client.cancel_task(CancelTaskRequest(id=task.id))
        assert TaskState.TASK_STATE_CANCELED == ended.status.state
        with pytest.raises(TaskNotCancelableError):
            await client.client.cancel_task(CancelTaskRequest(id=task.id))
        with pytest.raises(InvalidParamsError):
            await client.send(approval(wait), task_id=task.id)
    assert [] == environment.effect_names()


async def test_cancel_stops_the_job_of_another_system(
    environment: RunEnvironment,
) -> None:
    async with sender(make_app(make_runner("memory:"))) as client:
        task = await client.send("scan")
        assert WORKING == task.status.state
        ended = await client.client.cancel_task(CancelTaskRequest(id=task.id))
    assert TaskState.TASK_STATE_CANCELED == ended.status.state
    assert ["stop_scan "] == environment.effect_names()


async def test_stream_shows_each_state_until_the_task_rests() -> None:
    async with sender(make_app(make_runner("memory:")), streaming=True) as client:
        events = [each async for each in client.stream("pay 5")]
        assert TaskState.TASK_STATE_SUBMITTED == events[0].task.status.state
        assert INPUT_REQUIRED == events[-1].status_update.status.state
        task = await client.get(events[0].task.id)
        part = approval(waits_of(task)[0])
        events = [each async for each in client.stream(part, task_id=task.id)]

    kinds = [each.WhichOneof("payload") for each in events]
    assert "task" == kinds[0]
    assert ["artifact_update", "status_update"] == kinds[-2:]
    assert COMPLETED == events[-1].status_update.status.state


async def test_stream_has_the_words_before_a_call() -> None:
    say = {"role": "assistant", "content": "I look.", "tool_calls": [TOOL_CALL]}
    script, is_followed = ScriptedModel([say, "Done."]), asyncio.Event()

    class Patient:
        """A model that replies when the stream has begun."""

        name = "patient"

        async def reply(self, request: ModelRequest) -> Any:
            await is_followed.wait()
            return await script.reply(request)

    made = make_app(
        AsyncRunner(Agent("clerk", tools=[pay], model=Patient()), store="memory:")
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def send_and_tell(message: Any) -> None:
            await send(message)
            if scope["method"] == "POST" and message.get("body"):
                is_followed.set()

        await made(scope, receive, send_and_tell)

    async with sender(app, streaming=True) as client:
        events = [each async for each in client.stream("pay")]
    states = [each.status_update.status for each in events[1:]]
    said = [each for each in states if each.message.parts]
    assert ("I look.", WORKING) == (said[0].message.parts[0].text, said[0].state)
    assert INPUT_REQUIRED == said[-1].state


async def test_run_that_another_process_works_on_takes_messages() -> None:
    works, goes_on = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        """Work for a while."""
        works.set()
        await goes_on.wait()
        return "worked"

    model = ScriptedModel(lambda r: [ToolCall("work")] if len(r.messages) < 2 else "x")
    agent = Agent("clerk", tools=[work], model=model)
    store = open_store("memory:")
    apps = [make_app(AsyncRunner(agent, store=store)) for _ in range(2)]
    async with sender(apps[0]) as first, sender(apps[1]) as second:
        now = SendMessageConfiguration(return_immediately=True)
        task = await first.send("work", configuration=now)
        await asyncio.wait_for(works.wait(), 60)
        seen = await second.send("hurry", task_id=task.id)
        assert WORKING == seen.status.state
        goes_on.set()
        while COMPLETED != (await second.get(task.id)).status.state:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)


async def test_subscriber_sees_the_decision_of_another_process() -> None:
    runner = make_runner("memory:")
    async with sender(make_app(runner), streaming=True) as client:
        task = await client.send("pay 5")
        states: list[int] = []

        async def subscribe() -> None:
            request = SubscribeToTaskRequest(id=task.id)
            states.extend(
                [
                    event.status_update.status.state
                    async for event in client.client.subscribe(request)
                    if event.HasField("status_update")
                ]
            )

        following = asyncio.create_task(subscribe())
        other = make_runner(runner.store)
        [wait] = (await other.look(task.id)).waits
        await other.decide(wait.id, Approve(by="jane"))
        await other.resume(task.id)
        await asyncio.wait_for(following, 60)
        assert COMPLETED == states[-1]
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            await subscribe()


async def test_client_that_does_not_wait_gets_its_task_at_once() -> None:
    runner = make_runner("memory:")
    async with sender(make_app(runner)) as client:
        now = SendMessageConfiguration(return_immediately=True)
        task = await client.send("pay 5", configuration=now)
        assert task.status.state in (TaskState.TASK_STATE_SUBMITTED, WORKING)
        while INPUT_REQUIRED != (await client.get(task.id)).status.state:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)


# Rights and identity ----------------------------------------------------------------


async def test_stranger_sees_no_task_of_another() -> None:
    app = make_app(make_runner("memory:"))
    async with sender(app) as kim, sender(app, user="eve") as eve:
        task = await kim.send("pay 5")
        part = approval(waits_of(task)[0])
        for act in (
            eve.get(task.id),
            eve.send(part, task_id=task.id),
            eve.send("hello", task_id=task.id),
            eve.client.cancel_task(CancelTaskRequest(id=task.id)),
        ):
            with pytest.raises(TaskNotFoundError):
                await act
        assert 0 == (await eve.client.list_tasks(ListTasksRequest())).total_size
        assert task == await kim.get(task.id)
        other = await eve.send("secret plan", context_id=task.context_id)
        after = await kim.send("hello", context_id=task.context_id)

    assert "You said: hello" == output_of(after)
    assert "You said: secret plan" == output_of(other)


async def test_colleague_with_the_right_decides() -> None:
    def can(identity: Any, act: str, _run: str | None) -> bool:
        return identity.name == "kim" or act in ("view", "decide")

    app = make_app(make_runner("memory:"), can=can, only_own=False)
    async with sender(app) as kim, sender(app, user="jane") as jane:
        task = await kim.send("pay 5")
        seen = await jane.get(task.id)
        assert [] == list(seen.history)
        with pytest.raises(UnsupportedOperationError, match='right "cancel"'):
            await jane.client.cancel_task(CancelTaskRequest(id=task.id))
        with pytest.raises(UnsupportedOperationError, match='right "message"'):
            await jane.send("start")
        ended = await jane.send(approval(waits_of(seen)[0]), task_id=task.id)
        assert "[not shown]" == output_of(ended)
        assert "Result: paid 5" == output_of(await kim.get(task.id))


async def test_equal_ids_of_two_senders_are_two_messages() -> None:
    runner = make_runner("memory:")
    app = make_app(runner, only_own=False)
    async with sender(app) as kim, sender(app, user="jane") as jane:
        task = await kim.send("rest")
        await kim.send("hurry", task_id=task.id, message_id="a/1")
        await jane.send("hurry", task_id=task.id, message_id="a/1")
        await jane.send("hurry", task_id=task.id, message_id="a/1")
    assert 3 == await runner.send(task.id, "the next one")


async def test_viewer_without_the_right_to_read_gets_no_texts() -> None:
    def can(identity: Any, act: str, _run: str | None) -> bool:
        return identity.name == "kim" or act == "view"

    app = make_app(make_runner("memory:"), can=can, only_own=False)
    async with sender(app, streaming=True) as kim, sender(app, user="eve") as eve:
        task = await kim.send("login")
        seen = await eve.get(task.id)
        # As over HTTP, who may view a run sees what its waits ask.
        assert waits_of(task) == waits_of(seen)
        assert [] == list(seen.history)
        await kim.send(approval(waits_of(task)[0]), task_id=task.id)
        ended = await eve.get(task.id)
    assert "7 characters" not in str(ended)
    assert "hunter2" not in str(task)


async def test_stream_ends_with_the_right_to_view() -> None:
    rights = {"view", "read"}

    def can(identity: Any, act: str, _run: str | None) -> bool:
        return identity.name == "kim" or act in rights

    app = make_app(make_runner("memory:"), can=can, only_own=False)
    async with sender(app) as kim, sender(app, user="eve", streaming=True) as eve:
        task = await kim.send("pay 5")

        async def subscribe() -> None:
            request = SubscribeToTaskRequest(id=task.id)
            async for _ in eve.client.subscribe(request):
                pass

        stream = asyncio.create_task(subscribe())
        await asyncio.sleep(0.1)  # the server follows the run
        rights.clear()
        await kim.send(approval(waits_of(task)[0]), task_id=task.id)
        with pytest.raises(TaskNotFoundError):
            await asyncio.wait_for(stream, 60)


async def test_reader_without_the_right_decides_nothing(
    environment: RunEnvironment,
) -> None:
    def can(identity: Any, act: str, _run: str | None) -> bool:
        return identity.name == "kim" or act in ("view", "read")

    app = make_app(make_runner("memory:"), can=can, only_own=False)
    async with sender(app) as kim, sender(app, user="jane") as jane:
        task = await kim.send("pay 5")
        assert task == await jane.get(task.id)
        with pytest.raises(UnsupportedOperationError, match='right "decide"'):
            await jane.send(approval(waits_of(task)[0]), task_id=task.id)
        working = await kim.send("rest")
        with pytest.raises(UnsupportedOperationError, match='right "message"'):
            await jane.send("hurry", task_id=working.id)
    assert [] == environment.effect_names()


async def test_request_without_identity_is_refused() -> None:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(make_app(make_runner("memory:"))), base_url=URL
    ) as http:
        assert 401 == (await http.get("/tasks")).status_code
        assert 401 == (await http.post("/", content=b"{")).status_code
        large = await http.post("/", content=b"x" * (1 << 20) + b"y")
        assert 413 == large.status_code
        # The path of a tenant is no second way in.
        asked = {"x-user": "kim", "a2a-version": "1.0"}
        assert 200 == (await http.get("/tasks", headers=asked)).status_code
        assert 404 == (await http.get("/acme/tasks", headers=asked)).status_code
        card = await http.get("/.well-known/agent-card.json")
        assert "clerk" == card.json()["name"]
    closed = a2a.app(make_runner("memory:"), card=a2a.card(make_runner("memory:"), URL))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(closed), base_url=URL
    ) as http:
        response = await http.get("/tasks", headers={"x-user": "kim"})
        assert "no verifier" in response.json()["detail"]


async def test_secret_argument_never_reaches_the_client() -> None:
    runner = make_runner("memory:")
    async with sender(make_app(runner), streaming=True) as client:
        events = [each async for each in client.stream("login")]
        task = await client.get(events[0].task.id)
        ended = await client.send(approval(waits_of(task)[0]), task_id=task.id)

    assert "[secret]" == waits_of(task)[0]["arguments"]["password"]
    assert "Result: kim is in with 7 characters" == output_of(ended)
    assert "hunter2" not in f"{events}{task}{ended}"


async def test_runs_that_no_client_started_are_no_tasks() -> None:
    runner = make_runner("memory:")
    await runner.start("pay 5", run_id="r1", by="kim")
    async with sender(make_app(runner)) as client:
        with pytest.raises(TaskNotFoundError):
            await client.get("r1")
        with pytest.raises(TaskNotFoundError):
            await client.get("../r1")
        assert 0 == (await client.client.list_tasks(ListTasksRequest())).total_size


# Runs that other doors change ---------------------------------------------------------


async def test_rewound_task_asks_again(environment: RunEnvironment) -> None:
    runner = make_runner("memory:")
    async with sender(make_app(runner)) as client:
        task = await client.send("pay 5 and 6")
        first, second = waits_of(task)
        await client.send(approval(first), task_id=task.id)
        await runner.rewind(task.id, 2)

        with pytest.raises(InvalidParamsError, match="was closed"):
            await client.send(approval(second), task_id=task.id)
        await runner.resume(task.id)
        task = await client.get(task.id)
        assert ["Pay 5 cents", "Pay 6 cents"] == texts_of(task)
        assert {first["wait"], second["wait"]}.isdisjoint(
            each["wait"] for each in waits_of(task)
        )
    assert ["pay 5"] == environment.effect_names()


async def test_fork_of_a_task_is_no_task() -> None:
    runner = make_runner("memory:")
    async with sender(make_app(runner)) as client:
        task = await client.send("pay 5")
        fork = await runner.fork(task.id, 3)
        with pytest.raises(TaskNotFoundError):
            await client.get(fork)
        listed = await client.client.list_tasks(ListTasksRequest())
        assert [task.id] == [each.id for each in listed.tasks]


async def test_erased_task_is_gone() -> None:
    runner = make_runner("memory:")
    async with sender(make_app(runner), streaming=True) as client:
        gone, kept = await client.send("pay 5"), await client.send("pay 6")

        async def subscribe() -> None:
            request = SubscribeToTaskRequest(id=gone.id)
            async for _ in client.client.subscribe(request):
                pass

        stream = asyncio.create_task(subscribe())
        await asyncio.sleep(0.1)  # the server follows the run
        await runner.erase(gone.id)
        with pytest.raises(TaskNotFoundError):
            await asyncio.wait_for(stream, 60)
        with pytest.raises(TaskNotFoundError):
            await client.send(approval(waits_of(gone)[0]), task_id=gone.id)
        listed = await client.client.list_tasks(ListTasksRequest(status=INPUT_REQUIRED))
        assert [kept.id] == [each.id for each in listed.tasks]


async def test_list_leaves_out_a_task_that_is_erased_meanwhile() -> None:
    runner = make_runner("memory:")
    async with sender(make_app(runner)) as client:
        kept, gone = await client.send("one"), await client.send("two")
        look = runner.look

        async def erasing(run_id: str, **options: Any) -> Any:
            if run_id == gone.id:
                await runner.erase(run_id)
            return await look(run_id, **options)

        runner.look = erasing  # type: ignore[method-assign]
        listed = await client.client.list_tasks(ListTasksRequest())
    assert [kept.id] == [each.id for each in listed.tasks]


async def test_labels_of_a_run_of_another_door_break_no_list() -> None:
    runner = make_runner("memory:")
    labels = {"a2a": "clerk", "a2a-context": "c1", "a2a-earlier": "many"}
    await runner.start("hello", run_id="r1", by="kim", labels=labels)
    async with sender(make_app(runner)) as client:
        listed = await client.client.list_tasks(ListTasksRequest())
        assert ["You said: hello"] == [output_of(await client.get("r1"))]
    assert ["r1"] == [each.id for each in listed.tasks]


def test_crash_at_each_point_of_a_task_pays_once(environment: RunEnvironment) -> None:
    async def pay(client: Sender) -> Task:
        task = await client.send("pay 5", message_id="m1")
        while INPUT_REQUIRED == task.status.state:
            [wait] = waits_of(task)
            part = approval(wait)
            if wait["kind"] == "unknown" and environment.effect_names():
                part = {**part, "decision": "answer", "value": "paid 5"}
            task = await client.send(part, task_id=task.id)
        return task

    async def try_point(point: CrashPoint) -> None:
        environment.clear_logs()
        clock = FrozenClock()
        store = memory_store(clock)
        with point.process(store) as dying:
            async with sender(make_app(make_runner(dying, clock=clock))) as client:
                await pay(client)
        clock.advance(minutes=2)
        runner = make_runner(store, clock=clock)
        await runner.sweep()
        async with sender(make_app(runner)) as client:
            task = await pay(client)
        assert "Result: paid 5" == output_of(task)
        assert ["pay 5"] == environment.effect_names()
        assert [task.id] == [each.run_id async for each in runner.runs()]

    for point in every_crash("before", "after", more_than=8):
        asyncio.run(try_point(point))


# Other agents and values --------------------------------------------------------------


async def test_workflow_takes_a_data_part_and_returns_one() -> None:
    @workflow
    async def add(_flow: Flow, first: int, second: int) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": first + second}

    runner = AsyncRunner(add, store="memory:")
    app = make_app(runner)
    async with sender(app) as client:
        task = await client.send({"first": 2, "second": 3})
        assert [{"sum": 5}] == get_data_parts(task.artifacts[0].parts)
        with pytest.raises(InvalidParamsError, match="Send one data part"):
            await client.send("2 + 3")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2**60, str(2**60)),
        ({"a": [-(2**54)]}, {"a": [str(-(2**54))]}),
        ("half \ud800", "half ?"),
        (2**53, float(2**53)),
    ],
)
def test_values_that_a_data_part_cannot_hold_are_texts(value: Any, shown: Any) -> None:
    assert [shown] == get_data_parts([data_part(value)])


def test_deep_value_ends_as_text() -> None:
    value: Any = 1
    for _ in range(300):
        value = [value]
    task = Task()
    task.status.message.parts.append(data_part(value))
    assert "[[[" in str(task)


async def test_any_name_of_an_agent_can_be_served() -> None:
    for name in ("_clerk", "c" * 64):
        agent = Agent(name, model=ScriptedModel(["Hello."]))
        async with sender(make_app(AsyncRunner(agent, store="memory:"))) as client:
            task = await client.send("hello")
            assert "Hello." == output_of(task)
            listed = await client.client.list_tasks(ListTasksRequest())
            assert [task.id] == [each.id for each in listed.tasks]


def test_wrong_options_are_refused() -> None:
    runner = make_runner("memory:")
    card = a2a.card(runner, URL)
    with pytest.raises(InvalidInput, match="card must be an AgentCard"):
        a2a.app(runner, card={"name": "x"})  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="verify must be"):
        a2a.app(runner, card=card, verify="kim")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="agent"):
        a2a.app(runner, card=card, agent="boss")
