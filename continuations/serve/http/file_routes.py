"""The attachments of a run over HTTP: their bytes, for a download.

A browser must never run them as a page of this server. Every sender of a message
chooses the media type and the name, so both are untrusted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from continuations.core.attachment_parts import RASTER_TYPES, is_digest
from continuations.core.rows.attachments import references_of_run
from continuations.errors import Corrupt
from continuations.ledger import layout
from continuations.ledger.objects import NotFound, Objects
from continuations.ledger.repair.run_files import RunFiles
from continuations.ledger.versions import Versions
from continuations.serve.http import problems
from continuations.serve.http.request_response import Response
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.rows.state import RunState
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.serve.http.request_context import RequestContext
    from continuations.wire.arrivals import StoredFile

OTHER_MEDIA_TYPE = "application/octet-stream"
# Types without scripts that a browser runs as part of this server.
SAFE_MEDIA_TYPES = frozenset(
    {
        *RASTER_TYPES,
        *("audio/mpeg", "audio/wav", "audio/ogg", "audio/flac"),
        *("application/pdf", "text/plain"),
    }
)
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._ -]")


async def download(context: RequestContext) -> Response:
    """Return the bytes of an attachment."""
    params, query = context.path_params, context.request.query
    run_id = layout.check_run_id(params["run_id"])
    return await file_response(context.runner, run_id, params["digest"], query)


async def file_response(
    runner: AsyncRunner,
    run_id: str,
    digest: str,
    query: Mapping[str, str],
    *,
    as_image: bool = False,
) -> Response:
    """Return the bytes of an attachment.

    Several messages may name the same bytes differently. The query says which name and
    media type the sender means. Only those of a message of the run are used: a link
    cannot give another name to a file.

    Args:
        runner: The runner of the run.
        run_id: Id of the run.
        digest: Digest of the attachment.
        query: `name` and `media_type` of the attachment in a message. Without them, the
            response has those that came with the bytes first.
        as_image: Let a page show the bytes. Only images without scripts are returned.

    Returns:
        The response.

    Raises:
        RequestRefused: The run has no such attachment.
        ContinuationsError: The run or the attachment cannot be read.
    """
    objects = Objects(runner.store)
    # It tells an erased run from one that never existed.
    state = (await Versions(objects, run_id).load_newest()).state
    stored = await _stored(RunFiles.of(objects, state.run), digest)
    if stored is not None and not query.keys().isdisjoint(("name", "media_type")):
        stored = _as_named(stored, digest, state, query)
    if stored is None or (as_image and stored.media_type not in RASTER_TYPES):
        raise problems.no_such_file()
    if stored.run_id != run_id:
        msg = (
            f"An attachment of run {run_id} is damaged: it belongs to another run. It "
            "was not changed. Restore it from a backup."
        )
        raise Corrupt(msg, run_id=run_id)
    headers = download_headers(stored, digest)
    if as_image:
        headers["content-disposition"] = "inline"
    return Response(status=200, headers=headers, data=stored.data)


def download_headers(stored: StoredFile, digest: str) -> dict[str, str]:
    """Return the headers with which a browser saves an attachment and runs nothing."""
    media_type = stored.media_type
    name = stored.name or digest.removeprefix("sha256:")[:16]
    # RFC 6266: old clients read the first name, others the second one.
    plain, encoded = _NOT_PLAIN.sub("_", name), quote(name, safe="")
    return {
        "content-type": media_type
        if media_type in SAFE_MEDIA_TYPES
        else OTHER_MEDIA_TYPE,
        "content-disposition": (
            f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"
        ),
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        # A browser asks again each time: the run may be erased.
        "cache-control": "private, no-cache",
    }


def _as_named(
    stored: StoredFile, digest: str, state: RunState, query: Mapping[str, str]
) -> StoredFile:
    """Return an attachment with the name and media type of a message of the run."""
    meant = query.get("name"), query.get("media_type", stored.media_type)
    for each in references_of_run(state):
        if each.digest == digest and (each.name, each.media_type) == meant:
            return replace(stored, name=each.name, media_type=each.media_type)
    return stored


async def _stored(files: RunFiles, digest: str) -> StoredFile | None:
    if not is_digest(digest):
        return None
    try:
        return await files.stored(digest)
    except NotFound:  # erased between the listing and the read
        return None
