"""HTML pages as responses: a page, or a long text on it in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.serve.http.request_response import NO_STORE_HEADERS, Response
from continuations.serve.pages.long_texts import (
    PART_FIELD,
    TEXT_FIELD,
    LongTexts,
    text_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.serve.http.request_response import Request

_NOT_FOUND = 404


def page_query(request: Request) -> Mapping[str, str]:
    """Return the query of a page. Only a GET opens one of its long texts.

    The form of a page posts to the address of the page, with its whole query.
    """
    if request.method in ("GET", "HEAD"):
        return request.query
    opens = (TEXT_FIELD, PART_FIELD)
    return {name: text for name, text in request.query.items() if name not in opens}


def html_response(
    template: str,
    context: Mapping[str, object],
    *,
    status: int = 200,
    headers: Mapping[str, str],
    query: Mapping[str, str] | None,
) -> Response:
    """Return a page, or what its query names: a part of a long text, or its download.

    Args:
        template: The name of the template.
        context: Everything that the template names, with `shell`.
        status: The status code of the page.
        headers: The headers of a page.
        query: The query of the page; `None` if a GET does not make the same page.
    """
    from continuations.serve.pages.environment import render  # noqa: PLC0415 - HTML only

    texts = LongTexts(query)
    body = render(template, texts, **context)
    if texts.wanted is not None:
        return text_response(texts, context["shell"], headers)
    return Response(status=status, headers=headers, body=body)


def text_response(
    texts: LongTexts, shell: object, headers: Mapping[str, str]
) -> Response:
    """Return a part of the text that the query of a page names, or its download.

    Args:
        texts: The long texts of the page, after it was made.
        shell: The frame of the page, or `None`.
        headers: The headers of a page.
    """
    from continuations.serve.pages.environment import render  # noqa: PLC0415 - HTML only

    text = texts.wanted_text
    if text is not None and texts.wants_whole:
        return _download(text)
    part = None if text is None else texts.part(text)
    body = render("text.html", shell=shell, part=part, back=texts.page_address)
    status = 200 if part else _NOT_FOUND
    return Response(status=status, headers=headers, body=body)


def _download(text: str) -> Response:
    """Return a text as a file, which no browser runs as a page of this server."""
    headers = {
        **NO_STORE_HEADERS,
        "content-type": "text/plain; charset=utf-8",
        "content-disposition": 'attachment; filename="text.txt"',
        "content-security-policy": "default-src 'none'; sandbox",
    }
    return Response(status=200, headers=headers, data=text_bytes(text))
