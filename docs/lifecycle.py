"""Draw the life cycle of a call as an SVG.

Usage: `python docs/lifecycle.py > docs/images/lifecycle.svg`.

The picture is drawn from the table of transitions. Each state is a column, and each
event is an arrow from the state before it to the state after it. A test compares the
file with the output of this script.
"""

from __future__ import annotations

from dataclasses import dataclass

from continuations.core.changes.transitions import TRANSITIONS
from continuations.core.rows.calls import CLOSED_STATES, STATE_NAMES, STATE_TYPES

_GUTTER, _COLUMN, _ROW, _HEAD = 140, 62, 22, 44
_LINE, _BAND, _CLOSED = "#37474f", "#f1f4f6", "#dfe7ec"


@dataclass(frozen=True, slots=True)
class Arrow:
    """One event of a call.

    Attributes:
        before: The name of the state before the event.
        event: The name of the event.
        after: The name of the state after the event.
    """

    before: str
    event: str
    after: str


def arrows() -> list[Arrow]:
    """Return the table of transitions without cancellations, by the state before."""
    found = [
        Arrow(STATE_NAMES[state], event.__name__, STATE_NAMES[after])
        for (state, event), after in TRANSITIONS.items()
        if event.__name__ != "CallCancelled"
    ]
    order = columns()
    return sorted(found, key=lambda each: order.index(each.before))


def columns() -> list[str]:
    """Return the names of the states, those that end a call last."""
    return sorted(STATE_TYPES, key=lambda name: STATE_TYPES[name] in CLOSED_STATES)


def svg() -> str:
    """Return the picture."""
    drawn = arrows()
    width = _GUTTER + _COLUMN * len(columns())
    bottom = _HEAD + _ROW * (len(drawn) + 1)
    height = bottom + 8
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    text = 'font-family="system-ui, sans-serif" font-size="12"'
    head = 'viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"'
    tip = f'<path d="M0 0 8 4 0 8Z" fill="{_LINE}"/>'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {text}>',
            "<title>The life of a call: states and events</title>",
            f'<defs><marker id="head" {head} orient="auto">{tip}</marker></defs>',
            '<rect width="100%" height="100%" rx="6" fill="white"/>',
            *_bands(drawn, width),
            *(_column(name, bottom) for name in columns()),
            _first_row(),
            *(_row(each, _y(number + 1)) for number, each in enumerate(drawn)),
            "</svg>",
        ]
    )


def _x(name: str) -> int:
    return _GUTTER + _COLUMN * columns().index(name) + _COLUMN // 2


def _y(row: int) -> int:
    return _HEAD + _ROW * row + _ROW // 2


def _bands(drawn: list[Arrow], width: int) -> list[str]:
    """Return a background behind the events of every second state."""
    states = list(dict.fromkeys(each.before for each in drawn))
    return [
        f'<rect y="{_y(number + 1) - _ROW // 2}" width="{width}" height="{_ROW}"'
        f' fill="{_BAND}"/>'
        for number, each in enumerate(drawn)
        if states.index(each.before) % 2 == 0
    ]


def _column(name: str, bottom: int) -> str:
    x = _x(name)
    fill = _CLOSED if STATE_TYPES[name] in CLOSED_STATES else "white"
    return (
        f'<rect x="{x - 29}" y="10" width="58" height="24" rx="5" fill="{fill}"'
        f' stroke="{_LINE}"/>'
        f'<text x="{x}" y="26" text-anchor="middle" font-size="11">{name}</text>'
        f'<path d="M{x} 34V{bottom}" stroke="#b0bec5" stroke-dasharray="2 3"/>'
    )


def _first_row() -> str:
    x, y = _x(arrows()[0].before), _y(0)
    return _label("the model asks for it", y) + _line(f"M{_GUTTER} {y}H{x}")


def _row(arrow: Arrow, y: int) -> str:
    before, after = _x(arrow.before), _x(arrow.after)
    way = f"H{after}"
    if arrow.before == arrow.after:
        way = "c26 -9 26 9 3 4"
    return (
        f"<g><title>{arrow.before} to {arrow.after}: {arrow.event}</title>"
        f"{_label(arrow.event, y)}{_line(f'M{before} {y}{way}')}"
        f'<circle cx="{before}" cy="{y}" r="3" fill="{_LINE}"/></g>'
    )


def _label(text: str, y: int) -> str:
    return f'<text x="10" y="{y + 4}">{text}</text>'


def _line(path: str) -> str:
    return f'<path d="{path}" fill="none" stroke="{_LINE}" marker-end="url(#head)"/>'


if __name__ == "__main__":
    print(svg())  # noqa: T201 - a script's output
