"""The public ``write``: exports in each layout."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from fastprof.decode.workers import Progress
from fastprof.errors import UsageError
from fastprof.export import dataset, folders
from fastprof.export.dataset import AddedRun
from fastprof.export.dataset_files import FIGURES, NOTICES, make_report_schema, make_schema
from fastprof.export.destinations import open_destination
from fastprof.export.run_manifests import check_format, has_run
from fastprof.inputs.stores.store_path import StorePath, bind_paths
from fastprof.schema.tables import TableSchema
from fastprof.tables.table_set import TABLES
from fastprof.wording.spelling import suggest_name

LAYOUTS: Final = ("dataset", "paths")


class Exportable(folders.Exportable, Protocol):
    """A Profile, or another object with its tables. ``runs``: run profiles by name."""

    @property
    def runs(self) -> Mapping[str, Any]: ...


def write(
    profile: Exportable,
    out: str | os.PathLike[str],
    *,
    layout: str | None = None,
    format: str = "parquet",
    tables: Sequence[str] | None = None,
    reports: Sequence[str] = (),
    force: bool = False,
    replace: bool = False,
    flat: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> Path | str:
    """Write tables (None: ``TableSet.recorded``) to ``out``, and return it: a path, or the URL as text.

    ``layout``: "dataset" adds the runs to a dataset of Parquet files; "paths" writes a folder a host, as ``folders``
    describes; None: a dataset, or paths if the format is not Parquet. ``reports``: analyses whose tables, figures and
    notices are added to the dataset, "all" for all. ``replace`` (in a dataset, ``force`` too): replace runs that are
    there with other content. ``flat``: lists and maps as JSON text. ``progress`` receives stages. ``storage_options``,
    ``filesystem``: of the store that ``out`` is in, as of ``load``. UsageError: an unknown name, or no host is
    selected. OutputError: ``out`` cannot be written, or is not what the layout needs.
    """
    out = bind_paths(out, storage_options, filesystem)
    layout = choose_layout(layout, format)
    if layout == "paths":
        for name, value in (("reports", reports), ("replace", replace), ("flat", flat)):
            if value:
                raise UsageError(f"{name} needs the layout dataset")
        return folders.write(profile, out, format=format, tables=tables, force=force, progress=progress)
    how: dict[str, Any] = {"tables": tables, "reports": reports, "flat": flat, "progress": progress}
    write_dataset(profile, out, replace=replace or force, **how)
    return str(out) if isinstance(out, StorePath) else Path(out)


def choose_layout(layout: str | None, format: str) -> str:
    """Return the layout, by default that of the format. UsageError: unknown, or not for this format."""
    if layout is None:
        return "dataset" if format == "parquet" else "paths"
    if layout not in LAYOUTS:
        raise UsageError(f"no layout {layout!r}; there are: {', '.join(LAYOUTS)}{suggest_name(layout, LAYOUTS)}")
    if layout == "dataset" and format != "parquet":
        raise UsageError(f"a dataset has Parquet files; for {format}, use the layout paths")
    return layout


def make_schemas(tables: Sequence[str] | None, reports: Mapping[str, TableSchema], flat: bool) -> dict[str, pa.Schema]:
    """Return the schemas of the tables of a dataset. ``reports``: tables of reports, by name."""
    chosen = [name for name, table in TABLES.items() if not table.derived] if tables is None else tables
    of_reports = {name: make_report_schema(table, flat) for name, table in reports.items()}
    more = {table.name: table.arrow() for table in ((dataset.RUNS, FIGURES, NOTICES) if reports else (dataset.RUNS,))}
    return {name: make_schema(name, flat) for name in chosen} | of_reports | more


def find_known_runs(out: str | os.PathLike[str], runs: Iterable[tuple[str, Sequence[str]]]) -> list[bool]:
    """Return whether a dataset has a run, for each name and paths of captures. No capture is opened. OutputError:
    ``out`` is not a dataset."""
    destination = open_destination(out)
    check_format(destination)
    return [has_run(destination, name, dataset.find_path(captures)) for name, captures in runs]


def write_dataset(
    profile: Exportable,
    out: str | os.PathLike[str],
    *,
    tables: Sequence[str] | None = None,
    reports: Sequence[str] = (),
    replace: bool = False,
    flat: bool = False,
    progress: Progress | None = None,
) -> list[AddedRun]:
    """Add each run to a dataset; arguments as of ``write``."""
    folders.check_choice("parquet", tables)
    return [
        dataset.add_run(run, out, tables=tables, reports=reports, replace=replace, flat=flat, progress=progress)
        for run in profile.runs.values()
    ]
