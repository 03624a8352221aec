"""A run as an A2A task: its state, its open waits as parts, its output and history.

Messages of clients are texts for an agent, or decisions of waits:

    {"data": {"wait": "…", "decision": "approve", "shown": "…"}}

Only such a data part decides, with the fields of a decision of the HTTP API. A text
decides nothing, whatever it says.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from a2a.helpers import get_data_parts, new_data_part
from a2a.types import Message, Part, Role, Task, TaskState, TaskStatus
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError

from continuations.attachments import Audio, File, Image
from continuations.errors import InvalidInput
from continuations.serve.http import problems
from continuations.serve.http.decision_bodies import PostedDecision, posted_decision
from continuations.serve.operation_calls import TextsViewer, run_response
from continuations.serve.wait_texts import title_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from continuations import AsyncRunner, Continuation, Identity, Wait


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
    """Return whether a text can be the value of a label of a run."""
    return _LABEL_VALUE.match(text) is not None


def digest_of(*texts: str) -> str:
    """Return a digest of texts, of 32 digits, for an id or a key."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:32]


class Labels:
    """The labels of a run that is a task."""

    AGENT = "a2a"
    CONTEXT = "a2a-context"
    # The number of messages that the run took over from its context.
    EARLIER = "a2a-earlier"


async def read_task(
    runner: AsyncRunner[Any], run: Continuation, *, can_read: bool
) -> Task:
    """Return the task that a run is, with its texts if the client may read them."""
    viewer = TextsViewer(runner, shown="texts" if can_read else "states")
    form = await run_response(viewer, run)
    waits = _asked_waits(run, form)
    state = _state_of(form, waits)
    context_id = form["labels"].get(Labels.CONTEXT, "")
    ids: Any = {"task_id": run.run_id, "context_id": context_id}
    status = TaskStatus(state=state)
    status.timestamp.FromDatetime(await _time_of(runner, run))
    parts = _status_parts(form, state, waits)
    if parts:
        message_id = f"{run.run_id}-{run.version}"
        said = Message(message_id=message_id, role=Role.ROLE_AGENT, parts=parts, **ids)
        status.message.CopyFrom(said)
    task = Task(id=run.run_id, context_id=context_id, status=status)
    if state == TaskState.TASK_STATE_COMPLETED:
        output = _output_part(runner, form, can_read=can_read)
        task.artifacts.add(artifact_id="output", name="output", parts=[output])
    if can_read:
        earlier = form["labels"].get(Labels.EARLIER, "")
        # Runs of other doors may have any labels.
        texts = own_texts(run)[int(earlier) if earlier.isdecimal() else 0 :]
        for number, each in enumerate(texts):
            is_user = each["role"] == "user"
            task.history.add(
                message_id=f"{run.run_id}-message-{number}",
                role=Role.ROLE_USER if is_user else Role.ROLE_AGENT,
                parts=[Part(text=encodable(each["content"]))],
                **ids,
            )
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
    title = title_of(wait)
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


def own_texts(run: Continuation) -> list[dict[str, str]]:
    """Return the texts of users and of the agent in a run, as chat messages."""
    return [
        {"role": each["role"], "content": text}
        for each in run.root.messages
        if each["role"] in ("user", "assistant") and (text := _text_of(each))
    ]


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = cast("list[dict[str, Any]]", content)
        return "\n".join(str(each["text"]) for each in parts if "text" in each)
    return content if isinstance(content, str) else ""


def data_part(value: Any) -> Part:
    """Return the data part of a JSON value.

    Integers that it cannot hold exactly are texts, and so are values below 32 levels.
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


AgentText: TypeAlias = "str | list[str | Image | Audio | File]"
"""The content of a message for an agent: a text, or texts and attachments."""

_ADVICE = (
    "Send a message with data parts only, one for each wait, such as "
    '{"wait": "...", "decision": "approve"}.'
)


def agent_text(message: Message) -> AgentText:
    """Return what the agent reads of a message; of a data part, its JSON text.

    Raises:
        ContentTypeNotSupportedError: A part has a URL, which is never fetched, or a
            file has no media type.
    """
    parts = [_content(part) for part in message.parts]
    texts = [each for each in parts if isinstance(each, str)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def workflow_arguments(message: Message) -> dict[str, Any]:
    """Return the arguments of a workflow: the only part, an object.

    Raises:
        InvalidParamsError: The message has other parts.
    """
    values = [_value(part) for part in message.parts if part.HasField("data")]
    arguments = (
        _as_object(values[0]) if len(values) == len(message.parts) == 1 else None
    )
    if arguments is None:
        raise InvalidParamsError(
            "The message has no arguments for this workflow. Send one data part, an "
            "object with the arguments by name."
        )
    return arguments


def decisions_in(
    message: Message, run_id: str, by: str | Identity
) -> dict[str, PostedDecision]:
    """Return the decisions in the data parts of a message, by wait id.

    Args:
        message: The message. Without a data part, it has no decisions.
        run_id: The run whose waits the message may decide.
        by: The sender.

    Raises:
        InvalidParamsError: A data part is not a decision of a wait of the run, or the
            message has other parts beside. Nothing may be recorded.
    """
    values = [_value(part) for part in message.parts if part.HasField("data")]
    if not values:
        return {}
    if len(values) != len(message.parts):
        raise _refused("it has other parts beside its decisions")
    found: dict[str, PostedDecision] = {}
    for number, value in enumerate(values, 1):
        fields = {**(_as_object(value) or {})}
        wait_id = fields.pop("wait", None)
        if not isinstance(wait_id, str) or not wait_id.endswith(f"@{run_id}"):
            raise _refused(f"data part {number} has no wait of this task")
        if wait_id in found:
            raise _refused(f"data part {number} has the wait of another part")
        try:
            found[wait_id] = posted_decision(fields, by)
        except problems.RequestRefused as error:
            raise _refused(f"data part {number}: {error.problem.detail}") from None
    return found


def _refused(why: str) -> InvalidParamsError:
    return InvalidParamsError(
        f"The message decided nothing: {why.rstrip('.')}. {_ADVICE}"
    )


def _content(part: Part) -> str | Image | Audio | File:
    if part.HasField("text"):
        return part.text
    if part.HasField("data"):
        return json.dumps(_value(part), ensure_ascii=False)
    if part.HasField("raw"):
        return _attachment(part)
    raise ContentTypeNotSupportedError(
        "A part has a url or nothing. URLs are not fetched: send text, data or raw."
    )


def _attachment(part: Part) -> Image | Audio | File:
    media_type, name = part.media_type, part.filename or None
    if media_type.startswith("image/"):
        return Image(part.raw, media_type, name)
    if media_type.startswith("audio/"):
        return Audio(part.raw, media_type, name)
    if not media_type:
        raise ContentTypeNotSupportedError(
            "A raw part has no mediaType. Send one that the card of the agent names."
        )
    return File(part.raw, media_type, name or "file")


def _value(part: Part) -> Any:
    """Return the JSON value of a data part; raises `InvalidParamsError`."""
    try:
        return _narrowed(get_data_parts([part])[0])
    except (ValueError, RecursionError) as error:
        raise InvalidParamsError(
            f"A data part is not a JSON value that can be read: {error}. Send numbers "
            "up to 2^53, and larger ones as texts."
        ) from None


def _narrowed(value: Any) -> Any:
    """Return a value whose whole numbers are integers: protobuf makes them floats."""
    fields = _as_object(value)
    if fields is not None:
        return {name: _narrowed(each) for name, each in fields.items()}
    if isinstance(value, list | tuple):
        return [_narrowed(each) for each in cast("list[Any]", value)]
    if isinstance(value, float):
        return _whole(value)
    return value


def _as_object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _whole(value: float) -> float | int:
    if not value.is_integer():
        return value
    if abs(value) >= MAX_EXACT:
        # Its last digits may be lost: such a number must not become a decision.
        raise ValueError(f"the number {value:.0f} is not exact")
    return int(value)
