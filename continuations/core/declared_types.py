"""Types that an application declares: of an agent's output, and of its own object.

`Agent("x", output_type=Claim)` is an `Agent[Claim]`, and its runs finish with a
`Finished[Claim]`. Without a parameter, each of these types has any output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # A default (PEP 696) exists in `typing` since Python 3.13. Type checkers know
    # `typing_extensions` without its package.
    from typing_extensions import TypeVar

    Output = TypeVar("Output", default=Any, covariant=True)  # noqa: PLC0105 - a public name
else:
    from typing import TypeVar

    Output = TypeVar("Output", covariant=True)  # noqa: PLC0105 - likewise

__all__ = ["Output"]


def is_context_class(type_: Any) -> bool:
    """Return whether `isinstance` takes the type of `context=`; `None`: no type."""
    if type_ is None:
        return True
    try:
        isinstance(None, type_)
    except TypeError:
        return False
    return not isinstance(type_, tuple)
