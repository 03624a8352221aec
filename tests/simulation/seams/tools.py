"""Tools that a requester may not approve, the people of a schedule, and new names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from continuations import ApprovalPolicy
from tests.simulation.fault_schedule import Deployment

# Each of them asks, decides, forks and rewinds.
PEOPLE = ("ann", "bob", "kim")

REQUESTED_POLICIES: dict[str, ApprovalPolicy] = {
    "countersigned": ApprovalPolicy(not_requester=True),
}

_PREFIX = "renamed_"
# The tools and agents that a deployment renames, each with its new name.
_NEW_NAMES = MappingProxyType(
    {
        name: f"{_PREFIX}{name}"
        for name in ("act", "countersigned", "ruled", "push", "clerk")
    }
)
_NO_NAMES: Mapping[str, str] = MappingProxyType({})


def names_after(change: Deployment | None) -> Mapping[str, str]:
    """Return the new name of each tool and agent that a deployment renames."""
    return _NEW_NAMES if change == "renames" else _NO_NAMES


def first_name(name: str) -> str:
    """Return the name that a tool or an agent had before it was renamed."""
    return name.removeprefix(_PREFIX)


def with_first_names(text: str) -> str:
    """Return a message with the first names of the tools and agents that it names."""
    return text.replace(_PREFIX, "")
