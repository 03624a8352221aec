"""Moments, and counts in words, as people read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import assume, given
from hypothesis import strategies as st

from continuations.present.times import (
    clock_view,
    counted,
    day_view,
    plain_text,
    second_view,
    time_view,
)


def test_one_is_singular_and_thousands_are_separated() -> None:
    assert ["0 runs", "1 run", "2 runs", "12,400 open waits"] == [
        counted(0, "run"),
        counted(1, "run"),
        counted(2, "run"),
        counted(12400, "open wait"),
    ]


def test_time_of_another_zone_is_written_in_utc_with_an_exact_title() -> None:
    moment = datetime(2026, 11, 23, 23, 48, 30, 5999, timezone(timedelta(hours=-5)))
    now = datetime(2026, 11, 24, 9, tzinfo=UTC)

    assert "Tue 24 Nov 2026, 04:48 UTC" == time_view(moment).text
    assert "today 04:48 UTC" == time_view(moment, now).text
    assert (
        '<time datetime="2026-11-24T04:48:30.005Z" '
        'title="Tue 24 Nov 2026, 04:48:30 UTC" data-time="short">today 04:48 UTC</time>'
    ) == time_view(moment, now).html
    assert "Tue 24 Nov 2026, UTC" == day_view(moment).text


def test_plain_text_joins_texts_and_moments() -> None:
    moment = datetime(2026, 11, 23, 18, 48, tzinfo=UTC)

    assert "since 18:48 UTC" == plain_text(("since ", clock_view(moment)))
    assert "no deadline" == plain_text("no deadline")


@given(st.datetimes(), st.timedeltas(timedelta(hours=-14), timedelta(hours=14)))
def test_every_moment_can_be_read_back(local: datetime, offset: timedelta) -> None:
    """The element of a moment has no character that is special in HTML."""
    assume(1 < local.year < 9999)
    moment = local.replace(tzinfo=timezone(offset))
    html = second_view(moment).html

    found = re.fullmatch(r'<time datetime="([^"<>&]+)" [^<>&]*>[\d:]+</time>', html)

    assert found is not None
    assert abs(datetime.fromisoformat(found[1]) - moment) < timedelta(milliseconds=1)
