"""The agents: `hr` calls `accounts`, which needs an approval to transfer money."""

import logging

from continuations import Agent, ToolContext, tool

log = logging.getLogger(__name__)


@tool(read_only=True)
def balance(account: str) -> str:
    """Return the balance of an account."""
    return f"Account {account} holds 8000.00 EUR."


@tool(approval=True)
def transfer(recipient: str, cents: int, ctx: ToolContext) -> str:
    """Transfer money from the account "bonuses" to a person."""
    # Call your bank here, with ctx.idempotency_key as its idempotency key.
    log.warning("transferred %d cents, %s", cents, ctx.idempotency_key)
    return f"Transferred {cents / 100:.2f} EUR to {recipient}."


accounts = Agent(
    "accounts",
    instructions="You are accounts. Look up the balance of the account 'bonuses', then "
    "transfer what you are asked to. Report what the tool said.",
    tools=[balance, transfer],
    model="gpt-5-mini",
)
hr = Agent(
    "hr",
    instructions="You are HR. Hand every payment to accounts, in one call. Report what "
    "was done and what was not.",
    tools=[accounts],
    model="gpt-5-mini",
)
