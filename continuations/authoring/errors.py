"""What goes wrong in an application's own code, and is told to the model.

None of these is a `ContinuationsError`: they never leave a run, they become the
result of one call.
"""

from __future__ import annotations


class ArgumentsInvalid(ValueError):
    """The arguments do not fit the tool; the text is written for the model."""


class ResultNotSerializable(ValueError):
    """A result that JSON cannot hold unchanged; the text names the place in it."""


class PolicyFailed(RuntimeError):
    """An approval policy did not say yes or no; the call must not run."""


class OutputInvalid(ValueError):
    """A last reply that is not of the agent's declared type; written for the model."""
