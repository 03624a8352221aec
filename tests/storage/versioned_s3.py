"""A small S3 whose bucket begins to keep versions, and may then break put-if-absent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.storage.s3_proxy import FakeS3, Reply, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["VersionedS3"]


class VersionedS3(FakeS3):
    """A bucket without versions, until `switch_versioning_on`.

    With `breaks_condition`, it then ignores If-None-Match, as Ceph 16 does: each put
    makes a new version and succeeds.
    """

    def __init__(self, *, breaks_condition: bool, version_id: str = "v") -> None:
        super().__init__(has_clock=True)
        self._breaks_condition = breaks_condition
        self._version_id = version_id
        self._keeps_versions = False

    def switch_versioning_on(self) -> None:
        """Keep versions from now on, as Object Lock does too."""
        self._keeps_versions = True
        self._honors_conditions = not self._breaks_condition

    def handle(self, request: Request) -> Reply:
        """Handle a request; replies about objects have a version id."""
        reply = super().handle(request)
        if reply.status == 200 and request.kind in {"PUT", "GET", "HEAD"}:
            headers = {**reply.headers, **self._version_headers(request)}
            return replace(reply, headers=headers)
        return reply

    def _version_headers(self, request: Request) -> Mapping[str, str]:
        if not self._keeps_versions:
            return {}
        return {"x-amz-version-id": f"{self._version_id}{request.number}"}
