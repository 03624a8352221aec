"""A mutant: one deliberate bug in the protocol, and the laws that must notice it.

A mutant is a generator of patches. Its docstring says what is wrong. Each patch names
the function that it replaces by the function itself, never by a string:

    @mutant("one_decision")
    def a_decision_is_recorded_twice() -> Patches:
        '''A decision is recorded twice.'''

        async def record(original: Original, decision: Decision) -> Any:
            await original()
            return await original(decision=replace(decision, id="2"))

        yield patch(recorded_decisions.record, record)

The replacement takes those parameters of the function that it needs, by their names.
`original` makes the call that was replaced, with some arguments changed.

A mutant that only leaves out a step or returns a constant says so:

    yield skip(claims.check_free)
    yield returns(claims.next_attempt, 1)
    yield gives_back(event_matching.with_event, "taken")

`@mutant` makes every patch once, when the module is imported, and raises
`InvalidMutantError` if one would change nothing. So a renamed function, or one with
new parameters, stops the tests instead of silently disabling its mutant.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias
from unittest import mock

from tests.simulation.families import GENERAL, Family
from tests.simulation.laws import LAWS

# Makes the call that was replaced. It takes arguments that are to be others.
Original: TypeAlias = Callable[..., Any]

# Modules that may hold a copy of a function, because they import it by name.
_SEARCHED_PACKAGES = ("continuations", "continuations_storage", "tests.simulation")
# A mutant calls the original function through names of its own, which stay.
_MODULE_OF_MUTANTS = re.compile(r"tests\.simulation\..*mutants\b")


class InvalidMutantError(Exception):
    """A mutant would not change what it says that it changes."""


# Patches ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """An attribute of a module or a class that holds the original."""

    owner: object
    attribute: str

    def __str__(self) -> str:
        return f"{getattr(self.owner, '__name__', self.owner)}.{self.attribute}"


@dataclass(frozen=True, slots=True)
class Patch:
    """A replacement, and every place where it stands in for the original."""

    places: tuple[Place, ...]
    replacement: object


Patches: TypeAlias = Iterator[Patch]


def patch(
    original: Any, replacement: Any, *, only_in: tuple[ModuleType, ...] = ()
) -> Patch:
    """Return the patch of a function, method or property.

    A method or property is replaced in its class, a function in its own module and in
    every module that imported it.

    Args:
        original: The function, method or property, as an object.
        replacement: A function with some of its parameters; a parameter `original`
            is a function that makes the call.
        only_in: Modules that imported the function. If given, only their copies are
            replaced.

    Raises:
        InvalidMutantError: The original is nowhere under its own name, a module of
            `only_in` did not import it, or the replacement has another parameter.
    """
    function = _function_of(original)
    parameters = inspect.signature(function).parameters
    needed = inspect.signature(replacement).parameters
    is_async = inspect.iscoroutinefunction
    if not needed.keys() <= {"original", *parameters} or (
        is_async(function) != is_async(replacement)
    ):
        msg = (
            f"{function.__qualname__} and its replacement differ in their parameters, "
            f"or only one is a coroutine: {[*parameters]} and {[*needed]}"
        )
        raise InvalidMutantError(msg)
    return _patch(
        original,
        lambda given: replacement(**{name: given[name] for name in needed}),
        only_in,
    )


def skip(original: Any, *, only_in: tuple[ModuleType, ...] = ()) -> Patch:
    """Return the patch of a function that does nothing and returns None."""
    return returns(original, None, only_in=only_in)


def returns(
    original: Any, value: object, *, only_in: tuple[ModuleType, ...] = ()
) -> Patch:
    """Return the patch of a function or property that only returns a value."""
    # Each call gets a list or dict of its own.
    return _patch(original, lambda _: copy(value), only_in)


def gives_back(
    original: Any, name: str, *, only_in: tuple[ModuleType, ...] = ()
) -> Patch:
    """Return the patch of a function that only returns one of its arguments.

    Raises:
        InvalidMutantError: The function has no parameter of that name.
    """
    if name not in inspect.signature(original).parameters:
        msg = f"{original.__qualname__} has no parameter {name}"
        raise InvalidMutantError(msg)
    return _patch(original, lambda given: given[name], only_in)


def _patch(
    original: Any,
    result: Callable[[Mapping[str, Any]], Any],
    only_in: tuple[ModuleType, ...],
) -> Patch:
    """Return the patch of a function by one that computes a result of its arguments."""
    function = _function_of(original)
    places = tuple(_places_of(original, function))
    if only_in:
        by_module = [p for p in places if any(p.owner is each for each in only_in)]
        if len(by_module) != len(only_in):
            msg = f"{function.__qualname__} was not imported by all of {only_in}"
            raise InvalidMutantError(msg)
        places = tuple(by_module)
    made = _called_like(function, result)
    return Patch(places, property(made) if isinstance(original, property) else made)


def _function_of(original: Any) -> Any:
    return original.fget if isinstance(original, property) else original


def _called_like(
    function: Callable[..., Any], result: Callable[[Mapping[str, Any]], Any]
) -> Callable[..., Any]:
    """Return a function that has the signature of another one and its own result."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: object, **options: object) -> Any:
        def call_original(**others: object) -> Any:
            changed = signature.bind(*args, **options)
            assert others.keys() <= signature.parameters.keys()
            changed.arguments |= others
            return function(*changed.args, **changed.kwargs)

        given = signature.bind(*args, **options)
        given.apply_defaults()
        return result(given.arguments | {"original": call_original})

    if not inspect.iscoroutinefunction(function):
        return call

    @functools.wraps(function)
    async def coroutine(*args: object, **options: object) -> Any:
        made = call(*args, **options)
        return await made if inspect.isawaitable(made) else made

    return coroutine


def _places_of(original: object, function: Any) -> Iterator[Place]:
    """Yield where an object is; its own definition first."""
    module_name, qualified_name = function.__module__, function.__qualname__
    owner_names, _, name = qualified_name.rpartition(".")
    owner: Any = sys.modules[module_name]
    for owner_name in filter(None, owner_names.split(".")):
        owner = getattr(owner, owner_name, None)
    if owner is None or _own_attribute(owner, name) is not original:
        msg = f"{module_name}.{qualified_name} is not the function of that name"
        raise InvalidMutantError(msg)
    yield Place(owner, name)
    if owner_names:
        return
    for other_name in _searched_modules():
        module = sys.modules[other_name]
        contents = vars(module)
        # Most modules have no copy; without this question the search takes a second.
        if module is not owner and original in contents.values():
            copies = (key for key, value in contents.items() if value is original)
            yield from (Place(module, attribute) for attribute in sorted(copies))


def _own_attribute(owner: object, name: str) -> object:
    # Not getattr: it would make a new object of a method or property.
    return vars(owner).get(name)


def _searched_modules() -> list[str]:
    names = [name for name in sys.modules if name.startswith(_SEARCHED_PACKAGES)]
    return sorted(name for name in names if not _MODULE_OF_MUTANTS.match(name))


# Mutants ----------------------------------------------------------------------------


def _no_patches() -> Patches:
    yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A deliberate bug.

    Attributes:
        name: The name of the generator of its patches.
        description: The wrong behaviour, in one sentence.
        breaks: The names of the laws of which at least one must break.
        patches: Makes the patches, anew for each use.
        condition: Makes patches that create a situation which no schedule has by
            itself. Code without the mutant keeps all laws in that situation.
        family: The family of schedules that notice it.
    """

    name: str
    description: str
    breaks: tuple[str, ...]
    patches: Callable[[], Patches]
    condition: Callable[[], Patches] = _no_patches
    family: Family = GENERAL

    @property
    def has_condition(self) -> bool:
        """Whether its schedules have a situation that no others have."""
        return self.condition is not _no_patches

    def check(self) -> None:
        """Raise `InvalidMutantError` if the mutant cannot be applied as written."""
        try:
            patches = [*self.patches(), *self.condition()]
        except (InvalidMutantError, AttributeError) as error:
            msg = f"mutant {self.name}: {error}"
            raise InvalidMutantError(msg) from error
        places = [(id(p.owner), p.attribute) for each in patches for p in each.places]
        if len(set(places)) != len(places):
            msg = f"mutant {self.name} patches one place twice"
            raise InvalidMutantError(msg)
        if not self.description:
            msg = f"mutant {self.name} has no docstring that says what is wrong"
            raise InvalidMutantError(msg)
        if not self.breaks or not LAWS.keys() >= {*self.breaks}:
            msg = f"mutant {self.name} breaks {self.breaks}: not all of them are laws"
            raise InvalidMutantError(msg)

    @contextmanager
    def condition_applied(self) -> Generator[None]:
        """Create the situation of the mutant, without its bug."""
        with applied_patches(self.condition()):
            yield

    @contextmanager
    def applied(self) -> Generator[None]:
        """Put the bug into the code of this process; take it out again at the end."""
        with self.condition_applied(), applied_patches(self.patches()):
            yield


@contextmanager
def applied_patches(patches: Patches) -> Generator[None]:
    """Apply patches to the code of this process; undo them at the end."""
    # All patches are made before the first is applied: each must find the originals.
    ready = tuple(patches)
    with ExitStack() as stack:
        for each in ready:
            for place in each.places:
                stack.enter_context(
                    mock.patch.object(place.owner, place.attribute, each.replacement)
                )
        yield


def mutant(
    *breaks: str,
    condition: Callable[[], Patches] = _no_patches,
    family: Family = GENERAL,
) -> Callable[[Callable[[], Patches]], Mutant]:
    """Make a checked mutant of a generator of patches.

    It has the generator's name, and the sentence of its docstring as its description.

    Args:
        breaks: The names of the laws of which at least one must break.
        condition: See `Mutant`.
        family: The family of schedules that notice it.

    Raises:
        InvalidMutantError: A function to replace does not exist or has other
            parameters, one place is patched twice, `breaks` names no law, or there is
            no docstring.
    """

    def register(patches: Callable[[], Patches]) -> Mutant:
        made = Mutant(
            name=patches.__name__,
            description=" ".join((patches.__doc__ or "").split()),
            breaks=breaks,
            patches=patches,
            condition=condition,
            family=family,
        )
        made.check()
        return made

    return register


def mutants_of(
    family: Family,
) -> Callable[..., Callable[[Callable[[], Patches]], Mutant]]:
    """Return `mutant` for the mutants of a family."""
    return functools.partial(mutant, family=family)


def mutants_in(names: Mapping[str, object]) -> tuple[Mutant, ...]:
    """Return the mutants of a module, in the order of its source."""
    values: Iterable[object] = names.values()
    return tuple(value for value in values if isinstance(value, Mutant))


def unique_mutants(*groups: tuple[Mutant, ...]) -> tuple[Mutant, ...]:
    """Return all mutants of some groups.

    Raises:
        InvalidMutantError: Two mutants have one name or one description.
    """
    mutants = tuple(mutant for group in groups for mutant in group)
    for values in ([m.name for m in mutants], [m.description for m in mutants]):
        repeated = sorted({value for value in values if values.count(value) > 1})
        if repeated:
            msg = f"registered twice: {repeated}"
            raise InvalidMutantError(msg)
    return mutants
