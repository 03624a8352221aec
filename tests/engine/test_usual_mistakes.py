"""Mistakes of newcomers: each has an error with a remedy or a warning, or works."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    AsyncRunner,
    ContinuationsError,
    Deny,
    Finished,
    Runner,
    ToolContext,
    ask,
    external,
    open_store,
    run,
    sleep,
    sleep_until,
    tool,
)
from continuations.aio import run_stream as run_stream_async
from continuations.authoring.errors import WaitNotReturned
from continuations.authoring.tool_waits import ToolWait
from continuations.errors import InvalidInput, ModelError, NotFinished, RunFailed
from continuations.hooks import Hooks, TurnInfo
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.streams import run_stream
from continuations.tools import Tool
from tests.outcomes import expect


@dataclass
class Claim:
    total: int = 0
    trips: list[str] = field(default_factory=list[str])


def _run_spend(tool_: Any) -> dict[str, Any]:
    """Run an agent that calls `spend`; return its state."""
    model = ScriptedModel([[ToolCall("spend", {})], "Done."])
    agent = Agent("clerk", tools=[tool_], state=Claim, model=model)
    outcome = expect(run(agent, "go"), Finished)
    return dict(outcome.continuation.root.state)


@pytest.mark.parametrize("name", ["total", "trips"])
def test_change_of_the_state_without_update_is_logged(
    caplog: pytest.LogCaptureFixture, name: str
) -> None:
    @tool(writes_state=True)
    def spend(ctx: ToolContext[Claim]) -> str:
        """Change a copy."""
        claim = ctx.state
        if name == "total":
            claim.total += 5
        else:
            claim.trips.append("Bern")
        return "spent"

    with caplog.at_level(logging.WARNING, logger="continuations"):
        state = _run_spend(spend)

    assert {} == state
    (record,) = caplog.records
    assert record.getMessage() == (
        f"tool spend changed ctx.state.{name}, which is a copy, so the change is lost. "
        f"Call ctx.update({name}=...)."
    )


def test_copy_of_the_state_whose_changes_are_passed_to_update_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool(writes_state=True)
    def spend(ctx: ToolContext[Claim]) -> str:
        """Change a copy, then the state."""
        claim = ctx.state
        claim.total += 5
        claim.trips.append("Bern")
        ctx.update(total=claim.total, trips=claim.trips)
        return f"spent {ctx.state.total}"

    with caplog.at_level(logging.WARNING, logger="continuations"):
        state = _run_spend(spend)

    assert {"total": 5, "trips": ["Bern"]} == state
    assert [] == caplog.records


def test_stream_that_is_never_read_warns_that_no_work_began() -> None:
    model = ScriptedModel([])
    agent = Agent("clerk", model=model)
    runner = Runner(agent, store="memory:")
    makers: tuple[Callable[[], object], ...] = (
        lambda: run_stream(agent, "go"),
        lambda: run_stream_async(agent, "go"),
        lambda: runner.stream("go"),
    )
    for make in makers:
        with pytest.warns(RuntimeWarning, match="never read, so no work began"):
            make()

    assert [] == model.requests


@pytest.mark.filterwarnings("error")
def test_stream_that_is_read_or_closed_does_not_warn() -> None:
    agent = Agent("clerk", model=ScriptedModel(["Done."]))
    stream = run_stream(agent, "go")
    assert list(stream)
    del stream
    with run_stream(agent, "go"):
        pass
    gc.collect()


def test_hooks_may_be_methods_of_a_subclass() -> None:
    """As hooks of other SDKs are."""
    seen: list[str] = []

    class Log(Hooks):
        def before_model(self, info: TurnInfo) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # type: ignore[override]
            seen.append(f"{info.agent} {self!r}")

    run(Agent("clerk", hooks=Log(), model=ScriptedModel(["Done."])), "go")

    assert ["clerk <Log: before_model>"] == seen


def _take_nothing() -> None:
    pass


def _take_two(run_id: str, event: object) -> None:
    del run_id, event


def _generate(event: object) -> Any:
    yield event


async def _generate_later(event: object) -> Any:
    yield event


class _Listener:
    """A class in place of its object."""

    def __init__(self, event: object) -> None:
        self.event = event


@pytest.mark.parametrize(
    ("listener", "text"),
    [
        (_take_nothing, "the function _take_nothing()"),
        (_take_two, "the function _take_two(run_id, event)"),
        (_generate, "the generator function _generate(event)"),
        (_generate_later, "the generator function _generate_later(event)"),
        (_Listener, "the class _Listener"),
        ([print], "[<built-in function print>] (list)"),
    ],
)
def test_listener_that_cannot_take_an_event_is_refused_before_any_work(
    listener: Any, text: str
) -> None:
    model = ScriptedModel([])
    agent = Agent("clerk", model=model)
    runner = Runner(agent, store="memory:")

    for begin in (
        lambda: run(agent, "go", on_event=listener),
        lambda: runner.start("go", on_event=listener),
        lambda: Runner(agent, store="memory:", on_event=listener),
    ):
        with pytest.raises(InvalidInput) as told:
            begin()
        assert f"got {text}. Declare def on_event(event)." in str(told.value)
    with pytest.raises(InvalidInput, match="Hooks: before_model must be a function"):
        Hooks(before_model=listener)

    assert [] == model.requests


@tool
def forgotten_question() -> str:
    """Ask, and return something else."""
    ask("Which one?")
    return "asked"


@tool
async def awaited_question() -> str:
    """Await a question, which belongs to the caller."""
    answer: Any = ask("Which one?")
    return str(await answer)


@tool
async def forgotten_sleep() -> str:
    """Sleep, and return something else."""
    await asyncio.to_thread(sleep, 60)
    return "slept"


@tool
def forgotten_moment() -> str:
    """Sleep until a moment, and return something else."""
    sleep_until(datetime(2030, 1, 1, tzinfo=UTC))
    return "slept"


@tool
def two_questions() -> ToolWait[str]:
    """Ask two questions, of which the first one is lost."""
    ask("First?")
    return ask("Second?")


@tool
def chosen_question() -> ToolWait[str]:
    """Ask two questions, and return the first one."""
    first, _second = ask("This?"), ask("That?")
    return first


@tool
def question_and_sleep() -> ToolWait[str]:
    """Ask and sleep."""
    external("scan")
    return sleep(60)


@pytest.mark.parametrize(
    ("mistaken", "text"),
    [
        (
            forgotten_question,
            "ask(...) was called, and not returned. Write: return ask",
        ),
        (awaited_question, "awaited outside a workflow. In a tool, write: return ask("),
        (forgotten_sleep, "sleep(...) was called, and not returned."),
        (forgotten_moment, "sleep_until(...) was called, and not returned."),
        (two_questions, "the tool made 2 waits (ask(...), ask(...)) and returned one"),
        (chosen_question, "so the others would be lost. Make only the wait that"),
        (question_and_sleep, "made 2 waits (external(...), sleep(...))"),
    ],
)
def test_wait_that_a_tool_does_not_return_is_an_error_of_the_call(
    mistaken: Tool[..., Any], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel([ToolCall(mistaken.name, {}), "Done."])

    outcome = run(Agent("clerk", tools=[mistaken], model=model), "go")

    results = [
        each["content"]
        for each in outcome.continuation.root.messages
        if each["role"] == "tool"
    ]
    assert text in results[0]
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert text in record.getMessage()


def test_tool_may_return_a_changed_copy_of_its_wait() -> None:
    @tool
    def choose() -> ToolWait[str]:
        """Ask with another text."""
        return replace(ask("This?"), question="This, please?")

    model = ScriptedModel([ToolCall("choose", {}), "Done."])

    outcome = run(Agent("clerk", tools=[choose], model=model), "go")

    assert ["This, please?"] == [wait.question for wait in outcome.waits]


def test_wait_that_verify_does_not_return_is_told_to_the_developer() -> None:
    def verify() -> None:
        external("scan")

    @tool(verify=verify)
    def scan() -> str:
        """Scan."""
        return "scanned"

    nothing: Any = None
    with pytest.raises(WaitNotReturned, match=r"Write: return external\(...\)"):
        asyncio.run(scan.verify_call("{}", nothing))


def test_wait_in_a_thread_of_the_tools_own_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The thread does not know the call; a wait in the main thread is a test's."""

    @tool
    def threaded() -> str:
        """Ask in another thread."""
        thread = threading.Thread(target=lambda: ask("Which one?"))
        thread.start()
        thread.join()
        return "asked"

    ask("In the main thread?")
    assert [] == caplog.records
    model = ScriptedModel([ToolCall("threaded", {}), "Done."])

    run(Agent("clerk", tools=[threaded], model=model), "go")

    [record] = caplog.records
    assert "ask(...) was called in a thread" in record.getMessage()
    assert "Write: return ask(...)" in record.getMessage()


def test_verdict_without_names_of_arguments_says_what_to_write() -> None:
    verdicts: list[Any] = [Approve, Deny]
    for verdict in verdicts:
        with pytest.raises(TypeError, match=f'Write {verdict.__name__}\\(by="kim"'):
            verdict("kim")


def test_decide_with_a_run_and_a_wait_says_what_to_write() -> None:
    runner: Any = Runner([], store="memory:")

    with pytest.raises(InvalidInput, match=r"decide\(wait_id, Approve\(by=\.\.\.\)\)"):
        runner.decide("r1", "approval-x@r1", Approve(by="kim"))


@pytest.mark.parametrize("kind", [Runner, AsyncRunner])
def test_decide_with_other_arguments_says_what_to_write(kind: Any) -> None:
    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    store = open_store("memory:")
    model = ScriptedModel([ToolCall("pay", {}), "Done."])
    clerk = Agent("clerk", tools=[pay], model=model)
    [wait] = Runner(clerk, store=store).start("go", run_id="r1").waits

    def told(*arguments: Any, **named: Any) -> str:
        runner = kind([], store=store)

        def decide() -> None:
            decided = runner.decide(*arguments, **named)
            if kind is AsyncRunner:
                asyncio.run(decided)

        with pytest.raises(ContinuationsError) as error:
            decide()
        return str(error.value)

    for_runs = "For the waits of a run r1, read Runner.look('r1').waits"
    assert "the id of a wait names its run" in told("r1", wait.id)
    assert for_runs in told("r1", Approve())
    assert "beside the verdict. Write decide(wait_id, Approve(by=...))" in told(
        wait.id, Approve(), by="kim"
    )
    assert "decide has no option 'run_id'. Write" in told(
        wait.id, Approve(), run_id="r1"
    )
    expected = "wait_id must be the id of a wait (str), got a Wait. Pass wait.id."
    assert expected == told(wait, Approve())
    assert 'got the class Approve. Nothing was recorded. Write Approve(by="kim").' in (
        told(wait.id, Approve)
    )
    assert "got the class Answer. Nothing was recorded. Write Answer(value)." in (
        told(wait.id, Answer)
    )
    assert "got str. Nothing was recorded. Decide again." in told(wait.id, "approve")


def test_plain_for_over_an_asynchronous_iterator_says_what_to_write() -> None:
    runner: Any = AsyncRunner([], store="memory:")

    for items in (runner.waiting(), runner.runs(), runner.events("r1")):
        with pytest.raises(InvalidInput, match="Write `async for`"):
            iter(items)


@pytest.mark.parametrize("kind", [Runner, AsyncRunner])
def test_method_of_another_package_names_the_method_here(kind: Any) -> None:
    runner = kind([], store="memory:")

    with pytest.raises(AttributeError, match=r"has no attribute 'run'\. Call start\("):
        _ = runner.run
    assert not hasattr(runner, "nothing_like_this")


def test_suspended_of_each_kind_is_printed_in_words() -> None:
    """The first program of the README prints its outcome."""

    @tool
    def nap() -> Any:
        """Sleep."""
        return sleep(timedelta(hours=1))

    limited = ModelError("x is down\nnow", retryable=True)
    model = ScriptedModel({"m": [limited], "t": [ToolCall("nap"), "Done."]})
    agents = [Agent("m", model=model), Agent("t", tools=[nap], model=model)]
    runner = Runner(agents, store="memory:", model_retry_time=0)
    time = r"[0-9-]{10} [0-9:]{8} UTC"

    waiting = runner.start("go", run_id="r1", agent="m")
    assert re.fullmatch(
        rf"<Suspended r1: waits for its model \(m\) until {time}: "
        r"Attempt 1 failed: x is down\\nnow>",
        str(waiting),
    )
    with pytest.raises(NotFinished, match=r"down\\nnow\. A later sweep\(\)"):
        waiting.result()
    sleeping = runner.start("go", run_id="r2", agent="t")
    assert re.fullmatch(
        rf"<Suspended r2: waits for a time \(nap\) until {time}>", str(sleeping)
    )
    runner.pause("r2", reason="audit", by="kim")
    paused = runner.resume("r2")
    # Waits that began in the same millisecond may be in either order.
    assert re.search(
        r"waits for (.*, )?an operator \(t\): audit: Paused by kim[,>]", str(paused)
    )
    stored = runner.start("go", run_id="r3", agent="t", work=False)
    assert "<Suspended r3: can go on>" == str(stored)


def test_suspended_with_many_waits_is_printed_in_one_short_line() -> None:
    @tool(approval=True)
    def pay(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    calls = [ToolCall("pay", {"cents": 4711}) for _ in range(1200)]
    model = ScriptedModel([calls, "Done."])
    runner = Runner(Agent("clerk", tools=[pay], model=model), store="memory:")

    shown = str(runner.start("go", run_id="r1"))

    assert shown.endswith("approval (pay), 1,195 more>")
    assert len(shown) < 150


def test_outcomes_share_their_names_and_have_a_short_repr() -> None:
    @tool(approval=True)
    def pay(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    model = ScriptedModel([ToolCall("pay", {"cents": 4711}), "Done."])
    runner = Runner(Agent("clerk", tools=[pay], model=model), store="memory:")
    suspended = runner.start("go", run_id="r1")
    runner.decide(suspended.waits[0].id, Approve(by="kim"))
    finished = runner.resume("r1")
    runner.start("go", run_id="r2")
    runner.cancel("r2")
    failed = runner.resume("r2")

    found = [
        (each.status, each.output, len(each.waits)) for each in (suspended, failed)
    ]
    assert [("suspended", None, 1), ("cancelled", None, 0)] == found
    assert ("finished", "Done.", ()) == (
        finished.status,
        finished.output,
        finished.waits,
    )
    assert "Done." == finished.result()
    with pytest.raises(
        NotFinished, match=r"run r1 .* approval \(pay\).*resume\('r1'\)"
    ):
        suspended.result()
    with pytest.raises(RunFailed, match="run r2 has no output: cancelled"):
        failed.result()
    for each in (suspended, finished, failed):
        assert "\n" not in repr(each)
        assert len(repr(each)) < 150
        assert "4711" not in repr(each)


# Invalid arguments ------------------------------------------------------------


MODEL = ScriptedModel(["Done."])
AGENT = Agent("a", model=MODEL)


@pytest.mark.parametrize(
    "options",
    [
        *({"lease": value} for value in (0, -1, 0.001, "x", None, True, 1e18)),
        *({"lease": value} for value in (float("nan"), float("inf"))),
        *({"max_attempts": value} for value in ("x", 0, -1, None, 1.5, True)),
        *({"max_depth": value} for value in ("x", 0, -1, 1.5, True)),
        {"notify": 3},
        {"clock": 3},
        {"ids": 3},
    ],
    ids=str,
)
def test_invalid_runner_option_is_rejected_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Runner(AGENT, store="memory:", **options)


@pytest.mark.parametrize("store", [None, 3, b"", object(), "s4:x", "file:\x00"])
def test_invalid_store_is_rejected(store: Any) -> None:
    with pytest.raises(InvalidInput):
        Runner(AGENT, store=store)


def test_path_is_accepted_as_a_store(tmp_path: Path) -> None:
    Runner(AGENT, store=tmp_path / "runs").start("go", run_id="r")

    assert "finished" == Runner([], store=f"file:{tmp_path}/runs").look("r").status


def test_invalid_store_url_raises_a_continuations_error() -> None:
    with pytest.raises(ContinuationsError):
        open_store("nothing")


@pytest.mark.parametrize("agents", [None, "a", [3], lambda: AGENT])
def test_invalid_agents_argument_is_rejected(agents: Any) -> None:
    with pytest.raises(InvalidInput):
        Runner(agents, store="memory:")


def test_a_runner_without_agents_starts_nothing() -> None:
    with pytest.raises(InvalidInput, match="has no agents"):
        Runner([], store="memory:").start("go")


@pytest.mark.parametrize(
    "options",
    [
        *({"max_turns": value} for value in ("3", (), 1.5, 0, 10**30, True)),
        *({"max_denials": value} for value in ("3", (), 1.5, 0, 10**30, True)),
        *({"settings": value} for value in ("x", 3, [1], {1: 2})),
        {"description": 3},
        *({"model": value} for value in (ScriptedModel, "", 3)),
        {"output_type": "int"},
        {"input_type": "int"},
    ],
    ids=str,
)
def test_invalid_agent_option_is_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Agent("a", **options)


def test_failing_tools_function_is_reported() -> None:
    agent = Agent("a", model=MODEL, tools=lambda: [1 / 0])  # type: ignore[list-item]

    with pytest.raises(InvalidInput, match="ZeroDivisionError"):
        Runner(agent, store="memory:").start("go")


@pytest.mark.parametrize(
    "given",
    [
        *([], {}, (), b"x", 3, None, [3], {"role": "user", "content": "x"}),
        *([{"role": "user"}], [{"role": "user", "content": ""}]),
        [{"role": "user", "content": []}],
        [{"role": "boss", "content": "x"}],
    ],
    ids=str,
)
def test_invalid_input_is_rejected_before_a_write(given: Any, tmp_path: Path) -> None:
    agent = Agent("a", instructions="You are a.", model=MODEL)

    with pytest.raises(InvalidInput):
        Runner(agent, store=tmp_path).start(given, run_id="r")

    assert [] == [path for path in tmp_path.rglob("*") if path.is_file()]


def test_model_that_returns_no_reply_is_a_model_error() -> None:
    class Odd:
        name = "odd"

        async def reply(self, request: ModelRequest) -> str:
            return request.agent

    model: Any = Odd()
    runner = Runner(Agent("a", model=model), store="memory:")

    with pytest.raises(ModelError, match="did not return a ModelReply"):
        runner.start("go", run_id="r")

    assert "suspended" == runner.look("r").status


def test_exception_with_a_failing_str_is_reported() -> None:
    class Bad(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @tool
    def act() -> str:
        """Act."""
        raise Bad

    model = ScriptedModel([ToolCall("act"), "Done."])
    runner = Runner(Agent("a", model=model, tools=[act]), store="memory:")

    assert "Done." == getattr(runner.start("go"), "output", None)


def test_tool_exception_is_logged_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The text of an exception may contain secrets."""

    @tool
    def act() -> str:
        """Act."""
        msg = "sk-secret"
        raise ValueError(msg)

    model = ScriptedModel([ToolCall("act"), "Done."])
    runner = Runner(Agent("a", model=model, tools=[act]), store="memory:")

    runner.start("go", run_id="r-1")

    assert "run r-1: call c3 of act failed: ValueError" in caplog.text
    assert "sk-secret" not in caplog.text
