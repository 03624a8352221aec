"""One line of the table: what was measured, beside what it is compared with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

HEADS = ("what", "ours", "compared with", "theirs", "ratio", "at most", "held")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured ratio; `most` is the design's bound of it, `None` where it has none.

    Where the design's bound is a number of its own (3 s, 10 ms), `theirs` is that
    number and `most` is 1.
    """

    what: str
    ours: float
    against: str
    theirs: float
    unit: str
    most: float | None = None

    @property
    def ratio(self) -> float:
        """Ours, in theirs."""
        return self.ours / self.theirs

    @property
    def held(self) -> bool | None:
        """Whether the bound is held, `None` where there is none."""
        return None if self.most is None else self.ratio <= self.most

    def facts(self) -> dict[str, Any]:
        """Return the row for `--json`."""
        return {**asdict(self), "ratio": self.ratio, "held": self.held}

    def cells(self) -> tuple[str, ...]:
        """Return the row for people."""
        return (
            self.what,
            _figure(self.ours, self.unit),
            self.against,
            _figure(self.theirs, self.unit),
            f"{self.ratio:.2f}",
            "" if self.most is None else f"{self.most:.2f}",
            {True: "yes", False: "NO", None: ""}[self.held],
        )


def table(rows: list[Row]) -> str:
    """Return all rows as one table."""
    lines = [HEADS, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    return "\n".join(line.rstrip() for line in (text[0], rule, *text[1:]))


def _figure(value: float, unit: str) -> str:
    digits = 0 if value >= 100 or value == int(value) else 1  # noqa: PLR2004
    return f"{value:,.{digits}f} {unit}".rstrip()
