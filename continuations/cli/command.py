"""One call of a command: the options that almost all commands have, and their use.

A command of this form is a function whose first argument is a `Command`. The decorator
`with_common_options` gives it the options `--json`, `--app` and `--store`.

Deciding and inspecting need a store and no application code. Starting and resuming
need the code, and only they import its module.
"""

from __future__ import annotations

import inspect
from inspect import Parameter, Signature
from os import environ
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec

import continuations
from continuations.cli.application import groups_of, load_runner
from continuations.cli.options import (
    App,
    Json,
    RunId,
    StoreUrl,
    UsageError,
    check_run_id,
)
from continuations.cli.output import write_json, write_lines
from continuations.ledger.objects import check_folder_exists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
        """Return a runner with the agents of `--app`, or without agents.

        Args:
            may_be_first: Whether the command may make the folder of a `file:` store.

        Returns:
            The runner.

        Raises:
            UsageError: There is no store, or the application cannot be loaded.
            StoreUnavailable: The folder does not exist, and the command does not make
                it.
        """
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


class CommandFunction:
    """The function of a command, as typer reads and calls it: with the common options.

    The signature is made when typer reads it. A process builds one command, and the
    annotations of all of them would take longer than its start.
    """

    def __init__(
        self,
        name: str,
        help_text: str | None,
        run: Callable[..., None],
        own_parameters: Callable[[], list[Parameter]],
    ) -> None:
        """Make the function of a command.

        Args:
            name: The name of the command.
            help_text: Its help.
            run: Called with a `Command`, and the values of its own parameters by name.
            own_parameters: Returns its arguments and options without the common ones,
                unless a common one has another place or other words in the help.
        """
        self.__name__ = name
        self.__doc__ = help_text
        self.__annotations__ = {}
        self._run = run
        self._own_parameters = own_parameters

    @property
    def __signature__(self) -> Signature:
        """The signature that typer reads."""
        own = self._own_parameters()
        names = {each.name for each in own}
        common = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in _COMMON.items()
            if name not in names
        ]
        return Signature([*own, *common])

    def __call__(self, **values: Any) -> None:
        """Run the command; raise `UsageError` if RUN is the id of a wait."""
        name, own = self.__name__, self._own_parameters()
        for each in own:
            if each.annotation == RunId:
                check_run_id(values[each.name], command=name)
        command = Command(name, values["app"], values["store"], values["json"])
        self._run(command, **{each.name: values[each.name] for each in own})


def with_common_options(
    function: Callable[Concatenate[Command, Parameters], None],
) -> CommandFunction:
    """Give a command the options `--json`, `--app` and `--store`, and check its RUN.

    Args:
        function: The function. Its name is that of the command, and its parameters
            after the first are the command's own arguments and options.
    """

    def own_parameters() -> list[Parameter]:
        read = inspect.signature(function, eval_str=True)
        return list(read.parameters.values())[1:]

    name = function.__name__
    return CommandFunction(name, function.__doc__, function, own_parameters)
