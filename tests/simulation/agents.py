"""Small trees of agents with scripted models.

A model keeps no position: the number of assistant messages selects its next line.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations import Agent, ApprovalPolicy, Compaction
from continuations.core import jsontext
from continuations.core.messages import Message
from continuations.core.rows.attachments import attachments_of, digest_of
from continuations.errors import ModelError
from continuations.models.interface import ModelReply, PendingReply
from continuations.tools import Handoff, handoff
from tests.simulation.costs import charging
from tests.simulation.guards.tools import GUARDRAILS, HOOKS, REFUSED_TASK
from tests.simulation.judging.guardrails import JUDGED
from tests.simulation.processes import ProcessKilled, current_process
from tests.simulation.seams.tools import first_name, names_after
from tests.simulation.sim_environment import ModelTurn
from tests.simulation.state.tools import Kept
from tests.simulation.streams import actors as readers
from tests.simulation.tools import TOOLS, deployed_tools
from tests.simulation.workflows.trees import FLOW_TREES, FlowTree

if TYPE_CHECKING:
    from continuations.guardrails import Guardrails
    from continuations.models.interface import LostReply, ModelRequest
    from tests.simulation.fault_schedule import Deployment

# A final text, or calls: the name of the tool and its argument `what`.
Line: TypeAlias = "str | Sequence[tuple[str, str]]"
# The lines of each frame, by its task.
Script: TypeAlias = Mapping[str, Sequence[Line]]


# Models -----------------------------------------------------------------------------


class SimModel:
    """Replies with the line that a conversation has come to, or raises an error.

    It calls tools and agents by the names that its process has for them.
    """

    name = "simulated"

    def __init__(self, script: Script, new_names: Mapping[str, str]) -> None:
        self._script = script
        self._new_names = new_names

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Record the turn, take some virtual time, and reply, perhaps later."""
        process = current_process()
        environment = process.environment
        if environment.closed:
            raise ProcessKilled
        await process.freeze_before_call()
        task = task_of(request.messages)
        turn = self.turn_of(request.messages)
        environment.model_turns.append(
            ModelTurn(
                process=process.name,
                run_id=request.run_id,
                frame_task=task,
                turn=turn,
                agent=request.agent,
                messages=tuple(message.text for message in request.messages),
                clock_sample=process.clock_sample,
                began_at=environment.next_timestamp,
            )
        )
        environment.log_event(process.name, "model turn", task, turn)
        if process.draw_fault("die_in_call") is not None:
            await process.die_here()
        await asyncio.sleep(0.2 + process.rng.random() * 2)
        await readers.write(request)
        if process.draw_fault("die_in_call") is not None:
            await process.die_here()
        if process.draw_fault("model_error") is not None:
            raise ModelError("simulated error")
        if environment.provider is not None:
            pending = environment.provider.answer(request.run_id, task, turn)
            if pending is not None:
                return pending
        return self._reply_of(request.messages)

    async def poll(
        self, reply_id: str, request: ModelRequest
    ) -> ModelReply | PendingReply | LostReply:
        """Ask the slow provider for a reply."""
        process = current_process()
        environment = process.environment
        if environment.closed:
            raise ProcessKilled
        await process.freeze_before_call()
        task = task_of(request.messages)
        turn = sum(message.role == "assistant" for message in request.messages)
        provider = environment.provider
        assert provider is not None
        answer = provider.poll(reply_id, request.run_id, task, turn)
        await asyncio.sleep(0.1 + process.rng.random())
        if process.draw_fault("die_in_call") is not None:
            await process.die_here()
        return self._reply_of(request.messages) if answer is None else answer

    def _reply_of(self, messages: Sequence[Message]) -> ModelReply:
        turn = self.turn_of(messages)
        line = self._next_line(messages)
        if not isinstance(line, str):
            line = [(self._new_names.get(name, name), what) for name, what in line]
        return charging.charged(_assistant_message(line, turn))

    def turn_of(self, messages: Sequence[Message]) -> int:
        """Return how many turns a conversation has had."""
        return sum(message.role == "assistant" for message in messages)

    def _next_line(self, messages: Sequence[Message]) -> Line:
        """Return the line that a conversation has come to."""
        turn = self.turn_of(messages)
        # After a message to the run, the model says its last line once more.
        lines = self._script[task_of(messages)]
        return lines[min(turn, len(lines) - 1)]


def thread_reply(texts: Sequence[str]) -> str:
    """Return the reply of a thread after these messages."""
    return f"answers {'; '.join(texts)}"


class FileModel(SimModel):
    """Also compares the bytes that it gets with the attachments of the messages."""

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Check the bytes, and make the next turn."""
        environment = current_process().environment
        for each in attachments_of(request.messages):
            data = request.files.get(each.digest)
            if data is None or digest_of(data) != each.digest:
                environment.wrong_files.append(f"{request.run_id} lacks {each.label}")
        return await super().reply(request)


class ThreadModel(SimModel):
    """Answers each message of a thread with the lines of its last word, its wish.

    The reply names every message that the model has read. The task of an agent below
    begins with the name of its lines.
    """

    def _next_line(self, messages: Sequence[Message]) -> Line:
        name, _, asked = task_of(messages).partition(" ")
        if asked and name in self._script:
            turn = sum(message.role == "assistant" for message in messages)
            lines = self._script[name]
            return lines[min(turn, len(lines) - 1)]
        texts: list[str] = []
        turns = 0
        for message in messages:
            if message.role == "user":
                texts.append(message.content)
                turns = 0
            elif message.role == "assistant":
                turns += 1
        last = texts[-1]
        lines = self._script.get(last.rpartition(" ")[2], ())
        if turns >= len(lines):
            return thread_reply(texts)
        line = lines[turns]
        assert not isinstance(line, str)
        return [
            (tool, what if tool in TOOLS else f"{what} {last}") for tool, what in line
        ]


_SUMMARY = re.compile(r"summary of (\d+) turns")


def summarized_turns(text: str) -> int:
    """Return of how many turns a text has a summary."""
    return max((int(number) for number in _SUMMARY.findall(text)), default=0)


class ShortenedModel(SimModel):
    """Also writes summaries: each says how many turns it stands for."""

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Write a summary, or make the next turn."""
        if not request.agent.endswith("/summary"):
            return await super().reply(request)
        process = current_process()
        environment = process.environment
        if environment.closed:
            raise ProcessKilled
        await process.freeze_before_call()
        text = request.messages[-1].content
        turns = summarized_turns(text) + text.count("[assistant]")
        relied_on = process.clock_sample.true_time
        environment.summaries.append((request.run_id, turns, relied_on))
        environment.log_event(process.name, "summary", turns)
        await asyncio.sleep(0.2 + process.rng.random() * 2)
        if process.draw_fault("die_in_call") is not None:
            await process.die_here()
        if process.draw_fault("model_error") is not None:
            raise ModelError("simulated error")
        return ModelReply(message=_assistant_message(f"summary of {turns} turns", 0))

    def turn_of(self, messages: Sequence[Message]) -> int:
        """Return how many turns a conversation has had, also the summarized ones."""
        told = max(summarized_turns(message.content) for message in messages)
        return told + super().turn_of(messages)


class FilteredModel(SimModel):
    """Counts the turns by the ids of its calls: a handoff may drop older messages."""

    def turn_of(self, messages: Sequence[Message]) -> int:
        """Return how many turns a conversation has had, also the dropped ones."""
        numbers = [
            int(id_.split("_")[1]) for each in messages for id_ in each.tool_call_ids
        ]
        last = max(numbers, default=-1)
        texts = sum(
            each.role == "assistant" and not each.tool_call_ids for each in messages
        )
        return last + 1 + texts


def task_of(messages: Sequence[Message]) -> str:
    """Return the first user message of a frame, which identifies the frame."""
    return next(message.content for message in messages if message.role == "user")


def _assistant_message(line: Line, turn: int) -> Message:
    if isinstance(line, str):
        return Message.from_mapping({"role": "assistant", "content": line})
    calls = [
        {
            "id": f"call_{turn}_{number}",
            "type": "function",
            "function": {"name": name, "arguments": _arguments_json(name, what)},
        }
        for number, (name, what) in enumerate(line)
    ]
    return Message.from_mapping(
        {"role": "assistant", "content": None, "tool_calls": calls}
    )


HANDOFF = "transfer_to_"


def _arguments_json(name: str, what: str) -> str:
    if name.startswith(HANDOFF):
        return "{}"
    parameter = "what" if first_name(name) in TOOLS else "input"
    return jsontext.canonical({parameter: what})


# Trees ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of agents; the task of its root is "go".

    A name in `sub_agents` that ends with `?` is a sub-agent that needs approval. A
    number after `?` is the validity of the approval in seconds.
    """

    name: str
    script: Script
    sub_agents: Mapping[str, Any]
    model: type[SimModel] = SimModel
    state: type[Any] | None = None
    compaction: Compaction | None = None
    guarded: bool = False
    judged: bool = False
    # Agents that get a conversation by handoffs, with the tools that only they have.
    holders: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]]
    )
    # Whether the next agent reads no turn before that of the handoff.
    filters: bool = False

    @property
    def tool_names(self) -> frozenset[str]:
        called = {
            call[0] for lines in self.script.values() for line in lines for call in line
        }
        return frozenset(called & TOOLS.keys())

    @property
    def guardrails(self) -> Guardrails | None:
        if self.judged:
            return JUDGED
        return GUARDRAILS if self.guarded else None

    def make_root(self, change: Deployment | None) -> Agent:
        new_names, deployed = names_after(change), deployed_tools(change)
        model = self.model(self.script, new_names)
        tools = [
            deployed[name]
            for name in TOOLS
            if name in self.tool_names & deployed.keys()
        ]

        def make_agent(agent_name: str, below: Mapping[str, Any]) -> Agent:
            if self.holders and not below:
                return self._holding(agent_name, model, deployed)
            children = [make_child(each, inner) for each, inner in below.items()]
            # The root also reads messages, and its first one is its task.
            shortened = self.compaction if agent_name != self.name else None
            return Agent(
                agent_name,
                tools=[*tools, *children],
                model=model,
                compaction=shortened,
                state=self.state,
                hooks=HOOKS if self.guarded else None,
                guardrails=self.guardrails,
            )

        def make_child(child_name: str, below: Mapping[str, Any]) -> Any:
            plain_name, _, seconds = child_name.partition("?")
            child = make_agent(new_names.get(plain_name, plain_name), below)
            if plain_name == child_name:
                return child
            policy = ApprovalPolicy(valid_for=int(seconds) if seconds else None)
            return child.as_tool(approval=policy)

        return make_agent(self.name, self.sub_agents)

    def _holding(
        self, name: str, model: SimModel, deployed: Mapping[str, Any]
    ) -> Agent:
        """Make an agent that hands its conversation to others, and they to it."""
        own = self.tool_names.difference(*self.holders.values())
        agents: list[Agent] = []
        for each, tools in {name: tuple(sorted(own)), **self.holders}.items():
            agent = Agent(
                each,
                instructions=instructions_of(each),
                tools=[deployed[tool] for tool in tools],
                model=model,
                handoffs=partial(_others, agents, each, filters=self.filters),
            )
            agents.append(agent)
        return agents[0]


def _others(
    agents: Sequence[Agent], name: str, *, filters: bool
) -> list[Agent | Handoff]:
    others = [each for each in agents if each.name != name]
    if not filters:
        return [*others]
    return [handoff(each, filter=of_people) for each in others]


def of_people(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep the messages of people only, as the filter of a handoff."""
    return [each for each in messages if each["role"] == "user"]


def instructions_of(agent: str) -> str:
    """Return the instructions of an agent of a tree with handoffs."""
    return f"You are {agent}."


def _turns(text: str) -> list[Line]:
    """Return the calls of each turn: `pay 1, act 2; look 3` has two turns."""
    turns = (turn.split(", ") for turn in text.split("; ") if turn)
    parts = ([call.partition(" ") for call in turn] for turn in turns)
    return [[(name, what) for name, _, what in turn] for turn in parts]


def _tree(
    name: str,
    frames: str | Mapping[str, str],
    sub_agents: Mapping[str, Any] | None = None,
    **options: Any,
) -> Tree:
    """Return a tree whose frames make turns, and end with a text; `go` is its root."""
    texts = {"go": frames} if isinstance(frames, str) else frames
    script = {
        task: [*_turns(text), "end" if task == "go" else f"{task} end"]
        for task, text in texts.items()
    }
    return Tree(name, script, sub_agents or {}, **options)


def _by_name(*trees: Tree) -> dict[str, Tree]:
    return {tree.name: tree for tree in trees}


# The order is part of the random draws: append new trees at the end.
TREES = _by_name(
    _tree("plain", "act 1"),
    _tree("turns", "look 1; push 2, act 3"),
    _tree("one", "pay 1"),
    _tree("mixed", "pay 1, act 2, push 3"),
    _tree("two", "pay 1; post 2"),
    _tree("five", "pay pay, post post, sign sign, book book, pay pay"),
    _tree("deep", {"go": "hr A", "A": "clerk B", "B": "pay 1"}, {"hr": {"clerk": {}}}),
    _tree(
        "wide",
        {"go": "left A, right B", "A": "pay 1", "B": "act 2; post 3"},
        {"left": {}, "right": {}},
    ),
    _tree("approved_agent", {"go": "clerk A", "A": "act 1"}, {"clerk?": {}}),
    _tree("expiry", "sign 1, act 2"),
    _tree("expiry_stops", "expiry_stops 1, pay 2"),
    _tree("short_approval", "short_approval 1"),
    _tree("denial_stops", "denial_stops 1, pay 2"),
    _tree("check", "check 1; check 22"),
    _tree("slow", "slow 1"),
    _tree("slow_idempotent", "slow_idempotent 1, look 2"),
    _tree("slow_payment", "slow_payment 1, book 22"),
    _tree("kill_worker", "kill_worker 1, pay 2"),
    _tree("fail", "fail 1, pay 2"),
)
# Trees whose own code stops every process that works on them; such runs never end.
POISON_TREES = _by_name(
    _tree("poison_tool", "look 1; cancel_self 2"),
    _tree("poison_policy", "look 1; poisoned 2"),
)


# Trees of calls that may not begin, or begin again, when their approval is too old.
SHORT_APPROVAL_TREES = _by_name(
    _tree("short_post", "short_post 1"),
    _tree("short_clerk", {"go": "clerk A", "A": "look 1"}, {"clerk?15": {}}),
)


# Trees whose calls take too long, and may have an effect after that.
TIMEOUT_TREES = _by_name(
    _tree("timeout", "transfer 1, act 2"),
    _tree("approved_timeout", "charge 1; charge 22, transfer 3"),
)


# Trees whose tools wait: for an answer, a time, an event, a job of another system.
WAITING_TREES = _by_name(
    _tree("ask", "ask_only 1, act 2"),
    _tree("ask_then", "ask_then 1, look 2"),
    _tree(
        "ask_deep",
        {"go": "hr A, ask_only 1", "A": "clerk B", "B": "ask_then 2; pay 3"},
        {"hr": {"clerk": {}}},
    ),
    _tree("deadlines", "ask_standard 1, ask_or_deny 2, ask_or_fail 3"),
    _tree("naps", "nap 1, nap_only 2"),
    _tree("job", "job 1"),
    _tree("job_again", "job_again 1"),
    _tree(
        "jobs",
        {
            "go": "left A, right B, event 1",
            "A": "job 2, job_again 3",
            "B": "ask_standard 1; act 2",
        },
        {"left": {}, "right": {}},
    ),
)


# Trees whose tools wait again and again.
STAGED_TREES = _by_name(
    _tree("ask_thrice", "ask_thrice 1, act 2"),
    _tree("poll", "poll 1; act 2"),
    _tree(
        "stages",
        {
            "go": "left A, right B",
            "A": "poll 2, ask_and_nap 3",
            "B": "ask_thrice 1; act 2",
        },
        {"left": {}, "right": {}},
    ),
)


# Trees whose models repeat the same calls, also after a denial.
REPEATING_TREES = _by_name(
    _tree("stubborn", "; ".join(["pay 1"] * 6)),
    _tree(
        "stubborn_deep",
        {
            "go": "clerk A; act 2",
            "A": "; ".join(["sign 1, look 2"] * 6),
        },
        {"clerk": {}},
    ),
)


def _count_messages(messages: Sequence[object]) -> int:
    return 10 * len(messages)


# Trees with an agent whose history is shortened, while others wait.
def _shortened(hard: int) -> Compaction:
    return Compaction(
        soft=80,
        hard=hard,
        keep_last=2,
        count_tokens=_count_messages,
        shorten_results=None,
    )


_LONG_FRAMES = {
    "go": "left A, pay 1",
    "A": "look 0; push 1; look 2; push 3; look 4; push 5; post 77, look 78; "
    "act 80; look 81; act 82; look 83; act 84; look 85",
}
SHORTENED_TREES = _by_name(
    *(
        _tree(
            name,
            _LONG_FRAMES,
            {"left": {}},
            model=ShortenedModel,
            compaction=_shortened(hard),
        )
        for name, hard in (("shortened", 10_000), ("shortened_hard", 90))
    )
)


# Trees with calls that several persons approve.
VOTING_TREES = _by_name(
    _tree("elect", "elect 1, act 2"),
    _tree("board", "board 1, panel 2"),
    _tree("board_deep", {"go": "clerk A, elect 1", "A": "board 2"}, {"clerk": {}}),
)


# Trees whose tools start jobs that can be stopped.
JOB_TREES = _by_name(
    _tree("stoppable", "job_stop 1"),
    _tree(
        "stoppable_deep",
        {"go": "left A, act 1", "A": "job_stop 2, ask_standard 3"},
        {"left": {}},
    ),
    _tree("stoppable_pair", "job_stop 1, job_stop 2; act 3"),
)


# Trees whose tools wait for published events and for signals.
EVENT_TREES = _by_name(
    _tree("letters", "letter 1, letter 2; letter_then 3"),
    _tree(
        "letters_deep",
        {"go": "hr A", "A": "clerk B", "B": "letter 1; letter_then 2; act 3"},
        {"hr": {"clerk": {}}},
    ),
    _tree("letters_mixed", "letter_soon 1, letter 2, act 3"),
    _tree("letters_and_post", {"go": "post 1, hr A", "A": "letter 2"}, {"hr": {}}),
)


# Trees whose agents make several calls of a tool that a grant or a rule may approve.
POLICY_TREES = _by_name(
    _tree("funds", "pay 1; pay 3; pay 2; pay 22; pay 1, pay 2"),
    _tree(
        "funds_again", "post 1; post 3, post 2; book 1, book 22; post 1, post 2, book 2"
    ),
    _tree(
        "funds_deep",
        {"go": "clerk A, pay 1; pay 2", "A": "pay 1; pay 2, post 3"},
        {"clerk": {}},
    ),
    _tree(
        "clerks",
        {"go": "clerk A; clerk B, pay 1", "A": "pay 1", "B": "pay 2; pay 3"},
        {"clerk?": {}},
    ),
    _tree("ruled", "ruled 1, ruled 2; ruled 3, ruled 22; ruled 3, pay 1"),
    _tree("rechecked", "rechecked 1, pay 2; rechecked 2; rechecked 3, pay 22"),
    _tree("sealed", "sealed 1; sealed 2, sign 3"),
    _tree("policy_mixed", "pay 1, act 2; pay 2, push 3; act 22, pay 3"),
)


# Trees of threads: the lines of each wish, and those of the agents below.
def _chat(name: str, clerk: str, wishes: Mapping[str, str], below: str) -> Tree:
    script = {wish: _turns(text) for wish, text in wishes.items()}
    script["A"] = [*_turns(below), "A end"]
    return Tree(name, script, {clerk: {}}, ThreadModel)


_WISHES = {
    "note": "act 1",
    "pay": "pay 1",
    "clerk": "clerk A",
    "both": "pay 1, clerk A, act 2; push 3",
}
THREAD_TREES = _by_name(
    _chat("chat", "clerk", _WISHES, "pay 2"),
    _chat("chat_checked", "clerk?", _WISHES, "pay 2"),
)


# Trees with calls that wait, that a requester may not approve, or that a rule denies.
SEAM_TREES = _by_name(
    _tree(
        "seams", "countersigned 1, ruled 2, letter 3; ruled 3, act 1, countersigned 2"
    ),
    _tree(
        "seams_deep",
        {
            "go": "clerk A, letter_then 1; countersigned 1, push 2",
            "A": "ruled 1, ruled 3; countersigned 2",
        },
        {"clerk": {}},
    ),
    _tree(
        "seams_ruled",
        "ruled 3, ruled 22; letter 1, ruled 3; "
        "countersigned 1; countersigned 1, countersigned 2",
    ),
)


# Their threads: a message leads to calls that its sender may not approve.
_SEAM_WISHES = {
    **_WISHES,
    "pay": "countersigned 1",
    "both": "countersigned 2, ruled 3, act 2; push 3",
}
SEAM_CHATS = _by_name(_chat("seam_chat", "clerk", _SEAM_WISHES, "countersigned 2"))


# Trees whose tools change the states of their agents.
STATE_TREES = _by_name(
    _tree(
        "keeping",
        "keep 1, keep_approved 2, keep 3; "
        "keep_and_fail 1, keep 22; keep_approved 3, look 2",
        state=Kept,
    ),
    _tree(
        "keeping_deep",
        {
            "go": "keep 1, hr A, keep 2; keep 3",
            "A": "keep 1, clerk B, keep_approved 2",
            "B": "keep_approved 1, keep 2; keep 3",
        },
        {"hr": {"clerk": {}}},
        state=Kept,
    ),
)


# Trees whose agents have hooks and guardrails.
GUARDED_TREES = _by_name(
    _tree(
        "guarded",
        "pay 22, act 22, push 3; pay 1, act 1, act 3; "
        "pay 3, push 2, keep 1; keep 22, keep 1",
        state=Kept,
        guarded=True,
    ),
    _tree(
        "guarded_deep",
        {
            "go": "hr A, act 22, clerk refused task",
            "A": "clerk B, keep 1; keep 22",
            "B": "pay 22, push 3; act 2",
            REFUSED_TASK: "",
        },
        {"hr": {"clerk": {}}, "clerk": {}},
        state=Kept,
        guarded=True,
    ),
)

# People judge each input and output, and an agent judges each call.
JUDGED_TREES = _by_name(
    _tree("judged", "pay 1, act 9, act 2", judged=True),
    _tree(
        "judged_deep",
        {"go": "hr A, act 2", "A": "clerk B", "B": "pay 1, act 9"},
        {"hr": {"clerk": {}}},
        judged=True,
    ),
)


def names_of_trees() -> list[str]:
    """Return the names of the trees that a schedule may draw."""
    return list(TREES)


# Trees whose tools return files, equal and different ones, also in parallel.
FILE_TREES = _by_name(
    _tree("drawing", "draw 1, draw 2; draw_approved 3, draw 1", model=FileModel),
    _tree(
        "drawing_below",
        {
            "go": "left A, right B; draw 3",
            "A": "draw 1; draw_approved 2",
            "B": "draw 1, pay 2",
        },
        {"left": {}, "right": {}},
        model=FileModel,
    ),
)


# Trees whose agents hand their conversation to each other; a tool is of one agent.
_HOLDERS = {"clerk": ("post", "push"), "seller": ("book",)}
HANDOFF_TREES = _by_name(
    _tree(
        "hands",
        "look 1, transfer_to_clerk, pay 1; post 2; push 1, transfer_to_hands; "
        "pay 3; transfer_to_seller, transfer_to_clerk; book 1",
        holders=_HOLDERS,
    ),
    _tree(
        "hands_below",
        {
            "go": "left A, right B",
            "A": "transfer_to_clerk; post 1",
            "B": "transfer_to_seller, look 1; book 2",
        },
        {"left": {}, "right": {}},
        holders=_HOLDERS,
    ),
    _tree(
        "hands_filtered",
        "look 1, pay 1; pay 2, transfer_to_clerk; post 3; "
        "push 1, transfer_to_seller; book 1",
        model=FilteredModel,
        holders=_HOLDERS,
        filters=True,
    ),
)


def find_tree(name: str) -> Tree | FlowTree:
    return _BY_NAME[name]


_BY_NAME: dict[str, Tree | FlowTree] = {
    **TREES,
    **POISON_TREES,
    **SHORT_APPROVAL_TREES,
    **TIMEOUT_TREES,
    **WAITING_TREES,
    **REPEATING_TREES,
    **SHORTENED_TREES,
    **VOTING_TREES,
    **EVENT_TREES,
    **JOB_TREES,
    **POLICY_TREES,
    **THREAD_TREES,
    **SEAM_TREES,
    **SEAM_CHATS,
    **STATE_TREES,
    **GUARDED_TREES,
    **JUDGED_TREES,
    **FILE_TREES,
    **HANDOFF_TREES,
    **STAGED_TREES,
    **FLOW_TREES,
}


@cache
def deployed_root(name: str, change: Deployment | None) -> Agent:
    """Return the root agent of a tree, as it is after a deployment."""
    return find_tree(name).make_root(change)
