"""Tables of a session to a folder of files: Parquet, Arrow IPC or CSV, streaming, all or nothing.

    OUT/<table>/host=<host>/part-0.parquet              OUT/<table>/run=<run>/host=<host>/… of several runs
    OUT/session.json                                    the sources of all hosts

The folder is written beside OUT under a temporary name and renamed when it is complete: a killed export leaves
nothing that looks whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fastprof.decode.workers import Progress
from fastprof.errors import OutputError, UsageError
from fastprof.export.hive import export_tables, list_recorded_tables
from fastprof.export.new_files import make_complete_folder, wrap_output_errors
from fastprof.export.writers import WRITERS
from fastprof.inputs.stores.store_path import StorePath, is_url
from fastprof.tables.table_set import TABLES
from fastprof.wording.patterns import compile_late
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    from fastprof.export.by_workers import RunOfWorkers
    from fastprof.tables.table_set import TableSet
    from fastprof.tables.tables_of_runs import TablesOfRuns

_OURS = compile_late(
    rf"({'|'.join(TABLES)})(/run=[^/]*)?(/host=[^/]*(?P<file>/part-0\.({'|'.join(WRITERS)}))?)?|(?P<about>session\.json)"
)
"""The paths below an export."""


class Exportable(Protocol):
    """What is exported: anything with the tables of a run or of several, such as a Profile."""

    @property
    def exported(self) -> TableSet | TablesOfRuns: ...
    @property
    def by_workers(self) -> Sequence[RunOfWorkers]: ...


def write(
    profile: Exportable,
    out: str | os.PathLike[str],
    *,
    format: str = "parquet",
    tables: Sequence[str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write tables (None: ``TableSet.recorded``) under the folder ``out``; returns it.

    ``progress`` hears of the stages "indexing" and "exporting". Raises UsageError for an unknown format or table, or
    where no host is selected; OutputError where ``out`` exists (unless ``force``, which replaces an export once the
    new one is complete) or cannot be written.
    """
    check_choice(format, tables)
    if is_url(os.fspath(out)) or isinstance(out, StorePath):
        raise UsageError("the layout paths needs a local folder; for a URL, use the layout dataset", path=str(out))
    path = Path(out)
    with (
        wrap_output_errors(str(path)),
        make_complete_folder(path, force, _is_ours, "an export", "exports") as temporary,
    ):
        if runs := profile.by_workers:
            from fastprof.export.by_workers import export_by_workers  # most sessions are read here

            progress = _watch_folder(path, force, progress or runs[0].hosts.progress)
            export_by_workers(runs, temporary, str(path), tables, format, progress)
            return path
        exported = profile.exported
        with exported.workers.reporting(_watch_folder(path, force, progress or exported.workers.progress)):
            chosen = list_recorded_tables(exported) if tables is None else list(dict.fromkeys(tables))
            export_tables(exported, temporary, chosen, WRITERS[format])
    return path


def check_choice(format: str, tables: Sequence[str] | None) -> None:
    """Raise UsageError for an unknown format or table, or an export without tables."""
    if format not in WRITERS:
        raise UsageError(f"no export format {format!r}; there are: {', '.join(WRITERS)}{suggest_name(format, WRITERS)}")
    for name in tables or ():
        if name not in TABLES:
            raise UsageError(f"no table {name!r}; there are: {', '.join(TABLES)}{suggest_name(name, TABLES)}")
    if tables is not None and not tables:
        raise UsageError("nothing to export: the list of tables is empty")


def _watch_folder(path: Path, force: bool, progress: Progress | None) -> Progress:
    """Progress that raises OutputError once another process has made the folder: what is written would be in vain."""

    def report(stage: str, done: int, total: int) -> None:
        if not force and (path.is_symlink() or path.exists()):
            raise OutputError(
                "already exists: it was created in the meantime; use force (--force) to replace it", path=str(path)
            )
        if progress is not None:
            progress(stage, done, total)

    return report


def _is_ours(name: str, is_folder: bool) -> bool:
    known = _OURS.fullmatch(name)
    return known is not None and is_folder != bool(known["file"] or known["about"])
