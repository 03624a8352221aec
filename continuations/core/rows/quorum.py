"""The people who may decide a wait, and how many of them must agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.rows.decisions import UNNAMED_LINK_HOLDER, VerdictKind
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from continuations.core.rows.run import RunRow

# An approver with this prefix is a group, and every other one is a person.
GROUP_PREFIX = "group:"
# More of them are counted in an error.
_SHOWN_APPROVERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The rule of a wait that not each person may decide alone.

    Attributes:
        approvers: Names of persons, and `group:NAME` for groups. Empty: everybody with
            a name.
        votes: How many persons must give the same verdict. One `Deny` is enough.
        not_requester: Whether the requester of the run may not vote.
        requester: The requester of the run, or `None` if it is unknown.
        requesters: Further persons who asked for the call, sorted: see
            `RunRow.requesters`.
    """

    approvers: tuple[str, ...] = ()
    votes: int = 1
    not_requester: bool = False
    requester: str | None = None
    requesters: tuple[str, ...] = ()

    def of_run(self, run: RunRow) -> Quorum:
        """Return the rule with the persons who asked for the present work of a run."""
        return replace(
            self,
            requester=run.asker,
            requesters=run.requesters,
        )

    @property
    def asked_by(self) -> tuple[str, ...]:
        """Everybody who asked for the call; "" is a person who is not known."""
        return (self.requester or "", *self.requesters)

    @property
    def excluded_text(self) -> str:
        """The names of those who asked for the call, for people."""
        people: dict[str, str] = {}
        for name in self.asked_by:
            people.setdefault(_person_key(name), name)
        return ", ".join(name or "unknown" for name in people.values())

    def needs_groups_of(self, name: str) -> bool:
        """Return whether only a group can make a person an approver.

        Args:
            name: The name of the person.

        Returns:
            True if the groups of the person must be known.
        """
        approvers = set(map(_person_key, self.approvers))
        listed = not approvers or _person_key(name) in approvers
        return not listed and any(each.startswith(GROUP_PREFIX) for each in approvers)

    def excludes(self, name: str) -> bool:
        """Return whether a person may not decide, because they may have asked."""
        if not self.not_requester:
            return False
        requesters = set(map(_person_key, self.asked_by))
        return "" in requesters or _person_key(name) in requesters

    def objection(self, name: str | None, groups: Collection[str]) -> Objection | None:
        """Return why a person may not vote, or `None`.

        Args:
            name: The name of the person, or `None` if it is unknown.
            groups: The groups of the person.

        Returns:
            The objection, or `None` if the person may vote.
        """
        key = _person_key(name or "")
        if key == UNNAMED_LINK_HOLDER:
            return Objection(
                "it needs the name of the person, and the link has no actor",
                "Send each person a link of their own: links.link(wait, actor=NAME).",
            )
        if not key or key.startswith(GROUP_PREFIX):
            return Objection(
                f"it needs the name of the person who decides, got by={name!r}",
                "Decide with by=NAME.",
            )
        if self.not_requester and "" in map(_person_key, self.asked_by):
            return Objection(
                "the requester of the run may not decide it, and the requester is not "
                "known",
                "Cancel the run, and start the next one with by=NAME. Send "
                "each message to it with by=NAME too.",
            )
        if self.excludes(key):
            return Objection(
                f"{name} requested the run, and may not decide it",
                "Let another person decide.",
            )
        names = {key, *(GROUP_PREFIX + _person_key(group) for group in groups)}
        if self.approvers and names.isdisjoint(map(_person_key, self.approvers)):
            return Objection(
                f"{name} is not one of its approvers ({self._short_list()})",
                "Let one of them decide.",
            )
        return None

    def _short_list(self) -> str:
        first = ", ".join(self.approvers[:_SHOWN_APPROVERS])
        more = len(self.approvers) - _SHOWN_APPROVERS
        return f"{first} and {more} more" if more > 0 else first


def _person_key(name: str) -> str:
    from continuations.core.identity import person_key  # noqa: PLC0415 - few waits have a rule

    return person_key(name)


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a vote does not count.

    Attributes:
        why: The reason, without a full stop.
        next_step: The next step, as a sentence.
    """

    why: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One vote for a wait that several persons decide.

    Attributes:
        id: Unique id of the record.
        wait_id: The wait.
        by: The person who voted.
        kind: The verdict of the vote.
        at: When the vote was recorded, in UTC.
        votes_needed: How many persons must give the same verdict.
        still_needed: How many further persons must give the same verdict, counted after
            this vote.
        digest: Digest of the wait that the vote is for.
        groups: The groups of the person at that time.
        reason: Reason, if the verdict gave one.
        arguments: Edited arguments as JSON text, or `None` for no edit.
        value: Value of an `Answer` as JSON text.
        shown: Digest of the wait that the person saw, if the door passed it.
        form: Form that the person filled in, as JSON text, or `None`.
    """

    id: str
    wait_id: str
    by: str
    kind: VerdictKind
    at: datetime
    votes_needed: int
    still_needed: int
    digest: str
    groups: tuple[str, ...] = ()
    reason: str | None = None
    arguments: str | None = None
    value: str | None = None
    shown: str | None = None
    form: str | None = None
