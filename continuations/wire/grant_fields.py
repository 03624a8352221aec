"""The stored form of the grants in the row of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.grants import KeptGrant
from continuations.wire.fields import FieldReader, omit_empty, to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable


def write_grants(grants: Iterable[KeptGrant]) -> list[dict[str, object]]:
    """Return the stored form of the grants of a run."""
    return [
        omit_empty(
            id=grant.id,
            tool=grant.tool,
            path=list(grant.path),
            contract=grant.contract,
            arguments=grant.arguments_json,
            until=None if grant.until is None else to_milliseconds(grant.until),
            by=grant.by,
            at=to_milliseconds(grant.at),
            wait=grant.wait_id,
        )
        for grant in grants
    ]


def read_grant(value: object, where: str) -> KeptGrant:
    """Return the grant that stored fields describe; raises `FormatError`."""
    fields = FieldReader(value, where)
    grant = KeptGrant(
        id=fields.text("id"),
        tool=fields.text("tool"),
        path=fields.texts("path"),
        contract=fields.text("contract"),
        arguments_json=fields.json_object_or_none("arguments"),
        until=fields.timestamp_or_none("until"),
        by=fields.text_or_none("by"),
        at=fields.timestamp("at"),
        wait_id=fields.text("wait"),
    )
    fields.check_all_read()
    return grant
