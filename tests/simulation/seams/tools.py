"""Tools that a requester may not approve, and the people of a schedule."""

from __future__ import annotations

from continuations import ApprovalPolicy

# Each of them asks, decides, forks and rewinds.
PEOPLE = ("ann", "bob", "kim")

REQUESTED_POLICIES: dict[str, ApprovalPolicy] = {
    "countersigned": ApprovalPolicy(not_requester=True),
}
