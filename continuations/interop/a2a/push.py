"""Push notifications of A2A: signed posts when a task waits for a person or ends.

    push = a2a.Push("s3://bucket/runs", secret="whsec_…")
    runner = AsyncRunner(agents, store="s3://bucket/runs", notify=push)
    app = a2a.app(runner, card=…, push=push)

A client says for each task where it wants them (`TaskPushNotificationConfig`). The body
is the state of the task without texts and data: the client gets the task for these.
"""

from __future__ import annotations

import time
from contextlib import suppress
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import httpx
from a2a.server.tasks import BasePushNotificationSender, PushNotificationConfigStore
from a2a.types import TaskPushNotificationConfig, TaskStatus, TaskStatusUpdateEvent
from a2a.utils.errors import InvalidParamsError
from a2a.utils.push_url_validator import validate_push_notification_url

from continuations import AsyncRunner
from continuations.errors import RunErased, RunNotFound
from continuations.interop.a2a import task_states
from continuations.serve import standard_webhooks
from continuations.serve.notify.notifier import Notice, RunNotice
from continuations.serve.option_checks import check_callable
from continuations_storage.contract import Store, all_keys
from continuations_storage.errors import AlreadyExists, NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence
    from os import PathLike

    from a2a.server.context import ServerCallContext

    from continuations import Wait

_TIMEOUT_SECONDS = 5.0
_MAX_CONFIGS = 20


class Configurations(PushNotificationConfigStore):
    """The configurations in the store of the runs.

    `a2a/{task}/{digest of client}/{digest of id}` is the key of one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def set_info(
        self,
        task_id: str,
        notification_config: TaskPushNotificationConfig,
        context: ServerCallContext,
    ) -> TaskPushNotificationConfig:
        """Store a configuration of a client; one with the same id is replaced."""
        kept = TaskPushNotificationConfig()
        kept.CopyFrom(notification_config)
        kept.task_id, kept.id = task_id, notification_config.id or task_id
        key = _key(task_id, context, kept.id)
        others = [each async for each in all_keys(self._store, _prefix(task_id))]
        if len({*others, key}) > _MAX_CONFIGS:
            raise InvalidParamsError(
                f"The task has {_MAX_CONFIGS} push notification configurations. Delete "
                "one of them first."
            )
        # An object never changes. After a crash between the two, the client repeats.
        await self._store.delete(key)
        with suppress(AlreadyExists):  # a request at the same time
            await self._store.create(key, kept.SerializeToString())
        return kept

    async def get_info(
        self, task_id: str, context: ServerCallContext
    ) -> list[TaskPushNotificationConfig]:
        """Return the configurations of a client for a task."""
        return await self._read_below(_prefix(task_id, context))

    async def get_info_for_dispatch(
        self, task_id: str
    ) -> list[TaskPushNotificationConfig]:
        """Return the configurations of all clients for a task."""
        return await self._read_below(_prefix(task_id))

    async def delete_info(
        self, task_id: str, context: ServerCallContext, config_id: str | None = None
    ) -> None:
        """Delete a configuration of a client, if there is one."""
        await self._store.delete(_key(task_id, context, config_id or task_id))

    async def _read_below(self, prefix: str) -> list[TaskPushNotificationConfig]:
        found: list[TaskPushNotificationConfig] = []
        async for key in all_keys(self._store, prefix):
            with suppress(NotFound):  # deleted meanwhile
                body = await self._store.read(key)
                found.append(TaskPushNotificationConfig.FromString(body))
        return found

    async def delete_all(self, task_id: str) -> None:
        """Delete the configurations of all clients for a task."""
        async for key in all_keys(self._store, _prefix(task_id)):
            await self._store.delete(key)


async def is_public_https(url: str) -> bool:
    """Return whether a URL has the scheme https and a host with public addresses.

    If the addresses of the host change between this check and the post, the server
    there has no certificate for the host, and nothing is sent.
    """
    return await validate_push_notification_url(url) and url[:6].lower() == "https:"


class Push:
    """Post the state of a task to the URLs of its clients.

    Pass it to `AsyncRunner(notify=...)` in each process that works on runs, perhaps
    within a `NotifyAll`, and to `a2a.app(push=...)`. A post is tried once: a client
    that misses one gets the task.

    Args:
        store: The store of the runs. It keeps the configurations with their tokens
            until the task ends.
        secret: The signing secret of Standard Webhooks, `whsec_` and base64; or a list
            of secrets, of which each signs every post.
        check_url: A function or coroutine function that returns whether a URL may be
            used. By default, only https URLs whose
            host has public addresses are accepted.

    Raises:
        InvalidInput: An argument is invalid. The text contains no secret.
    """

    def __init__(
        self,
        store: str | PathLike[str] | Store,
        *,
        secret: str | Sequence[str],
        check_url: Callable[[str], Awaitable[bool] | bool] = is_public_https,
    ) -> None:
        check_callable("check_url", check_url, "a function of a URL")
        self._keys = standard_webhooks.decode_secrets(secret)
        # It reads runs, so it needs no agents.
        self._reader: AsyncRunner[Any] = AsyncRunner([], store=store)
        self.configs = Configurations(self._reader.store)
        self._checks_url = check_url

    def __repr__(self) -> str:
        return "<Push>"

    async def __call__(self, _wait: Wait) -> None:
        """Do nothing: the state is posted when the worker has released the run."""

    async def on_notice(self, notice: Notice) -> None:
        """Post the state of a task that waits for a person or has ended.

        Args:
            notice: A notice of a run; any other one changes nothing.
        """
        if not isinstance(notice, RunNotice):
            return
        is_task = notice.run_id.startswith(task_states.TASK_PREFIX)
        asks = any(wait.rules.asks_person for wait in notice.waits)
        if is_task and (asks or notice.type == "run.ended"):
            await self.send(notice.run_id)

    async def send(self, task_id: str) -> None:
        """Post the present state of a task. A post that fails is logged.

        Args:
            task_id: Id of the task.
        """
        if not await self.configs.get_info_for_dispatch(task_id):
            return
        try:
            run = await self._reader.look(task_id)
        except (RunNotFound, RunErased):
            await self.configs.delete_all(task_id)
            return
        task = await task_states.read_task(self._reader, run, can_read=False)
        status = TaskStatus(state=task.status.state, timestamp=task.status.timestamp)
        update = TaskStatusUpdateEvent(
            task_id=task.id, context_id=task.context_id, status=status
        )
        async with httpx.AsyncClient(
            auth=_Signature(self._keys), timeout=_TIMEOUT_SECONDS, trust_env=False
        ) as client:
            sender = BasePushNotificationSender(
                client, self.configs, push_url_validator=self._check_url
            )
            await sender.send_notification(task_id, update)
        if run.status in task_states.ENDED:
            await self.configs.delete_all(task_id)

    async def _check_url(self, url: str) -> bool:
        found = self._checks_url(url)
        return (await found if isawaitable(found) else found) is True

    async def check(self, url: str) -> None:
        """Check the URL of a configuration.

        Args:
            url: The URL.

        Raises:
            InvalidParamsError: The URL may not be used.
        """
        if not await self._check_url(url):
            raise InvalidParamsError(
                "url is not allowed for push notifications. Use an https URL whose "
                "host has a public address."
            )


class _Signature(httpx.Auth):
    """Adds the headers of Standard Webhooks; an equal body has an equal id."""

    requires_request_body = True

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = keys

    def auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response]:
        body, at = request.content, str(int(time.time()))
        message = f"msg_{task_states.digest_of(body.decode())}"
        signed = standard_webhooks.headers(self._keys, message, at, body)
        request.headers.update(signed)
        yield request


def _prefix(task_id: str, context: ServerCallContext | None = None) -> str:
    client = (
        "" if context is None else f"{task_states.digest_of(context.user.user_name)}/"
    )
    return f"a2a/{task_id}/{client}"


def _key(task_id: str, context: ServerCallContext, config_id: str) -> str:
    return f"{_prefix(task_id, context)}{task_states.digest_of(config_id)}"
