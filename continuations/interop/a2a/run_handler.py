"""The operations of A2A over a runner: the store of the runs is the store of tasks."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from a2a import types
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.utils import errors as a2a_errors
from a2a.utils import task as task_pages
from a2a.utils.input_mode_validator import validate_input_modes
from a2a.utils.proto_utils import validate_proto_required_fields

from continuations import errors
from continuations.interop.a2a import task_states
from continuations.interop.a2a.task_states import (
    ENDED,
    INTERRUPTED,
    TASK_PREFIX,
    Labels,
    digest_of,
    is_label_value,
    own_texts,
    read_task,
)
from continuations.results import Door
from continuations.serve.http import problems
from continuations.serve.http.asgi import IDENTITY
from continuations.serve.rights import Act, Rights, name_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterator

    from a2a.server.context import ServerCallContext
    from a2a.server.events.event_queue import Event

    from continuations import AsyncRunner, Continuation, Identity, RunSummary
    from continuations.interop.a2a.push import Push
    from continuations.serve.dispatch import Dispatcher

A2A = Door("a2a", "verifier")

_ENDED_STATES = frozenset(ENDED.values())
_PAGE_SIZE = 50
# After all events of a version: no event has so high a number in its version.
_LAST_ORDINAL = 9_999_999_999
_DECIDED_NOTHING = (
    "This text decided nothing. The agent reads it after the decision. To decide, "
    "send a message with this taskId and a data part in the form of a wait's schema."
)


class _Work(NamedTuple):
    """The effects of a message: the run, its work, and a note for the client."""

    run_id: str
    job: asyncio.Task[None] | None = None
    note: str | None = None


class RunHandler(RequestHandler):
    """Answer the requests of A2A clients; see `continuations.interop.a2a.app`."""

    def __init__(
        self,
        runner: AsyncRunner[Any],
        *,
        card: types.AgentCard,
        agent: str,
        rights: Rights,
        only_own: bool,
        dispatcher: Dispatcher,
        push: Push | None,
    ) -> None:
        self._runner = runner
        self.card = card
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
        self, params: types.GetTaskRequest, context: ServerCallContext
    ) -> types.Task:
        """Return a task."""
        with _a2a_errors(params):
            task_pages.validate_history_length(params)
            task = await self._seen(params.id, _sender(context))
            return task_pages.apply_history_length(task, params)

    async def on_list_tasks(
        self, params: types.ListTasksRequest, context: ServerCallContext
    ) -> types.ListTasksResponse:
        """Return a page of the tasks that the sender may see, the newest first."""
        with _a2a_errors(params):
            task_pages.validate_history_length(params)
            if params.HasField("page_size"):
                task_pages.validate_page_size(params.page_size)
            who = _sender(context)
            rows = [each async for each in self._rows(params, who)]
            tasks: dict[str, types.Task] = {}
            if params.status and params.status not in _ENDED_STATES:
                # Only the whole state of a live run tells what it waits for.
                tasks = await self._tasks_of(rows, who)
                states = {key: task.status.state for key, task in tasks.items()}
                rows = [r for r in rows if states.get(r.run_id) == params.status]
            page, following = _page(rows, params)
            tasks = tasks or await self._tasks_of(page, who)
            shown = [
                task_pages.apply_history_length(tasks[row.run_id], params)
                for row in page
                if row.run_id in tasks
            ]
            for task in shown:
                if not params.include_artifacts:
                    task.ClearField("artifacts")
            return types.ListTasksResponse(
                tasks=shown,
                next_page_token=following,
                page_size=params.page_size or _PAGE_SIZE,
                total_size=len(rows),
            )

    async def _rows(
        self, params: types.ListTasksRequest, who: str | Identity
    ) -> AsyncGenerator[RunSummary]:
        after = params.status_timestamp_after
        since = after.ToNanoseconds() if after.ByteSize() else 0
        async for row in self._tasks_in(params.context_id):
            state = ENDED.get(row.status)
            wanted = params.status if params.status in _ENDED_STATES else None
            if (
                _nanoseconds(row) >= since
                and (not params.status or state == wanted)
                and await self._may_see(row.run_id, row.requester, who)
            ):
                yield row

    async def _tasks_in(self, context_id: str) -> AsyncGenerator[RunSummary]:
        """Yield the runs that are tasks of the agent, of a context or of all."""
        if context_id and not is_label_value(context_id):
            return
        own = f"{Labels.AGENT}={self._label}"
        label = f"{Labels.CONTEXT}={context_id}" if context_id else own
        async for row in self._runner.runs(label=label):
            if row.labels.get(Labels.AGENT) == self._label:
                yield row

    async def _tasks_of(
        self, rows: list[RunSummary], who: str | Identity
    ) -> dict[str, types.Task]:
        tasks: dict[str, types.Task] = {}
        for row in rows:
            with suppress(
                a2a_errors.TaskNotFoundError, errors.RunErased, errors.RunNotFound
            ):  # erased meanwhile
                tasks[row.run_id] = await self._seen(row.run_id, who)
        return tasks

    async def _look(self, run_id: str, who: str | Identity) -> Continuation:
        """Return the run of a task; any other run does not exist for the sender."""
        run = await self._runner.look(run_id)
        row = run.run_state.run
        is_task = dict(row.labels).get(Labels.AGENT) == self._label
        if not is_task or not await self._may_see(run_id, row.requester, who):
            raise a2a_errors.TaskNotFoundError
        return run

    async def _may_see(
        self, run_id: str, requester: str | None, who: str | Identity
    ) -> bool:
        if self._only_own and requester != name_of(who):
            return False
        return await self._rights.allow(who, "view", run_id)

    async def _require(self, act: Act, run_id: str, who: str | Identity) -> None:
        if not await self._rights.allow(who, act, run_id):
            detail = problems.forbidden(act).problem.detail
            raise a2a_errors.UnsupportedOperationError(detail)

    async def _task(self, run: Continuation, who: str | Identity) -> types.Task:
        can_read = await self._rights.allow(who, "read", run.run_id)
        return await read_task(self._runner, run, can_read=can_read)

    async def _seen(self, run_id: str, who: str | Identity) -> types.Task:
        return await self._task(await self._look(run_id, who), who)

    # Messages ---------------------------------------------------------------------

    async def on_message_send(
        self, params: types.SendMessageRequest, context: ServerCallContext
    ) -> types.Task:
        """Start a task, decide its waits, or give its agent a text."""
        with _a2a_errors(params):
            who = _sender(context)
            work = await self._accept(params, context)
            if work.job is not None and not params.configuration.return_immediately:
                await asyncio.shield(work.job)
            task = await self._seen(work.run_id, who)
            return task_pages.apply_history_length(
                _noted(task, work.note), params.configuration
            )

    async def on_message_send_stream(
        self, params: types.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Do what `on_message_send` does, and yield what happens meanwhile."""
        with _a2a_errors(params):
            who = _sender(context)
            work = await self._accept(params, context)
            run = await self._look(work.run_id, who)
            first = _noted(await self._task(run, who), work.note)
            yield task_pages.apply_history_length(first, params.configuration)
            stops_at = frozenset(INTERRUPTED)
            if work.job is None and first.status.state in stops_at:
                return
            updates = self._updates(run, first, who, work.job, stops_at)
            async with aclosing(updates) as later:
                async for event in later:
                    yield event

    async def _accept(
        self, params: types.SendMessageRequest, context: ServerCallContext
    ) -> _Work:
        message, options, who = params.message, params.configuration, _sender(context)
        task_pages.validate_history_length(options)
        validate_input_modes(message, self.card)
        push = None
        if options.HasField("task_push_notification_config"):
            push = options.task_push_notification_config
            await self._pushes().check(push.url)
        if message.task_id:
            work = await self._continue(message, who)
        else:
            work = await self._start(message, who)
        if push is not None:
            await self._pushes().configs.set_info(work.run_id, push, context)
        return work._replace(job=self._wake(work.run_id)) if not work.note else work

    async def _start(self, message: types.Message, who: str | Identity) -> _Work:
        """Store a run for a message, once if the message comes again."""
        digest = self._digest(message, who)
        run_id = f"{TASK_PREFIX}{digest}"
        context_id = message.context_id or f"context-{digest}"
        if not is_label_value(context_id):
            raise a2a_errors.InvalidParamsError(
                "contextId is not valid: it has 1 to 63 characters of A-Z a-z 0-9 . _ "
                "@ - and begins with a letter or digit. Send such an id, or none."
            )
        await self._require("message", run_id, who)
        with suppress(errors.RunNotFound):
            await self._runner.look(run_id)
            return _Work(run_id)
        earlier = await self._earlier_texts(message, who)
        with suppress(errors.RunExists):  # another process got the same message
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

    def _digest(self, message: types.Message, who: str | Identity) -> str:
        """Return a digest that is the same if a client repeats a message."""
        sent = message.SerializeToString(deterministic=True).hex()
        return digest_of(self._agent, name_of(who), sent)

    def _input(self, message: types.Message, earlier: list[dict[str, str]]) -> Any:
        if self._runner.root_agent(self._agent).is_workflow:
            return task_states.workflow_arguments(message)
        text = task_states.agent_text(message)
        if isinstance(text, str) and earlier:
            return [*earlier, {"role": "user", "content": text}]
        return text

    async def _earlier_texts(
        self, message: types.Message, who: str | Identity
    ) -> list[dict[str, str]]:
        """Return the texts of the newest finished task of a context.

        It took over those of the tasks before. Only a task whose texts the sender may
        read counts.
        """
        if not message.context_id or any(p.HasField("raw") for p in message.parts):
            return []
        newest: RunSummary | None = None
        async for row in self._tasks_in(message.context_id):
            if (
                row.status == "finished"
                and (newest is None or _nanoseconds(row) > _nanoseconds(newest))
                and await self._may_see(row.run_id, row.requester, who)
                and await self._rights.allow(who, "read", row.run_id)
            ):
                newest = row
        return [] if newest is None else own_texts(await self._look(newest.run_id, who))

    async def _continue(self, message: types.Message, who: str | Identity) -> _Work:
        """Record the decisions of a message, or give its text to the agent."""
        run_id = message.task_id
        run = await self._look(run_id, who)
        task = await self._task(run, who)
        if message.context_id and message.context_id != task.context_id:
            raise a2a_errors.InvalidParamsError(
                f"contextId is not that of task {run_id}. Send the contextId of the "
                "task, or none."
            )
        posted = task_states.decisions_in(message, run_id, who)
        if posted:
            await self._require("decide", run_id, who)
            shown = {key: each.shown for key, each in posted.items() if each.shown}
            results = await self._runner.decide_all(
                {key: each.verdict for key, each in posted.items()},
                shown=shown,
                door=A2A,
            )
            failed = [e for e in results.values() if isinstance(e, Exception)]
            if failed:
                if len(failed) < len(results):
                    self._wake(run_id)  # the others are recorded
                raise failed[0]
            return _Work(run_id)
        if task.status.state in _ENDED_STATES:
            raise a2a_errors.UnsupportedOperationError(
                f"Task {run_id} has ended. Send a message without taskId."
            )
        await self._require("message", run_id, who)
        text = task_states.agent_text(message)
        # Two clients may choose the same id of a message.
        sent = self._digest(message, who)
        await self._runner.send(run_id, text, by=name_of(who), id=sent)
        waits = task.status.state == types.TaskState.TASK_STATE_INPUT_REQUIRED
        return _Work(run_id, note=_DECIDED_NOTHING if waits else None)

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
        with suppress(errors.RunBusy, errors.StaleRun):
            await self._dispatcher.wake(run_id)

    # Streams ----------------------------------------------------------------------

    async def on_subscribe_to_task(
        self, params: types.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Yield a task, and what happens until it ends."""
        with _a2a_errors(params):
            who = _sender(context)
            run = await self._look(params.id, who)
            task = await self._task(run, who)
            if task.status.state in _ENDED_STATES:
                raise a2a_errors.UnsupportedOperationError(
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
        known: types.Task,
        who: str | Identity,
        job: asyncio.Task[None] | None,
        stops_at: frozenset[types.TaskState],
    ) -> AsyncGenerator[Event]:
        """Yield the changes of a task after a version of its run.

        Args:
            run: The version that the client knows.
            known: The task of that version.
            who: The client. Its rights are asked again: they may have changed.
            job: The work of this process on the run, whose error ends the stream.
            stops_at: The states that end the stream.
        """
        queue: asyncio.Queue[BaseException | None] = asyncio.Queue()
        follower = asyncio.create_task(self._follow(run, queue))
        if job is not None:
            job.add_done_callback(lambda done: queue.put_nowait(_error_of(done)))
        try:
            while True:
                error = await queue.get()
                while not queue.empty():
                    error = queue.get_nowait() or error
                task = await self._seen(run.run_id, who)
                for update in _changes(known, task):
                    yield update
                known = task
                if task.status.state in stops_at and (job is None or job.done()):
                    return
                if error is not None:
                    raise error
        finally:
            follower.cancel()
            await asyncio.wait({follower})

    async def _follow(
        self, run: Continuation, queue: asyncio.Queue[BaseException | None]
    ) -> None:
        after = f"{run.version}.{_LAST_ORDINAL}"
        try:
            async for _ in self._runner.events(run.run_id, after=after, follow=True):
                queue.put_nowait(None)
            queue.put_nowait(None)
        except Exception as error:  # noqa: BLE001 - the reader of the queue raises it
            queue.put_nowait(error)

    # Ends and push notifications ---------------------------------------------------

    async def on_cancel_task(
        self, params: types.CancelTaskRequest, context: ServerCallContext
    ) -> types.Task:
        """Cancel the run of a task."""
        with _a2a_errors(params):
            who = _sender(context)
            run = await self._look(params.id, who)
            await self._require("cancel", params.id, who)
            if run.status in ENDED:
                raise a2a_errors.TaskNotCancelableError
            run = await self._runner.cancel(params.id, by=name_of(who), door=A2A)
            if run.status not in ENDED:
                # A worker has to stop a job of another system first.
                await asyncio.shield(self._wake(params.id))
                run = await self._look(params.id, who)
            return await self._task(run, who)

    async def on_create_task_push_notification_config(
        self, params: types.TaskPushNotificationConfig, context: ServerCallContext
    ) -> types.TaskPushNotificationConfig:
        """Store where the changes of a task are posted."""
        with _a2a_errors(params):
            pushes = await self._pushes_of(params.task_id, context)
            await pushes.check(params.url)
            return await pushes.configs.set_info(params.task_id, params, context)

    async def on_get_task_push_notification_config(
        self,
        params: types.GetTaskPushNotificationConfigRequest,
        context: ServerCallContext,
    ) -> types.TaskPushNotificationConfig:
        """Return a push notification configuration of the sender."""
        with _a2a_errors(params):
            for config in await self._configs(params.task_id, context):
                if config.id == params.id:
                    return config
            raise a2a_errors.TaskNotFoundError

    async def on_list_task_push_notification_configs(
        self,
        params: types.ListTaskPushNotificationConfigsRequest,
        context: ServerCallContext,
    ) -> types.ListTaskPushNotificationConfigsResponse:
        """Return the push notification configurations of the sender."""
        with _a2a_errors(params):
            found = await self._configs(params.task_id, context)
            return types.ListTaskPushNotificationConfigsResponse(configs=found)

    async def on_delete_task_push_notification_config(
        self,
        params: types.DeleteTaskPushNotificationConfigRequest,
        context: ServerCallContext,
    ) -> None:
        """Delete a push notification configuration of the sender."""
        with _a2a_errors(params):
            pushes = await self._pushes_of(params.task_id, context)
            await pushes.configs.delete_info(params.task_id, context, params.id)

    async def _configs(
        self, task_id: str, context: ServerCallContext
    ) -> list[types.TaskPushNotificationConfig]:
        pushes = await self._pushes_of(task_id, context)
        return await pushes.configs.get_info(task_id, context)

    async def _pushes_of(self, task_id: str, context: ServerCallContext) -> Push:
        pushes = self._pushes()
        await self._look(task_id, _sender(context))
        return pushes

    def _pushes(self) -> Push:
        if self._push is None:
            raise a2a_errors.PushNotificationNotSupportedError
        return self._push

    async def on_get_extended_agent_card(
        self, params: types.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> types.AgentCard:
        """Refuse: the public card says everything."""
        del params, context
        raise a2a_errors.ExtendedAgentCardNotConfiguredError


def _sender(context: ServerCallContext) -> str | Identity:
    sender: str | Identity = context.state[IDENTITY]
    return sender


@contextmanager
def _a2a_errors(params: Any) -> Generator[None]:
    """Check the required fields of a request; raise each error of the block as A2A's.

    Texts about stores and machines go to the log, under the error id of the response.
    """
    try:
        validate_proto_required_fields(params)
        yield
    except a2a_errors.A2AError:
        raise
    except (errors.RunNotFound, errors.RunErased, errors.InvalidId):
        raise a2a_errors.TaskNotFoundError from None
    except Exception as error:  # noqa: BLE001 - a client gets only errors of A2A
        problem = problems.from_error(error, "A2A request")
        title = problem.type.title
        if problem.type.status >= problems.SERVER_ERROR:
            raise a2a_errors.InternalError(
                f"{title}. {problem.detail or ''}".strip()
            ) from None
        raise a2a_errors.InvalidParamsError(problem.detail or title) from None


def _noted(task: types.Task, note: str | None) -> types.Task:
    if note is not None:
        task.status.message.parts.insert(0, types.Part(text=note))
    return task


# Changes of a task ----------------------------------------------------------------


def _error_of(job: asyncio.Task[None]) -> BaseException | None:
    return None if job.cancelled() else job.exception()


def _changes(
    known: types.Task, task: types.Task
) -> Iterator[types.TaskStatusUpdateEvent | types.TaskArtifactUpdateEvent]:
    """Yield the updates that make of one task the other."""
    ids: Any = {"task_id": task.id, "context_id": task.context_id}
    if task.status.state not in _ENDED_STATES:
        # The last text of a task is its artifact.
        for each in task.history[len(known.history) :]:
            if each.role == types.Role.ROLE_AGENT:
                status = types.TaskStatus(
                    state=types.TaskState.TASK_STATE_WORKING,
                    message=each,
                    timestamp=task.status.timestamp,
                )
                yield types.TaskStatusUpdateEvent(status=status, **ids)
    # Each version of a run has a time of its own.
    if (
        known.status.state == task.status.state
        and known.status.message.parts == task.status.message.parts
    ):
        return
    for artifact in task.artifacts:
        yield types.TaskArtifactUpdateEvent(artifact=artifact, last_chunk=True, **ids)
    yield types.TaskStatusUpdateEvent(status=task.status, **ids)


# Pages of tasks -------------------------------------------------------------------


def _nanoseconds(row: RunSummary) -> int:
    moment = row.updated_at
    return 0 if moment is None else int(moment.timestamp() * 1000) * 1_000_000


def _list_key(row: RunSummary) -> tuple[bool, int, str]:
    return True, _nanoseconds(row), row.run_id


def _page(
    rows: list[RunSummary], params: types.ListTasksRequest
) -> tuple[list[RunSummary], str]:
    """Return the rows of a page, and the token of the next one."""
    later = sorted(rows, key=_list_key, reverse=True)
    if params.page_token:
        cursor = task_pages.decode_list_tasks_cursor(params.page_token)
        if cursor is None:
            raise a2a_errors.InvalidParamsError(
                "pageToken is not that of a page. Send no token."
            )
        later = [row for row in later if _list_key(row) < cursor.sort_key()]
    page = later[: params.page_size or _PAGE_SIZE]
    if len(page) == len(later):
        return page, ""
    last = page[-1]
    return page, task_pages.encode_list_tasks_cursor(
        task_pages.ListTasksCursor(timestamp_ns=_nanoseconds(last), task_id=last.run_id)
    )
