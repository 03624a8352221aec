"""From `--app` and `--store` to a runner.

Deciding and looking need a store and no application code; starting and resuming need
the code, and its module is imported only then.
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


def runner_with_agents(app: str | None, store: str | None) -> Runner:
    """Return the runner of an application; raises `UsageError`."""
    if app is not None:
        return _runner(app, _import_app(app), store)
    msg = (
        "This needs your code: give --app MODULE:NAME (or set CONTINUATIONS_APP), "
        "where NAME is a Runner or an Agent."
    )
    raise UsageError(msg)


def runner_without_agents(app: str | None, store: str | None) -> Runner:
    """Return a runner that looks and decides; raises `UsageError`.

    The application is only imported if nothing else tells which store is meant.
    """
    if store is not None:
        return continuations.Runner([], store=store)
    if app is not None:
        return runner_with_agents(app, store)
    msg = (
        "Which store? Give --store URL (file:path, s3://bucket/prefix) or set "
        "CONTINUATIONS_STORE."
    )
    raise UsageError(msg)


def _runner(app: str, app_object: object, store: str | None) -> Runner:
    if isinstance(app_object, continuations.AsyncRunner):
        # The same runner with the sync face before it.
        face = continuations.Runner([], store="memory:")
        face.async_runner = app_object
        app_object = face
    if isinstance(app_object, continuations.Runner):
        _check_same_store(app, app_object, store)
        return app_object
    if not isinstance(app_object, continuations.Agent):
        msg = (
            f"--app {app} is of type {type(app_object).__name__}. It must name a Runner, "
            "an AsyncRunner or an Agent."
        )
        raise UsageError(msg)
    if store is None:
        msg = (
            f"--app {app} is an Agent, which has no store of its own: give --store URL "
            "or set CONTINUATIONS_STORE."
        )
        raise UsageError(msg)
    return continuations.Runner(app_object, store=store)


def _check_same_store(app: str, runner: Runner, store: str | None) -> None:
    # A run started in one place and decided in another would be lost from sight.
    # A store of another type may be a wrapper around the same place.
    if store is None:
        return
    own, asked = runner.store, open_store(store)
    if type(asked) is type(own) and repr(asked) != repr(own):
        msg = (
            f"--app {app} keeps its runs in {own!r}, and --store (or "
            f"CONTINUATIONS_STORE) says {store}. Leave one of them out."
        )
        raise UsageError(msg)


# Importing ------------------------------------------------------------------


def _import_app(app: str) -> object:
    module_name, colon, name = app.partition(":")
    if not (colon and name and module_name) or module_name.startswith("."):
        msg = f"--app is MODULE:NAME, as in payroll.agents:runner; this is {app!r}."
        raise UsageError(msg)
    found: Any = _import_module(app, module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            msg = (
                f"--app {app}: the module {module_name} was imported, it has no {name}."
            )
            raise UsageError(msg)
        found = getattr(found, part)
    return found


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
                f"--app {app}: there is no module {error.name}. It is looked for as by "
                f"an import statement, in {here} first."
            )
        else:
            msg = (
                f"--app {app}: the module was found, but importing it failed"
                f"{_error_location(error)}: {type(error).__name__}: {error}"
            )
        raise UsageError(msg) from error


def _is_module_or_parent(missing: str | None, name: str) -> bool:
    return missing is not None and f"{name}.".startswith(f"{missing}.")


def _error_location(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith("<frozen ")]
    # The first frame is ours.
    return f" at {own[-1].filename}, line {own[-1].lineno}" if own[1:] else ""
