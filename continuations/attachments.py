"""Files, images and audio that are sent to an agent, or returned by a tool.

from continuations.attachments import Audio, File
"""

from __future__ import annotations

from continuations.core.rows.attachments import Audio, File, Image

__all__ = [
    "Audio",
    "File",
    "Image",
]
