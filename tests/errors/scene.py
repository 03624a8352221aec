"""The small application in which every case runs: a clerk, a store and a clock."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from pathlib import Path
from socket import socket
from types import ModuleType, SimpleNamespace
from typing import Any

import continuations
from continuations import (
    Agent,
    ApprovalPolicy,
    Failed,
    Finished,
    Model,
    Outcome,
    Runner,
    Suspended,
    Wait,
    tool,
)
from continuations.cli import main
from continuations.models.openai_chat import OpenAIChat
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.results import Verdict
from continuations.serve.aws_lambda import handler
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.links import Links
from continuations.serve.notify.webhook import WebhookNotifier
from continuations_storage import MemoryStore, SyncStore
from continuations_storage.obstore import ObjectStore
from continuations_storage.retries import RetryPolicy
from continuations_storage.s3 import S3Store
from tests.errors import names
from tests.errors.case import Shown
from tests.model_server import ModelServer
from tests.serve.notify.receivers import (
    WebhookReceiver,
    serve_socket_script,
    serve_webhook,
)
from tests.stores import OneByOneStore

# Texts that no error may repeat: the task, an argument, and secrets of all kinds.
TASK = "Pay Jane what nobody may read in a log"
NOTE = "note-between-the-two-of-us"
API_KEY = "sk-planted-0123456789abcdefghij"
LINK_SECRET = "planted-link-secret-0123456789abcdef"
HOOK_SECRET = "whsec_" + "cGxhbnRlZA" * 4
PASSWORD = "planted-password"
PRIVATE_TEXTS = (TASK, NOTE)
SECRETS = (API_KEY, LINK_SECRET, HOOK_SECRET, PASSWORD)


class SettableClock:
    """Both clocks of a machine; they move when a case moves them."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        """Return the wall clock's time."""
        return datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def elapsed(self) -> float:
        """Return the other clock's time in seconds."""
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._seconds += seconds


@tool(approval=True)
def pay(cents: int, note: str = "") -> str:
    """Pay a person."""
    del note
    return f"paid {cents}"


@tool
def book(room: str) -> str:
    """Book a room; not declared as repeatable."""
    return f"booked {room}"


PAY_CALL = ToolCall("pay", {"cents": 500, "note": NOTE})


def clerk(*tools: Any, script: Any = None, **options: Any) -> Agent:
    """Return an agent that pays 500 and then says "done"."""
    given: dict[str, Any] = {
        "tools": list(tools) or [pay],
        "model": ScriptedModel(script or [PAY_CALL, "done"]),
        **options,
    }
    return Agent("clerk", **given)


def talker(*lines: Any, **options: Any) -> Agent:
    """Return an agent without tools that says some lines."""
    return Agent("talker", model=ScriptedModel(list(lines) or ["done"]), **options)


class Scene(contextlib.ExitStack):
    """The names that the code of one case may use; its end undoes what it changed."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.callback(_restore_environment, dict(os.environ))
        self.callback(_restore_modules, dict(sys.modules), str(folder))
        self.folder = folder
        self.clock = SettableClock()
        self.store = MemoryStore()
        self.runner = Runner(clerk(), store=self.store, clock=self.clock)
        self.names: dict[str, Any] = {
            **names.exported(),
            "scene": self,
            "folder": folder,
            "clock": self.clock,
            "store": self.store,
            "runner": self.runner,
            "clerk": clerk,
            "talker": talker,
            "pay": pay,
            "book": book,
            "start": self.start,
            "finished": finished,
            "failure_of": failure_of,
            "tool_message": tool_message,
            "http": self.http,
            "cli": self.cli,
            "await_": asyncio.run,
            "TASK": TASK,
            "NOTE": NOTE,
            "API_KEY": API_KEY,
            "LINK_SECRET": LINK_SECRET,
            "HOOK_SECRET": HOOK_SECRET,
            "PASSWORD": PASSWORD,
            "PAY_CALL": PAY_CALL,
        }

    def execute(self, code: str, name: str) -> None:
        """Run the code of a case."""
        # Without the `annotations` future of this module: most users have none.
        compiled = compile(code, name, "exec", dont_inherit=True)
        exec(compiled, self.names)  # noqa: S102 - the texts of our tables

    def start(self, run_id: str = "jane-1", runner: Runner | None = None) -> Wait:
        """Start a run; return the wait that it is suspended with."""
        outcome = (runner or self.runner).start(TASK, run_id=run_id)
        assert isinstance(outcome, Suspended)
        return outcome.waits[0]

    # The machine ---------------------------------------------------------------

    def patch(self, target: Any, name: str, value: object) -> None:
        """Replace an attribute until the case is over."""
        self.callback(setattr, target, name, getattr(target, name))
        setattr(target, name, value)

    def without_module(self, name: str, *importers: str) -> None:
        """Make imports of a module fail, as if it were not installed."""
        for each in (name, *importers):
            sys.modules.pop(each, None)
        modules: dict[str, Any] = sys.modules
        modules[name] = None

    def without_openai(self) -> None:
        """Remove the environment variables of OpenAI."""
        for name in [name for name in os.environ if name.startswith("OPENAI_")]:
            del os.environ[name]

    def fake_s3(self, **methods: Any) -> SyncStore:
        """Return an S3 store whose client answers as a case says."""
        once = RetryPolicy(max_attempts=1)
        client: Any = SimpleNamespace(**methods)
        return SyncStore(S3Store("bucket", client=client, retry_policy=once))

    def provider(self, *replies: Mapping[str, Any], **options: Any) -> Model:
        """Return a model of a provider that answers with one reply after another.

        The model has no retries of its own.
        """
        left = list(replies)

        def next_reply(_messages: object, _model: object) -> Mapping[str, Any]:
            return left.pop(0)

        server = self.enter_context(ModelServer(next_reply, key=API_KEY))
        given: dict[str, Any] = {"max_retries": 0, **options}
        return OpenAIChat("gpt-5-mini", base_url=server.url, api_key=API_KEY, **given)

    def webhook(
        self,
        status: int,
        *,
        delay: float = 0.0,
        timeout: float = 5.0,
        tls: bool = False,
    ) -> Any:
        """Return the notifier of a webhook with one answer; 0 is no HTTP."""
        once = RetryPolicy(max_attempts=1)
        if tls:
            receiver = WebhookReceiver()
            url = self.enter_context(serve_webhook(receiver, tls=True)).url
        elif status == 0 or delay:
            script = partial(_send_rubbish, delay)
            server = self.enter_context(serve_socket_script(script))
            url = f"http://127.0.0.1:{server.server_address[1]}/in"
        else:
            receiver = WebhookReceiver((status, {}))
            url = self.enter_context(serve_webhook(receiver)).url
        return WebhookNotifier(url, HOOK_SECRET, timeout=timeout, retry_policy=once)

    def handler(self, **options: Any) -> Callable[[object], Any]:
        """Return a Lambda handler on the store; raise `Shown` for an HTTP problem."""
        given: dict[str, Any] = {"verify": _verify, **options}
        handle = handler(store=self.store, clock=self.clock, **given)
        self.callback(handle.close)

        def call(event: object) -> Any:
            answer = handle(event, _LambdaContext())
            if "statusCode" in answer:
                raise_if_problem(answer["statusCode"], answer["body"])
            return answer

        return call

    # Decisions -----------------------------------------------------------------

    def end(self, verdict: Verdict | None) -> Outcome:
        """Decide a call whose denial or expiry ends the run; `None` lets it expire."""
        policy = ApprovalPolicy(expires_after=60, on_denied="stop", on_expired="stop")
        return self._decide(verdict, policy)

    def _decide(
        self, verdict: Verdict | None, policy: ApprovalPolicy, *, slow: bool = False
    ) -> Outcome:
        agent = clerk(tool(pay.function, name="pay", approval=policy))
        store = _SlowStore(self.clock) if slow else MemoryStore()
        runner = Runner(agent, store=store, clock=self.clock)
        wait = self.start("jane-1", runner)
        if verdict is None:
            self.clock.advance(61)
        else:
            runner.decide(wait.id, verdict)
        if isinstance(store, _SlowStore):
            store.delay = 6
        return runner.resume("jane-1")

    def fake_obstore(
        self, body: bytes, *, size: int = 0, names: Sequence[str] = ()
    ) -> SyncStore:
        """Return a store of obstore whose client answers as a case says."""
        answer = SimpleNamespace(bytes=lambda: body, meta={"size": size, "e_tag": "x"})

        def get(_key: str) -> object:
            return answer

        def keys(*_: object, **__: object) -> list[list[dict[str, str]]]:
            return [[{"path": name} for name in names]]

        client: Any = SimpleNamespace(get=get, list=keys)
        once = RetryPolicy(max_attempts=1)
        store = ObjectStore("s3://bucket", retry_policy=once)
        self.patch(store, "_client", lambda: client)
        return SyncStore(store)

    # Other ways in -------------------------------------------------------------

    def http(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        by: str | None = "kim",
        content: bytes | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        extra_headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> str:
        """Send a request to the HTTP API; raise `Shown` for a problem."""
        given: dict[str, Any] = {
            "verify": _verify,
            "links": Links(
                LINK_SECRET, base_url="https://runs.example", clock=self.clock
            ),
            "clock": self.clock,
            **options,
        }
        headers = {} if by is None else {"x-user": by}
        if body is not None or content is not None:
            headers["content-type"] = content_type
        headers |= extra_headers or {}
        data = content if content is not None else json.dumps(body).encode()
        request = Request(
            method=method,
            path=path,
            headers=headers,
            body=b"" if body is None and content is None else data,
            query=query or {},
        )
        api = HttpApi(self.runner.async_runner, **given)
        response = asyncio.run(api.handle(request))
        raise_if_problem(response.status, response.body)
        return response.body

    def cli(self, *arguments: str, store: bool = True) -> str:
        """Run a command line on the store in the folder; raise `Shown` if it fails."""
        where = ["--store", f"file:{self.folder / 'runs'}"] if store else []
        out, err = io.StringIO(), io.StringIO()
        before = list(sys.path)
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                code = main([*arguments, *where])
            finally:
                sys.path[:] = before
        if code:
            text = err.getvalue() or out.getvalue()
            raise Shown(f"exit {code}", " ".join(text.split()))
        return out.getvalue()


def _verify(request: Request) -> str | None:
    return request.headers.get("x-user")


def _send_rubbish(delay: float, connection: socket) -> None:
    time.sleep(delay)
    connection.recv(1)
    connection.sendall(b"rubbish\r\n\r\n")


class _LambdaContext:
    """The context of an invocation that has a minute left."""

    aws_request_id = "1111-2222"
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:f:live"

    def get_remaining_time_in_millis(self) -> int:
        """Return how long the invocation may still last."""
        return 60_000


class _SlowStore(OneByOneStore):
    """A store that needs `delay` seconds to create a version."""

    def __init__(self, clock: SettableClock) -> None:
        super().__init__()
        self._slow_clock = clock
        self.delay = 0.0

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body if the key is absent."""
        if "/v/" in key:
            self._slow_clock.advance(self.delay)
        return await super().create(key, body)


def _restore_environment(before: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)


def _restore_modules(before: dict[str, ModuleType], folder: str) -> None:
    # Modules of the project stay: loaded twice, their classes would be two.
    modules: dict[str, Any] = sys.modules
    absent = object()
    changed = {
        name: module
        for name, module in list(modules.items())
        if before.get(name, absent) is not module
    }
    for name, module in changed.items():
        path = getattr(module, "__file__", None) or ""
        if module is None or path.startswith(folder):
            del sys.modules[name]
    sys.modules.update(before)


def raise_if_problem(status: int, body: str) -> None:
    """Raise `Shown` for an answer that tells of a problem, as JSON or as a page."""
    if status < 400:
        return
    if body.startswith("<"):
        [text] = re.findall(r"<main[^>]*>(.*?)</main>", body, re.DOTALL)
        text = text.replace("</h1>", ": ")
        text = " ".join(unescape(re.sub(r"<[^>]+>", "\n", text)).split())
        raise Shown(f"page {status}", text)
    problem = json.loads(body)
    text = ": ".join(problem[key] for key in ("title", "detail") if key in problem)
    raise Shown(
        f"problem {status} {problem['type'].rpartition(':')[2]}",
        text,
        run_id=problem.get("run_id"),
        wait_id=problem.get("wait_id"),
    )


def finished(outcome: Outcome) -> Outcome:
    """Return an outcome of a run that has finished."""
    assert isinstance(outcome, Finished), outcome
    return outcome


def failure_of(outcome: Outcome) -> Outcome:
    """Return an outcome; raise `Shown` if the run has failed."""
    if isinstance(outcome, Failed):
        raise Shown(
            f"Failed {outcome.error.code}",
            outcome.error.message,
        )
    return outcome


def tool_message(
    used: Any, arguments: Any, name: str | None = None, **options: Any
) -> str:
    """Let a model call a tool; raise `Shown` if the result is an error."""
    call = ToolCall(name or used.name, arguments)
    agent = Agent("clerk", tools=[used], model=ScriptedModel([call, "done"]))
    outcome = continuations.run(agent, TASK, **options)
    return raise_if_error(outcome)


def raise_if_error(outcome: Outcome) -> str:
    """Return the first tool message; raise `Shown` if it tells of an error."""
    messages = outcome.continuation.root.messages
    text = next(str(each["content"]) for each in messages if each["role"] == "tool")
    first = text.split(maxsplit=1)[0].rstrip(":")
    if first.isupper():
        raise Shown(f"tool message {first}", text)
    return text
