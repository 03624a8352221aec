"""Errors say what failed, why, and what to do next; and that helps.

The plugin of `tests/error_texts.py` checks the text of each error that any test meets.
A case is for an error whose advice is run, or that no other test meets.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeGuard

import pytest

import continuations_storage
from continuations.errors import (
    CallError,
    ContinuationsError,
    EffectUnknown,
    IllegalTransition,
)
from continuations.present import problems as error_problems
from continuations.present.problems import ProblemType
from continuations.serve.http import problems
from continuations_storage import StorageError
from tests.errors import shape
from tests.errors.case import Case, follow_advice, observe
from tests.errors.catalogue import CASES
from tests.errors.scene import Scene
from tests.public_names import error_classes, names_of


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_error_is_raised_and_its_advice_succeeds(case: Case, tmp_path: Path) -> None:
    """The error has its class and a text of the right form; the next step works."""
    logging.disable(logging.CRITICAL)
    try:
        with Scene(tmp_path) as scene:
            seen = observe(case, scene)
            assert case.error_name == seen.name, seen.text
            assert [] == [*shape.faults(case, seen)], seen.text
            follow_advice(case, scene)
    finally:
        logging.disable(logging.NOTSET)


def test_case_ids_are_unique() -> None:
    """An id names one case."""
    ids = [case.id for case in CASES]

    assert sorted(set(ids)) == sorted(ids)


def test_every_public_error_class_has_a_case() -> None:
    """Each exported error class is provoked, or there is a reason why not."""
    names = names_of(continuations_storage)
    of_stores = [getattr(continuations_storage, name) for name in names]
    classes = [*error_classes().values(), *of_stores]
    errors = {each for each in classes if _is_error(each)}
    provoked = {case.error for case in CASES}

    # `start-within-an-async-tool` makes the first; the core makes the second only if it
    # has a mistake; the third is above the others, as Exception is. The code of a
    # workflow gets the rest: tests/engine/workflows.
    reasons: set[type[BaseException]] = {ContinuationsError, IllegalTransition}
    reasons |= {StorageError, CallError, *CallError.__subclasses__()}
    reasons.add(EffectUnknown)  # a tool raises it, and the engine asks a person

    assert set() == {each.__name__ for each in errors - provoked - reasons}


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def test_every_http_problem_has_a_case() -> None:
    """Each problem type of the HTTP API is provoked, or cannot be."""
    declared = {f"{each.status} {each.slug}" for each in _problem_types()}
    provoked = {case.error_name.removeprefix("problem ") for case in CASES}
    shown_as_pages = {"403 link-forbids", "403 foreign-post", "404 link-invalid"}
    shown_as_pages |= {"429 too-many-streams"}
    # Nothing erases runs yet; the other needs two workers at the same moment.
    unreachable = {"410 run-erased", "409 stale-run"}

    assert set() == declared - shown_as_pages - unreachable - provoked


def _problem_types() -> Iterator[ProblemType]:
    for module in (problems, error_problems):
        values = module.__dict__.values()
        yield from _only_problem_types(values)
        for table in filter(_is_table, values):
            yield from _only_problem_types(table.values())


def _is_table(value: Any) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _only_problem_types(values: Iterable[Any]) -> Iterator[ProblemType]:
    return (value for value in values if isinstance(value, ProblemType))


def test_the_table_may_be_cut_by_its_reader() -> None:
    """`python -m tests.errors | head` prints no traceback."""
    command = [sys.executable, "-m", "tests.errors", "resume-busy"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()

    assert (1, "") == (process.returncode, err)
