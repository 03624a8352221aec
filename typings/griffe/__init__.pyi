from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

class Extension: ...

class Docstring:
    value: str
    parser: Any
    parser_options: Any

class ParameterKind:
    keyword_only: ParameterKind

class Parameter:
    name: str
    def __init__(
        self, name: str, *, annotation: Any, kind: ParameterKind, default: str
    ) -> None: ...

class Parameters:
    def __init__(self, *parameters: Parameter) -> None: ...
    def __iter__(self) -> Iterator[Parameter]: ...

class Object:
    name: str
    annotation: Any
    docstring: Docstring
    parameters: Parameters
    members: Mapping[str, Object]
    overloads: Any
    parent: Object
    filepath: Path
    lines_collection: Any
    modules_collection: Any
    def __getitem__(self, path: str) -> Object: ...
    def del_member(self, name: str) -> None: ...
    def set_member(self, name: str, value: Object) -> None: ...

class Alias(Object):
    target_path: str

class Module(Object): ...

def visit(
    module_name: str,
    filepath: Path,
    code: str,
    *,
    parent: Object,
    docstring_parser: Any,
    docstring_options: Any,
    lines_collection: Any,
    modules_collection: Any,
) -> Module: ...
