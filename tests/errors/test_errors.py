"""Every error says what failed, why, and what to do next; and that helps."""

from __future__ import annotations

import logging
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

import pytest

import continuations_storage
from continuations.present import problems as error_problems
from continuations.present.problems import ProblemType
from continuations.serve.http import problems
from tests.errors import raise_sites, shape, unreached
from tests.errors.case import follow_advice, observe
from tests.errors.catalogue import CASES
from tests.errors.scene import Scene
from tests.public_names import error_classes, names_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.errors.case import Case
    from tests.errors.raise_sites import Recorder


@dataclass
class Results:
    """The faults of all cases, and the `raise` statements that they reached."""

    not_as_declared: list[str] = field(default_factory=list[str])
    advice_that_fails: list[str] = field(default_factory=list[str])
    bad_texts: list[str] = field(default_factory=list[str])
    reached: set[str] = field(default_factory=set[str])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Run every case once."""
    found = Results()
    logging.disable(logging.CRITICAL)
    with raise_sites.recording() as recorder:
        for case in CASES:
            with Scene(tmp_path_factory.mktemp("case")) as scene:
                _run_case(case, scene, recorder, found)
        found.reached = recorder.reached()
    logging.disable(logging.NOTSET)
    return found


def _run_case(case: Case, scene: Scene, recorder: Recorder, found: Results) -> None:
    try:
        seen = observe(case, scene)
    except BaseException as error:  # noqa: BLE001 - one case must not hide the others
        found.not_as_declared.append(f"{case.id} cannot be provoked: {error!r}")
        return
    recorder.note_traceback(seen.error)
    about = f"{case.id}: {seen.text!r}"
    if seen.name != case.error_name:
        wrong = f"{about} is {seen.name} and not {case.error_name}"
        found.not_as_declared.append(wrong)
    found.bad_texts += [f"{about}: {fault}" for fault in shape.faults(case, seen)]
    try:
        follow_advice(case, scene)
    except BaseException as error:  # noqa: BLE001 - likewise
        found.advice_that_fails.append(f"{about}: {error!r}")


def test_every_case_and_its_advice(results: Results) -> None:
    """Each case raises its error, whose text and advice are right.

    Each `raise` that makes an error is reached, or has a reason why not. This is one
    test, because each process that runs a part of it would run every case.
    """
    assert [] == results.not_as_declared
    # The next step that a message names succeeds.
    assert [] == results.advice_that_fails
    # Each text has the form that `shape` checks, and repeats no secret.
    assert [] == results.bad_texts
    assert [] == _sites_without_a_case(results.reached)
    assert [] == _reasons_that_are_not_needed(results.reached)


def _sites_without_a_case(reached: set[str]) -> list[str]:
    return [
        site.place
        for site in raise_sites.all_sites()
        if site.id not in reached and not _reason(site)
    ]


def _reasons_that_are_not_needed(reached: set[str]) -> list[str]:
    needed = {
        key
        for site in raise_sites.all_sites()
        if site.id not in reached
        for key in _keys(site)
    }
    return sorted(unreached.UNREACHED.keys() - needed)


def _reason(site: raise_sites.RaiseSite) -> str | None:
    found = (unreached.UNREACHED.get(key) for key in _keys(site))
    return next(filter(None, found), None)


def _keys(site: raise_sites.RaiseSite) -> tuple[str, ...]:
    return site.path, f"{site.path}:{site.function}", site.id


def test_case_ids_are_unique() -> None:
    """An id names one case."""
    ids = [case.id for case in CASES]

    assert sorted(set(ids)) == sorted(ids)


def test_every_public_error_class_has_a_case() -> None:
    """Each exported error class is provoked, or it has a reason why not."""
    names = names_of(continuations_storage)
    of_stores = [getattr(continuations_storage, name) for name in names]
    classes = [*error_classes().values(), *of_stores]
    errors = {each for each in classes if _is_error(each)}
    provoked = {case.error for case in CASES}

    missing = {each.__name__ for each in errors - provoked - set(unreached.CLASSES)}

    assert set() == missing - {"StorageError"}  # above the others, as Exception is


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
    command = [sys.executable, "-m", "tests.errors", "cli-without"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()

    assert (1, "") == (process.returncode, err)
