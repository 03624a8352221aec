"""The client that the conformance kit of MCP starts: an agent that calls every tool.

The kit passes the URL of its server, and the scenario in its environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from continuations import Agent, Answer, AsyncRunner, Suspended
from continuations.interop.mcp import McpTools
from continuations.models.scripted import ScriptedModel, ToolCall

_SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
_CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
_REDIRECT = "http://localhost:3000/callback"
_VALUES = {"string": "text", "integer": 5, "number": 5, "boolean": True}
_MAX_WAITS = 20


class Storage:
    """Keeps tokens in memory, as an application keeps them where it likes."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        if _CONTEXT.get("client_id"):
            secret = _CONTEXT.get("client_secret")
            self.client = OAuthClientInformationFull(
                client_id=_CONTEXT["client_id"],
                client_secret=secret,
                redirect_uris=[AnyUrl(_REDIRECT)],
                token_endpoint_auth_method="client_secret_basic" if secret else "none",
            )

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """A person who opens the address of an authorization server, and agrees."""

    def __init__(self) -> None:
        self.query: Mapping[str, Sequence[str]] = {}

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as http:
            response = await http.get(url)
        self.query = parse_qs(urlsplit(response.headers["location"]).query)

    async def result(self) -> AuthorizationCodeResult:
        found = {name: values[0] for name, values in self.query.items()}
        return AuthorizationCodeResult.model_validate(found)


async def auth(url: str) -> httpx2.Auth | None:
    """Return what an application passes as `auth=` for a scenario."""
    if not _SCENARIO.startswith("auth/"):
        return None
    if _SCENARIO == "auth/client-credentials-jwt":
        signed = SignedJWTParameters(
            issuer=_CONTEXT["client_id"],
            subject=_CONTEXT["client_id"],
            signing_algorithm=_CONTEXT.get("signing_algorithm", "ES256"),
            signing_key=_CONTEXT["private_key_pem"],
        )
        return PrivateKeyJWTOAuthProvider(
            url, Storage(), _CONTEXT["client_id"], signed.create_assertion_provider()
        )
    if _SCENARIO == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(
            url, Storage(), _CONTEXT["client_id"], _CONTEXT["client_secret"]
        )
    if _SCENARIO == "auth/enterprise-managed-authorization":
        return IdentityAssertionOAuthProvider(
            url,
            Storage(),
            _CONTEXT["client_id"],
            _CONTEXT["client_secret"],
            await authorization_server(url),
            id_token_exchange,
            token_endpoint_auth_method="client_secret_basic",  # noqa: S106 - a method
        )
    browser = Browser()
    return OAuthClientProvider(
        url,
        OAuthClientMetadata(
            client_name="continuations",
            redirect_uris=[AnyUrl(_REDIRECT)],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        ),
        Storage(),
        browser.open,
        browser.result,
        client_metadata_url="https://conformance-test.local/client-metadata.json",
    )


async def id_token_exchange(audience: str, resource: str) -> str:
    """Get an assertion for an authorization server from the identity provider."""
    exchange = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "subject_token": _CONTEXT["idp_id_token"],
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "audience": audience,
        "resource": resource,
        "client_id": _CONTEXT["idp_client_id"],
    }
    async with httpx2.AsyncClient() as http:
        reply = await http.post(_CONTEXT["idp_token_endpoint"], data=exchange)
    token: str = reply.json()["access_token"]
    return token


async def authorization_server(url: str) -> str:
    """Return the issuer that protects a server."""
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource"
    async with httpx2.AsyncClient() as http:
        reply = await http.get(address + parts.path)
    issuer: str = reply.json()["authorization_servers"][0]
    return issuer


def arguments(schema: Mapping[str, Any], tools: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments for a tool that the kit does not describe."""
    if "schema" in schema.get("properties", {}):
        # The kit compares the schema that this client has with the one it listed.
        other = next(each for name, each in tools.items() if "echo" not in name)
        return {"schema": other.parameters}
    return {
        name: _VALUES.get(field.get("type"), "text")
        for name, field in schema.get("properties", {}).items()
        if name in schema.get("required", schema["properties"])
    }


async def script(tools: McpTools) -> list[ToolCall | str]:
    """Return what the model does: one call of each tool, or those the kit wants."""
    listed = {each.name: each for each in await tools.list_tools()}
    await tools.aclose()
    calls = {name: arguments(each.parameters, listed) for name, each in listed.items()}
    made = [ToolCall(name, values) for name, values in calls.items()]
    wanted: list[dict[str, Any]] = _CONTEXT.get("toolCalls", [])
    if wanted:
        made = [
            # An argument that is null is one that a model leaves out.
            ToolCall(
                each["name"],
                {k: v for k, v in each["arguments"].items() if v is not None},
            )
            for each in wanted
        ]
    return [*made, "Done."]


async def main() -> None:
    """Run the agent until its run has ended; answer each question."""
    url = sys.argv[-1]
    tools = McpTools(url, auth=await auth(url))
    model = ScriptedModel(await script(tools))
    runner = AsyncRunner(Agent("client", tools=[tools], model=model), store="memory:")
    outcome = await runner.start("Call each tool", run_id="kit")
    for _ in range(_MAX_WAITS):
        if not isinstance(outcome, Suspended):
            break
        for wait in outcome.waits:
            if wait.kind == "question":
                value = arguments(wait.answer_schema or {}, {})
                await runner.decide(wait.id, Answer(value))
        outcome = await runner.resume("kit")
    sys.stdout.write(f"{outcome}\n{outcome.continuation.root.messages}\n")
    await tools.aclose()


if __name__ == "__main__":
    asyncio.run(main())
