"""Paths: as text for people, what is at one, what to say where nothing is, and globs no link can trap."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from fastprof.errors import FastprofError, NotFoundError, UnreadableError, UsageError
from fastprof.wording.patterns import compile_late

# Path("gs://bucket") is written gs:/bucket, hence the second form.
_URL = compile_late(r"(file|https?|gs|gcs|s3|hdfs|dbfs|abfss?):/|[A-Za-z][A-Za-z0-9+.-]+://")
_MAGIC = compile_late(r"[*?[]")
_COMPARED = 2000
"""Names of a directory that a misspelt one is compared with: comparing is slow."""


def show_path(path: str) -> str:
    """The path as text fit for UTF-8: bytes of it that are not UTF-8 appear as ``\\xNN``."""
    try:
        return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return path.encode("utf-8", "backslashreplace").decode("utf-8")


def make_absolute(path: str) -> str:
    """Return the path from the root, so that it opens after a change of directory; ``..`` is left in it."""
    try:
        return str(Path(path).absolute())
    except OSError:  # the current directory is gone
        return path


def join_path(directory: str, name: str) -> str:
    """Return the path of an entry of a directory, as ``Path`` writes it, in a tenth of the time: runs may be many."""
    if directory == ".":
        return name
    return directory + name if directory.endswith(os.sep) else directory + os.sep + name


def get_mode(path: str) -> int | None:
    """Return the mode of what the path leads to, links followed; None where nothing is there.

    Raises UnreadableError where the system does not say, UsageError where no path can be so.
    """
    try:
        return Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as fault:
        if fault.errno == errno.ENAMETOOLONG:  # a URL, or a mistake
            return None
        raise make_unreadable_error(path, fault) from fault
    except ValueError as fault:
        raise UsageError(f"not a valid path: {fault}", path=show_path(path)) from fault


def find_last_change(directory: str, names: Iterable[str]) -> float:
    """Return when one of these files last changed, in Unix seconds; 0: unknown."""
    changed = 0.0
    for name in names:
        try:
            changed = max(changed, Path(directory, name).stat().st_mtime)
        except OSError:  # a dangling link
            continue
    return changed


def is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def is_link(path: str) -> bool:
    try:
        return Path(path).is_symlink()
    except OSError:
        return False


def make_unreadable_error(path: str, fault: OSError) -> UnreadableError:
    """Return the error for a path that the system refuses to read."""
    advice = ""
    if isinstance(fault, PermissionError):
        advice = "; it needs read permission, and the directories above it execute permission"
    return UnreadableError(f"cannot be read: {fault.strerror or fault}{advice}", path=show_path(path))


def make_absent_error(path: str) -> FastprofError:
    """Return the error for a path where nothing is, with what may have been meant."""
    if _URL.match(path):
        if path.startswith("file:"):
            return UsageError("give the path without file://", path=show_path(path))
        advice = "copy the file to a local directory or mount it, and give that path"
        return UsageError(f"URLs cannot be read; {advice}", path=show_path(path))
    if is_link(path):
        target = show_path(str(Path(path).readlink()))
        return NotFoundError(f"is a link to {target}, which does not exist", path=show_path(path))
    missing = Path(path)
    while not os.path.lexists(missing.parent) and missing.parent != missing:
        missing = missing.parent
    if not is_directory(missing.parent):
        message = f"no such path: {show_path(str(missing.parent))} is not a directory"
        return NotFoundError(message, path=show_path(path))
    message = "no such file or directory"
    if missing != Path(path):
        message += f": missing folder {show_path(str(missing))}"
    close = [show_path(str(missing.with_name(name))) for name in _find_close_names(missing)]
    if close:
        message += f"; did you mean {' or '.join(close)}?"
    elif path.startswith("~"):
        message += "; ~ is not expanded, give the full path"
    return NotFoundError(message, path=show_path(path))


def _find_close_names(missing: Path) -> list[str]:
    from difflib import get_close_matches

    if missing.name in ("", ".."):
        return []
    try:
        with os.scandir(missing.parent) as entries:
            names = [entry.name for entry in islice(entries, _COMPARED)]
    except OSError:
        return []
    hidden = missing.name.startswith(".")
    return get_close_matches(missing.name, [name for name in names if hidden or not name.startswith(".")])


def is_glob(path: str) -> bool:
    return _MAGIC.search(path) is not None and _URL.match(path) is None


def expand_glob(pattern: str) -> list[Path]:
    """Paths that match, sorted by component, each once; ``**`` is any number of directories.

    The standard library's glob goes through links to directories at ``**``, and circles of links take it
    forever; this one goes through links only where a component of the pattern matches them.
    Raises UnreadableError where nothing matches and a directory could not be listed.
    """
    refused: list[OSError] = []
    path = Path(pattern)
    parts = path.relative_to(path.anchor).parts
    matches = list(dict.fromkeys(_list_matches(Path(path.anchor), parts, refused)))
    if refused and not matches:
        raise make_unreadable_error(str(refused[0].filename), refused[0]) from refused[0]
    return matches


def _list_matches(base: Path, parts: tuple[str, ...], refused: list[OSError]) -> Iterator[Path]:
    from fnmatch import fnmatchcase

    if not parts:
        yield base
        return
    head, rest = parts[0], parts[1:]
    if head == "**":
        while rest and rest[0] == "**":
            rest = rest[1:]
        stack = [base]
        while stack:
            directory = stack.pop()
            yield from _list_matches(directory, rest or ("*",), refused)
            below = [entry for entry in _list_entries(directory, refused) if entry.is_dir(follow_symlinks=False)]
            stack += [Path(entry) for entry in reversed(below) if not entry.name.startswith(".")]
    elif _MAGIC.search(head):
        for entry in _list_entries(base, refused):
            if fnmatchcase(entry.name, head) and (head.startswith(".") or not entry.name.startswith(".")):
                yield from _list_matches(Path(base, entry.name), rest, refused)
    elif os.path.lexists(base / head):
        yield from _list_matches(base / head, rest, refused)


def _list_entries(directory: Path, refused: list[OSError]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as fault:
        refused.append(fault)
        return []
