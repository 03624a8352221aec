"""Which `raise` statements of the project there are, and which ones a case reached."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import pkgutil
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import continuations
import continuations_storage

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import FrameType, ModuleType, TracebackType

ROOT = Path(continuations.__file__).parents[1]
_PACKAGES = (continuations, continuations_storage)
_FOLDERS = [Path(package.__file__ or "").parent for package in _PACKAGES]
_SKIPPED = ("__main__", "conformance", "create_race")


@dataclass(frozen=True)
class RaiseSite:
    """A `raise` statement that makes a new error."""

    path: str
    function: str
    ordinal: int
    first_line: int
    last_line: int

    @property
    def id(self) -> str:
        """The site without line numbers, which every edit moves."""
        return f"{self.path}:{self.function}#{self.ordinal}"

    @property
    def place(self) -> str:
        """The site as an editor opens it."""
        return f"{self.path}:{self.first_line}"


@cache
def all_sites() -> tuple[RaiseSite, ...]:
    """Return every `raise` of the project that makes a new error."""
    return tuple(
        site
        for folder in _FOLDERS
        for path in sorted(folder.rglob("*.py"))
        if path.stem not in _SKIPPED
        for site in _sites_of(path)
    )


def _sites_of(path: Path) -> Iterator[RaiseSite]:
    name = str(path.relative_to(_root_of(path)))
    counts: Counter[str] = Counter()
    for function, node in _raises(ast.parse(path.read_text()), ""):
        counts[function] += 1
        yield RaiseSite(
            path=name,
            function=function,
            ordinal=counts[function],
            first_line=node.lineno,
            last_line=node.end_lineno or node.lineno,
        )


def _root_of(path: Path) -> Path:
    return next(folder.parent for folder in _FOLDERS if path.is_relative_to(folder))


def _raises(node: ast.AST, scope: str) -> Iterator[tuple[str, ast.Raise]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _raises(child, f"{scope}.{child.name}".lstrip("."))
        elif isinstance(child, ast.Raise) and _makes_an_error(child.exc):
            yield scope, child
        else:
            yield from _raises(child, scope)


def _makes_an_error(raised: ast.expr | None) -> bool:
    # `raise error` and `raise` pass on an error that was made elsewhere.
    if isinstance(raised, ast.Name):
        return raised.id[:1].isupper()
    if isinstance(raised, ast.Call):
        return ast.unparse(raised.func) != "typer.Exit"  # an exit code, without a text
    return False


class Recorder:
    """Notes the lines of the project on the stack wherever one of its errors is made.

    The errors that the project catches again are noted as well: their texts reach a
    model, an HTTP client or a person as a part of another text.
    """

    def __init__(self) -> None:
        self._lines: set[tuple[str, int]] = set()

    def reached(self) -> set[str]:
        """Return the ids of the sites that were reached."""
        return {
            site.id
            for site in all_sites()
            if any(
                (site.path, line) in self._lines
                for line in range(site.first_line, site.last_line + 1)
            )
        }

    def note_traceback(self, error: BaseException | None) -> None:
        """Note the lines that an error and those behind it passed."""
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            step: TracebackType | None = error.__traceback__
            while step is not None:
                self._note(step.tb_frame.f_code.co_filename, step.tb_lineno)
                step = step.tb_next
            error = error.__cause__ or error.__context__

    def note_stack(self, frame: FrameType | None) -> None:
        """Note the lines that are being executed."""
        while frame is not None:
            self._note(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back

    def _note(self, filename: str, line: int) -> None:
        path = _path_of(filename)
        if path is not None:
            self._lines.add((path, line))


@cache
def _path_of(filename: str) -> str | None:
    """Return the path of a file of the project as `RaiseSite` has it."""
    path = Path(filename)
    for folder in _FOLDERS:
        if path.is_relative_to(folder):
            return str(path.relative_to(folder.parent))
    return None


@contextlib.contextmanager
def recording() -> Generator[Recorder]:
    """Have every error class of the project tell a recorder when it is made."""
    recorder = Recorder()
    classes = [*_error_classes()]
    originals = {cls: cls.__dict__.get("__init__") for cls in classes}
    for cls in classes:
        _wrap(cls, recorder)
    try:
        yield recorder
    finally:
        for cls, original in originals.items():
            if original is None:
                del cls.__init__
            else:
                cls.__init__ = original  # type: ignore[method-assign]


def _wrap(cls: type[BaseException], recorder: Recorder) -> None:
    original: Any = cls.__init__

    def init(self: BaseException, *args: Any, **kwargs: Any) -> None:
        recorder.note_stack(inspect.currentframe())
        recorder.note_traceback(sys.exception())
        original(self, *args, **kwargs)

    cls.__init__ = init  # type: ignore[method-assign]


def _error_classes() -> Iterator[type[BaseException]]:
    for module in _modules():
        for value in module.__dict__.values():
            if (
                isinstance(value, type)
                and issubclass(value, BaseException)
                and value.__module__ == module.__name__
            ):
                yield value


def _modules() -> Iterator[ModuleType]:
    for package in _PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.rpartition(".")[2] not in _SKIPPED:
                yield importlib.import_module(found.name)
