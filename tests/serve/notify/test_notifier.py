"""Notifiers of a runner: called for every open wait, and harmless if they fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from pathlib import Path
from typing import cast

import pytest

from continuations import Approve, Finished, Runner, Suspended, tool
from continuations.core.rows.waits import Wait
from continuations.errors import InvalidInput
from continuations.serve.notify.mail import EmailNotifier
from continuations.serve.notify.notifier import Notifier, NotifyAll, NotifyFailed
from continuations.serve.notify.webhook import WebhookNotifier
from continuations_storage import MemoryStore
from tests.engine import agent_builders
from tests.scripts import Script
from tests.serve.notify.receivers import (
    PRIVATE_ARGUMENT,
    SECRET,
    MailServer,
    RecordedDelays,
    WebhookReceiver,
    make_wait,
    repeated_responses,
    serve_mail,
    serve_webhook,
)

SCRIPT: Script = {"go": [[["pay", {"to": PRIVATE_ARGUMENT}]], "paid at last"]}


@pytest.fixture(autouse=True)
def turn_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the file in which the model records its turns."""
    monkeypatch.setenv("TEST_TURNS", str(tmp_path / "turns"))


@pytest.fixture
def receiver() -> Generator[WebhookReceiver]:
    """Serve a webhook that accepts every event."""
    with serve_webhook(WebhookReceiver()) as receiver:
        yield receiver


@tool(approval=True)
def pay(to: str) -> str:
    """Pay a person."""
    return f"paid {len(to)}"


def webhook_notifier(receiver: WebhookReceiver) -> WebhookNotifier:
    """Return a notifier that does not sleep between attempts."""
    return WebhookNotifier(
        receiver.url, SECRET, retry_policy=RecordedDelays().retry_policy()
    )


# With a runner ------------------------------------------------------------------


def test_wait_can_be_decided_during_the_notification() -> None:
    """The receiver decides before it responds."""
    store = MemoryStore()
    posts: list[str] = []

    def decide() -> None:
        other = Runner([], store=store)
        [summary] = other.waiting()
        assert "suspended" == other.look("r").status
        other.decide(summary.id, Approve(by="kim"))
        posts.append(summary.id)

    with serve_webhook(WebhookReceiver(on_post=decide)) as receiver:
        runner = agent_builders.make_runner(
            SCRIPT, pay, store=store, notify=webhook_notifier(receiver)
        )
        outcome = runner.start("go", run_id="r")

    assert isinstance(outcome, Finished)
    assert "paid at last" == outcome.output
    assert 1 == len(posts)


def test_failed_notification_is_logged_and_loses_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The wait is listed and can be decided."""
    with serve_webhook(WebhookReceiver((404, {}))) as receiver:
        runner = agent_builders.make_runner(
            SCRIPT, pay, notify=webhook_notifier(receiver)
        )
        outcome = runner.start("go", run_id="r")

    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    assert [wait.id] == [summary.id for summary in runner.waiting()]
    [record] = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert wait.id in record.getMessage()
    assert "HTTP status 404" in caplog.text
    for secret in (PRIVATE_ARGUMENT, SECRET, "SECRETPATH"):
        assert secret not in caplog.text

    runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(runner.resume("r"), Finished)


def test_repeated_notification_has_the_same_id() -> None:
    """Also from another process."""
    with serve_webhook(WebhookReceiver((404, {}))) as receiver:
        runner = agent_builders.make_runner(
            SCRIPT, pay, notify=webhook_notifier(receiver)
        )
        runner.start("go", run_id="r")
        [summary] = runner.waiting()
        asyncio.run(webhook_notifier(receiver)(runner.wait(summary.id)))

    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


def test_each_wait_gets_its_own_mail() -> None:
    script: Script = {"go": [[["pay", {"to": "a"}], ["pay", {"to": "b"}]], "end"]}
    with serve_mail(MailServer()) as post:
        notifier = EmailNotifier(
            "localhost",
            post.port,
            "agents@example.com",
            "kim@example.com",
            security="none",
        )
        outcome = agent_builders.make_runner(script, pay, notify=notifier).start(
            "go", run_id="r"
        )

    assert isinstance(outcome, Suspended)
    assert 2 == len({mail["message-id"] for mail in post.mails})
    texts = "\n".join(mail.get_content() for mail in post.mails)
    assert all(wait.id in texts for wait in outcome.waits)


# NotifyAll ----------------------------------------------------------------------


class FailingNotifier:
    """A notifier that raises an error with a secret."""

    async def __call__(self, wait: Wait) -> None:
        """Raise `ValueError`."""
        raise ValueError(f"{wait.run_id} SECRETVALUE")


def test_all_notifies_every_notifier_despite_failures(
    receiver: WebhookReceiver,
) -> None:
    """All failures are reported together."""
    notified: list[str] = []

    def plain(wait: Wait) -> None:
        notified.append(wait.id)

    with serve_webhook(WebhookReceiver((410, {}))) as gone:
        notifier: Notifier = NotifyAll(
            webhook_notifier(gone), FailingNotifier(), plain, webhook_notifier(receiver)
        )
        with pytest.raises(NotifyFailed) as caught:
            asyncio.run(_notify(notifier))

    assert ([make_wait().id], 1, 1) == (
        notified,
        len(receiver.received),
        len(gone.received),
    )
    text = str(caught.value)
    assert "2 of 4 notifiers failed" in text
    assert "HTTP status 410" in text
    assert "ValueError" in text
    assert "SECRETVALUE" not in text
    group = caught.value.__cause__
    assert isinstance(group, ExceptionGroup)
    failures = cast("ExceptionGroup[Exception]", group).exceptions
    assert [NotifyFailed, ValueError] == [type(each) for each in failures]


async def _notify(notifier: Notifier) -> None:
    await notifier(make_wait())


def test_all_is_retryable_if_one_failure_is() -> None:
    for statuses, retryable in (([404], False), ([404, 503], True)):
        hooks = [WebhookReceiver(*repeated_responses(status, 3)) for status in statuses]
        with pytest.raises(NotifyFailed) as caught:
            _notify_all(hooks)
        assert retryable == caught.value.retryable


def _notify_all(
    hooks: list[WebhookReceiver], running: tuple[WebhookReceiver, ...] = ()
) -> None:
    if hooks:
        with serve_webhook(hooks[0]) as receiver:
            _notify_all(hooks[1:], (*running, receiver))
    else:
        asyncio.run(_notify(NotifyAll(*map(webhook_notifier, running))))


def test_nested_all_notifies_every_notifier(receiver: WebhookReceiver) -> None:
    asyncio.run(
        _notify(
            NotifyAll(webhook_notifier(receiver), NotifyAll(webhook_notifier(receiver)))
        )
    )

    assert 2 == len(receiver.received)


@pytest.mark.parametrize(
    "error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
def test_any_exception_of_a_notifier_is_notify_failed(
    receiver: WebhookReceiver, error: type[BaseException]
) -> None:
    """SystemExit and KeyboardInterrupt of a notifier do not end the process."""

    async def faulty(_: Wait) -> None:
        raise error

    with pytest.raises(NotifyFailed, match=error.__name__):
        asyncio.run(_notify(NotifyAll(faulty, webhook_notifier(receiver))))

    assert 1 == len(receiver.received)


def test_cancelled_notification_ends() -> None:
    """The cancellation of the caller is not a failure of a notifier."""

    async def forever(_: Wait) -> None:
        await asyncio.Event().wait()

    async def notify_with_timeout() -> None:
        async with asyncio.timeout(0.05):
            await NotifyAll(forever, forever)(make_wait())

    with pytest.raises(TimeoutError):
        asyncio.run(notify_with_timeout())


def test_all_without_notifiers_is_rejected() -> None:
    with pytest.raises(InvalidInput):
        NotifyAll()
    with pytest.raises(InvalidInput):
        NotifyAll("https://example.com/")  # type: ignore[arg-type]


def test_repr_names_the_receivers(receiver: WebhookReceiver) -> None:
    """The repr does not contain the path of a URL, which may be a secret."""
    shown = repr(NotifyAll(webhook_notifier(receiver), FailingNotifier()))

    assert "WebhookNotifier http://127.0.0.1" in shown
    assert "SECRETPATH" not in shown
