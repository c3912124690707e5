"""The table ``graph_nodes``: the graphs of TensorFlow that captures carry, node by node."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.decode.graph_def import Nodes, read_nodes, split_shapes
from fastprof.decode.index import Index
from fastprof.decode.span_stats import read_metadata_stats
from fastprof.errors import CaptureError
from fastprof.inputs.formats.contract import GRAPH_PLANE, GRAPH_STATS
from fastprof.schema.capture_tables import HOST
from fastprof.schema.columns import count_bounds
from fastprof.schema.tables import TEXT, Count, Kind, String, TableSchema, Text
from fastprof.schema.value_classes import dataclass

_Texts: Final = Kind(pa.list_(pa.string()))
_ATTRS: Final = pa.map_(pa.string(), pa.string())

GRAPH_NODES: Final = TableSchema("graph_nodes", "a node of a TensorFlow graph that a capture carries, as recorded", (
    HOST,
    Count("graph", "number of the graph on its host, from 0"),
    Text("kind", "kind of graph: graph, meta graph; from a run that recorded its graphs: partition, function "
         "partition, before optimization, after optimization"),
    Text("function", "function of the graph's library that the node is in; null: the graph itself"),
    String("node", "node name; only the first of several equal names in a graph or function has a row"),
    Text("op", "node type: MatMul"),
    Text("device", "device that the node is placed on; null: not recorded"),
    _Texts("inputs", "inputs from other nodes: n, or n:k for output k"),
    _Texts("control_inputs", "nodes that run before it"),
    Text("dtype", "its attribute dtype: float; null: no such attribute"),
    Text("shape", "its attribute shape: [2,-1], with -1 for unknown sizes, or [?] for unknown rank; null: no such "
         "attribute"),
    _Texts("output_shapes", "its attribute _output_shapes, the shape of each output; null: no such attribute"),
    Kind(_ATTRS)("attrs", "attributes by name, as text; tensors as tensor float[2,3] 24 bytes"),
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class GraphPart:
    """Some nodes of a graph. ``number``: of the graph on its host."""

    number: int
    kind: str
    nodes: Nodes


def read_graph_pieces(index: Index, host: int) -> Iterator[GraphPart]:
    """Yield the graphs of capture ``host``, a few thousand nodes at a time. CaptureError: one does not decode; to
    salvage, nodes are left out then, with a row of import_log."""
    capture = index.captures[host].capture
    seen: set[tuple[int, str, str]] = set()
    for number, kind, offset, piece in _list_pieces(index, host):
        try:
            for nodes in read_nodes(piece):
                firsts = _find_first_rows(number, nodes, seen)
                if len(firsts) < len(nodes):
                    double = next(name for row, name in enumerate(nodes.name) if row not in set(firsts))
                    text = f"two nodes of a graph are called {double}; the first counts"
                    fault = ("duplicate_node", text, "a GraphDef", len(nodes) - len(firsts), offset)
                    capture.log.add_faults([fault], capture.path)
                yield GraphPart(number, kind, nodes.taken(firsts) if len(firsts) < len(nodes) else nodes)
        except CaptureError as error:
            offset += error.offset or 0
            if not capture.salvage:
                raise CaptureError(error.message, path=capture.path, offset=offset) from None
            text = f"nodes are left out: {error.message.removesuffix(', reading a GraphDef')}"
            capture.log.add_faults([("broken_graph", text, "a GraphDef", 1, offset)], capture.path)


def read_graphs(index: Index, host: int) -> None:
    """Read the graphs, so that the log knows of their faults."""
    for _ in read_graph_pieces(index, host):
        continue


def _list_pieces(index: Index, host: int) -> Iterator[tuple[int, str, int, bytes]]:
    """Yield number, kind, offset in the file and bytes of each piece of a graph."""
    capture = index.captures[host].capture
    capture.source.check_unchanged()
    planes = [number for number, (name, _) in enumerate(capture.plane_keys) if name == GRAPH_PLANE]
    if not planes:
        return
    spans, stats = read_metadata_stats(index.names.texts[host])
    owners = spans["owner"]
    of_graphs = np.isin(capture.plane_of_part[capture.metas["part"]], planes)
    number, data, place = (stats.first_rows(owners, index.names.stats.find(name)) for name in GRAPH_STATS)
    numbers = dict(zip(owners[number].tolist(), stats.int_value[number].tolist(), strict=True))
    offsets = dict(zip(owners[place].tolist(), stats.int_value[place].tolist(), strict=True))
    kinds = capture.texts(capture.metas, b"XEventMetadata.name", "name_")
    for row, at in sorted(stats.places_of_bytes(data).items()):
        owner = int(owners[row])
        if of_graphs[owner]:
            yield numbers.get(owner, 0), kinds[owner], offsets.get(owner, 0), capture.copies([at])[0]


def _find_first_rows(number: int, nodes: Nodes, seen: set[tuple[int, str, str]]) -> list[int]:
    """Return rows of the nodes whose names were not seen before."""
    rows = []
    for row, name in enumerate(nodes.name):
        key = (number, nodes.function, name)
        if key not in seen:
            seen.add(key)
            rows.append(row)
    return rows


def make_graph_nodes_table(index: Index, hosts: Iterable[int]) -> pa.Table:
    """Make the table of these captures."""
    columns = _Columns()
    for host in hosts:
        name = index.captures[host].capture.host
        for part in read_graph_pieces(index, host):
            columns.add(name, part)
    return columns.table()


class _Coded:
    """A text column of few distinct values, which grows."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._codes = array("i")

    def add(self, values: Iterable[str | None]) -> None:
        places = self._places
        self._codes.extend(-1 if value is None else places.setdefault(value, len(places)) for value in values)

    def arrow(self) -> pa.Array:
        codes = np.frombuffer(self._codes, np.int32) if self._codes else np.zeros(0, np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(self._places, pa.string()))


@dataclass(slots=True)
class _Columns:
    """Columns of the table, in parts."""

    coded: dict[str, _Coded] = field(
        default_factory=lambda: {column.name: _Coded() for column in GRAPH_NODES.columns if column.type == TEXT}
    )
    parts: dict[str, list[pa.Array]] = field(
        default_factory=lambda: {column.name: [] for column in GRAPH_NODES.columns if column.type != TEXT}
    )

    def add(self, host: str, part: GraphPart) -> None:
        nodes, attrs, count = part.nodes, part.nodes.attrs, len(part.nodes)
        self.coded["host"].add([host] * count)
        self.coded["kind"].add([part.kind] * count)
        self.coded["function"].add([nodes.function or None] * count)
        self.coded["op"].add(nodes.op)
        self.coded["device"].add(device or None for device in nodes.device)
        self.coded["dtype"].add(attributes.get("dtype") for attributes in attrs)
        self.coded["shape"].add(attributes.get("shape") for attributes in attrs)
        shapes = [split_shapes(attr["_output_shapes"]) if "_output_shapes" in attr else None for attr in attrs]
        self._part("graph", np.full(count, part.number, np.int64))
        self._part("node", nodes.name)
        self._part("inputs", nodes.inputs)
        self._part("control_inputs", nodes.control_inputs)
        self._part("output_shapes", shapes)
        offsets = count_bounds([len(attr) for attr in attrs]).astype(np.int32)
        keys = pa.array([key for attributes in attrs for key in attributes], pa.string())
        values = pa.array([value for attributes in attrs for value in attributes.values()], pa.string())
        maps = pa.MapArray.from_arrays(pa.array(offsets), keys, values)
        self.parts["attrs"].append(maps)

    def _part(self, name: str, values: Any) -> None:
        self.parts[name].append(pa.array(values, GRAPH_NODES[name].type))

    def table(self) -> pa.Table:
        arrays = [
            self.coded[column.name].arrow()
            if column.name in self.coded
            else pa.chunked_array(self.parts[column.name], column.type)
            for column in GRAPH_NODES.columns
        ]
        return pa.Table.from_arrays(arrays, schema=GRAPH_NODES.arrow())
