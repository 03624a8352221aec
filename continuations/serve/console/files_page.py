"""The attachments of a run in the console: as downloads, and images within a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.serve.console.page import Page, PageRoute
from continuations.serve.http.file_routes import file_response

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Response
    from continuations.serve.rights import Act


async def download(page: Page) -> Response:
    """Return the bytes of an attachment, for a download."""
    return await _file(page, as_image=False)


async def show_image(page: Page) -> Response:
    """Return the bytes of an image, for a page that shows it."""
    return await _file(page, as_image=True)


async def _file(page: Page, *, as_image: bool) -> Response:
    digest = page.params["digest"]
    return await file_response(
        page.runner, page.run_id, digest, page.query, as_image=as_image
    )


# A file is a part of the transcript.
_RIGHTS: tuple[Act, ...] = ("view", "read")
ROUTES = (
    PageRoute("/runs/{run}/files/{digest}", download, rights=_RIGHTS),
    PageRoute("/runs/{run}/images/{digest}", show_image, rights=_RIGHTS),
)
