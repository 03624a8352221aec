"""The rights of the two roles of a service on the keys of a store.

`docs/s3.md` has the same rights as policies of a bucket. Neither role can delete the
history of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from continuations_storage.postgres_sql import RoleRights

# Regular expressions of keys.
_DELETED = ("^(markers|waits|index|events|probe)/",)
# A server of A2A works on runs, too.
_DELETED_BY_WORKER = (*_DELETED, "^a2a/")
_DECIDER_CREATES = ("^(markers|waits|events|probe)/", "^runs/[^/]+/in/")
_ALL = ("^",)


def role_rights(decider: str | None, worker: str | None) -> list[RoleRights]:
    """Return the rights of the roles that are named.

    Args:
        decider: The role that shows waits, decides, sends messages and cancels. It
            cannot create a version, so it cannot advance or forge a run.
        worker: The role that starts, resumes and sweeps runs.
    """
    from continuations_storage.postgres_sql import RoleRights  # noqa: PLC0415 - one command needs it

    creates = {"decider": _DECIDER_CREATES, "worker": _ALL}
    deletes = {"decider": _DELETED, "worker": _DELETED_BY_WORKER}
    roles = {"decider": decider, "worker": worker}
    return [
        RoleRights(role=role, name=name, creates=creates[name], deletes=deletes[name])
        for name, role in roles.items()
        if role is not None
    ]
