# The part of botocore that is used; botocore has no type hints.

from collections.abc import Callable
from typing import Any

from botocore.config import Config

class _Emitter:
    def register(self, event_name: str, handler: Callable[..., Any]) -> None: ...

class _Meta:
    events: _Emitter

class _Client:
    meta: _Meta

class Session:
    def __init__(self, *, profile: str | None = ...) -> None: ...
    def register_component(self, name: str, component: object) -> None: ...
    def create_client(
        self,
        service_name: str,
        *,
        region_name: str | None = ...,
        endpoint_url: str | None = ...,
        config: Config = ...,
    ) -> _Client: ...
