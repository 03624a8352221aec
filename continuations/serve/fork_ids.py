"""Ids of forks for which a person gives none."""

from __future__ import annotations

import secrets

_MAX_RUN_ID_CHARS = 200
_RANDOM_BYTES = 6


def new_fork_id(run_id: str) -> str:
    """Return a new id for a fork of a run.

    It begins with the id of the run: an application may give rights by prefixes.
    """
    suffix = f"-fork-{secrets.token_hex(_RANDOM_BYTES)}"
    return run_id[: _MAX_RUN_ID_CHARS - len(suffix)] + suffix
