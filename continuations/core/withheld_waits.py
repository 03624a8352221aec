"""Waits as people may read them: the values of secret arguments are masked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.core.waits import Wait


def withheld(wait: Wait) -> Wait:
    """Return a wait with `"[secret]"` in place of each secret value."""
    if not wait.secrets:
        return wait
    from continuations.core.secret_arguments import masked_json  # noqa: PLC0415 - few tools have secrets

    masked = masked_json(wait.arguments_json, wait.secrets)
    return replace(wait, arguments_json=masked)
