"""Errors of a run as errors of A2A; texts about stores and machines go to the log."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import validate_proto_required_fields

from continuations.errors import InvalidId, RunErased, RunNotFound
from continuations.serve.http import problems

if TYPE_CHECKING:
    from collections.abc import Generator

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
def a2a_errors(params: Any) -> Generator[None]:
    """Check the required fields of a request; raise each error of the block as A2A's.

    Args:
        params: The request.

    Yields:
        Nothing.

    Raises:
        A2AError: A field is missing, or the block has raised an error.
    """
    try:
        validate_proto_required_fields(params)
        yield
    except Exception as error:  # noqa: BLE001 - a client gets only errors of A2A
        raise a2a_error(error) from None
