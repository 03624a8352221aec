"""Translate `examples/lambda_app/template.yaml` to CloudFormation.

The emulator needs CloudFormation. The translator needs another version of pydantic than
the SDK, so its output is stored beside this file. After a change of the template, run:

    python -m venv sam && sam/bin/pip install aws-sam-translator pyyaml
    sam/bin/python tests/serve/aws/expand_sam.py
"""

from __future__ import annotations

import hashlib
import json
import os
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import yaml

TEMPLATE = Path(__file__).parents[3] / "examples" / "lambda_app" / "template.yaml"
EXPANDED = Path(__file__).with_name("lambda_app.expanded.json")
CODE = "s3://code/lambda_app.zip"


class _Loader(yaml.SafeLoader):
    """Load the short forms of CloudFormation's functions."""

    def function(self, name: str, node: yaml.Node) -> dict[str, Any]:
        """Return the long form of a function."""
        value: Any
        if isinstance(node, yaml.ScalarNode):
            value = self.construct_scalar(node)
        else:
            assert isinstance(node, yaml.SequenceNode)
            value = self.construct_sequence(node, deep=True)
        if name == "Ref":
            return {"Ref": value}
        return {f"Fn::{name}": value.split(".", 1) if name == "GetAtt" else value}


# The stub has no types for the parameters.
cast("Any", _Loader).add_multi_constructor("!", _Loader.function)


def load_template() -> dict[str, Any]:
    """Return the template, with functions in their long form."""
    template: dict[str, Any] = yaml.load(TEMPLATE.read_text(), _Loader)  # noqa: S506 - safe
    return template


def template_digest() -> str:
    """Return the SHA-256 of the template's text."""
    return hashlib.sha256(TEMPLATE.read_bytes()).hexdigest()


def main() -> None:
    """Translate the template and store the result."""
    translator: Any = import_module("samtranslator.translator.transform")
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    template = load_template()
    template["Globals"]["Function"]["CodeUri"] = CODE
    parameters = {
        name: each.get("Default", "") for name, each in template["Parameters"].items()
    }
    expanded = translator.transform(template, parameters, SimpleNamespace(load=dict))
    stored = {"of": template_digest(), "template": expanded}
    EXPANDED.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
