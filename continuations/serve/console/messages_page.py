"""The transcripts of a run: the messages of one agent, their files, other agents."""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from continuations.core import attachment_parts, jsontext
from continuations.core.changes.tool_messages import agent_after
from continuations.core.rows.calls import Nested
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import ROOT_FRAME_ID, RunState, shown_arguments
from continuations.serve.console.page import Page, PageRoute, RunAddresses
from continuations.serve.console.run_page import number_of
from continuations.serve.http import problems
from continuations.serve.http.file_routes import file_response
from continuations.serve.pages.run_log import (
    arguments_text,
    is_workflow,
    message_text,
    result_text,
)
from continuations.serve.pages.run_view import run_title
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.messages import Message
    from continuations.core.rows.frames import FrameRow
    from continuations.serve.http.request_response import Response
    from continuations.serve.rights import Act


async def show(page: Page) -> Response:
    """Show the messages of one agent of a run."""
    run_id, query = page.run_id, page.query
    version = number_of(query.get("version"), "version")
    run = await page.runner.look(run_id, version=version)
    frame = query.get("frame", ROOT_FRAME_ID)
    if frame not in run.run_state.frames:
        raise problems.malformed(
            "This version of the run has no open agent with this id. Its messages are "
            "in an older version."
        )
    may_read = await page.may("read", run_id)
    state = await page.shown(run.run_state)
    may_send = (
        version is None
        and run.status not in ENDED_STATUSES
        and not is_workflow(state)
        and await page.may("message", run_id)
    )
    here = page.addresses(version)
    shell = replace(page.shell, scripts=(*page.shell.scripts, CHAT_SCRIPT))
    return page.render(
        "messages.html",
        shell=shell,
        here=here,
        title=run_title(state),
        version=run.version,
        transcript=transcript_view(
            state, frame, here, before=number_of(query.get("before"), "before")
        ),
        may_read=may_read,
        may_send=may_send,
        message_id=secrets.token_hex(8),
    )


async def download(page: Page) -> Response:
    """Return the bytes of an attachment, for a download."""
    return await _file(page, as_image=False)


async def show_image(page: Page) -> Response:
    """Return the bytes of an image, for a page that shows it."""
    return await _file(page, as_image=True)


async def _file(page: Page, *, as_image: bool) -> Response:
    digest = page.params["digest"]
    return await file_response(
        page.runner, page.run_id, digest, page.query, as_image=as_image
    )


# A file is a part of the transcript.
_READING: tuple[Act, ...] = ("view", "read")
ROUTES = (
    PageRoute("/runs/{run}/messages", show, rights=("view",)),
    PageRoute("/runs/{run}/files/{digest}", download, rights=_READING),
    PageRoute("/runs/{run}/images/{digest}", show_image, rights=_READING),
)


CHAT_SCRIPT = "chat.js"
MESSAGES_PER_PAGE = 50
# A page has about so many calls at most.
MAX_CALLS = 1000
_MAX_CALLERS = 30
_ARGUMENT_CHARS = 160
_ROLES = {
    "system": "Instructions",
    "developer": "Instructions",
    "user": "Input",
    "tool": "Result",
}
# The history of a workflow has notes in place of instructions: a timer is due, or the
# code asked for a patch.
_WORKFLOW_ROLES = {**_ROLES, "developer": "Note", "user": "Arguments"}


def transcript_view(
    state: RunState, frame_id: str, here: RunAddresses, *, before: int | None = None
) -> dict[str, Any]:
    """Return the newest messages of an open agent, or those before a number.

    `total` counts all messages, and `before` is the number before which the page of
    older messages ends, or 0. `above` has the last agents above this one, the root
    first, and `left_out` says how many more there are. `below` has the agents that it
    called and that are open.
    """
    messages = state.logs[frame_id].messages
    end = len(messages) if before is None else min(max(before - 1, 0), len(messages))
    begin = _first_of_page(messages, end)
    names = _tool_names(messages)
    shown = _shown_arguments(state, frame_id, here)
    row = state.frames[frame_id]
    by_message = _speakers(messages[:end], row)
    above = _above(state, frame_id)
    return {
        "frame": frame_id,
        "agent": row.agent,
        "messages": [
            _message(
                number,
                messages[number - 1],
                replace(row, agent=by_message[number - 1]),
                here,
                names,
                shown,
            )
            for number in range(begin + 1, end + 1)
        ],
        "total": len(messages),
        "before": begin + 1 if begin else 0,
        "above": above[-_MAX_CALLERS:],
        "left_out": max(len(above) - _MAX_CALLERS, 0),
        "below": _below(state, frame_id),
    }


def _first_of_page(messages: Sequence[Message], end: int) -> int:
    """Return where a page begins that ends at a place; one has at most some calls."""
    begin, calls = end, 0
    while begin and end - begin < MESSAGES_PER_PAGE and calls < MAX_CALLS:
        begin -= 1
        if messages[begin].role == "assistant":
            calls += len(messages[begin].tool_call_ids)
    return begin


def _speakers(messages: Sequence[Message], frame: FrameRow) -> list[str]:
    """Return the agent that had the conversation at each message."""
    agent, speakers = frame.began_as or frame.agent, list[str]()
    for message in messages:
        speakers.append(agent)
        agent = agent_after(message) or agent
    return speakers


def _message(
    number: int,
    message: Message,
    frame: FrameRow,
    here: RunAddresses,
    names: dict[str, str],
    shown: dict[str, tuple[str, str]],
) -> dict[str, Any]:
    """Return one message: its speaker and its texts in words.

    An open call has its arguments in words. A transcript does not say which arguments
    of other calls are secret.
    """
    role = message.role
    roles = _WORKFLOW_ROLES if frame.step else _ROLES
    speaker = frame.agent if role == "assistant" else roles.get(role, role)
    if role == "tool":
        speaker = f"Result of {names.get(message.answered_call_id or '', 'a tool')}"
    content = message.data.get("content")
    text = message_text(without_attachments(role, content))
    if frame.step:
        text = _workflow_text(message, text)
    calls = message.tool_calls if role == "assistant" else ()
    return {
        "number": number,
        "role": role,
        "speaker": speaker,
        "text": text,
        "files": attachment_views(role, content, here),
        "calls": [_call(each.tool, shown.get(each.tool_call_id)) for each in calls],
    }


def _workflow_text(message: Message, text: str) -> str:
    """Return the text of an entry in the history of a workflow."""
    facts = message.metadata or {}
    match message.role:
        case "user":
            return arguments_text(text, sys.maxsize)
        case "tool" if facts.get("json") is True:
            return result_text(text)
        case "developer" if "patched" in facts:
            return f"The patch {facts['patched']} is used from here on."
        case "developer":
            return "The timers that were due have ended."
        case _:
            return text


def _tool_names(messages: tuple[Message, ...]) -> dict[str, str]:
    """Return the names of the called tools by the provider's ids."""
    return {
        each.tool_call_id: each.tool.removeprefix(".")
        for message in messages
        if message.role == "assistant"
        for each in message.tool_calls
    }


def _shown_arguments(
    state: RunState, frame_id: str, here: RunAddresses
) -> dict[str, tuple[str, str]]:
    """Return the arguments of the open calls, and the addresses of the whole calls.

    Secret values are masked.
    """
    rows = (state.calls[each] for each in state.frames[frame_id].open_call_ids)
    return {
        row.tool_call_id: (call_words(shown_arguments(row)), here.call(row.id))
        for row in rows
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCall:
    """A call of an agent, in one small line.

    Attributes:
        tool: Name of the tool or sub-agent.
        arguments: The beginning of its arguments, in words.
        address: The page with the whole call, or "".
        state: Its end in words, or "".
        is_bad: Whether it did not do what the agent wanted.
        is_agent: Whether it is a sub-agent.
    """

    tool: str
    arguments: str = ""
    address: str = ""
    state: str = ""
    is_bad: bool = False
    is_agent: bool = False


def call_words(arguments_json: str | None) -> str:
    """Return the beginning of the arguments of a call, on one line."""
    return arguments_text(arguments_json or "", _ARGUMENT_CHARS).replace("\n", " ")


def _call(tool: str, shown: tuple[str, str] | None) -> ChatCall:
    arguments, address = shown or ("", "")
    name = tool.removeprefix(".")
    return ChatCall(tool=name, arguments=arguments, address=address)


def _above(state: RunState, frame_id: str) -> list[FrameRow]:
    found: list[FrameRow] = []
    frame = state.frames[frame_id]
    while frame.parent_call_id is not None:
        frame = state.frames[state.calls[frame.parent_call_id].frame_id]
        found.append(frame)
    return found[::-1]


def _below(state: RunState, frame_id: str) -> tuple[FrameRow, ...]:
    states = (state.calls[each].state for each in state.frames[frame_id].open_call_ids)
    return tuple(
        state.frames[each.frame_id] for each in states if isinstance(each, Nested)
    )


# Attachments ----------------------------------------------------------------------

_UNITS = ("bytes", "kB", "MB")
_STEP = 1000
_NAMES = {"image": "Image", "audio": "Sound", "file": "File"}


def attachment_views(
    role: object, content: object, here: RunAddresses
) -> list[dict[str, str]]:
    """Return the attachments of a message, with their names, sizes and addresses.

    Args:
        role: The role of the message. A model's message has no attachments.
        content: Its content.
        here: The addresses of the run.
    """
    parts = jsontext.as_array(content) or ()
    found = [_attachment(role, part) for part in parts]
    return [_view(each, here) for each in found if each is not None]


def without_attachments(role: object, content: object) -> object:
    """Return the content of a message without its attachments."""
    parts = jsontext.as_array(content)
    if parts is None:
        return content
    return [part for part in parts if _attachment(role, part) is None]


def _attachment(role: object, part: object) -> attachment_parts.Attachment | None:
    if role not in ("user", "tool") or not attachment_parts.is_reference(part):
        return None
    try:
        return attachment_parts.read_part(part)
    except attachment_parts.InvalidReference:
        return None


def _view(
    attachment: attachment_parts.Attachment, here: RunAddresses
) -> dict[str, str]:
    named = {} if attachment.name is None else {"name": attachment.name}
    query = urlencode({**named, "media_type": attachment.media_type})
    image = ""
    if attachment.media_type in attachment_parts.RASTER_TYPES:
        image = f"{here.below(f'images/{attachment.digest}')}?{query}"
    return {
        "name": attachment.name or _NAMES[attachment.kind],
        "media_type": attachment.media_type,
        "size": size_text(attachment.size),
        "address": f"{here.below(f'files/{attachment.digest}')}?{query}",
        "image": image,
    }


def size_text(size: int) -> str:
    """Return a number of bytes in words, such as `2.4 MB`."""
    value, unit = float(size), _UNITS[0]
    for larger in _UNITS[1:]:
        if value < _STEP:
            break
        value, unit = value / _STEP, larger
    return f"{value:.1f} {unit}" if unit != _UNITS[0] else f"{size} {unit}"
