"""The JSON forms of threads, of messages and of the replies to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.run import WHEN_BUSY
from continuations.present.file_forms import FILES_FIELD
from continuations.present.schema_parts import (
    BOOLEAN,
    COUNT,
    OBJECT,
    REASON,
    STATE,
    TEXT,
    TEXT_OR_NULL,
    array,
    described,
    object_form,
    ref,
)

if TYPE_CHECKING:
    from continuations.present.schema_parts import Json

_REPLY_STATUSES = ["replied", "failed", "suspended", "queued"]


def thread_definitions(run: Json, failure: Json) -> dict[str, Json]:
    """Return the forms of threads.

    Args:
        run: The fields of a run.
        failure: The form of a failure, or null.
    """
    names = ("agent", "thread", "run_id", "status", "version", "title", "labels")
    return {
        "thread": object_form(
            "A thread with its conversation.",
            {
                **{name: run[name] for name in (*names, "usage", "waits")},
                "decided": described(
                    array(TEXT),
                    "The ids of decided waits. The next resume applies them.",
                ),
                "answered": described(
                    COUNT, "Number of the last message with a reply."
                ),
                "messages": described(array(OBJECT), "Chat completions messages."),
            },
            {"state": STATE},
        ),
        "thread_reply": object_form(
            "The reply to one message of a thread.",
            {
                "status": described(
                    {"enum": _REPLY_STATUSES},
                    "`suspended`: the reply waits, for example for an approval. "
                    "`queued`: nobody has begun it, or another process works on it.",
                ),
                "run_id": described(TEXT, "The run of the thread."),
                "number": described(COUNT, "The number of the message, from 1."),
                "output": described(TEXT_OR_NULL, "The text of the reply."),
                "failure": failure,
                "waits": described(
                    array(ref("wait")), "The waits of this reply without a decision."
                ),
            },
            {"woken": described(BOOLEAN, "HTTP: whether a worker was told at once.")},
        ),
        **_request_definitions(),
        "changed_thread": object_form(
            "A thread after a request.", {"run_id": TEXT, "status": run["status"]}
        ),
    }


_MESSAGE_ID: Json = {
    "type": "string",
    "minLength": 1,
    "description": "The client's id of the message. A repeated request posts nothing, "
    "and has the same number.",
}


def _request_definitions() -> dict[str, Json]:
    text: Json = {"type": "string", "minLength": 1}
    return {
        "run_message_request": object_form(
            "A message to a run.",
            {"text": text},
            {"id": _MESSAGE_ID, "files": FILES_FIELD},
        ),
        "message_request": object_form(
            "A message to a thread.",
            {"text": text},
            {
                "id": _MESSAGE_ID,
                "files": FILES_FIELD,
                "when_busy": {
                    "enum": sorted(WHEN_BUSY),
                    "description": "The effect while an earlier message is answered. "
                    "By default `queue`.",
                },
                "wait": described(
                    BOOLEAN, "False: only post the message. By default true."
                ),
            },
        ),
        "sent_message": object_form(
            "A message was sent to a run.",
            {"run_id": TEXT, "number": described(COUNT, "Its number, from 1.")},
            {"woken": described(BOOLEAN, "HTTP: whether a worker was told at once.")},
        ),
        "stop_request": object_form("A turn to stop.", {}, {"reason": REASON}),
        "close_request": object_form("A thread to close.", {}, {}),
    }
