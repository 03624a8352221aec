"""AWS's own translator makes CloudFormation of `examples/lambda_app/template.yaml`.

The emulator needs that, and the translator does not get along with our pydantic, so
what it made is kept beside this file. After a change of the template:

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
    """Reads the short forms of CloudFormation's functions."""

    def function(self, name: str, node: yaml.Node) -> dict[str, Any]:
        """Return a function in its long form."""
        value: Any
        if isinstance(node, yaml.ScalarNode):
            value = self.construct_scalar(node)
        else:
            assert isinstance(node, yaml.SequenceNode)
            value = self.construct_sequence(node, deep=True)
        if name == "Ref":
            return {"Ref": value}
        return {f"Fn::{name}": value.split(".", 1) if name == "GetAtt" else value}


# Its stub does not say what it takes.
cast("Any", _Loader).add_multi_constructor("!", _Loader.function)


def load_template() -> dict[str, Any]:
    """Return the template, with the functions in their long form."""
    found: dict[str, Any] = yaml.load(TEMPLATE.read_text(), _Loader)  # noqa: S506 - safe
    return found


def template_digest() -> str:
    """Return what the template's text hashes to."""
    return hashlib.sha256(TEMPLATE.read_bytes()).hexdigest()


def main() -> None:
    """Expand the template."""
    translator: Any = import_module("samtranslator.translator.transform")
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    given = load_template()
    given["Globals"]["Function"]["CodeUri"] = CODE
    names = {
        name: each.get("Default", "") for name, each in given["Parameters"].items()
    }
    made = translator.transform(given, names, SimpleNamespace(load=dict))
    kept = {"of": template_digest(), "template": made}
    EXPANDED.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
