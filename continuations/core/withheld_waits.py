"""Waits as people may read them: the values of secret arguments are masked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.core.waits import Wait


def withheld(wait: Wait) -> Wait:
    """Return a wait with `"[secret]"` in place of each secret value.

    The question of a tool may repeat such a value.
    """
    if not wait.secrets:
        return wait
    from continuations.core.secret_arguments import masked_json, scrubbed  # noqa: PLC0415 - few tools have secrets

    arguments, secrets = wait.arguments_json, wait.secrets
    question = wait.question and scrubbed(wait.question, arguments, secrets)
    masked = masked_json(arguments, secrets)
    return replace(wait, arguments_json=masked, question=question)
