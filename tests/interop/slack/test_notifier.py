"""`slack.Notifier`: repeats, failures, and messages that another process edits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from slack_sdk import WebClient

from continuations import ApprovalPolicy, Approve, AsyncRunner, tool
from continuations.errors import InvalidInput
from continuations.interop import slack
from continuations.models.scripted import ToolCall
from continuations.serve.notify.notifier import NotifyFailed
from tests.clocks import OffsetClock
from tests.interop.slack.set_up import make_notifier
from tests.interop.slack.waiting_agents import (
    PIN,
    make_runner,
    start,
    transfer,
    transfer_call,
)
from tests.interop.slack.web_api import CHANNEL, TOKEN, Failure, SlackApi, shown_text
from tests.outcomes import single_wait
from tests.serve.notify.receivers import RecordedDelays, make_wait


def notify(api: SlackApi, wait: Any = None, **options: Any) -> NotifyFailed:
    """Return the error of a notification."""
    notifier = make_notifier(
        api, retry_policy=RecordedDelays().retry_policy(), **options
    )
    with pytest.raises(NotifyFailed) as caught:
        asyncio.run(notifier(wait or make_wait()))
    return caught.value


def test_a_repeat_edits_the_message_that_is_there(api: SlackApi) -> None:
    """A wait that is notified twice has one message, also after it was deleted."""
    notifier = make_notifier(api)
    for _ in range(2):
        asyncio.run(notifier(make_wait()))
    assert api.names() == ["chat.postMessage", "chat.update"]
    api.messages.clear()
    asyncio.run(notifier(make_wait()))
    assert len(api.messages) == 1


def test_a_reminder_is_a_message_of_its_own_and_all_are_edited(api: SlackApi) -> None:
    """After the decision no message has a button."""
    notifier = make_notifier(api)
    runner = make_runner(transfer_call(), [transfer], notify=notifier)
    wait = asyncio.run(start(runner))
    reminder: Any = make_wait(id=wait.id, run_id=wait.run_id, notice="reminder-1")
    asyncio.run(notifier(reminder))
    assert "Reminder." in shown_text(list(api.messages.values())[1]["blocks"])
    asyncio.run(runner.decide(wait.id, Approve(by="kim")))
    for message in api.messages.values():
        assert "Approved by kim." in shown_text(message["blocks"])
        assert "Review" not in str(message["blocks"])


def test_another_process_edits_the_message_with_the_shared_store(
    api: SlackApi, tmp_path: Path
) -> None:
    """The ids of messages survive the process that posted them."""
    store = f"file:{tmp_path / 'slack'}"
    runs = f"file:{tmp_path / 'runs'}"
    runner = make_runner(
        transfer_call(), [transfer], store=runs, notify=make_notifier(api, store=store)
    )
    wait = asyncio.run(start(runner))
    other = AsyncRunner([], store=runs, notify=make_notifier(api, store=store))
    asyncio.run(other.decide(wait.id, Approve(by="lee")))
    assert "Approved by lee." in shown_text(api.message["blocks"])
    asyncio.run(runner.resume("r-1"))
    assert api.names().count("chat.update") == 1


def test_an_expiry_edits_the_message(api: SlackApi) -> None:
    """The sweep that records the expiry edits the message."""

    @tool(approval=ApprovalPolicy(within=timedelta(hours=1)))
    def pay(to: str) -> str:
        """Pay."""
        return f"paid {to}"

    clock = OffsetClock()
    call = ToolCall("pay", {"to": "Jane"})
    runner = make_runner(call, [pay], notify=make_notifier(api), clock=clock)
    wait = asyncio.run(start(runner))
    assert wait.deadline is not None
    assert f"<!date^{int(wait.deadline.timestamp())}^" in shown_text(
        api.message["blocks"]
    )
    clock.offset_seconds = 7200
    asyncio.run(runner.sweep())
    assert "Expired: the deadline" in shown_text(api.message["blocks"])


def test_a_run_does_not_fail_because_of_slack(
    api: SlackApi, caplog: pytest.LogCaptureFixture
) -> None:
    """The wait is stored, and the failure is logged without the token."""
    api.failures["chat.postMessage"] = [Failure(error="not_in_channel")]
    runner = make_runner(transfer_call(), [transfer], notify=make_notifier(api))
    wait = single_wait(asyncio.run(runner.start("Pay", run_id="r-1")))
    assert "Slack: error not_in_channel" in caplog.text
    assert TOKEN not in caplog.text
    assert PIN not in caplog.text
    asyncio.run(runner.notify(wait.id))
    assert len(api.messages) == 1


@pytest.mark.parametrize(
    ("failure", "is_retried"),
    [
        (Failure(error="ratelimited", status=429, headers={"Retry-After": "1"}), True),
        (Failure(error="internal_error"), True),
        (Failure(error="fatal_error", status=503), True),
        (Failure(error="channel_not_found"), False),
        (Failure(error="invalid_auth"), False),
        (Failure(error="<html>" * 20), False),
    ],
)
def test_temporary_errors_are_tried_again(
    api: SlackApi, failure: Failure, *, is_retried: bool
) -> None:
    """Every other error is final; its text has no content of the answer."""
    api.failures["chat.postMessage"] = [failure] * 9
    error = notify(api)
    assert error.retryable == is_retried
    assert len(api.calls) == (3 if is_retried else 1)
    assert "<html>" not in str(error)
    assert "Call runner.notify(wait_id)" in str(error)


def test_a_server_that_hangs_or_is_away_is_given_up(api: SlackApi) -> None:
    """The time limit counts for the whole attempt."""
    api.failures["chat.postMessage"] = [Failure(delay=30.0)] * 9
    assert "no response within 0.05 s" in str(notify(api, timeout=0.05))
    client = WebClient(TOKEN, base_url="http://127.0.0.1:9/api/", retry_handlers=[])
    away = slack.Notifier(
        CHANNEL, client=client, retry_policy=RecordedDelays().retry_policy()
    )
    with pytest.raises(NotifyFailed, match="Slack: "):
        asyncio.run(away(make_wait()))


def test_without_a_title_the_message_names_the_tool_only(api: SlackApi) -> None:
    """For a channel whose members may not read arguments."""
    notifier = make_notifier(api, with_title=False)
    runner = make_runner(transfer_call(), [transfer], notify=notifier)
    wait = asyncio.run(start(runner))
    asyncio.run(runner.decide(wait.id, Approve(by="kim")))
    assert "Meridian" not in str(api.calls)
    assert "Approve transfer?" in shown_text(api.message["blocks"])


def test_a_title_mentions_nobody(api: SlackApi) -> None:
    """Slack reads `<!channel>` only in the text of the notification."""
    call = transfer_call(to="<!channel> & <@U1> :boom: \u202e")
    runner = make_runner(call, [transfer], notify=make_notifier(api))
    asyncio.run(start(runner))
    assert "&lt;!channel&gt; &amp; &lt;@U1&gt;" in api.message["text"]
    assert "\u202e" not in str(api.message)
    [heading, *_] = api.message["blocks"]
    assert heading["text"]["type"] == "plain_text"
    assert heading["text"]["emoji"] is False


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((7,), {"token": TOKEN}, "channel must be the id of a channel"),
        (("",), {"token": TOKEN}, "channel must be the id of a channel, got ''"),
        (("#general",), {"token": TOKEN}, "Copy the id from the details"),
        ((CHANNEL,), {}, "token must be"),
        ((CHANNEL,), {"client": WebClient()}, "token must be"),
        ((CHANNEL,), {"token": TOKEN, "timeout": 0}, "timeout must be"),
    ],
)
def test_an_option_that_is_wrong_is_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], text: str
) -> None:
    """The error names the option, and never shows the token."""
    with pytest.raises(InvalidInput, match=text) as caught:
        slack.Notifier(*arguments, **options)
    assert TOKEN not in str(caught.value)
    assert TOKEN not in repr(slack.Notifier(CHANNEL, token=TOKEN))


def test_a_wait_of_the_far_future_has_a_deadline(api: SlackApi) -> None:
    """The last day that exists is a time too."""
    deadline = datetime.max.replace(tzinfo=UTC)
    asyncio.run(make_notifier(api)(make_wait(deadline=deadline)))
    assert "31 Dec 9999" in shown_text(api.message["blocks"])
