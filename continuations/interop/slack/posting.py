"""A notifier that posts a message for each wait, and edits it when the wait ends.

Foreign text is `plain_text` without emoji, and its invisible characters are escapes. So
it is no mention and no link, and it cannot imitate another block. Nothing is cut.
"""

from __future__ import annotations

import re
from contextlib import suppress
from html import escape
from http.client import HTTPException
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.models import blocks as kit

from continuations import open_store
from continuations.errors import InvalidInput
from continuations.serve import wait_texts
from continuations.serve.notify import delivery
from continuations.serve.notify.notifier import DecisionNotice, Notice, NotifyFailed
from continuations.serve.option_checks import check_type
from continuations_storage import AlreadyExists, NotFound, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from slack_sdk.web import SlackResponse

    from continuations import Wait
    from continuations.results import Decision
    from continuations_storage import Store
    from continuations_storage.retries import RetryPolicy


# How a wait ends without a decision of a person.
ENDINGS = {
    "expire": "Expired: the deadline passed before anyone decided.",
    "cancel": "Closed: the run was cancelled, has failed or was changed.",
    "erase": "Closed: the run was erased.",
}
# The ids by which the handler knows the button, and the first line.
REVIEW, HEADLINE = "continuations_review", "headline"
_MAX_SECTION, _MAX_HEADER, _MAX_CONTEXT = 3000, 150, 2000


class DoesNotFit(Exception):
    """Slack would refuse the content."""


class Message(NamedTuple):
    """A message: the text of its notification, and its blocks."""

    text: str
    blocks: list[dict[str, Any]]


# Texts ----------------------------------------------------------------------------


def plain(text: str, limit: int = _MAX_SECTION) -> kit.PlainTextObject:
    """Return a text on one line, as it is; raise `DoesNotFit` if it is too long.

    A blank text does not fit either: Slack refuses it.
    """
    return _plain_text(wait_texts.escape_invisible(text), limit)


def _plain_text(shown: str, limit: int) -> kit.PlainTextObject:
    if not shown.strip() or size(shown) > limit:
        raise DoesNotFit
    return kit.PlainTextObject(text=escaped(shown), emoji=False)


def escaped(text: str) -> str:
    """Return a text with the three characters escaped that Slack decodes."""
    return escape(text, quote=False)


def size(text: str) -> int:
    """Return the most that Slack may count: UTF-16 units, with `&amp;` for `&`."""
    return len(escaped(text).encode("utf-16-le")) // 2


def as_json(shown: Any) -> dict[str, Any]:
    """Return a block or modal as JSON values; raises if it exceeds a limit."""
    form: dict[str, Any] = shown.to_dict()
    return form


def section(text: str) -> kit.Block:
    """Return a paragraph, which keeps its lines."""
    lines = map(wait_texts.escape_invisible, text.split("\n"))
    return kit.SectionBlock(text=_plain_text("\n".join(lines), _MAX_SECTION))


def context(*texts: str) -> Iterator[kit.Block]:
    """Yield a line in small letters of the texts that are not empty."""
    elements = [plain(text, _MAX_CONTEXT) for text in texts if text]
    if elements:
        yield kit.ContextBlock(elements=elements)


def heading(text: str) -> kit.Block:
    """Return the first line of a message or modal."""
    if size(wait_texts.escape_invisible(text)) <= _MAX_HEADER:
        return kit.HeaderBlock(text=plain(text), block_id=HEADLINE)
    return kit.SectionBlock(text=plain(text), block_id=HEADLINE)


# Messages -------------------------------------------------------------------------


def headline(wait: Wait, *, with_title: bool) -> str:
    """Return the first line of a message about a wait, whole."""
    texts = (
        (wait_texts.title_of(wait), wait_texts.question(wait))
        if with_title
        else (wait_texts.question(wait),)
    )
    for text in texts:
        if text and size(wait_texts.escape_invisible(text)) <= _MAX_SECTION:
            return text
    return "A call waits for you"


def open_message(wait: Wait, *, with_title: bool) -> Message:
    """Return the message about an open wait: its title, deadline and button."""
    view, title = wait_texts.wait_view(wait), headline(wait, with_title=with_title)
    notice = wait.notice.partition("-")[0]
    label = {"escalated": "Escalated to you.", "reminder": "Reminder."}.get(notice, "")
    button = kit.ButtonElement(
        text=plain("Review"), action_id=REVIEW, value=wait.id, style="primary"
    )
    blocks = [
        heading(title),
        *context(label, *facts(wait), view.reversal),
        *_deadline(wait, view),
        kit.ActionsBlock(elements=[button]),
    ]
    return _message(f"{title} Run {wait.run_id} waits for you.", blocks)


def facts(wait: Wait) -> tuple[str, str]:
    """Return who asked, and the run."""
    requester = f"Requested by {wait.requester}" if wait.requester else ""
    return requester, f"Run {wait.run_id}"


def _deadline(wait: Wait, view: wait_texts.WaitView) -> Iterator[kit.Block]:
    """Yield the deadline in the time zone of the reader."""
    if wait.deadline is None or view.deadline is None:
        return
    seconds = int(wait.deadline.timestamp())
    form = "{date_short_pretty} {time}"
    when = f"<!date^{seconds}^{form}|{view.deadline.text}>"
    text = kit.MarkdownTextObject(text=f"{view.deadline_label} {when}", verbatim=True)
    yield kit.ContextBlock(elements=[text])


def ended_message(title: str, run_id: str, ending: str) -> Message:
    """Return the message about a wait that has ended: no button, and who decided."""
    blocks = [heading(title), *context(f"Run {run_id}"), section(ending)]
    return _message(f"{title} {ending}", blocks)


def _message(text: str, blocks: Iterable[kit.Block]) -> Message:
    # The text is mrkdwn: an escaped text is no mention.
    shown = escaped(wait_texts.escape_invisible(text))
    return Message(shown, [as_json(block) for block in blocks])


def ending_text(ended: Decision | DecisionNotice) -> str:
    """Return who decided what, in one sentence."""
    if ended.kind is None:
        return "Closed: no decision is needed any more."
    if ended.kind in ENDINGS:
        return ENDINGS[ended.kind]
    if isinstance(ended, DecisionNotice):
        edited = ended.edited
    else:
        edited = ended.arguments is not None
    who = wait_texts.decider_text(ended) or "a program"
    changed = ", with changed arguments" if edited else ""
    return f"{wait_texts.DECISION_WORDS[ended.kind]} by {who}{changed}."


_RETRYABLE_ERRORS = {
    *("ratelimited", "rate_limited", "internal_error", "fatal_error"),
    *("service_unavailable", "request_timeout"),
}
_GONE = ("message_not_found", "channel_not_found", "cant_update_message")
_TOO_MANY, _SERVER_ERROR = 429, 500
_MAX_ENDED = 1000


class Notifier:
    """Post a message about each open wait, with a button that opens its modal.

    A repeat edits the message that is there. A reminder or an escalation is a message
    of its own. When a wait ends by any door, its messages change to who decided what.

    Args:
        channel: The id of the channel, for example `C0123456789`. Add the app to the
            channel.
        token: The bot token of the app (`xoxb-…`), with the scope `chat:write`.
        client: A `slack_sdk.WebClient` in place of the token, for a proxy or another
            address. Pass `retry_handlers=[]`, because `retry_policy` tries again.
        store: Where the ids of the messages are kept until their waits end: a URL as of
            `open_store`, or a store. The default is the memory of this process, so only
            this process edits its messages.
        with_title: Show the title of the call, which may contain arguments. With False,
            the message names the tool only.
        timeout: The time limit of one attempt, in seconds.
        retry_policy: How often and when to try again.

    Raises:
        InvalidInput: An option is invalid.
    """

    def __init__(
        self,
        channel: str,
        *,
        token: str | None = None,
        client: WebClient | None = None,
        store: str | Store | None = None,
        with_title: bool = True,
        timeout: float = 5.0,
        retry_policy: RetryPolicy = delivery.NOTIFY_RETRY_POLICY,
    ) -> None:
        check_type("channel", channel, str, "the id of a channel")
        if re.fullmatch(r"[A-Z0-9]+", channel) is None:
            msg = f"channel must be the id of a channel, got {channel!r:.100}. Copy "
            raise InvalidInput(f"{msg}the id from the details of the channel in Slack.")
        self._channel = channel
        if store is None or isinstance(store, str):
            store = open_store(store or "memory:")
        self._store = store
        self._with_title = with_title
        # The last messages about ended waits: a decision may overtake a slow post.
        self._ended: dict[str, dict[str, Any]] = {}
        self._delivery = delivery.Delivery(
            receiver="Slack", timeout=timeout, retry_policy=retry_policy
        )
        self._client: Any = client_of(
            token, client, retry_handlers=[], timeout=ceil(timeout)
        )

    def __repr__(self) -> str:
        return f"<slack.Notifier {self._channel}>"

    async def __call__(self, wait: Wait) -> None:
        """Post the message of a wait, or edit the one that was posted before.

        Args:
            wait: The open wait.

        Raises:
            NotifyFailed: Slack did not accept the message, or its id was not stored.
        """
        message = open_message(wait, with_title=self._with_title)
        content: dict[str, Any] = {"text": message.text, "blocks": message.blocks}
        key = f"{self._prefix(wait)}{wait.notice}"
        try:
            posted = await self._read(key)
            if posted is not None and await self._update(wait, posted, content):
                return
            response = await self._call(
                wait,
                self._client.chat_postMessage,
                channel=self._channel,
                unfurl_links=False,
                unfurl_media=False,
                **content,
            )
            await self._keep(key, response)
            if wait.id in self._ended:
                await self._edit_all(wait, self._ended[wait.id])
        except StorageError as error:
            raise _store_failed(wait, error) from error

    async def on_notice(self, notice: Notice) -> None:
        """Edit the messages of a wait that has ended.

        Args:
            notice: The notice; one about a run changes nothing.

        Raises:
            NotifyFailed: Slack did not accept the edit, or the ids were not read.
        """
        if not isinstance(notice, DecisionNotice):
            return
        wait = notice.wait
        title = headline(wait, with_title=self._with_title)
        message = ended_message(title, wait.run_id, ending_text(notice))
        content = {"text": message.text, "blocks": message.blocks}
        self._ended[wait.id] = content
        if len(self._ended) > _MAX_ENDED:
            self._ended.pop(next(iter(self._ended)))
        try:
            await self._edit_all(wait, content)
        except StorageError as error:
            raise _store_failed(wait, error) from error

    async def _edit_all(self, wait: Wait, content: Mapping[str, Any]) -> None:
        """Edit the messages of a wait, and forget the ids of those that are edited."""
        for key in await self._store.keys(self._prefix(wait)):
            posted = await self._read(key)
            if posted is not None:
                await self._update(wait, posted, content)
            await self._store.delete(key)

    def _prefix(self, wait: Wait) -> str:
        return f"slack/{self._channel}/{wait.id}/"

    async def _read(self, key: str) -> tuple[str, str] | None:
        """Return the channel and the id of a message that was posted before."""
        try:
            data = await self._store.read(key)
        except NotFound:
            return None
        channel, _, ts = data.decode(errors="replace").partition(" ")
        return channel, ts

    async def _keep(self, key: str, response: SlackResponse) -> None:
        posted = f"{response.get('channel')} {response.get('ts')}"
        await self._store.delete(key)
        with suppress(AlreadyExists):  # another process posted at the same time
            await self._store.create(key, posted.encode())

    async def _update(
        self, wait: Wait, posted: tuple[str, str], content: Mapping[str, Any]
    ) -> bool:
        """Edit a message; return whether it still exists."""
        channel, ts = posted
        response = await self._call(
            wait, self._client.chat_update, channel=channel, ts=ts, **content
        )
        return response is not None

    async def _call(
        self, wait: Wait, method: Callable[..., SlackResponse], **arguments: Any
    ) -> Any:
        """Call a method of the Web API; return `None` if the message is gone."""
        responses: list[SlackResponse | None] = []
        await self._delivery.deliver(
            wait, lambda _: responses.append(_attempt(method, arguments))
        )
        return responses[-1]


def client_of(token: str | None, client: WebClient | None, **options: Any) -> WebClient:
    """Return the client; raise `InvalidInput` unless there is one token."""
    check_type("token", token, str | None, "the bot token of the app")
    check_type("client", client, WebClient | None, "a slack_sdk.WebClient or None")
    if client is not None and token is None and client.token:
        return client
    if client is not None or not token or not token.isascii():
        msg = "token must be the bot token of the app (xoxb-…), or client a WebClient "
        raise InvalidInput(f"{msg}that has one. Pass one of them.")
    return WebClient(token=token, **options)


def error_code(error: Exception) -> str:
    """Return the code of an error of the Web API, or the name of another error."""
    if not isinstance(error, SlackApiError):
        return type(error).__name__
    response: Any = _response_of(error)
    code: Any = response.get("error") if hasattr(response, "get") else None
    is_code = isinstance(code, str) and re.fullmatch(r"[a-z_]{1,60}", code) is not None
    return str(code) if is_code else "no JSON of the Web API"


def _response_of(error: Any) -> Any:
    return error.response


def _attempt(
    method: Callable[..., SlackResponse], arguments: Mapping[str, Any]
) -> SlackResponse | None:
    try:
        return method(**arguments)
    except SlackApiError as error:
        code = error_code(error)
        if code in _GONE and "ts" in arguments:
            return None
        raise _failed(error, code) from None
    except SlackClientError as error:
        reason = type(error).__name__
        raise delivery.DeliveryAttemptFailed(reason, retryable=False) from None
    except (HTTPException, ValueError) as error:
        reason = f"the response is not one of the Web API ({type(error).__name__})"
        raise delivery.DeliveryAttemptFailed(reason, retryable=True) from None


def _failed(error: SlackApiError, code: str) -> delivery.DeliveryAttemptFailed:
    response = _response_of(error)
    status = getattr(response, "status_code", 0)
    headers = getattr(response, "headers", {})
    after = str(headers.get("Retry-After", headers.get("retry-after", "")))
    is_temporary = status == _TOO_MANY or status >= _SERVER_ERROR
    return delivery.DeliveryAttemptFailed(
        f"error {code}",
        retryable=is_temporary or code in _RETRYABLE_ERRORS,
        retry_after=float(after) if after.isascii() and after.isdigit() else 0.0,
    )


def _store_failed(wait: Wait, error: StorageError) -> NotifyFailed:
    detail = f"the store of Slack's message ids ({type(error).__name__})"
    return NotifyFailed(wait, detail, retryable=True)
