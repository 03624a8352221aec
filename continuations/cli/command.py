"""One call of a command: the options that almost all commands have, and their use.

A command of this form is a function whose first argument is a `Command`. The decorator
`with_common_options` gives it the options `--json`, `--app` and `--store`.
"""

from __future__ import annotations

import inspect
from functools import update_wrapper
from os import environ
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec

from continuations.cli import application
from continuations.cli.options import App, Json, StoreUrl, check_run_id
from continuations.cli.output import write_json, write_lines

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
        """Return a runner that inspects and decides."""
        return application.runner_without_agents(
            self.app, self.store, may_be_first=may_be_first
        )

    def runner_with_agents(self, *, may_be_first: bool = False) -> Runner:
        """Return the runner of the application; raise `UsageError` without `--app`."""
        return application.runner_with_agents(
            self.app, self.store, command=self.name, may_be_first=may_be_first
        )

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
