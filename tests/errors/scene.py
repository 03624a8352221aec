"""The small application in which every case runs: a clerk, a store and a clock."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import TYPE_CHECKING, Any

import continuations
from continuations import Agent, Failed, Finished, Runner, Suspended, tool
from continuations.cli import main
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.errors import names
from tests.errors.case import Shown, dedent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from continuations import Outcome, Wait

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
    """Pay somebody."""
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


class Scene:
    """The names that the code of one case may use."""

    def __init__(self, folder: Path) -> None:
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
        exec(compile(dedent(code), name, "exec"), self.names)  # noqa: S102 - our tables

    def start(self, run_id: str = "jane-1", runner: Runner | None = None) -> Wait:
        """Start a run; return the wait that it is suspended with."""
        outcome = (runner or self.runner).start(TASK, run_id=run_id)
        assert isinstance(outcome, Suspended)
        return outcome.waits[0]

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
        **options: Any,
    ) -> str:
        """Send a request to the HTTP API; raise `Shown` for a problem."""
        from continuations.serve.http.api import HttpApi, Request

        given: dict[str, Any] = {
            "verify": lambda request: request.headers.get("x-user"),
            "links": self.names["Links"](
                LINK_SECRET, base_url="https://runs.example", clock=self.clock
            ),
            "clock": self.clock,
            **options,
        }
        headers = {} if by is None else {"x-user": by}
        if body is not None or content is not None:
            headers["content-type"] = content_type
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


def raise_if_problem(status: int, body: str) -> None:
    """Raise `Shown` for an answer that tells of a problem, as JSON or as a page."""
    if status < 400:
        return
    if body.startswith("<"):
        text = re.sub(r"<(style|title)>.*?</\1>", "", body)
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
    """Let a model call a tool; raise `Shown` if the model is told of an error."""
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


def without_aws_environment() -> None:
    """Take away what a machine may know of AWS: no credentials, no profile."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = (
        os.devnull
    )
