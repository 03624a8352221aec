"""The form that forks a run: its version, and the waits that may end otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.present import wait_words
from continuations.present.wait_view import argument_views
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.waits import Wait
    from continuations.wire.continuation import Continuation

_VERDICTS = (("deny", "Deny"), ("answer", "Answer"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkWait:
    """One open wait of the version.

    Attributes:
        wait_id: Its id.
        title: Its title.
        arguments: Names and values of the arguments, whole; secret values are masked.
        verdicts: The verdicts that the form offers: value and words.
        answer: The type of an answer, in words.
    """

    wait_id: str
    title: str
    arguments: tuple[tuple[str, str], ...]
    verdicts: tuple[tuple[str, str], ...]
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkView:
    """The form.

    Attributes:
        title: Title of the run.
        version: Number of the version.
        run_id: Id of the fork, unless the person changes it.
        waits: The open waits, if the person may decide.
    """

    title: str
    version: int
    run_id: str
    waits: tuple[ForkWait, ...]


def fork_view(
    run: Continuation, fork_id: str, *, title: str, may_decide: bool
) -> ForkView:
    """Return the form that forks a run.

    Args:
        run: The version.
        fork_id: Id of the fork, unless the person changes it.
        title: Title of the run.
        may_decide: Whether the person may decide the waits.
    """
    waits = [wait for wait in run.waits if wait.rules.asks_person]
    return ForkView(
        title=title,
        version=run.version,
        run_id=fork_id,
        waits=tuple(map(_wait, waits)) if may_decide else (),
    )


def _wait(wait: Wait) -> ForkWait:
    is_text = wait.answer_type_name in (None, "string")
    return ForkWait(
        wait_id=wait.id,
        title=wait_words.title(wait),
        arguments=tuple((each.name, each.json) for each in argument_views(wait)),
        verdicts=tuple(each for each in _VERDICTS if each[0] in wait.rules.verdicts),
        answer="a text" if is_text else f"JSON of type {wait.answer_type_name}",
    )
