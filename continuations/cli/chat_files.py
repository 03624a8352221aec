"""The files that a person attaches to the next message of a chat."""

from __future__ import annotations

import glob
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from continuations.cli.errors import UsageError
from continuations.cli.file_options import read_file
from continuations.cli.output import write_note
from continuations.core.attachments import check_total
from continuations.core.visible_text import escape_invisible
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from continuations.core.attachments import Content
    from continuations.engine.new_run import UserText

COMMAND = "/file"
_BEGIN = f"{COMMAND} "


class ChatFiles:
    """The attachments of the message that is written next."""

    def __init__(self) -> None:
        self._contents: list[Content] = []

    def attach(self, path: str) -> None:
        """Attach a file and say what is attached; without a path, only say it."""
        if path:
            try:
                content = read_file(COMMAND, path)
                check_total([*self._contents, content], {})
            except (UsageError, InvalidInput) as error:
                write_note(escape_invisible(str(error)))
            else:
                self._contents.append(content)
        self._write_attached()

    def remove_all(self) -> None:
        """Attach nothing."""
        self._contents.clear()
        self._write_attached()

    def with_text(self, text: str) -> UserText:
        """Return a message with the attachments."""
        return [text, *self._contents] if self._contents else text

    def sent(self) -> None:
        """Forget the files: a message with them is stored."""
        self._contents.clear()

    def _write_attached(self) -> None:
        labels = [escape_invisible(each.attachment.label) for each in self._contents]
        if labels:
            write_note(f"The next message has {' '.join(labels)}. /nofile removes all.")
        else:
            write_note(f"Nothing is attached. {COMMAND} PATH attaches a file.")


def shown_text(message: UserText) -> str:
    """Return the text by which a terminal shows a message."""
    if isinstance(message, str):
        return message
    parts = (
        each if isinstance(each, str) else each.attachment.label for each in message
    )
    return "\n".join(parts)


def complete_paths() -> None:
    """Let the Tab key complete paths after `/file`, if the terminal library can."""
    with suppress(ModuleNotFoundError):
        import readline  # noqa: PLC0415 - Windows does not have it

        def complete(line: str, number: int) -> str | None:
            found = completed_lines(line)
            return found[number] if number < len(found) else None

        readline.set_completer(complete)
        # The whole line is one word: a path may have spaces.
        readline.set_completer_delims("")
        readline.parse_and_bind("tab: complete")


def completed_lines(line: str) -> list[str]:
    """Return the lines that name a path which begins as the line does."""
    if not line.startswith(_BEGIN):
        return []
    begun = line.removeprefix(_BEGIN)
    if begun.startswith("~/"):
        begun = f"{Path.home()}{begun[1:]}"
    found = sorted(glob.glob(f"{glob.escape(begun)}*"))  # noqa: PTH207 - keeps "./"
    paths = (f"{each}/" if Path(each).is_dir() else each for each in found)
    return [_BEGIN + path for path in paths]
