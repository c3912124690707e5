"""SQL about a session or about exported runs, answered by DuckDB.

Each query has a database of its own, in memory, that cannot reach files, the network, extensions, settings, or objects
of Python. It gets the tables that the query names, and is stopped when it takes too long or too much memory.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from fastprof.errors import EngineError, FastprofError, MemoryLimitError, UsageError
from fastprof.wording.patterns import compile_late
from fastprof.wording.quantities import format_size
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from fastprof.profile.sql_tables import QueriedProfile, SqlSource

MEMORY: Final = 2 << 30
"""Bytes that a query may use, unless the caller gives another limit."""
TIMEOUT: Final = 60.0
"""Seconds that a query may take, unless the caller gives another limit."""
_BATCH_ROWS: Final = 1 << 17
_HEADROOM: Final = 2 << 30
"""Bytes that the process may grow beyond the memory of a confined query while the query runs: for decoded events."""
_CONFINED: Final = threading.Lock()
"""Held while a confined query runs: the limit is that of the process."""
_STUCK: Final = threading.Event()
"""Set while the query that holds it does not stop."""
_PAUSE: Final = 0.1
"""Seconds between attempts to stop a query."""
_GRACE: Final = 5.0
"""Seconds that an interrupted query has to stop. DuckDB stops only between operators, and some take long."""

Params = Mapping[str, Any] | Sequence[Any] | None


def query_profile(
    profile: QueriedProfile,
    query: str,
    params: Params = None,
    *,
    memory: int = MEMORY,
    timeout: float = TIMEOUT,
    is_confined: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the answer to a query of a profile, as ``query_tables`` does."""
    from fastprof.profile.sql_tables import ProfileTables

    return query_tables(
        ProfileTables(profile), query, params, memory, timeout, profile.threads, is_confined=is_confined
    )


def query_tables(
    sources: Mapping[str, SqlSource],
    query: str,
    params: Params,
    memory: int,
    timeout: float,
    threads: int,
    *,
    is_confined: bool = False,
    give_up: Callable[[FastprofError], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the answer, at least one batch, which may be empty.

    ``sources``: tables by name. ``is_confined``: also limit the address space of this process while DuckDB works, which
    bounds single values as well. ``give_up``: called in another thread if the query is too slow and does not stop.
    UsageError: the query is not allowed, wrong, or too slow; MemoryLimitError; EngineError: it is confined, and another
    one does not stop.
    """
    from fastprof.profile import sql_check, sql_tables

    if not isinstance(memory, int) or memory < 1 << 20:
        raise UsageError(f"memory must be a number of bytes of at least 1 MiB, not {memory!r}")
    if not isinstance(timeout, int | float) or not 0 < timeout < threading.TIMEOUT_MAX:
        raise UsageError(f"timeout must be a number of seconds above 0, not {timeout!r}")
    if params is not None and not isinstance(params, Mapping):
        params = list(params)
    faults: list[FastprofError] = []
    guard = _Guard(timeout, memory, faults, is_confined, give_up)
    with _connect(memory, threads) as connection:
        with guard.limits(connection):
            checked = sql_check.check_query(connection, query, sources)
        if checked.lists_tables:
            yield from sql_tables.list_tables(sources).to_batches(max_chunksize=_BATCH_ROWS)
            return
        for name in checked.tables:
            rows = sources[name].open_rows()
            guard.columns += rows.schema.names
            if not isinstance(rows, pa.Table):  # of a table DuckDB knows the number of rows, and reads it sooner
                rows = sql_tables.ScannedTable(rows, faults)
            with guard.limits(connection):
                _register_table(connection, name, rows)
        with guard.limits(connection):
            answer = _write_odd_values(connection.sql(checked.text, params=params))
            batches = answer.to_arrow_reader(_BATCH_ROWS)
        schema = pa.schema([field.with_type(_choose_plain_type(field.type)) for field in batches.schema])
        yield pa.RecordBatch.from_pylist([], schema)
        while True:
            with guard.limits(connection):
                batch = next(batches, None)
            if batch is None:
                return
            yield _make_plain(batch, schema)


@contextmanager
def _connect(memory: int, threads: int) -> Iterator[DuckDBPyConnection]:
    """A new database that reaches nothing outside. It is made here, where no variable is in reach of a query."""
    try:
        import duckdb
    except ImportError:
        raise UsageError("SQL needs DuckDB: pip install 'fastprof-arrow[sql]'") from None
    if not hasattr(duckdb.DuckDBPyRelation, "to_arrow_reader"):
        raise UsageError(f"SQL needs DuckDB 2 or newer, and {duckdb.__version__} is installed")
    settings: dict[str, str | bool | int | float | list[str]] = {
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "enable_external_access": False,
        "temp_directory": "",
        "memory_limit": f"{memory}B",
        "threads": threads,
    }
    connection = duckdb.connect(":memory:", config=settings)
    try:
        connection.execute("set lock_configuration = true")
        yield connection
    finally:
        with suppress(duckdb.Error):
            connection.close()


def _register_table(connection: DuckDBPyConnection, name: str, rows: Any) -> None:
    """Make a table known under its name; that of a report in the schema of its report."""
    connection.register(name, rows)
    schema, dot, table = name.partition(".")
    if dot:
        connection.execute(f'create schema if not exists "{schema}"')
        connection.execute(f'create view "{schema}"."{table}" as from "{name}"')


class _Guard:
    """Limits of a query, and the wording of its errors. ``columns``: those of its tables."""

    def __init__(
        self,
        timeout: float,
        memory: int,
        faults: list[FastprofError],
        is_confined: bool,
        give_up: Callable[[FastprofError], None] | None,
    ) -> None:
        self._give_up = give_up
        self._timeout, self._memory, self._faults, self._is_confined = timeout, memory, faults, is_confined
        self._left = timeout
        self.columns: list[str] = []

    @contextmanager
    def limits(self, connection: DuckDBPyConnection) -> Iterator[None]:
        """Stop DuckDB when the time is over, and word its errors."""
        import duckdb

        with _take_turn() if self._is_confined else nullcontext():
            started = time.monotonic()
            is_done = threading.Event()
            watcher = threading.Thread(target=self._stop_late, args=(connection, is_done, self._left), daemon=True)
            watcher.start()
            try:
                with _bound_address_space(self._memory + _HEADROOM if self._is_confined else 0):
                    yield
            except FastprofError:
                raise
            except (duckdb.Error, *_FAULTS) as error:
                if self._faults:
                    raise self._faults[0] from None
                raise self._explain(error, time.monotonic() - started >= self._left) from None
            finally:
                is_done.set()
                watcher.join()
                self._left -= time.monotonic() - started

    def _stop_late(self, connection: DuckDBPyConnection, is_done: threading.Event, seconds: float) -> None:
        """Stop a query that is not done after these seconds; say so if it does not stop."""
        if is_done.wait(max(seconds, 0)):
            return
        began = time.monotonic()
        while not is_done.wait(_PAUSE):
            connection.interrupt()  # again and again: one that comes between two steps is lost
            if self._is_confined and time.monotonic() - began >= _GRACE:
                _STUCK.set()
                if self._give_up is not None:
                    self._give_up(self._explain_lateness())

    def _explain_lateness(self) -> UsageError:
        return UsageError(f"the query was stopped after {self._timeout:g} s; --timeout sets this limit")

    def _explain(self, error: Exception, is_late: bool) -> FastprofError:
        """Return the error of a query in plain words."""
        kind, _, text = str(error).partition(": ")
        if "interrupt" in str(error).lower() and is_late:
            return self._explain_lateness()
        if isinstance(error, MemoryError) or "out of memory" in kind.lower() or "failed to allocate" in str(error):
            size = format_size(self._memory)
            return MemoryLimitError(f"the query needs more than {size} of memory; --memory sets this limit")
        unknown = _UNKNOWN_COLUMN.search(text)
        if unknown is not None:
            name = next(filter(None, unknown.groups()))
            known = list(dict.fromkeys(self.columns))
            listed = f"; there are: {', '.join(known)}" if known else ""
            return UsageError(f"no column {name!r} in the tables of the query{listed}{suggest_name(name, known)}")
        if (ambiguous := _AMBIGUOUS_COLUMN.search(text)) is not None:
            name, choices = ambiguous[1], ambiguous[2].replace("'", "")
            return UsageError(f"several tables of the query have a column {name!r}: write {choices}")
        plain = next((line.strip() for line in (text or str(error)).splitlines() if line.strip()), kind)
        return UsageError(f"DuckDB cannot answer the query: {plain}")


_FAULTS: Final = (OSError, pa.ArrowException, MemoryError, RuntimeError, ValueError, TypeError)
"""Errors of DuckDB that come as others: of its streams, of limits, of parameters."""
_UNKNOWN_COLUMN: Final = compile_late(
    r'Referenced column "([^"]+)" (?:not found|was not found)|does not have a column named "([^"]+)"'
    r'|Column "([^"]+)" does not exist'
)
_AMBIGUOUS_COLUMN: Final = compile_late(r'Ambiguous reference to column name "([^"]+)" \(use: (.+?)\)(?:\n|$)')


@contextmanager
def _take_turn() -> Iterator[None]:
    """Wait until no other confined query runs. EngineError: one does not stop."""
    while not _CONFINED.acquire(timeout=_PAUSE):
        if _STUCK.is_set():
            raise EngineError("a query is still being stopped; try again later")
    try:
        yield
    finally:
        _STUCK.clear()
        _CONFINED.release()


@contextmanager
def _bound_address_space(growth: int) -> Iterator[None]:
    """Let the process grow by this many bytes only, if the system can say and limit its size; 0: without a limit."""
    if not growth:
        yield
        return
    try:
        import resource
        from pathlib import Path

        size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = size + growth if soft == resource.RLIM_INFINITY else min(size + growth, soft)
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    except (ImportError, OSError, ValueError):
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _write_odd_values(answer: DuckDBPyRelation) -> DuckDBPyRelation:
    """Return the answer with columns of types that files and tables do not have as texts."""
    odd = [not _is_usual(kind) for kind in answer.types]
    if not any(odd):
        return answer
    columns = [
        f'#{number}{"::varchar" * is_odd} as "{name.replace(chr(34), 2 * chr(34))}"'
        for number, (name, is_odd) in enumerate(zip(answer.columns, odd, strict=True), 1)
    ]
    return answer.project(", ".join(columns))


def _is_usual(kind: Any) -> bool:
    name = str(kind.id)
    if name in ("list", "struct", "map", "array"):
        return all(_is_usual(child) for part, child in kind.children if part != "size")
    return name not in _ODD


_ODD: Final = ("interval", "union", "bit", "bignum", "variant", "uuid", "time", "time_ns", "time with time zone",
                "uhugeint")  # fmt: skip
"""Types whose values become texts."""


def _choose_plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column of the answer: sums of integers are int64, other decimals float64."""
    if pa.types.is_decimal(kind):
        return pa.int64() if kind.scale == 0 else pa.float64()
    if pa.types.is_list(kind):
        return pa.list_(_choose_plain_type(kind.value_type))
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _make_plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [array.storage if isinstance(array, pa.ExtensionArray) else array for array in batch.columns]
    try:
        arrays = [_cast_exactly(array, field.type) for array, field in zip(arrays, schema, strict=True)]
    except pa.ArrowInvalid as error:
        raise UsageError(f"an integer of the answer exceeds 64 bits; cast it to double: {error}") from None
    for array, field in zip(arrays, schema, strict=True):
        _check_years(array, field.name)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast_exactly(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array as another type. Decimals become the nearest numbers, which pyarrow's cast does not give."""
    if pa.types.is_list(kind) and array.type != kind:
        values = _cast_exactly(array.values, kind.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, mask=array.is_null() if array.null_count else None)
    if pa.types.is_decimal(array.type) and pa.types.is_floating(kind):
        return array.cast(pa.string()).cast(kind)
    return array.cast(kind)


def _check_years(array: pa.Array, name: str) -> None:
    """Check the years of dates and times: Python has 1 to 9999. UsageError: others."""
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_map(kind):
        parts = [array.keys, array.items]
    elif pa.types.is_struct(kind):
        parts = array.flatten()
    else:
        parts = [array.flatten()] if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) else []
    for part in parts:
        _check_years(part, name)
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return
    per_day = 1 if pa.types.is_date32(kind) else 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    extremes = pc.min_max(array.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())).as_py()
    if extremes["min"] is not None and (
        extremes["min"] < _FIRST_DAY * per_day or extremes["max"] >= _LAST_DAY * per_day
    ):
        raise UsageError(f"the column {name!r} has times outside of the years 1 to 9999; cast it to varchar")


_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_897
"""Days since 1970 of the years 1 and 10000."""


def collect_table(batches: Iterator[pa.RecordBatch], memory: int) -> pa.Table:
    """Return batches as a table. MemoryLimitError: they take more than ``memory`` bytes."""
    rows: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        size += batch.nbytes
        if size > memory:
            text = f"the answer takes more than {format_size(memory)}; select fewer rows, or read it in batches"
            raise MemoryLimitError(text)
        rows.append(batch)
    return pa.Table.from_batches(rows)


class SqlQueries:
    """Queries of a profile."""

    def sql(self, query: str, params: Params = None, *, memory: int = MEMORY, timeout: float = TIMEOUT) -> pa.Table:
        """Return the answer to an SQL query: DuckDB's dialect, tables of captures by name and of reports as
        ``op_stats.ops``; see docs/sql.md. ``params``: values of ``$name`` in the query by name, or of ``?`` in a list.
        ``memory``: most bytes; ``timeout``: most seconds. UsageError: the query is wrong, or does more than read."""
        return collect_table(self.sql_batches(query, params, memory=memory, timeout=timeout), memory)

    def sql_batches(
        self, query: str, params: Params = None, *, memory: int = MEMORY, timeout: float = TIMEOUT
    ) -> Iterator[pa.RecordBatch]:
        """Yield the answer to an SQL query as record batches, in bounded memory; arguments and errors as of ``sql``."""
        profile: Any = self
        return query_profile(profile, query, params, memory=memory, timeout=timeout)


def explain_no_rows(profile: Any, query: str) -> list[str]:
    """Return why the reports that a query without rows reads have no answer, if they say so. ``profile``: a
    ``Profile``."""
    from fastprof.analyses import ANALYSES
    from fastprof.render.brief import explain_silence

    reasons: list[str] = []
    for name in dict.fromkeys(re.findall(r"\b(\w+)\s*\.", query)):
        for run in profile.by_job.runs.values() if name in ANALYSES else ():
            reasons.append(explain_silence(run.report(name).answer) or "")
    return [reason for reason in dict.fromkeys(reasons) if reason]
