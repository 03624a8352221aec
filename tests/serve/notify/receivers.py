"""Receivers of notifications on loopback: webhooks, mail servers and faulty sockets."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from continuations.core.rows.waits import Wait
from continuations_storage.retries import RetryPolicy

# The key and self-signed certificate of "localhost", valid until 2126.
CERTIFICATE_FILE = Path(__file__).with_name("localhost.pem")

SECRET = "whsec_" + "c2VjcmV0" * 4
OTHER_SECRET = "whsec_" + "b3RoZXJz" * 4
PRIVATE_ARGUMENT = "PLANTEDINTHEARGUMENTS"


def make_wait(**changed: Any) -> Wait:
    """Return an open approval wait with some fields changed."""
    fields: dict[str, Any] = {
        "id": "approval-01kaj0000000000000000000aa@jane-1",
        "run_id": "jane-1",
        "call_id": "c1",
        "kind": "approval",
        "path": ("hr", "accounts", "pay"),
        "tool": "pay",
        "arguments_json": f'{{"to":"{PRIVATE_ARGUMENT}","cents":500}}',
        "schema_json": "{}",
        "digest": "0" * 64,
        "created_at": datetime(2026, 11, 21, 14, 0, tzinfo=UTC),
    }
    return Wait(**{**fields, **changed})


@dataclass(kw_only=True)
class RecordedDelays:
    """Record the delays of a retry policy instead of sleeping."""

    attempts: int = 3
    slept: list[float] = field(default_factory=list[float])

    def retry_policy(self) -> RetryPolicy:
        """Return a retry policy whose random part is always the greatest."""
        return RetryPolicy(
            max_attempts=self.attempts,
            max_seconds=10,
            first_delay=0.25,
            clock=lambda: sum(self.slept),
            sleep=self._sleep,
            random_fraction=lambda: 1.0,
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def trusting_tls_context() -> ssl.SSLContext:
    """Return TLS settings that trust the test certificate and check host names."""
    return ssl.create_default_context(cafile=CERTIFICATE_FILE)


def _server_tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE_FILE)
    return context


# Webhooks -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ReceivedPost:
    """A request that a webhook received."""

    path: str
    headers: dict[str, str]
    body: bytes


HookResponse = tuple[int, dict[str, str]]


def repeated_responses(status: int, times: int) -> list[HookResponse]:
    """Return equal responses without headers."""
    return [(status, {})] * times


class WebhookReceiver:
    """A webhook with a list of responses; after the last one it responds 204."""

    def __init__(
        self, *responses: HookResponse, on_post: Callable[[], None] | None = None
    ):
        self.received: list[ReceivedPost] = []
        self.url = ""
        self._responses = list(responses)
        self._on_post = on_post

    def respond(self, posted: ReceivedPost) -> HookResponse:
        """Record a request, and return its response."""
        self.received.append(posted)
        if self._on_post is not None:
            self._on_post()
        return self._responses.pop(0) if self._responses else (204, {})


class _HookServer(ThreadingHTTPServer):
    hook: WebhookReceiver


class _HookHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        posted = ReceivedPost(path=self.path, headers=headers, body=body)
        status, told = cast("_HookServer", self.server).hook.respond(posted)
        self.send_response(status)
        for name, value in told.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        del format, args


@contextmanager
def serve_webhook(
    receiver: WebhookReceiver, *, tls: bool = False
) -> Generator[WebhookReceiver]:
    """Serve a webhook and set its `url`."""
    server = _HookServer(("127.0.0.1", 0), _HookHandler)
    server.hook = receiver
    if tls:
        server.socket = _server_tls_context().wrap_socket(
            server.socket, server_side=True
        )
    host = "localhost" if tls else "127.0.0.1"
    receiver.url = (
        f"http{'s' if tls else ''}://{host}:{server.server_port}/hook?key=SECRETPATH"
    )
    with _run_server(server):
        yield receiver


@contextmanager
def _run_server(server: ThreadingTCPServer | ThreadingHTTPServer) -> Generator[None]:
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# One who misbehaves -------------------------------------------------------------


class _SocketScriptServer(ThreadingTCPServer):
    script: Callable[[socket], None]
    calls = 0


class _SocketScriptHandler(BaseRequestHandler):
    def handle(self) -> None:
        server = cast("_SocketScriptServer", self.server)
        server.calls += 1
        with suppress(OSError):
            server.script(self.request)


@contextmanager
def serve_socket_script(
    script: Callable[[socket], None],
) -> Generator[_SocketScriptServer]:
    """Call a function with each connection."""
    server = _SocketScriptServer(("127.0.0.1", 0), _SocketScriptHandler)
    server.script = script
    with _run_server(server):
        yield server


def unused_port() -> int:
    """Return a port that no process listens on."""
    with ThreadingTCPServer(("127.0.0.1", 0), _SocketScriptHandler) as server:
        return int(server.server_address[1])


# A mail server ------------------------------------------------------------------


@dataclass
class MailServer:
    """A mail server of aiosmtpd; `responses` are its replies to some commands.

    An answer is used once, from the front of its list.
    """

    responses: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    starttls: bool = False
    login: tuple[str, str] | None = None
    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list["EmailMessage"])
    raw: list[bytes] = field(default_factory=list[bytes])
    sent_to: list[list[str]] = field(default_factory=list[list[str]])
    over_tls: list[bool] = field(default_factory=list[bool])
    logins: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def _next_response(self, command: str, otherwise: str) -> str:
        answers = self.responses.get(command, [])
        return answers.pop(0) if answers else otherwise

    async def handle_MAIL(  # noqa: N802 - the names of aiosmtpd
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        address: str,
        options: list[str],
    ) -> str:
        del server, session
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return self._next_response("MAIL", "250 OK")

    async def handle_RCPT(  # noqa: N802 - likewise
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        address: str,
        options: list[str],
    ) -> str:
        del server, session, options
        said = self._next_response("RCPT", "250 OK")
        if said.startswith("250"):
            envelope.rcpt_tos.append(address)
        return said

    async def handle_DATA(  # noqa: N802 - likewise
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        del server
        said = self._next_response("DATA", "250 OK")
        if said.startswith("250"):
            content = envelope.original_content or b""
            self.mails.append(message_from_bytes(content, policy=default))
            self.raw.append(content)
            self.sent_to.append(list(envelope.rcpt_tos))
            self.over_tls.append(session.ssl is not None)
        return said

    def authenticate(
        self,
        _server: SMTP,
        _session: Session,
        _envelope: Envelope,
        _mechanism: str,
        given: LoginPassword,
    ) -> AuthResult:
        """Check a login."""
        self.logins.append((given.login.decode(), given.password.decode()))
        # handled=False: a refusal is still to be said.
        return AuthResult(success=self.logins[-1] == self.login, handled=False)

    def make_protocol(self) -> SMTP:
        """Return the protocol of one connection."""
        options: dict[str, Any] = {}
        if self.starttls:
            options |= {"tls_context": _server_tls_context(), "require_starttls": True}
        if self.login is not None:
            options |= {"authenticator": self.authenticate, "auth_required": True}
        return SMTP(self, hostname="localhost", **options)


@contextmanager
def serve_mail(post: MailServer, *, tls: bool = False) -> Generator[MailServer]:
    """Run a mail server and set its `port`."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    stop = asyncio.Event()

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(
            post.make_protocol,
            "127.0.0.1",
            0,
            ssl=_server_tls_context() if tls else None,
        )
        post.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    try:
        yield post
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
