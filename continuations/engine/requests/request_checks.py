"""Check the arguments of requests to runs; a request needs no agents."""

from __future__ import annotations

from continuations.core import jsontext
from continuations.errors import InvalidInput

_MAX_NAME_CHARS = 200


def event_name(name: object) -> str:
    """Return the name of a signal or event; raises `InvalidInput`."""
    if isinstance(name, str) and name.strip() and len(name) <= _MAX_NAME_CHARS:
        return name
    raise InvalidInput(
        f"name must be a text of 1 to {_MAX_NAME_CHARS} characters, got "
        f"{str(name)[:60]!r}. Pass the name that wait_for() has."
    )


def event_key(key: object) -> str | None:
    """Return the key of an event, or `None`; raises `InvalidInput`."""
    if key is None or (isinstance(key, str) and key.strip()):
        return key
    raise InvalidInput(
        f"key must be a text that is not empty, or None, got {str(key)[:60]!r}. Pass "
        "the key that wait_for() has."
    )


def json_text(data: object) -> str:
    """Return the data of a signal or event as JSON text; raises `InvalidInput`."""
    try:
        return jsontext.canonical(data)
    except jsontext.NotJson as error:
        msg = f"data is not a JSON value: {error}. Pass values that JSON has."
        raise InvalidInput(msg) from None


def own_id(value: object) -> str | None:
    """Return the sender's id of a message, signal or event; raises `InvalidInput`.

    An empty id is the id of nothing: two different messages would be one.
    """
    if value is None or (isinstance(value, str) and value):
        return value
    got = repr(value)[:60] if isinstance(value, str) else type(value).__name__
    raise InvalidInput(
        f"id must be a text that is not empty, or None, got {got}. Pass your id of "
        "what you send."
    )


def checked_person(label: str, name: object) -> str | None:
    """Return the name of a person, or `None`; raises `InvalidInput`."""
    if name is None:
        return None
    from continuations.core import identity  # noqa: PLC0415 - not without a name

    return identity.checked_person(label, name)


def optional_text(name: str, value: object) -> str | None:
    """Return a text or `None`; raises `InvalidInput` for other types."""
    if value is None or isinstance(value, str):
        return value
    raise InvalidInput(f"{name} must be a text or None, got {type(value).__name__}.")


def agent_is_missing(what: str, remedy: str) -> InvalidInput:
    """Return the error of a method that works on a thread."""
    msg = (
        f"{what} failed: it needs the agent, and this runner has no agents. {remedy}, "
        "or make the runner with the agent."
    )
    return InvalidInput(msg)
