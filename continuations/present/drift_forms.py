"""The JSON forms of `drift`: a row for each run, and their schema."""

from __future__ import annotations

from continuations.present.schema_parts import (
    TEXT,
    TEXT_OR_NULL,
    Json,
    array,
    described,
    object_form,
    ref,
)

_VERDICT: Json = {"enum": ["accept", "reopen", "refuse"]}


def drift_definitions() -> dict[str, Json]:
    """Return the schemas of the rows and of a page of them."""
    reason = object_form(
        "Why the code does not accept a run as it is.",
        {
            "verdict": _VERDICT,
            "change": described(
                TEXT,
                "removed, schema, contract, approval, state, model, context, prices, "
                "policy or stored.",
            ),
            "agent": TEXT,
            "path": described(array(TEXT), "From the root agent down to the tool."),
            "wait_id": described(
                TEXT_OR_NULL, "The wait that would be opened again or refused."
            ),
            "text": described(TEXT, "The error, or the note of the new wait."),
        },
    )
    return {
        "drift_row": object_form(
            "What the code of the server would do with one run.",
            {
                "run_id": TEXT,
                "agent": described(TEXT, "The root agent."),
                "status": TEXT,
                "verdict": described(_VERDICT, "The worst verdict of `why`."),
                "why": array(reason),
                "code_changes": array(ref("code_change")),
            },
        ),
        "drift_page": object_form(
            "One page of live runs, by run id.",
            {
                "runs": array(ref("drift_row")),
                "next": described(
                    TEXT_OR_NULL, "Send it as `after`; null on the last page."
                ),
            },
        ),
    }
