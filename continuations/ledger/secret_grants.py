"""The conditions of grants that may contain the value of a secret argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.secret_arguments import ANY_ITEM, MASK, steps_of
from continuations.core.state import frame_path
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from continuations.core.grants import KeptGrant
    from continuations.core.state import RunState


def find_secret(condition: Mapping[str, Any], paths: Iterable[str]) -> str | None:
    """Return the argument of a condition that may contain a secret value, or `None`.

    Args:
        condition: The condition of a grant.
        paths: The paths of the secret values in the arguments of the tool.

    Returns:
        The name of the argument.
    """
    found = (_secret_place(condition, (), steps_of(path)) for path in paths)
    return next((each for each in found if each is not None), None)


def with_masked_secret(state: RunState, grant: KeptGrant) -> KeptGrant:
    """Return a kept grant whose condition shows no secret value.

    No interface gives such a grant. Another program may have stored it.
    """
    condition = grant.arguments
    if condition is None:
        return grant
    paths = {
        path
        for call in state.calls.values()
        if call.secrets and (*frame_path(state, call.frame_id), call.tool) == grant.path
        for path in call.secrets
    }
    paths |= {
        path
        for wait in state.waits.values()
        if wait.path == grant.path
        for path in wait.secrets
    }
    if find_secret(condition, paths) is None:
        return grant
    return replace(grant, arguments_json=jsontext.canonical({"const": MASK}))


def _secret_place(
    condition: object, place: tuple[str, ...], path: tuple[str, ...]
) -> str | None:
    schema = jsontext.as_object(condition)
    if schema is None:
        return None
    # A condition on a secret, or below it, may repeat the value. So may one above it
    # that lists whole values.
    lists_values = "const" in schema or "enum" in schema
    if _reaches(place, path) or (lists_values and _leads_to(place, path)):
        return ".".join(place) or path[0]
    found = (_secret_place(part, inner, path) for part, inner in _parts(schema, place))
    return next((each for each in found if each is not None), None)


def _parts(
    schema: Mapping[str, Any], place: tuple[str, ...]
) -> Iterator[tuple[object, tuple[str, ...]]]:
    for key in ("allOf", "anyOf"):
        for part in jsontext.as_array(schema.get(key)) or ():
            yield part, place
    yield schema.get("items"), (*place, ANY_ITEM)
    for name, part in (jsontext.as_object(schema.get("properties")) or {}).items():
        yield part, (*place, name)


def _reaches(place: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Return whether a place is at a secret value or inside it."""
    if not path or not place:
        return not path
    if path[0] == ANY_ITEM:
        return _reaches(place[1:], path[1:]) or _reaches(place, path[1:])
    if place[0] == ANY_ITEM:
        return _reaches(place[1:], path)
    return place[0] == path[0] and _reaches(place[1:], path[1:])


def _leads_to(place: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Return whether a secret value may be inside a place."""
    if not place or not path:
        return True
    if ANY_ITEM in (place[0], path[0]):
        return _leads_to(place[1:], path[1:]) or _leads_to(place, path[1:])
    return place[0] == path[0] and _leads_to(place[1:], path[1:])
