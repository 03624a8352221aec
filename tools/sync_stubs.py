"""Write the type stubs of the sync face from the source of the async classes.

Usage: `python tools/sync_stubs.py [--check]`. With `--check`, nothing is written, and
the result is 1 if a stub is not the one that this program would write.

A program gets the methods of `Runner`, `Thread` and `Ticket` from
`continuations/engine/sync/sync_face.py`. Editors, type checkers and the API reference
read the stubs.
"""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeGuard

from continuations.engine.sync.sync_face import joined_docstring, sync_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import EllipsisType

ROOT = Path(__file__).parents[1]
# The modules whose names `sync_face` makes.
FACES = (
    "continuations.engine.runner.sync_runner",
    "continuations.engine.runner.sync_storeless",
    "continuations.engine.threads.sync_thread",
)
HEADER = "# Written by tools/sync_stubs.py. Do not edit it: change the async source.\n"


Definition: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """The source of a module, and where its names come from."""

    name: str
    tree: ast.Module
    # The module of each name that is imported or assigned at the top.
    origins: dict[str, str]

    @classmethod
    def read(cls, name: str) -> Module:
        """Read a module of this repository."""
        source = ROOT.joinpath(*name.split(".")).with_suffix(".py")
        tree = ast.parse(source.read_text(encoding="utf-8"))
        return cls(name, tree, dict(_origins(name, tree.body)))

    def find(self, name: str) -> Definition:
        """Return the definition of a class or a function."""
        return next(each for each in self.definitions() if each.name == name)

    def definitions(self) -> Iterator[Definition]:
        """Yield the classes and functions, in their order."""
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef) or _is_function(node):
                yield node

    def stubs(self) -> Iterator[ast.ClassDef | ast.FunctionDef]:
        """Yield what `sync_face` makes in this module, with types and docstrings."""
        for node in self.tree.body:
            match node:
                case ast.ClassDef():
                    yield Face.read(self, node).stub()
                case ast.Assign(value=ast.Call(args=[ast.Name(id=async_name), *_])):
                    source = Module.read(self.origins[async_name]).find(async_name)
                    assert _is_function(source)  # noqa: S101 - as the module is written
                    yield _stub(source)
                case _:
                    pass


def _origins(module: str, body: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node in body:
        match node:
            case ast.If():  # TYPE_CHECKING
                yield from _origins(module, node.body)
            case ast.ImportFrom(module=str(origin)):
                yield from ((each.name, origin) for each in node.names)
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name, module
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, module
            case _:
                pass


class Face(NamedTuple):
    """A class of the sync face, and the async class whose members it gets."""

    node: ast.ClassDef
    async_node: ast.ClassDef
    without: frozenset[str]

    @classmethod
    def read(cls, module: Module, node: ast.ClassDef) -> Face:
        """Read the arguments of `@sync_face.of(...)`."""
        [decorator] = node.decorator_list
        assert isinstance(decorator, ast.Call)  # noqa: S101 - as the module is written
        async_name = ast.unparse(decorator.args[0])
        async_module = Module.read(module.origins[async_name])
        without: Iterable[str] = next(
            (
                ast.literal_eval(k.value)
                for k in decorator.keywords
                if k.arg == "without"
            ),
            (),
        )
        async_node = async_module.find(async_name)
        assert isinstance(async_node, ast.ClassDef)  # noqa: S101 - likewise
        return cls(node, async_node, frozenset(without))

    def stub(self) -> ast.ClassDef:
        """Return the class with its types and docstrings only."""
        own_doc, async_doc = (
            ast.get_docstring(node, clean=False)
            for node in (self.node, self.async_node)
        )
        attributes = [
            each
            for each in self.node.body
            if isinstance(each, ast.AnnAssign)
            and not ast.unparse(each.target).startswith("_")
        ]
        docstring = joined_docstring(own_doc, async_doc)
        body: list[ast.stmt] = [
            _expression(docstring),
            *attributes,
            *self._functions(),
        ]
        return ast.ClassDef(
            self.node.name, self.node.bases, keywords=[], body=body, decorator_list=[]
        )

    def _functions(self) -> Iterator[ast.FunctionDef]:
        own = {each.name: each for each in self.node.body if _is_function(each)}
        theirs = {
            each.name: each for each in self.async_node.body if _is_function(each)
        }
        special = {name: each for name, each in own.items() if name.startswith("_")}
        for name, function in (special | theirs).items():
            if name in own:
                # `@functools.wraps(AsyncRunner.__init__)` means the async function.
                is_copy = bool(own[name].decorator_list)
                yield _stub(theirs[name] if is_copy else own[name])
            elif not name.startswith("_") and name not in self.without:
                yield _stub(function)


def _is_function(
    node: ast.stmt,
) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef:
    docstring = ast.get_docstring(function, clean=False)
    returned = ast.unparse(function.returns) if function.returns else "None"
    return ast.FunctionDef(
        sync_name(function.name),
        function.args,
        body=[_expression(docstring or ...)],
        decorator_list=function.decorator_list,
        returns=ast.parse(sync_name(returned), mode="eval").body,
    )


def _expression(value: str | EllipsisType | None) -> ast.Expr:
    return ast.Expr(ast.Constant(value))


def write_stub(name: str) -> str:
    """Return the text of the stub of a module."""
    module = Module.read(name)
    stubs = list(module.stubs())
    origins = dict(module.origins)
    for async_name, source in module.origins.items():
        if async_name != sync_name(async_name):
            origins |= Module.read(source).origins
    used = {
        node.id
        for stub in stubs
        for node in ast.walk(stub)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    imports: dict[str, list[str]] = defaultdict(list)
    for each in sorted(used - {stub.name for stub in stubs} - set(dir(builtins))):
        imports[_origin(each, origins)].append(each)
    body = [
        ast.ImportFrom(origin, [ast.alias(each) for each in names], level=0)
        for origin, names in sorted(imports.items())
    ]
    tree = ast.fix_missing_locations(ast.Module([*body, *stubs], type_ignores=[]))
    return _formatted(HEADER + ast.unparse(tree))


def _origin(name: str, origins: dict[str, str]) -> str:
    """Return the module of a name: `Iterator` is where `AsyncIterator` is."""
    for face in FACES:
        if any(each.name == name for each in Module.read(face).definitions()):
            return face
    return origins[name] if name in origins else origins[f"Async{name}"]


def _formatted(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "stub.pyi"]
    done = subprocess.run(  # noqa: S603 - the formatter, with fixed arguments
        command, cwd=ROOT, input=text, capture_output=True, text=True, check=True
    )
    return done.stdout


def main(arguments: list[str]) -> int:
    """Write the stubs, or check them; return 1 if one is stale."""
    stale = 0
    for name in FACES:
        path = ROOT.joinpath(*name.split(".")).with_suffix(".pyi")
        text = write_stub(name)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale = 1
            print(  # noqa: T201 - a command line prints
                f"{path.relative_to(ROOT)} is not what the async source says. Run "
                "python tools/sync_stubs.py."
            )
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
