"""One way to make an error, and the step that its message asks for next.

Code and advice of a case are texts, so that the table shows exactly the code that
ran, and a wrong type needs no excuse to a type checker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from continuations.errors import ContinuationsError

if TYPE_CHECKING:
    from tests.errors.scene import Scene


class Shown(Exception):
    """An error that is shown rather than raised, for example an HTTP problem."""

    def __init__(
        self,
        kind: str,
        text: str,
        *,
        run_id: str | None = None,
        wait_id: str | None = None,
    ) -> None:
        super().__init__(text)
        self.kind = kind
        self.run_id = run_id
        self.wait_id = wait_id


@dataclass(frozen=True)
class Case:
    """A line of user code that fails, and the code that follows its message.

    Attributes:
        id: The name of the case; it never changes.
        error: The class, or the kind of the text that is shown, for example
            "problem 404 run-not-found".
        code: The code that fails.
        advice: The next step that the message names; it succeeds.
        setup: Code that runs before.
        names: Words that the message must have: the parameter as the user typed it.
        is_list: Whether the text is a list or a report, or ends with a command or with
            a text of the application. No full stop ends it, and it may be long.
    """

    id: str
    error: type[BaseException] | str
    code: str
    advice: str
    setup: str
    names: tuple[str, ...]
    is_list: bool

    @property
    def error_name(self) -> str:
        """The name of the class, or the kind of the text that is shown."""
        return self.error if isinstance(self.error, str) else self.error.__name__


@dataclass(frozen=True)
class Area:
    """Cases that a reader looks for in one place."""

    title: str
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Observation:
    """The error of a case, with its text."""

    error: BaseException
    text: str
    run_id: str | None
    wait_id: str | None

    @property
    def name(self) -> str:
        """The class of the error, or the kind of what was shown."""
        if isinstance(self.error, Shown):
            return self.error.kind
        return type(self.error).__name__


class NothingRaised(AssertionError):
    """The code of a case went well."""


def observe(case: Case, scene: Scene) -> Observation:
    """Run the setup and the code of a case; return the error."""
    scene.execute(case.setup, f"<setup of {case.id}>")
    try:
        scene.execute(case.code, f"<code of {case.id}>")
    except Exception as error:  # noqa: BLE001 - the error is the result
        known = error if isinstance(error, ContinuationsError | Shown) else None
        return Observation(
            error=error,
            text=str(error),
            run_id=known.run_id if known else None,
            wait_id=known.wait_id if known else None,
        )
    msg = f"{case.id}: the code raised nothing"
    raise NothingRaised(msg)


def follow_advice(case: Case, scene: Scene) -> None:
    """Run the advice of a case: the next step that its message names."""
    scene.execute(case.advice, f"<advice of {case.id}>")
