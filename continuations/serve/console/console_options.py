"""Make a console of the application's options, without a web framework."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from continuations.engine.ports import SystemClock
from continuations.errors import InvalidInput
from continuations.serve.console.console import Console
from continuations.serve.console.live_pages import LIVE_MODES, LivePages
from continuations.serve.console.same_origin import FormTokens
from continuations.serve.option_checks import check_type
from continuations.serve.rights import Rights

if TYPE_CHECKING:
    from continuations.engine.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock
    from continuations.serve.console.live_pages import LiveMode
    from continuations.serve.console.local_identity import LocalIdentity
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.http.api import HttpApi, Verifier
    from continuations.serve.rights import Can

_MIN_SECRET_BYTES = 32


def make_console(  # noqa: PLR0913 - one parameter for each option
    runner: AsyncRunner,
    api: HttpApi,
    *,
    verify: Verifier | LocalIdentity | None,
    can: Can | None,
    dispatcher: Dispatcher | None,
    origin: str | None,
    secret: str | None,
    live: LiveMode,
    clock: Clock | None,
) -> Console:
    """Return a console; the options are those of `console.app`.

    `api` answers requests for JSON, with the same runner, identities and rights.

    Raises:
        InvalidInput: An option is invalid.
    """
    _check_origin(origin)
    _check_secret(secret)
    _check_live(live)
    if secret is not None:
        api.cursor_secret = secret.encode()
    console = Console(
        runner=runner,
        api=api,
        verify=verify,
        rights=Rights(can),
        tokens=FormTokens.of_secret(secret),
        origin=origin,
        dispatcher=dispatcher,
        clock=clock or SystemClock(),
        live=LivePages.of_runner(runner, live),
    )
    api.when_erased.append(console.last_views.forget)
    return console


def _check_origin(origin: object) -> None:
    if origin is None:
        return
    check_type("origin", origin, str, "a text or None")
    parts = urlsplit(str(origin))
    if parts.scheme in ("http", "https") and f"{parts.scheme}://{parts.netloc}" == (
        origin
    ):
        return
    msg = (
        f"origin must be a scheme and a host, got {origin!r:.80}. Pass for example "
        'origin="https://agents.example".'
    )
    raise InvalidInput(msg)


def _check_secret(secret: object) -> None:
    if secret is None:
        return
    check_type("secret", secret, str, "a text or None")
    if len(str(secret).encode()) < _MIN_SECRET_BYTES:
        msg = (
            f"secret must have at least {_MIN_SECRET_BYTES} bytes. Make one with "
            "`python -c 'import secrets; print(secrets.token_urlsafe(32))'`."
        )
        raise InvalidInput(msg)


def _check_live(live: object) -> None:
    if live not in LIVE_MODES:
        msg = f'live must be "events" or "poll", got {live!r:.80}. Pass one of them.'
        raise InvalidInput(msg)
