"""Errors of a run as errors of A2A; texts about stores and machines go to the log."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from continuations.errors import InvalidId, RunErased, RunNotFound
from continuations.serve.http import problems

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["a2a_error", "a2a_errors", "forbidden"]


def forbidden(act: str) -> A2AError:
    """Return the error for a client that lacks a right.

    Args:
        act: The right.

    Returns:
        The error.
    """
    return UnsupportedOperationError(problems.forbidden(act).problem.detail)


def a2a_error(error: Exception) -> A2AError:
    """Return the error of A2A for an error of a run.

    Args:
        error: The error.

    Returns:
        The error. That of the server has an error id, under which the log has the rest.
    """
    if isinstance(error, A2AError):
        return error
    if isinstance(error, RunNotFound | RunErased | InvalidId):
        return TaskNotFoundError()
    problem = problems.from_error(error, now=datetime.now(UTC), operation="A2A request")
    detail = problem.detail or problem.type.title
    if problem.type.status >= problems.SERVER_ERROR:
        return InternalError(f"{problem.type.title}. {detail}")
    return InvalidParamsError(detail)


@contextmanager
def a2a_errors() -> Iterator[None]:
    """Raise each error of the block as one of A2A."""
    try:
        yield
    except Exception as error:
        raise a2a_error(error) from None
