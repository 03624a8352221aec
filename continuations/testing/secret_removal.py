"""Remove secrets from JSON values before they are written to a recording."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from continuations.testing.json_parts import fields_of, items_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
