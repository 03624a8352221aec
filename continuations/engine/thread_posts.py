"""Open a thread, and post its messages and requests."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal

from continuations.core.output_type import Output
from continuations.core.run import ENDED_STATUSES
from continuations.engine import request_checks
from continuations.engine.async_ticket import AsyncTicket
from continuations.engine.new_run import parse_user_message, store_attachments
from continuations.engine.operator_commands import OperatorCommands
from continuations.engine.run_description import RunDescription
from continuations.errors import InvalidInput, RunErased, StaleRun
from continuations.ledger import inbox, thread_ids, thread_keys
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations.wire.arrivals import InboxMessage

if TYPE_CHECKING:
    from continuations.authoring.agent import Agent
    from continuations.core.doors import Door
    from continuations.core.run import Budget, RunRow
    from continuations.engine.async_ticket import ThreadParts
    from continuations.engine.new_run import UserText
    from continuations.ledger.thread_keys import Generation
    from continuations.wire.versions import VersionHeader

# Ids of callers begin with this, so none is equal to an id that we made.
_OWN_ID = "id:"
_MAX_KEY_CHARS = 500


@dataclass(frozen=True, slots=True)
class ThreadPosts(Generic[Output]):
    """Opens one thread, and posts its messages."""

    parts: ThreadParts
    name: str
    agent: Agent[Output] | None
    key: str
    description: RunDescription
    budget: Budget | None

    async def end_turn(
        self,
        action: Literal["stop", "interrupt"],
        run_id: str,
        number: int,
        by: str | None,
        door: Door,
        reason: str | None = None,
    ) -> None:
        """Stop or interrupt the turn of a thread, if it has one."""
        parts = self.parts
        commands = OperatorCommands(
            objects=parts.objects,
            ports=parts.ports,
            options=parts.options,
            run_id=run_id,
        )
        # A thread that has ended has no turn.
        with suppress(InvalidInput):
            await commands.end_turn(action, number, reason=reason, by=by, door=door)

    def new_message(self, text: object, by: object, own_id: object) -> InboxMessage:
        """Return a message without a number; raises `InvalidInput`."""
        now = self.parts.ports.clock.now()
        own_id = request_checks.own_id(own_id)
        return InboxMessage(
            id=f"{_OWN_ID}{own_id}" if own_id else self.parts.ports.ids.new_ulid(now),
            number=0,
            at=now,
            message=parse_user_message(text),
            by=RunDescription.from_arguments(labels=None, title=None, by=by).requester,
        )

    async def newest(self) -> Generation:
        """Return the newest run of the thread."""
        return await thread_keys.newest_generation(
            self.parts.objects, self.name, self.key
        )

    async def header(self, generation: Generation) -> VersionHeader | None:
        """Return the newest header, or `None` without a run or for an erased one.

        Raises `RunExists` for a run that is not a thread, and `Corrupt` for the thread
        of another key. So nothing is posted to either.
        """
        if not generation.version:
            return None
        versions = Versions(self.parts.objects, generation.run_id)
        try:
            header = generation.header or await versions.header(generation.version)
        except RunErased:
            return None
        await thread_keys.check_key(self.parts.objects, header)
        # Only the header of a thread has numbers of messages.
        if not header.inbox and header.status != "resting":
            loaded = await versions.load(generation.version)
            thread_keys.check_thread(loaded.state.run)
        return header

    async def open(self, text: UserText, context: Any) -> VersionHeader:
        """Return the header of the newest version; make the thread if it is missing."""
        while True:
            newest = await self.newest()
            header = await self.header(newest)
            if header is not None and header.status not in ENDED_STATUSES:
                return header
            run_id = thread_ids.thread_run_id(self.name, self.key, newest.number + 1)
            # Another sender may make it at the same time.
            with suppress(StaleRun):
                await self._create(run_id, text, context)

    async def _create(self, run_id: str, text: UserText, context: Any) -> None:
        """Store the first version of the thread; raises `StaleRun` if it exists."""
        factory = self.parts.factory
        if self.agent is None or factory is None:
            from continuations.engine.agentless_threads import create_thread  # noqa: PLC0415 - rarely needed

            await self.parts.probe()
            await create_thread(
                self.parts,
                self.name,
                self.key,
                run_id=run_id,
                budget=self.budget,
                description=self.description,
            )
            return
        state = await factory.thread_state(
            self.agent,
            self.key,
            run_id=run_id,
            text=text,
            budget=self.budget,
            context=context,
            description=self.description,
        )
        await self.parts.probe()
        await factory.make_worker(run_id).start(state)

    async def post(
        self, header: VersionHeader, message: InboxMessage, text: object = ""
    ) -> AsyncTicket[Output]:
        """Post a message, once if it has an id of its sender.

        The attachments of `text` are stored first.
        """
        run_id, objects = header.run_id, self.parts.objects

        async def run_row() -> RunRow:
            versions = Versions(objects, run_id)
            return (await versions.load(header.number)).state.run

        is_own = message.id.startswith(_OWN_ID)
        posted_before = partial(inbox.is_posted, objects, run_id, message.id)
        check_room = partial(inbox.check_room, objects, run_id, message, header.inbox)
        await store_attachments(
            objects, run_row, text, posted_before if is_own else None, check_room
        )
        if is_own:
            nonce = self.parts.ports.ids.new_ulid(message.at)
            post = inbox.post_once(objects, run_id, message, header.inbox, nonce)
        else:
            post = inbox.post(objects, run_id, message, header.inbox)
        posted = await post
        objects.announce_work()
        return AsyncTicket(self.parts, self.agent, run_id, posted.number, header)


def check_key(key: object) -> str:
    """Return the key of a thread; raises `InvalidInput`."""
    if isinstance(key, str) and 0 < len(key) <= _MAX_KEY_CHARS:
        return key
    msg = (
        f"key must be a text of 1 to {_MAX_KEY_CHARS} characters, got {key!r:.60}. "
        "Pass what names the conversation, for example the id of a customer."
    )
    raise InvalidInput(msg)
