"""Usage: the number of model requests and tokens of a run."""

from __future__ import annotations

from continuations.value_class import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Model usage of a run, summed over all agents and suspensions.

    Attributes:
        requests: Number of responses of models, usable or not.
        input_tokens: Tokens of the requests, including cached tokens.
        output_tokens: Tokens of the replies, including reasoning tokens.
        cached_tokens: Input tokens that the provider read from its cache.
        reasoning_tokens: Output tokens that the model used for reasoning.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __sub__(self, earlier: Usage) -> Usage:
        """Return the usage since an earlier sum."""
        return Usage(
            requests=self.requests - earlier.requests,
            input_tokens=self.input_tokens - earlier.input_tokens,
            output_tokens=self.output_tokens - earlier.output_tokens,
            cached_tokens=self.cached_tokens - earlier.cached_tokens,
            reasoning_tokens=self.reasoning_tokens - earlier.reasoning_tokens,
        )

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both."""
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )
