"""What an agent ends with, where it declares a type for it.

Imported on first use: it needs pydantic.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from continuations.authoring import strict_json
from continuations.authoring.arguments import describe_validation_error, schema_of
from continuations.authoring.errors import OutputInvalid
from continuations.authoring.input_spec import has_fields, make_type_adapter
from continuations.core import jsontext
from continuations.core.model_protocol import OutputSchema
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """A declared output: providers want an object, so others stand under `output`."""

    adapter: TypeAdapter[Any]
    schema: Mapping[str, Any]
    schema_name: str
    is_wrapped: bool

    @property
    def output_schema(self) -> OutputSchema:
        """The schema that a model is asked for: always one of an object."""
        schema = {**self.schema}
        if self.is_wrapped:
            definitions = schema.pop("$defs", None)
            schema = {
                "type": "object",
                "properties": {"output": schema},
                "required": ["output"],
                "additionalProperties": False,
            }
            if definitions:
                schema["$defs"] = definitions
        return OutputSchema(name=self.schema_name, schema=schema)

    def parse(self, text: str) -> Any:
        """Return the value of a last reply; raises `OutputInvalid`."""
        try:
            data = strict_json.parse_strict(text)
        except jsontext.NotJson as error:
            msg = f"The output is not valid JSON: {error}."
            raise OutputInvalid(msg) from None
        match data:
            case {"output": inner, **rest} if self.is_wrapped and not rest:
                data = inner
            case _:
                pass  # some models leave the wrapping out
        try:
            return self.adapter.validate_json(jsontext.dump(data))
        except ValidationError as error:
            raise OutputInvalid(
                describe_validation_error(error, data, subject="output")
            ) from None
        except Exception as error:
            # A validator of the application's own may raise anything.
            msg = f"The output could not be checked ({type(error).__name__})."
            raise OutputInvalid(msg) from error


def make_output_spec(type_: Any, *, agent_name: str) -> OutputSpec:
    """Return how to ask for and read an agent's output; raises `InvalidInput`."""
    try:
        adapter = make_type_adapter(type_)
        schema = schema_of(adapter)
    except InvalidInput as error:
        msg = f"agent {agent_name}: its output_type cannot be read: {error}"
        raise InvalidInput(msg) from error
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", getattr(type_, "__name__", "output"))
    return OutputSpec(
        adapter=adapter,
        schema=schema,
        schema_name=name[:64] or "output",
        is_wrapped=not has_fields(schema),
    )
