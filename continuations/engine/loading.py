"""Load an object by its name: `module:name`, as in `payroll.agents:runner`.

Only an operator's own option is loaded by name (`--app`, a setting of a function).
Stored bytes never name code.
"""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable


def load_object(spec: str, *, from_current_directory: bool = False) -> object:
    """Import a module and return one of its objects.

    Args:
        spec: `module:name`. The name may be dotted: `payroll:App.runner`.
        from_current_directory: Look for the module in the current directory first,
            like `python -m`. The directory stays in `sys.path`.

    Returns:
        The object. It is not called.

    Raises:
        InvalidInput: `spec` has another form, there is no such module or name, or
            the module raised an exception. The text names the file and the line; the
            exception is the cause.
    """
    module_name, colon, name = spec.partition(":")
    if not (module_name and colon and name) or module_name.startswith("."):
        msg = f"{spec[:80]!r} is not of the form module:name"
        raise InvalidInput(f"{msg}. Pass a name like payroll.agents:runner.")
    if from_current_directory and (directory := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, directory)
    found: Any = _import_module(spec, module_name)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            msg = f"cannot load {spec!r}: module {module_name!r} has no {name!r}"
            raise InvalidInput(f"{msg}. Check the name after the colon.") from None
    return found


def load_or_call(
    source: str | Callable[[], Any], *, from_current_directory: bool = False
) -> Any:
    """Return the object named `module:name`, or the result of a function.

    An object that is callable is called without arguments.

    Raises:
        InvalidInput: There is no such module or name, or importing it failed.
    """
    if not isinstance(source, str):
        return source()
    loaded = load_object(source, from_current_directory=from_current_directory)
    return loaded() if callable(loaded) else loaded


def _import_module(spec: str, name: str) -> object:
    try:
        return import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            msg = (
                f"cannot load {spec!r}: there is no module {missing!r}. Install the"
                " module, or add its directory to PYTHONPATH."
            )
        else:
            msg = (
                f"cannot load {spec!r}: importing the module failed"
                f"{_error_location(error)}: {type(error).__name__}: {error}. Correct"
                " the module."
            )
        raise InvalidInput(msg) from error


def _error_location(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    outside = [each for each in frames if not each.filename.startswith("<frozen ")]
    # The first frame is this module's.
    last = outside[-1] if outside[1:] else None
    return "" if last is None else f" at {last.filename}, line {last.lineno}"
