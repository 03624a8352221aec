"""The results of tools that return images, audio or files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from continuations.authoring.errors import ResultNotSerializable
from continuations.core import jsontext
from continuations.core.attachments import ResultWithFiles, is_content, text_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.attachments import Content


def has_contents(result: object) -> bool:
    """Return whether a result is an attachment, or a list that contains one."""
    if isinstance(result, list | tuple):
        return any(map(is_content, cast("Sequence[object]", result)))
    return is_content(result)


def result_with_files(result: object) -> ResultWithFiles:
    """Return the parts of a result; raises `ResultNotSerializable`."""
    listed = isinstance(result, list | tuple)
    items = cast("Sequence[object]", result) if listed else (result,)
    parts: list[dict[str, Any]] = []
    texts: list[str] = []
    contents: list[Content] = []
    for index, item in enumerate(items):
        if is_content(item):
            content = cast("Content", item)
            contents.append(content)
            parts.append(content.attachment.part)
            texts.append(content.attachment.label)
        elif isinstance(item, str):
            text = str.__str__(item)
            parts += [text_part(text)] if text else []
            texts += [text] if text else []
        else:
            msg = (
                f"result[{index}] is of type {type(item).__name__}: a list with an "
                "attachment has only texts, Image, Audio and File"
            )
            raise ResultNotSerializable(msg)
    return ResultWithFiles(
        text="\n".join(texts), parts_json=jsontext.dump(parts), contents=tuple(contents)
    )
