"""An evaluator of IAM statements about S3, and a proxy plan that enforces them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tests.storage.s3_proxy import Fault, Request, error_response, no_fault

__all__ = ["EnforcedPolicy", "resolved"]

_ACTIONS = {
    "PUT": "s3:PutObject",
    "GET": "s3:GetObject",
    "HEAD": "s3:GetObject",
    "DELETE": "s3:DeleteObject",
    "LIST": "s3:ListBucket",
}


def resolved(statements: Iterable[dict[str, Any]], bucket: str) -> list[dict[str, Any]]:
    """Return statements of the template for a bucket, with plain ARNs."""
    text = json.dumps(list(statements))
    arn = f"arn:aws:s3:::{bucket}"
    text = text.replace('{"Fn::GetAtt": ["Bucket", "Arn"]}', json.dumps(arn))
    loaded: list[dict[str, Any]] = json.loads(text.replace("${Bucket.Arn}", arn))
    for statement in loaded:
        resources = _as_list(statement["Resource"])
        plain = [_plain_arn(each) for each in resources]
        is_list = isinstance(statement["Resource"], list)
        statement["Resource"] = plain if is_list else plain[0]
    return loaded


@dataclass(frozen=True)
class EnforcedPolicy:
    """A plan for `S3Proxy` that answers 403 to every request that is not allowed.

    Attributes:
        statements: The statements of one role, with resolved resources.
        denied: The requests that were not allowed.
    """

    statements: list[dict[str, Any]]
    bucket: str
    denied: list[Request] = field(default_factory=list["Request"])

    def __call__(self, request: Request) -> Fault:
        if self.allows(request):
            return no_fault()
        self.denied.append(request)
        return error_response(403, "AccessDenied")

    def allows(self, request: Request) -> bool:
        """Return whether a statement allows a request, and none denies it."""
        effects = {
            statement["Effect"]
            for statement in self.statements
            if self._matches(statement, request)
        }
        return effects == {"Allow"}

    def _matches(self, statement: dict[str, Any], request: Request) -> bool:
        arn = f"arn:aws:s3:::{self.bucket}"
        resource = arn if request.kind == "LIST" else f"{arn}/{request.key}"
        return (
            _ACTIONS[request.kind] in _as_list(statement["Action"])
            # In a pattern of IAM, "*" matches slashes too.
            and any(
                fnmatchcase(resource, each) for each in _as_list(statement["Resource"])
            )
            and _condition_holds(statement.get("Condition", {}), request)
        )


def _condition_holds(condition: dict[str, Any], request: Request) -> bool:
    assert condition.keys() <= {"StringLike"}, condition
    patterns = condition.get("StringLike", {})
    assert patterns.keys() <= {"s3:prefix"}, patterns
    prefix = request.query_parameter("prefix")
    return all(
        any(fnmatchcase(prefix, each) for each in _as_list(value))
        for value in patterns.values()
    )


def _plain_arn(resource: str | dict[str, str]) -> str:
    return resource if isinstance(resource, str) else resource["Fn::Sub"]


def _as_list(value: str | dict[str, str] | list[Any]) -> list[Any]:
    return [value] if isinstance(value, str | dict) else value
