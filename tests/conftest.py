"""What the tests share: the real captures, and the comparison of tables with the oracle's rows."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from gate import ALL

CAPTURES = Path(__file__).resolve().parent.parent.parent / "shared" / "captures"
_ABSENT = f"real captures are absent: no folder {CAPTURES}"


def _captures() -> list[Path]:
    return sorted((CAPTURES / "xspace").rglob("*.xplane.pb"))


def pytest_configure() -> None:
    if os.environ.get("FASTPROF_REQUIRE_CAPTURES") and not _captures():
        raise pytest.UsageError(f"FASTPROF_REQUIRE_CAPTURES is set, and {_ABSENT}")


def pytest_sessionstart() -> None:
    for stop, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(stop) is signal.SIG_IGN:  # background jobs of a shell and nohup ignore them
            signal.signal(stop, usual)
    gc.disable()  # while the tests are collected: what is made then stays


def pytest_collection_finish() -> None:
    """The modules of all tests are no garbage. Else each full collection looks through them again: tests that make many
    objects take half as long again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _keep_old_objects_from_collections() -> Iterator[None]:
    """Keep objects of earlier test files out of collections: a server collects at each stage, in 0.1 s each."""
    yield
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    found = len(_captures())
    return f"captures: {found} real ones" if found else f"captures: NONE, their tests are skipped ({_ABSENT})"


TYPICAL = ("cpu-jax-train", "cpu-tf214-train", "gpu-mi300x-jax08-gemm", "synthetic-serving", "tpu-v6e-jax-inference")
"""A capture of each framework and kind of device; others resemble one of them, and are larger."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with the argument `capture` runs once for each real capture; in the gate for typical ones, if it is marked
    so."""
    if "capture" not in metafunc.fixturenames:
        return
    is_for_all = ALL or metafunc.definition.get_closest_marker("typical_captures") is None
    found: list[Any] = [
        pytest.param(path, id=f"{path.parent.name}/{path.name}", marks=pytest.mark.captures)
        for path in _captures()
        if is_for_all or path.parent.name in TYPICAL
    ]
    absent = pytest.param(None, id="absent", marks=pytest.mark.skip(reason=_ABSENT))
    metafunc.parametrize("capture", found or [absent])


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of real captures; skips where it is absent."""
    if not _captures():
        pytest.skip(_ABSENT)
    return CAPTURES


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Stores of the viewer go to a folder of these tests, and no helper that the user has started takes commands."""
    os.environ["FASTPROF_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["FASTPROF_WARM"] = "0"


# ---- tables against rows --------------------------------------------------------------------------


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array of its values: no dictionary."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def _first_difference(found: pa.Array, wanted: pa.Array) -> int | None:
    if len(found) != len(wanted):
        return min(len(found), len(wanted))
    if pa.types.is_floating(found.type):  # NaN is NaN, and -0.0 is not 0.0
        found, wanted = found.view(pa.int64()), wanted.view(pa.int64())
    if found.equals(wanted):
        return None
    if pa.types.is_nested(found.type):
        pairs = zip(found.to_pylist(), wanted.to_pylist(), strict=True)
        return next((row for row, (a, b) in enumerate(pairs) if a != b), None)
    same = pc.fill_null(pc.equal(found, wanted), False)
    both_null = pc.and_(pc.is_null(found), pc.is_null(wanted))
    return int(pc.index(pc.or_(same, both_null), False).as_py())


def difference(table: pa.Table, rows: Mapping[str, list[Any]], name: str = "table") -> str | None:
    """Where a table is not these rows, in words; None where it is them."""
    if table.column_names != list(rows):
        return f"{name}: columns {table.column_names}, expected {list(rows)}"
    for column, values in rows.items():
        found = _plain(table[column])
        row = _first_difference(found, pa.array(values, found.type))
        if row is not None:
            got = table.slice(row, 1).to_pylist() or ["missing"]
            want = {key: column_rows[row] for key, column_rows in rows.items() if row < len(column_rows)}
            sizes = f"{len(found)} rows, expected {len(values)}; " if len(found) != len(values) else ""
            return f"{name}.{column}: {sizes}row {row} is\n  {got[0]}, expected\n  {want}"
    return None


def _schema_fault(table: pa.Table, name: str) -> str | None:
    """Where the table is not as schema.py promises; dictionary indices may be narrower."""
    from fastprof.tables.table_set import TABLES

    for column in TABLES[name].columns:
        field = table.schema.field(column.name)
        narrowed = pa.types.is_dictionary(field.type) and pa.types.is_dictionary(column.type)
        same = field.type.value_type == column.type.value_type if narrowed else field.type == column.type
        if not same or field.nullable != column.nullable:
            return f"{name}.{column.name} is {field}, promised {column.field()}"
        if not column.nullable and table[column.name].null_count:
            return f"{name}.{column.name} has {table[column.name].null_count} nulls and is not nullable"
    return None


TableCheck = Callable[..., None]


@pytest.fixture(scope="session")
def check_tables() -> TableCheck:
    """check_tables(tables, expected, only=None): each expected table is there, as promised, and equal."""

    def check(tables: Mapping[str, pa.Table], expected: Mapping[str, Any], only: Iterable[str] | None = None) -> None:
        for name in expected if only is None else only:
            fault = difference(tables[name], expected[name], name) or _schema_fault(tables[name], name)
            assert fault is None, fault

    return check


@pytest.fixture(scope="session")
def check_same() -> TableCheck:
    """check_same(tables, others, but=()): every table of two profiles is equal, bit for bit."""

    def check(tables: Mapping[str, pa.Table], others: Mapping[str, pa.Table], but: Iterable[str] = ("hosts",)) -> None:
        assert list(tables) == list(others)
        for name in tables:
            if name in but:
                continue
            one, other = tables[name], others[name]
            assert one.column_names == other.column_names, name
            for column in one.column_names:
                row = _first_difference(_plain(one[column]), _plain(other[column]))
                assert row is None, f"{name}.{column} differs from row {row} on"

    return check
