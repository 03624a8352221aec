"""One example of each route with an identity, for identities with a single right."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from continuations import Identity, Wait
from continuations.attachments import Image
from continuations.serve.http.request_response import Response
from tests.serve.http.api_fixture import ApiFixture

RUN, KEY = "jane-1", "k"
# Words of the run: its input, which only `read` reveals, and an argument of its wait,
# which `view` reveals.
SECRETS = ("salary-of-jane", "for-the-lawyer")
PHOTO = Image(b"\x89PNG", "image/png")


@dataclass(frozen=True, kw_only=True)
class Example:
    """A request that its route accepts.

    Attributes:
        body: The JSON body; `"{wait_id}"` in it is the id of the open wait.
        query: The query.
        status: The status for an identity with the right of the route alone.
    """

    body: Any = None
    query: dict[str, str] = field(default_factory=dict[str, str])
    status: int = 200


RECORDED = 202
_NOTHING: dict[str, Any] = {}
_FIRST_TASK = f"pay {SECRETS[0]}"
_DECISION = {"wait_id": "{wait_id}", "decision": "approve"}
EXAMPLES: dict[tuple[str, str], Example] = {
    ("GET", "/openapi.json"): Example(),
    ("GET", "/waits"): Example(query={"order": "due"}),
    ("GET", "/drift"): Example(),
    ("GET", "/runs"): Example(),
    ("GET", "/waits/{wait_id}"): Example(),
    ("POST", "/waits/{wait_id}/decision"): Example(
        body={"decision": "approve"}, status=RECORDED
    ),
    ("POST", "/decisions"): Example(body={"decisions": [_DECISION]}),
    ("POST", "/runs"): Example(
        body={"run_id": RUN, "input": _FIRST_TASK}, status=RECORDED
    ),
    ("GET", "/runs/{run_id}"): Example(),
    ("DELETE", "/runs/{run_id}"): Example(status=RECORDED),
    ("GET", "/runs/{run_id}/audit"): Example(),
    ("GET", "/runs/{run_id}/events"): Example(),
    ("GET", "/runs/{run_id}/grants"): Example(),
    ("GET", "/runs/{run_id}/versions"): Example(),
    ("GET", "/runs/{run_id}/versions/{number}"): Example(),
    ("GET", "/runs/{run_id}/files/{digest}"): Example(),
    ("GET", "/runs/{run_id}/diff"): Example(query={"from": "1", "to": "2"}),
    ("POST", "/runs/{run_id}/fork"): Example(body={"run_id": "fork"}),
    ("GET", "/runs/{run_id}/rewind"): Example(query={"version": "1"}),
    ("POST", "/runs/{run_id}/rewind"): Example(body={"version": 1}, status=RECORDED),
    ("POST", "/runs/{run_id}/grants/{grant}/revoke"): Example(
        body=_NOTHING, status=400
    ),
    ("POST", "/runs/{run_id}/resume"): Example(status=RECORDED),
    ("POST", "/runs/{run_id}/wake"): Example(body=_NOTHING, status=RECORDED),
    ("POST", "/runs/{run_id}/cancel"): Example(body=_NOTHING, status=RECORDED),
    ("POST", "/runs/{run_id}/pause"): Example(body=_NOTHING, status=RECORDED),
    ("POST", "/runs/{run_id}/unpause"): Example(body=_NOTHING, status=RECORDED),
    ("POST", "/runs/{run_id}/messages"): Example(body={"text": "Hurry"}),
    ("GET", "/runs/{run_id}/signals"): Example(),
    ("POST", "/runs/{run_id}/signals/drop"): Example(body=_NOTHING, status=RECORDED),
    ("POST", "/signals"): Example(body={"run_id": RUN, "name": "receipt"}),
    ("POST", "/events"): Example(body={"name": "receipt", "key": "A-17"}),
    ("POST", "/sweep"): Example(),
    ("GET", "/threads/{agent}/{key}"): Example(),
    ("POST", "/threads/{agent}/{key}/messages"): Example(
        body={"text": "Hurry"}, status=RECORDED
    ),
    ("GET", "/threads/{agent}/{key}/messages/{number}"): Example(status=202),
    ("GET", "/threads/{agent}/{key}/events"): Example(),
    ("POST", "/threads/{agent}/{key}/stop"): Example(body=_NOTHING, status=RECORDED),
    ("POST", "/threads/{agent}/{key}/close"): Example(body=_NOTHING, status=RECORDED),
}


@dataclass
class Scene:
    """A run and a thread that wait, and an identity with a single right.

    Attributes:
        act: The right of the identity. With `read`, it has `view` too.
    """

    act: str

    @property
    def acts(self) -> tuple[str, ...]:
        """The rights of the identity."""
        return ("view", "read") if self.act == "read" else (self.act,)

    def __post_init__(self) -> None:
        self.fixture = ApiFixture(note=SECRETS[1], options={"can": self._can})
        self.wait: Wait | None = None

    def _can(self, _: Identity, act: str, __: str | None) -> bool:
        return act in self.acts

    async def open(self) -> None:
        """Let a run and a thread wait for an approval."""
        runner = self.fixture.runner
        outcome = await runner.start(_FIRST_TASK, run_id=RUN)
        (self.wait,) = outcome.continuation.waits
        with_photo: list[Any] = [_FIRST_TASK, PHOTO]
        await runner.start(with_photo, run_id="photo", work=False)
        await runner.thread("boss", key=KEY).send(_FIRST_TASK)

    async def request(self, method: str, path: str) -> Response:
        """Send the example of a route."""
        example = EXAMPLES[method, path]
        assert self.wait is not None
        place = path.format(
            run_id="photo" if "{digest}" in path else RUN,
            wait_id=self.wait.id,
            number=1,
            digest=PHOTO.digest,
            grant="01kbn5v3p0c8e2rgd0mwq1t4ay",
            agent="boss",
            key=KEY,
        )
        return await self.fixture.request(
            method, place, _filled(example.body, self.wait.id), query=example.query
        )


def _filled(body: Any, wait_id: str) -> Any:
    return json.loads(json.dumps(body).replace("{wait_id}", wait_id))
