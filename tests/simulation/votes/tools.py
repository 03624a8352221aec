"""Tools that several persons approve, and the persons."""

from __future__ import annotations

from continuations import ApprovalPolicy, escalate

# The processes that vote. The last two decide after an escalation.
VOTERS = ("voter0", "voter1", "voter2", "voter3")

VOTING_POLICIES: dict[str, ApprovalPolicy] = {
    "elect": ApprovalPolicy(approvers=VOTERS[:3], votes=2),
    "board": ApprovalPolicy(
        approvers=VOTERS[:2],
        votes=2,
        within=40,
        on_deadline=escalate(to=VOTERS[2:], within=50),
        remind_after=25,
    ),
    "panel": ApprovalPolicy(votes=2, within=60),
}
