"""The questions before an act that cannot be taken back."""

from __future__ import annotations

from continuations.value_class import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmForm:
    """One question, and the form that answers yes.

    Attributes:
        act: The last part of the address of the form.
        title: The question.
        text: The consequences.
        button: The words of the button.
        field: Name of the text field.
        label: Label of the text field.
        is_required: Whether the field must be filled in.
        call: Id of the call, for a hidden field; or "".
        effect: The effect of the call in one sentence; or "".
    """

    act: str
    title: str
    text: str
    button: str
    field: str
    label: str
    is_required: bool = False
    call: str = ""
    effect: str = ""


def cancel_form(title: str, call: str, tool: str, effect: str = "") -> ConfirmForm:
    """Return the question before a run, or one of its calls, is cancelled."""
    if call:
        return ConfirmForm(
            act="cancel",
            title=f"Cancel the call of {tool}?" if tool else f"Cancel the call {call}?",
            text="A call that has begun is not stopped: it returns, and its result is "
            "kept. A call that has not begun never begins. The run goes on, and the "
            "model reads your reason.",
            button="Cancel the call",
            field="reason",
            label="Reason",
            call=call,
            effect=effect,
        )
    return ConfirmForm(
        act="cancel",
        title=f"Cancel the run: {title}?",
        text="The run ends, and its open waits are closed. "
        "Effects of its calls remain.",
        button="Cancel the run",
        field="reason",
        label="Reason, for the record",
    )


def erase_form(title: str, run_id: str) -> ConfirmForm:
    """Return the question before a run is erased."""
    return ConfirmForm(
        act="erase",
        title=f"Erase the run: {title}?",
        text="Everything that the store holds of the run is deleted: messages, "
        "decisions and its past. This cannot be taken back.",
        button="Erase the run",
        field="typed",
        label=f"Type the id of the run: {run_id}",
        is_required=True,
    )
