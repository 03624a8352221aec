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

if TYPE_CHECKING:
    from collections.abc import Collection

    from continuations import Agent, AsyncRunner, Runner
    from continuations.engine.ports import Groups
    from continuations_storage import Store


def groups_of(app: str) -> Groups:
    """Return a function that asks the application for the groups of a person."""

    async def groups(person: str) -> Collection[str]:
        from continuations.authoring import callables  # noqa: PLC0415 - rarely needed

        value = load_option("--app", app)
        known = _is_runner(value) or _is_async_runner(value)
        function = value.groups if known else None
        if function is None:
            msg = (
                f"--app {app} does not tell the groups of {person}. Make it a "
                "Runner(groups=...)."
            )
            raise UsageError(msg)
        found: Collection[str] = await callables.call(function, person)
        return found

    return groups


def load_runner(app: str, store: str | None) -> Runner:
    """Return the runner of `--app`, or one with its agent and the store of `--store`.

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


# A plain `isinstance` leaves the type of the output unknown to pyright.


def _is_runner(value: object) -> TypeGuard[Runner]:
    return isinstance(value, continuations.Runner)


def _is_async_runner(value: object) -> TypeGuard[AsyncRunner]:
    return isinstance(value, continuations.AsyncRunner)


def _is_agent(value: object) -> TypeGuard[Agent]:
    return isinstance(value, continuations.Agent)


def _check_same_store(app: str, runner: Runner, store: str | None) -> None:
    # A run that is started in one store cannot be found in another. A store of another
    # type may be a wrapper around the same place, so it is accepted.
    if store is None:
        return
    own, requested = runner.store, open_store(store)
    if type(requested) is type(own) and repr(requested) != repr(own):
        msg = (
            f"--app {app} keeps its runs in {store_name(own)}, but --store (or "
            f"CONTINUATIONS_STORE) is {store}. Leave one of them out."
        )
        raise UsageError(msg)


def load_context(spec: str | None) -> object:
    """Return the context that `--context` names, or `None`."""
    try:
        return spec and load_or_call(spec, from_current_directory=True)
    except InvalidInput as error:
        msg = f"--context: {error}"
        raise UsageError(msg) from error


def load_option(option: str, spec: str | None) -> Any:
    """Return the object that an option names, or `None`."""
    try:
        return spec and load_object(spec, from_current_directory=True)
    except InvalidInput as error:
        msg = f"{option}: {error}"
        raise UsageError(msg) from error


_REPR = re.compile(r"<\w+ (.*)>", re.DOTALL)


def store_name(store: Store) -> str:
    """Return the URL of a store, or its repr if that contains no URL."""
    if isinstance(store, MemoryStore):
        return "memory:"
    # The repr names the place and never contains credentials.
    text = _place(store)
    if isinstance(store, FileStore):
        return f"file:{text}"
    return text if "://" in text else repr(store)


def _place(store: Store) -> str:
    match = _REPR.fullmatch(repr(store))
    return repr(store) if match is None else match[1]
