"""Agents three deep whose tools return images and files, and what their models see."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from continuations import Agent, tool
from continuations.attachments import File, Image
from continuations.core.rows.attachments import attachments_of
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel
from tests import effect_log, scripts
from tests.engine.agent_builders import text_tool
from tests.scripts import Script

PHOTO = Image(b"\x89PNG the photo", "image/png")
CHART = Image(b"\x89PNG the chart", "image/png")
REPORT = File(b"%PDF the report", "application/pdf", "report.pdf")
# Three agents draw and publish. The last message of the root agent lists what it sees.
DEEP_SCRIPT: Script = {
    "go": [
        [scripts.call("draw", what="pie"), scripts.call("hr", input="below")],
        [scripts.call("publish", what="pie")],
        "root saw SEEN",
    ],
    "below": [[scripts.call("clerk", input="desk")], "hr done"],
    "desk": [
        [scripts.call("draw", what="line"), scripts.call("publish", what="line")],
        "saw SEEN",
    ],
}


@tool(idempotent=True)
def draw(what: str) -> list[str | Image | File]:
    """Draw something; a call may be repeated."""
    effect_log.append_effect("draw", what)
    return [f"Drawn: {what}.", CHART, REPORT]


@tool
def paint(what: str) -> Image:
    """Paint something; the call may not be repeated."""
    effect_log.append_effect("paint", what)
    return Image(b"\x89PNG " + what.encode(), "image/png")


publish = text_tool(
    "publish", "published {what}", {"what": str}, logs=True, approval=True
)
TOOLS = (draw, paint, publish)


def seen(request: ModelRequest) -> list[str]:
    """Return the contents that a model sees, in order; each fits its digest."""
    names: list[str] = []
    for attachment in attachments_of(request.messages):
        data = request.files[attachment.digest]
        assert attachment.digest == f"sha256:{sha256(data).hexdigest()}"
        assert attachment.size == len(data)
        names.append(data.decode("latin-1").partition(" ")[2])
    assert len(set(names)) == len(request.files)
    return names


def seeing_model(script: Script) -> ScriptedModel:
    """Return a model that follows a script; `SEEN` in a text lists what it sees."""

    def next_reply(request: ModelRequest) -> Any:
        messages = [message.data for message in request.messages]
        task, turn = _task(messages), scripts.turn_count(messages)
        effect_log.append_turn(task, turn)
        line = script[task][turn]
        if isinstance(line, str):
            line = line.replace("SEEN", ", ".join(seen(request)))
        else:
            seen(request)
        return scripts.assistant_message(line, turn)

    return ScriptedModel(next_reply)


def _task(messages: list[dict[str, Any]]) -> str:
    content: Any = next(each["content"] for each in messages if each["role"] == "user")
    return content if isinstance(content, str) else content[0]["text"]


def three_deep(script: Script) -> Agent:
    """Return boss > hr > clerk."""
    model = seeing_model(script)
    clerk = Agent("clerk", tools=[*TOOLS], model=model)
    hr = Agent("hr", tools=[clerk, *TOOLS], model=model)
    return Agent("boss", tools=[hr, *TOOLS], model=model)


def agents() -> list[Agent]:
    return [three_deep(scripts.of_environment())]
