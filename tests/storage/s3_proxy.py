"""A proxy before an S3 server that makes requests fail by a plan.

Behind it is a small fake, `FakeS3`, or a real server, `RealServer`. It counts requests
by kind, as S3 bills them. A *plan* returns the fault of each request::

    with S3Proxy(FakeS3(), fault_sequence(lost_reply(), error_response(503))) as proxy:
        store = S3Store("bucket", endpoint=proxy.url)
        …
        assert {"PUT": 3} == proxy.counts

The proxy also counts the requests of other processes.
"""

from __future__ import annotations

import http.client
import random
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from email.utils import format_datetime, formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.local_server import LocalHandler, LocalServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Self, TypeAlias

__all__ = [
    "FakeS3",
    "Fault",
    "RealServer",
    "Reply",
    "Request",
    "S3Proxy",
    "error_response",
    "fault_sequence",
    "fixed_body",
    "lost_reply",
    "lost_request",
    "no_fault",
    "random_faults",
    "truncated_body",
]

SERVER_DATE = "Sat, 21 Nov 2026 12:00:00 GMT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; `kind` is how S3 counts it."""

    number: int
    kind: str  # PUT, GET, HEAD, LIST, DELETE
    target: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def key(self) -> str:
        """The object's name, without its bucket."""
        return unquote(urlsplit(self.target).path.lstrip("/").partition("/")[2])

    def query_parameter(self, name: str, default: str = "") -> str:
        query = parse_qs(urlsplit(self.target).query)
        return query.get(name, [default])[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One reply; `sent` is how many bytes of the body are sent."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    hang_up: bool = False
    sent: int | None = None
    stall_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The failure of one request."""

    forwarded: bool = True
    times: int = 1
    reply: Callable[[Reply], Reply] = lambda real: real


Plan: TypeAlias = "Callable[[Request], Fault]"


class Backend(Protocol):
    """The server that replies if there is no fault."""

    def handle(self, request: Request) -> Reply: ...

    def close(self) -> None:
        """Close all connections."""
        ...


# Faults ----------------------------------------------------------------------


def no_fault() -> Fault:
    """Reply without a fault."""
    return Fault()


def lost_request() -> Fault:
    """Close the connection before the request is handled."""
    return Fault(forwarded=False, reply=lambda _: Reply(hang_up=True))


def lost_reply() -> Fault:
    """Handle the request, then close the connection."""
    return Fault(reply=lambda _: Reply(hang_up=True))


def error_response(
    status: int, code: str = "", *, is_stored: bool = False, **headers: str
) -> Fault:
    """Reply with an error; with `is_stored`, handle the request first."""
    text = f"<Error><Code>{code}</Code><Message>as told</Message></Error>"
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = Reply(status=status, headers=sent, body=text.encode() if code else b"")
    return Fault(forwarded=is_stored, reply=lambda _: reply)


def fixed_body(body: bytes, **headers: str) -> Fault:
    """Reply with the status 200 and a given body."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fault(forwarded=False, reply=lambda _: Reply(headers=sent, body=body))


def truncated_body(sent: int, stall: float = 0.0) -> Fault:
    """Handle the request and send only a part of the body."""

    def reply(real: Reply) -> Reply:
        return Reply(
            status=real.status,
            headers=real.headers,
            body=real.body,
            sent=sent,
            stall_seconds=stall,
        )

    return Fault(reply=reply)


def fault_sequence(*faults: Fault) -> Plan:
    """Return a plan with these faults for the first requests, then none."""
    left = list(faults)
    return lambda _: left.pop(0) if left else Fault()


def random_faults(seed: int, rate: float) -> Plan:
    """Return a plan with random faults for a part of all requests.

    A request or its reply is lost, delayed or doubled, or the status is 500 or 503.
    """

    def plan(request: Request) -> Fault:
        dice = random.Random(f"{seed} {request.number}")  # noqa: S311 -- repeatable
        if dice.random() >= rate:
            return Fault()
        return dice.choice(
            (
                lost_request(),
                lost_reply(),
                Fault(reply=lambda real: _late(real, dice.uniform(0, 0.02))),
                Fault(times=2),
                error_response(500, "InternalError"),
                error_response(500, "InternalError", is_stored=True),
                error_response(503, "SlowDown"),
                truncated_body(1),
            )
        )

    return plan


def _late(real: Reply, seconds: float) -> Reply:
    threading.Event().wait(seconds)
    return real


# Backends ---------------------------------------------------------------------


class FakeS3:
    """A small S3 with one bucket of any name, with or without put-if-absent.

    Its clock is fixed, with `has_clock` that of this machine, or the function `now`.
    """

    def __init__(
        self,
        *,
        honors_conditions: bool = True,
        has_clock: bool = False,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self.bodies: dict[str, bytes] = {}
        self.metadata: dict[str, dict[str, str]] = {}
        self._honors_conditions = honors_conditions
        self._has_clock = has_clock
        self._now = now
        self._lock = threading.Lock()

    def handle(self, request: Request) -> Reply:
        """Handle one request at a time."""
        with self._lock:
            reply = self._handle(request)
        return replace(reply, headers={"Date": self._date(), **reply.headers})

    def _date(self) -> str:
        if self._now is not None:
            return format_datetime(self._now(), usegmt=True)
        return formatdate(usegmt=True) if self._has_clock else SERVER_DATE

    def _handle(self, request: Request) -> Reply:
        match request.kind:
            case "PUT":
                return self._put(request)
            case "LIST":
                return self._list(request)
            case "DELETE":
                self.bodies.pop(request.key, None)
                return Reply(status=204)
            case _:
                return self._get(request.key)

    def close(self) -> None:
        """Do nothing: the fake has no connections."""

    def _put(self, request: Request) -> Reply:
        conditional = request.headers.get("if-none-match") == "*"
        if conditional and self._honors_conditions and request.key in self.bodies:
            return _error(412, "PreconditionFailed")
        self.bodies[request.key] = request.body
        self.metadata[request.key] = {
            name: value
            for name, value in request.headers.items()
            if name.startswith("x-amz-meta-")
        } | {"Last-Modified": self._date()}
        return Reply(headers={"ETag": _etag(request.body)})

    def _get(self, key: str) -> Reply:
        if key not in self.bodies:
            return _error(404, "NoSuchKey")
        body = self.bodies[key]
        return Reply(headers={"ETag": _etag(body), **self.metadata[key]}, body=body)

    def _list(self, request: Request) -> Reply:
        most = int(request.query_parameter("max-keys", "1000"))
        start = request.query_parameter("prefix")
        after = request.query_parameter("continuation-token")
        after = after or request.query_parameter("start-after")
        keys = [
            key for key in sorted(self.bodies) if key.startswith(start) and key > after
        ]
        found = [_listed(key, self.bodies[key]) for key in keys[:most]]
        more = str(len(keys) > most).lower()
        listed = f"<IsTruncated>{more}</IsTruncated>{''.join(found)}"
        if len(keys) > most:
            token = escape(keys[most - 1])
            listed += f"<NextContinuationToken>{token}</NextContinuationToken>"
        return Reply(body=f"<ListBucketResult>{listed}</ListBucketResult>".encode())


class RealServer:
    """A real server; requests are passed on with their signatures."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url).netloc
        self._idle: list[http.client.HTTPConnection] = []

    def handle(self, request: Request) -> Reply:
        """Pass the request to the real server."""
        try:
            proxy = self._idle.pop()
        except IndexError:
            proxy = http.client.HTTPConnection(self._place)
        method = "GET" if request.kind == "LIST" else request.kind
        proxy.request(method, request.target, request.body, dict(request.headers))
        response = proxy.getresponse()
        body = response.read()
        self._idle.append(proxy)
        dropped = {"connection", "transfer-encoding", "content-length"}
        headers = {k: v for k, v in response.getheaders() if k.lower() not in dropped}
        if method == "HEAD":
            headers["Content-Length"] = response.getheader("content-length", "0")
        return Reply(status=response.status, headers=headers, body=body)

    def close(self) -> None:
        """Close the connections to the real server."""
        while self._idle:
            self._idle.pop().close()


def _error(status: int, code: str) -> Reply:
    return error_response(status, code).reply(Reply())


def _listed(key: str, body: bytes) -> str:
    facts = f"<Key>{escape(key)}</Key><Size>{len(body)}</Size>"
    time = "<LastModified>2026-11-21T12:00:00.000Z</LastModified>"
    return f"<Contents>{facts}{time}<ETag>{_etag(body)}</ETag></Contents>"


def _etag(body: bytes) -> str:
    return f'"{md5(body).hexdigest()}"'  # noqa: S324 -- as S3 does


# The server -------------------------------------------------------------------


class S3Proxy:
    """The proxy; `plan` and `counts` may be changed at any time."""

    def __init__(self, backend: Backend, plan: Plan | None = None) -> None:
        self.backend = backend
        self.plan: Plan = plan or fault_sequence()
        self.requests: list[Request] = []
        self.counts: Counter[str] = Counter()
        self._noting = threading.Lock()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(
            target=lambda: self._server.serve_forever(poll_interval=0.05), daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self.backend.close()

    def reset(self, backend: Backend, *faults: Fault) -> None:
        """Clear the counts, and go on with another backend and plan."""
        with self._noting:
            self.backend, self.plan = backend, fault_sequence(*faults)
            self.requests.clear()
            self.counts.clear()

    def handle(self, kind: str, handler: _Handler) -> Reply:
        """Record a request and return the reply."""
        headers = {name.lower(): value for name, value in handler.headers.items()}
        body = handler.rfile.read(int(headers.get("content-length", 0)))
        with self._noting:
            request = Request(
                number=len(self.requests) + 1,
                kind=kind,
                target=handler.path,
                headers=headers,
                body=body,
            )
            self.requests.append(request)
            self.counts[kind] += 1
            fault = self.plan(request)
        replies = [Reply()]
        if fault.forwarded:
            replies = [self.backend.handle(request) for _ in range(fault.times)]
        return fault.reply(replies[0])

    @property
    def connections(self) -> int:
        """The number of connections so far."""
        return self._server.connections

    def wait(self, seconds: float) -> None:
        """Wait, but not longer than the server runs."""
        self._server.closing.wait(seconds)


class _Server(LocalServer):
    def __init__(self, proxy: S3Proxy) -> None:
        super().__init__(0, _Handler)
        self.front = proxy


class _Handler(LocalHandler, BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        self._do("PUT")

    def do_GET(self) -> None:
        self._do("LIST" if "list-type" in self.path else "GET")

    def do_HEAD(self) -> None:
        self._do("HEAD")

    def do_DELETE(self) -> None:
        self._do("DELETE")

    def handle_expect_100(self) -> bool:
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def _do(self, kind: str) -> None:
        proxy = cast("_Server", self.server).front
        reply = proxy.handle(kind, self)
        if reply.hang_up:
            self.close_connection = True
            return
        self.send_response_only(reply.status)
        headers = {"Date": SERVER_DATE, "Content-Length": str(len(reply.body))}
        # In title case, as servers written in Go send names.
        sent = {name.title(): value for name, value in reply.headers.items()}
        for name, value in (headers | sent).items():
            self.send_header(name, value)
        self.end_headers()
        if kind != "HEAD":
            self.wfile.write(reply.body[: reply.sent])
        if reply.sent is not None:
            self.wfile.flush()
            proxy.wait(reply.stall_seconds)
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        """Write no log; `S3Proxy.requests` has the requests."""
