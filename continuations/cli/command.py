"""One call of a command: the options that almost all commands have, and their use.

A command of this form is a function whose first argument is a `Command`. The decorator
`with_common_options` gives it the options `--json`, `--app` and `--store`.

Deciding and inspecting need a store and no application code. Starting and resuming
need the code, and only they import its module.
"""

from __future__ import annotations

import inspect
from functools import update_wrapper
from os import environ
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec

import continuations
from continuations.cli.application import groups_of, load_runner
from continuations.cli.options import App, Json, StoreUrl, UsageError, check_run_id
from continuations.cli.output import write_json, write_lines
from continuations.ledger.objects import check_folder_exists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from continuations import Runner

    Parameters = ParamSpec("Parameters")


class Command(NamedTuple):
    """One call of a command, with its common options.

    Attributes:
        name: The name of the command, for errors.
        app: The option `--app`.
        store: The option `--store`.
        as_json: Whether the result is printed as JSON.
    """

    name: str
    app: str | None
    store: str | None
    as_json: bool = False

    @classmethod
    def of(cls, name: str, values: Mapping[str, Any]) -> Command:
        """Return the call of a command, from its arguments and options."""
        return cls(name, values["app"], values["store"], values["json"])

    def runner_without_agents(self, *, may_be_first: bool = False) -> Runner:
        """Return a runner that inspects and decides.

        With a store, the application is imported only if it must tell groups of a
        person.

        Args:
            may_be_first: Whether the command may make the folder of a `file:` store.

        Raises:
            UsageError: There is no store.
            StoreUnavailable: The folder does not exist, and the command does not make
                it.
        """
        if self.store is not None:
            groups = None if self.app is None else groups_of(self.app)
            runner = continuations.Runner([], store=self.store, groups=groups)
        elif self.app is not None:
            runner = load_runner(self.app, None)
        else:
            msg = (
                "--store is missing. Pass --store URL (file:PATH or "
                "s3://BUCKET/PREFIX) or set CONTINUATIONS_STORE."
            )
            raise UsageError(msg)
        return _checked(runner, may_be_first=may_be_first)

    def runner_with_agents(self, *, may_be_first: bool = False) -> Runner:
        """Return the runner of the application.

        Args:
            may_be_first: Whether the command may make the folder of a `file:` store.

        Raises:
            UsageError: There is no application, or it cannot be loaded.
            StoreUnavailable: The folder does not exist, and the command does not make
                it.
        """
        if self.app is None:
            msg = (
                f"--app is missing: `{self.name}` runs your agents. Pass --app "
                "MODULE:NAME or set CONTINUATIONS_APP. NAME must be a Runner, an "
                "AsyncRunner or an Agent."
            )
            raise UsageError(msg)
        runner = load_runner(self.app, self.store)
        return _checked(runner, may_be_first=may_be_first)

    def runner(self, *, may_be_first: bool = False) -> Runner:
        """Return a runner with the agents of `--app`, or without agents."""
        if self.app is None:
            return self.runner_without_agents(may_be_first=may_be_first)
        return self.runner_with_agents(may_be_first=may_be_first)

    @property
    def given_options(self) -> list[str]:
        """`--app` and `--store` as they were given, without the environment's."""
        given = {
            "--app": (self.app, "CONTINUATIONS_APP"),
            "--store": (self.store, "CONTINUATIONS_STORE"),
        }
        return [
            word
            for option, (value, variable) in given.items()
            if value is not None and value != environ.get(variable)
            for word in (option, value)
        ]

    def write(self, form: Callable[[], object], lines: Iterable[str]) -> None:
        """Print a result, as JSON or as text.

        Args:
            form: Returns the JSON form; called only with `--json`.
            lines: The text, already escaped; read only without `--json`.
        """
        if self.as_json:
            write_json(form())
        else:
            write_lines(lines)


def _checked(runner: Runner, *, may_be_first: bool) -> Runner:
    if not may_be_first:
        check_folder_exists(runner.store)
    return runner


_COMMON: dict[str, tuple[Any, object]] = {
    "json": (Json, False),
    "app": (App, None),
    "store": (StoreUrl, None),
}


def common_parameters() -> list[inspect.Parameter]:
    """Return the common options, as typer reads them from a signature."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for name, (annotation, default) in _COMMON.items()
    ]


class _WithCommonOptions:
    """The function of a command, as typer reads and calls it.

    Its signature has the parameters of the function, and then the common options. It is
    made when typer reads it: a process builds one command, and evaluating the
    annotations of all commands would double its start.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        update_wrapper(self, function)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature that typer reads."""
        read = inspect.signature(self._function, eval_str=True)
        _, *own = read.parameters.values()
        # The help of some commands shows --json earlier, so their functions have it.
        own_names = {each.name for each in own}
        common = [each for each in common_parameters() if each.name not in own_names]
        return read.replace(parameters=[*own, *common])

    def __call__(self, **values: Any) -> None:
        """Run the command; raise `UsageError` if RUN is the id of a wait."""
        name = self._function.__name__
        if "run" in values:
            check_run_id(values["run"], command=name)
        own_names = inspect.signature(self._function).parameters
        command = Command.of(name, values)
        own = {name: value for name, value in values.items() if name in own_names}
        self._function(command, **own)


def with_common_options(
    function: Callable[Concatenate[Command, Parameters], None],
) -> Callable[..., None]:
    """Give a command the options `--json`, `--app` and `--store`, and check its RUN.

    Args:
        function: The function. Its other parameters are arguments and options.
    """
    return _WithCommonOptions(function)
