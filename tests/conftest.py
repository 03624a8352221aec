"""Settings of all tests. In CI a skipped test is a failure."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
from hypothesis import HealthCheck, settings

from continuations.authoring import callables
from continuations.authoring.callables import ThreadCall
from continuations_storage import MemoryStore
from tests import effect_log, error_texts, postgres_server
from tests.clocks import ManualClock
from tests.postgres_server import PostgresServer
from tests.python_path import python_path
from tests.run_environment import RunEnvironment
from tests.sampling import RUNS_ALL_CASES, examples, left_out

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
    """Say in one line which servers are missing; in CI, none may be."""
    missing = postgres_server.missing()
    return f"left out: the tests on {' and '.join(missing)}" if missing else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for all tests of this process."""
    with postgres_server.run_server() as server:
        yield server


@pytest.fixture
def durable_postgres() -> Iterator[PostgresServer]:
    """A server for one test, which may stop it; it flushes what it writes."""
    with postgres_server.run_server(durable=True) as server:
        yield server


@pytest.fixture(scope="session")
def bouncer(postgres: PostgresServer) -> Iterator[int]:
    """The port of PgBouncer in transaction mode, before the server."""
    with postgres_server.run_bouncer(postgres) as port:
        yield port


@pytest.fixture
def environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> RunEnvironment:
    """Return an empty environment, whose logs this process writes to as well."""
    monkeypatch.setenv(effect_log.EFFECTS_VARIABLE, str(tmp_path / "effects"))
    monkeypatch.setenv(effect_log.TURNS_VARIABLE, str(tmp_path / "turns"))
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    is_marked = request.node.get_closest_marker("fresh_interpreters") is not None
    return RunEnvironment(tmp_path, fresh_interpreters=is_marked)


@pytest.fixture
def store() -> MemoryStore:
    """Return a store in memory that tells no time."""
    return MemoryStore()


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that the test sets."""
    return ManualClock()


@pytest.fixture
def waiting_threads() -> Iterator[list[SimpleQueue[ThreadCall]]]:
    """Have no thread wait for a call of a tool; return the list of those that do.

    At the end, those that waited before wait again. Each simulated crash of a later
    test would wait for a thread in no list, as for one that works.
    """
    threads = callables.waiting_threads
    before = threads.copy()
    threads.clear()
    yield threads
    threads.extend(before)


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
    """Leave some tests to `make torture`, unless a test is named on its own.

    Leave out the tests on a server that this machine does not have.
    """
    fixtures = {name for names in postgres_server.missing().values() for name in names}
    _leave_out(
        config,
        items,
        [item for item in items if fixtures & {*getattr(item, "fixturenames", ())}],
    )
    if RUNS_ALL_CASES or any("::" in each for each in config.args):
        return
    _leave_out(config, items, left_out(items))


def _leave_out(
    config: pytest.Config, items: list[pytest.Item], some: Iterable[pytest.Item]
) -> None:
    left = set(some)
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
