"""The fields of a typed form, from the JSON Schema of its value.

Objects, texts, numbers, choices, truth values, dates and lists of choices have fields
of their own. Everything else is a field with JSON. `serve.http.answer_forms` reads the
posted form; the value is then checked with the schema of the stored wait.

The name of a field is `value:KIND:POINTER`. The pointer is a JSON Pointer (RFC 6901)
into the value, with invisible characters and `%` percent-encoded. The kind says how the
text of the field is read:

    text      the text itself
    number    a number
    json      JSON, for choices, lists and everything else
    object    an object whose parts have fields of their own
    flag      false; the checkbox `checked` after it makes it true
    checked   JSON that replaces a `flag`
    list      a list; each checkbox `item` after it adds a value
    item      JSON of one value of a `list`; its last step is the number of the choice

`text?`, `number?` and `json?` are left out of the value if the field is empty.
"""

from __future__ import annotations

from dataclasses import field
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from continuations.core import jsontext
from continuations.core.visible_text import escape_invisible
from continuations.present.json_forms import MAX_TEXT_CHARS
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# Names of fields -----------------------------------------------------------------

PREFIX = "value:"
MAX_DEPTH = 5


def field_name(kind: str, pointer: str) -> str:
    """Return the name of a field."""
    return f"{PREFIX}{kind}:{pointer}"


def below(pointer: str, step: str) -> str:
    """Return the pointer of a part of a value, without invisible characters."""
    escaped = step.replace("~", "~0").replace("/", "~1")
    return f"{pointer}/{''.join(map(_visible, escaped))}"


def steps_of(pointer: str) -> list[str]:
    """Return the steps of a pointer."""
    return [
        unquote(step, errors="surrogatepass").replace("~1", "/").replace("~0", "~")
        for step in pointer.split("/")[1:]
    ]


def _visible(char: str) -> str:
    """Return a character, percent-encoded if a page would show it as an escape."""
    if char != "%" and escape_invisible(char) == char:
        return char
    return quote(char, safe="", errors="surrogatepass")


# Fields --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionView:
    """One choice: the posted value, its text, and whether it is chosen."""

    name: str = ""
    value: str
    text: str
    is_chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldView:
    """One field of a form, or a group of fields.

    Attributes:
        kind: `object`, `text`, `line`, `number`, `date`, `time`, `select`, `radios`,
            `checkbox`, `checkboxes` or `json`.
        id: The id of the element.
        name: The name that is posted.
        label: The words beside the field.
        hints: Further words: the description, the default, the old value.
        value: The text in the field.
        mode: The keyboard of a number: `numeric` or `decimal`.
        max_chars: The longest text, or 0.
        is_required: Whether the field must have a text.
        options: The choices of a `select`, `radios`, a `checkbox` or `checkboxes`.
        parts: The fields of an `object`.
        error: Why the value is refused, or an empty text.
    """

    kind: str
    id: str
    name: str
    label: str
    hints: tuple[str, ...] = ()
    value: str = ""
    mode: str = ""
    max_chars: int = 0
    is_required: bool = False
    options: tuple[OptionView, ...] = ()
    parts: tuple[FieldView, ...] = ()
    error: str = ""


def error_text(error: str) -> str:
    """Return an error as a sentence, which stands alone at its field."""
    return f"This {error}" if error.startswith(("is ", "must ", "cannot ")) else error


class RefusedForm(NamedTuple):
    """The state of a refused form, beside the errors at its fields.

    Attributes:
        errors: The errors that no field has.
        focus: The id of the first field with an error, or an empty text.
    """

    errors: tuple[str, ...]
    focus: str

    @classmethod
    def of(
        cls, fields: tuple[FieldView, ...], errors: Mapping[str, str]
    ) -> RefusedForm:
        """Return what is left of the errors of a form, and where a person goes on."""
        shown: dict[str, str] = {}
        rest = list(fields)
        while rest:
            each = rest.pop(0)
            rest[:0] = each.parts
            if each.error:
                shown.setdefault(each.error, each.id)
        others = tuple(
            text for text in map(error_text, errors.values()) if text not in shown
        )
        return cls(others, next(iter(shown.values()), ""))


# So many choices stand on the page itself; more of them are a menu.
MAX_RADIOS = 5
_NUMBERS = {"integer": "numeric", "number": "decimal"}
_DATES = {"date": "date", "time": "time"}
_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class FormFields:
    """Makes the fields of one form.

    Attributes:
        schema: The JSON Schema of the value.
        id: A prefix for the ids of the elements.
        texts: Posted texts by field names, if the form is shown again.
        errors: Why values are refused, by their pointers.
        max_chars: The longest text of a field, or 0 for no limit.
    """

    schema: Mapping[str, Any]
    id: str = "f"
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    max_chars: int = MAX_TEXT_CHARS

    def fields(self, label: str, value: object = _ABSENT) -> tuple[FieldView, ...]:
        """Return the fields of the value, filled with a value if there is one."""
        return (self._part(self.schema, label, "", is_required=True, value=value),)

    def _part(
        self,
        given: Mapping[str, Any],
        label: str,
        pointer: str,
        *,
        is_required: bool,
        value: object,
    ) -> FieldView:
        schema = self._resolved(given)
        properties = jsontext.as_object(schema.get("properties"))
        has_parts = schema.get("type") == "object" and is_required
        if properties and has_parts and pointer.count("/") < MAX_DEPTH:
            members = jsontext.as_object({} if value is _ABSENT else value)
            if members is not None and members.keys() <= properties.keys():
                return self._object(schema, properties, label, pointer, members)
        leaf = _Leaf(self, schema, given, label, pointer, is_required, value)
        return leaf.view()

    def _object(
        self,
        schema: Mapping[str, Any],
        properties: Mapping[str, Any],
        label: str,
        pointer: str,
        members: Mapping[str, Any],
    ) -> FieldView:
        # Stored schemas have sorted keys; this list has the order of the declaration.
        required = [n for n in schema.get("required") or () if n in properties]
        parts: list[FieldView] = []
        for name in dict.fromkeys([*required, *properties]):
            part = jsontext.as_object(properties[name]) or {}
            parts.append(
                self._part(
                    part,
                    _words(name, part),
                    below(pointer, name),
                    is_required=name in required or name in members,
                    value=members.get(name, _ABSENT),
                )
            )
        return FieldView(
            kind="object",
            id=self.element_id(pointer),
            name=field_name("object", pointer),
            label=label,
            parts=tuple(parts),
            error=error_text(self.errors.get(pointer, "")),
        )

    def element_id(self, pointer: str) -> str:
        """Return the id of the element of a part of the value."""
        # A pointer may contain spaces and quotes, which an id and a selector may not.
        return f"{self.id}-{pointer.encode().hex()}"

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a schema without a reference, and without an alternative of null."""
        for _ in range(MAX_DEPTH):
            options = [
                each
                for each in map(jsontext.as_object, schema.get("anyOf") or ())
                if each is not None and each.get("type") != "null"
            ]
            reference = schema.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/$defs/"):
                definitions = jsontext.as_object(self.schema.get("$defs")) or {}
                name = reference.removeprefix("#/$defs/")
                schema = jsontext.as_object(definitions.get(name)) or {}
            elif len(options) == 1:
                schema = options[0]
            else:
                break
        return schema

    def choices(self, schema: Mapping[str, Any]) -> list[tuple[Any, str]] | None:
        """Return the values that a schema lists, with their texts, or `None`."""
        schema = self._resolved(schema)
        values = jsontext.as_array(schema.get("enum"))
        if "const" in schema:
            values = [schema["const"]]
        if values is not None:
            return [(value, _choice_text(value)) for value in values]
        titled = [jsontext.as_object(each) or {} for each in schema.get("oneOf") or ()]
        if not titled or not all("const" in each for each in titled):
            return None
        return [
            (each["const"], str(each.get("title", _choice_text(each["const"]))))
            for each in titled
        ]


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One field that is not an object."""

    form: FormFields
    schema: Mapping[str, Any]
    given: Mapping[str, Any]
    label: str
    pointer: str
    is_required: bool
    present: object

    def view(self) -> FieldView:
        """Return the field."""
        choices = self.form.choices(self.schema)
        type_ = self.schema.get("type")
        if choices is not None and self._is_choice(choices):
            return self._select(choices)
        if type_ == "boolean":
            return self._truth()
        if type_ == "array":
            items = jsontext.as_object(self.schema.get("items")) or {}
            listed = self.form.choices(items)
            if listed is not None and self._fits_checkboxes(listed):
                return self._checkboxes(listed)
        return self._input(type_)

    def _input(self, type_: object) -> FieldView:
        value = self._start()
        if type_ in _NUMBERS and (value is _ABSENT or _is_number(value)):
            return self._field("number", "number", mode=_NUMBERS[str(type_)])
        style = self.schema.get("format")
        if type_ == "string" and (value is _ABSENT or _is_plain(value)):
            if style in _DATES and (value is _ABSENT or _is_day(style, value)):
                return self._field(_DATES[str(style)], "text")
            return self._field("text", "text")
        return self._field("json", "json")

    def _field(self, kind: str, posted_kind: str, mode: str = "") -> FieldView:
        value = self._start()
        text = ""
        if value is not _ABSENT:
            is_text = posted_kind == "text" and isinstance(value, str)
            text = str(value) if is_text else _posted(value)
        name = field_name(posted_kind + self._mark, self.pointer)
        label = f"{self.label}, as JSON" if kind == "json" else self.label
        # A text that is there may be empty, and stays a text.
        needed = self.is_required and not (kind == "text" and value is not _ABSENT)
        return self._view(
            kind=kind,
            name=name,
            label=label if self.is_required else f"{label} (optional)",
            value=self.form.texts.get(name, text),
            mode=mode,
            max_chars=self.form.max_chars,
            is_required=needed,
        )

    def _select(self, choices: list[tuple[Any, str]]) -> FieldView:
        name = field_name("json" + self._mark, self.pointer)
        value = self._start()
        chosen = "" if value is _ABSENT else _posted(value)
        chosen = self.form.texts.get(name, chosen)
        options = list(_options(choices, {chosen}))
        is_short = len(options) <= MAX_RADIOS
        if is_short and not self.is_required:
            none = OptionView(value="", text="No answer", is_chosen=not chosen)
            options.append(none)
        return self._view(
            kind="radios" if is_short else "select",
            name=name,
            label=self.label if self.is_required else f"{self.label} (optional)",
            is_required=self.is_required,
            options=tuple(options),
        )

    def _truth(self) -> FieldView:
        value = self._start()
        if type(value) is not bool:
            # Without a default, the person says yes or no.
            if value is _ABSENT:
                return self._select([(True, "Yes"), (False, "No")])
            return self._field("json", "json")
        name = field_name("checked", self.pointer)
        flag = field_name("flag", self.pointer)
        is_chosen = name in self.form.texts if flag in self.form.texts else value
        option = OptionView(name=name, value="true", text="Yes", is_chosen=is_chosen)
        return self._view(kind="checkbox", name=flag, options=(option,))

    def _checkboxes(self, choices: list[tuple[Any, str]]) -> FieldView:
        name = field_name("list", self.pointer)
        value = self._start()
        chosen = {_posted(each) for each in jsontext.as_array(value) or ()}
        is_again = name in self.form.texts
        options = [
            OptionView(
                name=item,
                value=option.value,
                text=option.text,
                is_chosen=item in self.form.texts if is_again else option.is_chosen,
            )
            for number, option in enumerate(_options(choices, chosen))
            for item in [field_name("item", below(self.pointer, str(number)))]
        ]
        return self._view(kind="checkboxes", name=name, options=tuple(options))

    def _view(self, *, kind: str, name: str, **others: Any) -> FieldView:
        others.setdefault("label", self.label)
        return FieldView(
            kind=kind,
            id=self.form.element_id(self.pointer),
            name=name,
            **others,
            hints=tuple(self._hints()),
            error=error_text(self.form.errors.get(self.pointer, "")),
        )

    def _hints(self) -> Iterator[str]:
        description = self.given.get("description", self.schema.get("description"))
        if isinstance(description, str):
            yield description
        if self.given.get("default") is not None:
            yield f"Default: {jsontext.dump(self.given['default'])}"

    def _start(self) -> object:
        """Return the value that the field begins with: the present one, or the default.

        A default of null is a field that is left out.
        """
        if self.present is not _ABSENT:
            return self.present
        default = self.given.get("default")
        return _ABSENT if default is None else default

    @property
    def _mark(self) -> str:
        return "" if self.is_required else "?"

    def _is_choice(self, choices: list[tuple[Any, str]]) -> bool:
        value = self._start()
        return value is _ABSENT or any(_is_same(value, each) for each, _ in choices)

    def _fits_checkboxes(self, choices: list[tuple[Any, str]]) -> bool:
        """Return whether boxes in their order can give the value."""
        value = self._start()
        if value is _ABSENT:
            return self.is_required
        texts = [jsontext.dump(each) for each, _ in choices]
        chosen = [jsontext.dump(each) for each in jsontext.as_array(value) or [value]]
        return chosen == [text for text in texts if text in chosen]


def _options(choices: list[tuple[Any, str]], chosen: set[str]) -> Iterator[OptionView]:
    for value, text in choices:
        posted = _posted(value)
        yield OptionView(value=posted, text=text, is_chosen=posted in chosen)


def _posted(value: object) -> str:
    """Return the JSON of a value as a page shows and posts it."""
    return escape_invisible(jsontext.dump(value))


def _choice_text(value: object) -> str:
    if type(value) is bool:
        return "Yes" if value else "No"
    return value if isinstance(value, str) else jsontext.dump(value)


def _is_same(one: object, other: object) -> bool:
    return jsontext.dump(one) == jsontext.dump(other)


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_day(style: object, value: object) -> bool:
    """Return whether a field for a date shows a value, and posts the same text."""
    try:
        return style == "date" and date.fromisoformat(str(value)).isoformat() == value
    except ValueError:
        return False


def _is_plain(value: object) -> bool:
    """Return whether a field for text keeps a text, and hides nothing in it."""
    if not isinstance(value, str):
        return False
    return escape_invisible(value.replace("\n", "")) == value.replace("\n", "")


def _words(name: str, part: Mapping[str, Any]) -> str:
    title = part.get("title")
    words = title if isinstance(title, str) else name.replace("_", " ")
    return words[:1].upper() + words[1:]
