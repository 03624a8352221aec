"""Three agents as classes build a small library, and survive Ctrl-C at every line.

    python examples/librarian.py           build the library in ./library
    python examples/librarian.py --fresh   forget everything, and begin again

The architect asks the coder to write each module, and the reviewer to test it. Their
conversation is a thread in ./.librarian. Press Ctrl-C or kill the process whenever you
like, and start the program again: it goes on at the same call. The history of the
architect is compacted, so the conversation can go on for years.

The models are scripted, so it needs no API key. With OPENAI_API_KEY set, it uses the
real model.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from continuations import Agent, Compaction, Model, Replied, Runner, task, tool
from continuations.events import Compacted
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall

FOLDER = Path("library")
STORE = Path(".librarian")
REQUESTS = [
    "Write the module words: count(text) counts the words of a text.",
    "Write the module lines: longest(text) returns the longest line of a text.",
    "Write the module initials: initials(name) returns the initials of a name.",
    "Write the module vowels: vowels(text) counts the vowels of a text.",
]

# The agents ---------------------------------------------------------------------------


@dataclass
class Module:
    """A module that the coder wrote."""

    name: str
    lines: int


@dataclass
class Review:
    """The opinion of the reviewer."""

    passed: bool
    remarks: str


class Coder(Agent):
    """You write small Python modules with doctests."""

    @tool(idempotent=True)
    def save(self, name: str, source: str) -> str:
        """Save a module. A module of this name is replaced."""
        FOLDER.mkdir(exist_ok=True)
        path = FOLDER / f"{name}.py"
        path.write_text(source)
        print(f"  coder: saves {path}")
        return f"saved {len(source.splitlines())} lines"

    @task
    def write(self, name: str, purpose: str, remarks: str = "") -> Module:
        """Write a module, or improve it by the remarks of the reviewer. Save it."""
        raise NotImplementedError


class Reviewer(Agent):
    """You review Python modules. You are strict."""

    @tool(read_only=True)
    def run_doctests(self, name: str) -> str:
        """Run the doctests of a module, and return what they print."""
        command = [sys.executable, "-m", "doctest", str(FOLDER / f"{name}.py")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(f"  reviewer: tests {name}: {'fails' if done.returncode else 'passes'}")
        return done.stdout or "all examples pass"

    @task
    def review(self, name: str) -> Review:
        """Test a module, and say what must change."""
        raise NotImplementedError


class Architect(Agent):
    """You build a small Python library from the requests of its users.

    Let the coder write each module. Let the reviewer test it. Repeat until it passes.
    """

    # Small budgets, so that you see it happen.
    compaction = Compaction(soft=500, hard=3000, keep_last=4)

    def __init__(self, model: Model | str) -> None:
        coder, reviewer = Coder(model=model), Reviewer(model=model)
        super().__init__(model=model, tools=[coder.write, reviewer.review])


# The scripted models ------------------------------------------------------------------

SOURCES = {
    "words": 'def count(text):\n    """\n    >>> count("a b")\n    2\n    """\n'
    "    return len(text.split())\n",
    "lines": 'def longest(text):\n    """\n    >>> longest("a\\\\nbcd")\n    \'bcd\'\n'
    '    """\n    return max(text.splitlines(), key=len)\n',
    "initials": 'def initials(name):\n    """\n    >>> initials("Ada King")\n'
    "    'AK'\n    \"\"\"\n    return ''.join(word[0] for word in name.split())\n",
    "vowels": 'def vowels(text):\n    """\n    >>> vowels("tea")\n    2\n    """\n'
    "    return sum(letter in 'aeiou' for letter in text)\n",
}
# The coder's first attempt at this module has a fault, which the reviewer finds.
FIRST_ATTEMPTS = {"lines": SOURCES["lines"].replace("max", "min")}


def architect(request: ModelRequest) -> ScriptedReply:
    """Reply as the architect."""
    words = newest_request(request).split()
    name = words[3].strip(":")
    last = request.messages[-1].data
    if last["role"] == "user":
        purpose = " ".join(words[4:])
        return ToolCall("coder_write", {"name": name, "purpose": purpose})
    result = json.loads(last["content"])
    if "lines" in result:
        return ToolCall("reviewer_review", {"name": name})
    if result["passed"]:
        return f"The module {name} is ready."
    remarks = result["remarks"]
    return ToolCall(
        "coder_write", {"name": name, "purpose": "as before", "remarks": remarks}
    )


def coder(request: ModelRequest) -> ScriptedReply:
    """Reply as the coder."""
    asked = json.loads(request.messages[1].data["content"])
    name = asked["name"]
    source = SOURCES[name]
    if not asked["remarks"]:
        source = FIRST_ATTEMPTS.get(name, source)
    if request.messages[-1].role == "user":
        return ToolCall("save", {"name": name, "source": source})
    return json.dumps({"name": name, "lines": len(source.splitlines())})


def reviewer(request: ModelRequest) -> ScriptedReply:
    """Reply as the reviewer."""
    last = request.messages[-1].data
    if last["role"] == "user":
        return ToolCall("run_doctests", json.loads(last["content"]))
    passed = last["content"] == "all examples pass"
    remarks = "" if passed else "A doctest fails."
    return json.dumps({"passed": passed, "remarks": remarks})


def summary(_request: ModelRequest) -> ScriptedReply:
    """Write the summary of the work of the architect."""
    done = sorted(path.stem for path in FOLDER.glob("*.py"))
    return f"The library has the modules {', '.join(done)}."


def newest_request(request: ModelRequest) -> str:
    """Return the newest request of the user; a summary is a user message too."""
    texts = [str(message.data["content"]) for message in request.messages]
    return [text for text in texts if text.startswith("Write the module")][-1]


def make_model() -> Model | str:
    """Return the real model if there is a key, or the scripted one."""
    if os.environ.get("OPENAI_API_KEY"):
        return "gpt-5-mini"
    return ScriptedModel(
        {
            "architect": architect,
            "architect/summary": summary,
            "coder_write": coder,
            "reviewer_review": reviewer,
        }
    )


# The program --------------------------------------------------------------------------


def build() -> None:
    """Send each request. A request that has its reply is not worked on again."""
    runner = Runner(Architect(make_model()), store=f"file:{STORE}", lease=3.0)
    thread = runner.thread("architect", key="library")
    for number, text in enumerate(REQUESTS, 1):
        print(f"user: {text}")
        reply = thread.send(text, id=f"request-{number}")
        if not isinstance(reply, Replied):
            sys.exit(f"The request has no reply: {reply}")
        print(f"architect: {reply.output}")
    newest = thread.look()
    for event in runner.events(newest.run_id) if newest is not None else ():
        if isinstance(event, Compacted):
            tokens = f"{event.tokens_before} to {event.tokens_after} tokens"
            print(f"The history of the architect went from {tokens}.")
    print(f"The library has {len(list(FOLDER.glob('*.py')))} modules.")


def main() -> None:
    """Build the library, or go on building it."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if "--fresh" in sys.argv[1:]:
        shutil.rmtree(STORE, ignore_errors=True)
        shutil.rmtree(FOLDER, ignore_errors=True)
    try:
        build()
    except KeyboardInterrupt:
        sys.exit("Interrupted. Start the program again, and it goes on.")


if __name__ == "__main__":
    main()
