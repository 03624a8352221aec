"""The errors of obstore, as errors of the store contract.

obstore returns the response of a server as text and calls 409 and 412 alike "already
exists", so the status and the code are read from the text. Codes that are not in the
table of `continuations_storage.s3errors` have their own rules here.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from continuations_storage.errors import (
    AlreadyExists,
    Denied,
    NotFound,
    StorageError,
    Throttled,
    Unavailable,
)
from continuations_storage.retries import AttemptFailed, ErrorRule
from continuations_storage.s3errors import format_detail, rule_for

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

__all__ = ["THROTTLED_SECONDS", "check_s3_credentials", "classified_errors"]

_ERROR_RULES: Mapping[str, ErrorRule] = {
    # Codes of Google and Azure.
    "BlobAlreadyExists": ErrorRule(AlreadyExists),
    "BlobNotFound": ErrorRule(NotFound),
    "NoSuchBucket": ErrorRule(Unavailable, hint="create the bucket, or fix its name"),
    "ContainerNotFound": ErrorRule(
        Unavailable, hint="create the container, or fix its name"
    ),
    "ServerBusy": ErrorRule(Throttled, retry=True),
    # Exceptions of obstore.
    "AlreadyExistsError": ErrorRule(AlreadyExists, may_be_stored=True),
    "PermissionDeniedError": ErrorRule(Denied),
    "UnauthenticatedError": ErrorRule(Denied),
    "MissingCredentials": ErrorRule(Denied),
    "ImportError": ErrorRule(Unavailable, hint="run pip install 'obstore>=0.12'"),
    "ValueError": ErrorRule(Unavailable),
    "UnknownConfigurationKeyError": ErrorRule(Unavailable),
    "Exception": ErrorRule(Unavailable, retry=True, may_be_stored=True),
}
_CREDENTIAL_HINTS = {
    "s3": "no usable credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "give the machine a role, or pass credential_provider=",
    "gs": "no usable credentials; set GOOGLE_APPLICATION_CREDENTIALS, or give the "
    "machine a service account",
    "az": "no usable credentials; set AZURE_STORAGE_ACCOUNT_KEY or "
    "AZURE_STORAGE_SAS_TOKEN, or give the machine an identity",
}
# The hints of s3errors name permissions and options of S3, so others get their own.
_DENIED_HINTS = {
    "gs": "needs storage.objects.create, .get, .list and .delete on the bucket",
    "az": "needs the role Storage Blob Data Contributor, or a key or SAS token",
}
_NOT_SENT = ErrorRule(Unavailable, retry=True)

# obstore hides the Retry-After header, so each pause after a throttled request is at
# least this long, in seconds.
THROTTLED_SECONDS = 1.0

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<\n]+)")
_NO_CONNECTION = re.compile(r"ConnectError|dns error")
_CREDENTIAL_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_SKIP_SIGNATURE",
    "AWS_METADATA_ENDPOINT",
)
_CREDENTIAL_OPTIONS = frozenset(
    name
    for option in (
        "access_key_id",
        "container_credentials_relative_uri",
        "container_credentials_full_uri",
        "web_identity_token_file",
        "skip_signature",
        "metadata_endpoint",
    )
    for name in (option, f"aws_{option}")
) | {"credential_provider"}
# A request for credentials failed, or a file with them: nothing was sent to the store.
_NO_CREDENTIALS = re.compile(
    r"Error performing token request|/latest/(api/token|meta-data)|169\.254\.170\.2/"
    r"|Missing (AccessKeyId|SecretAccessKey)|(token|service account) file"
)
_SAS_SIGNATURE = re.compile(r"sig=[^&\s]+")
_NO_BLOB = "The specified blob does not exist. (code: 404)"  # Azure: delete
_REDIRECT = "Received redirect without LOCATION"
_NO_ACCOUNT = "Account must be specified"


def check_s3_credentials(configuration: Mapping[str, object]) -> None:
    """Raise `AttemptFailed` if obstore would ask a metadata service that is disabled.

    obstore does not know AWS_EC2_METADATA_DISABLED. Where no such service is, its
    request would only end by the timeout.

    Args:
        configuration: The options for obstore.
    """
    is_disabled = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    if not is_disabled or configuration.keys() & _CREDENTIAL_OPTIONS:
        return
    if not any(map(os.environ.get, _CREDENTIAL_VARIABLES)):
        rule = ErrorRule(Denied, hint=_CREDENTIAL_HINTS["s3"])
        detail = "AWS_EC2_METADATA_DISABLED is true"
        raise AttemptFailed(rule, format_detail(detail, rule))


@contextmanager
def classified_errors(
    scheme: str = "s3", *, request_sent: bool = True
) -> Generator[None]:
    """Turn every error into `AttemptFailed`."""
    try:
        yield
    except (StorageError, AttemptFailed):
        raise
    except Exception as error:  # noqa: BLE001 -- all are classified
        failure = _classify_error(error, scheme)
        failure.may_be_stored = failure.may_be_stored and request_sent
        # Not "from error": its long text may contain a token of Azure.
        raise failure from None


def _classify_error(error: Exception, scheme: str) -> AttemptFailed:
    full_text = str(error)
    # The "Debug source" part repeats the rest in the form of Rust.
    text = _SAS_SIGNATURE.sub("sig=…", full_text.partition("\n\nDebug source:")[0])
    status, code, message = (
        match[1] if match else ""
        for match in (each.search(text) for each in (_STATUS, _CODE, _MESSAGE))
    )
    if _NO_CREDENTIALS.search(text):
        rule = replace(
            _ERROR_RULES["MissingCredentials"],
            # A service that fails may have credentials a moment later.
            retry=status.startswith("5"),
            hint=_CREDENTIAL_HINTS.get(scheme, ""),
        )
        return AttemptFailed(rule, format_detail(text, rule))
    if status:
        rule = _rule_for_response(code, int(status), scheme)
        summary = f"{status} {code}: {message}" if code else f"status {status}"
        wait = THROTTLED_SECONDS if rule.error is Throttled else 0.0
        return AttemptFailed(rule, format_detail(summary, rule), retry_after=wait)
    if _NO_BLOB in text:
        rule = _ERROR_RULES["BlobNotFound"]
    elif _REDIRECT in text:
        rule = rule_for("PermanentRedirect", 301)
    elif _NO_CONNECTION.search(full_text):
        rule = _NOT_SENT
    elif _NO_ACCOUNT in text:
        rule = ErrorRule(
            Unavailable, hint="pass account= or set AZURE_STORAGE_ACCOUNT_NAME"
        )
    else:
        rule = _rule_for_exception(error)
    return AttemptFailed(rule, format_detail(f"{type(error).__name__}: {text}", rule))


def _rule_for_response(code: str, status: int, scheme: str) -> ErrorRule:
    rule = _ERROR_RULES.get(code)
    if rule is not None:
        return rule
    rule = rule_for(code, status)
    if scheme == "s3":
        return rule
    hint = _DENIED_HINTS.get(scheme, "") if rule.error is Denied else ""
    return replace(rule, hint=hint)


def _rule_for_exception(error: Exception) -> ErrorRule:
    names = (base.__name__ for base in type(error).__mro__)
    return next(_ERROR_RULES[name] for name in names if name in _ERROR_RULES)
