"""Settings of all tests. In CI a skipped test is a failure."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import error_texts, postgres_server
from tests.python_path import python_path
from tests.sampling import RUNS_ALL_CASES, examples, left_out

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tests.postgres_server import PostgresServer


# A deadline for each example, or for making the examples, fails on a busy machine.
settings.register_profile(
    "without_deadline",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("without_deadline")

# A coroutine that never ends fails long before `faulthandler_timeout` ends its process.
SECONDS_OF_A_COROUTINE = 120

# Here and not in tests/storage, because other tests import the module first.
pytest.register_assert_rewrite("continuations_storage.conformance")
# Tables of tests, for detailed messages.
pytest.register_assert_rewrite(
    "tests.run_recovery",
    "tests.engine.crash_scenario",
    "tests.engine.crashes_of_conversations",
    "tests.engine.crashes_of_decisions",
    "tests.engine.crashes_of_objects",
    "tests.engine.crashes_of_runs",
)


def pytest_report_header() -> str | None:
    """Say in one line that the tests on Postgres are left out."""
    if postgres_server.is_installed():
        return None
    return "Postgres is not installed, so its tests are skipped"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for all tests of this process."""
    if not postgres_server.is_installed():
        pytest.skip("Postgres is not installed")
    with postgres_server.run_server() as server:
        yield server


def pytest_configure(config: pytest.Config) -> None:
    """Have the processes of the tests start quickly, and heed SIGINT; check errors.

    A shell that starts the tests in the background makes them ignore SIGINT.
    """
    config.pluginmanager.register(error_texts.watch(), "error_texts")
    # Otherwise each process that a test starts compiles all modules anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ["PYTHONPATH"] = python_path(*given)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than cores: many tests wait for a process or a claim."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0)) + 1
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave some tests to `make torture`, unless a test is named on its own."""
    if RUNS_ALL_CASES or any("::" in each for each in config.args):
        return
    left = set(left_out(items))
    config.hook.pytest_deselected(items=[*left])
    items[:] = [item for item in items if item not in left]


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of every garbage collection.

    They stay until the end, and there are more of them than of all other objects.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    asyncio.run(asyncio.wait_for(test, SECONDS_OF_A_COROUTINE))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip, for a missing server for example, into a failure in CI."""
    report = yield
    if report.skipped and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped: in CI nothing may be missing"
    return report
