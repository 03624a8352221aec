"""The check of messages accepts good ones and finds each fault."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from continuations import errors
from continuations.errors import InvalidInput
from tests import error_texts
from tests.errors import shape
from tests.errors.case import Case, Observation
from tests.errors.scene import API_KEY

CASE = Case("case", InvalidInput, "code", "advice", "", ("lease",), is_list=False)

GOOD_TEXTS = (
    "lease must be a number of seconds from 0.1 to 86400, got 0.",
    "lease is too short: 0 seconds. Pass at least 0.1.",
    "lease 0 is too short. Pass at least 0.1.",
)
BAD_TEXTS = {
    "lease must be a number, got 0": "full stop",
    "lease is wrong.": "what to do next",
    "What lease says is wrong: it is 0. Pass 1.": "begins with 'What'",
    "It is wrong: lease is 0. Pass 1.": "begins with 'It'",
    "seconds must be a number, got 0.": "does not name 'lease'",
    "lease is wrong; '1' is none. Pass 1.": "says 'is none'",
    f"lease is wrong: {API_KEY}. Pass 1.": "repeats",
    f"lease must be {'very ' * 60}long.": "words",
    f"lease must be at {'x' * 161}.": "letters",
    "lease is wrong: KeyError(1). Pass 1.": "says 'KeyError('",
}


def _faults(text: str) -> list[str]:
    seen = Observation(InvalidInput(text), text, run_id=None, wait_id=None)
    return list(shape.faults(CASE, seen))


@pytest.mark.parametrize("text", GOOD_TEXTS)
def test_message_with_cause_and_next_step_has_no_fault(text: str) -> None:
    assert [] == _faults(text)


@pytest.mark.parametrize(
    ("text", "fault"), BAD_TEXTS.items(), ids=range(len(BAD_TEXTS))
)
def test_message_with_one_fault_is_refused(text: str, fault: str) -> None:
    (found,) = _faults(text)

    assert fault in found


def test_message_names_the_run_and_the_wait_of_its_error() -> None:
    text = "lease must be longer."
    seen = Observation(InvalidInput(text), text, run_id="jane-1", wait_id="approval-1")

    found = list(shape.faults(CASE, seen))

    assert ["it does not name 'jane-1'", "it does not name 'approval-1'"] == found


# The plugin that checks the errors of all tests -------------------------------------


@pytest.fixture
def noted(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Return the faults that the plugin noted; they do not fail this test."""
    plugin = request.config.pluginmanager.get_plugin("error_texts")
    assert isinstance(plugin, error_texts.Texts)
    yield plugin.faults
    plugin.faults.clear()


def make_error(file: Path, text: str) -> None:
    """Make an error in a function of a file, catch it, and drop it."""
    code = "def function(kind, text):\n    try: raise kind(text)\n    except kind: pass"
    names: dict[str, Any] = {}
    exec(compile(code, str(file), "exec"), names)  # noqa: S102 - a file of the library
    names["function"](InvalidInput, text)


def test_bad_text_of_the_library_is_noted_where_it_is_made(noted: list[str]) -> None:
    """Also if the error is caught again."""
    make_error(Path(errors.__file__).with_name("module.py"), "r1 is busy")

    [first, second] = noted
    assert first.startswith(
        "continuations/module.py:function InvalidInput 'r1 is busy'"
    )
    assert "full stop" in first
    assert "what to do next" in second
    noted.clear()


def test_good_text_and_text_of_an_application_are_not_noted(noted: list[str]) -> None:
    """An application words its own errors."""
    make_error(Path(errors.__file__).with_name("module.py"), "r1 is busy. Wait.")
    make_error(Path(__file__), "r1 is busy")

    assert [] == noted


def test_functions_that_are_excepted_exist() -> None:
    """A function that was renamed leaves the list."""
    for place in (*error_texts.FREE_ENDS, *error_texts.PARTS):
        path, _, function = place.partition(":")
        value = importlib.import_module(path.removesuffix(".py").replace("/", "."))
        for name in function.split("."):
            assert hasattr(value, name), place
            value = getattr(value, name)
