"""One row of the table: a measurement beside the value that it is compared with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

HEADINGS = (
    "measurement",
    "ours",
    "compared with",
    "theirs",
    "ratio",
    "at most",
    "met",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured ratio.

    Attributes:
        what: The measurement.
        ours: The value of this library, in `unit`.
        compared_with: The other side of the ratio. "the goal" is a fixed number.
        theirs: The value of the other side, in `unit`.
        unit: The unit of both values.
        max_ratio: The largest ratio that meets the goal, `None` without a goal.
    """

    what: str
    ours: float
    compared_with: str
    theirs: float
    unit: str
    max_ratio: float | None = None

    @property
    def ratio(self) -> float:
        """Our value divided by theirs."""
        return self.ours / self.theirs

    @property
    def within_bound(self) -> bool | None:
        """Whether the goal is met, `None` without a goal."""
        return None if self.max_ratio is None else self.ratio <= self.max_ratio

    def as_dict(self) -> dict[str, Any]:
        """Return the row for `--json`."""
        return {**asdict(self), "ratio": self.ratio, "met": self.within_bound}

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table."""
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
