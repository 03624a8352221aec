"""The JSON of values: it follows from the fields of their classes.

`to_json` makes the JSON of any value. A class whose JSON differs from its fields has a
row in `JSON_FORMS`. `continuations.present` uses the same function for HTTP, AWS
Lambda and the command line, and makes `docs/schemas/continuations.schema.json` from the
same rows, types and docstrings. A process that decides imports this module, but not
the frames and calls of a run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.core import jsontext
from continuations.core.rows.waits import withheld
from continuations.core.usage import USAGE_COUNTS, Usage
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.reading.audit import AuditLine
    from continuations.core.rows.state import RunState

    # The name, how to read the value, whether it is JSON text, whether it is optional.
    _Step: TypeAlias = tuple[str, Callable[[Any], Any], bool, bool]

_PLAIN = frozenset({type(None), bool, int, float, str})


def utc_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 text in UTC: `2026-11-21T14:00:00.000Z`.

    Stored moments have milliseconds, so every moment is shown with milliseconds.
    """
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonForm:
    """The differences between the JSON of a value and the fields of its class.

    Without a form, the JSON has all fields in their order. A field such as
    `arguments_json` holds JSON text: it is read, and its name is `arguments`.

    Attributes:
        names: Names in their order, separated by spaces; empty: all fields. A name may
            be that of a property. `thread=thread_key`: the field has another name.
        optional: Further names, which are left out if the value is `None` or empty.
        hidden: Fields without a place in the JSON, if `names` is empty.
        texts: Names whose values are JSON text although no suffix says it.
        values: For a name, a function that returns its value from the whole.
        shown: Makes of the value the one that people may read.
    """

    names: str = ""
    optional: str = ""
    hidden: str = ""
    texts: str = ""
    values: Mapping[str, Callable[[Any], Any]] = dataclasses.field(
        default_factory=dict[str, "Callable[[Any], Any]"]
    )
    shown: Callable[[Any], Any] | None = None
    _steps: dict[type, tuple[_Step, ...]] = dataclasses.field(
        default_factory=dict[type, "tuple[_Step, ...]"]
    )

    def sources(self, cls: type) -> dict[str, str]:
        """Return the names of the JSON of a class, and the field of each of them.

        The optional ones are the last.
        """
        names = self.names.split()
        if not names:
            hidden = self.hidden.split()
            fields = [each for each in _field_names(cls) if each not in hidden]
            names = [each.removesuffix("_json") for each in fields]
        found: dict[str, str] = {}
        for each in (*names, *self.optional.split()):
            name, _, source = each.partition("=")
            stored = f"{name}_json"
            found[name] = source or (stored if hasattr(cls, stored) else name)
        return found

    def of(self, value: Any) -> dict[str, Any]:
        """Return the JSON of a value."""
        if self.shown is not None:
            value = self.shown(value)
        cls: Any = value.__class__
        steps = self._steps.get(cls)
        if steps is None:
            steps = self._steps[cls] = self._steps_of(cls)
        made: dict[str, Any] = {}
        for name, read, is_text, is_optional in steps:
            found = read(value)
            if is_optional and found in (None, (), ""):
                continue
            if is_text and found is not None:
                made[name] = jsontext.parse(str(found))
            else:
                made[name] = to_json(found)
        return made

    def _steps_of(self, cls: type) -> tuple[_Step, ...]:
        texts, optional = self.texts.split(), self.optional.split()
        steps: list[_Step] = []
        for name, source in self.sources(cls).items():
            read: Callable[[Any], Any] = attrgetter(source)
            is_text = source.endswith("_json") or name in texts
            if name in self.values:
                read, is_text = self.values[name], False
            steps.append((name, read, is_text, name in optional))
        return tuple(steps)


def _field_names(cls: Any) -> tuple[str, ...]:
    names: tuple[str, ...] | None = getattr(cls, "_fields", None)  # of a NamedTuple
    if names is not None:
        return names
    return tuple(each.name for each in dataclasses.fields(cls))


def to_json(value: Any) -> Any:
    """Return a value of the project, or a collection of them, as JSON values."""
    cls: Any = value.__class__
    if cls in _PLAIN:
        return value
    if issubclass(cls, datetime):
        return utc_text(value)
    if issubclass(cls, Mapping):
        return {name: to_json(each) for name, each in value.items()}
    if cls in (tuple, list):
        return [to_json(each) for each in value]
    return JSON_FORMS.get(cls.__name__, _DEFAULT).of(value)


def _cost_text(usage: Usage) -> str | None:
    """Return the exact cost as a decimal number, without an exponent."""
    cost = usage.cost if usage.currency else None
    return None if cost is None else f"{cost:f}"


def _identity(line: AuditLine) -> dict[str, Any] | None:
    """Return who acted; `None` if no door established that."""
    if not line.groups and line.authentication is None:
        return None
    return {
        "name": line.by,
        "groups": list(line.groups),
        "authentication": line.authentication,
    }


def wait_state(*, is_expired: bool) -> str:
    """Return the state of a wait that is not decided."""
    return "expired" if is_expired else "open"


_DEFAULT = JsonForm()
# By the name of the class, so that the table loads no class.
JSON_FORMS: dict[str, JsonForm] = {
    "Usage": JsonForm(
        names=" ".join((*USAGE_COUNTS, "cost", "currency")),
        values={
            "cost": _cost_text,
            "currency": lambda usage: usage.currency or None,
        },
    ),
    "RunRow": JsonForm(
        names="run_id=id agent title labels requester thread=thread_key forked_from "
        "status created_at claimed_until output failure usage",
        values={
            "labels": lambda run: dict(run.labels),
            "claimed_until": lambda run: run.claim and run.claim.until,
        },
    ),
    # Several of its names are properties.
    "Wait": JsonForm(
        names="id run_id call_id frame_id kind path tool title reversible requester "
        "arguments readings secrets evidence agent_words schema digest created_at "
        "deadline valid_for policy denial_stops expiry_stops note approve_after "
        "question answer_schema event event_key stage on_deadline form_schema editable "
        "approvers not_requester votes_needed votes",
        values={
            "call_id": lambda wait: wait.call_id or None,
            "frame_id": lambda wait: wait.frame_id or None,
            "not_requester": lambda wait: (
                wait.quorum is not None and wait.quorum.not_requester
            ),
        },
        shown=withheld,
    ),
    "Decision": JsonForm(
        names="id wait_id kind at by reason digest",
        optional="groups voters shown arguments value form grant",
        texts="arguments value form",
        values={
            "grant": lambda decision: (
                None if decision.grant_json is None else decision.id
            )
        },
    ),
    "Vote": JsonForm(
        names="id wait_id kind at by reason digest votes_needed still_needed",
        optional="groups shown arguments value form",
        texts="arguments value form",
    ),
    "WaitSummary": JsonForm(
        names="id run_id kind created_at state",
        values={"state": lambda summary: wait_state(is_expired=summary.expired)},
    ),
    "AuditLine": JsonForm(
        names="at run wait kind verdict by identity door digest shown reason rule",
        values={"identity": _identity},
    ),
    "KeptGrant": JsonForm(hidden="contract"),
    "RewindPlan": JsonForm(
        names="run_id version newest digest waits decided calls messages refusal"
    ),
}


def run_json(state: RunState, version: int) -> dict[str, Any]:
    """Return the row of a run as JSON values."""
    return {**to_json(state.run), "version": version}
