"""Read the fields of a JSON file strictly; each error names the file and the field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from continuations.core import jsontext
from continuations.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

_KINDS: dict[type[object], str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a file, with its place.

    Attributes:
        value: The value.
        path: The place of the value, for example `continuation.messages[0]`.
        source: The name of the file.
    """

    value: Any
    path: str
    source: str

    def refuse(self, why: str, advice: str = "") -> NoReturn:
        """Raise `FormatError` for this field."""
        where = f"field {self.path}" if self.path else "it"
        advice = advice or "Check which program wrote the file."
        msg = f"{self.source} was not read: {where} {why}. {advice}"
        raise FormatError(msg)

    def has(self, key: str) -> bool:
        """Return whether the object has a value under a key that is not null."""
        return self.object().get(key) is not None

    def __getitem__(self, key: str) -> Field:
        """Return a field of the object; a missing one has the value `None`."""
        path = f"{self.path}.{key}" if self.path else key
        return Field(self.object().get(key), path, self.source)

    def object(self) -> Mapping[str, Any]:
        """Return the value, which must be an object."""
        found = jsontext.as_object(self.value)
        return self._refuse_kind("an object") if found is None else found

    def items(self) -> list[Field]:
        """Return the items of the value, which must be a list."""
        found = jsontext.as_array(self.value)
        if found is None:
            self._refuse_kind("a list")
        return [
            Field(item, f"{self.path}[{index}]", self.source)
            for index, item in enumerate(found)
        ]

    def text(self) -> str:
        """Return the value, which must be a text that is not empty."""
        if not isinstance(self.value, str):
            self._refuse_kind("a text")
        if not self.value:
            self.refuse("is empty")
        return self.value

    def boolean(self) -> bool:
        """Return the value, which must be true or false."""
        if not isinstance(self.value, bool):
            self._refuse_kind("true or false")
        return self.value

    def _refuse_kind(self, wanted: str) -> NoReturn:
        if self.value is None:
            self.refuse("is missing")
        value: object = self.value
        got = next(text for kind, text in _KINDS.items() if isinstance(value, kind))
        self.refuse(f"must be {wanted} and is {got}")
