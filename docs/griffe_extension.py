"""Show the project's parameters in the reference.

Griffe reads the source without running it. It knows `dataclasses.dataclass` only. It
does not know which keyword arguments a `TypedDict` of options stands for. It prefers
the parameters and docstrings of a module to those of its stub.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from typing import TYPE_CHECKING

import griffe  # pyright: ignore[reportMissingModuleSource] - in the group `docs`

if TYPE_CHECKING:
    from collections.abc import Iterator

# Each function that takes `**options`, and the object whose signature has them.
_OPTIONS = {
    "authoring.agent.agent.Agent.__init__": "authoring.agent.agent.Agent",
    "authoring.tool.tool.tool": "authoring.tool.tool.tool",
    "authoring.tool.tool.Tool.from_schema": "authoring.tool.tool.Tool.from_schema",
}
_TYPED_DICTS = (
    "authoring.agent.agent_options.AgentOptions",
    "authoring.tool.tool_options.CallOptions",
    "authoring.tool.tool_options.ToolOptions",
    "authoring.tool.tool_options.SchemaToolOptions",
)


class ValueClasses(griffe.Extension):
    """Treat `value_class.dataclass` as `dataclasses.dataclass`."""

    def on_module_members(self, *, mod: griffe.Module, **_: object) -> None:
        """Point the import of the decorator to the one that Griffe knows."""
        decorator = mod.members.get("dataclass")
        if isinstance(decorator, griffe.Alias):
            decorator.target_path = "dataclasses.dataclass"


class KeywordOptions(griffe.Extension):
    """Replace `**options` by the options themselves, with types and defaults."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Change the signature of each function that takes options."""
        if pkg.name != "continuations":
            return
        for path, described in _OPTIONS.items():
            function = pkg[path]
            parameters = _parameters(pkg, function, described)
            function.parameters = griffe.Parameters(*parameters)
            function.overloads = []
            function.parent.overloads.pop(function.name, None)
            owner = function.parent if function.name == "__init__" else function
            text = owner.docstring
            text.value = re.sub(r"\n +\*\*options: .*", "", text.value)


class SyncStubs(griffe.Extension):
    """Read `Runner` and `Thread` from their stubs: a program makes their methods."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Replace each module that has a stub by what the stub says."""
        if pkg.name != "continuations":
            return
        for path in sorted(pkg.filepath.parent.glob("engine/*/sync_*.pyi")):
            room = pkg[f"engine.{path.parent.name}"]
            docstring = room[path.stem].docstring
            stub = griffe.visit(
                path.stem,
                filepath=path,
                code=path.read_text(encoding="utf-8"),
                parent=room,
                docstring_parser=docstring.parser,
                docstring_options=docstring.parser_options,
                lines_collection=pkg.lines_collection,
                modules_collection=pkg.modules_collection,
            )
            room.del_member(path.stem)  # `set_member` would merge them again
            room.set_member(path.stem, stub)


def _parameters(
    pkg: griffe.Module, function: griffe.Object, described: str
) -> Iterator[griffe.Parameter]:
    """Yield each parameter, with the options in place of `**options`."""
    types = {
        name: member.annotation
        for path in _TYPED_DICTS
        for name, member in pkg[path].members.items()
    }
    declared = {each.name: each for each in function.parameters}
    signature = inspect.signature(pkgutil.resolve_name(f"{pkg.name}.{described}"))
    yield from (each for name, each in declared.items() if name == "self")
    for name, each in signature.parameters.items():
        if name in declared:
            yield declared[name]
        else:
            yield griffe.Parameter(
                name,
                annotation=types.get(name, each.annotation),
                kind=griffe.ParameterKind.keyword_only,
                default=repr(each.default),
            )
