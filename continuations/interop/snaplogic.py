"""Read the paused agents of SnapLogic's prototype `agent-continuations`.

The file is the JSON text of what `request()` of the prototype returned. It names no
agent and no model: the agent of this process gives both. Nothing in a file is executed
or imported.

    paused = read("jane.json", hr)
    outcome = runner.adopt(paused.continuation, run_id="jane-1")
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuations.authoring.agent import Agent
from continuations.core import jsontext
from continuations.core.decisions import Approve
from continuations.engine.ports import Ports
from continuations.errors import InvalidInput
from continuations.interop.snaplogic_stack import (
    Field,
    ForeignFrame,
    approved_paths,
    read_stack,
)
from continuations.interop.stack_builder import StackBuilder
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.core.decisions import Verdict
    from continuations.core.waits import Wait
    from continuations.ledger.claims import Clock

# A continuation may have 256 MiB, and JSON takes some times its size in memory.
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedRun:
    """A paused agent that was read from a file.

    Attributes:
        continuation: The state, for `Runner.adopt` or `resume`. The ids in it follow
            from the file: reading the same file again gives the same ids.
        approved: The calls that the file marks with `approved: true`, each as the ids
            of the tool calls from the top down to it.
    """

    continuation: Continuation
    approved: frozenset[tuple[str, ...]]
    _call_paths: Mapping[str, tuple[str, ...]]

    def path_of(self, wait: Wait) -> tuple[str, ...]:
        """Return the ids of the tool calls from the top down to a waiting call.

        Args:
            wait: A wait of the continuation, or of the run that adopted it.

        Returns:
            The ids, as `path_ids` has them in the file.

        Raises:
            InvalidInput: The file has no call for this wait.
        """
        if not self._has(wait):
            msg = (
                f"wait {wait.id} belongs to no call of the file. Pass a wait of the "
                "run that adopted the file."
            )
            raise InvalidInput(msg, run_id=wait.run_id)
        return self._call_paths[wait.call_id]

    def decisions(
        self, waits: Iterable[Wait], *, by: str | None = None
    ) -> dict[str, Verdict]:
        """Return the decisions that the file contains.

        Only `approved: true` is a decision. The prototype writes `false` before a
        person has decided, so `false` decides nothing. Deny a call with `Deny`.

        Args:
            waits: Open waits of the continuation, or of the run that adopted it.
            by: Name of the person who approved, for the record.

        Returns:
            An `Approve` by wait id, for each wait whose call is approved in the file.
        """
        verdict = Approve(by=by, reason="The file of the paused agent approves it.")
        return {
            wait.id: verdict
            for wait in waits
            if self._has(wait) and self._call_paths[wait.call_id] in self.approved
        }

    def _has(self, wait: Wait) -> bool:
        """Return whether a wait is that of a call of the file, with its arguments."""
        shown = (wait.call_id, wait.path, wait.arguments_json)
        return any(
            (own.call_id, own.path, own.arguments_json) == shown
            for own in self.continuation.run_state.waits.values()
        )


def read(
    source: str | os.PathLike[str] | bytes | Mapping[str, Any],
    agent: Agent[Any],
    *,
    clock: Clock | None = None,
) -> PausedRun:
    """Read a paused agent.

    Every call that the file leaves open waits for an approval, also if its tool here
    needs none. A call that the prototype rejected is never run: the model reads that a
    person denied it, and goes on.

    Args:
        source: The path of a file, its bytes, or the dict that `request()` returned.
            It is not changed.
        agent: The root agent. Its tools and sub-agents have the names that the file
            has. A stack of the file is bound to them from the top down.
        clock: The clocks of this machine, for tests. Deadlines count from now.

    Returns:
        The continuation, and the decisions of the file.

    Raises:
        FormatError: The file is not such a file, has ended, contradicts itself, or does
            not fit `agent`. The text names the file and the field.
        InvalidInput: `agent` is not an `Agent`.
    """
    _check_agent(agent)
    top = _open(source)
    stack = read_stack(top)
    approved = approved_paths(top, stack)
    digest = jsontext.digest("snaplogic", *_texts(stack))
    builder = StackBuilder(
        agent=agent,
        run_id=f"snaplogic-{digest[:26]}",
        run_nonce=digest[26:52],
        now=(Ports().clock if clock is None else clock).now(),
    )
    state = builder.build(stack)
    return PausedRun(
        continuation=Continuation(state),
        approved=approved,
        _call_paths=builder.call_paths,
    )


def _check_agent(agent: object) -> None:
    if not isinstance(agent, Agent):
        msg = f"agent must be an Agent, got {type(agent).__name__}."
        raise InvalidInput(msg)


def _open(source: str | os.PathLike[str] | bytes | Mapping[str, Any]) -> Field:
    found = jsontext.as_object(source)
    if found is not None:
        try:
            value = jsontext.parse(jsontext.dump(found))
        except jsontext.NotJson as error:
            Field(None, "", "the dict").refuse(f"is not JSON: {error}")
        return Field(value, "", "the dict")
    if isinstance(source, bytes):
        return _parse(source, "the bytes")
    if not isinstance(source, str | os.PathLike):
        msg = (
            "source must be a path, bytes or a dict, got "
            f"{type(source).__name__}. Pass the path of the file."
        )
        raise InvalidInput(msg)
    return _parse(_read_file(Path(source)), os.fspath(source))


def _read_file(path: Path) -> bytes:
    advice = "Check the path of the file."
    place = Field(None, "", str(path))
    try:
        if not path.is_file():
            place.refuse("does not exist, or is no file", advice)
        if path.stat().st_size > _MAX_BYTES:
            place.refuse(f"has more than {_MAX_BYTES} bytes", advice)
        return path.read_bytes()
    except OSError as error:
        place.refuse(f"cannot be read ({error.strerror})", advice)


def _parse(data: bytes, name: str) -> Field:
    try:
        value = jsontext.parse(data, lossless=True)
    except jsontext.NotJson as error:
        Field(None, "", name).refuse(f"is not JSON: {error}")
    return Field(value, "", name)


def _texts(stack: ForeignFrame) -> list[str]:
    """Return everything of a stack but its decisions, as texts in a fixed order."""
    texts = [str(len(stack.messages)), *(message.text for message in stack.messages)]
    for path, call in stack.walk():
        progress = call.progress
        kind = type(progress).__name__
        texts += [jsontext.canonical([*path, call.tool, call.arguments, kind])]
        if isinstance(progress, ForeignFrame):
            texts += [str(len(progress.messages))]
            texts += [message.text for message in progress.messages]
    return texts
