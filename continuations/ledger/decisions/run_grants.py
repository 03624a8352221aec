"""Check the grant that an approval gives before it is recorded; revoke grants.

The arguments of a grant are a JSON Schema. JSON Schema ignores a keyword that it does
not know, and one that limits another type: `maximum` lets each text pass. So a grant
takes only keywords that can refuse a call, and each of them names its type.

A revocation needs no marker: no worker must act on a revocation. The next worker reads
it with everything else that arrived.
"""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import jsonschema_rs

from continuations.core import jsontext
from continuations.core.rows.grants import (
    MAX_SCHEMA_CHARS,
    Grant,
    KeptGrant,
    has_ended,
    parse_grant_text,
)
from continuations.core.rows.state import call_path
from continuations.core.words.secret_arguments import ANY_ITEM, MASK, steps_of
from continuations.errors import InvalidInput, StoreDenied
from continuations.ledger.arrivals.arrival_logs import REVOCATIONS
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.decisions.schema_samples import (
    UNKNOWN,
    SchemaSamples,
    items,
    listed_values,
    members,
    named_types,
    type_of,
    types_of_leaf,
)
from continuations.ledger.versions import Versions
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock
    from continuations.wire.arrivals import Revocation


_Schema: TypeAlias = "Mapping[str, Any]"

# The type that a keyword limits. It lets a value of every other type pass.
_LIMITED_TYPE = {
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "multipleOf": "number",
    "minLength": "string",
    "maxLength": "string",
    "pattern": "string",
    "format": "string",
    "items": "array",
    "minItems": "array",
    "maxItems": "array",
    "uniqueItems": "array",
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
}
_KEYWORDS = frozenset(
    {*_LIMITED_TYPE, "type", "enum", "const", "allOf", "anyOf"}
    | {"title", "description", "$comment"}
)
_CHECKED_FORMATS = frozenset({"date", "date-time", "ipv4", "ipv6", "time", "uuid"})
_MAX_EXAMPLE_CHARS = 200


class UselessCondition(Exception):
    """A condition that does not limit what it seems to limit."""


def _refuse(why: str) -> NoReturn:
    raise UselessCondition(why)


def find_problem(wait: Wait, grant: object) -> str | None:
    """Return why a wait's approval cannot give a grant, or `None`."""
    if type(grant) is not Grant:
        return f"remember must be a Grant, got {type(grant).__name__}"
    if not wait.rules.follows_policy:
        return f"remember is for an approval, and the wait has the kind {wait.kind}"
    if wait.votes_needed > 1:
        return "several persons decide the wait, and one cannot give a grant"
    if wait.form_schema_json is not None:
        return "each call needs a form, and a grant cannot fill it in"
    if grant.tool != wait.tool:
        return f"the grant is for {grant.tool[:60]!r}, and the wait for another tool"
    return None if grant.arguments is None else _find_schema_problem(wait, grant)


def given_grant(
    wait: Wait, decision: Decision, contract: str | None = None
) -> KeptGrant | None:
    """Return the grant that a decision gives, `None` if it gives none.

    Another program may have written the decision, so the grant is checked again. A
    decision of several persons gives none, whatever the store says.
    """
    if decision.grant_json is None or len(decision.voters) > 1:
        return None
    grant = parse_grant_text(decision.grant_json)
    if find_problem(wait, grant) is not None:
        return None
    schema = grant.arguments
    return KeptGrant(
        id=decision.id,
        tool=wait.tool,
        path=wait.path,
        contract=contract,
        arguments_json=None if schema is None else jsontext.canonical(dict(schema)),
        until=grant.until,
        by=decision.by,
        at=decision.at,
        wait_id=wait.id,
    )


def _find_schema_problem(wait: Wait, grant: Grant) -> str | None:
    try:
        schema = jsontext.parse(jsontext.dump(grant.arguments))
        size = len(jsontext.canonical(schema))
        # A stored schema must not make a process fetch a URL.
        jsonschema_rs.validator_for(schema, retriever=jsontext.refuse_reference)
        if size > MAX_SCHEMA_CHARS:
            return (
                f"the arguments of the grant have {size} characters as JSON, and the "
                f"maximum is {MAX_SCHEMA_CHARS}"
            )
        strict_condition(schema)
        named = find_secret(schema, wait.secrets)
        if named is not None:
            return (
                f"the grant names the secret argument {named[:60]!r}, and people can "
                "read a grant"
            )
        comparison = _Comparison(wait.schema)
        comparison.check(schema, [wait.schema], wait.arguments, ())
    except jsontext.NotJson as error:
        return f"the arguments of the grant cannot be stored: {error}"
    except UselessCondition as error:
        return f"the grant does not limit its calls, because {error}"
    except (
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        return (
            "the arguments of the grant are not a valid JSON Schema "
            f"({type(error).__name__})"
        )
    return None


def is_limit(wait: Wait, name: str, condition: _Schema) -> bool:
    """Return whether a condition on one argument limits the calls of a grant."""
    grant = Grant(wait.tool or "", {"properties": {name: condition}})
    return _find_schema_problem(wait, grant) is None


def example_condition(wait: Wait, grant: Grant) -> str | None:
    """Return the text of a condition that works, if possible about the same argument.

    A secret value is in no text.
    """
    condition = jsontext.as_object(grant.arguments) or {}
    properties = jsontext.as_object(condition.get("properties")) or {}
    names = dict.fromkeys((*properties, *condition, *wait.arguments))
    for name in names:
        if name not in wait.arguments:
            continue
        value = wait.arguments[name]
        limits: list[dict[str, object]] = [{"const": value}]
        if type_of(value) == "number":
            limits.insert(0, {"type": "number", "maximum": value})
        for limit in limits:
            text = jsontext.dump({"properties": {name: limit}})
            if len(text) <= _MAX_EXAMPLE_CHARS and is_limit(wait, name, limit):
                return text
    return None


# The strict form ----------------------------------------------------------------------


def strict_condition(condition: _Schema) -> dict[str, Any]:
    """Return a condition that covers nothing but what it names.

    A keyword that limits a type refuses values of other types, and each argument that
    is named must be there. Raises `UselessCondition` for a keyword that a grant cannot
    use.
    """
    unknown = next((key for key in condition if key not in _KEYWORDS), None)
    if unknown is not None:
        why = f"{unknown[:60]!r} is not a keyword that its condition can use"
        _refuse(why)
    if condition.get("additionalProperties", False) is not False:
        why = "'additionalProperties' can only be false"
        _refuse(why)
    if condition.get("format", "date") not in _CHECKED_FORMATS:
        why = "this 'format' is not checked, so use 'pattern'"
        _refuse(why)
    strict = dict(condition)
    limited = _limited_types(condition)
    if limited:
        named = named_types(condition) or sorted(limited)
        fitting = [each for each in named if _family(each) in {*limited, "null"}]
        if not fitting:
            _refuse(_wrong_type(condition, named))
        strict["type"] = fitting
    for name in ("allOf", "anyOf"):
        if name in condition:
            strict[name] = [_strict_part(part) for part in condition[name]]
    if "items" in condition:
        strict["items"] = _strict_part(condition["items"])
    if "properties" in condition:
        parts = condition["properties"].items()
        strict["properties"] = {name: _strict_part(part) for name, part in parts}
        required = {*condition.get("required", ()), *strict["properties"]}
        strict["required"] = sorted(required)
    return strict


def _strict_part(part: object) -> dict[str, Any]:
    schema = jsontext.as_object(part)
    if schema is None:
        why = f"{jsontext.dump(part)[:60]} stands where a JSON Schema is needed"
        _refuse(why)
    return strict_condition(schema)


def _limited_types(condition: _Schema) -> set[str]:
    """Return the types that the keywords of a condition limit."""
    return {_LIMITED_TYPE[key] for key in condition if key in _LIMITED_TYPE}


def _family(name: str) -> str:
    return "number" if name == "integer" else name


def _wrong_type(condition: _Schema, types: Iterable[str]) -> str:
    keys = [key for key in condition if key in _LIMITED_TYPE]
    return f"{keys[0]!r} does not limit a value of the type {' or '.join(types)}"


# The tool's schema --------------------------------------------------------------------


class _Comparison:
    """Compares a condition with the schema of a tool, and with the waiting call."""

    def __init__(self, root: _Schema) -> None:
        self._samples = SchemaSamples(root, strict_condition)

    def check(
        self,
        condition: _Schema,
        schemas: list[_Schema],
        value: object,
        place: tuple[str, ...],
    ) -> None:
        """Raise `UselessCondition` if a part cannot refuse what the tool gets there."""
        leaves = self._samples.leaves(schemas)
        types = {each for leaf in leaves for each in types_of_leaf(leaf)}
        wanted = _wanted_types(condition)
        if wanted is not None:
            _check_types(condition, types, wanted, value, place)
        self._check_parts(condition, schemas, leaves, value, place)
        if not self._samples.refuses_one(condition, schemas, value, len(place)):
            on = f" on {'.'.join(place)}" if place else ""
            why = f"the condition{on} lets every value of the tool pass"
            _refuse(why)

    def _check_parts(
        self,
        condition: _Schema,
        schemas: list[_Schema],
        leaves: list[_Schema],
        value: object,
        place: tuple[str, ...],
    ) -> None:
        for part in condition.get("allOf", ()):
            self.check(part, schemas, value, place)
        for part in condition.get("anyOf", ()):
            # The call may match another part, so its type is not compared.
            self.check(part, schemas, UNKNOWN, place)
        if "items" in condition:
            self.check(condition["items"], items(leaves), UNKNOWN, (*place, "items"))
        known = jsontext.as_object(value) or {}
        objects = [leaf for leaf in leaves if "object" in types_of_leaf(leaf)]
        is_open = place and any("properties" not in leaf for leaf in objects)
        properties = condition.get("properties", {})
        for name in (*properties, *condition.get("required", ())):
            own = members(leaves, name)
            if not own and name not in known and not is_open:
                _refuse(f"the tool has no argument {name[:60]!r}")
        for name, part in properties.items():
            inner = known.get(name, UNKNOWN)
            self.check(part, members(leaves, name), inner, (*place, name[:60]))


def _check_types(
    condition: _Schema,
    types: set[str],
    wanted: set[str],
    value: object,
    place: tuple[str, ...],
) -> None:
    """Raise `UselessCondition` if a condition is for a type that does not come."""
    where = ".".join(place) or "the call"
    keyless = [each for each in named_types(condition) if _family(each) not in wanted]
    if [each for each in keyless if each != "null"]:
        _refuse(_wrong_type(condition, keyless))
    named = " or ".join(sorted(wanted))
    if types and wanted.isdisjoint(map(_family, types)):
        found = " or ".join(sorted(types))
        why = f"{where} has the type {found}, and the condition is for the type {named}"
        _refuse(why)
    if value is not UNKNOWN and value is not None and type_of(value) not in wanted:
        why = (
            f"{where} is a value of the type {type_of(value)} in this call, and the "
            f"condition is for the type {named}"
        )
        _refuse(why)


def _wanted_types(condition: _Schema) -> set[str] | None:
    """Return the types of values that a condition can let pass, `None` for all."""
    values = listed_values(condition)
    if values is not None:
        return set(map(type_of, values))
    limited = _limited_types(condition)
    if limited:
        return limited
    return set(map(_family, named_types(condition))) or None


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
        if call.secrets and call_path(state, call) == grant.path
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


async def list_grants(
    objects: Objects, run_id: str, *, clock: StoreClock | None, nonce: str = ""
) -> list[KeptGrant]:
    """Return the grants of a run whose time is not over, the oldest first.

    Without a clock, return the others as well. If one seems to be over, the store is
    asked for its time, with new random text as the nonce: the clock of this machine may
    be ahead. A process that may not ask gets that grant too.

    Grants of decisions that no worker has applied yet are among them, without a
    contract. A grant whose revocation no worker has taken in is marked as revoked. A
    condition on a secret argument is masked.
    """
    state = (await Versions(objects, run_id).load_newest()).state
    if state.run.has_ended:
        return []
    given, revoked = await gather(
        gather(*(_given_by_decision(objects, wait) for wait in state.waits.values())),
        _revoked_ids(objects, state),
    )
    grants = [*state.run.grants, *(grant for grant in given if grant is not None)]
    if clock is not None and any(has_ended(each, clock.now()) for each in grants):
        try:
            await clock.learn(objects, run_id, nonce)
        except StoreDenied:
            clock = None
    return [
        with_masked_secret(state, replace(grant, revoked=grant.id in revoked))
        for grant in grants
        if clock is None or not has_ended(grant, clock.now())
    ]


async def _given_by_decision(objects: Objects, wait: Wait) -> KeptGrant | None:
    if not wait.rules.follows_policy:
        return None
    decision = await read_decision(objects, wait.id)
    return None if decision is None else given_grant(wait, decision)


async def _revoked_ids(objects: Objects, state: RunState) -> set[str]:
    last = state.run.last_revocation_number
    read = await _read_after(objects, state.run.id, last)
    return {each.grant for each in read} | set(state.run.revoked_grants)


async def post(objects: Objects, run_id: str, revocation: Revocation) -> Revocation:
    """Create a revocation under the next free number; return it with its number.

    A second revocation of a grant is not recorded: the first one is returned.

    Raises:
        RunNotFound: The run does not exist.
        InvalidInput: The run has ended, or does not have this grant.
        Corrupt, FormatError: Another revocation cannot be read.
        StoreError: The revocation may or may not be recorded. Call again.
    """
    existing = await _read_after(objects, run_id, 0)
    for each in existing:
        if each.grant == revocation.grant:
            return each
    await _check_has_grant(objects, run_id, revocation)
    return await REVOCATIONS.append(
        objects,
        run_id,
        revocation,
        len(existing) + 1,
        is_repeat=lambda first, other: first.grant == other.grant,
    )


async def _read_after(objects: Objects, run_id: str, last: int) -> list[Revocation]:
    """Return the revocations after a number, without a gap."""
    listed = await REVOCATIONS.numbers(objects, run_id)
    numbers = range(last + 1, max(listed, default=0) + 1)
    return await REVOCATIONS.read_all(objects, run_id, numbers)


async def _check_has_grant(
    objects: Objects, run_id: str, revocation: Revocation
) -> None:
    # The clock of this machine may be ahead. A grant that has ended may be revoked too.
    grants = await list_grants(objects, run_id, clock=None)
    if any(grant.id == revocation.grant for grant in grants):
        return
    ids = ", ".join(grant.id for grant in grants) or "none"
    msg = (
        f"grant {revocation.grant[:60]!r} was not revoked: run {run_id} has no such "
        f"grant. Its grants: {ids}. List them with "
        f"`continuations grants {run_id}` or Runner.grants()."
    )
    raise InvalidInput(msg, run_id=run_id)
