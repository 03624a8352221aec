"""Notifiers at work: called when a wait can be decided, and harmless when they fail."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

import pytest

from continuations import Approve, Finished, Runner, Suspended, tool
from continuations.errors import InvalidInput
from continuations.serve.mail import EmailNotifier
from continuations.serve.notify import All, Notifier, NotifyFailed
from continuations.serve.webhook import WebhookNotifier
from continuations_storage import MemoryStore
from tests.engine import offices
from tests.serve.receivers import (
    PRIVATE,
    SECRET,
    Hook,
    Pauses,
    Post,
    a_wait,
    answers,
    delivering,
    serving,
)

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from continuations.core.waits import Wait
    from tests.engine.scripts import Script

SCRIPT: Script = {"go": [[["pay", {"to": PRIVATE}]], "paid at last"]}


@pytest.fixture(autouse=True)
def ledgers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the script's model a ledger of its turns."""
    monkeypatch.setenv("TEST_TURNS", str(tmp_path / "turns"))


@pytest.fixture
def hook() -> Generator[Hook]:
    """Return a webhook that takes all."""
    with serving(Hook()) as hook:
        yield hook


@tool(approval=True)
def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {len(to)}"


def webhook(hook: Hook) -> WebhookNotifier:
    """Return a notifier of a webhook that does not sleep."""
    return WebhookNotifier(hook.url, SECRET, patience=Pauses().patience())


# With a runner ---------------------------------------------------------------------


def test_who_is_told_can_decide_at_once() -> None:
    """R-F1: the receiver decides over the store before it has even answered."""
    store = MemoryStore()
    posts: list[str] = []

    def decide() -> None:
        other = Runner([], store=store)
        [summary] = other.waiting()
        assert "suspended" == other.look("r").status
        other.decide(summary.id, Approve(by="kim"))
        posts.append(summary.id)

    with serving(Hook(on_post=decide)) as hook:
        runner = offices.runner(SCRIPT, pay, store=store, notify=webhook(hook))
        outcome = runner.start("go", run_id="r")

    assert isinstance(outcome, Finished)
    assert "paid at last" == outcome.output
    assert 1 == len(posts)


def test_a_failing_notifier_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """R-F2: the wait stands, is found and decided; the failure is in the log."""
    with serving(Hook((404, {}))) as hook:
        runner = offices.runner(SCRIPT, pay, notify=webhook(hook))
        outcome = runner.start("go", run_id="r")

    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    assert [wait.id] == [summary.id for summary in runner.waiting()]
    [record] = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert wait.id in record.getMessage()
    assert "it answered 404" in caplog.text
    for secret in (PRIVATE, SECRET, "SECRETPATH"):
        assert secret not in caplog.text

    runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(runner.resume("r"), Finished)


def test_a_wait_can_be_told_again() -> None:
    """R-F2: by whoever finds it later, under the same id."""
    with serving(Hook((404, {}))) as hook:
        runner = offices.runner(SCRIPT, pay, notify=webhook(hook))
        runner.start("go", run_id="r")
        [summary] = runner.waiting()
        asyncio.run(webhook(hook)(runner.wait(summary.id)))

    lost, told = hook.posted
    assert lost.headers["webhook-id"] == told.headers["webhook-id"]
    assert lost.body == told.body


def test_a_mail_for_each_of_two_waits() -> None:
    """R-F1: each wait has a mail of its own."""
    script: Script = {"go": [[["pay", {"to": "a"}], ["pay", {"to": "b"}]], "end"]}
    with delivering(Post()) as post:
        notifier = EmailNotifier(
            "localhost",
            post.port,
            "agents@example.com",
            "kim@example.com",
            security="none",
        )
        outcome = offices.runner(script, pay, notify=notifier).start("go", run_id="r")

    assert isinstance(outcome, Suspended)
    assert 2 == len({mail["message-id"] for mail in post.mails})
    texts = "\n".join(mail.get_content() for mail in post.mails)
    assert all(wait.id in texts for wait in outcome.waits)


# Several at once -------------------------------------------------------------------


class Broken:
    """Somebody's own notifier, with a fault and a secret."""

    async def __call__(self, wait: Wait) -> None:
        """Raise."""
        raise ValueError(f"{wait.run_id} SECRETVALUE")


def test_each_is_told_whatever_the_others_do(hook: Hook) -> None:
    """R-F2: and all failures are reported together."""
    told: list[str] = []

    def plain(wait: Wait) -> None:
        told.append(wait.id)

    with serving(Hook((410, {}))) as gone:
        everybody: Notifier = All(webhook(gone), Broken(), plain, webhook(hook))
        with pytest.raises(NotifyFailed) as caught:
            asyncio.run(_telling(everybody))

    assert ([a_wait().id], 1, 1) == (told, len(hook.posted), len(gone.posted))
    text = str(caught.value)
    assert "2 of 4 notifiers failed" in text
    assert "it answered 410" in text
    assert "ValueError" in text
    assert "SECRETVALUE" not in text
    group = caught.value.__cause__
    assert isinstance(group, ExceptionGroup)
    failures = cast("ExceptionGroup[Exception]", group).exceptions
    assert [NotifyFailed, ValueError] == [type(each) for each in failures]


async def _telling(notifier: Notifier) -> None:
    await notifier(a_wait())


def test_whether_it_may_do_better_by_itself() -> None:
    """R-F2: it may, if one of the failures may."""
    for statuses, retryable in (([404], False), ([404, 503], True)):
        hooks = [Hook(*answers(status, 3)) for status in statuses]
        with pytest.raises(NotifyFailed) as caught:
            _all(hooks)
        assert retryable == caught.value.retryable


def _all(hooks: list[Hook], told: tuple[Hook, ...] = ()) -> None:
    if hooks:
        with serving(hooks[0]) as hook:
            _all(hooks[1:], (*told, hook))
    else:
        asyncio.run(_telling(All(*map(webhook, told))))


def test_all_of_them_are_told(hook: Hook) -> None:
    """R-F1: silently."""
    asyncio.run(_telling(All(webhook(hook), All(webhook(hook)))))

    assert 2 == len(hook.posted)


@pytest.mark.parametrize(
    "error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
def test_a_notifier_that_raises_anything(
    hook: Hook, error: type[BaseException]
) -> None:
    """R-F2: a fault of that notifier, not the end of the process."""

    async def faulty(_: Wait) -> None:
        raise error

    with pytest.raises(NotifyFailed, match=error.__name__):
        asyncio.run(_telling(All(faulty, webhook(hook))))

    assert 1 == len(hook.posted)


def test_a_telling_that_is_cancelled_ends() -> None:
    """Whoever gives up is obeyed: it is no failure of a notifier."""

    async def forever(_: Wait) -> None:
        await asyncio.Event().wait()

    async def given_up() -> None:
        async with asyncio.timeout(0.05):
            await All(forever, forever)(a_wait())

    with pytest.raises(TimeoutError):
        asyncio.run(given_up())


def test_all_of_none() -> None:
    """Refused when it is made: it would tell nobody."""
    with pytest.raises(InvalidInput):
        All()
    with pytest.raises(InvalidInput):
        All("https://example.com/")  # type: ignore[arg-type]


def test_a_repr_names_the_receivers(hook: Hook) -> None:
    """And no more of them than may be seen."""
    shown = repr(All(webhook(hook), Broken()))

    assert "WebhookNotifier http://127.0.0.1" in shown
    assert "SECRETPATH" not in shown
