"""The decisions of a test: choose the wait that is meant, and end it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from continuations import Answer, Approve, Deny, Fail
from continuations.testing.expectation import fail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations import Runner, Wait
    from continuations.results import Decision, Verdict, Vote


_DECIDER = "tester"


class WaitDecider(ABC):
    """Finds the open waits of one run by tool or kind, decides and checks them.

    Attributes:
        runner: The runner.
    """

    runner: Runner[Any]

    @property
    @abstractmethod
    def run_id(self) -> str:
        """Id of the run."""

    @property
    def waits(self) -> tuple[Wait, ...]:
        """The open waits of the run, the oldest first."""
        return self.runner.look(self.run_id).waits

    def wait(self, tool: str | None = None, *, kind: str | None = None) -> Wait:
        """Return the open wait of a tool and a kind.

        Args:
            tool: Name of the tool. `None`: any tool.
            kind: Kind of the wait, for example `approval`. `None`: any kind.

        Returns:
            The wait.

        Raises:
            AssertionError: There is no such wait, or there are several.
        """
        __tracebackhide__ = True
        return select(self.waits, tool, kind)

    def decide(
        self, verdict: Verdict, tool: str | None = None, *, kind: str | None = None
    ) -> Decision | Vote:
        """Decide a wait; the run continues at the next `resume` or `sweep`.

        Args:
            verdict: `Approve`, `Deny`, `Answer` or `Fail`.
            tool: Name of the tool. `None`: any tool.
            kind: Kind of the wait. `None`: any kind.

        Returns:
            The recorded decision or vote. Errors are those of `Runner.decide`.

        Raises:
            AssertionError: There is no such wait, or there are several.
        """
        __tracebackhide__ = True
        return self.runner.decide(self.wait(tool, kind=kind).id, verdict)

    def approve(
        self,
        tool: str | None = None,
        *,
        kind: str | None = None,
        by: str = _DECIDER,
        arguments: Mapping[str, Any] | None = None,
    ) -> Decision | Vote:
        """Approve a call that waits.

        Args:
            tool: Name of the tool. `None`: any tool.
            kind: Kind of the wait. `None`: any kind.
            by: The person who approves.
            arguments: Arguments instead of those of the wait. `None`: no edit.

        Returns:
            The recorded decision or vote. Errors are those of `Runner.decide`.

        Raises:
            AssertionError: There is no such wait, or there are several.
        """
        __tracebackhide__ = True
        return self.decide(Approve(by=by, arguments=arguments), tool, kind=kind)

    def deny(
        self,
        tool: str | None = None,
        *,
        kind: str | None = None,
        by: str = _DECIDER,
        reason: str | None = None,
    ) -> Decision | Vote:
        """Deny a call that waits.

        Args:
            tool: Name of the tool. `None`: any tool.
            kind: Kind of the wait. `None`: any kind.
            by: The person who denies.
            reason: Why. The model reads it.

        Returns:
            The recorded decision or vote. Errors are those of `Runner.decide`.

        Raises:
            AssertionError: There is no such wait, or there are several.
        """
        __tracebackhide__ = True
        return self.decide(Deny(by=by, reason=reason), tool, kind=kind)

    def answer(
        self,
        value: Any,
        tool: str | None = None,
        *,
        kind: str | None = None,
        by: str = _DECIDER,
    ) -> Decision | Vote:
        """Give a wait its value: an answer, the data of an event, a job's result.

        Args:
            value: The value.
            tool: Name of the tool. `None`: any tool.
            kind: Kind of the wait. `None`: any kind.
            by: The person or program that answers.

        Returns:
            The recorded decision or vote. Errors are those of `Runner.decide`.

        Raises:
            AssertionError: There is no such wait, or there are several.
        """
        __tracebackhide__ = True
        return self.decide(Answer(value, by=by), tool, kind=kind)

    def fail(
        self,
        error: str,
        tool: str | None = None,
        *,
        kind: str | None = None,
        by: str = _DECIDER,
    ) -> Decision | Vote:
        """Say that an awaited event does not come, or that a job failed.

        Args:
            error: The reason. The model reads it.
            tool: Name of the tool. `None`: any tool.
            kind: Kind of the wait. `None`: any kind.
            by: The person or program that says so.

        Returns:
            The recorded decision or vote. Errors are those of `Runner.decide`.

        Raises:
            AssertionError: There is no such wait, or there are several.
        """
        __tracebackhide__ = True
        return self.decide(Fail(error, by=by), tool, kind=kind)

    def assert_waits(self, *tools: str) -> None:
        """Check for which tools the run waits.

        Args:
            tools: Names of the tools, one for each open wait, in any order. Without a
                name, no wait may be open.

        Raises:
            AssertionError: The run waits for other tools.
        """
        __tracebackhide__ = True
        waits = self.waits
        if sorted(wait.tool for wait in waits) != sorted(tools):
            expected = ", ".join(tools) or "none"
            shown = describe(waits)
            fail(
                f"The run has other open waits, expected: {expected}. It has:\n{shown}"
            )


def select(waits: Sequence[Wait], tool: str | None, kind: str | None) -> Wait:
    """Return the one wait of a tool and a kind; raises `AssertionError`."""
    __tracebackhide__ = True
    found = [
        wait
        for wait in waits
        if tool in (None, wait.tool) and kind in (None, wait.kind)
    ]
    if len(found) != 1:
        wanted = " ".join(filter(None, ["wait", kind and f"of kind {kind}"]))
        wanted += f" of {tool}" if tool else ""
        advice = (
            "Pass tool= or kind=, or decide by id: runner.decide(wait.id, …)"
            if found
            else "Run the agent until it waits, or name another tool or kind"
        )
        fail(
            f"{len(found)} open waits fit, expected one {wanted}. {advice}. Open "
            f"waits:\n{describe(waits)}"
        )
    return found[0]


def describe(waits: Sequence[Wait]) -> str:
    """Return one line for each wait."""
    return "\n".join(f"  {_line(wait)}" for wait in waits) or "  (no open waits)"


def _line(wait: Wait) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in wait.arguments.items())
    parts = [f"{wait.kind} of {wait.tool}({arguments})"]
    if wait.question:
        parts.append(repr(wait.question))
    if wait.event:
        key = "" if wait.event_key is None else f", key {wait.event_key!r}"
        parts.append(f"event {wait.event!r}{key}")
    if wait.deadline:
        parts.append(f"until {wait.deadline.isoformat()}")
    return ", ".join(parts)
