"""Make a runner from `--app` and `--store`.

Deciding and inspecting need a store and no application code. Starting and resuming
need the code, and only they import its module.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeGuard

import continuations
from continuations.cli.options import UsageError
from continuations.engine.loading import load_object, load_or_call
from continuations.errors import InvalidInput
from continuations.ledger.objects import check_folder_exists, open_store
from continuations_storage import FileStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Collection

    from continuations import Agent, AsyncRunner, Runner
    from continuations.engine.ports import Groups
    from continuations_storage import Store


def runner_with_agents(
    app: str | None, store: str | None, *, command: str, may_be_first: bool = False
) -> Runner:
    """Return the runner of an application.

    Args:
        app: The option `--app`.
        store: The option `--store`.
        command: The command, for the error.
        may_be_first: Whether the command may make the folder of a `file:` store.

    Raises:
        UsageError: There is no application, or it cannot be loaded.
        StoreUnavailable: The folder does not exist, and the command does not make it.
    """
    if app is not None:
        runner = _runner(app, load_option("--app", app), store)
        if not may_be_first:
            check_folder_exists(runner.store)
        return runner
    msg = (
        f"--app is missing: `{command}` runs your agents. Pass --app MODULE:NAME or "
        "set CONTINUATIONS_APP. NAME must be a Runner, an AsyncRunner or an Agent."
    )
    raise UsageError(msg)


def runner_without_agents(
    app: str | None, store: str | None, *, may_be_first: bool = False
) -> Runner:
    """Return a runner that inspects and decides.

    With a store, the application is imported only if it must tell groups of a person.

    Args:
        app: The option `--app`.
        store: The option `--store`.
        may_be_first: Whether the command may make the folder of a `file:` store.

    Raises:
        UsageError: There is no store.
        StoreUnavailable: The folder does not exist, and the command does not make it.
    """
    if store is not None:
        groups = None if app is None else _groups_of(app)
        runner = continuations.Runner([], store=store, groups=groups)
    elif app is not None:
        runner = _runner(app, load_option("--app", app), store)
    else:
        msg = (
            "--store is missing. Pass --store URL (file:PATH or s3://BUCKET/PREFIX) or "
            "set CONTINUATIONS_STORE."
        )
        raise UsageError(msg)
    if not may_be_first:
        check_folder_exists(runner.store)
    return runner


def runner_for_command(app: str | None, store: str | None, *, command: str) -> Runner:
    """Return a runner with the agents of `--app`, or without agents."""
    if app is None:
        return runner_without_agents(None, store)
    return runner_with_agents(app, store, command=command)


def _groups_of(app: str) -> Groups:
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


def _runner(app: str, value: object, store: str | None) -> Runner:
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
