"""Signed links: only a link that was signed for a wait decides that wait."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from continuations.core.identity import find_name_problem
from continuations.errors import InvalidInput
from continuations.serve.http.links import LinkInvalid, LinkPayload, Links, VerdictKind
from tests.clocks import ManualClock
from tests.ledger.fake_clock import MOMENT
from tests.ledger.runs import make_wait
from tests.serve.http.api_fixture import (
    BASE_URL,
    SECRET,
    ApiFixture,
    form_request,
    waiting_api,
)

OTHER_SECRET = b"\xff" * 32
WAIT = make_wait()
FIRST_FORMAT_TOKEN = (
    "Ac-bEnD2MgKYAigcNpIwaUK1Wx79jZbH-KMqYXBwcm92YWwtMDFtN3lxMXdoeDAwMDAwMD"
    "AwMDAwMDAwMDFAamFuZS0xA2tpbekCdTnmPPrHbMbikjruZxA"
)


def links(secret: bytes | str = SECRET, **options: Any) -> Links:
    """Return links with a manual clock."""
    return Links(
        secret, base_url=BASE_URL, clock=options.pop("clock", ManualClock()), **options
    )


def assert_rejected(reader: Links, token: str) -> None:
    """Assert that a token is rejected with the one text for every reason."""
    with pytest.raises(LinkInvalid) as caught:
        reader.read(token)
    assert str(LinkInvalid()) == str(caught.value)


def test_token_contains_wait_decisions_actor_and_expiry() -> None:
    until = datetime.fromisoformat("2026-01-02T00:00:00+00:00")

    token = links().token(WAIT, ["deny"], "kim@example.com", until)

    payload = links().read(token)
    assert WAIT.id == payload.wait_id
    assert (("deny",), "kim@example.com") == (payload.allowed, payload.actor)
    assert until == payload.until
    payload.check_digest(WAIT.digest)
    with pytest.raises(LinkInvalid):
        payload.check_digest(make_wait(2).digest)
    assert f"{BASE_URL}/d/{token}" == links().link(
        WAIT, allowed=["deny"], actor="kim@example.com", until=until
    )


def test_default_link_allows_every_decision_of_its_wait_kind() -> None:
    approval = links().read(links().token(WAIT))
    unknown = links().read(links().token(make_wait(kind="unknown")))

    assert (("approve", "deny", "answer"), None) == (approval.allowed, approval.actor)
    assert ("approve", "deny", "answer") == unknown.allowed


def test_link_is_valid_seven_days_after_the_deadline() -> None:
    clock = ManualClock()
    deadline = clock.now() + timedelta(hours=1)
    wait = replace(WAIT, deadline=deadline)

    payload = links(clock=clock).read(links(clock=clock).token(wait))

    assert deadline + timedelta(days=7) == payload.until


def test_link_expires() -> None:
    clock = ManualClock()
    reader = links(clock=clock, valid_for=timedelta(hours=1))
    token = reader.token(WAIT)

    clock.seconds = 3599
    assert WAIT.id == reader.read(token).wait_id
    clock.seconds = 3600
    assert_rejected(reader, token)


def test_secrets_are_changed_without_losing_links() -> None:
    old, new = links(SECRET), links(OTHER_SECRET, previous=SECRET)
    newest = links(b"n" * 32, previous=OTHER_SECRET)

    assert WAIT.id == new.read(old.token(WAIT)).wait_id
    assert WAIT.id == newest.read(new.token(WAIT)).wait_id
    assert_rejected(newest, old.token(WAIT))
    assert_rejected(old, new.token(WAIT))


@settings(deadline=None)
@given(st.data())
def test_token_with_a_changed_character_is_rejected(data: st.DataObject) -> None:
    token = links().token(WAIT, actor="kim")
    at = data.draw(st.integers(0, len(token) - 1))
    character = data.draw(
        st.characters(codec="ascii").filter(lambda it: it != token[at])
    )

    assert_rejected(links(), token[:at] + character + token[at + 1 :])


@settings(deadline=None)
@given(st.integers(0, 200))
def test_truncated_token_is_rejected(length: int) -> None:
    token = links().token(WAIT, actor="kim")

    assert_rejected(links(), token[: min(length, len(token) - 1)])


@settings(deadline=None)
@given(st.text() | st.binary().map(lambda it: urlsafe_b64encode(it).decode()))
@example("")
@example("A" * 100_000)
@example("é" * 140)
@example("\ud800")
def test_arbitrary_text_is_rejected(text: str) -> None:
    assert_rejected(links(), text)


@pytest.mark.parametrize("extra", ["=", "==", "\n", " ", "A", "!", "%3D", "\x00"])
def test_token_with_extra_characters_is_rejected(extra: str) -> None:
    """A token has one spelling only."""
    token = links().token(WAIT)

    assert_rejected(links(), token + extra)
    assert_rejected(links(), extra + token)


def test_token_of_a_newer_format_is_rejected() -> None:
    claims = _decode_token(links().token(WAIT))[:-16]

    assert WAIT.id == links().read(_sign(claims)).wait_id
    assert_rejected(links(), _sign(b"\x02" + claims[1:]))


def _sign(claims: bytes) -> str:
    key = hmac.digest(SECRET.encode(), b"continuations: signing links", "sha256")
    mac = hmac.digest(key, claims, "sha256")[:16]
    return urlsafe_b64encode(claims + mac).decode().rstrip("=")


def test_token_of_the_first_format_is_still_read() -> None:
    """The token was made by version 0.1.0; such links are still in mails."""
    payload = links().read(FIRST_FORMAT_TOKEN)

    assert (WAIT.id, ("deny",), "kim") == (
        payload.wait_id,
        payload.allowed,
        payload.actor,
    )
    assert 2100 == payload.until.year
    payload.check_digest(WAIT.digest)


def test_unused_bits_of_the_last_character_must_be_zero() -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for actor in ("", "k", "ki"):
        token = links().token(WAIT, actor=actor or None)
        same = [
            token[:-1] + char
            for char in alphabet
            if _decode_token(token[:-1] + char) == _decode_token(token)
        ]
        for other in set(same) - {token}:
            assert_rejected(links(), other)


def _decode_token(token: str) -> bytes:
    return urlsafe_b64decode(token + "=" * (-len(token) % 4))


@settings(deadline=None)
@given(
    number=st.integers(1, 1000),
    actor=st.none()
    | st.text(st.characters(categories=["L", "N", "S"]), min_size=1).filter(
        lambda name: find_name_problem(name) is None
    ),
    allowed=st.sets(st.sampled_from(["approve", "deny", "answer"]), min_size=1),
    run_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", fullmatch=True),
)
def test_token_round_trip_keeps_every_field(
    number: int, actor: str | None, allowed: set[VerdictKind], run_id: str
) -> None:
    wait = make_wait(number, "unknown", run_id=run_id)

    token = links().token(wait, allowed, actor)

    payload = links().read(token)
    assert isinstance(payload, LinkPayload)
    assert (wait.id, actor, allowed) == (
        payload.wait_id,
        payload.actor,
        set(payload.allowed),
    )
    assert all(char.isalnum() or char in "-_" for char in token)


def test_token_is_shorter_than_180_characters() -> None:
    assert len(links().token(WAIT, actor="kim@example.com")) < 180


# Invalid options ----------------------------------------------------------------


@pytest.mark.parametrize(
    "secret", [b"", b"x" * 31, "x" * 31, None, 5, ["x" * 32], bytearray(40)]
)
def test_short_secret_is_rejected(secret: Any) -> None:
    for options in ({"secret": secret}, {"secret": SECRET, "previous": secret}):
        if options.get("previous", "") is None:
            continue
        with pytest.raises(InvalidInput, match="at least 32") as caught:
            links(**options)
        assert "xxxx" not in str(caught.value)


def test_repr_does_not_contain_secrets() -> None:
    signer = links(SECRET, previous=OTHER_SECRET)
    text = repr(signer) + repr(vars(signer))

    assert SECRET not in text
    assert repr(OTHER_SECRET) not in text
    assert BASE_URL in repr(signer)


@pytest.mark.parametrize(
    "url", ["", "api.example", "ftp://api", "https://", "https://h/?a=1", "http://["]
)
def test_invalid_base_url_is_rejected(url: str) -> None:
    with pytest.raises(InvalidInput, match="base_url"):
        Links(SECRET, base_url=url)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"allowed": []}, "got nothing"),
        ({"allowed": ["expire"]}, "got expire"),
        ({"allowed": [["approve"]]}, "each kind in allowed must be a string, got list"),
        ({"allowed": [1]}, "each kind in allowed must be a string, got int"),
        ({"allowed": ["approve", "yes"]}, "some of approve, deny"),
        ({"actor": ""}, "1 to 255 bytes"),
        ({"actor": "é" * 128}, "1 to 255 bytes"),
        ({"actor": "\ud800"}, "1 to 255 bytes"),
        ({"until": MOMENT.replace(tzinfo=None)}, "time zone"),
    ],
)
def test_invalid_link_options_are_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        links().link(WAIT, **options)


def test_extreme_expiry_times_are_clamped() -> None:
    far = datetime.fromisoformat("9999-01-01T00:00:00+00:00")
    past = datetime.fromisoformat("1900-01-01T00:00:00+00:00")

    assert 2106 == links().read(links().token(WAIT, until=far)).until.year
    assert_rejected(links(), links().token(WAIT, until=past))


async def test_every_invalid_link_gets_the_same_response() -> None:
    """Forged, truncated, expired, or for another wait: one status and one body."""
    fixture, wait = await waiting_api()
    soon = fixture.clock.now() + timedelta(seconds=1)
    expired = fixture.links.link(wait, until=soon)
    good = fixture.links.link(wait)
    fixture.manual_clock.seconds = 2
    foreign = Links(OTHER_SECRET, base_url=BASE_URL, clock=fixture.clock).link(wait)
    unknown = fixture.links.link(make_wait(run_id="nobody"))
    changed = fixture.links.link(replace(wait, digest="other"))

    bad = [f"{BASE_URL}/d/x", good[:-1], expired, foreign, unknown, changed]
    opened = [await fixture.open_link(link) for link in bad]
    submitted = [await fixture.submit_form(link, decision="approve") for link in bad]

    assert 404 == opened[0].status
    assert all(opened[0] == each for each in (*opened, *submitted))
    assert (await fixture.runner.wait(wait.id)) == wait
    garbled = await fixture.api.handle(form_request(bad[0], "%%%"))
    assert opened[0] == garbled


async def test_api_without_links_responds_404() -> None:
    fixture = ApiFixture(options={"links": None})
    link = fixture.links.link(await fixture.start_waiting_run())

    assert 404 == (await fixture.open_link(link)).status
    assert 404 == (await fixture.submit_form(link, decision="approve")).status
