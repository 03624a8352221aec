"""Completion for bash, zsh and fish: `eval "$(continuations completion bash)"`.

The scripts contain the commands and options, so a press of Tab starts no process.
Only the ids of waits are asked for, with `continuations waiting --ids`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

import typer
from typer.main import get_command

from continuations.cli.output import write_lines
from continuations.cli.program import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# The commands of click by their names.
_Commands: TypeAlias = "Mapping[str, Any]"
_WAIT_IDS = "continuations waiting --ids 2>/dev/null"


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
    write_lines(_SCRIPTS[shell](root.commands))


class _Option(NamedTuple):
    name: str
    help: str
    takes_value: bool


def _options(command: Any) -> Iterator[_Option]:
    for parameter in command.params:
        for name in (*parameter.opts, *parameter.secondary_opts):
            if name.startswith("--"):
                help_text = (parameter.help or "").partition(". ")[0].rstrip(".")
                yield _Option(name, help_text, not parameter.is_flag)
    yield _Option("--help", "Show the help", takes_value=False)


def _help(command: Any) -> str:
    text: str = command.get_short_help_str(limit=70)
    return text


def _bash(commands: _Commands) -> Iterator[str]:
    names = " ".join(commands)
    yield "_continuations() {"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" words='
    yield "    if (( COMP_CWORD == 1 )); then"
    yield f'        words="{names} --help --version"'
    yield '    elif [[ "$word" == -* ]]; then'
    yield '        case "${COMP_WORDS[1]}" in'
    for name, command in commands.items():
        options = " ".join(option.name for option in _options(command))
        yield f'            {name}) words="{options}" ;;'
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


def _zsh(commands: _Commands) -> Iterator[str]:
    yield "#compdef continuations"
    yield "_continuations() {"
    yield "    local -a words_of"
    yield "    if (( CURRENT == 2 )); then"
    yield "        words_of=("
    for name, command in commands.items():
        yield f"            {_quoted(f'{name}:{_help(command)}')}"
    yield "        )"
    yield "        _describe command words_of"
    yield '    elif [[ "${words[CURRENT]}" == -* ]]; then'
    yield '        case "${words[2]}" in'
    for name, command in commands.items():
        described = " ".join(
            _quoted(f"{option.name}:{option.help}") for option in _options(command)
        )
        yield f"            {name}) words_of=({described}) ;;"
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


def _fish(commands: _Commands) -> Iterator[str]:
    for name, command in commands.items():
        yield (
            "complete -c continuations -f -n __fish_use_subcommand "
            f"-a {name} -d {_quoted(_help(command))}"
        )
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        for option in _options(command):
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


def _wait_commands(commands: _Commands, separator: str) -> str:
    return separator.join(
        name
        for name, command in commands.items()
        if any("WAIT" in (each.metavar or "") for each in command.params)
    )


def _quoted(text: str) -> str:
    """Return a text in single quotes; no help text needs its own quotes."""
    return "'" + text.replace("'", "").replace("`", "").replace("\n", " ") + "'"


_SCRIPTS: Mapping[str, Callable[[_Commands], Iterator[str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
