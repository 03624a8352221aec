"""A tool's exception is logged with its traceback and without its text."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from continuations import Agent, run, tool
from continuations.engine.call_failures import describe_error
from continuations.models.scripted import ScriptedModel, ToolCall

SECRET = "sk-4242"


def _report(function: Any) -> str:
    try:
        function()
    except BaseException as error:  # noqa: BLE001 - every class
        return describe_error(error)
    raise AssertionError


def _missing_attribute() -> None:
    database: Any = None
    database.connect(SECRET)


def _attribute_from_data() -> None:
    getattr(None, SECRET)


def _missing_name() -> None:
    exec("undefined_name", {})  # noqa: S102 - type checkers refuse it elsewhere


def _missing_file() -> None:
    Path(f"/nowhere/{SECRET}").read_text()


def _key() -> None:
    dict[str, str]()[SECRET]


def _caused() -> None:
    try:
        _key()
    except KeyError as error:
        raise RuntimeError(SECRET) from error


def _group() -> None:
    raise ExceptionGroup(SECRET, [ValueError(SECRET), OSError(SECRET)])


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
    assert SECRET not in report


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
        raise LookupError(f"{SECRET} {cents}")

    model = ScriptedModel([ToolCall("pay", {"cents": 4711}), "Done."])
    with caplog.at_level(logging.INFO):
        run(Agent("clerk", tools=[pay], model=model), "go")

    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    text = record.getMessage()
    assert "of pay failed: LookupError" in text
    assert f'File "{__file__}"' in text
    assert "in pay" in text
    assert "continuations/engine" not in text
    assert SECRET not in text
    assert "4711" not in text
