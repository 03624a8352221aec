"""Options of the console that are refused."""

from __future__ import annotations

from continuations.errors import InvalidInput
from tests.errors.case import Area, Case

_IMPORT = "from continuations.serve import console"
_JWT = 'issuer="https://login.example", audience="a", header="x-token"'
_KEYS = '"https://login.example/keys"'
_SECRET = '"0123456789abcdef"'


def _case(name: str, code: str, advice: str, *names: str) -> Case:
    return Case(
        f"console-{name}", InvalidInput, code, advice, setup=_IMPORT, names=names
    )


def _app(options: str) -> str:
    return f"console.app(runner.async_runner, {options})"


CONSOLE = Area(
    "Console: options that are refused",
    (
        _case("can", _app('can="all"'), _app("can=lambda who, act, run: True"), "can"),
        _case(
            "origin",
            _app('origin="agents.example"'),
            _app('origin="https://agents.example"'),
            "origin",
        ),
        _case("live", _app('live="poll "'), _app('live="poll"'), "live"),
        _case(
            "secret",
            _app('secret="short"'),
            _app("secret=__import__('secrets').token_urlsafe(32)"),
            "secret",
        ),
        _case(
            "proxy-secret",
            'console.proxy_header("x-user", trusted=["10.0.0.7"])',
            f'console.proxy_header("x-user", trusted=["10.0.0.7"], secret={_SECRET})',
            "secret",
        ),
        _case(
            "proxy-trusted",
            'console.proxy_header("x-user", trusted=[])',
            f"console.proxy_header('x-user', trusted=['10.0.0.7'], secret={_SECRET})",
            "trusted",
        ),
        _case(
            "proxy-trusted-name",
            f'console.proxy_header("x-user", trusted=["proxy"], secret={_SECRET})',
            f"console.proxy_header('x-user', trusted=['10.0.0.7'], secret={_SECRET})",
            "trusted",
        ),
        _case(
            "jwt-keys-without-tls",
            f'console.proxy_jwt("http://login.example/keys", {_JWT})',
            f"console.proxy_jwt({_KEYS}, {_JWT})",
            "jwks",
        ),
        _case(
            "jwt-no-keys",
            f"console.proxy_jwt({{}}, {_JWT})",
            f"console.proxy_jwt({_KEYS}, {_JWT})",
            "jwks",
        ),
        _case(
            "jwt-empty-header",
            f'console.proxy_jwt({_KEYS}, issuer="i", audience="a", header="")',
            f"console.proxy_jwt({_KEYS}, {_JWT})",
            "header",
        ),
    ),
)
