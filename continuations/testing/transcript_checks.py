"""The transcript of a run: all messages of all agents, and checks of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from continuations.testing.expectation import fail
from continuations.testing.recording_file import fields_of, items_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from continuations import Continuation, Frame

_MAX_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptCall:
    """One tool call of a transcript.

    Attributes:
        agent: Name of the agent whose model made the call.
        tool: Name of the tool.
        arguments: Arguments as the model wrote them. Text that is not a JSON object is
            under the key `""`.
        result: Text of the tool message, or `None` before the call has ended.
    """

    agent: str
    tool: str
    arguments: Mapping[str, Any]
    result: str | None

    def __str__(self) -> str:
        """Return the call as Python code."""
        shown = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.tool}({shown})"


class Transcript:
    """All messages of a run, as `AgentHarness.transcript` returns them.

    The messages of a sub-agent that made no call may be missing. Its reply is the
    result of the call.

    Args:
        versions: Versions of the run, the oldest first.

    Attributes:
        messages: The messages of each frame, by the frame's id, and in it the agent's
            name and the messages in the chat completions format.
    """

    def __init__(self, versions: Sequence[Continuation]) -> None:
        self.messages: dict[str, tuple[str, list[dict[str, Any]]]] = {}
        self._agents: dict[str, list[str]] = {}
        for version in versions:
            for frame in _frames(version):
                self._add(frame)

    def _add(self, frame: Frame) -> None:
        """Add the new messages of a frame; a handoff or a summary may drop others."""
        _, known = self.messages.get(frame.id, ("", list[dict[str, Any]]()))
        agents = self._agents.setdefault(frame.id, [])
        self.messages[frame.id] = (frame.agent, known)
        place, earlier = 0, len(known)
        for message in frame.messages:
            if message in known[place:earlier]:
                place = known.index(message, place) + 1
            else:
                known.append(message)
                agents.append(frame.agent)

    def __str__(self) -> str:
        """Return one line for each message."""
        return "\n".join(self._lines())

    def calls(self, tool: str | None = None) -> list[TranscriptCall]:
        """Return the tool calls that models made.

        Args:
            tool: Return only calls of this tool. `None`: of every tool.

        Returns:
            The calls, agent by agent. A denied call is one of them.
        """
        return [
            call
            for frame, (_, messages) in self.messages.items()
            for call in _calls(self._agents[frame], messages)
            if tool in (None, call.tool)
        ]

    def texts(self, role: str | None = None) -> list[str]:
        """Return the texts of the messages.

        Args:
            role: Return only messages of this role, for example `assistant`. `None`:
                of every role.

        Returns:
            The texts, agent by agent. Messages without a text are left out.
        """
        return [
            text
            for _, messages in self.messages.values()
            for message in messages
            if role in (None, message["role"]) and (text := _text(message))
        ]

    def assert_called(self, tool: str, /, **arguments: Any) -> None:
        """Check that a model called a tool.

        A call may wait or be denied: what a tool did is an effect, see `Effects`.

        Args:
            tool: Name of the tool.
            arguments: Arguments that the call must have. It may have more.

        Raises:
            AssertionError: There is no such call.
        """
        __tracebackhide__ = True
        if not self._matching(tool, arguments):
            wanted = TranscriptCall(
                agent="", tool=tool, arguments=arguments, result=None
            )
            fail(f"No model called {wanted}. {self._calls_text()}")

    def assert_not_called(self, tool: str, /, **arguments: Any) -> None:
        """Check that no model called a tool.

        Args:
            tool: Name of the tool.
            arguments: Look only at calls with these arguments.

        Raises:
            AssertionError: There is such a call.
        """
        __tracebackhide__ = True
        found = self._matching(tool, arguments)
        if found:
            fail(f"{found[0].agent} called {found[0]}. {self._calls_text()}")

    def assert_result(self, tool: str, text: str) -> None:
        """Check that the result of a call contains a text.

        The results of a turn become messages when all of its calls have ended.

        Args:
            tool: Name of the tool.
            text: The text, as the model read it.

        Raises:
            AssertionError: No call of the tool has such a result.
        """
        __tracebackhide__ = True
        results = [call.result for call in self.calls(tool)]
        if not any(text in result for result in results if result is not None):
            shown = "\n".join(f"  {result!r}" for result in results) or "  (no call)"
            fail(f"No result of {tool} contains {text!r}. Results:\n{shown}")

    def assert_said(self, text: str, *, role: str = "assistant") -> None:
        """Check that a message contains a text.

        Args:
            text: The text.
            role: Role of the message.

        Raises:
            AssertionError: No message of the role contains the text.
        """
        __tracebackhide__ = True
        if not any(text in each for each in self.texts(role)):
            fail(f"No message of role {role} contains {text!r}. Transcript:\n{self}")

    def _matching(
        self, tool: str, arguments: Mapping[str, Any]
    ) -> list[TranscriptCall]:
        return [
            call
            for call in self.calls(tool)
            if all(
                name in call.arguments and call.arguments[name] == value
                for name, value in arguments.items()
            )
        ]

    def _calls_text(self) -> str:
        lines = [f"  {call.agent}: {call}" for call in self.calls()]
        return "Calls:\n" + ("\n".join(lines) or "  (no calls)")

    def _lines(self) -> Iterator[str]:
        for frame, (_, messages) in self.messages.items():
            for agent, message in zip(self._agents[frame], messages, strict=True):
                head = f"  {agent} {message['role']}:"
                if text := _text(message):
                    yield f"{head} {_shortened(text)}"
                for call in _calls([agent], [message]):
                    yield f"{head} {_shortened(str(call))}"


def _frames(version: Continuation) -> Iterator[Frame]:
    # A stack of frames may be deep: no recursion.
    frames = [version.root]
    while frames:
        frame = frames.pop()
        yield frame
        nested = [call.frame for call in frame.calls if call.frame is not None]
        frames.extend(reversed(nested))


def _calls(
    agents: Sequence[str], messages: Sequence[Mapping[str, Any]]
) -> Iterator[TranscriptCall]:
    for index, message in enumerate(messages):
        # The results follow their calls at once. Some providers repeat the ids later.
        following = takewhile(_is_result, messages[index + 1 :])
        results = {each["tool_call_id"]: _text(each) for each in following}
        for call in message.get("tool_calls") or ():
            body = call[call.get("type", "function")]
            yield TranscriptCall(
                agent=agents[index],
                tool=body["name"],
                arguments=_arguments(body.get("arguments", body.get("input", ""))),
                result=results.get(call["id"]),
            )


def _is_result(message: Mapping[str, Any]) -> bool:
    role: str = message["role"]
    return role == "tool"


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        fields = fields_of(json.loads(text))
    except ValueError:
        fields = None
    return {"": text} if fields is None else fields


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if (parts := items_of(content)) is not None:
        return "".join(str(part.get("text", "")) for part in parts)
    return str(content or "")


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN else line[:_MAX_SHOWN] + " …"
