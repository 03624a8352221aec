from collections.abc import Iterator, Mapping
from typing import Any

class Extension: ...

class Docstring:
    value: str

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
    def __getitem__(self, path: str) -> Object: ...

class Alias(Object):
    target_path: str

class Module(Object): ...
