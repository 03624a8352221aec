"""A run as an A2A task: its state, its open waits as parts, its output and history."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from a2a.helpers import new_data_part
from a2a.types import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
)

from continuations.errors import InvalidInput
from continuations.serve.operation_calls import run_response

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from continuations import AsyncRunner, Continuation, Wait

__all__ = [
    "ENDED",
    "INTERRUPTED",
    "MAX_EXACT",
    "TASK_PREFIX",
    "Labels",
    "data_part",
    "digest_of",
    "encodable",
    "history_of",
    "is_label_value",
    "own_texts",
    "read_task",
]

TASK_PREFIX = "a2a-"
"""The beginning of the id of each task and its run."""
ENDED: Mapping[str, TaskState] = {
    "finished": TaskState.TASK_STATE_COMPLETED,
    "failed": TaskState.TASK_STATE_FAILED,
    "cancelled": TaskState.TASK_STATE_CANCELED,
}
"""The states of tasks whose run has ended, by the status of the run."""
INTERRUPTED = (TaskState.TASK_STATE_INPUT_REQUIRED, *ENDED.values())
"""The states in which nothing happens before the client or a person acts."""
MAX_EXACT = 2**53
"""The largest integer in a data part: its numbers are those of JavaScript."""
# JSON readers of protobuf refuse a message with more than 100 levels, two for each.
_MAX_DEPTH = 32


_LABEL_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}\Z")


def is_label_value(text: str) -> bool:
    """Return whether a text can be the value of a label of a run.

    Args:
        text: The text.

    Returns:
        Whether `AsyncRunner.start` takes it.
    """
    return _LABEL_VALUE.match(text) is not None


def digest_of(*texts: str) -> str:
    """Return a digest of texts, which is a part of an id or of a key.

    Args:
        *texts: The texts.

    Returns:
        32 hexadecimal digits.
    """
    sent = json.dumps(texts).encode()
    return hashlib.sha256(sent).hexdigest()[:32]


class Labels:
    """The labels of a run that is a task."""

    AGENT = "a2a"
    CONTEXT = "a2a-context"
    # The number of messages that the run took over from its context.
    EARLIER = "a2a-earlier"


class _Clock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> float:
        raise NotImplementedError  # a form needs the wall clock only


class _Reader(NamedTuple):
    """The reader of a run's form, with or without the texts of its agents."""

    runner: AsyncRunner[Any]
    can_read: bool
    path_params: Mapping[str, str] = {}

    @property
    def clock(self) -> _Clock:
        return _Clock()

    async def detail(self, _run_id: str, /) -> Any:
        return "texts" if self.can_read else "states"


async def read_task(
    runner: AsyncRunner[Any], run: Continuation, *, can_read: bool
) -> Task:
    """Return the task that a run is.

    Args:
        runner: The runner whose store has the run.
        run: The run.
        can_read: Whether the client may read the texts of its agents.

    Returns:
        The task, with its whole history if the client may read it.
    """
    form = await run_response(_Reader(runner, can_read), run)
    waits = _asked_waits(run, form)
    state = _state_of(form, waits)
    context_id = form["labels"].get(Labels.CONTEXT, "")
    message = Message(
        message_id=f"{run.run_id}-{run.version}",
        role=Role.ROLE_AGENT,
        task_id=run.run_id,
        context_id=context_id,
        parts=_status_parts(form, state, waits),
    )
    status = TaskStatus(state=state, message=message if message.parts else None)
    status.timestamp.FromDatetime(await _time_of(runner, run))
    task = Task(id=run.run_id, context_id=context_id, status=status)
    if state == TaskState.TASK_STATE_COMPLETED:
        parts = [_output_part(runner, form, can_read=can_read)]
        task.artifacts.append(
            Artifact(artifact_id="output", name="output", parts=parts)
        )
    if can_read:
        task.history.extend(history_of(run, form["labels"], context_id))
    return task


def _asked_waits(run: Continuation, form: Mapping[str, Any]) -> list[Wait]:
    """Return the waits that a person may decide now."""
    is_open = {each["id"] for each in form["waits"] if each["state"] == "open"}
    return [w for w in run.waits if w.id in is_open and w.rules.asks_person]


def _state_of(form: Mapping[str, Any], waits: list[Wait]) -> TaskState:
    status = form["status"]
    if status in ENDED:
        return ENDED[status]
    if status == "suspended" and waits:
        return TaskState.TASK_STATE_INPUT_REQUIRED
    is_stored_only = status == "suspended" and form["version"] == 1
    if is_stored_only and not form["waits"]:
        return TaskState.TASK_STATE_SUBMITTED
    return TaskState.TASK_STATE_WORKING


async def _time_of(runner: AsyncRunner[Any], run: Continuation) -> datetime:
    async for version in runner.history(run.run_id, after=run.version - 1):
        return version.at
    return datetime.now(UTC)


def _status_parts(
    form: Mapping[str, Any], state: TaskState, waits: list[Wait]
) -> list[Part]:
    if state == TaskState.TASK_STATE_INPUT_REQUIRED:
        forms = {each["id"]: each for each in form["waits"]}
        return [p for wait in waits for p in _wait_parts(wait, forms[wait.id])]
    failure = form["failure"]
    return [Part(text=encodable(failure["message"]))] if failure else []


# Waits ----------------------------------------------------------------------------


def _wait_parts(wait: Wait, form: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the title of a wait as text, and what a decision needs as data."""
    title = _title_of(wait)
    yield Part(text=encodable(title))
    names = ("kind", "tool", "path", "question", "arguments", "readings", "deadline")
    facts = {name: form[name] for name in (*names, "reversible", "note")}
    yield data_part(
        {
            "wait": wait.id,
            "digest": wait.digest,
            "title": title,
            **{name: value for name, value in facts.items() if value not in (None, {})},
            "schema": _answer_schema(wait, form),
        }
    )


def _title_of(wait: Wait) -> str:
    if wait.title:
        return wait.title
    if wait.rules.asks_question and wait.question:
        return wait.question
    return wait.rules.question.format(tool=wait.tool)


def _answer_schema(wait: Wait, form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of the data part that decides a wait."""
    verdicts = wait.rules.verdicts
    properties: dict[str, Any] = {
        "wait": {"const": wait.id},
        "decision": {"enum": [*verdicts]},
        "shown": {"const": wait.digest},
        "reason": {"type": "string"},
    }
    if "answer" in verdicts:
        properties["value"] = form["answer_schema"] or {}
    if "fail" in verdicts:
        properties["error"] = {"type": "string"}
    if wait.rules.allows_edits and wait.editable != ():
        properties["arguments"] = form["schema"]
    if form["form_schema"]:
        properties["form"] = form["form_schema"]
    required = ["wait", "decision", *(["value"] if [*verdicts] == ["answer"] else [])]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


# Texts and values -----------------------------------------------------------------


def _output_part(
    runner: AsyncRunner[Any], form: Mapping[str, Any], *, can_read: bool
) -> Part:
    text: str = form["output"] or ""
    if can_read and _has_typed_output(runner, form["agent"]):
        try:
            return data_part(json.loads(text))
        except ValueError:
            pass  # the run began with other code, whose output was a text
    return Part(text=encodable(text), media_type="text/plain")


def _has_typed_output(runner: AsyncRunner[Any], name: str) -> bool:
    try:
        agent = runner.root_agent(name)
    except InvalidInput:
        return False  # this process lacks the agent
    return agent.is_workflow or agent.output_type not in (None, str)


def own_texts(run: Continuation, earlier: int = 0) -> list[dict[str, str]]:
    """Return the texts of users and of the agent in a run, as chat messages.

    Instructions, calls and results of tools are left out.

    Args:
        run: The run.
        earlier: The number of texts at the beginning that belong to other tasks.

    Returns:
        The messages, each with a role and a text.
    """
    found = [
        {"role": each["role"], "content": text}
        for each in run.root.messages
        if each["role"] in ("user", "assistant") and (text := _text_of(each))
    ]
    return found[earlier:]


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = cast("list[dict[str, Any]]", content)
        return "\n".join(str(each["text"]) for each in parts if "text" in each)
    return content if isinstance(content, str) else ""


def history_of(
    run: Continuation, labels: Mapping[str, str], context_id: str
) -> Iterator[Message]:
    """Yield the messages of a task."""
    for number, each in enumerate(own_texts(run, int(labels.get(Labels.EARLIER, 0)))):
        is_user = each["role"] == "user"
        yield Message(
            message_id=f"{run.run_id}-message-{number}",
            role=Role.ROLE_USER if is_user else Role.ROLE_AGENT,
            parts=[Part(text=encodable(each["content"]))],
            task_id=run.run_id,
            context_id=context_id,
        )


def data_part(value: Any) -> Part:
    """Return a data part. Integers that it cannot hold exactly are texts.

    Args:
        value: A JSON value. Below 32 levels, a value is its JSON text.

    Returns:
        The part.
    """
    return new_data_part(_exact(value, _MAX_DEPTH), media_type="application/json")


def _exact(value: Any, depth: int) -> Any:
    if depth == 0:
        return encodable(json.dumps(value))
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {encodable(k): _exact(v, depth - 1) for k, v in fields.items()}
    if isinstance(value, list | tuple):
        return [_exact(each, depth - 1) for each in cast("list[Any]", value)]
    if isinstance(value, str):
        return encodable(value)
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and abs(value) > MAX_EXACT
    ):
        return str(value)
    return value


def encodable(text: str) -> str:
    """Return a text that UTF-8 can encode: half of a pair becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
