"""`Identity`, and the names of people: what they may contain, and which are one person.

Names that look the same are one person. So a name has no invisible character and no
blank at its ends, and names are compared by `person_key`. Upper and lower case differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from unicodedata import category, normalize

from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAME_BYTES = 255
NAME_SIZE = f"1 to {MAX_NAME_BYTES} bytes in UTF-8"
MAX_GROUPS = 100
# Control characters, and those that direct or join others: zero-width, bidirectional.
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp"})
# Further characters that show nothing: fillers, joiners and selectors of a variant.
NAME_ADVICE = "Pass the name without this character or blank."
_INVISIBLE_RANGES = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2065, 0x2065),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1D159, 0x1D159),
    (0xE0000, 0xE0FFF),
)


def person_key(name: str) -> str:
    """Return the form in which the names of people and groups are compared.

    It is the name in Unicode's form NFKC, without invisible characters, and with single
    blanks. Names of other programs reach it too: in bytes that are adopted, in groups.
    """
    if name.isascii() and name.isprintable() and " " not in name:
        return name
    blanks = (" " if each.isspace() else each for each in normalize("NFKC", name))
    shown = "".join(each for each in blanks if not _is_invisible(each))
    return normalize("NFKC", " ".join(shown.split()))


def is_same_person(name: str | None, other: str | None) -> bool:
    """Return whether both names are known, and of one person."""
    if name is None or other is None:
        return False
    return name == other or person_key(name) == person_key(other)


def find_name_problem(name: str) -> str | None:
    """Return why a name may look like another one, or `None`."""
    if name.isascii() and name.isprintable() and name == name.strip():
        return None
    found = next(filter(_is_invisible, name), None)
    if found is not None:
        return f"it has the invisible character U+{ord(found):04X}"
    ends_with_blank = name != name.strip()
    return "it has a blank at its beginning or end" if ends_with_blank else None


def has_name_size(name: str) -> bool:
    """Return whether a name can be stored, and has 1 to `MAX_NAME_BYTES` bytes."""
    if len(name) > MAX_NAME_BYTES:
        return False
    try:
        return 0 < len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def checked_person(label: str, name: object) -> str | None:
    """Return the name of a person, or `None`; raises `InvalidInput`."""
    if name is None:
        return None
    if not isinstance(name, str):
        msg = f"{label} must be a text or None, got {type(name).__name__}."
        raise InvalidInput(msg)
    if not has_name_size(name):
        raise InvalidInput(
            f"{label} must have {NAME_SIZE}. Pass the name under which your "
            "application knows the person."
        )
    problem = find_name_problem(name)
    if problem is not None:
        raise InvalidInput(f"{label} is not a name: {problem}. {NAME_ADVICE}")
    return name


def _is_invisible(character: str) -> bool:
    if category(character) in _INVISIBLE_CATEGORIES:
        return True
    code = ord(character)
    return any(first <= code <= last for first, last in _INVISIBLE_RANGES)


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
        InvalidInput: A name is empty or longer than 255 bytes, has an invisible
            character or a blank at an end, `groups` is a string, or there are more
            than 100 groups.
    """

    name: str
    groups: tuple[str, ...]

    def __init__(self, name: str, groups: Iterable[str] = ()) -> None:
        _check_name("name", name)
        if isinstance(groups, str):
            raise InvalidInput(
                "groups must be a list of names, got a string. Pass "
                'Identity("kim", groups=["finance"]).'
            )
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
            raise InvalidInput(
                f"groups must have at most {MAX_GROUPS} names, got {len(unique)}. Pass "
                "only the groups that approval policies name."
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "groups", tuple(unique))


def _check_name(label: str, name: object) -> None:
    if type(name) is not str:
        got = type(name).__name__
        msg = f"{label} must be a string, got {got}. Pass the name as your application"
        raise InvalidInput(f"{msg} spells it.")
    checked_person(label, name)
