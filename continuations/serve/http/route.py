"""One route of the HTTP API: a path and one handler for each method."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from continuations.serve.http.request_context import RequestContext
from continuations.serve.http.request_response import Response
from continuations.value_class import dataclass

RouteHandler: TypeAlias = Callable[[RequestContext], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One path and its handlers.

    Attributes:
        path: The path, with parameters as `{name}`; a parameter is one path segment.
        handlers: The handler of each method.
        is_public: The route needs no identity.
        is_html_page: Errors are pages, not problem details.
        works_without_folder: The methods that also work if the folder of a `file:`
            store does not exist: they read no store, or may be the first to write.
    """

    path: str
    handlers: Mapping[str, RouteHandler]
    is_public: bool = False
    is_html_page: bool = False
    works_without_folder: frozenset[str] = frozenset()
    _segments: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Split the path once."""
        object.__setattr__(self, "_segments", tuple(self.path.split("/")))

    @property
    def methods(self) -> str:
        """The supported methods, as the header `Allow` lists them."""
        head = ["HEAD"] if "GET" in self.handlers else []
        return ", ".join(sorted([*self.handlers, *head, "OPTIONS"]))

    def match(self, path: str) -> Mapping[str, str] | None:
        """Return the path parameters, or `None` if the path is another one."""
        return self.match_segments(path.split("/"))

    def match_segments(self, segments: Sequence[str]) -> Mapping[str, str] | None:
        """Return the path parameters; a segment of a raw path may contain a slash."""
        if len(segments) != len(self._segments):
            return None
        path_params: dict[str, str] = {}
        for own, segment in zip(self._segments, segments, strict=True):
            if own.startswith("{") and segment:
                path_params[own[1:-1]] = segment
            elif own != segment:
                return None
        return path_params
