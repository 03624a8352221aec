"""The parts of a wait in the order in which people read them, for every door.

1. Whether the effect can be undone, below the title of the wait.
2. Every argument, with its reading beside the value.
3. Evidence: the results of earlier calls, and the agent's words.

The facts of `wait_text` stand around them: the requester above the arguments; the
deadline, its consequence and the origin below.

Texts of models and tools are returned as they are: escape them where they are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.withheld_waits import withheld
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.evidence import Finding
    from continuations.core.waits import Wait
    from continuations.wire.continuation import Continuation

_MISSING = object()
MASK_NOTE = "secret, not shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentPart:
    """One argument of the call.

    Attributes:
        name: Its name.
        description: Its description in the schema, or `None`.
        value: The value as JSON text, whole. A secret value is masked.
        readings: Texts by which people understand the value, by their places.
        is_secret: Whether the value, or a part of it, is masked.
        is_default: Whether the value is the default of the schema.
    """

    name: str
    description: str | None
    value: str
    readings: Mapping[str, str]
    is_secret: bool
    is_default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitParts:
    """Everything that people read below the title of a wait, in their order.

    Attributes:
        effect: Whether the effect can be undone, or `None`.
        arguments: All arguments.
        evidence: Results of earlier calls.
        agent_words: The text of the agent's turn that made the call.
    """

    effect: str | None
    arguments: tuple[ArgumentPart, ...]
    evidence: tuple[Finding, ...]
    agent_words: str | None


def wait_parts(wait: Wait) -> WaitParts:
    """Return the parts of a wait."""
    wait = withheld(wait)
    return WaitParts(
        effect=effect_text(wait),
        arguments=_arguments(wait),
        evidence=wait.evidence,
        agent_words=wait.agent_words,
    )


def effect_text(wait: Wait) -> str | None:
    """Return whether the effect can be undone, in words; `None`: the tool is silent."""
    if wait.reversible is None:
        return None
    can = "can" if wait.reversible else "cannot"
    return f"The effect {can} be undone."


def finding_text(finding: Finding) -> str:
    """Return the text of a result, with its length if it is cut."""
    if not finding.is_cut:
        return finding.text
    return f"{finding.text}… ({finding.length:,} characters)"


def finding_source(finding: Finding) -> str:
    """Return the name of the tool or agent that returned a result."""
    return f"{finding.source} (an agent)" if finding.by_agent else finding.source


def _arguments(wait: Wait) -> tuple[ArgumentPart, ...]:
    properties = jsontext.as_object(wait.schema.get("properties")) or {}
    readings = wait.readings
    secrets = {path.partition("/")[0] for path in wait.secrets}
    return tuple(
        _argument(
            name,
            value,
            jsontext.as_object(properties.get(name)) or {},
            _readings_of(name, readings),
            is_secret=name in secrets,
        )
        for name, value in wait.arguments.items()
    )


def _argument(
    name: str,
    value: Any,
    property_: Mapping[str, Any],
    readings: Mapping[str, str],
    *,
    is_secret: bool,
) -> ArgumentPart:
    description = property_.get("description")
    default = property_.get("default", _MISSING)
    return ArgumentPart(
        name=name,
        description=description if isinstance(description, str) else None,
        value=jsontext.dump(value),
        readings=readings,
        is_secret=is_secret,
        is_default=default == value and type(default) is type(value),
    )


def _readings_of(name: str, readings: Mapping[str, str]) -> dict[str, str]:
    """Return the readings of an argument and of the places in it."""
    return {
        place: text
        for place, text in readings.items()
        if place == name or place.startswith((f"{name}.", f"{name}["))
    }


def agent_state(run: Continuation, wait: Wait) -> str:
    """Return the stored state of the agent that waits, as JSON; empty without one."""
    state = run.run_state
    call = state.calls.get(wait.call_id)
    frame = state.frames.get(wait.frame_id if call is None else call.frame_id)
    return "" if frame is None else frame.state_json
