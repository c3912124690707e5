"""Paths, of this machine and in stores (``StorePath``): as text for people, what is at one, what is in a directory,
what to say where nothing is, and globs no link can trap."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Protocol

from fastprof.errors import FastprofError, NotFoundError, UnreadableError, UsageError
from fastprof.inputs.stores.store_path import StorePath, is_url, make_store_path
from fastprof.inputs.stores.store_verbs import StoredObject, hide_secrets
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
    if isinstance(path, StorePath):
        return path
    try:
        return str(Path(path).absolute())
    except OSError:  # the current directory is gone
        return path


def join_path(directory: str, name: str) -> str:
    """Return the path of an entry of a directory, as ``Path`` writes it, in a tenth of the time: runs may be many."""
    if isinstance(directory, StorePath):
        return directory.join(name)
    if directory == ".":
        return name
    return directory + name if directory.endswith(os.sep) else directory + os.sep + name


def find_parent(path: str) -> str:
    """Return the directory of a path."""
    return path.parent if isinstance(path, StorePath) else str(Path(path).parent)


def list_parts(path: str) -> tuple[str, ...]:
    """Return the root and the names of a path."""
    return path.parts if isinstance(path, StorePath) else Path(path).parts


def find_real_path(path: str) -> str:
    """Return the path without links."""
    return path if isinstance(path, StorePath) else os.path.realpath(path)


def is_present(path: str) -> bool:
    """Return whether there is something at a path, be it a link to nothing. Objects are looked at when they are
    opened."""
    return isinstance(path, StorePath) or os.path.lexists(path)


class Entry(Protocol):
    """An entry of a directory, as ``os.DirEntry``."""

    @property
    def name(self) -> str: ...
    def is_dir(self, *, follow_symlinks: bool = True) -> bool: ...
    def is_file(self, *, follow_symlinks: bool = True) -> bool: ...
    def is_symlink(self) -> bool: ...
    def stat(self) -> os.stat_result: ...


class _StoredEntry:
    """An object or a folder of a store. Neither is a link."""

    __slots__ = ("_is_folder", "name")

    def __init__(self, name: str, is_folder: bool) -> None:
        self.name = name
        self._is_folder = is_folder

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        return self._is_folder

    def is_file(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        return not self._is_folder

    def is_symlink(self) -> bool:
        return False

    def stat(self) -> os.stat_result:
        raise FileNotFoundError(self.name)


def list_entries(directory: str) -> list[Entry]:
    """Return the entries of a directory, in no order. Raises OSError, which for stores is a FastprofError, too."""
    if isinstance(directory, StorePath):
        level = directory.call(lambda: directory.store.take_level(directory.prefix))
        return [
            *(_StoredEntry(name, True) for name in level.folders),
            *(_StoredEntry(name, False) for name in level.objects),
        ]
    with os.scandir(directory) as entries:
        return list(entries)


def get_mode(path: str) -> int | None:
    """Return the mode of what the path leads to, links followed; None where nothing is there.

    Raises UnreadableError where the system does not say, UsageError where no path can be so.
    """
    if isinstance(path, StorePath):
        there = path.look_up()
        return None if there is None else stat.S_IFREG if isinstance(there, StoredObject) else stat.S_IFDIR
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
    if isinstance(directory, StorePath):
        known = directory.store.known
        return max((known[key].changed_s for name in names if (key := directory.prefix + name) in known), default=0.0)
    for name in names:
        try:
            changed = max(changed, Path(directory, name).stat().st_mtime)
        except OSError:  # a dangling link
            continue
    return changed


def is_directory(path: str) -> bool:
    """Return whether a path or the URL of a store leads to a directory."""
    if is_url(path) and not isinstance(path, StorePath):
        path = make_store_path(path)
    if isinstance(path, StorePath):
        return path.key not in path.store.known and get_mode(path) == stat.S_IFDIR
    try:
        return Path(path).is_dir()
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
    if isinstance(path, StorePath):
        return NotFoundError("no such object, and no objects below", path=str(path))
    if _URL.match(path):
        if path.startswith("dbfs:/"):
            text = f"give the path of the mount, /dbfs/{path.removeprefix('dbfs:').lstrip('/')}"
            return UsageError(text, path=show_path(path))
        if path.startswith("file:"):
            return UsageError("give the path without file://", path=show_path(path))
        advice = "copy the file to a local directory or mount it, and give that path"
        schemes = "gs, s3, az, abfs, hdfs, http and https"
        text = f"URLs of this scheme cannot be read, those of {schemes} can; {advice}"
        return UsageError(text, path=hide_secrets(show_path(path)))
    if is_link(path):
        target = show_path(str(Path(path).readlink()))
        return NotFoundError(f"is a link to {target}, which does not exist", path=show_path(path))
    missing = Path(path)
    while not os.path.lexists(missing.parent) and missing.parent != missing:
        missing = missing.parent
    if not is_directory(str(missing.parent)):
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
    key = path.key if isinstance(path, StorePath) and path.store.verbs.can_list else path
    return _MAGIC.search(key) is not None and _URL.match(key) is None


def expand_glob(pattern: str) -> list[str]:
    """Paths that match, sorted by component, each once; ``**`` is any number of directories.

    The standard library's glob goes through links to directories at ``**``, and circles of links take it
    forever; this one goes through links only where a component of the pattern matches them.
    Raises UnreadableError where nothing matches and a directory could not be listed.
    """
    refused: list[OSError] = []

    @cache
    def list_sorted(directory: str) -> list[Entry]:
        try:
            return sorted(list_entries(directory), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as fault:
            refused.append(fault)
            return []

    if isinstance(pattern, StorePath):
        root: str = StorePath(pattern.store.address, pattern.store, "")
        parts = pattern.parts[1:]
    else:
        root = Path(pattern).anchor or "."
        parts = Path(pattern).relative_to(Path(pattern).anchor).parts
    matches = list(dict.fromkeys(_list_matches(root, parts, list_sorted)))
    if refused and not matches and isinstance(refused[0], FastprofError):
        raise refused[0]
    if refused and not matches:
        raise make_unreadable_error(str(refused[0].filename), refused[0]) from refused[0]
    return matches


def _list_matches(base: str, parts: tuple[str, ...], list_sorted: Callable[[str], list[Entry]]) -> Iterator[str]:
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
            yield from _list_matches(directory, rest or ("*",), list_sorted)
            below = [entry for entry in list_sorted(directory) if entry.is_dir(follow_symlinks=False)]
            stack += [join_path(directory, entry.name) for entry in reversed(below) if not entry.name.startswith(".")]
    elif _MAGIC.search(head):
        for entry in list_sorted(base):
            if fnmatchcase(entry.name, head) and (head.startswith(".") or not entry.name.startswith(".")):
                yield from _list_matches(join_path(base, entry.name), rest, list_sorted)
    elif isinstance(base, StorePath):
        path = join_path(base, head)
        if rest or get_mode(path) is not None:
            yield from _list_matches(path, rest, list_sorted)
    elif os.path.lexists(join_path(base, head)):
        yield from _list_matches(join_path(base, head), rest, list_sorted)
