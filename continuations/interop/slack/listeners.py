"""The listeners of an app of Slack: show a wait in a modal, and record its decision.

A click or a submission is acknowledged before the store is asked: the modal says that
the call is being read, or that the decision is being recorded. A lazy listener does the
rest and changes the modal. In AWS Lambda, it is an invocation of its own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from html import unescape
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, TypeVar

from slack_bolt import App, BoltResponse
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.lazy_listener.thread_runner import ThreadLazyListenerRunner
from slack_bolt.middleware import RequestVerification
from slack_sdk import WebClient
from slack_sdk.errors import SlackClientError
from slack_sdk.http_retry.builtin_handlers import (
    ConnectionErrorRetryHandler,
    RateLimitErrorRetryHandler,
)

from continuations.errors import InvalidInput
from continuations.interop.slack import posting
from continuations.interop.slack.decisions import Decisions, Reply, run_of
from continuations.interop.slack.modal import (
    DECIDE,
    OPEN_PAGE,
    Malformed,
    Origin,
    read_submission,
    text_modal,
)
from continuations.serve.option_checks import (
    check_async_runner,
    check_callable,
    check_dispatcher,
    check_type,
)
from continuations.serve.rights import Can, Rights

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from slack_bolt import Ack, BoltRequest

    from continuations import AsyncRunner
    from continuations.interop.slack.decisions import MakeLink, Users
    from continuations.serve.dispatch import Dispatcher

T = TypeVar("T")
_log = logging.getLogger("continuations")
_READING = ("Reading the call …", "This takes a moment if the store is slow.")
_RECORDING = ("Recording your decision …", "You may close this window.")
# Slack waits three seconds for the acknowledgement, and so long is a trigger valid.
_OPEN_TIMEOUT = 2
# When Slack has the acknowledgement of a submission, in seconds.
_ACKNOWLEDGED_AFTER = 1.0
_MAX_THREADS = 32


def handler(  # noqa: PLR0913 - what an application may choose, all by keyword
    runner: AsyncRunner,
    *,
    users: Users,
    token: str | None = None,
    signing_secret: str = "",
    client: WebClient | None = None,
    can: Can | None = None,
    link: MakeLink | None = None,
    dispatcher: Dispatcher | None = None,
    process_before_response: bool = False,
) -> App:
    """Return an app of `slack_bolt` that answers the button of `Notifier`.

    An adapter of that package serves it. The functions `users`, `can` and `link` are
    called on an event loop in a thread of the app.

    Args:
        runner: The runner whose waits are decided. It needs no agents.
        users: Returns the identity of a Slack user, or `None`.
        token: The bot token of the app (`xoxb-…`).
        signing_secret: The signing secret; without it only socket mode works.
        client: A `slack_sdk.WebClient` in place of the token.
        can: Returns what an identity may do; see `continuations.serve.rights`. To
            decide, a person needs `view` and `decide`.
        link: Returns the page for a wait that does not fit into Slack, for example
            `lambda wait, person: links.link(wait, actor=person.name)`.
        dispatcher: Resumes a run after a decision. Without one, the run goes on at the
            next `resume` or `sweep`.
        process_before_response: Whether a process may be frozen after its response, as
            in AWS Lambda.

    Returns:
        The app.

    Raises:
        InvalidInput: An option is invalid.
    """
    check_async_runner(runner)
    if not callable(users):
        msg = "users must be a function of the ids of a user and of a workspace, got "
        raise InvalidInput(f"{msg}{type(users).__name__}. Pass a function.")
    check_type("signing_secret", signing_secret, str, "the signing secret of the app")
    check_callable("link", link, "a function of a wait and an identity")
    if dispatcher is not None:
        check_dispatcher("dispatcher", dispatcher)
    _warn_without(signing_secret)
    retries = [ConnectionErrorRetryHandler(), RateLimitErrorRetryHandler()]
    web = posting.client_of(token, client, retry_handlers=retries)
    decisions = Decisions(runner, users, Rights(can), link, dispatcher)
    app = App(
        name="continuations.slack",  # the app sets the level of this logger
        client=WebClient(),
        authorize=_authorize,
        request_verification_enabled=False,
        before_authorize=_Verification(signing_secret),
        process_before_response=process_before_response,
    )
    _Listeners(decisions, web, is_frozen=process_before_response).register(app)
    return app


def _warn_without(signing_secret: str) -> None:
    if not signing_secret:
        _log.warning(
            "slack.handler has no signing_secret: requests over HTTP get status 401, "
            "and only socket mode works. Pass the signing secret of the app."
        )


def _authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
    """Ask Slack nothing: the listeners have a client of their own."""
    return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id)


class _Verification(RequestVerification):
    """Verifies the signature of each request over HTTP; none is valid without a secret.

    A refused request is not logged: its body may have content of a wait.
    """

    def process(
        self,
        *,
        req: BoltRequest,
        resp: BoltResponse,
        next: Callable[[], BoltResponse],  # noqa: A002 - its name in the package
    ) -> BoltResponse:
        valid = BoltResponse(status=200)
        try:
            answer = super().process(req=req, resp=resp, next=lambda: valid)
        except (TypeError, ValueError):  # rubbish in a header, or no secret
            answer = self._build_error_response()
        return next() if answer is valid else answer

    def _debug_log_error(self, signature: Any, timestamp: Any, body: Any) -> None:
        del signature, timestamp, body


# Listeners ------------------------------------------------------------------------


class _Listeners:
    """Translates between payloads of Slack and the decisions of waits.

    Calls of the Web API are made in the threads of the app, and everything else on the
    event loop.
    """

    def __init__(
        self, decisions: Decisions, client: WebClient, *, is_frozen: bool
    ) -> None:
        self._decisions = decisions
        self._client: Any = client
        self._quick: Any = WebClient(
            token=client.token,
            base_url=client.base_url,
            timeout=_OPEN_TIMEOUT,
            ssl=client.ssl,
            proxy=client.proxy,
            retry_handlers=[],
        )
        self._is_frozen = is_frozen
        self._loop = _LoopThread()

    def register(self, app: Any) -> None:
        """Add the listeners to an app.

        The lazy ones have threads of their own, so that a slow store delays no
        acknowledgement.
        """
        executor = ThreadPoolExecutor(_MAX_THREADS, "continuations-slack")
        app.listener_runner.lazy_listener_runner = ThreadLazyListenerRunner(
            logger=app.logger, executor=executor
        )
        app.action(posting.REVIEW)(ack=self.acknowledge_click, lazy=[self.review])
        app.action(OPEN_PAGE)(self.acknowledge)
        app.view(DECIDE)(ack=self.acknowledge_submission, lazy=[self.decide])

    def acknowledge(self, ack: Ack) -> None:
        """Acknowledge an interaction that needs nothing else."""
        ack()

    def acknowledge_click(self, ack: Ack, body: dict[str, Any]) -> None:
        """Acknowledge a click. A process that may be frozen opens the modal before."""
        if self._is_frozen:
            self._open(body)
        ack()

    def review(self, body: dict[str, Any]) -> None:
        """Show the wait of a message in a modal."""
        if not self._is_frozen:
            self._open(body)
        try:
            wait_id: str = body["actions"][0]["value"]
            origin = _origin_of(body)
        except (IndexError, KeyError, TypeError):
            _log.warning("a click in Slack has another form, and was ignored")
            return
        show = self._decisions.show(wait_id, *_user_of(body), origin)
        reply = self._loop.start(show).result()
        self._show(body, origin, reply.view, external_id=_modal_id(body))
        self._edit_message(origin, wait_id, reply)

    def acknowledge_submission(self, ack: Ack, body: dict[str, Any]) -> None:
        """Acknowledge a submission, or name the values that are missing."""
        errors: Mapping[str, str] = {}
        with suppress(Malformed):
            errors = read_submission(body["view"]).errors
        if errors:
            ack(response_action="errors", errors=dict(errors))
        else:
            ack(response_action="update", view=text_modal(*_RECORDING))

    def decide(self, body: dict[str, Any]) -> None:
        """Record the decision of a submission."""
        try:
            posted = read_submission(body["view"])
        except Malformed:
            _log.warning("a submission in Slack has another form, and was ignored")
            return
        if posted.errors:
            return
        began = time.monotonic()
        record = self._decisions.record(posted, *_user_of(body))
        reply = self._loop.start(record).result()
        wake = self._decisions.wake(reply.woken)
        woken = self._loop.start(wake)
        try:
            self._edit_message(posted.origin, posted.wait_id, reply)
            # Earlier, the acknowledgement could arrive later and hide the result.
            time.sleep(max(0.0, began + _ACKNOWLEDGED_AFTER - time.monotonic()))
            view_id = str(body["view"].get("id"))
            self._show(body, posted.origin, reply.view, view_id=view_id)
        finally:
            woken.result()

    def _open(self, body: dict[str, Any]) -> None:
        view = {**text_modal(*_READING), "external_id": _modal_id(body)}
        trigger_id = body.get("trigger_id", "")
        _call(self._quick.views_open, trigger_id=trigger_id, view=view)

    def _show(
        self, body: dict[str, Any], origin: Origin, view: dict[str, Any], **modal: Any
    ) -> None:
        """Change the modal; if it is closed, say the result in private."""
        if _call(self._client.views_update, view=view, **modal) or not origin.channel:
            return
        if "submit" in view:
            view = text_modal("The window is closed. Click Review again to decide.")
        _call(
            self._client.chat_postEphemeral,
            channel=origin.channel,
            user=_user_of(body)[0],
            text=posting.escaped(_text_of(view["blocks"][0])),
            blocks=view["blocks"],
        )

    def _edit_message(self, origin: Origin, wait_id: str, reply: Reply) -> None:
        if not reply.ending or not origin.channel:
            return
        title = origin.headline or "This call"
        text, blocks = posting.ended_message(title, run_of(wait_id), reply.ending)
        update = self._client.chat_update
        _call(update, channel=origin.channel, ts=origin.ts, text=text, blocks=blocks)


def _call(method: Callable[..., object], **arguments: Any) -> bool:
    """Call a method of the Web API; return whether Slack accepted it."""
    try:
        method(**arguments)
    except (SlackClientError, HTTPException, OSError, ValueError) as error:
        name = getattr(method, "__name__", "")
        _log.warning("Slack did not accept %s: %s", name, posting.error_code(error))
        return False
    return True


def _modal_id(body: Mapping[str, Any]) -> str:
    """Return the id of the modal of a click, the same in every process."""
    return sha256(str(body.get("trigger_id")).encode()).hexdigest()


def _user_of(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the ids of the user and of the workspace that the user belongs to."""
    user: Any = body.get("user") or {}
    team: Any = body.get("team") or {}
    return str(user.get("id", "")), str(user.get("team_id") or team.get("id") or "")


def _origin_of(body: Mapping[str, Any]) -> Origin:
    container: Any = body.get("container") or {}
    message: Any = body.get("message") or {}
    blocks: Any = message.get("blocks") or []
    first = [
        _text_of(each) for each in blocks if each.get("block_id") == posting.HEADLINE
    ]
    return Origin(
        channel=str(container.get("channel_id", "")),
        ts=str(container.get("message_ts", "")),
        headline="".join(first[:1]),
    )


def _text_of(block: Mapping[str, Any]) -> str:
    text: Any = block.get("text") or {}
    return unescape(str(text.get("text", "")))


class _LoopThread:
    """An event loop in a thread, which begins with the first coroutine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever,
                    name="continuations-slack-loop",
                    daemon=True,
                ).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
