"""The form of an approval: its schema for approvers, and its type for the tool."""

from __future__ import annotations

from typing import Any

from continuations.authoring import answer_types, input_spec, tool_digests
from continuations.core import jsontext
from continuations.errors import InvalidInput
from continuations.value_class import dataclass


@dataclass(frozen=True, slots=True)
class ApprovalForm:
    """A form, checked.

    Attributes:
        type: The type of the application.
        schema_json: Its JSON Schema, as JSON text.
        digest: A digest of the schema without descriptions.
    """

    type: Any
    schema_json: str
    digest: str

    def typed(self, form_json: str) -> Any:
        """Return a form that was filled in, as a value of the type.

        Raises `ArgumentsInvalid` if a validator of the type rejects it.
        """
        return answer_types.typed_value(form_json, self.type)


def checked_form(form_type: Any) -> ApprovalForm:
    """Return the form of a policy; raises `InvalidInput`."""
    label = "ApprovalPolicy: form"
    try:
        schema_json = answer_types.schema_json_of(form_type) or "{}"
    except InvalidInput as error:
        msg = f"{label} cannot be used: {error}"
        raise InvalidInput(msg) from None
    schema = jsontext.parse(schema_json)
    if not input_spec.has_fields(schema):
        msg = (
            f"{label} must be a class with fields (a pydantic model, a dataclass or a "
            f"TypedDict), got {form_type!r}."
        )
        raise InvalidInput(msg)
    digest = tool_digests.compute_contract_digest("form", None, schema)
    return ApprovalForm(form_type, schema_json, digest)
