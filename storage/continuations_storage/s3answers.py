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

from continuations_storage.attempts import Row, Setback
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

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from datetime import datetime

__all__ = ["ROWS", "detail_of", "row_of", "setbacks", "time_of"]

_BUCKET = "make it, or correct its name"
_CREDENTIALS = "no usable credentials; give a profile, a role or the environment's keys"
_EXPIRED = "the credentials have expired or are void; get new ones"
_RIGHTS = (
    "needs s3:PutObject, s3:GetObject, s3:DeleteObject, and s3:ListBucket, without "
    "which S3 says the same of a missing key"
)
_REGION = "the bucket is in another region or at another endpoint; pass region="
_SIZE = "the body is larger than this store takes in one request"
_LOOK_ALIKE = "for a look-alike of S3 try checksums='when_required', path_style=True"
_GARBLED = "the answer is not one of S3's: check endpoint and any proxy on the way"

_TAKEN = Row(AlreadyExists)
_SLOW_DOWN = Row(Throttled, again=True)
_NOT_SENT = Row(Unavailable, again=True)
_IN_DOUBT = Row(Unavailable, again=True, landed=True)
_NO_CREDENTIALS = Row(Denied, hint=_CREDENTIALS)
_NOT_PERMITTED = Row(Denied, hint=_RIGHTS)
_ELSEWHERE = Row(Unavailable, hint=_REGION)
_MALFORMED = Row(Unavailable, hint=_LOOK_ALIKE)
_CONFIGURED_WRONG = Row(Unavailable)

ROWS: Mapping[str | int, Row] = {
    # About the key.
    "PreconditionFailed": _TAKEN,
    412: _TAKEN,
    "NoSuchKey": Row(NotFound),
    # 409 means that another write of the key, or a delete, was under way: ask again.
    "ConditionalRequestConflict": _NOT_SENT,
    "OperationAborted": _NOT_SENT,
    409: _NOT_SENT,
    # About the bucket. Not NotFound: that would say that a run never was; and not
    # Denied: whoever reads it should mend the store, not the rights.
    "NoSuchBucket": Row(Unavailable, hint=_BUCKET),
    "PermanentRedirect": _ELSEWHERE,
    "AuthorizationHeaderMalformed": _ELSEWHERE,
    "IllegalLocationConstraintException": _ELSEWHERE,
    "IncorrectEndpoint": _ELSEWHERE,
    301: _ELSEWHERE,
    302: _ELSEWHERE,
    # botocore asks where the bucket is, and follows what it is told, without end.
    "RecursionError": _ELSEWHERE,
    # A bucket made a moment ago redirects until its name has spread.
    "TemporaryRedirect": _NOT_SENT,
    307: _NOT_SENT,
    # About who asks.
    "ExpiredToken": Row(Denied, hint=_EXPIRED),
    "InvalidToken": Row(Denied, hint=_EXPIRED),
    "TokenRefreshRequired": Row(Denied, hint=_EXPIRED),
    "RequestTimeTooSkewed": Row(
        Unavailable, hint="this machine's clock is wrong; set it"
    ),
    "InvalidObjectState": Row(
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
    "EntityTooLarge": Row(Unavailable, hint=_SIZE),
    413: Row(Unavailable, hint=_SIZE),
    507: Row(Unavailable, hint="the store is full"),
    # Broken on the way: S3 checks length and checksum before it stores anything.
    "BadDigest": _NOT_SENT,
    "IncompleteBody": _NOT_SENT,
    "XAmzContentChecksumMismatch": _NOT_SENT,
    # 500 is said after a write that landed, too; 503 by a load balancer as well.
    "RequestTimeout": _IN_DOUBT,
    500: _IN_DOUBT,
    502: _IN_DOUBT,
    503: _IN_DOUBT,
    504: _IN_DOUBT,
    # Not understood.
    "InvalidArgument": _MALFORMED,
    "InvalidRequest": _MALFORMED,
    "InvalidURI": _MALFORMED,
    "XAmzContentSHA256Mismatch": _MALFORMED,
    501: Row(Unsafe, hint=f"the store does not know such a request; {_LOOK_ALIKE}"),
    # What botocore raises where there is no whole answer.
    "EndpointConnectionError": _NOT_SENT,
    "ConnectTimeoutError": _NOT_SENT,
    "ProxyConnectionError": _NOT_SENT,
    "SSLError": _IN_DOUBT,
    "SSLCertVerificationError": Row(
        Unavailable, hint="the endpoint's certificate is not trusted here"
    ),
    "HTTPClientError": _IN_DOUBT,
    "IncompleteReadError": _IN_DOUBT,
    # What it lets through: urllib3's, http.client's, the system's.
    "HTTPError": _IN_DOUBT,
    "HTTPException": _IN_DOUBT,
    "OSError": _IN_DOUBT,
    "ResponseParserError": Row(Unavailable, again=True, landed=True, hint=_GARBLED),
    "Garbled": Row(Unavailable, again=True, landed=True, hint=_GARBLED),
    # Asked for again, because it may be the way; told twice, it is the object.
    "FlexibleChecksumError": Row(Damaged, again=True),
    "NoCredentialsError": _NO_CREDENTIALS,
    "PartialCredentialsError": _NO_CREDENTIALS,
    "CredentialRetrievalError": _NO_CREDENTIALS,
    "TokenRetrievalError": _NO_CREDENTIALS,
    "NoAuthTokenError": _NO_CREDENTIALS,
    "SSOError": _NO_CREDENTIALS,
    "LoginError": _NO_CREDENTIALS,
    "BotoCoreError": _CONFIGURED_WRONG,  # a profile, a region, a bucket's name
    "ImportError": Row(Unavailable, hint="this store needs boto3: pip install boto3"),
    "Exception": Row(Unavailable, landed=True),
}

_SERVER_ERROR = 500
_QUOTED = 300


@contextmanager
def setbacks(*, sent: bool = True) -> Generator[None]:
    """Turn whatever a client raises into a Setback; `sent` if a request may be out."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        setback = _setback(error)
        setback.landed = setback.landed and sent
        raise setback from error


def time_of(headers: Mapping[str, str]) -> datetime | None:
    """Return the time that an answer's Date header tells, if it tells one."""
    return _time(headers.get("date"))


def row_of(code: str, status: int) -> Row:
    """Return the row of an answer that is no success."""
    unknown = _IN_DOUBT if status > _SERVER_ERROR else _CONFIGURED_WRONG
    return ROWS.get(code) or ROWS.get(status) or unknown


def detail_of(said: str, row: Row) -> str:
    """Return what was said on one line, and the row's hint."""
    line = " ".join(said.split())
    short = line if len(line) <= _QUOTED else f"{line[:_QUOTED]}…"
    return f"{short}; {row.hint}" if row.hint else short


def _setback(error: Exception) -> Setback:
    response: Mapping[str, Any] | None = getattr(error, "response", None)
    if isinstance(response, dict) and "Error" in response:
        return _refusal(response)
    row = _row_of_exception(error)
    return Setback(row, detail_of(f"{type(error).__name__}: {error}", row))


def _refusal(response: Mapping[str, Any]) -> Setback:
    said: Mapping[str, Any] = response["Error"]
    meta: Mapping[str, Any] = response.get("ResponseMetadata", {})
    code, status = str(said.get("Code", "")), int(meta.get("HTTPStatusCode", 0))
    row = row_of(code, status)
    return Setback(
        row,
        detail_of(f"{status} {code}: {said.get('Message', '')}", row),
        wait=_retry_after(meta.get("HTTPHeaders", {})),
        # The client of an application may have repeated the request by itself.
        landed=row.landed or bool(meta.get("RetryAttempts")),
    )


def _row_of_exception(error: Exception) -> Row:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SSLCertVerificationError):
            return ROWS["SSLCertVerificationError"]
        cause = cause.__cause__ or cause.__context__
    names = (above.__name__ for above in type(error).__mro__)
    return next(ROWS[name] for name in names if name in ROWS)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that the answer asks us to wait (RFC 9110, 10.2.3)."""
    told = headers.get("retry-after", "").strip()
    if told.isascii() and told.isdigit():
        return float(told)
    then, now = _time(told), time_of(headers)
    return max(0.0, (then - now).total_seconds()) if then and now else 0.0


def _time(text: str | None) -> datetime | None:
    try:
        told = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    # A zone of "-0000" gives a naive time, and we do not guess.
    return told.astimezone(UTC) if told.utcoffset() is not None else None
