"""From what S3, or the way to it, says to the errors of the contract: one table.

A row is found by the error code in S3's answer, else by its HTTP status, else by the
name of the exception (so this file needs no boto3). It tells which error it is once we
stop asking, whether to ask again, and whether a create may have landed all the same.

Codes: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
412 and 409: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Any

from continuations_storage.errors import (
    AlreadyExists,
    Damaged,
    Denied,
    NotFound,
    StorageError,
    Throttled,
    Unavailable,
    Unsafe,
)
from continuations_storage.retries import AttemptFailed, ErrorRule

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from datetime import datetime

__all__ = [
    "ERROR_RULES",
    "classified_errors",
    "format_detail",
    "response_time",
    "rule_for",
]

_BUCKET = "make it, or correct its name"
_CREDENTIALS = "no usable credentials; give a profile, a role or the environment's keys"
_EXPIRED = "the credentials have expired or are void; get new ones"
_RIGHTS = (
    "needs s3:PutObject, s3:GetObject, s3:DeleteObject, and s3:ListBucket, without "
    "which S3 says the same of a missing key"
)
_REGION = "the bucket is in another region or at another endpoint; pass region="
_SIZE = "the body is larger than this store takes in one request"
_COMPATIBLE_SERVER_HINT = (
    "for a look-alike of S3 try checksums='when_required', path_style=True"
)
_MALFORMED_RESPONSE_HINT = (
    "the answer is not one of S3's: check endpoint and any proxy on the way"
)

_TAKEN = ErrorRule(AlreadyExists)
_SLOW_DOWN = ErrorRule(Throttled, retry=True)
_NOT_SENT = ErrorRule(Unavailable, retry=True)
_MAYBE_STORED = ErrorRule(Unavailable, retry=True, may_be_stored=True)
_NO_CREDENTIALS = ErrorRule(Denied, hint=_CREDENTIALS)
_NOT_PERMITTED = ErrorRule(Denied, hint=_RIGHTS)
_WRONG_ENDPOINT = ErrorRule(Unavailable, hint=_REGION)
_MALFORMED = ErrorRule(Unavailable, hint=_COMPATIBLE_SERVER_HINT)
_MISCONFIGURED = ErrorRule(Unavailable)

ERROR_RULES: Mapping[str | int, ErrorRule] = {
    # About the key.
    "PreconditionFailed": _TAKEN,
    412: _TAKEN,
    "NoSuchKey": ErrorRule(NotFound),
    # 409 means that another write of the key, or a delete, was under way: ask again.
    "ConditionalRequestConflict": _NOT_SENT,
    "OperationAborted": _NOT_SENT,
    409: _NOT_SENT,
    # About the bucket. Not NotFound: that would say that a run never was; and not
    # Denied: whoever reads it should mend the store, not the rights.
    "NoSuchBucket": ErrorRule(Unavailable, hint=_BUCKET),
    "PermanentRedirect": _WRONG_ENDPOINT,
    "AuthorizationHeaderMalformed": _WRONG_ENDPOINT,
    "IllegalLocationConstraintException": _WRONG_ENDPOINT,
    "IncorrectEndpoint": _WRONG_ENDPOINT,
    301: _WRONG_ENDPOINT,
    302: _WRONG_ENDPOINT,
    # botocore asks where the bucket is, and follows what it is told, without end.
    "RecursionError": _WRONG_ENDPOINT,
    # A bucket made a moment ago redirects until its name has spread.
    "TemporaryRedirect": _NOT_SENT,
    307: _NOT_SENT,
    # About who asks.
    "ExpiredToken": ErrorRule(Denied, hint=_EXPIRED),
    "InvalidToken": ErrorRule(Denied, hint=_EXPIRED),
    "TokenRefreshRequired": ErrorRule(Denied, hint=_EXPIRED),
    "RequestTimeTooSkewed": ErrorRule(
        Unavailable, hint="this machine's clock is wrong; set it"
    ),
    "InvalidObjectState": ErrorRule(
        Unavailable, hint="a lifecycle rule archived the object; restore it first"
    ),
    401: _NOT_PERMITTED,
    403: _NOT_PERMITTED,
    # Too much.
    "SlowDown": _SLOW_DOWN,
    "Throttling": _SLOW_DOWN,
    "ThrottlingException": _SLOW_DOWN,
    "TooManyRequests": _SLOW_DOWN,
    "RequestLimitExceeded": _SLOW_DOWN,
    "KMS.ThrottlingException": _SLOW_DOWN,
    429: _SLOW_DOWN,
    "EntityTooLarge": ErrorRule(Unavailable, hint=_SIZE),
    413: ErrorRule(Unavailable, hint=_SIZE),
    507: ErrorRule(Unavailable, hint="the store is full"),
    # Broken on the way: S3 checks length and checksum before it stores anything.
    "BadDigest": _NOT_SENT,
    "IncompleteBody": _NOT_SENT,
    "XAmzContentChecksumMismatch": _NOT_SENT,
    # 500 is said after a write that landed, too; 503 by a load balancer as well.
    "RequestTimeout": _MAYBE_STORED,
    500: _MAYBE_STORED,
    502: _MAYBE_STORED,
    503: _MAYBE_STORED,
    504: _MAYBE_STORED,
    # Not understood.
    "InvalidArgument": _MALFORMED,
    "InvalidRequest": _MALFORMED,
    "InvalidURI": _MALFORMED,
    "XAmzContentSHA256Mismatch": _MALFORMED,
    501: ErrorRule(
        Unsafe,
        hint=f"the store does not know such a request; {_COMPATIBLE_SERVER_HINT}",
    ),
    # What botocore raises where there is no whole answer.
    "EndpointConnectionError": _NOT_SENT,
    "ConnectTimeoutError": _NOT_SENT,
    "ProxyConnectionError": _NOT_SENT,
    "SSLError": _MAYBE_STORED,
    "SSLCertVerificationError": ErrorRule(
        Unavailable, hint="the endpoint's certificate is not trusted here"
    ),
    "HTTPClientError": _MAYBE_STORED,
    "IncompleteReadError": _MAYBE_STORED,
    # What it lets through: urllib3's, http.client's, the system's.
    "HTTPError": _MAYBE_STORED,
    "HTTPException": _MAYBE_STORED,
    "OSError": _MAYBE_STORED,
    "ResponseParserError": ErrorRule(
        Unavailable, retry=True, may_be_stored=True, hint=_MALFORMED_RESPONSE_HINT
    ),
    "MalformedResponse": ErrorRule(
        Unavailable, retry=True, may_be_stored=True, hint=_MALFORMED_RESPONSE_HINT
    ),
    # Asked for again, because it may be the way; told twice, it is the object.
    "FlexibleChecksumError": ErrorRule(Damaged, retry=True),
    "NoCredentialsError": _NO_CREDENTIALS,
    "PartialCredentialsError": _NO_CREDENTIALS,
    "CredentialRetrievalError": _NO_CREDENTIALS,
    "TokenRetrievalError": _NO_CREDENTIALS,
    "NoAuthTokenError": _NO_CREDENTIALS,
    "SSOError": _NO_CREDENTIALS,
    "LoginError": _NO_CREDENTIALS,
    "BotoCoreError": _MISCONFIGURED,  # a profile, a region, a bucket's name
    "ImportError": ErrorRule(
        Unavailable, hint="this store needs boto3: pip install boto3"
    ),
    "Exception": ErrorRule(Unavailable, may_be_stored=True),
}

_SERVER_ERROR = 500
_MAX_MESSAGE_LENGTH = 300


@contextmanager
def classified_errors(*, request_sent: bool = True) -> Generator[None]:
    """Turn whatever a client raises into a Setback; `sent` if a request may be out."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        setback = _classify_error(error)
        setback.may_be_stored = setback.may_be_stored and request_sent
        raise setback from error


def response_time(headers: Mapping[str, str]) -> datetime | None:
    """Return the time that an answer's Date header tells, if it tells one."""
    return _parse_http_date(headers.get("date"))


def rule_for(code: str, status: int) -> ErrorRule:
    """Return the row of an answer that is no success."""
    unknown = _MAYBE_STORED if status > _SERVER_ERROR else _MISCONFIGURED
    return ERROR_RULES.get(code) or ERROR_RULES.get(status) or unknown


def format_detail(message: str, rule: ErrorRule) -> str:
    """Return what was said on one line, and the row's hint."""
    line = " ".join(message.split())
    short = (
        line if len(line) <= _MAX_MESSAGE_LENGTH else f"{line[:_MAX_MESSAGE_LENGTH]}…"
    )
    return f"{short}; {rule.hint}" if rule.hint else short


def _classify_error(error: Exception) -> AttemptFailed:
    response: Mapping[str, Any] | None = getattr(error, "response", None)
    if isinstance(response, dict) and "Error" in response:
        return _classify_response(response)
    row = _rule_for_exception(error)
    return AttemptFailed(row, format_detail(f"{type(error).__name__}: {error}", row))


def _classify_response(response: Mapping[str, Any]) -> AttemptFailed:
    said: Mapping[str, Any] = response["Error"]
    meta: Mapping[str, Any] = response.get("ResponseMetadata", {})
    code, status = str(said.get("Code", "")), int(meta.get("HTTPStatusCode", 0))
    row = rule_for(code, status)
    return AttemptFailed(
        row,
        format_detail(f"{status} {code}: {said.get('Message', '')}", row),
        retry_after=_retry_after(meta.get("HTTPHeaders", {})),
        # The client of an application may have repeated the request by itself.
        may_be_stored=row.may_be_stored or bool(meta.get("RetryAttempts")),
    )


def _rule_for_exception(error: Exception) -> ErrorRule:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SSLCertVerificationError):
            return ERROR_RULES["SSLCertVerificationError"]
        cause = cause.__cause__ or cause.__context__
    names = (above.__name__ for above in type(error).__mro__)
    return next(ERROR_RULES[name] for name in names if name in ERROR_RULES)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that the answer asks us to wait (RFC 9110, 10.2.3)."""
    told = headers.get("retry-after", "").strip()
    if told.isascii() and told.isdigit():
        return float(told)
    then, now = _parse_http_date(told), response_time(headers)
    return max(0.0, (then - now).total_seconds()) if then and now else 0.0


def _parse_http_date(text: str | None) -> datetime | None:
    try:
        told = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    # A zone of "-0000" gives a naive time, and we do not guess.
    return told.astimezone(UTC) if told.utcoffset() is not None else None
