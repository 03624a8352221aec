"""Ways to damage a stored object, and to overwrite a body."""

from __future__ import annotations

from collections.abc import Callable

from continuations_storage.contract import Store


def _flip_at(objects: float) -> Callable[[bytes], bytes]:
    def flip(body: bytes) -> bytes:
        if not body:
            return b"\x01"
        at = min(int(len(body) * objects), len(body) - 1)
        return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]

    return flip


# Each function returns the damaged body, or `None` to delete the object.
DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda _: None,
    "empty": lambda _: b"",
    "cut to one byte": lambda body: body[:1],
    "cut in the magic": lambda body: body[:3],
    "cut in the header": lambda body: body[:20],
    "cut in half": lambda body: body[: len(body) // 2],
    "cut before the last byte": lambda body: body[:-1],
    "one byte longer": lambda body: body + b"\0",
    "twice": lambda body: body + body,
    "zero-filled": lambda body: bytes(len(body)),
    "zero-filled from the middle": lambda body: (
        body[: len(body) // 2] + bytes(len(body) - len(body) // 2)
    ),
    "a bit of the magic flipped": _flip_at(0),
    "a bit of the header flipped": _flip_at(0.1),
    "a bit of the body flipped": _flip_at(0.7),
    "a bit of the digest flipped": _flip_at(0.999),
    "foreign": lambda _: b'{"version": 1, "messages": []}',
    "text": lambda _: b"runs/jane-1\n",
}


async def overwrite(store: Store, key: str, body: bytes | None) -> None:
    """Replace a body, as an attacker with access to the disk can."""
    await store.delete(key)
    if body is not None:
        await store.create(key, body)


async def damage_object(store: Store, key: str, damage: str) -> bytes:
    """Damage an object; return its old body."""
    whole = await store.read(key)
    await overwrite(store, key, DAMAGES[damage](whole))
    return whole


async def all_objects(store: Store) -> dict[str, bytes]:
    """Return every key with its body."""
    return {key: await store.read(key) for key in await store.keys("", limit=100_000)}
