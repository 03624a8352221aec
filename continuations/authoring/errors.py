"""Errors of an application's code that the model reads.

None of them is a `ContinuationsError`: they never leave a run. Each one becomes the
result of a call.
"""

from __future__ import annotations


class ArgumentsInvalid(ValueError):
    """The arguments do not fit the tool. The text is for the model."""


class ResultNotSerializable(ValueError):
    """A result has no JSON form. The text names the place in the result."""


class PolicyFailed(RuntimeError):
    """An approval policy returned neither `True` nor `False`. The call must not run."""


class InstructionsInvalid(TypeError):
    """A function of instructions returned no string. The text says what it returned."""


class EnabledInvalid(TypeError):
    """An `is_enabled` returned neither `True` nor `False`. The text says what."""


class OutputInvalid(ValueError):
    """A final reply does not fit the `output_type`. The text is for the model."""


class StateInvalid(ValueError):
    """A state does not fit its type. The text is for the model.

    Attributes:
        places: Names of the fields that do not fit.
    """

    def __init__(self, text: str, places: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.places = places


class WaitNotReturned(TypeError):
    """A tool made a wait and did not return it. The text names the remedy alone."""
