"""Effects: what tools did outside the run, as a test counts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from continuations.testing.expectation import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect.

    Attributes:
        name: Name of the effect, for example `pay`.
        details: The values of this effect.
    """

    name: str
    details: Mapping[str, Any]

    def __str__(self) -> str:
        """Return the effect as a call."""
        details = ", ".join(f"{name}={value!r}" for name, value in self.details.items())
        return f"{self.name}({details})"


class Effects:
    """A list of effects. It survives a simulated crash, like effects in other systems.

    A result of a tool does not prove that the tool ran once. Let the tool, or the
    function that stands for a client in the test, record here what it does.
    """

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def __repr__(self) -> str:
        return f"<Effects: {len(self._effects)}>"

    def __str__(self) -> str:
        """Return one line for each effect."""
        return "\n".join(f"  {effect}" for effect in self._effects) or "  (no effects)"

    def record(self, name: str, /, **details: Any) -> None:
        """Record an effect.

        Args:
            name: Name of the effects.
            details: The values of this effect.
        """
        self._effects.append(Effect(name, details))

    def function(self, name: str, result: Any = None) -> Callable[..., Any]:
        """Return a function that records its calls, in place of a client's function.

        Args:
            name: The name of the effects.
            result: The result of the function.

        Returns:
            A function that takes keyword arguments only.
        """

        def recording(**details: Any) -> Any:
            self.record(name, **details)
            return result

        return recording

    def of(self, name: str, /, **details: Any) -> list[Effect]:
        """Return the effects of a name.

        Args:
            name: Name of the effects.
            details: Return only effects with these values. Others may have more.

        Returns:
            The effects, in order.
        """
        return [
            effect
            for effect in self._effects
            if effect.name == name
            and all(
                key in effect.details and effect.details[key] == value
                for key, value in details.items()
            )
        ]

    def assert_times(self, times: int, name: str, /, **details: Any) -> None:
        """Check how often something was done.

        Args:
            times: The expected number.
            name: Name of the effects.
            details: Count only effects with these values.

        Raises:
            AssertionError: It was done more or less often.
        """
        __tracebackhide__ = True
        found = len(self.of(name, **details))
        if found != times:
            wanted = Effect(name, details)
            fail(f"{wanted} happened {found} times, expected {times}. Effects:\n{self}")

    def assert_once(self, name: str, /, **details: Any) -> None:
        """Check that something was done exactly once.

        Args:
            name: Name of the effects.
            details: Count only effects with these values.

        Raises:
            AssertionError: It was not done, or more than once.
        """
        __tracebackhide__ = True
        self.assert_times(1, name, **details)

    def assert_none(self, name: str, /, **details: Any) -> None:
        """Check that something was not done.

        Args:
            name: Name of the effects.
            details: Count only effects with these values.

        Raises:
            AssertionError: It was done.
        """
        __tracebackhide__ = True
        self.assert_times(0, name, **details)
