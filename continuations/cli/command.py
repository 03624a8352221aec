"""A command: how it reads its arguments and options, loads the application, and prints.

A command is a function whose first argument is a `Command`. The command line follows
from the function:

- its name is the name of the command
- a parameter is an argument of the command, and a keyword-only parameter an option.
  Its type may have other names or limits: `Annotated[bool, "--follow", "-f"]`
- its docstring is the help. The section "Arguments and options" has the metavar and the
  words of a parameter: `extend (SECONDS): Seconds from now to the new deadline.`

Words that several commands share stand in `continuations.cli.options.SHARED_WORDS`.

Deciding and inspecting need a store and no application code. Starting and resuming
need the code, and only they import its module.
"""

from __future__ import annotations

import inspect
import re
from functools import cached_property
from inspect import Parameter, Signature
from os import environ
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeGuard,
    get_args,
    get_origin,
)

import typer

import continuations
from continuations.cli.options import SHARED_WORDS, Limits, UsageError, check_run_id
from continuations.cli.output import write_json, write_lines
from continuations.engine.loading import load_object, load_or_call
from continuations.errors import InvalidInput
from continuations.ledger.objects import check_folder_exists, open_store
from continuations_storage import FileStore, MemoryStore
from continuations_storage.contract import missing_folder
from continuations_storage.url import without_password

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from continuations import Agent, AsyncRunner, Runner
    from continuations.engine.ports import Groups
    from continuations_storage import Store

    Parameters = ParamSpec("Parameters")

# Where runs are if no option, variable or runner names a store.
DEFAULT_STORE = "sqlite:runs.db"


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

    def runner(
        self,
        agents: Literal["unused", "if given", "needed"] = "unused",
        *,
        may_be_first: bool = False,
    ) -> Runner:
        """Return the runner of `--store` or of `--app`.

        Args:
            agents: Whether the command uses the agents of `--app`. If they are unused
                and there is a store, the application is imported only if it must tell
                the groups of a person.
            may_be_first: Whether the command may make the folder of a `file:` store.

        Raises:
            UsageError: There is no store or no application, or the application cannot
                be loaded.
            StoreUnavailable: The folder does not exist, and the command does not make
                it.
        """
        if agents == "needed" or (agents == "if given" and self.app is not None):
            runner = self._application()
        else:
            runner = self._without_agents()
        if not may_be_first:
            check_folder_exists(runner.store)
        return runner

    def _without_agents(self) -> Runner:
        if self.store is not None:
            groups = None if self.app is None else groups_of(self.app)
            return continuations.Runner([], store=self.store, groups=groups)
        if self.app is not None:
            return load_runner(self.app, None)
        runner = continuations.Runner([], store=DEFAULT_STORE)
        # A command without agents never makes the file: a forgotten option must not
        # look like an empty store.
        if missing_folder(runner.store) is not None:
            raise UsageError(
                "--store is missing, and this folder has no runs.db. Pass --store URL "
                "(sqlite:PATH, postgresql://HOST/DATABASE, s3://BUCKET/PREFIX, …) or "
                "set CONTINUATIONS_STORE."
            )
        return runner

    def _application(self) -> Runner:
        if self.app is None:
            raise UsageError(
                f"--app is missing: `{self.name}` runs your agents. Pass --app "
                "MODULE:NAME or set CONTINUATIONS_APP. NAME must be a Runner, an "
                "AsyncRunner or an Agent."
            )
        return load_runner(self.app, self.store)

    @property
    def given_options(self) -> list[str]:
        """`--app` and `--store` as they were given, without the environment's."""
        return [
            word
            for name, value in (("app", self.app), ("store", self.store))
            if value is not None and value != environ.get(_VARIABLES[name])
            for word in (f"--{name}", without_password(value))
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


# Words of the help --------------------------------------------------------------

_SECTION = "\n\nArguments and options:\n"
# A parameter with its metavar in brackets, if any, and its words.
_ENTRY = re.compile(r"^ {4}(\w+)(?: \((.*?)\))?: (.*(?:\n {8}.*)*)", re.MULTILINE)
# The options that an environment variable sets too, by their parameters.
_VARIABLES: Mapping[str, str] = {
    "app": "CONTINUATIONS_APP",
    "approved_by": "CONTINUATIONS_BY",
    "by": "CONTINUATIONS_BY",
    "context": "CONTINUATIONS_CONTEXT",
    "store": "CONTINUATIONS_STORE",
}


class Words(NamedTuple):
    """The words of the help about a parameter.

    Attributes:
        metavar: The word for its value; `None` for the name of its type.
        text: The description.
    """

    metavar: str | None = None
    text: str = ""


def help_and_words(docstring: str | None) -> tuple[str, str]:
    """Return the help of a command, and the section about its parameters."""
    help_text, _, section = inspect.cleandoc(docstring or "").partition(_SECTION)
    return help_text, section


def words_of(text: str) -> dict[str, Words]:
    """Return the words about each parameter in a section of a docstring."""
    return {
        name: Words(metavar or None, " ".join(words.split()))
        for name, metavar, words in _ENTRY.findall(text)
    }


def described(parameter: Parameter, words: Mapping[str, Words]) -> Parameter:
    """Return a parameter whose annotation has the argument or option of typer.

    Python may have removed the docstrings, and then the words are missing.
    """
    kind, default = parameter.annotation, parameter.default
    metavar, text = words.get(parameter.name, Words())
    given: dict[str, Any] = {"metavar": metavar, "help": text}
    names: list[str] = []
    if get_origin(kind) is Annotated:
        kind, *extras = get_args(kind)
        names = [each for each in extras if isinstance(each, str)]
        for limits in (each for each in extras if isinstance(each, Limits)):
            given |= limits._asdict()
    if parameter.kind is not Parameter.KEYWORD_ONLY:
        info = typer.Argument(**given, show_default=default != "")
    else:
        name = parameter.name.replace("_", "-")
        own_name = f"--{name}/--no-{name}" if default is True else f"--{name}"
        variable = _VARIABLES.get(parameter.name)
        info = typer.Option(*(names or [own_name]), envvar=variable, **given)
    return parameter.replace(annotation=Annotated[kind, info])


def option(name: str, kind: object, default: object = None) -> Parameter:
    """Return the parameter of an option."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


# The function of a command -------------------------------------------------------

# The common options, with their default values.
_COMMON: Mapping[str, tuple[object, object]] = {
    "json": (bool, False),
    "app": (str | None, None),
    "store": (str | None, None),
}
# The parameters that are the argument RUN.
_RUNS = ("run", "run_id")


class CommandFunction:
    """The function of a command, as typer reads and calls it: with the common options.

    The signature is made when typer reads it. A process builds one command, and the
    annotations of all of them would take longer than its start.

    Attributes:
        run: The function that has the body of the command.
    """

    def __init__(
        self,
        name: str,
        help_text: str,
        run: Callable[..., None],
        own_parameters: Callable[[], Iterable[Parameter]],
        common: Iterable[str] = _COMMON,
    ) -> None:
        """Make the function of a command.

        Args:
            name: The name of the command.
            help_text: Its help.
            run: Called with a `Command`, and the values of its own parameters by name.
            own_parameters: Returns its arguments and options without the common ones,
                unless a common one has another place or other words in the help.
            common: The names of its common options.
        """
        self.__name__ = name
        self.__doc__ = help_text
        self.__annotations__ = {}
        self.run = run
        self._own_parameters = own_parameters
        self._common = common

    @cached_property
    def _own(self) -> dict[str, Parameter]:
        return {each.name: each for each in self._own_parameters()}

    @property
    def __signature__(self) -> Signature:
        """The signature that typer reads."""
        parameters = dict(self._own)
        words = words_of(SHARED_WORDS)
        for name in self._common:
            common = described(option(name, *_COMMON[name]), words)
            parameters.setdefault(name, common)
        return Signature([*parameters.values()])

    def __call__(self, **values: Any) -> None:
        """Run the command; raise `UsageError` if RUN is the id of a wait."""
        own, as_json = self._own, values.get("json", False)
        for name in _RUNS:
            if name in own and own[name].kind is not Parameter.KEYWORD_ONLY:
                check_run_id(values[name], command=self.__name__)
        app, store = values.get("app"), values.get("store")
        command = Command(self.__name__, app, store, as_json)
        self.run(command, **{name: values[name] for name in own})


def as_command(
    function: Callable[Concatenate[Command, Parameters], None],
    *,
    common: Iterable[str] = _COMMON,
) -> CommandFunction:
    """Make a command of a function.

    Args:
        function: The function. Its parameters after the first are the command's own
            arguments and options.
        common: The names of the common options.
    """
    help_text, section = help_and_words(function.__doc__)

    def own_parameters() -> Iterator[Parameter]:
        # Without docstrings, shared words could be those of another meaning.
        words = words_of(f"{SHARED_WORDS}\n{section}") if help_text else {}
        read = inspect.signature(function, eval_str=True).parameters
        for each in list(read.values())[1:]:
            yield described(each, words)

    name = function.__name__
    return CommandFunction(name, help_text, function, own_parameters, common)


# The application and the store ----------------------------------------------------


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
