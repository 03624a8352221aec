"""Find the run of a conversation by its agent and key, without agent code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.cli.errors import UsageError
from continuations.engine import portal
from continuations.ledger.objects import Objects

if TYPE_CHECKING:
    from continuations import Runner


def conversation_id(runner: Runner, agent: str, key: str) -> str:
    """Return the id of the newest run of a conversation; raise `UsageError`."""
    # Imported here: most commands name a run by its id.
    from continuations.ledger.thread_keys import newest_generation  # noqa: PLC0415

    found = portal.run_until_complete(
        newest_generation(Objects(runner.store), agent, key)
    )
    if found.version:
        return found.run_id
    msg = (
        f"--key {key!r:.60} names no conversation of agent {agent!r:.60} in this "
        "store. List the conversations with `continuations runs`."
    )
    raise UsageError(msg)
