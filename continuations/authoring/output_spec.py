"""The typed output of an agent: the schema to request, and the parser of replies.

This module imports pydantic; it is imported on first use.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from continuations.authoring import strict_json
from continuations.authoring.arguments import describe_validation_error, schema_of
from continuations.authoring.errors import OutputInvalid
from continuations.authoring.input_spec import has_fields, make_type_adapter
from continuations.core import jsontext
from continuations.core.model_protocol import OutputSchema
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """A declared output.

    Providers want an object. Another type is wrapped: it is the member `output`.
    """

    adapter: TypeAdapter[Any]
    schema: Mapping[str, Any]
    schema_name: str
    is_wrapped: bool

    @property
    def output_schema(self) -> OutputSchema:
        """The schema to request from a model. It always describes an object."""
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
        """Return the value of a final reply; raises `OutputInvalid`."""
        try:
            data = strict_json.parse_strict(text)
        except jsontext.NotJson as error:
            msg = f"The output is not valid JSON: {error}."
            raise OutputInvalid(msg) from None
        match data:
            case {"output": inner, **rest} if self.is_wrapped and not rest:
                data = inner
            case _:
                pass  # some models leave the wrapper out
        try:
            return self.adapter.validate_json(jsontext.dump(data))
        except ValidationError as error:
            raise OutputInvalid(
                describe_validation_error(error, data, subject="output")
            ) from None
        except Exception as error:
            # A validator of the application may raise any exception.
            msg = f"The output could not be checked ({type(error).__name__})."
            raise OutputInvalid(msg) from error


def make_output_spec(type_: Any, *, agent_name: str) -> OutputSpec:
    """Return the spec of an agent's output; raises `InvalidInput`."""
    try:
        adapter = make_type_adapter(type_)
        schema = schema_of(adapter)
    except InvalidInput as error:
        msg = f"agent {agent_name}: output_type cannot be used: {error}"
        raise InvalidInput(msg) from error
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", getattr(type_, "__name__", "output"))
    return OutputSpec(
        adapter=adapter,
        schema=schema,
        schema_name=name[:64] or "output",
        is_wrapped=not has_fields(schema),
    )
