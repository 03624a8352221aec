"""Push notifications of the A2A server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a.types import (
    AuthenticationInfo,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    SendMessageConfiguration,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
)
from standardwebhooks import Webhook

from continuations import Approve
from continuations.errors import InvalidInput
from continuations.interop import a2a
from tests.interop.a2a.application import make_app, make_runner
from tests.interop.a2a.clients import Sender, approval, sender, waits_of
from tests.serve.notify.receivers import (
    OTHER_SECRET,
    SECRET,
    HookResponse,
    WebhookReceiver,
    serve_webhook,
)


async def is_loopback(url: str) -> bool:
    """Return whether a URL is that of a receiver of these tests."""
    return url.startswith("http://127.0.0.1:")


def make_push(store: Any) -> a2a.Push:
    """Return push notifications that may go to this machine."""
    return a2a.Push(store, secret=SECRET, check_url=is_loopback)


@asynccontextmanager
async def pushing(folder: Path, user: str = "kim") -> AsyncGenerator[Sender]:
    """Return a client of a server with push notifications."""
    store = f"file:{folder / 'store'}"
    push = make_push(store)
    runner = make_runner(store, notify=push)
    async with sender(make_app(runner, push=push), user=user) as client:
        yield client


def states_of(receiver: WebhookReceiver) -> list[str]:
    """Return the states that a receiver got, after the check of each signature."""
    states: list[str] = []
    for each in receiver.received:
        body = Webhook(SECRET).verify(each.body, each.headers)
        assert ["contextId", "status", "taskId"] == sorted(body["statusUpdate"])
        assert ["state", "timestamp"] == sorted(body["statusUpdate"]["status"])
        states.append(body["statusUpdate"]["status"]["state"])
    return states


def stored_configurations(folder: Path) -> int:
    """Return the number of objects with a token of a client."""
    files = [each for each in (folder / "store").rglob("*") if each.is_file()]
    return len([each for each in files if b"t0ken" in each.read_bytes()])


def config_of(receiver: WebhookReceiver) -> TaskPushNotificationConfig:
    """Return a configuration with a token and credentials."""
    return TaskPushNotificationConfig(
        url=receiver.url,
        token="t0ken",  # noqa: S106
        authentication=AuthenticationInfo(scheme="Bearer", credentials="cr3d"),
    )


async def test_each_rest_of_a_task_is_posted_with_a_signature(tmp_path: Path) -> None:
    with serve_webhook(WebhookReceiver()) as receiver:
        async with pushing(tmp_path) as client:
            config = SendMessageConfiguration(
                task_push_notification_config=config_of(receiver)
            )
            task = await client.send("pay 5", configuration=config)
            assert ["TASK_STATE_INPUT_REQUIRED"] == states_of(receiver)
            assert 1 == stored_configurations(tmp_path)
            # A worker elsewhere, with the same notifications, ends the task.
            store = f"file:{tmp_path / 'store'}"
            worker = make_runner(store, notify=make_push(store))
            await worker.decide(waits_of(task)[0]["wait"], Approve(by="jane"))
            await worker.resume(task.id)

    expected = ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"]
    assert expected == states_of(receiver)
    assert {"t0ken"} == {
        each.headers["x-a2a-notification-token"] for each in receiver.received
    }
    assert {"Bearer cr3d"} == {
        each.headers["authorization"] for each in receiver.received
    }
    ids = [each.headers["webhook-id"] for each in receiver.received]
    assert 2 == len(set(ids))
    # The tokens of clients are deleted with the end of the task.
    assert 0 == stored_configurations(tmp_path)


async def test_cancelled_task_is_posted(tmp_path: Path) -> None:
    with serve_webhook(WebhookReceiver()) as receiver:
        async with pushing(tmp_path) as client:
            task = await client.send("pay 5")
            config = config_of(receiver)
            config.task_id = task.id
            await client.client.create_task_push_notification_config(config)
            await client.client.cancel_task(CancelTaskRequest(id=task.id))

    assert ["TASK_STATE_CANCELED"] == states_of(receiver)


async def test_task_that_another_door_cancels_is_posted(tmp_path: Path) -> None:
    with serve_webhook(WebhookReceiver()) as receiver:
        async with pushing(tmp_path) as client:
            task = await client.send("pay 5")
            config = config_of(receiver)
            config.task_id = task.id
            await client.client.create_task_push_notification_config(config)
            store = f"file:{tmp_path / 'store'}"
            operator = make_runner(store, notify=make_push(store))
            await operator.cancel(task.id, by="jane")

    assert ["TASK_STATE_CANCELED"] == states_of(receiver)
    assert 0 == stored_configurations(tmp_path)


async def test_configurations_belong_to_their_client(tmp_path: Path) -> None:
    with serve_webhook(WebhookReceiver()) as receiver:
        async with pushing(tmp_path) as client:
            task = await client.send("pay 5")
            config = config_of(receiver)
            config.task_id, config.id = task.id, "first"
            made = await client.client.create_task_push_notification_config(config)
            again = await client.client.create_task_push_notification_config(config)
            assert made == again == config

            asked = GetTaskPushNotificationConfigRequest(task_id=task.id, id="first")
            read = await client.client.get_task_push_notification_config(asked)
            assert config == read
            every = ListTaskPushNotificationConfigsRequest(task_id=task.id)
            found = await client.client.list_task_push_notification_configs(every)
            assert [config] == list(found.configs)
            async with pushing(tmp_path, user="eve") as eve:
                with pytest.raises(TaskNotFoundError):
                    await eve.client.create_task_push_notification_config(config)
                with pytest.raises(TaskNotFoundError):
                    await eve.client.list_task_push_notification_configs(every)
            gone = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="first")
            await client.client.delete_task_push_notification_config(gone)
            with pytest.raises(TaskNotFoundError):
                await client.client.get_task_push_notification_config(asked)

            await client.send(approval(waits_of(task)[0]), task_id=task.id)
        assert [] == receiver.received


async def test_task_goes_on_without_its_receiver(tmp_path: Path) -> None:
    responses: list[HookResponse] = [
        (500, {}),
        (302, {"location": "http://127.0.0.1:1/"}),
    ]
    with serve_webhook(WebhookReceiver(*responses)) as receiver:
        async with pushing(tmp_path) as client:
            config = SendMessageConfiguration(
                task_push_notification_config=config_of(receiver)
            )
            task = await client.send("pay 5", configuration=config)
            part = approval(waits_of(task)[0])
            ended = await client.send(part, task_id=task.id)

    assert "Result: paid 5" == ended.artifacts[0].parts[0].text
    assert 2 == len(receiver.received)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/x",
        "https://169.254.169.254/",
        "https://[::ffff:10.0.0.1]/",
        "https://2130706433/",  # 127.0.0.1
        "http://1.1.1.1/",  # public, but without a certificate
        "ftp://example.com",
        "https://[",
        "x",
    ],
)
async def test_url_inside_the_network_is_refused(url: str, tmp_path: Path) -> None:
    store = f"file:{tmp_path / 'store'}"
    app = make_app(make_runner(store), push=a2a.Push(store, secret=SECRET))
    async with sender(app) as client:
        config = SendMessageConfiguration(
            task_push_notification_config=TaskPushNotificationConfig(url=url)
        )
        with pytest.raises(InvalidParamsError, match="url is not allowed"):
            await client.send("pay 5", configuration=config)
        task = await client.send("pay 5")
        later = TaskPushNotificationConfig(task_id=task.id, url=url)
        with pytest.raises(InvalidParamsError, match="url is not allowed"):
            await client.client.create_task_push_notification_config(later)


async def test_server_without_push_refuses_a_configuration() -> None:
    app = make_app(make_runner("memory:"))
    async with sender(app) as client:
        config = TaskPushNotificationConfig(url="https://example.com")
        options = SendMessageConfiguration(task_push_notification_config=config)
        with pytest.raises(PushNotificationNotSupportedError):
            await client.send("hello", configuration=options)
        card = await client.http.get("/.well-known/agent-card.json")
        assert not card.json()["capabilities"].get("pushNotifications")


async def test_number_of_configurations_is_limited(tmp_path: Path) -> None:
    async with pushing(tmp_path) as client:
        task = await client.send("pay 5")
        config = TaskPushNotificationConfig(url="http://127.0.0.1:1", task_id=task.id)
        create = client.client.create_task_push_notification_config
        for number in [*range(20), 7]:
            config.id = str(number)
            await create(config)
        config.id = "more"
        with pytest.raises(InvalidParamsError, match="has 20 push"):
            await create(config)


async def test_same_configuration_may_come_twice_at_once(tmp_path: Path) -> None:
    with serve_webhook(WebhookReceiver()) as receiver:
        async with pushing(tmp_path) as client:
            task = await client.send("pay 5")
            config = config_of(receiver)
            config.task_id = task.id
            create = client.client.create_task_push_notification_config
            made = await asyncio.gather(*(create(config) for _ in range(5)))
            assert 1 == len({each.SerializeToString() for each in made})
            await client.client.cancel_task(CancelTaskRequest(id=task.id))
    assert ["TASK_STATE_CANCELED"] == states_of(receiver)


def test_secret_is_not_shown() -> None:
    with pytest.raises(InvalidInput, match="whsec_") as refused:
        a2a.Push("memory:", secret="hunter2")  # noqa: S106
    assert "hunter2" not in str(refused.value)
    assert "c2Vj" not in repr(a2a.Push("memory:", secret=[SECRET, OTHER_SECRET]))
