"""The errors of S3 and of the connection, as errors of the contract: one table.

A row is found by the error code in the reply, else by the HTTP status, else by the name
of the exception, so this module does not import boto3. A row is an `ErrorRule`.

Codes: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
412 and 409: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC
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
    "MALFORMED_REPLY",
    "classified_errors",
    "format_detail",
    "response_time",
    "rule_for",
]

_BUCKET = "create the bucket, or fix its name"
_CREDENTIALS = "no usable credentials; set a profile, a role or AWS_ACCESS_KEY_ID"
_EXPIRED = "the credentials have expired or are not valid; get new ones"
_RIGHTS = (
    "create needs s3:PutObject, read s3:GetObject, delete s3:DeleteObject and list "
    "s3:ListBucket; without the last one S3 answers so for a missing key"
)
_WRONG_KEY_ID = (
    "the access key id is not known there; check AWS_ACCESS_KEY_ID, endpoint"
)
_WRONG_SIGNATURE = (
    "AWS_SECRET_ACCESS_KEY does not belong to AWS_ACCESS_KEY_ID, or a proxy changed "
    "the request"
)
_CLOCK = "this machine's clock is wrong; set it"
_REGION = "the bucket is in another region or at another endpoint; pass region="
_SIZE = "the body is larger than the server accepts in one request"
_COMPATIBLE_SERVER_HINT = (
    "for a server that is not AWS, try checksums='when_required', path_style=True"
)
MALFORMED_REPLY = "the reply is not one of S3; check endpoint= and any proxy"

_TAKEN = ErrorRule(AlreadyExists)
_SLOW_DOWN = ErrorRule(Throttled, retry=True)
_NOT_SENT = ErrorRule(Unavailable, retry=True)
_CONFLICT = ErrorRule(Unavailable, retry=True, is_conflict=True)
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
    # Another write or delete of the key was in progress: ask again.
    "ConditionalRequestConflict": _CONFLICT,
    "OperationAborted": _CONFLICT,
    409: _CONFLICT,
    # About the bucket. Not NotFound, which would mean that a run does not exist. Not
    # Denied, because the settings must be fixed and not the permissions.
    "NoSuchBucket": ErrorRule(Unavailable, hint=_BUCKET),
    "PermanentRedirect": _WRONG_ENDPOINT,
    "AuthorizationHeaderMalformed": _WRONG_ENDPOINT,
    "IllegalLocationConstraintException": _WRONG_ENDPOINT,
    "IncorrectEndpoint": _WRONG_ENDPOINT,
    301: _WRONG_ENDPOINT,
    302: _WRONG_ENDPOINT,
    # botocore looks up the region of the bucket and follows redirects without a limit.
    "RecursionError": _WRONG_ENDPOINT,
    # A new bucket redirects until its name is known everywhere.
    "TemporaryRedirect": _NOT_SENT,
    307: _NOT_SENT,
    # About the credentials.
    "ExpiredToken": ErrorRule(Denied, hint=_EXPIRED),
    "InvalidToken": ErrorRule(Denied, hint=_EXPIRED),
    "TokenRefreshRequired": ErrorRule(Denied, hint=_EXPIRED),
    "ExpiredTokenException": ErrorRule(Denied, hint=_EXPIRED),
    "InvalidAccessKeyId": ErrorRule(Denied, hint=_WRONG_KEY_ID),
    "SignatureDoesNotMatch": ErrorRule(Denied, hint=_WRONG_SIGNATURE),
    "RequestTimeTooSkewed": ErrorRule(Unavailable, hint=_CLOCK),
    "RequestExpired": ErrorRule(Unavailable, hint=_CLOCK),
    "InvalidObjectState": ErrorRule(
        Unavailable, hint="a lifecycle rule archived the object; restore it first"
    ),
    401: _NOT_PERMITTED,
    403: _NOT_PERMITTED,
    # Too many or too large requests.
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
    # A proxy without a code of S3: it gave up waiting, or refused early data of TLS.
    408: _MAYBE_STORED,
    425: _NOT_SENT,
    # Damaged in transit: S3 checks length and checksum before it stores anything.
    "BadDigest": _NOT_SENT,
    "IncompleteBody": _NOT_SENT,
    "XAmzContentChecksumMismatch": _NOT_SENT,
    # 500 may follow a write that was stored; 503 may come from a load balancer.
    "RequestTimeout": _MAYBE_STORED,
    500: _MAYBE_STORED,
    502: _MAYBE_STORED,
    503: _MAYBE_STORED,
    504: _MAYBE_STORED,
    # Not supported by the server.
    "InvalidArgument": _MALFORMED,
    "InvalidRequest": _MALFORMED,
    "InvalidURI": _MALFORMED,
    "XAmzContentSHA256Mismatch": _MALFORMED,
    501: ErrorRule(
        Unsafe,
        hint=f"the server does not support this request; {_COMPATIBLE_SERVER_HINT}",
    ),
    # Exceptions of botocore without a complete reply.
    "EndpointConnectionError": _NOT_SENT,
    "ConnectTimeoutError": _NOT_SENT,
    "ProxyConnectionError": _NOT_SENT,
    "SSLError": _MAYBE_STORED,
    "SSLCertVerificationError": ErrorRule(
        Unavailable, hint="the certificate of the endpoint is not trusted"
    ),
    "HTTPClientError": _MAYBE_STORED,
    "IncompleteReadError": _MAYBE_STORED,
    # Exceptions of urllib3, http.client and the system.
    "HTTPError": _MAYBE_STORED,
    "HTTPException": _MAYBE_STORED,
    "OSError": _MAYBE_STORED,
    "ResponseParserError": ErrorRule(
        Unavailable, retry=True, may_be_stored=True, hint=MALFORMED_REPLY
    ),
    "MalformedResponse": ErrorRule(
        Unavailable, retry=True, may_be_stored=True, hint=MALFORMED_REPLY
    ),
    # The first time it may be the connection, the second time it is the object.
    "FlexibleChecksumError": ErrorRule(Damaged, retry=True),
    "NoCredentialsError": _NO_CREDENTIALS,
    "PartialCredentialsError": _NO_CREDENTIALS,
    "CredentialRetrievalError": _NO_CREDENTIALS,
    "TokenRetrievalError": _NO_CREDENTIALS,
    "NoAuthTokenError": _NO_CREDENTIALS,
    "SSOError": _NO_CREDENTIALS,
    "LoginError": _NO_CREDENTIALS,
    "NoRegionError": ErrorRule(Unavailable, hint="pass region= or set AWS_REGION"),
    "BotoCoreError": _MISCONFIGURED,  # profile, region or bucket name
    "ImportError": ErrorRule(Unavailable, hint="run pip install boto3"),
    "Exception": ErrorRule(Unavailable, may_be_stored=True),
}

_SERVER_ERROR = 500
_MAX_MESSAGE_LENGTH = 300


@contextmanager
def classified_errors(*, request_sent: bool = True) -> Generator[None]:
    """Turn every error of a client into `AttemptFailed`.

    Args:
        request_sent: False if no request was sent, so nothing can be stored.
    """
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        failure = _classify_error(error)
        failure.may_be_stored = failure.may_be_stored and request_sent
        raise failure from error


def response_time(headers: Mapping[str, str]) -> datetime | None:
    """Return the time of the Date header, or None."""
    return _parse_http_date(headers.get("date"))


def rule_for(code: str, status: int) -> ErrorRule:
    """Return the row of a reply with an error status."""
    unknown = _MAYBE_STORED if status > _SERVER_ERROR else _MISCONFIGURED
    return ERROR_RULES.get(code) or ERROR_RULES.get(status) or unknown


def format_detail(message: str, rule: ErrorRule) -> str:
    """Return the message on one line, with the hint of the row."""
    line = " ".join(message.split())
    short = (
        line if len(line) <= _MAX_MESSAGE_LENGTH else f"{line[:_MAX_MESSAGE_LENGTH]}…"
    )
    return f"{short}; {rule.hint}" if rule.hint else short


def _classify_error(error: Exception) -> AttemptFailed:
    response: Mapping[str, Any] | None = getattr(error, "response", None)
    if isinstance(response, dict) and "Error" in response:
        return _classify_response(response)
    rule = _rule_for_exception(error)
    return AttemptFailed(rule, format_detail(f"{type(error).__name__}: {error}", rule))


def _classify_response(response: Mapping[str, Any]) -> AttemptFailed:
    error: Mapping[str, Any] = response["Error"]
    meta: Mapping[str, Any] = response.get("ResponseMetadata", {})
    code, status = str(error.get("Code", "")), int(meta.get("HTTPStatusCode", 0))
    rule = rule_for(code, status)
    return AttemptFailed(
        rule,
        format_detail(f"{status} {code}: {error.get('Message', '')}", rule),
        retry_after=_retry_after(meta.get("HTTPHeaders", {})),
        # A client of the application may have retried by itself.
        may_be_stored=rule.may_be_stored or bool(meta.get("RetryAttempts")),
    )


def _rule_for_exception(error: Exception) -> ErrorRule:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SSLCertVerificationError):
            return ERROR_RULES["SSLCertVerificationError"]
        cause = cause.__cause__ or cause.__context__
    names = (base.__name__ for base in type(error).__mro__)
    return next(ERROR_RULES[name] for name in names if name in ERROR_RULES)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds of the Retry-After header (RFC 9110, 10.2.3)."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    then, now = _parse_http_date(value), response_time(headers)
    return max(0.0, (then - now).total_seconds()) if then and now else 0.0


def _parse_http_date(text: str | None) -> datetime | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 -- cold start with obstore

    try:
        time = parsedate_to_datetime(text or "")
        # The zone "-0000" gives a naive time, which is not used.
        return time.astimezone(UTC) if time.utcoffset() is not None else None
    except (ValueError, OverflowError):
        return None
