"""One line of the table: what was measured, beside what it is compared with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

HEADINGS = ("what", "ours", "compared with", "theirs", "ratio", "at most", "held")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured ratio; `most` is the design's bound of it, `None` where it has none.

    Where the design's bound is a number of its own (3 s, 10 ms), `theirs` is that
    number and `most` is 1.
    """

    what: str
    ours: float
    compared_with: str
    theirs: float
    unit: str
    max_ratio: float | None = None

    @property
    def ratio(self) -> float:
        """Ours, in theirs."""
        return self.ours / self.theirs

    @property
    def within_bound(self) -> bool | None:
        """Whether the bound is held, `None` where there is none."""
        return None if self.max_ratio is None else self.ratio <= self.max_ratio

    def as_dict(self) -> dict[str, Any]:
        """Return the row for `--json`."""
        return {**asdict(self), "ratio": self.ratio, "held": self.within_bound}

    def cells(self) -> tuple[str, ...]:
        """Return the row for people."""
        return (
            self.what,
            _format_value(self.ours, self.unit),
            self.compared_with,
            _format_value(self.theirs, self.unit),
            f"{self.ratio:.2f}",
            "" if self.max_ratio is None else f"{self.max_ratio:.2f}",
            {True: "yes", False: "NO", None: ""}[self.within_bound],
        )


def table(rows: list[Row]) -> str:
    """Return all rows as one table."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    return "\n".join(line.rstrip() for line in (text[0], rule, *text[1:]))


def _format_value(value: float, unit: str) -> str:
    digits = 0 if value >= 100 or value == int(value) else 1  # noqa: PLR2004
    return f"{value:,.{digits}f} {unit}".rstrip()
