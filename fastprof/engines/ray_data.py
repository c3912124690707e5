"""Tables in Ray Data: a block or more a file."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastprof.engines.rows_of_files import host_rows
from fastprof.errors import UsageError

if TYPE_CHECKING:
    from fastprof.inputs.resolve import Named


def read(path: Named | Sequence[Named], table: str = "events", **chosen: Any) -> Any:
    """Return a ``ray.data.Dataset`` of the rows of a table, read where Ray runs. ``chosen``: columns, run, hosts and
    on_error, as ``host_rows`` takes them; its errors, too. UsageError: Ray Data is not installed."""
    try:
        import ray.data
    except ImportError:
        raise UsageError("this needs Ray Data: pip install 'ray[data]'") from None
    tasks = [{"file": pickle.dumps(row)} for row in host_rows(path, table, **chosen)]
    items = ray.data.from_items(tasks, override_num_blocks=len(tasks) or None)
    return items.map_batches(_read_tables, batch_format="pyarrow", batch_size=1)


def _read_tables(files: pa.Table) -> Iterator[pa.Table]:
    for data in files["file"].to_pylist():
        rows = pickle.loads(data)
        yield rows.schema.empty_table()  # so that the columns are known where there are no rows
        for batch in rows.batches():
            yield pa.Table.from_batches([batch])
