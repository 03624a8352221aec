"""Signed links: what was not signed for this wait gives no right, and says not why."""

from __future__ import annotations

import asyncio
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from continuations.errors import InvalidInput
from continuations.serve.links import LinkInvalid, Links, Ticket
from tests.engine.offices import Clock
from tests.ledger.machine import MOMENT
from tests.ledger.runs import a_wait
from tests.serve.office import HOST, SECRET, Office, form

if TYPE_CHECKING:
    from continuations.serve.links import Allowed

NEXT = b"\xff" * 32
WAIT = a_wait()
FIRST = (
    "Ac-bEnD2MgKYAigcNpIwaUK1Wx79jZbH-KMqYXBwcm92YWwtMDFtN3lxMXdoeDAwMDAwMD"
    "AwMDAwMDAwMDFAamFuZS0xA2tpbekCdTnmPPrHbMbikjruZxA"
)


def links(secret: bytes | str = SECRET, **options: Any) -> Links:
    """Return links with a clock that stands still."""
    return Links(secret, base_url=HOST, clock=options.pop("clock", Clock()), **options)


def refuses(reader: Links, token: str) -> None:
    """Assert that a token gives no right, with the one error that there is."""
    with pytest.raises(LinkInvalid) as caught:
        reader.read(token)
    assert str(LinkInvalid()) == str(caught.value)


def test_a_link_says_what_it_was_made_for() -> None:
    """R-C7: bound to the wait, the answers, the actor and the expiry."""
    until = datetime.fromisoformat("2026-01-02T00:00:00+00:00")

    token = links().token(WAIT, ["deny"], "kim@example.com", until)

    ticket = links().read(token)
    assert WAIT.id == ticket.wait_id
    assert (("deny",), "kim@example.com") == (ticket.allowed, ticket.actor)
    assert until == ticket.until
    ticket.check(WAIT.digest)
    with pytest.raises(LinkInvalid):
        ticket.check(a_wait(2).digest)
    assert f"{HOST}/d/{token}" == links().link(
        WAIT, allowed=["deny"], actor="kim@example.com", until=until
    )


def test_by_default_it_allows_what_fits_the_wait_and_names_nobody() -> None:
    approval = links().read(links().token(WAIT))
    unknown = links().read(links().token(a_wait(kind="unknown")))

    assert (("approve", "deny"), None) == (approval.allowed, approval.actor)
    assert ("approve", "deny", "answer") == unknown.allowed


def test_it_outlives_the_deadline_so_that_the_page_can_tell_of_it() -> None:
    clock = Clock()
    deadline = clock.now() + timedelta(hours=1)
    wait = replace(WAIT, deadline=deadline)

    ticket = links(clock=clock).read(links(clock=clock).token(wait))

    assert deadline + timedelta(days=7) == ticket.until


def test_it_ends() -> None:
    """R-C7: bound to an expiry."""
    clock = Clock()
    reader = links(clock=clock, valid_for=timedelta(hours=1))
    token = reader.token(WAIT)

    clock.seconds = 3599
    assert WAIT.id == reader.read(token).wait_id
    clock.seconds = 3600
    refuses(reader, token)


def test_secrets_are_changed_without_losing_links() -> None:
    old, new = links(SECRET), links(NEXT, previous=SECRET)
    newest = links(b"n" * 32, previous=NEXT)

    assert WAIT.id == new.read(old.token(WAIT)).wait_id
    assert WAIT.id == newest.read(new.token(WAIT)).wait_id
    refuses(newest, old.token(WAIT))
    refuses(old, new.token(WAIT))


@settings(deadline=None)
@given(st.data())
def test_no_letter_of_a_token_can_be_changed(data: st.DataObject) -> None:
    """R-C7: forged links are refused, all with the one error."""
    token = links().token(WAIT, actor="kim")
    at = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.characters(codec="ascii").filter(lambda it: it != token[at]))

    refuses(links(), token[:at] + letter + token[at + 1 :])


@settings(deadline=None)
@given(st.integers(0, 200))
def test_no_token_can_be_cut(length: int) -> None:
    """R-C7: truncated links are refused."""
    token = links().token(WAIT, actor="kim")

    refuses(links(), token[: min(length, len(token) - 1)])


@settings(deadline=None)
@given(st.text() | st.binary().map(lambda it: urlsafe_b64encode(it).decode()))
@example("")
@example("A" * 100_000)
@example("é" * 140)
@example("\ud800")
def test_nothing_else_is_a_token(text: str) -> None:
    refuses(links(), text)


@pytest.mark.parametrize("extra", ["=", "==", "\n", " ", "A", "!", "%3D", "\x00"])
def test_a_token_has_one_spelling(extra: str) -> None:
    """No malleability: what was logged as used cannot come again as another."""
    token = links().token(WAIT)

    refuses(links(), token + extra)
    refuses(links(), extra + token)


def test_what_a_later_format_says_is_not_guessed() -> None:
    claims = _bytes(links().token(WAIT))[:-16]

    assert WAIT.id == links().read(_signed(claims)).wait_id
    refuses(links(), _signed(b"\x02" + claims[1:]))


def _signed(claims: bytes) -> str:
    key = hmac.digest(SECRET.encode(), b"continuations: signing links", "sha256")
    mac = hmac.digest(key, claims, "sha256")[:16]
    return urlsafe_b64encode(claims + mac).decode().rstrip("=")


def test_a_link_of_the_first_format_is_read_for_ever() -> None:
    """Made by 0.1.0, never to be made again: somebody still has it in a mail."""
    ticket = links().read(FIRST)

    assert (WAIT.id, ("deny",), "kim") == (ticket.wait_id, ticket.allowed, ticket.actor)
    assert 2100 == ticket.until.year
    ticket.check(WAIT.digest)


def test_the_loose_bits_of_the_last_letter_are_none() -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for actor in ("", "k", "ki"):
        token = links().token(WAIT, actor=actor or None)
        same = [
            token[:-1] + letter
            for letter in letters
            if _bytes(token[:-1] + letter) == _bytes(token)
        ]
        for other in set(same) - {token}:
            refuses(links(), other)


def _bytes(token: str) -> bytes:
    return urlsafe_b64decode(token + "=" * (-len(token) % 4))


@settings(deadline=None)
@given(
    number=st.integers(1, 1000),
    actor=st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=60),
    allowed=st.sets(st.sampled_from(["approve", "deny", "answer"]), min_size=1),
    run_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", fullmatch=True),
)
def test_every_link_comes_back_as_it_was_made(
    number: int, actor: str | None, allowed: set[Allowed], run_id: str
) -> None:
    wait = a_wait(number, "unknown", run_id=run_id)

    token = links().token(wait, allowed, actor)

    ticket = links().read(token)
    assert isinstance(ticket, Ticket)
    assert (wait.id, actor, allowed) == (
        ticket.wait_id,
        ticket.actor,
        set(ticket.allowed),
    )
    assert all(letter.isalnum() or letter in "-_" for letter in token)


def test_it_is_short() -> None:
    assert len(links().token(WAIT, actor="kim@example.com")) < 180


# What will not do ------------------------------------------------------------


@pytest.mark.parametrize(
    "secret", [b"", b"x" * 31, "x" * 31, None, 5, ["x" * 32], bytearray(40)]
)
def test_a_secret_that_can_be_guessed_is_refused(secret: Any) -> None:
    for given_so in ({"secret": secret}, {"secret": SECRET, "previous": secret}):
        if given_so.get("previous", "") is None:
            continue
        with pytest.raises(InvalidInput, match="at least 32") as caught:
            links(**given_so)
        assert "xxxx" not in str(caught.value)


def test_no_repr_tells_a_secret() -> None:
    made = links(SECRET, previous=NEXT)
    told = repr(made) + repr(vars(made))

    assert SECRET not in told
    assert repr(NEXT) not in told
    assert HOST in repr(made)


@pytest.mark.parametrize(
    "url", ["", "desk.example", "ftp://desk", "https://", "https://h/?a=1", "http://["]
)
def test_a_place_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="base_url"):
        Links(SECRET, base_url=url)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"allowed": []}, "cannot allow nothing"),
        ({"allowed": ["answer"]}, "cannot allow answer"),
        ({"allowed": ["approve", "yes"]}, "takes approve, deny"),
        ({"actor": ""}, "1 to 255 bytes"),
        ({"actor": "é" * 128}, "1 to 255 bytes"),
        ({"actor": "\ud800"}, "1 to 255 bytes"),
        ({"until": MOMENT.replace(tzinfo=None)}, "time zone"),
    ],
)
def test_a_link_that_could_not_be_used_is_not_made(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        links().link(WAIT, **options)


def test_the_far_past_and_the_far_future_are_cut_to_what_can_be_said() -> None:
    far = datetime.fromisoformat("9999-01-01T00:00:00+00:00")
    past = datetime.fromisoformat("1900-01-01T00:00:00+00:00")

    assert 2106 == links().read(links().token(WAIT, until=far)).until.year
    refuses(links(), links().token(WAIT, until=past))


def test_the_door_shows_every_bad_link_the_same() -> None:
    """R-C7: forged, cut, expired, of another store or wait: one status, one body."""

    async def story() -> None:
        office = Office()
        wait = await office.opened()
        soon = office.clock.now() + timedelta(seconds=1)
        expired = office.links.link(wait, until=soon)
        good = office.links.link(wait)
        office.hands.seconds = 2
        foreign = Links(NEXT, base_url=HOST, clock=office.clock).link(wait)
        of_nobody = office.links.link(a_wait(run_id="nobody"))
        changed = office.links.link(replace(wait, digest="other"))

        bad = [f"{HOST}/d/x", good[:-1], expired, foreign, of_nobody, changed]
        looks = [await office.look(link) for link in bad]
        clicks = [await office.click(link, decision="approve") for link in bad]

        assert 404 == looks[0].status
        assert all(looks[0] == answer for answer in (*looks, *clicks))
        assert (await office.runner.wait(wait.id)) == wait
        garbled = await office.desk.answer(form(bad[0], "%%%"))
        assert looks[0] == garbled

    asyncio.run(story())


def test_a_desk_without_links_knows_none() -> None:
    async def story() -> None:
        office = Office(options={"links": None})
        link = office.links.link(await office.opened())

        assert 404 == (await office.look(link)).status
        assert 404 == (await office.click(link, decision="approve")).status

    asyncio.run(story())
