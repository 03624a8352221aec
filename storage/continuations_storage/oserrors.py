"""The errors of the operating system, as errors of the store contract."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from continuations_storage.errors import (
    Damaged,
    Denied,
    InvalidKey,
    NotFound,
    Unavailable,
)

if TYPE_CHECKING:
    from continuations_storage.errors import StorageError

__all__ = ["NO_FLUSH", "NO_HARD_LINKS", "to_storage_error"]

_ERRORS_BY_ERRNO: dict[int, type[StorageError]] = {
    errno.ENOENT: NotFound,
    errno.ENOTDIR: NotFound,  # a part of the path is a key, not a folder
    errno.EISDIR: NotFound,
    errno.EACCES: Denied,
    errno.EPERM: Denied,
    errno.EROFS: Denied,
    errno.ELOOP: Denied,  # a symbolic link where the key should be
    errno.ENAMETOOLONG: InvalidKey,  # some encrypting file systems stop at 143
    errno.EBADMSG: Damaged,
    getattr(errno, "EUCLEAN", errno.EBADMSG): Damaged,  # "structure needs cleaning"
}

# The errors of link() on file systems without hard links (FAT, exFAT, some FUSE and
# network mounts), and across two file systems.
NO_HARD_LINKS = frozenset(
    {
        errno.EPERM,
        errno.EXDEV,
        errno.EMLINK,
        errno.ENOSYS,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
    }
)

# The errors of fsync() of a folder on file systems that cannot flush folders.
NO_FLUSH = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


def to_storage_error(cause: OSError, key: str | None) -> StorageError:
    """Return the error of the contract for an OSError; `Unavailable` by default."""
    number = cause.errno or 0
    of_class = _ERRORS_BY_ERRNO.get(number, Unavailable)
    return of_class(key, f"{errno.errorcode.get(number, 'OSError')}: {cause.strerror}")
