"""Load what `--app` and other options name, and name a store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeGuard

import continuations
from continuations.cli.options import UsageError
from continuations.engine.loading import load_object, load_or_call
from continuations.errors import InvalidInput
from continuations.ledger.objects import open_store
from continuations_storage import FileStore, MemoryStore
from continuations_storage.url import without_password

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from continuations import Agent, AsyncRunner, Runner
    from continuations.engine.ports import Groups
    from continuations_storage import Store


# Where runs are if no option, variable or runner names a store.
DEFAULT_STORE = "sqlite:runs.db"


def groups_of(app: str) -> Groups:
    """Return a function that asks the application for the groups of a person."""

    async def groups(person: str) -> Collection[str]:
        from continuations.authoring import callables  # noqa: PLC0415 - rarely needed

        value = load_option("--app", app)
        known = _is_runner(value) or _is_async_runner(value)
        function = value.groups if known else None
        if function is None:
            raise UsageError(
                f"--app {app} does not tell the groups of {person}. Make it a "
                "Runner(groups=...)."
            )
        found: Collection[str] = await callables.call(function, person)
        return found

    return groups


def load_runner(app: str, store: str | None) -> Runner:
    """Return the runner of `--app`, or one with its agent and the store of `--store`.

    Without `--store`, an agent has the store `DEFAULT_STORE`.

    Raises:
        UsageError: The application cannot be loaded, or its store is another one.
    """
    value = load_option("--app", app)
    runner: Runner | None = None
    if _is_async_runner(value):
        runner = continuations.Runner([], store="memory:")
        runner.async_runner = value
    elif _is_runner(value):
        runner = value
    if runner is not None:
        _check_same_store(app, runner, store)
        return runner
    if not _is_agent(value):
        raise UsageError(
            f"--app must name a Runner, an AsyncRunner or an Agent, and {app} is of "
            f"type {type(value).__name__}."
        )
    return continuations.Runner(value, store=store or DEFAULT_STORE)


# A plain `isinstance` leaves the type of the output unknown to pyright.


def _is_runner(value: object) -> TypeGuard[Runner]:
    return isinstance(value, continuations.Runner)


def _is_async_runner(value: object) -> TypeGuard[AsyncRunner]:
    return isinstance(value, continuations.AsyncRunner)


def _is_agent(value: object) -> TypeGuard[Agent]:
    return isinstance(value, continuations.Agent)


def _check_same_store(app: str, runner: Runner, store: str | None) -> None:
    # A run that is started in one store cannot be found in another. A store of an
    # application's own type may be a wrapper around the same place, so it is accepted.
    if store is None:
        return
    own, requested = runner.store, open_store(store)
    is_wrapper = type(own).__module__.partition(".")[0] != "continuations_storage"
    if not is_wrapper and store_name(requested) != store_name(own):
        raise UsageError(
            f"--app {app} keeps its runs in {store_name(own)}, but --store (or "
            f"CONTINUATIONS_STORE) is {without_password(store)}. Leave one of them out."
        )


def load_context(spec: str | None) -> object:
    """Return the context that `--context` names, or `None`."""
    return load_option("--context", spec, load_or_call)


def load_option(
    option: str, spec: str | None, load: Callable[..., Any] = load_object
) -> Any:
    """Return the object that an option names, or `None`."""
    try:
        return spec and load(spec, from_current_directory=True)
    except InvalidInput as error:
        raise UsageError(f"{option}: {error}") from error


def store_name(store: Store) -> str:
    """Return the URL of a store, or its repr if that contains no URL."""
    if isinstance(store, MemoryStore):
        return "memory:"
    # The repr names the place and never contains credentials.
    place = re.fullmatch(r"<\w+ (.*)>", repr(store), re.DOTALL)
    text = repr(store) if place is None else place[1]
    if isinstance(store, FileStore):
        return f"file:{text}"
    return text if "://" in text or text.startswith("sqlite:") else repr(store)
