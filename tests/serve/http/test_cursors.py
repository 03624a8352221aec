"""The cursors of lists, for a person who may not see each run."""

from __future__ import annotations

import base64

import pytest

from continuations import Identity
from continuations.serve.http.cursors import Cursors
from continuations.serve.http.problems import RequestRefused
from continuations.serve.rights import Rights
from tests.serve.http.api_fixture import ApiFixture, json_body, problem_slug

RUNS = (*(f"hidden-{n}" for n in range(4)), "jane-1", "jane-2")


def can(_: Identity, __: str, run: str | None) -> bool:
    """Allow what concerns a run of Jane."""
    return run is None or run.startswith("jane")


async def pages_of(
    fixture: ApiFixture, path: str, **query: str
) -> tuple[list[str], list[str]]:
    """Follow a list to its end; return the runs and the cursors."""
    key = "waits" if path == "/waits" else "runs"
    runs: list[str] = []
    cursors: list[str] = []
    while True:
        response = await fixture.request("GET", path, query={"limit": "1", **query})
        assert 200 == response.status, response.body
        page = json_body(response)
        runs += [row["run_id"] for row in page[key]]
        if page["next"] is None:
            return runs, cursors
        cursors.append(page["next"])
        query["after"] = page["next"]


@pytest.mark.parametrize(
    ("path", "query"),
    [("/waits", {}), ("/waits", {"order": "due"}), ("/runs", {}), ("/drift", {})],
)
async def test_cursor_names_no_hidden_run(
    path: str, query: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that read only hidden rows lead to the visible ones and name no other."""
    monkeypatch.setattr("continuations.serve.http.cursors.MAX_READ", 2)

    fixture = ApiFixture(options={"can": can})
    for run_id in RUNS:
        await fixture.manual_clock.sleep(1)  # waits are listed by their times
        await fixture.start_waiting_run(run_id)

    runs, cursors = await pages_of(fixture, path, **query)

    assert ["jane-1", "jane-2"] == runs
    assert any(each.startswith("~") for each in cursors)
    for cursor in cursors:
        plain, _, sealed = cursor.partition("~")
        padded = sealed + "=" * (-len(sealed) % 4)
        assert "hidden" not in plain
        assert b"hidden" not in base64.urlsafe_b64decode(padded)


async def test_cursor_of_a_visible_row_is_not_sealed() -> None:
    fixture = ApiFixture(options={"can": can})
    for run_id in RUNS[-2:]:
        await fixture.start_waiting_run(run_id)

    runs, cursors = await pages_of(fixture, "/runs")

    assert ["jane-1", "jane-2"] == runs
    assert ["live/jane-1"] == cursors


def test_processes_with_the_same_secret_read_the_same_cursors() -> None:
    fixture, other = ApiFixture(), ApiFixture()
    limited = Rights(can)
    of_links = [Cursors.of(None, each.links, limited) for each in (fixture, other)]
    of_secret = Cursors.of(b"s" * 32, fixture.links, limited)
    sealed = of_links[0].seal("live/hidden-1")

    assert "live/hidden-1" == of_links[1].open(sealed)
    with pytest.raises(RequestRefused):
        of_secret.open(sealed)


@pytest.mark.parametrize("row", ["x", "x" * 63, "x" * 64, "x" * 400])
def test_sealed_cursor_hides_the_length_of_its_row(row: str) -> None:
    cursors = Cursors.of(None, None, Rights(can))
    sealed = cursors.seal(row)

    assert row == cursors.open(sealed)
    assert sealed == cursors.seal(row)
    if len(row) < 64:
        assert len(cursors.seal("y")) == len(sealed)


@pytest.mark.parametrize("text", ["~", "~AAAA", "~%%", "~" + "A" * 107, "~ä"])
async def test_sealed_cursor_that_was_changed_is_refused(text: str) -> None:
    fixture = ApiFixture(options={"can": can})
    for path in ("/runs", "/waits", "/drift"):
        response = await fixture.request("GET", path, query={"after": text})
        assert (400, "malformed") == (response.status, problem_slug(response))


def test_key_of_cursors_is_not_shown() -> None:
    cursors = Cursors.of(b"s" * 32, None, None)

    assert "<Cursors>" == repr(cursors)
    assert "live/jane-1" == cursors.seal("live/jane-1")
