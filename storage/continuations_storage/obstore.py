"""A store in a bucket of S3, Google Cloud Storage or Azure Blob Storage, with obstore.

obstore is written in Rust. Its cold start takes a third of boto3's, and it sends two to
three times as many requests a second. Its limits:

- It does not find profiles or SSO; give it a `credential_provider` of obstore.auth.
- It returns the time of the store only for one key, by one more request.
- It cannot be used in a forked child of a process that used it.
- It sends no max-keys and receives a page of up to 1,000 keys even for one key; S3
  bills this as one request.
- It hides the Retry-After header; a pause after a throttled request is at least 1 s.
- It lists a folder that a console made ("a/") as if it were the key "a".
- It takes any well-formed page for an empty listing, also an error or a login page. So
  an empty listing is asked for again with the keys that follow it.

`continuations_storage.retries` implements creates, retries and lost replies. obstore
returns the response of a server as text, and calls 409 and 412 alike "already exists".
So the status and the code are read from the text.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from continuations_storage import retries
from continuations_storage.contract import PAGE_SIZE
from continuations_storage.endpoints import (
    check_endpoint,
    describe_place,
    endpoint_of_environment,
)
from continuations_storage.errors import (
    AlreadyExists,
    Denied,
    NotFound,
    StorageError,
    Throttled,
    Unavailable,
    Unsafe,
)
from continuations_storage.fork_safety import PerProcess, SingleProcessGuard
from continuations_storage.keys import check_key, check_limit, check_prefix, is_key
from continuations_storage.probe import PROBE_PASSED_KEY, ProofOfVersions
from continuations_storage.retries import (
    AttemptFailed,
    ErrorRule,
    RetryPolicy,
    StoredObjectInfo,
    located_errors,
)
from continuations_storage.s3errors import MALFORMED_REPLY, format_detail, rule_for
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from datetime import datetime

__all__ = [
    "THROTTLED_SECONDS",
    "Listing",
    "ObjectStore",
    "ObstoreClient",
    "check_s3_credentials",
    "classified_errors",
    "folder_of",
    "list_keys",
]


# The characters of a segment in byte order.
_ALPHABET = "".join(
    filter(re.compile(r"[A-Za-z0-9._@=~-]").match, map(chr, range(128)))
)


class ObstoreClient(Protocol):
    """The part of obstore's stores that is used here."""

    put: Callable[..., Any]
    get: Callable[..., Any]
    head: Callable[..., Any]
    delete: Callable[..., Any]
    list: Callable[..., Iterator[Sequence[Mapping[str, Any]]]]


@dataclass(slots=True, kw_only=True)
class Listing:
    """The keys of a listing; `last` and `number_of_names` count other names too.

    A listing that ends after a multiple of whole pages may lack its last page: obstore
    takes a page that is not of a store for an empty one.
    """

    keys: list[str] = field(default_factory=list[str])
    last: str = ""
    number_of_names: int = 0
    may_end_too_early: bool = False


def folder_of(key: str) -> str:
    """Return the folder of a key with a slash at the end, or "" for the root.

    The folder of a folder is its parent.
    """
    return key[: key.rstrip("/").rfind("/") + 1]


def list_keys(
    client: ObstoreClient, folder: str, prefix: str, after: str, limit: int
) -> Listing:
    """List the first keys of a prefix.

    Args:
        client: The store of obstore.
        folder: The folder that the server lists; the prefix begins with it.
        prefix: The beginning of the keys.
        after: Return only keys that are greater than this text.
        limit: The number of keys, at least 1.

    Raises:
        Unsafe: The names are not in order.
    """
    offset = max(after, _listing_offset(prefix))
    listed = Listing()
    # obstore takes a prefix of whole segments; the rest is filtered here.
    for chunk in client.list(
        folder.rstrip("/") or None, offset=offset or None, chunk_size=PAGE_SIZE
    ):
        for item in chunk:
            name = item["path"]
            if listed.number_of_names and name <= listed.last:
                raise Unsafe(None, f"listed {name!r} after {listed.last!r}")
            listed.last = name
            listed.number_of_names += 1
            if name > after and name.startswith(prefix) and is_key(name):
                listed.keys.append(name)
            if len(listed.keys) == limit:
                return listed
        if listed.last > prefix and not listed.last.startswith(prefix):
            return listed
    listed.may_end_too_early = listed.number_of_names % PAGE_SIZE == 0
    return listed


def _listing_offset(prefix: str) -> str:
    """Return a text that sorts before the keys of a prefix, but after most others."""
    if not prefix or prefix.endswith("/"):
        return prefix.removesuffix("/")
    rest, place = prefix[:-1], _ALPHABET.index(prefix[-1])
    return f"{rest}{_ALPHABET[place - 1]}~~~" if place else rest.rstrip("/")


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


T = TypeVar("T")

_MAKER = "maker"

# Not obstore's own coroutines: their threads may still run when the interpreter exits,
# and one process in twelve then aborted (seen with obstore 0.12.1).
_threads = DaemonThreadPool(32, "continuations-obstore")

# All stores share one thread runtime, which would hang in a forked child.
_process_guard = SingleProcessGuard(
    "obstore", "use obstore only after the fork, or use driver='boto3'"
)


class ObjectStore:
    """A store that keeps each body as an object of a bucket or container.

    Loops and threads of one process may share it. The constructor neither uses the
    network nor imports obstore.

    Args:
        url: ``s3://BUCKET/PREFIX``, ``gs://BUCKET/PREFIX``,
            ``az://CONTAINER/PREFIX``, or another URL of ``obstore.store.from_url``.
        endpoint: The URL of the server. By default, the environment decides:
            AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, GOOGLE_BASE_URL,
            AZURE_STORAGE_ENDPOINT or AZURE_ENDPOINT. A URL with ``http:`` allows
            requests without TLS.
        timeout: Seconds until a request counts as lost.
        retry_policy: How often to retry; by default 8 attempts in 30 seconds.
        **configuration: Passed to ``obstore.store.from_url``, for example
            ``account_name`` or ``credential_provider``. By default, obstore reads
            the environment.

    Attributes:
        time_resolution: One second: the servers tell their time in whole seconds.

    Raises:
        ValueError: The endpoint contains a user name or password.
    """

    time_resolution = timedelta(seconds=1)  # of the Last-Modified header

    def __init__(
        self,
        url: str,
        *,
        endpoint: str | None = None,
        timeout: float = 15.0,
        retry_policy: RetryPolicy | None = None,
        **configuration: Any,
    ) -> None:
        check_endpoint(endpoint)
        self._url = url.partition("?")[0]
        self._scheme = url.partition(":")[0]
        self._retry_policy = retry_policy or RetryPolicy()
        self._client = PerProcess(
            partial(_create_client, url, endpoint, timeout, configuration)
        )

        self._endpoint = endpoint
        self._proof = ProofOfVersions(self)

    @property
    def place(self) -> str:
        """The bucket, the prefix and the endpoint, as errors name them."""
        endpoint = self._endpoint or endpoint_of_environment(self._scheme)
        return describe_place(self._url, endpoint)

    def __repr__(self) -> str:
        return f"<ObjectStore {self.place}>"

    async def create(self, key: str, body: bytes) -> None:
        """Put the body if the key is absent; one request unless something fails.

        Args:
            key: A valid key.
            body: The bytes.

        Returns:
            None: obstore does not return the time of the reply; see `created_at`.

        Raises:
            StorageError: As `Store.create` states.
        """
        with located_errors("create", self.place):
            created = await self.create_unchecked(key, body)
            await self._proof.check(key, created)

    async def created_at(self, key: str) -> datetime:
        """Return the store's time of the create of a key; costs one request.

        Args:
            key: A valid key.

        Returns:
            The time (aware, UTC), to the second.

        Raises:
            Unsafe: The server tells no time.
            StorageError: The key does not exist, or as `Store.read` states.
        """
        check_key(key)
        with located_errors("read", self.place):
            return await self._retry(key, lambda: self._modified_at(key))

    async def create_unchecked(self, key: str, body: bytes) -> StoredObjectInfo:
        """Put the body if the key is absent; see `ProofOfVersions`.

        Args:
            key: A valid key.
            body: The bytes.

        Returns:
            The stored object, perhaps with a version id.

        Raises:
            StorageError: As `Store.create` states.
        """
        check_key(key)
        maker_id = os.urandom(16).hex()
        return await retries.create_with_retries(
            self._retry_policy,
            key,
            maker_id,
            put=lambda: _threads.run(self._put, key, body, maker_id),
            head=lambda: _threads.run(self._head, key),
        )

    async def read(self, key: str) -> bytes:
        """Return the whole body.

        Raises:
            NotFound: The key does not exist.
            Denied: Access is denied. S3 also answers so about a missing key if the
                process may not list the bucket.
            StorageError: As `Store.read` states.
        """
        check_key(key)
        with located_errors("read", self.place):
            return await self._retry(key, lambda: self._get(key))

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys of a prefix, in byte order; see `Store.keys`.

        S3 and Google answer with one request for up to 1,000 keys. An empty listing
        costs one request more, or three if no other key follows it.
        """
        check_prefix(prefix)
        check_limit(limit)
        with located_errors("list", self.place):
            folder = prefix[: prefix.rfind("/") + 1]
            listed = await self._list_with_retries(folder, prefix, after, limit)
            keys = listed.keys
            # With the keys of the parent folder, an empty page is rare. But Azure can
            # only list a folder from its beginning.
            wider = folder if self._scheme == "az" else folder_of(folder)
            while listed.may_end_too_early:
                after = max(after, listed.last)
                listed = await self._list_with_retries(
                    wider, prefix, after, limit - len(keys)
                )
                keys += listed.keys
                if not listed.number_of_names:
                    await self._check_listing_works(prefix)
                    break
        return keys

    async def delete(self, key: str) -> None:
        """Remove the key; to delete a missing key is a success."""
        check_key(key)
        with suppress(NotFound), located_errors("delete", self.place):
            await self._retry(key, lambda: self._remove(key))

    async def probe(self) -> None:
        """Prove that the store honours put-if-absent, or raise Unsafe."""
        with located_errors("create", self.place):
            await self._proof.prove_once()

    async def _list_with_retries(
        self, folder: str, prefix: str, after: str, limit: int
    ) -> Listing:
        return await self._retry(
            prefix or None, lambda: self._list(folder, prefix, after, limit)
        )

    async def _check_listing_works(self, prefix: str) -> None:
        """Raise `Unavailable` if a key that exists is not listed either."""
        known = folder_of(PROBE_PASSED_KEY)
        listed = await self._list_with_retries(known, known, "", 1)
        if listed.number_of_names:
            return
        with suppress(NotFound):
            await self.read(PROBE_PASSED_KEY)
            detail = f"{PROBE_PASSED_KEY} exists but is not listed: {MALFORMED_REPLY}"
            raise Unavailable(prefix or None, detail)

    async def _retry(self, key: str | None, attempt: Callable[[], T]) -> T:
        return await retries.retry(
            self._retry_policy, key, lambda: _threads.run(attempt)
        )

    def _client_of_process(self) -> ObstoreClient:
        _process_guard.check_process()
        try:
            with classified_errors(self._scheme, request_sent=False):
                return self._client()
        except AttemptFailed as failure:
            # No request was sent, so a retry would fail in the same way.
            failure.rule = replace(failure.rule, retry=False)
            raise

    def _put(self, key: str, body: bytes, maker_id: str) -> StoredObjectInfo:
        client = self._client_of_process()
        with classified_errors(self._scheme):
            response = client.put(
                key,
                body,
                mode="create",
                attributes={_MAKER: maker_id},
                use_multipart=False,  # multipart is not one conditional request
            )
            return self._describe(response, maker_id)

    def _head(self, key: str) -> StoredObjectInfo:
        client = self._client_of_process()
        with classified_errors(self._scheme):
            response = client.get(key, options={"head": True})
            return self._describe(response.meta, response.attributes.get(_MAKER))

    def _describe(
        self, meta: Mapping[str, Any], maker_id: str | None
    ) -> StoredObjectInfo:
        # Google gives every object a generation, which says nothing about versions.
        version_id = None if self._scheme == "gs" else meta["version"]
        return StoredObjectInfo(
            maker_id=maker_id, store_time=None, version_id=version_id
        )

    def _modified_at(self, key: str) -> datetime:
        client = self._client_of_process()
        with classified_errors(self._scheme):
            modified: datetime = client.head(key)["last_modified"]
        if not modified.timestamp():
            # Without a Last-Modified header, obstore makes up a time of 1970.
            detail = "its replies have no Last-Modified, so clocks cannot be compared"
            raise Unsafe(key, detail, advice="Use driver='boto3', or another server.")
        return modified

    def _get(self, key: str) -> bytes:
        client = self._client_of_process()
        with classified_errors(self._scheme):
            response = client.get(key)
            body = bytes(response.bytes())
            size, tag = response.meta["size"], response.meta["e_tag"]
        if len(body) != size or not tag:
            detail = f"received {len(body)} of {size} bytes, with the ETag {tag}"
            raise AttemptFailed(rule_for("MalformedResponse", 200), detail)
        return body

    def _list(self, folder: str, prefix: str, after: str, limit: int) -> Listing:
        client = self._client_of_process()
        with classified_errors(self._scheme):
            return list_keys(client, folder, prefix, after, limit)

    def _remove(self, key: str) -> None:
        client = self._client_of_process()
        with classified_errors(self._scheme):
            client.delete(key)


def _create_client(
    url: str,
    endpoint: str | None,
    timeout: float,
    configuration: Mapping[str, Any],
) -> ObstoreClient:
    from obstore.store import from_url  # noqa: PLC0415 -- cold start

    scheme = url.partition(":")[0]
    # obstore also reads these variables, but would then refuse one without TLS.
    endpoint = endpoint or endpoint_of_environment(scheme)
    check_endpoint(endpoint)
    options = dict(configuration)
    if scheme == "s3":
        options.setdefault("disable_bulk_delete", True)
        _refuse_two_endpoints(endpoint)
        check_s3_credentials(configuration)
    options["base_url" if scheme == "gs" else "endpoint"] = endpoint
    client = from_url(
        url,
        # obstore would repeat a create and take its own first write for another's.
        retry_config={"max_retries": 0},
        client_options={
            "timeout": timedelta(seconds=timeout),
            "connect_timeout": timedelta(seconds=min(5.0, timeout)),
            "allow_http": (endpoint or "").startswith("http:"),
        },
        **{name: value for name, value in options.items() if value is not None},
    )
    return cast("ObstoreClient", client)


def _refuse_two_endpoints(endpoint: str | None) -> None:
    # obstore prefers this variable to its own option.
    variable = os.environ.get("AWS_ENDPOINT_URL_S3")
    if variable and variable != endpoint:
        raise ValueError(
            "AWS_ENDPOINT_URL_S3 is another endpoint than endpoint=, and obstore would "
            "use the variable; unset it, or use driver='boto3'"
        )
