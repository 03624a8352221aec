"""`Identity`: a name that the application has verified, with groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAME_BYTES = 255
MAX_GROUPS = 100


@dataclass(frozen=True, slots=True, init=False)
class Identity:
    """A person or program that the application has identified, with its groups.

    `verify` of `HttpApi` returns one, and the `by` of a verdict may be one. The SDK
    checks the form and not the truth: make an `Identity` only from what your
    application verified, never from the body of a request.

    Attributes:
        name: The name, as your application spells it. Decisions are recorded under it.
        groups: The groups that the person belongs to, sorted and without repeats. They
            are recorded with a decision.

    Raises:
        InvalidInput: A name is empty or longer than 255 bytes, `groups` is a string,
            or there are more than 100 groups.
    """

    name: str
    groups: tuple[str, ...]

    def __init__(self, name: str, groups: Iterable[str] = ()) -> None:
        _check_name("name", name)
        if isinstance(groups, str):
            msg = (
                "groups must be a list of names, got a string. Pass "
                'Identity("kim", groups=["finance"]).'
            )
            raise InvalidInput(msg)
        try:
            names = list(groups)
        except TypeError:
            got = type(groups).__name__
            msg = f"groups must be a list of names, got {got}. Pass a list or a tuple."
            raise InvalidInput(msg) from None
        for each in names:
            _check_name("each of groups", each)
        unique = sorted(set(names))
        if len(unique) > MAX_GROUPS:
            msg = (
                f"groups must have at most {MAX_GROUPS} names, got {len(unique)}. Pass "
                "only the groups that approval policies name."
            )
            raise InvalidInput(msg)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "groups", tuple(unique))


def _check_name(label: str, name: object) -> None:
    if type(name) is not str:
        got = type(name).__name__
        msg = f"{label} must be a string, got {got}. Pass the name as your application"
        raise InvalidInput(f"{msg} spells it.")
    try:
        fits = 0 < len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        fits = False
    if not fits:
        msg = (
            f"{label} must have 1 to {MAX_NAME_BYTES} bytes in UTF-8. Pass the name "
            "under which your application knows the person."
        )
        raise InvalidInput(msg)
