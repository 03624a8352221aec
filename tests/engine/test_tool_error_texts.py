"""The texts for the model and for the log after a tool raised."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from continuations import Agent, AsyncRunner, Runner, Suspended, ToolContext, run, tool
from continuations.core.rows.calls import Errored
from continuations.engine.call_failures import describe_error
from continuations.errors import InvalidInput
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import FailedCall, Retries, Tool
from continuations_storage import MemoryStore
from tests import effect_log
from tests.engine.agent_builders import make_boss, root_tool_results, text_tool
from tests.outcomes import expect
from tests.run_environment import wait_until
from tests.scripts import call

SCRIPT: Any = {"go": [[call("pay", cents=5)], "end"]}
SECRET = "sk-live-1234"
STANDARD = f"ERROR: the tool failed: PermissionError: {SECRET}"


def make_pay(error: BaseException | None = None, **options: Any) -> Any:
    raised = error or PermissionError(SECRET)

    @tool(name="pay", **options)
    def pay(cents: int, ctx: ToolContext) -> str:
        """Pay."""
        effect_log.append_effect("pay", str(cents), attempt=ctx.attempt)
        raise raised

    return pay


def results(made: Any, **options: Any) -> list[str]:
    """Return the tool messages of a run that calls a tool."""
    runner = Runner(make_boss(SCRIPT, made), store="memory:")
    return root_tool_results(runner.start("go", run_id="r1", **options))


def test_model_reads_the_text_of_the_function() -> None:
    """The text of the exception reaches the model only if the function passes it on."""
    seen: list[Any] = []

    def explain(error: Exception, call: FailedCall) -> str:
        seen.extend((error, call))
        return "You may not pay."

    assert ["You may not pay."] == results(make_pay(on_error=explain), context="ctx")
    error, failed = seen
    assert isinstance(error, PermissionError)
    assert ("pay", "r1", 1, {"cents": 5}, "ctx") == (
        failed.tool,
        failed.run_id,
        failed.attempt,
        failed.arguments,
        failed.context,
    )
    assert ["pay 5"] == effect_log.names()


def test_repr_of_a_failed_call_shows_no_values() -> None:
    failed = FailedCall(
        tool="pay",
        run_id="r1",
        call_id="c1",
        attempt=1,
        arguments={"pin": SECRET},
        context=SECRET,
    )

    assert SECRET not in repr(failed)


@pytest.mark.usefixtures("environment")
def test_async_function_and_schema_tool() -> None:
    async def explain(error: Exception, call: FailedCall) -> str:
        await asyncio.sleep(0)
        return f"{call.tool}: {type(error).__name__} at {call.arguments['cents']}"

    def pay(arguments: dict[str, Any]) -> str:
        raise PermissionError(arguments)

    schema = {"type": "object", "properties": {"cents": {"type": "integer"}}}
    made = Tool.from_schema("pay", schema, pay, on_error=explain)

    assert ["pay: PermissionError at 5"] == results(made)
    assert ["pay: PermissionError at 5"] == results(make_pay(on_error=explain))


@pytest.mark.usefixtures("environment")
def test_call_ends_with_the_same_code_and_the_log_has_its_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wait = text_tool("wait", "waited", approval=True)
    script: Any = {"go": [[call("pay", cents=5), call("wait")], "end"]}
    boss = make_boss(script, make_pay(on_error=says_no), wait)
    with caplog.at_level(logging.WARNING, "continuations"):
        outcome = Runner(boss, store="memory:").start("go", run_id="r1")

    rows = outcome.continuation.run_state.calls.values()
    assert Errored("exception", "No.") in [row.state for row in rows]
    [logged] = [each for each in caplog.messages if "of pay failed" in each]
    assert "PermissionError" in logged
    assert SECRET not in logged


def says_no(error: Exception, call: FailedCall) -> str:
    """Return a text without a detail."""
    del error, call
    return "No."


def returns_a_number(error: Exception, call: FailedCall) -> Any:
    """Return something else than a text."""
    del error, call
    return 5


def takes_one(error: Exception) -> str:
    return str(error)


def raises(error: Exception, call: FailedCall) -> str:
    raise ValueError(SECRET, error, call)


def exits(error: Exception, call: FailedCall) -> str:
    raise SystemExit(SECRET, error, call)


async def raises_later(error: Exception, call: FailedCall) -> str:
    raise ValueError(SECRET, error, call)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("function", [raises, exits, raises_later, returns_a_number])
def test_function_that_fails_is_logged_and_the_model_reads_the_standard_text(
    function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "continuations"):
        told = results(make_pay(on_error=function))

    assert [STANDARD] == told
    logged = [each for each in caplog.messages if "has no text of on_error" in each]
    assert 1 == len(logged)
    assert SECRET not in "".join(caplog.messages)


def test_function_is_called_after_the_last_attempt() -> None:
    attempts: list[int] = []

    def explain(error: Exception, call: FailedCall) -> str:
        attempts.append(call.attempt)
        return f"{type(error).__name__}, {call.attempt} attempts"

    retries = Retries(2, first_delay=0.01)
    made = make_pay(on_error=explain, idempotent=True, retries=retries)

    assert ["PermissionError, 3 attempts"] == results(made)
    assert [3] == attempts
    assert 3 == len(effect_log.effects())


def never(error: Exception, call: FailedCall) -> str:
    """Fail the test: the function must not be called."""
    raise AssertionError(error, call)


def test_timeout_keeps_its_outcome_and_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The outcome of a call that may not be repeated is unknown."""

    def make_slow(**options: Any) -> Any:
        @tool(name="pay", timeout=0.01, on_error=never, **options)
        async def pay(cents: int) -> str:
            """Pay, slowly."""
            effect_log.append_effect("pay", str(cents))
            await asyncio.Event().wait()
            return "paid"

        return pay

    told = results(make_slow(on_timeout="tell_model"))
    assert "did not return within 0.01 s" in told[0]
    runner = Runner(make_boss(SCRIPT, make_slow()), store="memory:")
    outcome = expect(runner.start("go", run_id="r1"), Suspended)
    assert ["unknown"] == [wait.kind for wait in outcome.waits]
    assert not [each for each in caplog.messages if "on_error" in each]
    assert 2 == len(effect_log.effects())


@pytest.mark.usefixtures("environment")
def test_result_that_cannot_be_stored_and_other_exceptions_keep_their_texts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool(name="pay", on_error=never)
    def pay(cents: int) -> Any:
        """Pay."""
        return {cents: object()}

    assert "cannot be stored" in results(pay)[0]
    [told] = results(make_pay(SystemExit(3), on_error=never))
    assert told == "ERROR: the tool failed: SystemExit: 3"
    assert not [each for each in caplog.messages if "on_error" in each]


async def test_cancelled_worker_is_not_held_up_by_the_function() -> None:
    """A cancellation is no error of the function; the outcome is unknown."""

    async def explain(error: Exception, call: FailedCall) -> str:
        effect_log.append_effect("explain", type(error).__name__, call=call.call_id)
        await asyncio.Event().wait()
        return "never"

    boss = make_boss(SCRIPT, make_pay(on_error=explain, read_only=True))
    runner = AsyncRunner(boss, store=MemoryStore())
    starting = asyncio.create_task(runner.start("go", run_id="r1"))
    await asyncio.to_thread(
        wait_until, lambda: "explain PermissionError" in effect_log.names()
    )
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert (await runner.look("r1")).status in ("running", "suspended")


@pytest.mark.usefixtures("environment")
def test_text_without_a_store() -> None:
    made = make_pay(on_error=says_no)

    assert ["No."] == root_tool_results(run(make_boss(SCRIPT, made), "go"))


def test_contract_does_not_depend_on_the_text() -> None:
    assert make_pay().contract_digest == make_pay(on_error=never).contract_digest


@pytest.mark.parametrize("value", ["text", 5, takes_one, lambda: ""])
def test_other_value_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="tool pay: on_error must be a function"):
        make_pay(on_error=value)


def test_agent_words_the_errors_of_tools_that_say_nothing() -> None:
    """`tool_errors` is the `on_error` of every tool without one."""

    def of_agent(error: Exception, call: FailedCall) -> str:
        return f"agent: {call.tool} raised {type(error).__name__}"

    def of_tool(_error: Exception, call: FailedCall) -> str:
        return f"tool: {call.tool}"

    @tool
    def first() -> str:
        """Fail."""
        raise ConnectionError(SECRET)

    @tool(on_error=of_tool)
    def second() -> str:
        """Fail."""
        raise ConnectionError(SECRET)

    model = ScriptedModel([[ToolCall("first", {}), ToolCall("second", {})], "done"])
    agent = Agent("a", tools=[first, second], model=model, tool_errors=of_agent)
    other = Agent("b", tools=[first], model=ScriptedModel([ToolCall("first", {}), "x"]))

    told = root_tool_results(run(agent, "go"))
    standard = root_tool_results(run(other, "go"))

    assert ["agent: first raised ConnectionError", "tool: second"] == told
    # The tool itself is not changed: another agent has the standard text.
    assert standard[0].startswith("ERROR: the tool failed: ConnectionError")


# The log ----------------------------------------------------------------------


LOGGED_SECRET = "sk-4242"


def _report(function: Any) -> str:
    try:
        function()
    except BaseException as error:  # noqa: BLE001 - every class
        return describe_error(error)
    raise AssertionError


def _missing_attribute() -> None:
    database: Any = None
    database.connect(LOGGED_SECRET)


def _attribute_from_data() -> None:
    getattr(None, LOGGED_SECRET)


def _missing_name() -> None:
    exec("undefined_name", {})  # noqa: S102 - type checkers refuse it elsewhere


def _missing_file() -> None:
    Path(f"/nowhere/{LOGGED_SECRET}").read_text()


def _key() -> None:
    dict[str, str]()[LOGGED_SECRET]


def _caused() -> None:
    try:
        _key()
    except KeyError as error:
        raise RuntimeError(LOGGED_SECRET) from error


def _group() -> None:
    raise ExceptionGroup(
        LOGGED_SECRET, [ValueError(LOGGED_SECRET), OSError(LOGGED_SECRET)]
    )


@pytest.mark.parametrize(
    ("function", "first_line"),
    [
        (_missing_attribute, "AttributeError (connect of NoneType)"),
        (_attribute_from_data, "AttributeError"),
        (_missing_name, "NameError (undefined_name)"),
        (_missing_file, "FileNotFoundError (No such file or directory)"),
        (_key, "KeyError"),
        (_caused, "RuntimeError"),
        (_group, "ExceptionGroup (ValueError, OSError)"),
    ],
)
def test_report_has_the_class_and_the_lines_and_no_text(
    function: Any, first_line: str
) -> None:
    report = _report(function)

    assert first_line == report.splitlines()[0]
    line = function.__code__.co_firstlineno
    assert f'File "{__file__}", line {line + 1}' in report or "in _" in report
    assert f"in {function.__name__}" in report
    assert LOGGED_SECRET not in report


def test_report_has_the_cause() -> None:
    report = _report(_caused).splitlines()

    assert "caused by KeyError" in report
    assert report[-1].endswith("in _key")


def test_circle_of_causes_ends() -> None:
    first, second = ValueError(), TypeError()
    first.__cause__, second.__cause__ = second, first

    assert "ValueError\ncaused by TypeError" == describe_error(first)


def test_failing_tool_is_logged_as_an_error_with_its_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def pay(cents: int) -> str:
        """Pay."""
        raise LookupError(f"{LOGGED_SECRET} {cents}")

    model = ScriptedModel([ToolCall("pay", {"cents": 4711}), "Done."])
    with caplog.at_level(logging.INFO):
        run(Agent("clerk", tools=[pay], model=model), "go")

    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    text = record.getMessage()
    assert "of pay failed: LookupError" in text
    assert f'File "{__file__}"' in text
    assert "in pay" in text
    assert "continuations/engine" not in text
    assert LOGGED_SECRET not in text
    assert "4711" not in text
