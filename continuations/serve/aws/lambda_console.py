"""The web console in AWS Lambda: pages that ask for changes, without open connections.

    from continuations.serve.aws.lambda_console import LambdaConsole
    from continuations.serve.aws_lambda import handler

    handle = handler(store="s3://bucket/runs", verify=verify, console=LambdaConsole())

It needs no web framework. Without `console=`, none of its modules is loaded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from continuations.serve.dispatch import InlineDispatcher
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.ledger.claims import Clock
    from continuations.serve.aws.lambda_runner import LambdaRunner
    from continuations.serve.console.console import Console
    from continuations.serve.http.api import HttpApi, Verifier
    from continuations.serve.http.request_response import Request, Response
    from continuations.serve.rights import Can

__all__ = ["LambdaConsole"]

# The names that stages and base paths of API Gateway may have.
_STAGE = re.compile(r"(?:/[A-Za-z0-9$_.+!*'()~-]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaConsole:
    """The options of a console that a Lambda function serves.

    Attributes:
        can: Returns whether an identity may do something with a run; see
            `continuations.serve.rights`. It also applies to requests for JSON.
        origin: The public origin, such as `https://agents.example`, if a proxy changes
            the `Host` header.
        secret: As for `console.app`.
    """

    can: Can | None = None
    origin: str | None = None
    secret: str | None = None

    def mount(
        self,
        runner: LambdaRunner,
        api: HttpApi,
        verify: Verifier | None,
        base_path: str,
        clock: Clock,
    ) -> MountedConsole:
        """Return the console of a handler, which calls this method.

        Args:
            runner: The runner of the handler.
            api: The HTTP API of the handler.
            verify: The option of `handler`.
            base_path: The option of `handler`.
            clock: The clock for deadlines.

        Returns:
            The console.

        Raises:
            InvalidInput: An option is invalid.
        """
        from continuations.serve.console.console import make_console  # noqa: PLC0415 - only with a console

        console = make_console(
            runner,
            api,
            verify=verify,
            can=self.can,
            dispatcher=runner.dispatcher or InlineDispatcher(runner),
            origin=self.origin,
            secret=self.secret,
            live="poll",
            clock=clock,
        )
        return MountedConsole(console, f"/{base_path.strip('/')}".rstrip("/"))


@dataclass(frozen=True, slots=True)
class MountedConsole:
    """A console behind a Function URL or API Gateway."""

    console: Console
    base_path: str

    async def handle(self, event: Mapping[str, Any], request: Request) -> Response:
        """Answer the request of an event."""
        root = _stage_path(event, request.raw_path or request.path)
        base = self.base_path
        if base and f"{request.path}/".startswith(f"{base}/"):
            root += base
            raw_path = (request.raw_path or request.path)[len(base) :] or "/"
            path = request.path[len(base) :] or "/"
            request = replace(request, path=path, raw_path=raw_path)
        # A gateway accepts TLS only.
        return await self.console.handle(replace(request, is_tls=True), root)


def _stage_path(event: Mapping[str, Any], raw_path: str) -> str:
    """Return the part of the path that names the stage; browsers need it in links."""
    # A REST API decodes one of both paths.
    whole = unquote(event.get("rawPath") or event["requestContext"].get("path") or "")
    path = unquote(raw_path)
    stage = whole.rstrip("/") if path == "/" else whole.removesuffix(path)
    # A browser reads `//host` and `/\host` as the address of another server.
    return stage if _STAGE.fullmatch(stage) else ""
