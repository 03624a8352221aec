"""The JSON forms of runs in a listing, and of the receipts of erased runs."""

from __future__ import annotations

from continuations.core.run import RUN_STATUSES
from continuations.core.usage import USAGE_COUNTS
from continuations.present.file_forms import FILES_FIELD
from continuations.present.schema_parts import (
    BOOLEAN,
    COUNT,
    OBJECT,
    RUN_ID_PATTERN,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    Json,
    array,
    described,
    enum,
    object_form,
    ref,
)

LABELS: Json = {"type": "object", "additionalProperties": TEXT}
DESCRIPTION: Json = {
    "title": described(TEXT_OR_NULL, "The subject of the run."),
    "labels": LABELS,
    "requester": described(
        TEXT_OR_NULL, "The person or program that asked for the run."
    ),
}

UNREAD: Json = described(
    array(
        object_form(
            "A message in the inbox.",
            {"number": COUNT, "at": TIME, "by": TEXT_OR_NULL, "message": OBJECT},
        )
    ),
    "Messages that the run has not read, as `show RUN --json` prints them.",
)
USAGE: Json = {
    **dict.fromkeys(USAGE_COUNTS, COUNT),
    "cost": described(
        TEXT_OR_NULL,
        "The exact cost as a decimal number; null if a part of it is not known.",
    ),
    "currency": TEXT_OR_NULL,
}
_LIMIT: Json = {"type": "integer", "minimum": 1}
START_REQUEST: Json = object_form(
    "A run to start.",
    {
        "run_id": {
            "type": "string",
            "pattern": f"^{RUN_ID_PATTERN}$",
            "description": "The run's id. A repeated start of the same id and "
            "input starts one run.",
        },
        "input": {"type": "string", "minLength": 1},
    },
    {
        "files": FILES_FIELD,
        "agent": described(TEXT, "The root agent, if there are several."),
        "work": described(
            BOOLEAN,
            "False: only store the run. A resume or a sweep works on it. By "
            "default true.",
        ),
        "labels": described(LABELS, "Names and values by which the run is found."),
        "title": described(TEXT, "The subject of the run, on one line."),
        "budget": object_form(
            "Limits for the model usage of the whole run.",
            {},
            {
                "requests": described(_LIMIT, "Model requests."),
                "tokens": described(_LIMIT, "Input and output tokens together."),
                "cost": described(
                    TEXT, "A decimal number such as `2.50`; the server needs prices."
                ),
                "currency": described(TEXT, "By default the currency of the prices."),
            },
        ),
        "settings": described(
            OBJECT,
            "Model settings of the run. They win over those of the agents. They are "
            "stored with the run.",
        ),
    },
)


_THREAD: Json = {
    "thread": described(TEXT_OR_NULL, "The key of a thread, null for another run."),
    "messages": described(COUNT, "Messages that a thread has read, 0 for another run."),
}


def index_definitions() -> dict[str, Json]:
    """Return the forms of listed and erased runs."""
    return {
        "run_summary": object_form(
            "A run of the listing.",
            {
                "run_id": TEXT,
                "status": described(
                    enum(RUN_STATUSES | {"unreadable"}),
                    "`unreadable`: the newest version cannot be read.",
                ),
                "agent": described(TEXT, "The root agent."),
                **DESCRIPTION,
                **_THREAD,
                "created_at": TIME_OR_NULL,
                "updated_at": described(
                    TIME_OR_NULL, "When the newest version was written."
                ),
                "version": described(COUNT, "The number of the newest version."),
                "cursor": described(TEXT, "`after` for the runs that follow."),
            },
        ),
        "run_page": object_form(
            "One page of runs.",
            {
                "runs": array(ref("run_summary")),
                "next": described(
                    TEXT_OR_NULL, "`after` of the next page; null on the last page."
                ),
            },
        ),
        "erased_run": object_form(
            "The receipt of an erasure: what was deleted.",
            {
                "run_id": TEXT,
                "erased_at": TIME,
                "versions": COUNT,
                "arrivals": described(COUNT, "Decisions, messages and signals."),
                "files": described(COUNT, "Images, sounds and files."),
                "keys": described(COUNT, "Wait objects, markers, keys of the index."),
            },
        ),
        "prune_result": object_form(
            "The result of `prune`.",
            {
                "run_ids": described(
                    array(TEXT), "The runs that ended long enough ago."
                ),
                "erased": array(ref("erased_run")),
                "failed": {
                    "type": "object",
                    "additionalProperties": TEXT,
                    "description": "The runs that were not erased: by run id, the last "
                    "part of the problem's `type`.",
                },
            },
        ),
    }
