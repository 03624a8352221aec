"""The file of a recorded model: requests and replies as JSON, without secrets."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuations import InvalidInput
from continuations.testing.json_parts import fields_of, items_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMAT = 1
_EXCHANGE_FIELDS = {"digest": str, "agent": str, "request": dict, "reply": dict}
# Threads of one process may record into one file.
_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request to a model, and the reply.

    Attributes:
        digest: SHA-256 of the request, in hexadecimal.
        agent: Name of the agent, for people who read the file.
        request: The request as JSON.
        reply: The reply as JSON.
    """

    digest: str
    agent: str
    request: Mapping[str, Any]
    reply: Mapping[str, Any]

    @classmethod
    def of(
        cls, agent: str, request: Mapping[str, Any], reply: Mapping[str, Any]
    ) -> Exchange:
        """Return an exchange with its digest."""
        return cls(digest=digest_of(request), agent=agent, request=request, reply=reply)

    def to_json(self) -> dict[str, Any]:
        """Return the exchange as JSON."""
        return {name: getattr(self, name) for name in _EXCHANGE_FIELDS}


def digest_of(request: Mapping[str, Any]) -> str:
    """Return the digest by which a request is found."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class RecordingFile:
    """The exchanges of a file; each new one is written at once.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model = ""
        self.exchanges: dict[str, Exchange] = {}
        if path.exists():
            self._read()

    def add(self, model: str, exchange: Exchange) -> Exchange:
        """Write an exchange; return the one that was recorded first.

        Args:
            model: Name of the model.
            exchange: The exchange.
        """
        with _lock:
            if self.path.exists():  # another object may have written since
                self._read()
            self.model = model
            first = self.exchanges.setdefault(exchange.digest, exchange)
            self._write()
        return first

    def _write(self) -> None:
        data = {
            "format": _FORMAT,
            "model": self.model,
            "exchanges": [each.to_json() for each in self.exchanges.values()],
        }
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, suffix=".tmp")
        try:
            with os.fdopen(
                handle, "w", encoding="utf-8", errors="surrogatepass"
            ) as file:
                file.write(text)
            Path(temporary).replace(self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _read(self) -> None:
        try:
            text = self.path.read_text(encoding="utf-8", errors="surrogatepass")
            data: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._invalid(f"it is not JSON ({error})") from None
        fields = fields_of(data) or {}
        if fields.get("format") != _FORMAT:
            raise self._invalid(f'its "format" is not {_FORMAT}')
        model, exchanges = fields.get("model"), items_of(fields.get("exchanges"))
        if not isinstance(model, str) or exchanges is None:
            raise self._invalid('"model" or "exchanges" is missing')
        self.model = model
        read = [self._exchange(number, each) for number, each in enumerate(exchanges)]
        self.exchanges = {each.digest: each for each in read}

    def _exchange(self, number: int, data: Any) -> Exchange:
        fields = fields_of(data) or {}
        for name, kind in _EXCHANGE_FIELDS.items():
            if not isinstance(fields.get(name), kind):
                raise self._invalid(f'exchanges[{number}] has no valid "{name}"')
        return Exchange(**{name: fields[name] for name in _EXCHANGE_FIELDS})

    def _invalid(self, why: str) -> InvalidInput:
        return InvalidInput(
            f"recording {self.path} cannot be read: {why}. Delete the file and record "
            "it again."
        )
