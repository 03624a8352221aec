"""The file of a recorded model: requests and replies as JSON, without secrets.

A request that differs from the recorded one is reported with its first difference.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import threading
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


def fields_of(value: object) -> dict[str, Any] | None:
    """Return a JSON object, or `None` for another value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def items_of(value: object) -> list[Any] | None:
    """Return the items of a list or tuple, or `None` for another value."""
    if isinstance(value, list | tuple):
        return list(cast("list[Any]", value))
    return None


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


REMOVED: Final = "[removed]"
# Shorter values are words of other texts too.
_MIN_LENGTH = 8
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# The name of a field, a header or a variable whose value is a secret.
_SECRET_NAME = re.compile(
    r"(?:^|[-_])(?:authorization|api[-_]?key|access[-_]?key(?:[-_]id)?|auth[-_]?key"
    r"|private[-_]?key|secret(?:[-_]?key)?|password|passwd|token|cookie|credentials?)$",
    re.IGNORECASE,
)
# Names of variables are less regular: SECRET_KEY_BASE, OPENAI_KEY, DB_PASS.
_SECRET_VARIABLE = re.compile(
    r"SECRET|TOKEN|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY"
    r"|(?:^|_)(?:KEY|PASS|PWD|PAT|DSN|AUTH)$",
    re.IGNORECASE,
)
# All values below a field of this name are removed: any header may carry a key.
_HEADERS_NAME = re.compile(
    r"(?:^|[-_])(?:headers|cookies|extra[-_]query)$", re.IGNORECASE
)
# The rest of a header after its scheme. It has a digit, a capital or a sign, unlike
# the word after "basic" in a sentence.
_AFTER_SCHEME = r"(?=\S+[0-9A-Z+/=])[A-Za-z0-9+/=._~-]{8,}"
_ASSIGNED = (
    r"(?i:\bauthorization|\bx-api-key|\bapi[-_ ]?key|\bpassword|\bclient[-_]secret"
    r"|\baccess[-_]token)[\"']?\s*[:=]\s*[\"']?(?!\[removed\])[^\s\"',;&}]{4,}"
)
_TEXT_PATTERNS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        r"(?i:\b(?:bearer|basic))\s+" + _AFTER_SCHEME,
        _ASSIGNED,
        r"\b(?:sk|pk|rk|whsec|hf|glpat)[-_][A-Za-z0-9_-]{12,}",
        r"\b(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{20,}",
        r"\bxox[a-z]-[A-Za-z0-9-]{10,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
        r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)",
    )
)


class SecretRemover:
    """Removes secrets from values of JSON.

    These parts become `[removed]`:

    - the given secrets, and the values of environment variables whose name says that
      they are secret, such as `OPENAI_API_KEY`, also as escaped or quoted text
    - the values of fields with such a name, and of all headers
    - texts with the form of a key, a token or an `Authorization` header

    Args:
        secrets: Texts that are secret, of any length but 0.
        environment: Variables and their values. Default: those of this process.
    """

    def __init__(
        self,
        secrets: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        variables = os.environ if environment is None else environment
        values = {
            value
            for name, value in variables.items()
            if _SECRET_VARIABLE.search(name) and len(value) >= _MIN_LENGTH
        }
        known = {
            form for secret in (*secrets, *values) if secret for form in _forms(secret)
        }
        # The longest first: a secret may be a part of another one.
        ordered = sorted(known, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def clean(self, value: Any) -> Any:
        """Return a copy of a JSON value without secrets."""
        if isinstance(value, str):
            return self._clean_text(value)
        if (fields := fields_of(value)) is not None:
            return {
                self._clean_text(name): self._clean_field(name, each)
                for name, each in fields.items()
            }
        if (items := items_of(value)) is not None:
            return [self.clean(item) for item in items]
        return value

    def _clean_field(self, name: str, value: Any) -> Any:
        plain = _CAMEL.sub("_", name)
        if _HEADERS_NAME.search(plain):
            return _without_values(value)
        if _SECRET_NAME.search(plain) and not isinstance(value, dict | list | tuple):
            return _without_values(value)
        return self.clean(value)

    def _clean_text(self, text: str) -> str:
        # The arguments of a call are JSON in a text, and may have fields with secrets.
        if text[:1] in ("{", "["):
            text = self._clean_json_text(text)
        if self._known is not None:
            text = self._known.sub(REMOVED, text)
        for pattern in _TEXT_PATTERNS:
            text = pattern.sub(REMOVED, text)
        return text

    def _clean_json_text(self, text: str) -> str:
        try:
            value = json.loads(text)
            cleaned = self.clean(value)
        except (ValueError, RecursionError):
            return text
        # The text of a provider stays as it is, unless a secret was in it.
        return text if cleaned == value else json.dumps(cleaned, ensure_ascii=False)


def _without_values(value: Any) -> Any:
    if (fields := fields_of(value)) is not None:
        return {name: _without_values(each) for name, each in fields.items()}
    if (items := items_of(value)) is not None:
        return [_without_values(item) for item in items]
    return value if value is None or isinstance(value, bool) else REMOVED


def _forms(secret: str) -> set[str]:
    """Return a secret as it is, in a URL, and in JSON inside a text."""
    forms = {secret, quote(secret), quote(secret, safe="")}
    for ascii_only in (True, False):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        forms |= {once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
    return forms


_ABSENT = object()
_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference.

    Attributes:
        path: Place of the value, for example `messages[2].content`.
        recorded: The recorded value, shortened to the part that differs.
        given: The other value, shortened likewise.
    """

    path: str
    recorded: str
    given: str


def first_difference(recorded: Any, given: Any, path: str = "") -> Difference | None:
    """Return the first difference, or `None` for equal values.

    A part of a recorded text that was removed as a secret equals any text.
    """
    fields, other_fields = fields_of(recorded), fields_of(given)
    if fields is not None and other_fields is not None:
        return _first(_fields(fields, other_fields, path))
    items, other_items = items_of(recorded), items_of(given)
    if items is not None and other_items is not None:
        return _first(_items(items, other_items, path))
    if isinstance(recorded, str) and isinstance(given, str):
        return _text_difference(recorded, given, path)
    if recorded == given and type(recorded) is type(given):
        return None
    return Difference(path=path, recorded=_short(recorded), given=_short(given))


def _fields(
    recorded: Mapping[str, Any], given: Mapping[str, Any], path: str
) -> Iterator[tuple[Any, Any, str]]:
    for name in sorted(recorded.keys() | given.keys()):
        place = f"{path}.{name}" if path else name
        yield recorded.get(name, _ABSENT), given.get(name, _ABSENT), place


def _items(
    recorded: Sequence[Any], given: Sequence[Any], path: str
) -> Iterator[tuple[Any, Any, str]]:
    pairs = zip_longest(recorded, given, fillvalue=_ABSENT)
    for index, (left, right) in enumerate(pairs):
        yield left, right, f"{path}[{index}]"


def _first(parts: Iterator[tuple[Any, Any, str]]) -> Difference | None:
    found = (first_difference(left, right, path) for left, right, path in parts)
    return next((each for each in found if each is not None), None)


def _text_difference(recorded: str, given: str, path: str) -> Difference | None:
    if recorded == given or _fits(recorded, given):
        return None
    pairs = enumerate(zip_longest(recorded, given))
    start = next(index for index, (left, right) in pairs if left != right)
    return Difference(
        path=f"{path}, character {start + 1}",
        recorded=_part(recorded, start),
        given=_part(given, start),
    )


def _fits(recorded: str, given: str) -> bool:
    if REMOVED not in recorded:
        return False
    pattern = ".*?".join(map(re.escape, recorded.split(REMOVED)))
    return re.fullmatch(pattern, given, re.DOTALL) is not None


def _part(text: str, start: int) -> str:
    return _short(text[max(0, start - _SHOWN // 2) :])


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
