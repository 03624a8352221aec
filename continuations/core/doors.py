"""Doors: the ways by which decisions and requests reach a run."""

from __future__ import annotations

from continuations.value_class import dataclass


@dataclass(frozen=True, slots=True)
class Door:
    """The way by which a decision or request came, for the audit of its run.

    Attributes:
        name: Name of the door: `"python"`, `"cli"`, `"http"`, `"link"`, or the name of
            your application's own door, such as `"slack"`.
        authentication: How the door established who acts, such as `"verifier"`, or
            `None` if the name was not checked.
    """

    name: str
    authentication: str | None = None


PYTHON = Door("python")
# A wait that ended because an operator cancelled its call.
OPERATOR = Door("operator")
