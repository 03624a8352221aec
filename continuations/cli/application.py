"""Make a runner from `--app` and `--store`.

Deciding and inspecting need a store and no application code. Starting and resuming
need the code, and only they import its module.
"""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import continuations
from continuations.cli.errors import UsageError
from continuations.ledger.objects import open_store

if TYPE_CHECKING:
    from continuations import Runner


def runner_with_agents(app: str | None, store: str | None, *, command: str) -> Runner:
    """Return the runner of an application; raise `UsageError` without one."""
    if app is not None:
        return _runner(app, _import_app(app), store)
    msg = (
        f"--app is missing: `{command}` runs your agents. Pass --app MODULE:NAME or "
        "set CONTINUATIONS_APP. NAME must be a Runner, an AsyncRunner or an Agent."
    )
    raise UsageError(msg)


def runner_without_agents(app: str | None, store: str | None) -> Runner:
    """Return a runner that inspects and decides; raise `UsageError` without a store.

    The application is imported only if no store is given.
    """
    if store is not None:
        return continuations.Runner([], store=store)
    if app is not None:
        return _runner(app, _import_app(app), store)
    msg = (
        "--store is missing. Pass --store URL (file:PATH or s3://BUCKET/PREFIX) or set "
        "CONTINUATIONS_STORE."
    )
    raise UsageError(msg)


def _runner(app: str, value: object, store: str | None) -> Runner:
    if isinstance(value, continuations.AsyncRunner):
        runner = continuations.Runner([], store="memory:")
        runner.async_runner = value
        value = runner
    if isinstance(value, continuations.Runner):
        _check_same_store(app, value, store)
        return value
    if not isinstance(value, continuations.Agent):
        msg = (
            f"--app must name a Runner, an AsyncRunner or an Agent, and {app} is of "
            f"type {type(value).__name__}."
        )
        raise UsageError(msg)
    if store is None:
        msg = (
            f"--store is missing: --app {app} is an Agent, which has no store. "
            "Pass --store URL or set CONTINUATIONS_STORE."
        )
        raise UsageError(msg)
    return continuations.Runner(value, store=store)


def _check_same_store(app: str, runner: Runner, store: str | None) -> None:
    # A run that is started in one store cannot be found in another. A store of another
    # type may be a wrapper around the same place, so it is accepted.
    if store is None:
        return
    own, requested = runner.store, open_store(store)
    if type(requested) is type(own) and repr(requested) != repr(own):
        msg = (
            f"--app {app} keeps its runs in {own!r}, but --store (or "
            f"CONTINUATIONS_STORE) is {store}. Leave one of them out."
        )
        raise UsageError(msg)


# Importing ------------------------------------------------------------------


def _import_app(app: str) -> object:
    module_name, colon, name = app.partition(":")
    if not (colon and name and module_name) or module_name.startswith("."):
        msg = f"--app must be MODULE:NAME, as in payroll.agents:runner, got {app!r}."
        raise UsageError(msg)
    value: Any = _import_module(app, module_name)
    for part in name.split("."):
        if not hasattr(value, part):
            msg = (
                f"--app {app}: the module {module_name} has no {name}. Check the name "
                "after the colon."
            )
            raise UsageError(msg)
        value = getattr(value, part)
    return value


def _import_module(app: str, name: str) -> object:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and _is_module_or_parent(
            error.name, name
        ):
            msg = (
                f"--app {app}: there is no module {error.name}. Python looks for it in "
                f"{here} and then in sys.path."
            )
        else:
            msg = (
                f"--app {app}: the import of module {name} failed"
                f"{_error_location(error)}: {type(error).__name__}: {error}"
            )
        raise UsageError(msg) from error


def _is_module_or_parent(missing: str | None, name: str) -> bool:
    return missing is not None and f"{name}.".startswith(f"{missing}.")


def _error_location(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    # Leave out this module and the import system.
    own = [frame for frame in frames[1:] if "importlib" not in frame.filename]
    return f" at {own[-1].filename}, line {own[-1].lineno}" if own else ""
