"""The turns of models in a run: when each one was asked and replied, and what it used.

A version stores the usage of the whole run. So the usage of a reply is known if it is
the only one of its version; otherwise, these replies share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.reading import run_stream
from continuations.core.usage import Usage
from continuations.present.times import counted
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from continuations.core.reading.run_past import VersionEvents, VersionWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn:
    """One reply of the model of an agent.

    Attributes:
        begin: When the model was asked. `None`: not known, because the version of the
            reply also has results that the model read.
        end: When the reply was stored.
        usage: The usage of the replies of its version.
        replies: Their number.
    """

    begin: datetime | None
    end: datetime
    usage: Usage
    replies: int = 1

    @property
    def tokens(self) -> str:
        """The tokens and the cost in words; empty if the model counts none."""
        text = tokens_text(self.usage)
        if text and self.replies > 1:
            return f"{text} for {self.replies} replies at once"
        return text


def tokens_text(usage: Usage) -> str:
    """Return the tokens and the cost of a usage: `1,204 tokens, 0.004 USD`."""
    parts: list[str] = []
    if usage.total_tokens:
        parts.append(counted(usage.total_tokens, "token"))
    if usage.cost_units and usage.cost is not None:
        parts.append(f"{usage.cost:f} {usage.currency}")
    return ", ".join(parts)


def tokens_of(turns: Iterable[ModelTurn]) -> str:
    """Return the tokens of an agent: `1,204`, or `≤ 1,204` if it shares some."""
    total, is_shared = 0, False
    for turn in turns:
        total += turn.usage.total_tokens
        is_shared = is_shared or turn.replies > 1
    if not total:
        return ""
    return f"{'≤ ' if is_shared else ''}{total:,}"


def model_turns(
    window: VersionWindow, workflows: Collection[str] = ()
) -> Mapping[str, tuple[ModelTurn, ...]]:
    """Return the turns of each frame of some versions, by the id of the frame.

    A frame that was never stored has the id of its call.

    Args:
        window: The versions.
        workflows: Ids of the frames that are workflows, whose code needs no model.
    """
    reader = _TurnReader(workflows)
    usage = Usage() if window.before is None else window.before.run.usage
    for version in window.versions:
        reader.read(version, version.run.usage - usage)
        usage = version.run.usage
    return {frame: tuple(turns) for frame, turns in reader.turns.items()}


class _TurnReader:
    """Reads the turns of consecutive versions."""

    def __init__(self, workflows: Collection[str]) -> None:
        self.turns: dict[str, list[ModelTurn]] = {}
        self._workflows = workflows
        # When the last change of each frame was stored, and the last claim.
        self._changed: dict[str, datetime] = {}
        self._claimed: datetime | None = None

    def read(self, version: VersionEvents, usage: Usage) -> None:
        """Read one version; its replies have its usage."""
        replied: list[str] = []
        changed: set[str] = set()
        # The first version of a fork repeats the messages of the other run.
        is_anew = version.number == 1
        for event in version.events:
            if isinstance(event, run_stream.RunRepaired | run_stream.RunRewound):
                self.turns.clear()
                is_anew = True
            if isinstance(event, run_stream.Attempt):
                self._claimed = version.at
            frame = event.frame or _call_of(event)
            if not frame or frame in self._workflows:
                continue
            if not is_anew and _is_reply(event, usage):
                replied.append(frame)
            elif frame not in replied:
                changed.add(frame)
        for frame in replied:
            begin = None if frame in changed else self._changed.get(frame)
            if begin is not None and self._claimed is not None:
                begin = max(begin, self._claimed)
            turn = ModelTurn(
                begin=begin, end=version.at, usage=usage, replies=len(replied)
            )
            self.turns.setdefault(frame, []).append(turn)
        self._changed.update(dict.fromkeys((*changed, *replied), version.at))


def _call_of(event: run_stream.StreamEvent) -> str:
    """Return the call whose agent has an event and was never stored, or ""."""
    if isinstance(event, run_stream.FrameStarted | run_stream.FrameEnded):
        return event.call or ""
    return ""


def _is_reply(event: run_stream.StreamEvent, usage: Usage) -> bool:
    """Return whether an event is a reply of a model.

    The last reply of an agent that another one called is its output. Without a request
    in its version, the agent ended for another reason.
    """
    if isinstance(event, run_stream.FrameEnded):
        is_end = event.call is not None and event.end in ("returned", None)
        return is_end and bool(usage.requests)
    if not isinstance(event, run_stream.MessageAdded):
        return False
    return event.message.get("role") == "assistant"
