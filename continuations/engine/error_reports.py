"""Describe an exception of an application's code without its text.

The text of an exception may contain secrets, arguments or messages, and the source
line of a frame may contain a literal secret. A log keeps neither. Files, lines,
functions and the names of exceptions belong to the code. An error number of the
operating system, and a name that stands in the code of the failing function, are safe
too.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, cast

import continuations
from continuations.authoring.errors import WaitNotReturned

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_FRAMES = 20
_MAX_ERRORS = 5
_OWN_FOLDER = str(Path(continuations.__file__).parent) + os.sep


def describe_error(error: BaseException) -> str:
    """Return the class of an exception, its traceback, and those of its causes."""
    lines: list[str] = []
    for index, each in enumerate(_with_causes(error)):
        label = "" if index == 0 else "caused by "
        lines += [f"{label}{_class_text(each)}", *_frame_lines(each)]
    return "\n".join(lines)


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and len(seen) < _MAX_ERRORS and id(error) not in seen:
        seen.add(id(error))
        yield error
        hidden = error.__suppress_context__
        error = error.__cause__ or (None if hidden else error.__context__)


def _class_text(error: BaseException) -> str:
    name = type(error).__name__
    detail = _safe_detail(error)
    return f"{name} ({detail})" if detail else name


def _safe_detail(error: BaseException) -> str | None:
    if isinstance(error, WaitNotReturned):
        return str(error)
    if isinstance(error, OSError) and isinstance(error.errno, int):
        return os.strerror(error.errno)
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        inner = group.exceptions
        return ", ".join(type(each).__name__ for each in inner[:_MAX_ERRORS])
    if isinstance(error, AttributeError | NameError) and _is_in_code(error):
        owner = getattr(error, "obj", None)
        of = f" of {type(owner).__name__}" if isinstance(error, AttributeError) else ""
        return f"{error.name}{of}"
    return None


def _is_in_code(error: AttributeError | NameError) -> bool:
    """Return whether the missing name stands in the code that raised the error."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return False
    code = step.tb_frame.f_code
    return error.name in (*code.co_names, *code.co_varnames, *code.co_freevars)


def _frame_lines(error: BaseException) -> list[str]:
    summary = traceback.StackSummary.extract(
        traceback.walk_tb(error.__traceback__), lookup_lines=False
    )
    frames = [each for each in summary if not each.filename.startswith(_OWN_FOLDER)]
    return [
        f'  File "{each.filename}", line {each.lineno}, in {each.name}'
        for each in frames[-_MAX_FRAMES:]
    ]
