"""Show the parameters of the project's value classes in the reference.

Griffe reads the source without running it, and knows `dataclasses.dataclass` only.
"""

from __future__ import annotations

import griffe  # pyright: ignore[reportMissingModuleSource] - in the group `docs`


class ValueClasses(griffe.Extension):
    """Treat `value_class.dataclass` as `dataclasses.dataclass`."""

    def on_module_members(self, *, mod: griffe.Module, **_: object) -> None:
        """Point the import of the decorator to the one that Griffe knows."""
        decorator = mod.members.get("dataclass")
        if isinstance(decorator, griffe.Alias):
            decorator.target_path = "dataclasses.dataclass"
