"""Keys and prefixes for the conformance suite."""

from __future__ import annotations

__all__ = ["INVALID_KEYS", "INVALID_PREFIXES", "ORDERED_KEYS"]

INVALID_KEYS = (
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/../b",
    "../outside",
    "a/./b",
    "a b",
    "a\\b",
    "a\n",
    "a\0b",
    "ä",
    "a+b",
    "x" * 256,
    "/".join(["x" * 100] * 9),
)
INVALID_PREFIXES = ("/", "/a", "a//", "../", "a/../", "a b", "ä", "x" * 256)

# In byte order. "/" sorts between "-", "." and "0".
ORDERED_KEYS = [
    "a-/1",
    "a-b",
    "a./1",
    "a.b/x",
    "a/-",
    "a/0/1",
    "a/1",
    "a/b/c/d",
    "a0",
    "a@",
    "a_/1",
    "a~",
]
