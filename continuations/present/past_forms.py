"""The JSON forms of the past of a run: its versions, and their differences."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.visible_text import escape_invisible
from continuations.core.withheld_texts import (
    shown_difference,
    shown_rewind,
    shown_version,
)
from continuations.present.event_forms import event_json
from continuations.present.json_forms import decision_json, wait_json
from continuations.wire.report import usage_json, utc_text

if TYPE_CHECKING:
    from continuations.core.messages import Detail
    from continuations.core.run_past import (
        RewindPlan,
        Rewound,
        RunDifference,
        RunVersion,
        WaitDifference,
    )


def version_json(version: RunVersion, detail: Detail = "states") -> dict[str, Any]:
    """Return a version as JSON values (`run_version`)."""
    version = shown_version(version, detail)
    return {
        "number": version.number,
        "at": utc_text(version.at),
        "status": version.status,
        "worker": version.worker,
        "words": [escape_invisible(each) for each in version.words],
        "events": [event_json(each, "transcript") for each in version.events],
        "waits": [wait_json(each) for each in version.waits],
    }


def difference_json(found: RunDifference, detail: Detail = "states") -> dict[str, Any]:
    """Return the differences of two versions as JSON values (`run_difference`)."""
    found = shown_difference(found, detail)
    return {
        "run_id": found.run_id,
        "before": found.before,
        "after": found.after,
        "status_before": found.status_before,
        "status_after": found.status_after,
        "usage_before": usage_json(found.usage_before),
        "usage_after": usage_json(found.usage_after),
        "frames": [_fields(each) for each in found.frames],
        "messages": [_fields(each) for each in found.messages],
        "calls": [_fields(each) for each in found.calls],
        "waits": [_wait(each) for each in found.waits],
        "states": [_fields(each) for each in found.states],
    }


def rewound_json(rewound: Rewound, detail: Detail = "states") -> dict[str, Any]:
    """Return the result of a rewind as JSON values (`rewound`)."""
    rewound = shown_rewind(rewound, detail)
    return {
        "run_id": rewound.run_id,
        "rewound_to": rewound.rewound_to,
        "version": rewound.version,
        "calls": [_fields(each) for each in rewound.calls],
        "messages": [_fields(each) for each in rewound.messages],
    }


def rewind_plan_json(plan: RewindPlan, detail: Detail = "states") -> dict[str, Any]:
    """Return the consequences of a rewind as JSON values (`rewind_plan`)."""
    plan = shown_rewind(plan, detail)
    return {
        "run_id": plan.run_id,
        "version": plan.version,
        "newest": plan.newest,
        "digest": plan.digest,
        "waits": [wait_json(each) for each in plan.waits],
        "decided": list(plan.decided),
        "calls": [_fields(each) for each in plan.calls],
        "messages": [_fields(each) for each in plan.messages],
        "refusal": plan.refusal,
    }


def _fields(found: Any) -> dict[str, Any]:
    """Return the fields of a difference; JSON texts are read."""
    form: dict[str, Any] = {}
    for field in dataclasses.fields(found):
        value = getattr(found, field.name)
        name = field.name.removesuffix("_json")
        if name != field.name:
            form[name] = None if value is None else jsontext.parse(value)
        else:
            form[name] = list(value) if field.name == "path" else value
    return form


def _wait(found: WaitDifference) -> dict[str, Any]:
    decision = found.decision
    return {
        "change": found.change,
        "wait": wait_json(found.wait),
        "decision": None if decision is None else decision_json(decision),
    }
