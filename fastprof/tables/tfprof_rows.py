"""The rows of the tables of tfprof, from the columns of a profile."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from fastprof.decode.graph_def import ValueTexts
from fastprof.decode.text_pools import get_index_dtype
from fastprof.errors import CaptureError
from fastprof.inputs import profile_columns as profiles
from fastprof.inputs.message_columns import DistinctTexts, find_ends
from fastprof.inputs.profile_columns import ProfileColumns
from fastprof.schema.columns import Int64s
from fastprof.schema.tables import TableSchema
from fastprof.tables.tfprof_tables import EXECUTIONS, MEMORY, NODES, PROFILES, TFPROF_TABLES


def make_tfprof_table(schema: TableSchema, parts: Iterable[tuple[str, ProfileColumns, str]]) -> pa.Table:
    """Make a table of tfprof. ``parts``: host, columns and file of each profile. CaptureError: one is damaged."""
    rows = _ROWS[schema.name]
    tables = []
    for host, profile, path in parts:
        try:
            tables.append(schema.of(rows(host, profile)))
        except CaptureError as fault:
            raise CaptureError(fault.message, path=path, offset=fault.offset) from None
    if not tables:
        return schema.empty()
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    columns = [_narrow_column(column) for column in table.columns]
    fields = [schema[name].field(column.type) for name, column in zip(table.column_names, columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


class LazyColumns:
    """The columns of a table for one host, each made when it is first used: a view needs few of them."""

    def __init__(self, name: str, host: str, profile: ProfileColumns, path: str) -> None:
        self._schema = TFPROF_TABLES[name]
        self._made: dict[str, pa.Array] = {}
        self._how = host, profile
        self._path = path

    @cached_property
    def _rows(self) -> _TfprofRows:
        return _ROWS[self._schema.name](*self._how)

    def __getitem__(self, name: str) -> pa.Array:
        """Return a column, or ``run_times``, the part of ``runs`` that is quickly read. CaptureError: it is damaged."""
        if name not in self._made:
            try:
                is_column = name in self._schema.names()
                self._made[name] = self._schema[name].array(self._rows) if is_column else getattr(self._rows, name)
            except CaptureError as fault:
                raise CaptureError(fault.message, path=self._path, offset=fault.offset) from None
        return self._made[name]


def _narrow_column(column: pa.ChunkedArray) -> pa.Array:
    """Return one array; indices of strings are as narrow as can be."""
    array = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if not pa.types.is_dictionary(array.type):
        return array
    index = pa.from_numpy_dtype(get_index_dtype(len(array.dictionary)))
    return pa.DictionaryArray.from_arrays(array.indices.cast(index), array.dictionary)


class _TfprofRows:
    """The base of what formulas of tables read: a column is the attribute of its name."""

    def __init__(self, host: str, profile: ProfileColumns) -> None:
        self._host = host
        self._profile = profile

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def host(self) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(self), np.int32)), pa.array([self._host]))

    def _named(self, nodes: Int64s) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(nodes.astype(np.int32), mask=nodes < 0), self._profile.names)


class _ProfileRows(_TfprofRows):
    def __len__(self) -> int:
        return 1

    @property
    def steps(self) -> list[list[int]]:
        return [self._profile.steps.tolist()]

    @property
    def has_trace(self) -> list[bool]:
        return [self._profile.has_trace]

    @property
    def misses_accelerator_stream(self) -> list[bool]:
        return [self._profile.misses_accelerator_stream]


class _NodeRows(_TfprofRows):
    def __len__(self) -> int:
        return len(self._profile)

    def _listed(self, owner: Int64s, values: pa.Array) -> pa.Array:
        """Return the list of values that each node owns; ``owner`` ascends."""
        return _make_lists(find_ends(owner, len(self)), values)

    @property
    def name(self) -> pa.Array:
        return self._profile.names

    @property
    def op(self) -> pa.Array:
        return self._profile.ops.array()

    @property
    def types(self) -> pa.Array:
        every = self._profile.types
        return self._listed(every.owner, every.values.array())

    @property
    def canonical_device(self) -> pa.Array:
        return self._profile.canonical_devices.array()

    @property
    def host_device(self) -> pa.Array:
        return self._profile.host_devices.array()

    @cached_property
    def _shapes(self) -> tuple[Int64s, Int64s]:
        return self._profile.shapes

    @property
    def shape(self) -> pa.Array:
        sizes, ends = self._shapes
        is_null = np.append(np.diff(ends) == 0, False)
        return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32), mask=is_null), pa.array(sizes))

    @property
    def parameters(self) -> Int64s:
        sizes, ends = self._shapes
        products = np.zeros(len(self), np.int64)
        rows = np.flatnonzero(np.diff(ends))
        if len(rows):
            is_known = np.minimum.reduceat(sizes, ends[rows]) >= 0
            products[rows] = np.where(is_known, np.multiply.reduceat(sizes, ends[rows]), 0)
        return products

    @property
    def float_ops(self) -> Int64s:
        return self._profile.float_ops

    @property
    def inputs(self) -> pa.Array:
        links = self._profile.inputs
        output = pa.array(links.output.astype(np.int32))
        return self._listed(
            links.node, _make_struct(slot=_make_int32(links.slot), node=self._named(links.other), output=output)
        )

    @property
    def outputs(self) -> pa.Array:
        links = self._profile.outputs
        return self._listed(links.node, _make_struct(slot=_make_int32(links.slot), node=self._named(links.other)))

    @property
    def input_shapes(self) -> pa.Array:
        return self._slot_shapes(self._profile.input_shapes)

    @property
    def output_shapes(self) -> pa.Array:
        return self._slot_shapes(self._profile.output_shapes)

    def _slot_shapes(self, every: profiles.Shapes) -> pa.Array:
        shapes = _make_lists(every.ends, pa.array(every.sizes))
        return self._listed(every.node, _make_struct(slot=_make_int32(every.slot), shape=shapes))

    @property
    def attrs(self) -> pa.Array:
        """Attributes with their values; equal values are read once."""
        owner, names, number, at, content = self._profile.attrs
        view, known = memoryview(content), ValueTexts()
        places = zip(at.offset.tolist(), at.length.tolist(), strict=True)
        distinct = pa.array([known.of(view[begin : begin + size], begin) for begin, size in places], pa.string())
        texts = distinct.dictionary_encode()
        codes = np.asarray(texts.indices).astype(np.int32)[number]
        return self._listed(
            owner, _make_struct(name=names.array(), value=DistinctTexts(codes, texts.dictionary).array())
        )

    @property
    def trace(self) -> pa.Array:
        frames = self._profile.frames
        at = frames.frame
        file, function, text = (
            DistinctTexts(texts.number[at], texts.words).array()
            for texts in (frames.file, frames.function, frames.text)
        )
        line, function_line = (_make_int32(values[at]) for values in (frames.line, frames.function_line))
        values = _make_struct(file=file, line=line, function=function, function_line=function_line, text=text)
        return self._listed(frames.node, values)

    @property
    def run_times(self) -> pa.Array:
        """The columns of ``runs`` that are quickly read."""
        return self._listed(self._profile.runs[0], _make_struct(**self._run_times))

    @property
    def _run_times(self) -> dict[str, pa.Array]:
        profile = self._profile
        numbers_of = {"run_count": profiles.RUN_COUNT, "start_us": profiles.START, "end_us": profiles.END}
        numbers = {name: pa.array(profile.run_integers(number)) for name, number in numbers_of.items()}
        return {"step": pa.array(profile.runs[1]), **numbers}

    @property
    def runs(self) -> pa.Array:
        profile = self._profile
        node = profile.runs[0]
        devices = profile.run_devices
        run, times, sizes = profile.allocations
        allocations = _make_struct(time_us=pa.array(times), bytes=pa.array(sizes))
        values = _make_struct(
            **self._run_times,
            devices=_make_lists(find_ends(devices.owner, len(node)), devices.values.array()),
            allocations=_make_lists(find_ends(run, len(node)), allocations),
        )  # fmt: skip
        return self._listed(node, values)


class _ExecutionRows(_TfprofRows):
    def __init__(self, host: str, profile: ProfileColumns) -> None:
        super().__init__(host, profile)
        self._every = profile.executions
        self._zero_us, self._timed = profiles.find_times(self._every)

    def __len__(self) -> int:
        return len(self._every)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._every, name)

    @property
    def name(self) -> pa.Array:
        return self._named(self._every.node)

    @property
    def device(self) -> pa.Array:
        return DistinctTexts(self._every.device, self._profile.devices.words).array()

    @property
    def start_ps(self) -> pa.Array:
        return self._ps(self._every.start_us - self._zero_us)

    @property
    def duration_ps(self) -> pa.Array:
        return self._ps(self._every.duration_us)

    def _ps(self, micros: Int64s) -> pa.Array:
        return pa.array(np.where(self._timed, micros, 0) * profiles.PICOSECONDS, mask=~self._timed)


class _MemoryRows(_TfprofRows):
    def __init__(self, host: str, profile: ProfileColumns) -> None:
        super().__init__(host, profile)
        self._run, self._numbers = profile.memory
        self._node, self._step = profile.runs

    def __len__(self) -> int:
        return len(self._run)

    @property
    def name(self) -> pa.Array:
        return self._named(self._node[self._run])

    @property
    def step(self) -> Int64s:
        return self._step[self._run]

    def __getattr__(self, name: str) -> Int64s:
        if name not in _MEMORY_FIELDS:
            raise AttributeError(name)
        return self._numbers[_MEMORY_FIELDS[name]]

    @property
    def output_memory(self) -> pa.Array:
        record, slot, sizes, pointer = self._profile.output_memory
        values = _make_struct(slot=_make_int32(slot), bytes=pa.array(sizes), pointer=pa.array(pointer))
        return _make_lists(find_ends(record, len(self)), values)


_MEMORY_FIELDS = dict(zip(MEMORY.names()[3:-1], profiles.MEMORY_NUMBERS, strict=True))
_ROWS = {PROFILES.name: _ProfileRows, NODES.name: _NodeRows, EXECUTIONS.name: _ExecutionRows, MEMORY.name: _MemoryRows}


def _make_int32(values: Int64s) -> pa.Array:
    return pa.array(values.astype(np.int32))


def _make_lists(ends: Int64s, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), values)


def _make_struct(**members: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(list(members.values()), list(members))
