"""The ASGI application of an A2A server, by the routes of `a2a-sdk`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from a2a.server.routes import (
    DefaultServerCallContextBuilder,
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a.utils.constants import (
    AGENT_CARD_WELL_KNOWN_PATH,
    PROTOCOL_VERSION_1_0,
    TransportProtocol,
)
from starlette.applications import Starlette
from starlette.authentication import SimpleUser
from starlette.routing import Route

from continuations.errors import InvalidInput
from continuations.interop.a2a.push import Push
from continuations.interop.a2a.run_handler import RunHandler
from continuations.serve import option_checks
from continuations.serve.dispatch import Dispatcher, InlineDispatcher
from continuations.serve.http.asgi import IDENTITY, Verified
from continuations.serve.rights import Can, Rights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from a2a.server.context import ServerCallContext
    from starlette.requests import Request
    from starlette.types import Lifespan

    from continuations import AsyncRunner
    from continuations.serve.http.api import Verifier

_PUBLIC = (AGENT_CARD_WELL_KNOWN_PATH,)
# Clients ask again after five minutes, with the ETag that the routes send.
_CARD_CACHE = "public, max-age=300"


def card(
    runner: AsyncRunner[Any],
    url: str,
    *,
    agent: str | None = None,
    version: str = "1",
    skills: Sequence[AgentSkill] = (),
) -> AgentCard:
    """Return the card of an agent of a runner.

    Args:
        runner: The runner.
        url: The URL under which clients reach the application, with the path at which
            it is mounted.
        agent: Name of the root agent; required if the runner has several.
        version: The version of the agent, as you name it.
        skills: The skills of the agent. Default: one with its name and description.

    Returns:
        The card, with both HTTP bindings of A2A 1.0. Change it as you like.

    Raises:
        InvalidInput: The runner has no such agent, or an option is invalid.
    """
    option_checks.check_async_runner(runner)
    option_checks.check_type("url", url, str, "a URL")
    if not url.startswith(("https://", "http://")):
        msg = f"url must begin with https:// or http://, got {url!r:.100}. Pass the URL"
        raise InvalidInput(f"{msg} under which clients reach the application.")
    root = runner.root_agent(agent)
    description = root.description or root.name
    own = AgentSkill(
        id=root.name, name=root.name, description=description, tags=["agent"]
    )
    base = url.rstrip("/")
    # A mounted application has its root with a slash. The paths of HTTP+JSON are added.
    bindings = {
        TransportProtocol.JSONRPC: f"{base}/",
        TransportProtocol.HTTP_JSON: base,
    }
    return AgentCard(
        name=root.name,
        description=description,
        version=version,
        supported_interfaces=[
            AgentInterface(
                url=own_url,
                protocol_binding=each,
                protocol_version=PROTOCOL_VERSION_1_0,
            )
            for each, own_url in bindings.items()
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain", "application/json"],
        skills=[*skills] or [own],
    )


def app(  # noqa: PLR0913 - one parameter for each option
    runner: AsyncRunner[Any],
    *,
    card: AgentCard,
    agent: str | None = None,
    verify: Verifier | None = None,
    can: Can | None = None,
    only_own: bool = True,
    dispatcher: Dispatcher | None = None,
    push: Push | None = None,
    lifespan: Lifespan[Starlette] | None = None,
) -> Starlette:
    """Return an ASGI application that serves an agent by A2A 1.0.

    A task is a run. JSON-RPC is served at `/`, HTTP+JSON below it, and the card at
    `/.well-known/agent-card.json`. The card is public. Without `verify`, every other
    request has status 401.

    Args:
        runner: The runner.
        card: The card, for example of `card(runner, url)`. The application serves a
            copy that says whether it streams and sends push notifications.
        agent: Name of the root agent; required if the runner has several.
        verify: Returns the identity of a request, as for `HttpApi`. It is the requester
            of the runs that the client starts.
        can: Returns whether an identity may do something with a run; see
            `continuations.serve.rights`.
        only_own: Whether an identity sees only the tasks that it started. With False,
            it sees those of others too, as far as `can` allows it.
        dispatcher: Resumes a run after a message. Default: this process works on it.
        push: The push notifications.
        lifespan: Starlette's lifespan, such as `worker_lifespan(runner)`.

    Returns:
        The application.

    Raises:
        InvalidInput: An option is invalid, or the runner has no such agent.
    """
    option_checks.check_async_runner(runner)
    option_checks.check_type("card", card, AgentCard, "an AgentCard of a2a-sdk")
    option_checks.check_callable("verify", verify, "a function that takes a Request")
    option_checks.check_type("only_own", only_own, bool, "True or False")
    option_checks.check_type("push", push, Push | None, "an a2a.Push, or None")
    dispatcher = InlineDispatcher(runner) if dispatcher is None else dispatcher
    option_checks.check_dispatcher("dispatcher", dispatcher)
    handler = RunHandler(
        runner,
        card=_served(card, pushes=push is not None),
        agent=runner.root_agent(agent).name,
        rights=Rights(can),
        only_own=only_own,
        dispatcher=dispatcher,
        push=push,
    )
    application = Starlette(routes=_routes(handler), lifespan=lifespan)
    application.add_middleware(
        Verified, verify=verify, option_of="a2a.app", public=_PUBLIC, user=SimpleUser
    )
    return application


def _served(card: AgentCard, *, pushes: bool) -> AgentCard:
    served = AgentCard()
    served.CopyFrom(card)
    served.capabilities.streaming = True
    served.capabilities.push_notifications = pushes
    served.capabilities.extended_agent_card = False
    return served


def _routes(handler: RunHandler) -> list[Route]:
    builder = _ContextBuilder()
    rest = create_rest_routes(handler, builder)
    return [
        *create_agent_card_routes(handler.card, cache_control=_CARD_CACHE),
        *create_jsonrpc_routes(handler, "/", builder),
        # Without the routes of tenants: the rights decide who sees what.
        *(route for route in rest if isinstance(route, Route)),
    ]


class _ContextBuilder(DefaultServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[IDENTITY] = request.scope[IDENTITY]
        return context
