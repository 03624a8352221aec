"""The `Continuation`: the whole state of a run as one value, and as bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.rows.delta import diff
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.waits import Wait, withheld
from continuations.errors import Corrupt, FormatError
from continuations.value_class import replace
from continuations.wire import envelope
from continuations.wire.fields import COUNT, ID, NEWEST_FORMAT, OBJECTS, Row
from continuations.wire.records import open_object
from continuations.wire.rows import DELTA, delta_fields, read_delta
from continuations.wire.versions import check_state, rebuild_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.reading.views import Frame
    from continuations.core.rows.run import Failure, RunStatus
    from continuations.core.usage import Usage


_KIND = "continuation"
_HEADER = Row("continuation header", dict[str, Any], run=ID, version=COUNT)
OBJECTS[_KIND] = _HEADER, DELTA


class Continuation:
    """The whole state of a run at one version, as an immutable value.

    Outcomes have it as `continuation`, and `Runner.look` returns it. Use
    `Continuation.from_bytes` to load one; do not call the constructor.
    """

    __slots__ = ("_files", "_run_state", "_version")

    def __init__(
        self,
        state: RunState,
        version: int = 0,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self._run_state = state
        self._version = version
        self._files = files or {}

    def __repr__(self) -> str:
        """Return the run's id, version and status, without message contents."""
        return f"<Continuation of {self.run_id}, version {self.version}: {self.status}>"

    def __eq__(self, other: object) -> bool:
        """Tell whether both are the same version with the same state."""
        if not isinstance(other, Continuation):
            return NotImplemented
        return self._version == other._version and self._run_state == other._run_state

    def __hash__(self) -> int:
        """Return a hash of the run's id and version."""
        return hash((self.run_id, self._version))

    @property
    def run_state(self) -> RunState:
        """The rows of the run. The type is internal and may change in any release."""
        return self._run_state

    @property
    def files(self) -> Mapping[str, bytes]:
        """Attachments by digest; empty for a run in a store, which has them itself."""
        return self._files

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._run_state.run.id

    @property
    def version(self) -> int:
        """Number of the version: in the store, or of the steps without a store."""
        return self._version

    @property
    def status(self) -> RunStatus:
        """Status: `running`, `suspended`, `finished`, `failed` or `cancelled`."""
        return self._run_state.run.status

    @property
    def root(self) -> Frame:
        """Frame of the root agent; its calls lead to the frames of sub-agents."""
        from continuations.core.reading.views import Frame  # noqa: PLC0415 - cold start

        return Frame(self._run_state, ROOT_FRAME_ID)

    @property
    def waits(self) -> tuple[Wait, ...]:
        """Open waits of all frames, the oldest first, with secret values masked."""
        waits = map(withheld, self._run_state.waits.values())
        # Waits of one turn have the same time; their call ids keep the model's order.
        return tuple(sorted(waits, key=Wait.sort_key))

    @property
    def usage(self) -> Usage:
        """Model usage of the whole run so far, over all agents."""
        return self._run_state.run.usage

    @property
    def output(self) -> str | None:
        """Final text of a finished run, before it is parsed as the output type."""
        return self._run_state.run.output

    @property
    def failure(self) -> Failure | None:
        """Reason why the run failed or was cancelled, or `None`."""
        return self._run_state.run.failure

    def to_bytes(self) -> bytes:
        """Return the state as bytes, for example to keep them in a database.

        The bytes contain all messages, unencrypted. They have a digest against damage,
        but no signature: load only bytes that you stored yourself.

        Returns:
            Bytes in the lowest format that suffices. This and later releases read them.

        Raises:
            FormatError: The state is larger than one object may be (256 MiB).
        """
        header: dict[str, object] = {
            "kind": _KIND,
            "run": self.run_id,
            "version": self._version,
        }
        delta = diff(None, self._run_state)
        if self._files:
            delta = replace(delta, files=self._files)
        return envelope.encode_object(header, delta_fields(delta))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Continuation:
        """Load a continuation from bytes; loading never executes code.

        Args:
            data: Bytes that `to_bytes` returned.

        Returns:
            The continuation that the bytes hold.

        Raises:
            Corrupt: The bytes are damaged.
            FormatError: `data` is not a continuation, or has a newer format than this
                release can read.
        """
        name = "the continuation"
        kind: type = type(data)
        if kind not in (bytes, bytearray, memoryview):
            raise FormatError(
                f"data must be bytes, got {kind.__name__}. Pass the bytes that "
                "Continuation.to_bytes() returned."
            )
        header, body = open_object(bytes(data), name, _KIND, _HEADER)
        run_id = header["run"]
        delta = read_delta(body, name)
        if delta.run.id != run_id:
            raise Corrupt(
                f"{name} is damaged: its header names run {run_id} and its body names "
                f"run {delta.run.id}. Restore the bytes from a backup."
            )
        state = rebuild_state(None, delta, name)
        state.read_messages()
        return cls(check_state(state, name), header["version"], delta.files)

    def to_json(self) -> str:
        """Return the state as JSON text, for people and other programs.

        The JSON text is a report and cannot be loaded again; use `to_bytes` for that.

        Returns:
            A JSON object with all frames, calls, waits and messages. It is the type
            `continuation` of docs/schemas/continuations.schema.json.
        """
        from continuations.wire import report  # noqa: PLC0415 - cold start
        from continuations.wire.stack_json import stack_json  # noqa: PLC0415 - cold start

        state = self._run_state
        value = {
            "format": NEWEST_FORMAT,
            **report.run_json(state, self._version),
            **stack_json(state),
            "waits": report.to_json(self.waits),
        }
        # `jsontext.dump` limits the depth, and a stored message may already reach it.
        return jsontext.escape_surrogates(json.dumps(value, ensure_ascii=False))
