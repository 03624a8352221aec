"""Those who are told, on loopback: a webhook, a mail server, and one who misbehaves."""

from __future__ import annotations

import asyncio
import ssl
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, Any, cast

from aiosmtpd.smtp import SMTP, AuthResult

from continuations.core.waits import Wait
from continuations_storage.patience import Patience

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from email.message import EmailMessage
    from socket import socket

    from aiosmtpd.smtp import Envelope, LoginPassword, Session

# Key and certificate of "localhost", which nobody but a test trusts; good until 2126.
PEM = Path(__file__).with_name("test_notify_localhost.pem")

SECRET = "whsec_" + "c2VjcmV0" * 4
OTHER_SECRET = "whsec_" + "b3RoZXJz" * 4
PRIVATE = "PLANTEDINTHEARGUMENTS"


def a_wait(**changed: Any) -> Wait:
    """Return an open wait for leave to pay, with what is given changed."""
    given: dict[str, Any] = {
        "id": "approval-01kaj0000000000000000000aa@jane-1",
        "run_id": "jane-1",
        "call_id": "c1",
        "kind": "approval",
        "path": ("hr", "accounts", "pay"),
        "tool": "pay",
        "arguments_json": f'{{"to":"{PRIVATE}","cents":500}}',
        "schema_json": "{}",
        "digest": "0" * 64,
        "created_at": datetime(2026, 11, 21, 14, 0, tzinfo=UTC),
    }
    return Wait(**{**given, **changed})


@dataclass(kw_only=True)
class Pauses:
    """A patience that sleeps not at all, and notes how long it should have."""

    attempts: int = 3
    slept: list[float] = field(default_factory=list[float])

    def patience(self) -> Patience:
        """Return it; its dice always fall on the longest wait."""
        return Patience(
            attempts=self.attempts,
            seconds=10,
            first_wait=0.25,
            clock=lambda: sum(self.slept),
            sleep=self._sleep,
            dice=lambda: 1.0,
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def trusting() -> ssl.SSLContext:
    """Return a context that trusts our certificate, and still checks names."""
    return ssl.create_default_context(cafile=PEM)


def _serving() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


# A webhook -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Posted:
    """What came to a webhook."""

    path: str
    headers: dict[str, str]
    body: bytes


Answer = tuple[int, dict[str, str]]


def answers(status: int, times: int) -> list[Answer]:
    """Return so many answers of a status alone."""
    return [(status, {})] * times


class Hook:
    """A webhook that gives the answers of a list, and 204 when they are used up."""

    def __init__(self, *answers: Answer, on_post: Callable[[], None] | None = None):
        self.posted: list[Posted] = []
        self.url = ""
        self._answers = list(answers)
        self._on_post = on_post

    def answer(self, posted: Posted) -> Answer:
        """Note what came, and return what to say."""
        self.posted.append(posted)
        if self._on_post is not None:
            self._on_post()
        return self._answers.pop(0) if self._answers else (204, {})


class _HookServer(ThreadingHTTPServer):
    hook: Hook


class _HookHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        posted = Posted(path=self.path, headers=headers, body=body)
        status, told = cast("_HookServer", self.server).hook.answer(posted)
        self.send_response(status)
        for name, value in told.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        del format, args


@contextmanager
def serving(hook: Hook, *, tls: bool = False) -> Generator[Hook]:
    """Serve a webhook; its `url` is known from now on."""
    server = _HookServer(("127.0.0.1", 0), _HookHandler)
    server.hook = hook
    if tls:
        server.socket = _serving().wrap_socket(server.socket, server_side=True)
    host = "localhost" if tls else "127.0.0.1"
    hook.url = (
        f"http{'s' if tls else ''}://{host}:{server.server_port}/hook?key=SECRETPATH"
    )
    with _running(server):
        yield hook


@contextmanager
def _running(server: ThreadingTCPServer | ThreadingHTTPServer) -> Generator[None]:
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# One who misbehaves ----------------------------------------------------------------


class _ScriptServer(ThreadingTCPServer):
    script: Callable[[socket], None]
    calls = 0


class _ScriptHandler(BaseRequestHandler):
    def handle(self) -> None:
        server = cast("_ScriptServer", self.server)
        server.calls += 1
        with suppress(OSError):
            server.script(self.request)


@contextmanager
def misbehaving(script: Callable[[socket], None]) -> Generator[_ScriptServer]:
    """Serve bytes as a function says, for each connection."""
    server = _ScriptServer(("127.0.0.1", 0), _ScriptHandler)
    server.script = script
    with _running(server):
        yield server


def nobody_there() -> int:
    """Return a port that nobody listens at."""
    with ThreadingTCPServer(("127.0.0.1", 0), _ScriptHandler) as server:
        return int(server.server_address[1])


# A mail server ---------------------------------------------------------------------


@dataclass
class Post:
    """A mail server of aiosmtpd; `says` gives the answers to some of its commands.

    An answer is used once, from the front of its list.
    """

    says: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    starttls: bool = False
    login: tuple[str, str] | None = None
    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list["EmailMessage"])
    raw: list[bytes] = field(default_factory=list[bytes])
    sent_to: list[list[str]] = field(default_factory=list[list[str]])
    over_tls: list[bool] = field(default_factory=list[bool])
    logins: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def _said(self, command: str, otherwise: str) -> str:
        answers = self.says.get(command, [])
        return answers.pop(0) if answers else otherwise

    async def handle_MAIL(  # noqa: N802 - the names of aiosmtpd
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        address: str,
        options: list[str],
    ) -> str:
        """Take a sender."""
        del server, session
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return self._said("MAIL", "250 OK")

    async def handle_RCPT(  # noqa: N802 - likewise
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        address: str,
        options: list[str],
    ) -> str:
        """Take a receiver."""
        del server, session, options
        said = self._said("RCPT", "250 OK")
        if said.startswith("250"):
            envelope.rcpt_tos.append(address)
        return said

    async def handle_DATA(  # noqa: N802 - likewise
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Take a mail."""
        del server
        said = self._said("DATA", "250 OK")
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

    def protocol(self) -> SMTP:
        """Make what serves one connection."""
        options: dict[str, Any] = {}
        if self.starttls:
            options |= {"tls_context": _serving(), "require_starttls": True}
        if self.login is not None:
            options |= {"authenticator": self.authenticate, "auth_required": True}
        return SMTP(self, hostname="localhost", **options)


@contextmanager
def delivering(post: Post, *, tls: bool = False) -> Generator[Post]:
    """Run a mail server; its `port` is known from now on."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    stop = asyncio.Event()

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(
            post.protocol, "127.0.0.1", 0, ssl=_serving() if tls else None
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
