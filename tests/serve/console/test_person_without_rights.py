"""A known person without any right: no route or page tells or changes anything.

New routes and pages are tried too: the paths come from their tables.
"""

from __future__ import annotations

from typing import Any

from continuations import Agent, AsyncRunner, tool
from continuations.ledger.objects import Objects
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.console.console import PAGES
from continuations.serve.http.routes import ROUTES
from tests.outcomes import single_wait
from tests.serve.console.console_client import ConsoleClient
from tests.serve.rights import only

SECRET = "only for the eyes of others"
STREAM = "/events"
JSON_BODIES: tuple[dict[str, Any], ...] = (
    {},
    {"run_id": "r1", "input": SECRET},
    {"text": "pay"},
    {"version": 1},
    {"decision": "approve"},
    {"run_id": "r1", "name": "paid"},
    {"name": "paid"},
)


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


may_nothing = only()


async def test_person_without_rights_learns_and_changes_nothing() -> None:
    """Neither as pages nor as JSON, by any method of any path."""
    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "end"])
    agents = [
        Agent("clerk", tools=[pay], model=model),
        Agent("chat", model=ScriptedModel(["hi"])),
    ]
    runner = AsyncRunner(agents, store="memory:")
    wait = single_wait(await runner.start(SECRET, agent="clerk", run_id="r1"))
    await runner.thread("chat", key="k").send(SECRET)
    [thread] = [r.run_id async for r in runner.runs() if r.thread is not None]
    values = {
        "wait": wait.id,
        "wait_id": wait.id,
        "run": "r1",
        "run_id": "r1",
        "thread": thread,
        "agent": "chat",
        "key": "k",
        "number": "1",
        "grant": "g",
        "token": "t",
        "name": "n",
        "digest": "0" * 64,
    }
    form = {"decision": "approve", "shown": wait.digest, "version": "1"}
    form |= {"text": "pay", "typed": "r1", "grant": "g", "run_id": "r2"}
    client = ConsoleClient(runner, {"can": may_nothing})
    before = await _keys(runner)
    own = {"origin": client.base_url, "sec_fetch_site": "same-origin"}

    templates = {route.path for route in ROUTES} | {page.path for page in PAGES}
    for path in sorted(template.format(**values) for template in templates):
        for accept in ("text/html", "application/json"):
            for method in ("GET", "HEAD", "DELETE"):
                if path == STREAM and method == "GET":
                    continue  # it tells when waits change, and does not end
                response = await client.send(method, path, accept=accept, **own)
                _check(response, f"{method} {path}", changes=method == "DELETE")
        response = await client.post(path, form)
        _check(response, f"POST {path}", changes=True)
        for body in JSON_BODIES:
            response = await client.send("POST", path, None, body, **own)
            _check(response, f"POST {path} {body}", changes=True)

    assert before == await _keys(runner)


def _check(response: Any, what: str, *, changes: bool) -> None:
    assert response.status_code < 500, what
    assert SECRET not in response.text, what
    assert not (changes and response.status_code < 400), what


async def _keys(runner: AsyncRunner) -> list[str]:
    return sorted([key async for key in Objects(runner.store).all_keys("")])
