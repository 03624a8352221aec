"""The operations of A2A over a runner: the store of the runs is the store of tasks."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import (
    AgentCard,
    ListTaskPushNotificationConfigsResponse,
    ListTasksResponse,
    Part,
    TaskState,
)
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.input_mode_validator import validate_input_modes
from a2a.utils.task import (
    ListTasksCursor,
    apply_history_length,
    decode_list_tasks_cursor,
    encode_list_tasks_cursor,
    validate_history_length,
    validate_page_size,
)

from continuations.errors import RunBusy, RunExists, RunNotFound, StaleRun
from continuations.interop.a2a import parts
from continuations.interop.a2a.errors import a2a_errors, forbidden
from continuations.interop.a2a.tasks import (
    ENDED,
    INTERRUPTED,
    TASK_PREFIX,
    Labels,
    digest_of,
    is_label_value,
    own_texts,
    read_task,
)
from continuations.interop.a2a.updates import updates_of
from continuations.results import Door

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from a2a.server.context import ServerCallContext
    from a2a.server.events.event_queue import Event
    from a2a.types import (
        CancelTaskRequest,
        DeleteTaskPushNotificationConfigRequest,
        GetExtendedAgentCardRequest,
        GetTaskPushNotificationConfigRequest,
        GetTaskRequest,
        ListTaskPushNotificationConfigsRequest,
        ListTasksRequest,
        Message,
        SendMessageRequest,
        SubscribeToTaskRequest,
        Task,
        TaskPushNotificationConfig,
    )

    from continuations import AsyncRunner, Continuation, Identity, RunSummary
    from continuations.interop.a2a.push import Push
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.rights import Act, Rights

__all__ = ["IDENTITY", "RunHandler"]

IDENTITY = "continuations.identity"
"""The key of the verified sender, in the scope of a request and in a call's state."""
A2A = Door("a2a", "verifier")

_ENDED_STATES = frozenset(ENDED.values())
_STATUS_OF_ENDED = {state: status for status, state in ENDED.items()}
_PAGE_SIZE = 50
_DECIDED_NOTHING = (
    "This text decided nothing. The task waits for a decision: send a message with "
    "this taskId and a data part for the wait, in the form of its schema."
)


class _Work(NamedTuple):
    """The effects of a message: the run, its work, and a note for the client."""

    run_id: str
    job: asyncio.Task[None] | None = None
    note: str | None = None


class RunHandler(RequestHandler):
    """Answer the requests of A2A clients; see `continuations.interop.a2a.app`.

    Args:
        runner: The runner.
        card: The card of the agent.
        agent: Name of the root agent.
        rights: The rights of identities.
        only_own: Whether an identity sees only the tasks that it started.
        dispatcher: Resumes runs.
        push: The push notifications, if there are any.
    """

    def __init__(
        self,
        runner: AsyncRunner[Any],
        *,
        card: AgentCard,
        agent: str,
        rights: Rights,
        only_own: bool,
        dispatcher: Dispatcher,
        push: Push | None,
    ) -> None:
        self._runner = runner
        self._card = card
        self._agent = agent
        # Not each name of an agent can be the value of a label.
        self._label = agent if is_label_value(agent) else digest_of(agent)
        self._rights = rights
        self._only_own = only_own
        self._dispatcher = dispatcher
        self._push = push
        self._jobs: dict[str, asyncio.Task[None]] = {}

    # Reading ----------------------------------------------------------------------

    async def on_get_task(
        self, params: GetTaskRequest, context: ServerCallContext
    ) -> Task:
        """Return a task."""
        with a2a_errors(params):
            validate_history_length(params)
            who = _sender(context)
            task = await self._task(await self._look(params.id, who), who)
            return apply_history_length(task, params)

    async def on_list_tasks(
        self, params: ListTasksRequest, context: ServerCallContext
    ) -> ListTasksResponse:
        """Return a page of the tasks that the sender may see, the newest first."""
        with a2a_errors(params):
            validate_history_length(params)
            if params.HasField("page_size"):
                validate_page_size(params.page_size)
            who = _sender(context)
            rows = [each async for each in self._rows(params, who)]
            rows.sort(key=_list_key, reverse=True)
            tasks: dict[str, Task] = {}
            if params.status and params.status not in _ENDED_STATES:
                # Only the whole state of a live run tells what it waits for.
                for row in rows:
                    task = await self._task(await self._look(row.run_id, who), who)
                    if task.status.state == params.status:
                        tasks[row.run_id] = task
                rows = [row for row in rows if row.run_id in tasks]
            page, following = _page(rows, params)
            for row in page:
                if row.run_id not in tasks:
                    run = await self._look(row.run_id, who)
                    tasks[row.run_id] = await self._task(run, who)
            shown = [apply_history_length(tasks[row.run_id], params) for row in page]
            for task in shown:
                if not params.include_artifacts:
                    task.ClearField("artifacts")
            return ListTasksResponse(
                tasks=shown,
                next_page_token=following,
                page_size=params.page_size or _PAGE_SIZE,
                total_size=len(rows),
            )

    async def _rows(
        self, params: ListTasksRequest, who: str | Identity
    ) -> AsyncGenerator[RunSummary]:
        label = f"{Labels.AGENT}={self._label}"
        if params.context_id:
            if not is_label_value(params.context_id):
                return
            label = f"{Labels.CONTEXT}={params.context_id}"
        after = params.status_timestamp_after
        since = after.ToNanoseconds() if after.ByteSize() else None
        wanted = _STATUS_OF_ENDED.get(params.status)
        async for row in self._runner.runs(label=label):
            is_ended = row.status in ENDED
            if (
                row.labels.get(Labels.AGENT) == self._label
                and (since is None or _nanoseconds(row) >= since)
                and (not params.status or (row.status == wanted or not wanted))
                and (not params.status or is_ended == (wanted is not None))
                and await self._may_see(row.run_id, row.requester, who)
            ):
                yield row

    async def _look(self, run_id: str, who: str | Identity) -> Continuation:
        """Return the run of a task; any other run does not exist for the sender."""
        run = await self._runner.look(run_id)
        row = run.run_state.run
        is_task = dict(row.labels).get(Labels.AGENT) == self._label
        if not is_task or not await self._may_see(run_id, row.requester, who):
            raise TaskNotFoundError
        return run

    async def _may_see(
        self, run_id: str, requester: str | None, who: str | Identity
    ) -> bool:
        if self._only_own and requester != _name(who):
            return False
        return await self._rights.allow(who, "view", run_id)

    async def _require(self, act: Act, run_id: str, who: str | Identity) -> None:
        if not await self._rights.allow(who, act, run_id):
            raise forbidden(act)

    async def _task(self, run: Continuation, who: str | Identity) -> Task:
        can_read = await self._rights.allow(who, "read", run.run_id)
        return await read_task(self._runner, run, can_read=can_read)

    # Messages ---------------------------------------------------------------------

    async def on_message_send(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> Task:
        """Start a task, decide its waits, or give its agent a text."""
        with a2a_errors(params):
            who = _sender(context)
            work = await self._accept(params, who)
            if work.job is not None and not params.configuration.return_immediately:
                await asyncio.shield(work.job)
            task = await self._task(await self._look(work.run_id, who), who)
            return apply_history_length(_noted(task, work.note), params.configuration)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Do what `on_message_send` does, and yield what happens meanwhile."""
        with a2a_errors(params):
            who = _sender(context)
            work = await self._accept(params, who)
            run = await self._look(work.run_id, who)
            first = _noted(await self._task(run, who), work.note)
            yield apply_history_length(first, params.configuration)
            stops_at = frozenset(INTERRUPTED)
            if work.job is None and first.status.state in stops_at:
                return
            updates = self._updates(run, first, who, work.job, stops_at)
            async with aclosing(updates) as later:
                async for event in later:
                    yield event

    async def _accept(self, params: SendMessageRequest, who: str | Identity) -> _Work:
        message, options = params.message, params.configuration
        validate_history_length(options)
        validate_input_modes(message, self._card)
        push = None
        if options.HasField("task_push_notification_config"):
            push = options.task_push_notification_config
            await self._pushes().check(push.url)
        if message.task_id:
            work = await self._continue(message, who)
        else:
            work = await self._start(message, who)
        if push is not None:
            await self._pushes().save(work.run_id, push, _name(who))
        return work._replace(job=self._wake(work.run_id)) if not work.note else work

    async def _start(self, message: Message, who: str | Identity) -> _Work:
        """Store a run for a message, once if the message comes again."""
        run_id = self._run_id(message, who)
        context_id = message.context_id or f"context-{run_id.removeprefix(TASK_PREFIX)}"
        if not is_label_value(context_id):
            raise InvalidParamsError(
                "contextId is not valid: it has 1 to 63 characters of A-Z a-z 0-9 . _ "
                "@ - and begins with a letter or digit. Send such an id, or none."
            )
        await self._require("message", run_id, who)
        with suppress(RunNotFound):
            await self._runner.look(run_id)
            return _Work(run_id)
        earlier = await self._earlier_texts(message, who)
        with suppress(RunExists):  # another process got the same message
            await self._runner.start(
                self._input(message, earlier),
                run_id=run_id,
                agent=self._agent,
                by=who,
                work=False,
                labels={
                    Labels.AGENT: self._label,
                    Labels.CONTEXT: context_id,
                    **({Labels.EARLIER: str(len(earlier))} if earlier else {}),
                },
            )
        return _Work(run_id)

    def _run_id(self, message: Message, who: str | Identity) -> str:
        sent = message.SerializeToString(deterministic=True).hex()
        return f"{TASK_PREFIX}{digest_of(self._agent, _name(who), sent)}"

    def _input(self, message: Message, earlier: list[dict[str, str]]) -> Any:
        if self._runner.root_agent(self._agent).is_workflow:
            return parts.workflow_arguments(message)
        text = parts.agent_text(message)
        if isinstance(text, str) and earlier:
            return [*earlier, {"role": "user", "content": text}]
        return text

    async def _earlier_texts(
        self, message: Message, who: str | Identity
    ) -> list[dict[str, str]]:
        """Return the texts of the newest finished task of a context.

        It took over those of the tasks before. Only a task whose texts the sender may
        read counts.
        """
        if not message.context_id or any(p.HasField("raw") for p in message.parts):
            return []
        newest: RunSummary | None = None
        async for row in self._runner.runs(
            label=f"{Labels.CONTEXT}={message.context_id}"
        ):
            if (
                row.status == "finished"
                and row.labels.get(Labels.AGENT) == self._label
                and (newest is None or _nanoseconds(row) > _nanoseconds(newest))
                and await self._may_see(row.run_id, row.requester, who)
                and await self._rights.allow(who, "read", row.run_id)
            ):
                newest = row
        if newest is None or self._runner.root_agent(self._agent).is_workflow:
            return []
        return own_texts(await self._runner.look(newest.run_id))

    async def _continue(self, message: Message, who: str | Identity) -> _Work:
        """Record the decisions of a message, or give its text to the agent."""
        run_id = message.task_id
        run = await self._look(run_id, who)
        task = await self._task(run, who)
        if message.context_id and message.context_id != task.context_id:
            raise InvalidParamsError(
                f"contextId is not that of task {run_id}. Send the contextId of the "
                "task, or none."
            )
        posted = parts.decisions_in(message, run_id, who)
        if posted:
            await self._require("decide", run_id, who)
            for wait_id, each in posted.items():
                await self._runner.decide(
                    wait_id, each.verdict, shown=each.shown, door=A2A
                )
            return _Work(run_id)
        if task.status.state in _ENDED_STATES:
            raise UnsupportedOperationError(
                f"Task {run_id} has ended. Send a message without taskId."
            )
        if task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
            return _Work(run_id, note=_DECIDED_NOTHING)
        await self._require("message", run_id, who)
        await self._runner.send(
            run_id, parts.agent_text(message), by=_name(who), id=message.message_id
        )
        return _Work(run_id)

    def _wake(self, run_id: str) -> asyncio.Task[None]:
        """Give a run to the dispatcher, after its present work in this process."""
        job = asyncio.create_task(self._woken(run_id, self._jobs.get(run_id)))
        self._jobs[run_id] = job

        def forget(done: asyncio.Task[None]) -> None:
            if self._jobs.get(run_id) is done:
                del self._jobs[run_id]
            if not done.cancelled():
                done.exception()  # the clients that wait get it

        job.add_done_callback(forget)
        return job

    async def _woken(self, run_id: str, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        # The worker that holds the run reads decisions before it stops.
        with suppress(RunBusy, StaleRun):
            await self._dispatcher.wake(run_id)

    async def aclose(self) -> None:
        """Cancel the work of this process; a sweep or a later message continues it."""
        jobs = [*self._jobs.values()]
        for job in jobs:
            job.cancel()
        if jobs:
            await asyncio.wait(jobs)

    # Streams ----------------------------------------------------------------------

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Yield a task, and what happens until it ends."""
        with a2a_errors(params):
            who = _sender(context)
            run = await self._look(params.id, who)
            task = await self._task(run, who)
            if task.status.state in _ENDED_STATES:
                raise UnsupportedOperationError(
                    f"Task {params.id} has ended. Get it with GetTask."
                )
            yield task
            job = self._jobs.get(params.id)
            updates = self._updates(run, task, who, job, _ENDED_STATES)
            async with aclosing(updates) as later:
                async for event in later:
                    yield event

    async def _updates(
        self,
        run: Continuation,
        known: Task,
        who: str | Identity,
        job: asyncio.Task[None] | None,
        stops_at: frozenset[TaskState],
    ) -> AsyncGenerator[Event]:
        can_read = await self._rights.allow(who, "read", run.run_id)

        async def look() -> Task:
            # The rights are asked again: they may have changed since.
            return await self._task(await self._look(run.run_id, who), who)

        async with aclosing(
            updates_of(
                self._runner,
                run,
                known,
                look,
                job=job,
                stops_at=stops_at,
                can_read=can_read,
            )
        ) as found:
            async for event in found:
                yield event

    # Ends and push notifications ---------------------------------------------------

    async def on_cancel_task(
        self, params: CancelTaskRequest, context: ServerCallContext
    ) -> Task:
        """Cancel the run of a task."""
        with a2a_errors(params):
            who = _sender(context)
            run = await self._look(params.id, who)
            await self._require("cancel", params.id, who)
            if run.status in ENDED:
                raise TaskNotCancelableError
            run = await self._runner.cancel(params.id, by=_name(who), door=A2A)
            if run.status not in ENDED:
                # A worker has to stop a job of another system first.
                await asyncio.shield(self._wake(params.id))
                run = await self._look(params.id, who)
            if self._push is not None:
                await self._push.send(params.id)
            return await self._task(run, who)

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Store where the changes of a task are posted."""
        with a2a_errors(params):
            pushes, who = self._pushes(), _sender(context)
            await self._look(params.task_id, who)
            await pushes.check(params.url)
            return await pushes.save(params.task_id, params, _name(who))

    async def on_get_task_push_notification_config(
        self,
        params: GetTaskPushNotificationConfigRequest,
        context: ServerCallContext,
    ) -> TaskPushNotificationConfig:
        """Return a push notification configuration of the sender."""
        with a2a_errors(params):
            for config in await self._configs(params.task_id, context):
                if config.id == params.id:
                    return config
            raise TaskNotFoundError

    async def on_list_task_push_notification_configs(
        self,
        params: ListTaskPushNotificationConfigsRequest,
        context: ServerCallContext,
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return the push notification configurations of the sender."""
        with a2a_errors(params):
            found = await self._configs(params.task_id, context)
            return ListTaskPushNotificationConfigsResponse(configs=found)

    async def on_delete_task_push_notification_config(
        self,
        params: DeleteTaskPushNotificationConfigRequest,
        context: ServerCallContext,
    ) -> None:
        """Delete a push notification configuration of the sender."""
        with a2a_errors(params):
            pushes, who = self._pushes(), _sender(context)
            await self._look(params.task_id, who)
            await pushes.delete(params.task_id, params.id, _name(who))

    async def _configs(
        self, task_id: str, context: ServerCallContext
    ) -> list[TaskPushNotificationConfig]:
        pushes, who = self._pushes(), _sender(context)
        await self._look(task_id, who)
        return await pushes.configs(task_id, _name(who))

    def _pushes(self) -> Push:
        if self._push is None:
            raise PushNotificationNotSupportedError
        return self._push

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Refuse: the public card says everything."""
        del params, context
        raise ExtendedAgentCardNotConfiguredError


def _sender(context: ServerCallContext) -> str | Identity:
    sender: str | Identity = context.state[IDENTITY]
    return sender


def _name(who: str | Identity) -> str:
    return who if isinstance(who, str) else who.name


def _noted(task: Task, note: str | None) -> Task:
    if note is not None:
        task.status.message.parts.insert(0, Part(text=note))
    return task


# Pages of tasks -------------------------------------------------------------------


def _nanoseconds(row: RunSummary) -> int:
    moment = row.updated_at
    return 0 if moment is None else int(moment.timestamp() * 1000) * 1_000_000


def _list_key(row: RunSummary) -> tuple[bool, int, str]:
    return True, _nanoseconds(row), row.run_id


def _page(
    rows: list[RunSummary], params: ListTasksRequest
) -> tuple[list[RunSummary], str]:
    """Return the rows of a page, and the token of the next one."""
    later = rows
    if params.page_token:
        cursor = decode_list_tasks_cursor(params.page_token)
        if cursor is None:
            raise InvalidParamsError("pageToken is not that of a page. Send no token.")
        later = [row for row in rows if _list_key(row) < cursor.sort_key()]
    page = later[: params.page_size or _PAGE_SIZE]
    if len(page) == len(later):
        return page, ""
    last = page[-1]
    return page, encode_list_tasks_cursor(
        ListTasksCursor(timestamp_ns=_nanoseconds(last), task_id=last.run_id)
    )
