"""The labels, the title, the requester and the model settings of a new run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from continuations.core.changes.tool_messages import frozen_log
from continuations.core.identity import MAX_NAME_BYTES, Identity, checked_person
from continuations.core.model_protocol import check_settings
from continuations.core.rows.run import is_label
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.trace_context import TraceContext, check_trace_context
from continuations.errors import InvalidInput
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Mapping


MAX_LABELS = 16
MAX_TITLE_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDescription:
    """The facts about a run that its first version stores."""

    labels: tuple[tuple[str, str], ...]
    title: str | None
    requester: str | None
    settings_json: str | None = None
    is_frozen: bool = False
    trace_context: TraceContext = ()

    @classmethod
    def from_arguments(
        cls,
        *,
        labels: object = None,
        title: object = None,
        by: object = None,
        settings: object = None,
        instructions: object = "present",
        trace_context: object = None,
    ) -> RunDescription:
        """Check the arguments of a start; raises `InvalidInput`."""
        return cls(
            labels=_check_labels(labels),
            title=_check_line("title", title, MAX_TITLE_CHARS),
            requester=check_requester(by),
            settings_json=check_settings(settings),
            is_frozen=_check_instructions(instructions) == "frozen",
            trace_context=check_trace_context(trace_context),
        )

    def describe(self, state: RunState) -> RunState:
        """Return the first state of a run, described."""
        run = replace(
            state.run,
            labels=self.labels,
            title=self.title,
            requester=self.requester,
            settings_json=self.settings_json,
            trace_context=self.trace_context,
        )
        state = replace(state, run=run)
        if not self.is_frozen:
            return state
        log = frozen_log(state.logs[ROOT_FRAME_ID])
        return replace(state, logs={ROOT_FRAME_ID: log})


def _check_instructions(instructions: object) -> str:
    if instructions in ("present", "frozen"):
        return str(instructions)
    raise InvalidInput(
        f'instructions must be "present" or "frozen", got {instructions!r:.60}. Pass '
        "the text of the instructions to Agent(instructions=...)."
    )


def check_requester(by: object) -> str | None:
    """Return the name of a requester, or `None`; raises `InvalidInput`."""
    name = by.name if isinstance(by, Identity) else by
    return checked_person("by", _check_line("by", name, MAX_NAME_BYTES))


def _check_labels(labels: object) -> tuple[tuple[str, str], ...]:
    if labels is None:
        return ()
    if not isinstance(labels, dict):
        raise InvalidInput(
            f"labels must be a dict such as {{'team': 'finance'}}, got {labels!r:.60}."
        )
    pairs = cast("Mapping[object, object]", labels).items()
    for name, value in pairs:
        _check_label(name, value)
    if len(pairs) > MAX_LABELS:
        msg = f"labels has {len(pairs)} labels. Pass at most {MAX_LABELS}."
        raise InvalidInput(msg)
    return tuple(sorted(cast("Mapping[str, str]", labels).items()))


def _check_label(name: object, value: object) -> None:
    if is_label(name, value):
        return
    raise InvalidInput(
        f"label {str(name)[:70]!r} with value {str(value)[:70]!r} is not valid: a name "
        "and a value have 1 to 63 characters of A-Z a-z 0-9 . _ -, begin with a letter "
        "or digit, and a value may contain @. Pass such texts, or use title=."
    )


def _check_line(name: str, value: object, limit: int) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value.isprintable() and 0 < len(value) <= limit:
        return value
    got = f"{len(value)} characters" if isinstance(value, str) else f"{value!r:.60}"
    raise InvalidInput(
        f"{name} must be one line of 1 to {limit} printable characters or "
        f"None, got {got}."
    )
