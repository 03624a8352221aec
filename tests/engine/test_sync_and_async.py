"""`Runner` has the methods of `AsyncRunner`, and `Thread` those of `AsyncThread`."""

from __future__ import annotations

import ast
import asyncio
import inspect
import pickle
import re
import threading
from collections.abc import Callable
from typing import Any, Generic, cast

import pytest

from continuations import (
    Approve,
    AsyncRunner,
    ContinuationsError,
    Finished,
    Runner,
    Suspended,
    Wait,
    resume,
    run,
    tool,
)
from continuations.aio import resume as resume_async
from continuations.aio import resume_stream as resume_stream_async
from continuations.aio import run as run_async
from continuations.aio import run_stream as run_stream_async
from continuations.ledger.index.waits import PEOPLES_KINDS
from continuations.streams import RunStream, resume_stream, run_stream
from continuations.threads import AsyncThread, AsyncTicket, Thread, Ticket
from continuations_storage import MemoryStore
from tests import effect_log
from tests.engine import agent_builders
from tests.engine.agent_builders import root_tool_results
from tests.engine.payment_agent import ONE_PAY_SCRIPT, pay
from tests.outcomes import expect
from tests.run_environment import ROOT
from tests.scripts import call
from tools import sync_stubs


def test_sync_call_inside_a_running_loop_names_the_async_runner() -> None:
    """It would block the loop: nothing is called, and the error says what to use."""
    runner = agent_builders.make_runner(ONE_PAY_SCRIPT, pay)

    async def inside() -> None:
        calls: list[Callable[[], object]] = [
            lambda: runner.start("go", run_id="r"),
            lambda: list(runner.waiting()),
            lambda: runner.decide("approval-x@r", Approve()),
            lambda: run(agent_builders.make_boss(ONE_PAY_SCRIPT, pay), "go"),
        ]
        for each in calls:
            with pytest.raises(ContinuationsError, match="Use AsyncRunner"):
                each()

    asyncio.run(inside())

    assert [] == effect_log.names()
    assert isinstance(runner.start("go", run_id="r"), Suspended)


def test_sync_call_in_a_callback_of_a_loop_names_the_async_runner() -> None:
    """No task runs there, as at the prompt of `python -m asyncio`."""
    runner = agent_builders.make_runner(ONE_PAY_SCRIPT, pay)
    calls: list[Callable[[], object]] = [
        lambda: runner.start("go"),
        runner.sweep,
        runner.serve_forever,
        lambda: list(runner.runs()),
    ]

    async def call(function: Callable[[], object]) -> object:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()

        def callback() -> None:
            try:
                done.set_result(function())
            except ContinuationsError as error:
                done.set_result(error)

        loop.call_soon(callback)
        return await done

    for function in calls:
        told = expect(asyncio.run(call(function)), ContinuationsError)
        assert "Use AsyncRunner" in str(told)


def test_async_runner_works_in_two_event_loops(store: MemoryStore) -> None:

    async def first() -> Wait:
        runner = AsyncRunner(agent_builders.make_boss(ONE_PAY_SCRIPT, pay), store=store)
        assert isinstance(await runner.start("go", run_id="r"), Suspended)
        [summary] = [each async for each in runner.waiting()]
        wait = await runner.wait(summary.id)
        await runner.decide(wait.id, Approve())
        assert 1 == await runner.send("r", "And?")
        assert {} == (await runner.sweep()).errors
        return wait

    async def second() -> None:
        runner = AsyncRunner(agent_builders.make_boss(ONE_PAY_SCRIPT, pay), store=store)
        assert isinstance(await runner.resume("r"), Finished)
        assert "finished" == (await runner.look("r")).status
        assert "finished" == (await runner.cancel("r")).status

    assert "pay" == asyncio.run(first()).tool
    asyncio.run(second())
    assert ["pay "] == effect_log.names()


def test_run_async_and_resume_async_work_without_a_store() -> None:
    agent = agent_builders.make_boss(ONE_PAY_SCRIPT, pay)

    async def both() -> Any:
        outcome = expect(await run_async(agent, "go"), Suspended)
        answers = {outcome.waits[0].id: Approve()}
        return await resume_async(outcome.continuation, agent, answers=answers)

    assert isinstance(asyncio.run(both()), Finished)


def test_many_threads_share_one_runner() -> None:
    runner = agent_builders.make_runner(ONE_PAY_SCRIPT, pay)

    def one(number: int) -> None:
        outcome = expect(runner.start("go", run_id=f"r{number}"), Suspended)
        runner.decide(outcome.waits[0].id, Approve())
        assert isinstance(runner.resume(f"r{number}"), Finished)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert 16 == len(effect_log.names())


@pytest.mark.parametrize("how", ["sync tool", "async tool"])
def test_sync_run_inside_a_tool_works_only_in_a_thread(how: str) -> None:
    """In an async tool, it would block the loop that it waits for, so it raises."""
    inner = agent_builders.make_boss({"go": ["inner end"]})

    def within() -> str:
        outcome = expect(run(inner, "go"), Finished)
        return str(outcome.output)

    @tool(name="nest")
    def nest() -> str:
        """Run an agent."""
        return within()

    @tool(name="nest")
    async def nest_async() -> str:
        """Run an agent, the wrong way."""
        return within()

    chosen = nest if how == "sync tool" else nest_async
    outcome = agent_builders.make_runner({"go": [[call("nest")], "end"]}, chosen).start(
        "go"
    )

    assert isinstance(outcome, Finished)
    [text] = root_tool_results(outcome)
    assert text == "inner end" or (how == "async tool" and text.startswith("ERROR"))


FACES = [(Runner, AsyncRunner), (Thread, AsyncThread), (Ticket, AsyncTicket)]
# Only AsyncTicket has them, for AsyncThread.
INNER = {"work", "closed_error"}


def public_members(face: type[object]) -> dict[str, Any]:
    """Return the public methods and properties of a class by name."""
    return {
        name: member
        for name, member in inspect.getmembers(face)
        if (inspect.isfunction(member) or isinstance(member, property))
        and not name.startswith("_")
        and name not in INNER
    }


def public_methods(face: type[object]) -> list[str]:
    members = public_members(face)
    return [name for name in members if inspect.isfunction(members[name])]


METHODS = [
    pytest.param(face, source, name, id=f"{face.__name__}.{name}")
    for face, source in FACES
    for name in public_methods(face)
]
# The sync method has no `stop` event, and handles signals by default.
LOOP_PARAMETERS = {("serve_forever", "stop"), ("serve_forever", "handle_signals")}


@pytest.mark.parametrize(("face", "source"), FACES)
def test_sync_and_async_class_have_the_same_members(
    face: type[Any], source: type[Any]
) -> None:
    assert public_members(face).keys() == public_members(source).keys()


@pytest.mark.parametrize(("face", "source", "name"), METHODS)
def test_sync_and_async_method_have_the_same_parameters(
    face: type[Any], source: type[Any], name: str
) -> None:
    """Only `serve_forever` differs: the sync one has an event loop of its own."""
    ours, theirs = (
        [
            parameter
            for parameter in inspect.signature(getattr(each, name)).parameters.values()
            if (name, parameter.name) not in LOOP_PARAMETERS
        ]
        for each in (face, source)
    )
    assert ours == theirs


@pytest.mark.parametrize(("face", "source", "name"), METHODS)
def test_sync_method_is_a_plain_function_of_its_class(
    face: type[Any], source: type[Any], name: str
) -> None:
    """Its type has no coroutine, and neither page sends the reader to the other."""
    method, original = getattr(face, name), getattr(source, name)

    assert not inspect.iscoroutinefunction(method)
    assert (face.__module__, f"{face.__name__}.{name}") == (
        method.__module__,
        method.__qualname__,
    )
    returned = inspect.signature(original).return_annotation
    assert returned.replace("Async", "") == inspect.signature(method).return_annotation
    if name != "serve_forever":
        assert inspect.getdoc(method) == inspect.getdoc(original)


@pytest.mark.parametrize(
    ("function", "source"),
    [
        (run, run_async),
        (resume, resume_async),
        (run_stream, run_stream_async),
        (resume_stream, resume_stream_async),
    ],
)
def test_sync_function_is_described_as_the_async_one(
    function: Any, source: Any
) -> None:
    ours, theirs = inspect.signature(function), inspect.signature(source)

    assert f"{function.__name__}_async" == source.__name__
    assert function is pickle.loads(pickle.dumps(function))  # noqa: S301 - made here
    assert not inspect.iscoroutinefunction(function)
    assert ours.parameters == theirs.parameters
    assert ours.return_annotation == theirs.return_annotation.replace("Async", "")
    assert inspect.getdoc(function) == inspect.getdoc(source)
    with pytest.raises(TypeError, match=rf"^{function.__name__}\(\) got an unexpected"):
        function(contxt=1)


@pytest.mark.parametrize("module", sync_stubs.FACES)
def test_stub_of_the_sync_face_follows_the_async_source(module: str) -> None:
    """Editors and type checkers read it. `python tools/sync_stubs.py` writes it."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".pyi")

    assert sync_stubs.write_stub(module) == path.read_text()


@pytest.mark.parametrize(
    ("face", "name"),
    [(face, name) for face, _ in FACES for name in public_methods(face)],
)
def test_stub_has_the_parameters_and_the_docstring_of_the_method(
    face: type[Any], name: str
) -> None:
    """A reader of the stub sees the methods that a program gets."""
    path = ROOT.joinpath(*face.__module__.split(".")).with_suffix(".pyi")
    [stub] = [
        function
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == face.__name__
        for function in node.body
        if isinstance(function, ast.FunctionDef) and function.name == name
    ]
    method = getattr(face, name)
    parameters = inspect.signature(method).parameters.values()

    assert ast.get_docstring(stub) == inspect.getdoc(method)
    assert {each.name for each in parameters} == {
        each.arg for each in ast.walk(stub.args) if isinstance(each, ast.arg)
    }


def test_sync_method_returns_sync_objects() -> None:
    """A stream, a thread or a ticket needs no event loop either."""
    runner = agent_builders.make_runner({"go": ["end"], "Hi": ["Hello."]})
    thread = runner.thread(key="kim")
    streams: list[RunStream[Any]] = [
        runner.stream("go"),
        runner.resume_stream("r"),
        thread.stream("Hi"),
    ]
    for stream in streams:
        stream.close()

    assert [RunStream] * 3 == [type(stream) for stream in streams]
    assert thread.ticket(1) is None
    assert (Thread, Ticket) == (type(thread), type(thread.post("Hi")))
    assert isinstance(thread.ticket(1), Ticket)


def test_class_of_the_sync_face_documents_its_arguments() -> None:
    text = inspect.getdoc(Runner) or ""

    assert text.startswith("Runs of some agents, kept in a store.")
    assert "async_runner: The `AsyncRunner` of the same agents" in text
    assert (inspect.getdoc(AsyncRunner) or "").partition("Args:")[2] in text
    assert inspect.signature(Runner) == inspect.signature(AsyncRunner)


def test_call_with_wrong_arguments_names_the_sync_class() -> None:
    runner: Any = Runner([], store=MemoryStore())

    with pytest.raises(TypeError, match=r"^Runner.decide\(\) missing 2 required"):
        runner.decide()
    with pytest.raises(TypeError, match=r"^Runner.waiting\(\) got an unexpected"):
        runner.waiting(kind="approval")
    with pytest.raises(TypeError, match=r"^Runner.__init__\(\) missing 1 required"):
        cast("Any", Runner)([])


def test_type_error_within_a_method_is_raised_as_it_is() -> None:
    """Only Python's own errors about arguments are rewritten."""
    runner = Runner([], store=MemoryStore())

    class Listing(AsyncRunner):
        def runs(self, **_: object) -> Any:
            msg = "Async is kept here"
            raise TypeError(msg)

    runner.async_runner = Listing([], store=MemoryStore())

    with pytest.raises(TypeError, match=r"^Async is kept here$"):
        runner.runs()


def test_runner_has_at_most_two_classes() -> None:
    """A reader finds a method in the class that it belongs to."""
    for face, source in FACES:
        for each in (face, source):
            assert len(each.__mro__) <= len([each, "RunnerParts", Generic, object])


@pytest.mark.parametrize("name", ["waiting", "open_waits", "worklist"])
def test_docstring_names_the_kinds_that_are_listed_by_default(name: str) -> None:
    text = " ".join((getattr(AsyncRunner, name).__doc__ or "").split())
    [listed] = re.findall(r"`None`: of the kinds that ask a person: (.*?)\.", text)

    assert sorted(PEOPLES_KINDS) == sorted(re.findall(r"`(\w+)`", listed))
