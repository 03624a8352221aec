"""A small Google Cloud Storage, as far as obstore uses its XML API.

It is written from Google's documentation, because Google has no emulator. So it proves
what obstore sends and what our store makes of the replies, not how Google answers.

https://cloud.google.com/storage/docs/xml-api/reference-headers
"""

from __future__ import annotations

from hashlib import md5
from xml.sax.saxutils import escape

from tests.storage.s3_proxy import FakeS3, Reply, Request, error_response

__all__ = ["FakeGcs"]


class FakeGcs(FakeS3):
    """One bucket of any name, behind an `S3Proxy`."""

    def _put(self, request: Request) -> Reply:
        # "0" means: only if the object does not exist.
        expected = request.headers.get("x-goog-if-generation-match")
        if expected == "0" and request.key in self.bodies:
            return error_response(412, "PreconditionFailed").reply(Reply())
        self.bodies[request.key] = request.body
        self.metadata[request.key] = {
            name: value
            for name, value in request.headers.items()
            if name.startswith("x-goog-meta-")
        } | {"Last-Modified": self._date()}
        return Reply(headers=_object_headers(request.body))

    def _get(self, key: str) -> Reply:
        if key not in self.bodies:
            return error_response(404, "NoSuchKey").reply(Reply())
        body = self.bodies[key]
        headers = {
            **_object_headers(body),
            "Last-Modified": self._date(),
            **self.metadata[key],
        }
        return Reply(headers=headers, body=body)

    def _list(self, request: Request) -> Reply:
        max_keys = int(request.query_parameter("max-keys", "1000"))
        prefix = request.query_parameter("prefix")
        after = request.query_parameter("continuation-token")
        after = after or request.query_parameter("start-after")
        names = [
            name
            for name in sorted(self.bodies)
            if name.startswith(prefix) and name > after
        ]
        listed = names[:max_keys]
        text = "".join(_list_entry(name, self.bodies[name]) for name in listed)
        if len(names) > max_keys:
            token = escape(listed[-1])
            text += f"<NextContinuationToken>{token}</NextContinuationToken>"
        truncated = str(len(names) > max_keys).lower()
        text += f"<IsTruncated>{truncated}</IsTruncated>"
        return Reply(body=f"<ListBucketResult>{text}</ListBucketResult>".encode())


def _object_headers(body: bytes) -> dict[str, str]:
    return {"ETag": _etag(body), "X-Goog-Generation": "1"}


def _list_entry(name: str, body: bytes) -> str:
    facts = f"<Key>{escape(name)}</Key><Size>{len(body)}</Size>"
    modified = "<LastModified>2026-11-21T12:00:00.000Z</LastModified>"
    return f"<Contents>{facts}{modified}<ETag>{_etag(body)}</ETag></Contents>"


def _etag(body: bytes) -> str:
    return f'"{md5(body).hexdigest()}"'  # noqa: S324 -- as Google does
