"""Completion for bash, zsh and fish: `eval "$(continuations completion bash)"`.

The scripts contain the commands and options, so a press of Tab starts no process.
Only the ids of waits are asked for, with `continuations waiting --ids`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from typer.main import get_command

from continuations.cli.output import write_lines
from continuations.cli.program import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_WAIT_IDS = "continuations waiting --ids 2>/dev/null"


class _Option(NamedTuple):
    name: str
    help: str
    takes_value: bool


class _Command(NamedTuple):
    name: str
    help: str
    options: tuple[_Option, ...]
    takes_wait: bool


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"],
        typer.Argument(help="The shell that reads the script."),
    ],
) -> None:
    """Print the completion script of a shell.

    Load it with `eval "$(continuations completion bash)"`, the same for zsh, or
    `continuations completion fish | source`.
    """
    root: Any = get_command(program())
    write_lines(_SCRIPTS[shell](_commands(root)))


def _commands(root: Any) -> list[_Command]:
    return [
        _Command(
            name=name,
            help=command.get_short_help_str(limit=70),
            options=tuple(_options(command)),
            takes_wait=any("WAIT" in (each.metavar or "") for each in command.params),
        )
        for name, command in root.commands.items()
    ]


def _options(command: Any) -> Iterator[_Option]:
    for parameter in command.params:
        for name in (*parameter.opts, *parameter.secondary_opts):
            if name.startswith("--"):
                help_text = (parameter.help or "").partition(". ")[0].rstrip(".")
                yield _Option(name, help_text, not parameter.is_flag)
    yield _Option("--help", "Show the help", takes_value=False)


def _bash(commands: list[_Command]) -> Iterator[str]:
    names = " ".join(command.name for command in commands)
    yield "_continuations() {"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" words='
    yield "    if (( COMP_CWORD == 1 )); then"
    yield f'        words="{names} --help --version"'
    yield '    elif [[ "$word" == -* ]]; then'
    yield '        case "${COMP_WORDS[1]}" in'
    for command in commands:
        options = " ".join(option.name for option in command.options)
        yield f'            {command.name}) words="{options}" ;;'
    yield "        esac"
    yield "    else"
    yield '        case "${COMP_WORDS[1]}" in'
    yield f'            {_wait_commands(commands, "|")}) words="$({_WAIT_IDS})" ;;'
    yield '            completion) words="bash zsh fish" ;;'
    yield "        esac"
    yield "    fi"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o default -F _continuations continuations"


def _zsh(commands: list[_Command]) -> Iterator[str]:
    yield "#compdef continuations"
    yield "_continuations() {"
    yield "    local -a words_of"
    yield "    if (( CURRENT == 2 )); then"
    yield "        words_of=("
    for command in commands:
        yield f"            {_quoted(f'{command.name}:{command.help}')}"
    yield "        )"
    yield "        _describe command words_of"
    yield '    elif [[ "${words[CURRENT]}" == -* ]]; then'
    yield '        case "${words[2]}" in'
    for command in commands:
        described = " ".join(
            _quoted(f"{option.name}:{option.help}") for option in command.options
        )
        yield f"            {command.name}) words_of=({described}) ;;"
    yield "        esac"
    yield "        _describe option words_of"
    yield "    else"
    yield '        case "${words[2]}" in'
    yield f"            {_wait_commands(commands, '|')}) compadd -- $({_WAIT_IDS}) ;;"
    yield "            completion) compadd bash zsh fish ;;"
    yield "            *) _files ;;"
    yield "        esac"
    yield "    fi"
    yield "}"
    yield "compdef _continuations continuations"


def _fish(commands: list[_Command]) -> Iterator[str]:
    for command in commands:
        yield (
            "complete -c continuations -f -n __fish_use_subcommand "
            f"-a {command.name} -d {_quoted(command.help)}"
        )
        seen = f"-n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            value = " -r" if option.takes_value else ""
            yield (
                f"complete -c continuations {seen} -l {option.name[2:]}{value} "
                f"-d {_quoted(option.help)}"
            )
    seen = f"-n '__fish_seen_subcommand_from {_wait_commands(commands, ' ')}'"
    yield f"complete -c continuations -f {seen} -a '({_WAIT_IDS})'"
    yield (
        "complete -c continuations -f -n '__fish_seen_subcommand_from completion' "
        "-a 'bash zsh fish'"
    )


def _wait_commands(commands: list[_Command], separator: str) -> str:
    return separator.join(command.name for command in commands if command.takes_wait)


def _quoted(text: str) -> str:
    """Return a text in single quotes; no help text needs its own quotes."""
    return "'" + text.replace("'", "").replace("`", "").replace("\n", " ") + "'"


_SCRIPTS: Mapping[str, Callable[[list[_Command]], Iterator[str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
