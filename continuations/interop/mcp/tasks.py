"""Runs as tasks of MCP: their ids, their states, and what a client may do with them.

Every state is read from the store. A task id is the id of a run behind a message
authentication code, so it cannot be guessed or made.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError

from continuations import errors
from continuations.interop.mcp import forms
from continuations.serve.http import problems
from continuations.serve.http.links import Signer, TokenInvalid
from continuations.serve.http.request_context import wake_run
from continuations.serve.rights import Act, Rights, may_decide, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations import AsyncRunner, Continuation, Identity, Wait
    from continuations.results import Door
    from continuations.serve.dispatch import Dispatcher

EXTENSION = "io.modelcontextprotocol/tasks"
_NOT_SHOWN = "[not shown]"
# These failures are of the runtime, and not of what the agent did.
_RUNTIME_FAILURES = frozenset({"attempts", "model"})
_CLOSED = (
    errors.AlreadyDecided,
    errors.WaitExpired,
    errors.Cancelled,
    errors.WaitNotFound,
)


class Client(NamedTuple):
    """The sender of a request, and the abilities of the client in this request.

    Attributes:
        identity: The person or program.
        door: The door, for the audit.
        has_tasks: Whether the client declared the tasks extension.
        has_forms: Whether the client shows forms to a person.
    """

    identity: str | Identity
    door: Door
    has_tasks: bool
    has_forms: bool

    @property
    def name(self) -> str:
        """The name of the identity."""
        return name_of(self.identity)


class TaskParams(types.RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    """The parameters of `tasks/update`; the responses are checked one by one."""

    input_responses: dict[str, Any]


class RunTasks:
    """The runs of a runner, as tasks.

    Args:
        runner: The runner.
        rights: The rights of identities.
        signer: Signs the ids of tasks.
        dispatcher: Resumes runs after a decision, if there is one.
        poll_interval: The pause that clients should make between two looks, in
            seconds.
    """

    def __init__(
        self,
        runner: AsyncRunner,
        *,
        rights: Rights,
        signer: Signer,
        dispatcher: Dispatcher | None,
        poll_interval: float,
    ) -> None:
        self._runner = runner
        self._rights = rights
        self._signer = signer
        self._dispatcher = dispatcher
        self._poll_ms = max(1, round(poll_interval * 1000))

    # What a client asks -----------------------------------------------------------

    async def get(self, client: Client, params: TaskParams) -> dict[str, Any]:
        """Answer `tasks/get`: the state of a run, read from the store."""
        run_id = await self._run_id(client, params.task_id, "view")
        return await self.task(client, await self._look(run_id))

    async def update(self, client: Client, params: UpdateParams) -> dict[str, Any]:
        """Answer `tasks/update`: each answer decides its wait, on its own."""
        run_id = await self._run_id(client, params.task_id, "decide")
        await self.answer(client, run_id, params.input_responses)
        return {}

    async def cancel(self, client: Client, params: TaskParams) -> dict[str, Any]:
        """Answer `tasks/cancel`: cancel the run; an ended run stays as it is."""
        run_id = await self._run_id(client, params.task_id, "cancel")
        await self._runner.cancel(run_id, by=client.name, door=client.door)
        return {}

    # Answers ------------------------------------------------------------------------

    async def answer(
        self, client: Client, run_id: str, responses: Mapping[str, Any]
    ) -> bool:
        """Decide the waits of a run for which a client sent an answer.

        A key that no open wait of the run has is left out: the wait may have been
        decided by another door.

        Args:
            client: The client.
            run_id: The run.
            responses: Responses to elicitations, by wait id.

        Returns:
            Whether a wait was decided, or got a vote.

        Raises:
            MCPError: An answer does not fit, or the person may not give it. The other
                answers are recorded.
        """
        if not await self.may(client, "decide", run_id):
            raise forbidden("decide")
        waits = {wait.id: wait for wait in (await self._look(run_id)).waits}
        refused: list[str] = []
        has_decided = False
        for wait_id in responses.keys() & waits.keys():
            try:
                has_decided |= await self._decide(
                    client, waits[wait_id], responses[wait_id]
                )
            except _CLOSED:
                continue
            except (errors.DecisionRefused, forms.NotAnAnswer) as error:
                refused.append(f"{wait_id}: {error}")
        if has_decided:
            await wake_run(self._dispatcher, run_id)
        if refused:
            msg = f"An answer was refused, and its wait is open: {'; '.join(refused)}"
            raise MCPError(types.INVALID_PARAMS, msg)
        return has_decided

    async def _decide(self, client: Client, wait: Wait, response: object) -> bool:
        if not forms.asks(wait):
            return False
        verdict = forms.verdict_of(wait, response, client.identity)
        if verdict is None:
            return False
        await self._runner.decide(wait.id, verdict, shown=wait.digest, door=client.door)
        return True

    # States -------------------------------------------------------------------------

    async def look(self, run_id: str) -> Continuation | None:
        """Return the newest state of a run, or `None` if it is not stored yet."""
        try:
            return await self._runner.look(run_id)
        except errors.RunNotFound:
            return None

    async def task(self, client: Client, run: Continuation) -> dict[str, Any]:
        """Return the state of a run for a client, as `tasks/get` shows it."""
        status = run.status
        head = await self.head(run)
        if status == "cancelled":
            return {**head, "status": "cancelled"}
        if status == "finished":
            return {**head, **await self._completed(client, run)}
        if status == "failed":
            return {**head, **await self._failed(client, run)}
        if not run.waits:
            return head
        head["statusMessage"] = waiting_text(run)
        questions = await self.questions(client, run)
        if not questions:
            return head
        return {**head, "status": "input_required", "inputRequests": questions}

    async def head(self, run: Continuation) -> dict[str, Any]:
        """Return the fields that each state of a task has."""
        changed = run.run_state.run.created_at
        async for version in self._runner.history(run.run_id, after=run.version - 1):
            changed = version.at
        return {
            "taskId": self._signer.sign(run.run_id.encode()),
            "status": "working",
            "createdAt": _time(run.run_state.run.created_at),
            "lastUpdatedAt": _time(changed),
            "ttlMs": None,
            "pollIntervalMs": self._poll_ms,
        }

    async def questions(self, client: Client, run: Continuation) -> dict[str, Any]:
        """Return the forms of the open waits that the client may decide, by wait id."""
        if not client.has_forms:
            return {}
        acts: tuple[Act, ...] = ("view", "decide")
        for act in acts:
            if not await self.may(client, act, run.run_id):
                return {}
        waits = [wait for wait in run.waits if forms.asks(wait)]
        is_open = await asyncio.gather(*(self._is_open_for(client, w) for w in waits))
        return {
            wait.id: forms.form_of(wait)
            for wait, is_asked in zip(waits, is_open, strict=True)
            if is_asked
        }

    async def _is_open_for(self, client: Client, wait: Wait) -> bool:
        try:
            newest = await self._runner.wait(wait.id)
        except _CLOSED:
            return False
        return await may_decide(self._runner, client.identity, newest)

    async def result(self, client: Client, run: Continuation) -> types.CallToolResult:
        """Return the output of a finished run, or why a run failed."""
        if not await self._may_read(client, run.run_id):
            return text_result(_NOT_SHOWN)
        failure = run.failure
        if failure is not None or run.status == "cancelled":
            text = failure.message if failure else ""
            code = failure.code if failure else "cancelled"
            return text_result(f"{code}: {text}" if text else code, is_error=True)
        text = run.output or ""
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structured_content=self._structured(run, text),
        )

    def _structured(self, run: Continuation, text: str) -> dict[str, Any] | None:
        """Return the output of an agent with an output type as a JSON object."""
        name = run.root.agent
        agent = next((a for a in self._runner.root_agents if a.name == name), None)
        if agent is None or agent.has_text_output:
            return None
        return forms.as_object(json.loads(text)) if text else None

    async def _failed(self, client: Client, run: Continuation) -> dict[str, Any]:
        error = runtime_error(run)
        if error is not None:
            message = error.message
            if not await self._may_read(client, run.run_id):
                message = _NOT_SHOWN
            shown = {"code": error.code, "message": message}
            return {"status": "failed", "statusMessage": message, "error": shown}
        return await self._completed(client, run)

    async def _completed(self, client: Client, run: Continuation) -> dict[str, Any]:
        result = await self.result(client, run)
        dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {"status": "completed", "result": dumped}

    # Checks -------------------------------------------------------------------------

    async def may(self, client: Client, act: Act, run_id: str) -> bool:
        """Return whether a client may do something with a run."""
        return await self._rights.allow(client.identity, act, run_id)

    async def _may_read(self, client: Client, run_id: str) -> bool:
        return await self.may(client, "view", run_id) and (
            await self.may(client, "read", run_id)
        )

    async def _run_id(self, client: Client, task_id: str, act: Act) -> str:
        """Return the run of a task; raise `MCPError` without the right."""
        try:
            run_id = self._signer.read(task_id).decode()
        except (TokenInvalid, UnicodeDecodeError):
            raise unknown_task() from None
        if not await self.may(client, act, run_id):
            if await self.may(client, "view", run_id):
                raise forbidden(act)
            raise unknown_task()
        return run_id

    async def _look(self, run_id: str) -> Continuation:
        try:
            return await self._runner.look(run_id)
        except (errors.RunNotFound, errors.RunErased, errors.InvalidId):
            raise unknown_task() from None


# Words and errors --------------------------------------------------------------------


def waiting_text(run: Continuation) -> str:
    """Return what a run waits for, without arguments of calls."""
    awaited = dict.fromkeys(f"{w.rules.awaited} ({w.tool})" for w in run.waits)
    return f"waits for {', '.join(awaited)}" if awaited else "is at work"


def text_result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    """Return a result with one text."""
    content = types.TextContent(type="text", text=text)
    return types.CallToolResult(content=[content], is_error=is_error)


def runtime_error(run: Continuation) -> MCPError | None:
    """Return the error of a run that its runtime ended, and not its agent."""
    failure = run.failure
    if failure is None or failure.code not in _RUNTIME_FAILURES:
        return None
    return MCPError(types.INTERNAL_ERROR, failure.message)


def tasks_missing() -> MCPError:
    """Return the error for a client that did not declare the tasks extension."""
    return MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"The client must declare the extension {EXTENSION} in this request.",
        {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
    )


def unknown_task() -> MCPError:
    """Return the error for a task that does not exist, or is another person's."""
    msg = (
        "The task is not known: the id is misspelled, its run was erased, or you may "
        "not view it. Use a taskId that this server returned to you."
    )
    return MCPError(types.INVALID_PARAMS, msg)


def forbidden(act: Act) -> MCPError:
    """Return the error for an act that the application does not allow."""
    return MCPError(types.INVALID_PARAMS, str(problems.forbidden(act).problem.detail))


def error_of(error: Exception, operation: str) -> MCPError:
    """Return an error of the library for a client; a server error is logged.

    Args:
        error: The error.
        operation: The name of the request, for the log.

    Returns:
        The error, whose text is that of the HTTP API.
    """
    known = isinstance(error, errors.ContinuationsError)
    problem = problems.from_error(error, operation)
    is_own = known and problem.type.status < problems.SERVER_ERROR
    code = types.INVALID_PARAMS if is_own else types.INTERNAL_ERROR
    return MCPError(code, problem.detail or problem.type.title)


def _time(value: datetime) -> str:
    text = value.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
