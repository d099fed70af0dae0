"""Writing a whole file or nothing."""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO


def atomic_write(path: str | os.PathLike[str], data: bytes) -> None:
    """Put ``data`` at ``path`` so that a reader, a crash or a full disk sees the old file or the new one.

    A temporary file in the same folder is written, flushed to the disk and renamed over the target; then the
    folder is flushed. Whatever is raised meanwhile (an interrupt too), the temporary file is removed and an
    old file stays as it was; only a killed process leaves a ``.pbdn-*.tmp`` behind. Links are followed. A
    device or a pipe (``/dev/stdout``) is written directly.

    Raises
    ------
    OSError
        Of the kind of the failure (FileNotFoundError, PermissionError, IsADirectoryError, no space, …).
    """
    atomic_write_all({path: data})


def atomic_write_all(files: Mapping[str | os.PathLike[str], bytes]) -> None:
    """`atomic_write` for several files: none is put in place before all are on the disk."""
    staged: list[tuple[Path, Path]] = []
    path: str | os.PathLike[str] = ""
    try:
        for path, data in files.items():
            target = Path(os.path.realpath(path))
            kind = target.stat().st_mode if target.exists() else stat.S_IFREG
            if stat.S_ISDIR(kind):
                raise IsADirectoryError(21, "it is a folder; give a file name in it")
            if stat.S_ISREG(kind):
                staged.append((_stage(target, data), target))
            else:
                target.write_bytes(data)
        for temporary, target in staged:
            os.replace(temporary, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"Cannot write {os.fspath(path)!r}: {reason}. Nothing was changed.") from error
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
    for folder in {target.parent for _, target in staged}:
        with contextlib.suppress(OSError):  # not every file system and no Windows folder can be flushed
            _flush_folder(folder)


@contextlib.contextmanager
def atomic_stream(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A stream whose bytes are at ``path`` once the context ends without an error; see `atomic_write`."""
    target = Path(os.path.realpath(path))
    try:
        kind = target.stat().st_mode if target.exists() else stat.S_IFREG
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(21, "it is a folder; give a file name in it")
        if not stat.S_ISREG(kind):
            with open(target, "wb") as device:
                yield device
            return
        temporary, stream = _temporary_beside(target)
        try:
            with stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"Cannot write {os.fspath(path)!r}: {reason}. Nothing was changed.") from error
    with contextlib.suppress(OSError):
        _flush_folder(target.parent)


def _temporary_beside(target: Path) -> tuple[Path, BinaryIO]:
    """A new file in the folder of the target, with its permissions."""
    temporary = target.parent / f".pbdn-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    if target.exists():
        os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
    return temporary, open(descriptor, "wb")


def _stage(target: Path, data: bytes) -> Path:
    """Write a temporary file beside the target and flush it to the disk."""
    temporary, stream = _temporary_beside(target)
    try:
        with stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
