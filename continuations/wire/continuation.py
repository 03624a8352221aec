"""Continuation: a run's whole state as one value, to bytes and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.delta import diff
from continuations.core.state import ROOT_FRAME_ID
from continuations.core.views import Frame
from continuations.core.waits import Wait
from continuations.errors import Corrupt, FormatError
from continuations.wire import envelope, report
from continuations.wire.fields import FieldReader
from continuations.wire.v1 import delta_fields, read_delta
from continuations.wire.versions import check_state, rebuild_state

if TYPE_CHECKING:
    from continuations.core.run import Failure, RunStatus
    from continuations.core.state import RunState
    from continuations.core.usage import Usage


class Continuation:
    """The whole state of a run at one version; a value, it never changes.

    `version` is its number in a store, 0 where it came from none.
    """

    __slots__ = ("_run_state", "_version")

    def __init__(self, state: RunState, version: int = 0) -> None:
        self._run_state = state
        self._version = version

    def __repr__(self) -> str:
        """Name the run and how it stands, without anything that was said in it."""
        return f"<Continuation of {self.run_id}, version {self.version}: {self.status}>"

    def __eq__(self, other: object) -> bool:
        """Tell whether both are the same state of the same run."""
        if not isinstance(other, Continuation):
            return NotImplemented
        return self._version == other._version and self._run_state == other._run_state

    def __hash__(self) -> int:
        """Return the hash of the run's id and version."""
        return hash((self.run_id, self._version))

    @property
    def run_state(self) -> RunState:
        """The flat table of rows behind the value."""
        return self._run_state

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run_state.run.id

    @property
    def version(self) -> int:
        """Which version of the run this is."""
        return self._version

    @property
    def status(self) -> RunStatus:
        """How the run stands: running, suspended, finished, failed, cancelled."""
        return self._run_state.run.status

    @property
    def root(self) -> Frame:
        """The frame of the root agent; the frames below hang from its calls."""
        return Frame(self._run_state, ROOT_FRAME_ID)

    @property
    def waits(self) -> tuple[Wait, ...]:
        """The open waits of every frame, the oldest first."""
        waits = self._run_state.waits.values()
        # Those of one turn are of one moment; their calls are in the model's order.
        return tuple(sorted(waits, key=Wait.sort_key))

    @property
    def usage(self) -> Usage:
        """What the model's replies of the whole tree have cost so far."""
        return self._run_state.run.usage

    @property
    def output(self) -> str | None:
        """The last text of a finished run, before any type was read out of it."""
        return self._run_state.run.output

    @property
    def failure(self) -> Failure | None:
        """Why the run failed or was cancelled, or `None`."""
        return self._run_state.run.failure

    def to_bytes(self) -> bytes:
        """Return the run as bytes of the present format, to be kept anywhere.

        Raises `FormatError` if they would be more than one object may hold.
        """
        header: dict[str, object] = {
            "kind": "continuation",
            "run": self.run_id,
            "version": self._version,
        }
        return envelope.encode_object(header, delta_fields(diff(None, self._run_state)))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Continuation:
        """Return the run of such bytes.

        Nothing in them is executed. Raises `Corrupt` for damaged bytes and
        `FormatError` for bytes of another kind or a newer format.
        """
        name = "the continuation"
        kind: type = type(data)
        if kind not in (bytes, bytearray, memoryview):
            msg = f"A {kind.__name__} holds no continuation; it is bytes."
            raise FormatError(msg)
        opened = envelope.decode_object(bytes(data), name)
        header = FieldReader(opened.header, f"the header of {name}")
        header.one_of("kind", frozenset({"continuation"}))
        run_id = header.text("run")
        version = header.number("version", 0)
        header.check_all_read()
        delta = read_delta(opened.body, name)
        if delta.run.id != run_id:
            msg = f"{name} is of run {delta.run.id} inside and {run_id} outside."
            raise Corrupt(msg)
        state = rebuild_state(None, delta, name)
        return cls(check_state(state, name), version)

    def to_json(self) -> str:
        """Return the run as JSON text for people and other programs.

        The text has the rows that the bytes have, with the messages as a standard
        chat completions array. `docs/schemas/continuations.schema.json` describes it
        as `continuation`. It is a report: only `from_bytes` reads a run back.
        """
        state = self._run_state
        value = {
            "format": envelope.FORMAT,
            **report.run_json(state, self._version),
            **report.stack_json(state),
            "waits": [report.wait_json(wait) for wait in self.waits],
        }
        # Not `jsontext.dump`, which bounds the depth: a message of the greatest depth
        # is deeper inside the report.
        return jsontext.escape_surrogates(json.dumps(value, ensure_ascii=False))
