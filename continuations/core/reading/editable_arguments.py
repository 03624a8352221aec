"""Which arguments of a call an approver may edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.words.secret_arguments import SecretLost, restored_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.rows.waits import Wait


def find_fixed_argument(wait: Wait, edited_json: str) -> str | None:
    """Return the first argument that an edit changes and that must stay as it is.

    Args:
        wait: The wait of an approval.
        edited_json: The edited arguments as canonical JSON. A mask keeps its value.
    """
    if wait.editable is None:
        return None
    if wait.secrets:
        try:
            edited_json = restored_json(edited_json, wait.arguments_json, wait.secrets)
        except SecretLost:
            return wait.secrets[0]
    edited: dict[str, Any] = jsontext.parse(edited_json)
    changed = _changed(wait.arguments, edited)
    return next((name for name in changed if name not in wait.editable), None)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> Iterable[str]:
    for name in sorted({*before, *after}):
        texts = [
            jsontext.canonical(jsontext.normalize_integers(values[name]))
            for values in (before, after)
            if name in values
        ]
        if len(texts) < 2 or texts[0] != texts[1]:  # noqa: PLR2004 - before and after
            yield name
