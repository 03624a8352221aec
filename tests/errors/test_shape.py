"""The check of messages accepts good ones and finds each fault."""

from __future__ import annotations

import pytest

from continuations.errors import InvalidInput
from tests.errors import shape
from tests.errors.case import Case, Observation
from tests.errors.scene import API_KEY

CASE = Case("case", InvalidInput, "code", "advice", names=("lease",))

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
