"""The list that a wait is opened from: its filter, neighbours and next wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.identity import is_same_person
from continuations.core.slots import find_own_vote
from continuations.errors import AlreadyDecided, ContinuationsError
from continuations.present.wait_text import DECISION_WORDS, votes_text
from continuations.serve.console.inbox_page import Filter, find_waits
from continuations.serve.console.page import run_of_wait
from continuations.serve.pages import wait_words
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.decisions import Decision
    from continuations.serve.console.page import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Crumbs:
    """The way back to the list, and the neighbours of a wait.

    Attributes:
        list: The address of the list.
        name: Its name.
        place: The place of the wait in it, or an empty text.
        previous: The address of the wait before, or an empty text.
        next: The address of the wait after, or an empty text.
    """

    list: str
    name: str
    place: str
    previous: str
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitList:
    """The waits of one filter, in the order of the inbox.

    Attributes:
        page: The request, whose query has the filter.
        chosen: The filter.
    """

    page: Page
    chosen: Filter

    @classmethod
    def of(cls, page: Page) -> WaitList:
        """Return the list of a request."""
        return cls(page=page, chosen=Filter.of_query(page.query))

    @property
    def query(self) -> str:
        """The filter as a query with a question mark; empty for the default."""
        return self.chosen.query_text()

    async def crumbs(self, wait_id: str) -> Crumbs:
        """Return the neighbours of a wait on the first page of the list."""
        ids = await self._ids(max_pages=1)
        place = ids.index(wait_id) if wait_id in ids else None
        before = "" if not place else ids[place - 1]
        after = "" if place is None else next(iter(ids[place + 1 :]), "")
        return Crumbs(
            list=self.page.url(f"/inbox{self.query}"),
            name="Inbox",
            place="" if place is None else f"{place + 1} of {len(ids)}",
            previous=before and self._address(before),
            next=after and self._address(after),
        )

    async def after(self, wait_id: str) -> str:
        """Return the path of the next wait after a decision; the decided one if none.

        The query has the id of the decided wait, so that the next page says what was
        recorded.
        """
        ids = await self._ids()
        place = ids.index(wait_id) if wait_id in ids else 0
        others = [each for each in ids if each != wait_id]
        rest = others[place:] or others or [wait_id]
        return f"/waits/{rest[0]}{self.chosen.query_text(recorded=wait_id)}"

    async def _ids(self, *, max_pages: int | None = None) -> list[str]:
        found = await find_waits(self.page, self.chosen, "", max_pages=max_pages)
        return [row.wait.id for row in found.rows if not row.expired]

    def _address(self, wait_id: str) -> str:
        return self.page.url(f"/waits/{wait_id}{self.query}")


async def recorded_sentences(page: Page) -> tuple[str, ...]:
    """Return what the person has just recorded, read from the store.

    The query names the wait only: an address cannot claim a decision.
    """
    wait_id = page.query.get("recorded", "")
    try:
        if not wait_id or not await page.can("view", run_of_wait(wait_id)):
            return ()
        wait = await page.runner.wait(wait_id)
    except AlreadyDecided as error:
        return _recorded(error.decision, page.identity.name)
    except ContinuationsError:
        return ()
    own = find_own_vote(wait, page.identity.name)
    if own is None:
        return ()
    return (f"Your vote is recorded: {votes_text(own)}. {wait_words.title(wait)}",)


def _recorded(decision: Decision, person: str) -> tuple[str, ...]:
    """Return the decision of a person as a sentence."""
    deciders = (decision.by, *decision.voters)
    if not any(is_same_person(person, each) for each in deciders):
        return ()
    word = DECISION_WORDS[decision.kind]
    run_id = run_of_wait(decision.wait_id)
    return (f"Recorded: {word} by {decision.by}, in the run {run_id}.",)
