"""Tables of a session to a folder of files: Parquet, Arrow IPC or CSV, streaming, all or nothing.

    OUT/<table>/host=<host>/part-0.parquet              OUT/<table>/run=<run>/host=<host>/… of several runs

The folder is written beside OUT under a temporary name and renamed when it is complete: a killed export leaves
nothing that looks whole.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fastprof.errors import FastprofError, OutputError, UsageError
from fastprof.export.hive import export_tables
from fastprof.export.writers import WRITERS
from fastprof.schema import TABLES
from fastprof.workers import Progress

if TYPE_CHECKING:
    from fastprof.table_set import TableSet

DEFAULT_TABLES = tuple(name for name, table in TABLES.items() if not table.derived)


class Exportable:
    """What is exported: anything with a table set, such as a Profile."""

    table_set: TableSet


def write(
    profile: Exportable | object,
    out: str | os.PathLike[str],
    *,
    format: str = "parquet",
    tables: Sequence[str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write tables (None: all that are read from the capture) under the folder ``out``; returns it.

    Raises UsageError for an unknown format or table, OutputError where ``out`` exists (unless ``force``, which replaces
    it once the export is complete) or cannot be written.
    """
    if format not in WRITERS:
        raise UsageError(f"no export format {format!r}; there are: {', '.join(WRITERS)}")
    chosen = DEFAULT_TABLES if tables is None else tuple(dict.fromkeys(tables))
    for name in chosen:
        if name not in TABLES:
            raise UsageError(f"no table {name!r}; there are: {', '.join(TABLES)}")
    if not chosen:
        raise UsageError("no tables to export")
    target = Path(out)
    _check_target(target, force)
    table_set: TableSet = profile.table_set  # type: ignore[union-attr]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
        try:
            with table_set.session.workers.reporting(progress):
                export_tables(table_set, temporary, chosen, WRITERS[format])
            temporary.chmod(0o777 & ~_umask())
            _check_target(target, force)  # it may have come into being meanwhile
            _replace(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        if isinstance(error, FastprofError):
            raise
        raise OutputError(f"writing failed: {error.strerror or error}", path=str(target)) from error
    return target


def _check_target(target: Path, force: bool) -> None:
    if target.is_symlink() or target.exists():
        if not force:
            raise OutputError("exists already; choose another name, or force to replace it", path=str(target))
        if not target.is_dir() or target.is_symlink():
            raise OutputError("exists and is not a folder; remove it first", path=str(target))
        strangers = [entry.name for entry in target.iterdir() if entry.name not in TABLES]
        if strangers:
            raise OutputError(
                f"holds {strangers[0]!r}, which no export has written; force replaces exports only", path=str(target)
            )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _replace(temporary: Path, target: Path) -> None:
    """Puts the complete folder in its place; an older one is gone only after that."""
    if not target.exists():
        temporary.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
    target.rename(old / "export")
    temporary.rename(target)
    shutil.rmtree(old, ignore_errors=True)
