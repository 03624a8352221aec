# The part of msgpack that is used; msgpack has no type hints.

from collections.abc import Callable
from typing import Any

def packb(
    o: object,
    *,
    use_bin_type: bool = ...,
    strict_types: bool = ...,
    unicode_errors: str | None = ...,
) -> bytes: ...
def unpackb(
    packed: bytes,
    *,
    raw: bool = ...,
    strict_map_key: bool = ...,
    unicode_errors: str | None = ...,
    list_hook: Callable[[list[Any]], Any] | None = ...,
    object_pairs_hook: Callable[[list[tuple[Any, Any]]], Any] | None = ...,
    max_str_len: int = ...,
    max_bin_len: int = ...,
    max_array_len: int = ...,
    max_map_len: int = ...,
    max_ext_len: int = ...,
) -> object: ...

class UnpackException(Exception): ...
class ExtraData(UnpackException, ValueError): ...
class FormatError(ValueError, UnpackException): ...
class StackError(ValueError, UnpackException): ...
