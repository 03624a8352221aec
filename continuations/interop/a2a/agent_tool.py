"""Agents of other systems as tools: a message, a task that is polled, questions.

    research = a2a.a2a_agent("https://other.example.com", name="research")
    agent = Agent("boss", tools=[research], model=model)

The call waits while the task works: the run is stored, and no process runs. The remote
task is asked about at growing intervals, by the sweeps of the runner. If it needs
input, a person is asked, as by `ask` of a tool of your own.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

import httpx
import jsonschema_rs
from a2a import types
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.helpers import get_data_parts, new_message, new_text_part
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import A2AError, TaskNotCancelableError, TaskNotFoundError
from pydantic import WithJsonSchema

from continuations import Approve, ToolContext, ask, sleep
from continuations.errors import InvalidInput
from continuations.interop.a2a.task_states import data_part
from continuations.serve.option_checks import check_callable
from continuations.tools import Tool, ToolWait

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

    from continuations import ApprovalPolicy

Headers: TypeAlias = Callable[
    [ToolContext], "Mapping[str, str] | Awaitable[Mapping[str, str]]"
]
"""A function or coroutine function that returns the HTTP headers of a call."""

# The choices of a person about a wait of the other system that asks no question.
Choice: TypeAlias = Literal["approve", "deny"]
_TIMEOUT_SECONDS = 30.0
_MAX_QUESTION_CHARS = 20_000
_BINDINGS = [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON]
_FAILED = {
    types.TaskState.TASK_STATE_FAILED: "failed",
    types.TaskState.TASK_STATE_REJECTED: "rejected the task",
    types.TaskState.TASK_STATE_CANCELED: "cancelled the task",
}


class RemoteAgentError(Exception):
    """An agent of another system failed, or its response cannot be used.

    The model reads the text as the result of the call.
    """


def a2a_agent(  # noqa: PLR0913 - one parameter for each option
    card: types.AgentCard | str,
    *,
    name: str,
    description: str | None = None,
    approval: bool | ApprovalPolicy | None = None,
    idempotent: bool = False,
    headers: Headers | None = None,
    http_client: Callable[[], httpx.AsyncClient] | None = None,
    poll: timedelta = timedelta(seconds=1),
    longest_poll: timedelta = timedelta(minutes=10),
) -> Tool[[str], Any]:
    """Return a tool that gives a message to an agent of another system.

    Args:
        card: The URL of the agent, or its card. With a URL, the card is read in each
            call, and it may only name the same host.
        name: The name of the tool.
        description: The description that the model reads. Default: that of the card, or
            a sentence with the name.
        approval: Which calls wait for a person, as for `tool`.
        idempotent: Whether the other system starts one task for a message that it gets
            twice. Then a call is repeated after a crash. By default, a person decides.
        headers: Returns the headers of the requests of a call, such as a token. They
            are not stored.
        http_client: Makes the HTTP client, for example with a proxy or certificates.
        poll: The time to the first look at a task that works. It doubles each time.
        longest_poll: The longest time between two looks.

    Returns:
        The tool, with one argument `message`. Its result is the text of the artifacts.

    Raises:
        InvalidInput: An option is invalid.
    """
    remote = _RemoteAgent(card, name, headers, http_client, poll, longest_poll)
    if description is None:
        own = card.description if isinstance(card, types.AgentCard) else ""
        description = own or f"Give a message to the agent {name}; return its reply."

    async def send(message: str, ctx: ToolContext) -> Any:
        return await remote.start(message, ctx)

    tool: Tool[[str], Any] = Tool(
        cast("Callable[[str], Any]", send),
        name=name,
        description=description,
        approval=approval,
        idempotent=idempotent,
        verify=remote.verify,
    )
    tool.on_answer(remote.go_on)
    tool.on_cancel(remote.cancel)
    return tool


class _RemoteAgent:
    """The requests of one tool; each method is one stage of a call."""

    def __init__(
        self,
        card: types.AgentCard | str,
        name: str,
        headers: Headers | None,
        http_client: Callable[[], httpx.AsyncClient] | None,
        poll: timedelta,
        longest_poll: timedelta,
    ) -> None:
        _check_card(card)
        check_callable("headers", headers, "a function of the ToolContext")
        check_callable("http_client", http_client, "a function without parameters")
        if not timedelta() < poll <= longest_poll:
            msg = "poll must be above zero and at most longest_poll. Pass such a time."
            raise InvalidInput(msg)
        self._card = card
        self._name = name
        self._headers = headers
        self._http_client = http_client or _new_http_client
        self._poll = poll
        self._longest_poll = longest_poll

    async def start(self, text: str, ctx: ToolContext) -> Any:
        """Send the message of a call."""
        message = new_message([new_text_part(text)], role=types.Role.ROLE_USER)
        # The same in a repeat of this stage, so a server can tell a repeat.
        message.message_id = ctx.idempotency_key
        try:
            return self._next(await self._send(message, ctx), {})
        except A2AError as error:
            raise self._error(error) from None

    async def go_on(self, answer: Any, ctx: ToolContext) -> Any:
        """Look at the task, or send what a person has answered."""
        memo = self._memo(ctx)
        try:
            reply = self._reply_of(memo, answer)
            task = await self._look(memo["task"], ctx)
            if reply is None or not _still_asks(task, memo):
                # After a crash, this says whether the answer has arrived.
                return self._next(task, memo)
            reply.message_id = ctx.idempotency_key
            try:
                return self._next(await self._send(reply, ctx), {})
            except (A2AClientError, TaskNotFoundError):
                raise
            except A2AError as error:
                note = str(error)
            # It did not take the answer: the same question, with the reason.
            return self._next(await self._look(memo["task"], ctx), memo, note)
        except TaskNotFoundError as error:
            raise self._error(error) from None
        except A2AError:
            # It does not work now. Its task says later what it got.
            return self._later(memo["task"], memo)

    async def verify(self, ctx: ToolContext) -> Approve | None:
        """Repeat a stage after a crash: it looks at the task before it answers."""
        return Approve() if ctx.stage else None

    async def cancel(self, ctx: ToolContext) -> None:
        """Cancel the task of a call that is not needed any more."""
        if ctx.memo is None:
            return
        async with self._client(ctx) as client:
            try:
                await client.cancel_task(types.CancelTaskRequest(id=ctx.memo["task"]))
            except (TaskNotCancelableError, TaskNotFoundError):
                return  # it has ended

    # The next stage -----------------------------------------------------------------

    def _next(
        self, reply: types.Task | types.Message, memo: Mapping[str, Any], note: str = ""
    ) -> Any:
        """Return the result of a reply, or the wait that it needs."""
        if isinstance(reply, types.Message):
            return _text_of([reply])
        state, said = reply.status.state, _text_of([reply.status.message])
        if state == types.TaskState.TASK_STATE_COMPLETED:
            return _text_of(reply.artifacts) or said
        if state in _FAILED:
            raise RemoteAgentError(f"agent {self._name} {_FAILED[state]}: {said}")
        if state == types.TaskState.TASK_STATE_INPUT_REQUIRED:
            return self._question(reply, said, note)
        if state == types.TaskState.TASK_STATE_AUTH_REQUIRED:
            return self._ask(reply, f"Log in for agent {self._name}. {said}", bool, {})
        return self._later(reply.id, memo)

    def _later(self, task_id: str, memo: Mapping[str, Any]) -> ToolWait[Any]:
        looks = int(memo.get("looks", 0))
        # Beyond 30 doublings each time is too long.
        within = min(self._poll * 2 ** min(looks, 30), self._longest_poll)
        # Not `external`, whose deadline calls `on_cancel`: a look is no end.
        return sleep(within, memo={"task": task_id, "looks": looks + 1})

    def _question(self, task: types.Task, said: str, note: str) -> ToolWait[Any]:
        """Ask a person what the other system asks."""
        refused = f" Your answer was refused: {note}" if note else ""
        intro = f"Agent {self._name} asks:"
        wait = next(_waits_in(task.status.message.parts), None)
        if wait is None:
            question = f"{intro} {said or 'for more input.'}{refused}"
            return self._ask(task, question, str, {"reply": "text"})
        kept = {"wait": wait["wait"], "shown": wait.get("digest")}
        title = str(wait.get("title") or said)
        if wait["kind"] == "question":
            question = f"{intro} {title}{refused}"
            value_type = _type_of(wait["schema"])
            return self._ask(task, question, value_type, {"reply": "value", **kept})
        details = json.dumps(wait.get("arguments"), ensure_ascii=False, indent=1)
        question = f"{intro} {title}\n{wait.get('tool')}: {details}{refused}"
        return self._ask(task, question, Choice, {"reply": "choice", **kept})

    def _ask(
        self, task: types.Task, question: str, answer_type: Any, memo: Mapping[str, Any]
    ) -> ToolWait[Any]:
        if len(question) > _MAX_QUESTION_CHARS:
            # A person must see all of what is asked.
            raise RemoteAgentError(
                f"agent {self._name} asks a question of {len(question):,} characters, "
                "which is too long to show."
            )
        asked = task.status.message.message_id
        kept = {"task": task.id, "context": task.context_id, "asked": asked, **memo}
        return ask(question, answer_type, memo=kept)

    def _reply_of(self, memo: Mapping[str, Any], answer: Any) -> types.Message | None:
        """Return the message for an answer of a person; `None` to look at the task."""
        kind = memo.get("reply")
        if kind is None:
            return None
        if kind == "text":
            part = new_text_part(str(answer))
        else:
            decision = {"decision": answer} if kind == "choice" else {}
            value = {"decision": "answer", "value": answer} if kind == "value" else {}
            shown = {"shown": memo["shown"]} if memo.get("shown") else {}
            part = data_part({"wait": memo["wait"], **shown, **decision, **value})
        return new_message(
            [part],
            role=types.Role.ROLE_USER,
            task_id=memo["task"],
            context_id=memo["context"],
        )

    def _memo(self, ctx: ToolContext) -> Mapping[str, Any]:
        if ctx.memo is None:
            raise RemoteAgentError(
                f"the task of agent {self._name} is not known: the worker died before "
                "it was stored. The task may have been started."
            )
        memo: Mapping[str, Any] = ctx.memo
        return memo

    def _error(self, error: A2AError) -> RemoteAgentError:
        kind = type(error).__name__
        return RemoteAgentError(f"agent {self._name} did not answer: {kind}: {error}")

    # Requests -----------------------------------------------------------------------

    async def _send(
        self, message: types.Message, ctx: ToolContext
    ) -> types.Task | types.Message:
        request = types.SendMessageRequest(
            message=message,
            configuration=types.SendMessageConfiguration(return_immediately=True),
        )
        async with self._client(ctx) as client:
            async for event in client.send_message(request):
                if event.HasField("task"):
                    return event.task
                if event.HasField("message"):
                    return event.message
        raise A2AClientError("the response has neither a task nor a message")

    async def _look(self, task_id: str, ctx: ToolContext) -> types.Task:
        async with self._client(ctx) as client:
            return await client.get_task(types.GetTaskRequest(id=task_id))

    @asynccontextmanager
    async def _client(self, ctx: ToolContext) -> AsyncGenerator[Client]:
        """Make a client for a call: a loop, and perhaps a token, of its own."""
        async with self._http_client() as http:
            if self._headers is not None:
                made = self._headers(ctx)
                http.headers.update(await made if inspect.isawaitable(made) else made)
            config = ClientConfig(
                streaming=False,
                httpx_client=http,
                supported_protocol_bindings=list(_BINDINGS),
            )
            yield ClientFactory(config).create(await self._read_card(http))

    async def _read_card(self, http: httpx.AsyncClient) -> types.AgentCard:
        if isinstance(self._card, types.AgentCard):
            return self._card
        card = await A2ACardResolver(http, self._card).get_agent_card()
        # The headers of the application must not go where a card says.
        own = urlsplit(self._card)
        for each in card.supported_interfaces:
            there = urlsplit(each.url)
            if (there.scheme, there.netloc) != (own.scheme, own.netloc):
                raise RemoteAgentError(
                    f"the card of agent {self._name} names the host {there.netloc}, "
                    f"not {own.netloc}. Pass the AgentCard if that is right."
                )
        return card


def _check_card(card: object) -> None:
    if isinstance(card, types.AgentCard):
        return
    if not isinstance(card, str):
        msg = f"card must be a URL or an AgentCard, got {type(card).__name__}."
        raise InvalidInput(msg)
    try:
        parts = urlsplit(card)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("https", "http") or not parts.netloc or parts.username:
        raise InvalidInput(
            "card must be a URL such as https://agents.example.com, without a user "
            "name. Pass tokens with headers=."
        )


def _new_http_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=_TIMEOUT_SECONDS)


def _waits_in(parts: Iterable[types.Part]) -> Iterator[dict[str, Any]]:
    """Yield the waits of a server of this library."""
    for value in get_data_parts([*parts]):
        if isinstance(value, dict):
            wait = cast("dict[str, Any]", value)
            if all(isinstance(wait.get(name), str) for name in ("wait", "kind")):
                yield {**wait, "schema": wait.get("schema")}


def _still_asks(task: types.Task, memo: Mapping[str, Any]) -> bool:
    """Return whether a task may take the answer of a person."""
    if "wait" in memo:
        # The id of the wait is in the answer, so a late one decides nothing else.
        return task.status.state not in (types.TaskState.TASK_STATE_COMPLETED, *_FAILED)
    asks = task.status.state == types.TaskState.TASK_STATE_INPUT_REQUIRED
    return bool(asks and task.status.message.message_id == memo["asked"])


def _type_of(schema: Any) -> Any:
    """Return the type of an answer, by the schema of its data part."""
    try:
        value_schema = schema["properties"]["value"]
        jsonschema_rs.validator_for(value_schema, retriever=_refuse_reference)
    except Exception:  # noqa: BLE001 - the other system wrote the schema
        return Any
    return Annotated[Any, WithJsonSchema(value_schema)]


def _refuse_reference(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema")


def _text_of(contents: Sequence[Any]) -> str:
    """Return the texts of messages or artifacts; data as JSON text."""
    found: list[str] = []
    for content in contents:
        for part in content.parts:
            if part.HasField("text"):
                found.append(part.text)
            elif part.HasField("data") and not [*_waits_in([part])]:
                [value] = get_data_parts([part])
                found.append(json.dumps(value, ensure_ascii=False))
            elif part.HasField("url"):
                found.append(part.url)
    return "\n".join(found)
