"""Statements that define the tables of a dataset in an engine: text only, from the schemas of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa

_BIGQUERY: Final = {"int": "INT64", "double": "FLOAT64", "bool": "BOOL", "string": "STRING", "binary": "BYTES"}
_SNOWFLAKE: Final = {"int": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN", "string": "VARCHAR", "binary": "BINARY"}
_HIVE: Final = {"int": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN", "string": "STRING", "binary": "BINARY"}
_EVENTS_AT: Final = (
    "SELECT events.*, {time} AS start_time FROM events "
    "JOIN hosts ON events.run = hosts.run AND events.host = hosts.host"
)
_TIMES: Final = {
    "bigquery": "TIMESTAMP_MICROS(DIV(hosts.start_unix_ns, 1000) + DIV(events.start_ps, 1000000))",
    "snowflake": "TO_TIMESTAMP_NTZ(hosts.start_unix_ns + FLOOR(events.start_ps / 1000), 9)",
    "athena": "from_unixtime_nanos(hosts.start_unix_ns + events.start_ps / 1000)",
    "spark": "timestamp_micros(hosts.start_unix_ns DIV 1000 + events.start_ps DIV 1000000)",
    "duckdb": "make_timestamp_ns(hosts.start_unix_ns + events.start_ps // 1000)",
}
"""When an event began, as calendar time."""


def write_ddl(dialect: str, out: str, schemas: Mapping[str, pa.Schema]) -> Iterator[str]:
    """Yield statements, each with a semicolon. ``out``: URL or path of the dataset; ``schemas``: by table. Tables of
    reports, such as ``op_stats.ops``, are called ``op_stats_ops``."""
    out = out.rstrip("/").replace("'", "''")
    if dialect == "snowflake":
        yield f"CREATE STAGE IF NOT EXISTS fastprof URL = '{out}/';"
    for table, schema in schemas.items():
        yield _DEFINE[dialect](table.replace(".", "_"), f"{out}/{table}", schema)
    if {"events", "hosts"} <= {*schemas}:
        yield f"CREATE OR REPLACE VIEW events_at AS {_EVENTS_AT.format(time=_TIMES[dialect])};"
    if dialect == "bigquery" and "events" in schemas:
        select = "SELECT * FROM events"
        yield f"CREATE OR REPLACE TABLE events_clustered CLUSTER BY run, host, name AS {select};"


def _define_bigquery(table: str, place: str, schema: pa.Schema) -> str:
    columns = _list_columns(schema, lambda field: f"`{field.name}` {_name_bigquery_type(field.type)}")
    options = f"format = 'PARQUET', uris = ['{place}/*'], enable_list_inference = TRUE"
    return f"CREATE OR REPLACE EXTERNAL TABLE `{table}` (\n{columns}\n)\nOPTIONS ({options});"


def _define_snowflake(table: str, place: str, schema: pa.Schema) -> str:
    def column(field: pa.Field) -> str:
        kind = "TIMESTAMP_NTZ" if pa.types.is_timestamp(field.type) else _find_plain_type(field.type, _SNOWFLAKE)
        if pa.types.is_nested(field.type):
            kind = "OBJECT" if pa.types.is_map(field.type) else "ARRAY"
        return f'"{field.name}" {kind} AS (value:"{field.name}"::{kind})'

    columns = _list_columns(schema, column)
    folder = place.rpartition("/")[2]
    return (
        f'CREATE OR REPLACE EXTERNAL TABLE "{table}" (\n{columns}\n)\nLOCATION = @fastprof/{folder}/\n'
        "AUTO_REFRESH = FALSE\nPATTERN = '.*[.]parquet'\nFILE_FORMAT = (TYPE = PARQUET);"
    )


def _define_athena(table: str, place: str, schema: pa.Schema) -> str:
    columns = _list_columns(schema, lambda field: f"`{field.name}` {_name_hive_type(field.type)}")
    return f"CREATE EXTERNAL TABLE IF NOT EXISTS `{table}` (\n{columns}\n)\nSTORED AS PARQUET\nLOCATION '{place}/';"


def _define_spark(table: str, place: str, schema: pa.Schema) -> str:
    columns = _list_columns(schema, lambda field: f"`{field.name}` {_name_hive_type(field.type)}")
    options = f"OPTIONS (path '{place}', recursiveFileLookup 'true')"
    return f"CREATE TABLE IF NOT EXISTS `{table}` (\n{columns}\n)\nUSING PARQUET\n{options};"


def _define_duckdb(table: str, place: str, schema: pa.Schema) -> str:  # noqa: ARG001
    files = f"read_parquet('{place}/*/*.parquet', union_by_name = true, hive_partitioning = false)"
    return f'CREATE OR REPLACE VIEW "{table}" AS SELECT * FROM {files};'


_DEFINE: Final[Mapping[str, Callable[[str, str, pa.Schema], str]]] = {
    "bigquery": _define_bigquery,
    "snowflake": _define_snowflake,
    "athena": _define_athena,
    "spark": _define_spark,
    "duckdb": _define_duckdb,
}


def _list_columns(schema: pa.Schema, define: Callable[[pa.Field], str]) -> str:
    return ",\n".join(f"  {define(field)}" for field in schema)


def _find_plain_type(kind: pa.DataType, names: Mapping[str, str]) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return names["int"]
    if pa.types.is_floating(kind):
        return names["double"]
    if pa.types.is_boolean(kind):
        return names["bool"]
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP"
    return names["binary"] if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else names["string"]


def _name_bigquery_type(kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        key, item = _name_bigquery_type(kind.key_type), _name_bigquery_type(kind.item_type)
        return f"ARRAY<STRUCT<key {key}, value {item}>>"
    if pa.types.is_list(kind):
        return f"ARRAY<{_name_bigquery_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'`{field.name}` {_name_bigquery_type(field.type)}' for field in kind)}>"
    return _find_plain_type(kind, _BIGQUERY)


def _name_hive_type(kind: pa.DataType) -> str:
    """Return the type of Athena and Spark. Integers of 32 bits are INT, as in the files: these engines do not widen
    them."""
    if pa.types.is_map(kind):
        return f"MAP<{_name_hive_type(kind.key_type)}, {_name_hive_type(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{_name_hive_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'`{field.name}`: {_name_hive_type(field.type)}' for field in kind)}>"
    return "INT" if pa.types.is_int32(kind) else _find_plain_type(kind, _HIVE)
