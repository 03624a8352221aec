"""A message after the end of its wait at another door, or without a decision."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from continuations import Agent, ApprovalPolicy, Approve, AsyncRunner, tool
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.interop import slack
from continuations.interop.slack.modal import Origin, review_modal
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.notify.notifier import NotifyAll, NotifyFailed
from continuations.serve.pages.decision_view import decider_of
from continuations_storage import MemoryStore, StorageError
from tests.interop.slack.set_up import make_app, make_notifier, set_up
from tests.interop.slack.waiting_agents import (
    PIN,
    make_runner,
    start,
    transfer,
    transfer_call,
)
from tests.interop.slack.web_api import Failure, Person, SlackApi, shown_text
from tests.outcomes import single_wait
from tests.serve.notify.receivers import RecordedDelays, make_wait


def message_text(api: SlackApi) -> str:
    return shown_text(api.message["blocks"])


def test_an_edit_by_another_door_is_named(api: SlackApi) -> None:
    """The message says that other arguments were approved, and shows none of them."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    [wait] = asyncio.run(runner.look("r-1")).waits
    edited = {"to": "Nova", "cents": 5, "pin": "[secret]"}
    asyncio.run(runner.decide(wait.id, Approve(by="lee", arguments=edited)))
    assert "Approved by lee, with changed arguments." in message_text(api)
    old = {**api.message, "blocks": api.calls[0][1]["blocks"]}
    kim.click(message=old)
    api.view_with("Already decided.")
    assert PIN not in str(api.calls)
    assert "Nova" not in str(api.calls)


def test_a_rewind_edits_the_message(api: SlackApi) -> None:
    """The wait is closed, and the message loses its button."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    view = kim.review("Your decision")
    asyncio.run(runner.rewind("r-1", 1))
    assert "Closed: the run was" in message_text(api)
    kim.submit(view, "approve")
    api.view_with("Nothing was approved.")


def test_the_message_of_an_erased_run_is_edited_by_the_next_click(
    api: SlackApi,
) -> None:
    """Nothing of the run is shown."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    view = kim.review("Your decision")
    asyncio.run(runner.erase("r-1"))
    kim.submit(view, "approve")
    api.view_with("Closed: the run was erased.")
    api.wait_until(lambda: "Closed: the run was erased." in message_text(api))
    assert "Review" not in str(api.message["blocks"])


def test_a_call_after_its_deadline_cannot_be_approved(api: SlackApi) -> None:
    """The deadline counts, also before a sweep has recorded the expiry."""

    @tool(approval=ApprovalPolicy(within=timedelta(seconds=0.2)))
    def pay(to: str) -> str:
        """Pay."""
        return f"paid {to}"

    runner, kim = set_up(api, ToolCall("pay", {"to": "Jane"}), [pay])
    view = kim.review("Your decision")
    asyncio.run(asyncio.sleep(0.3))
    kim.submit(view, "approve")
    api.view_with("Expired: the deadline passed before anyone decided.")
    api.wait_until(lambda: "Expired: the deadline" in message_text(api))
    lines = asyncio.run(runner.audit("r-1"))
    assert all(line.verdict == "expire" for line in lines)


def test_two_channels_share_a_store(api: SlackApi) -> None:
    """Each channel has a message of its own, and each is edited."""
    store = MemoryStore()
    both = [
        slack.Notifier(channel, client=api.client, store=store)
        for channel in ("C1", "C2")
    ]
    runner = make_runner(transfer_call(), [transfer], notify=NotifyAll(*both))
    wait = asyncio.run(start(runner))
    assert {sent["channel"] for sent in api.messages.values()} == {"C1", "C2"}
    asyncio.run(runner.decide(wait.id, Approve(by="kim")))
    for message in api.messages.values():
        assert "Approved by kim." in shown_text(message["blocks"])


def test_the_worker_edits_what_the_decider_could_not(
    api: SlackApi, tmp_path: Path
) -> None:
    """The id of a message is kept until its edit has succeeded."""
    runs, ids = f"file:{tmp_path / 'runs'}", f"file:{tmp_path / 'ids'}"
    notify = make_notifier(api, store=ids)
    worker = make_runner(transfer_call(), [transfer], store=runs, notify=notify)
    wait = asyncio.run(start(worker))
    decider = AsyncRunner([], store=runs, notify=make_notifier(api, store=ids))
    api.failures["chat.update"] = [Failure(error="not_in_channel")]
    asyncio.run(decider.decide(wait.id, Approve(by="kim")))
    assert "Review" in str(api.message["blocks"])
    asyncio.run(worker.resume("r-1"))
    assert "Approved by kim." in message_text(api)


async def test_a_decision_that_overtakes_the_post_edits_the_message(
    api: SlackApi,
) -> None:
    """The wait can be decided before Slack has answered."""
    api.failures["chat.postMessage"] = [Failure(delay=1.0)]
    runner = make_runner(transfer_call(), [transfer], notify=make_notifier(api))

    begun = asyncio.create_task(runner.start("Pay", run_id="r-1"))
    waits: list[Any] = []
    for _ in range(6000):
        waits = [wait async for wait in runner.waiting()]
        if waits:
            break
        await asyncio.sleep(0.01)
    await runner.decide(waits[0].id, Approve(by="kim"))
    assert not api.messages
    await begun
    assert "Approved by kim." in message_text(api)
    assert "Review" not in str(api.message["blocks"])


class BrokenStore(MemoryStore):
    """A store that fails."""

    async def read(self, key: str) -> bytes:
        """Fail."""
        raise StorageError(f"planted failure of {key}")


def test_a_failing_store_of_ids_is_a_failed_notification(api: SlackApi) -> None:
    """The run goes on, and the error says what failed."""
    policy = RecordedDelays().retry_policy()
    notify = make_notifier(api, store=BrokenStore(), retry_policy=policy)
    with pytest.raises(NotifyFailed, match="the store of Slack's message ids"):
        asyncio.run(notify(make_wait()))


def test_a_message_id_that_is_damaged_posts_another_message(api: SlackApi) -> None:
    """Bytes of others in the store raise nothing."""
    store, wait = MemoryStore(), make_wait()
    notify = make_notifier(api, store=store)
    asyncio.run(notify(wait))
    [key] = asyncio.run(store.keys("slack/"))
    asyncio.run(store.delete(key))
    asyncio.run(store.create(key, b"\xff"))
    asyncio.run(notify(wait))
    assert len(api.messages) == 2


@pytest.mark.parametrize("side", ["input", "output"])
def test_a_text_that_a_guardrail_stopped_is_judged_in_slack(
    api: SlackApi, side: str
) -> None:
    """The person reads the whole text, and the run goes on with the verdict."""

    def trips(_subject: Any) -> Tripped:
        return Tripped("it names money")

    ask = Guardrail(check=trips, on_trip="ask")
    rails = Guardrails(**{side: [ask]})
    agent = Agent("letters", model=ScriptedModel(["A refund."]), guardrails=rails)
    runner: Any = AsyncRunner(agent, store="memory:", notify=make_notifier(api))
    wait = single_wait(asyncio.run(runner.start("Refund me.", run_id="r-1")))
    assert wait.kind == side
    kim = Person(api=api, app=make_app(api, runner))
    view = kim.review("Your decision")
    whole = "Refund me." if side == "input" else "A refund."
    assert whole in shown_text(view["blocks"])
    kim.submit(view, "deny", "No.")
    api.view_with("Recorded: Denied")
    api.wait_until(lambda: "Denied by kim." in message_text(api))


def test_an_unknown_outcome_says_when_it_can_be_repeated() -> None:
    """Until then, the first call may still run, and no choice repeats it."""
    now = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
    wait = make_wait(
        id="unknown-01kaj0000000000000000000aa@jane-1",
        kind="unknown",
        approve_after=now + timedelta(minutes=10),
    )
    view = review_modal(
        wait, decider_of(wait, "kim"), now=now, origin=Origin(), link=None
    )
    assert "Available from" in shown_text(view["blocks"])
    [choice] = [b for b in view["blocks"] if b.get("block_id") == "choice"]
    offered = [option["value"] for option in choice["element"]["options"]]
    assert "approve" not in offered
    assert "deny" in offered


HOSTILE = [
    "<!channel> <@U1> <https://evil.example|Approve>",
    "`*bold*` ```code``` ~no~ :white_check_mark: &lt;!here&gt;",
    "\u202eevorppA\u202c\u200b\u2066",
    "line\nApproved by ceo.\n\r\t",
    "&amp;" * 20,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_only_a_text(api: SlackApi, text: str) -> None:
    """The server of these tests refuses foreign mrkdwn, mentions and emoji."""

    @tool(approval=True, summary="Send to {to}")
    def send(to: str) -> str:
        """Send."""
        return f"sent to {to}"

    runner, kim = set_up(api, ToolCall("send", {"to": text}), [send])
    view = kim.review("Your decision")
    shown = str(view) + str(api.messages)
    assert not set("\u202e\u202c\u200b\u2066\r\t") & set(shown)
    kim.submit(view, "deny", text)
    api.view_with("Recorded: Denied")
    api.wait_until(lambda: "Denied by kim." in message_text(api))
    [line] = asyncio.run(runner.audit("r-1"))
    assert line.reason == text.replace("\r\n", "\n")
