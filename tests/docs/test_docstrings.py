"""Docstrings of the public API document every parameter, result and attribute."""

from __future__ import annotations

import builtins
import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import docstring_parser

from continuations import errors
from continuations.authoring import errors as authoring_errors
from continuations.authoring.agent.agent_options import AgentOptions
from continuations.authoring.tool.tool_options import ToolOptions
from continuations.authoring.tool.tool_protocol import ToolProtocol
from continuations.models.interface import Model
from continuations.serve.dispatch import Dispatcher
from continuations_storage import errors as storage_errors
from continuations_storage.contract import Store
from tests.docs.replay import ROOT
from tests.public_names import public_values

REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
PATHS = re.compile(r"^::: ([\w.]+)\n((?:    .*\n)*)", re.MULTILINE)
# Python fills these in, or their meaning is that of every Python object.
IMPLIED = {"self", "cls", "args", "kwargs"}
# Methods that implement a protocol are documented once, on the protocol.
PROTOCOLS: tuple[type[Any], ...] = (Store, Dispatcher, Model, ToolProtocol)
# Applications get objects of these classes and make none.
NOT_MADE_BY_APPLICATIONS = {
    "AgentTool",
    "AsyncThread",
    "AsyncTicket",
    "Call",
    "Continuation",
    "Frame",
    "Handler",
    "TaskAgent",
    "Thread",
    "Ticket",
}


def public_names() -> Iterator[tuple[str, Any]]:
    """Yield each class and function of the reference, with its path."""
    for page in REFERENCE:
        for path, options in PATHS.findall(page.read_text(encoding="utf-8")):
            module, _, name = path.rpartition(".")
            try:
                whole = importlib.import_module(path)
            except ModuleNotFoundError:
                yield path, getattr(importlib.import_module(module), name)
                continue
            listed = re.search(r"^ +members: \[(.*)\]", options, re.MULTILINE)
            names = listed[1].split(", ") if listed else defined_in(whole)
            for each in names:
                yield f"{path}.{each}", getattr(whole, each)


def is_documented_kind(value: object) -> bool:
    """Return whether a value is a class or a function."""
    return inspect.isclass(value) or inspect.isfunction(value)


def defined_in(module: Any) -> list[str]:
    """Return the public classes and functions that a module defines."""
    contents: dict[str, Any] = module.__dict__
    return [
        name
        for name, value in contents.items()
        if not name.startswith("_")
        and is_documented_kind(value)
        and value.__module__ == module.__name__
    ]


def functions(path: str, value: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield functions with their path and the object whose docstring has `Args`."""
    if inspect.isfunction(value):
        yield path, value, value
        return
    is_made = not issubclass(value, BaseException)
    is_made = is_made and value.__name__ not in NOT_MADE_BY_APPLICATIONS
    if is_made and "__init__" in vars(value) and not dataclasses.is_dataclass(value):
        yield path, value.__init__, value
    for name, member in vars(value).items():
        function = getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if not any(name in vars(each) and value is not each for each in PROTOCOLS):
            yield f"{path}.{name}", function, function


NAMES = dict(public_names())
FUNCTIONS = {
    path: (function, documented)
    for name, value in NAMES.items()
    if is_documented_kind(value)
    for path, function, documented in functions(name, value)
}


def parsed(value: Any) -> docstring_parser.Docstring:
    """Return the sections of a Google docstring."""
    text = inspect.getdoc(value) or ""
    return docstring_parser.parse(text, style=docstring_parser.DocstringStyle.GOOGLE)


def test_every_exported_class_and_function_is_checked() -> None:
    checked = set(map(id, NAMES.values()))
    exported = public_values().values()
    lost = [
        value.__name__
        for value in exported
        if is_documented_kind(value) and id(value) not in checked
    ]

    assert [] == lost


def undocumented_parameters(function: Any, documented: Any) -> set[str]:
    """Return the parameters that a docstring leaves out."""
    parameters = {
        name.lstrip("*")
        for name in inspect.signature(function).parameters
        if not name.startswith("_")
    }
    described = {param.arg_name.lstrip("*") for param in parsed(documented).params}
    return parameters - described - IMPLIED


def unknown_parameters(function: Any, documented: Any) -> set[str]:
    """Return the parameters that a docstring describes and the function has not.

    A function with `**options` describes them as if they were parameters.
    """
    parameters = inspect.signature(function).parameters.values()
    # `inspect.signature(tool)` has the options in place of `**options`.
    known = {each.name for each in parameters} | {"options"}
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        known |= {*AgentOptions.__annotations__, "output_type"}
        known |= {*ToolOptions.__annotations__, "readings"}
    described = {
        each.arg_name.lstrip("*")
        for each in parsed(documented).params
        if each.args[0] != "attribute"
    }
    return described - known


def unknown_errors(function: Any, documented: Any) -> set[str]:
    """Return the names after `Raises:` that are not errors.

    Each name is that of a public error, an error of Python, or of its package.
    """
    own = importlib.import_module(function.__module__)
    modules = (builtins, errors, authoring_errors, storage_errors, own)
    return {
        name
        for each in parsed(documented).raises
        for name in (each.type_name or "").split(", ")
        if not any(hasattr(module, name) for module in modules)
    }


def undocumented_result(function: Any, documented: Any) -> set[str]:
    """Return the type of a result that a docstring says nothing about."""
    returned = function.__annotations__.get("return")
    is_class = documented is not function
    if is_class or returned in (None, "None") or parsed(documented).returns:
        return set()
    return {str(returned)}


def undocumented_attributes(value: Any) -> set[str]:
    """Return the fields of a dataclass that its docstring leaves out.

    A base class documents the attributes that its subclasses share.
    """
    fields = {
        each.name for each in dataclasses.fields(value) if not each.name.startswith("_")
    }
    classes = filter(dataclasses.is_dataclass, value.__mro__)
    return fields - {
        param.arg_name for each in classes for param in parsed(each).params
    }


def offenders(check: Callable[[Any, Any], set[str]]) -> dict[str, set[str]]:
    """Return the functions that break a rule, with the names that break it."""
    found = {path: check(*each) for path, each in FUNCTIONS.items()}
    return {path: names for path, names in found.items() if names}


def test_docstrings_document_every_parameter() -> None:
    assert 200 < len(FUNCTIONS)
    assert {} == offenders(undocumented_parameters)


def test_docstrings_describe_no_parameter_that_does_not_exist() -> None:
    assert {} == offenders(unknown_parameters)


def test_docstrings_name_errors_that_exist() -> None:
    assert {} == offenders(unknown_errors)


def test_docstrings_document_the_result() -> None:
    assert {} == offenders(undocumented_result)


def test_docstrings_document_every_attribute() -> None:
    values = {name: v for name, v in NAMES.items() if dataclasses.is_dataclass(v)}
    found = {name: undocumented_attributes(value) for name, value in values.items()}

    assert 100 < len(values)
    assert {} == {name: fields for name, fields in found.items() if fields}


def test_each_check_of_a_docstring_finds_its_defect() -> None:
    """A check that finds nothing anywhere would pass forever."""

    @dataclasses.dataclass
    class Value:
        """Hold a value."""

        field: int

    def function(given: int) -> int:
        """Return a number.

        Args:
            other: A number.

        Raises:
            NoSuchError: Never.
        """
        return given

    assert {"given"} == undocumented_parameters(function, function)
    assert {"other"} == unknown_parameters(function, function)
    assert {"NoSuchError"} == unknown_errors(function, function)
    assert {"int"} == undocumented_result(function, function)
    assert {"field"} == undocumented_attributes(Value)
