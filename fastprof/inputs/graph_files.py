"""A graph of TensorFlow 1, its runs and its log of ops, in several files, read as one: as the profile that tfprof would
make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from fastprof.errors import CaptureError, UsageError
from fastprof.inputs import unpacking
from fastprof.inputs.paths import absolute, shown
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of
from fastprof.wording.quantities import few

_STEP = pattern_of(r"(\d{1,18})\D*")


@dataclass(slots=True)
class GraphFiles:
    """A binary file, as ``load`` takes it. Its bytes are made when they are first read. ``runs``: step and path of each
    RunMetadata."""

    graph: str
    runs: tuple[tuple[int, str], ...] = ()
    op_log: str | None = None
    max_unpacked: int = unpacking.MOST
    _data: bytes | None = field(default=None, repr=False)
    _at: int = 0

    @property
    def name(self) -> str:
        return self.graph

    @property
    def paths(self) -> list[str]:
        """All of its files."""
        return [self.graph, *(path for _, path in self.runs), *filter(None, [self.op_log])]

    def read(self, size: int) -> bytes:
        """CaptureError: a file does not decode, or is something else. UnreadableError."""
        if self._data is None:
            self._data = self._made()
        taken = self._data[self._at : self._at + size]
        self._at += len(taken)
        return taken

    def __reduce__(self) -> tuple[object, ...]:
        """The files, to be read again."""
        return GraphFiles, (self.graph, self.runs, self.op_log, self.max_unpacked)

    def _made(self) -> bytes:
        from fastprof.inputs.profile_model import ProfileModel

        model = ProfileModel()
        for path, kinds, add in (
            (self.graph, _GRAPHS, model.add_graph),
            *((path, _RUNS, lambda data, step=step: model.add_run(step, data)) for step, path in self.runs),
            *(((self.op_log, _LOGS, model.add_log),) if self.op_log else ()),
        ):
            data = _message(path, kinds, self.max_unpacked)
            try:
                add(data)
            except CaptureError as fault:
                raise CaptureError(fault.message, path=shown(path), offset=fault.offset) from None
        return b"".join(model.profile())


_GRAPHS, _RUNS, _LOGS = ("graph_def", "graph_def_text"), ("run_metadata", "run_metadata_text"), ("op_log",)
_KINDS = {"a GraphDef": _GRAPHS, "RunMetadata": _RUNS, "an OpLogProto of tfprof": _LOGS}


def _message(path: str, kinds: Sequence[str], max_unpacked: int) -> bytes:
    """The file as a protobuf. CaptureError: it is none of these ``kinds`` of formats."""
    from fastprof.inputs.formats import HEAD, format_of, graph_def_text, run_metadata_text
    from fastprof.inputs.formats.text_proto import as_bytes
    from fastprof.inputs.message_bytes import BadMessageError
    from fastprof.inputs.source import entire

    data = entire(absolute(path), shown(path), max_unpacked)
    form = format_of(data[:HEAD])
    if data and (form is None or form.NAME not in kinds):
        wanted = next(name for name, known in _KINDS.items() if known == kinds)
        raise CaptureError(f"this is not {wanted}", path=shown(path), offset=0, salvageable=False)
    texts = {graph_def_text.NAME: graph_def_text.GRAPH, run_metadata_text.NAME: run_metadata_text.RUN}
    if form is None or form.NAME not in texts:
        return data
    try:
        return b"".join(as_bytes(data, texts[form.NAME]))
    except BadMessageError as fault:
        raise CaptureError(fault.text, path=shown(path), offset=fault.at) from None


def numbered(paths: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """Files of RunMetadata with their steps: the last numbers in their names, if all have different ones, else from 0
    in the order given."""
    found = [_STEP.findall(Path(path).name.partition(".")[0]) for path in paths]
    numbers = [int(one[-1]) for one in found if one]
    steps = numbers if len(set(numbers)) == len(paths) else range(len(paths))
    return tuple(sorted(zip(steps, paths, strict=True)))


def of_directory(directory: str, names: Sequence[str]) -> GraphFiles | None:
    """The graph among these files of a directory with its runs and log, known by content; None: a graph, or what
    goes with it, is absent. UsageError: there are several graphs."""
    from fastprof.inputs.formats import HEAD, format_of
    from fastprof.inputs.source import beginning

    by_kind: dict[tuple[str, ...], list[str]] = {kinds: [] for kinds in _KINDS.values()}
    for name in names:
        form = format_of(beginning(str(Path(directory, name)))[:HEAD])
        for kinds, paths in by_kind.items():
            if form is not None and form.NAME in kinds:
                paths.append(str(Path(directory, name)))
    graphs, runs, logs = by_kind.values()
    if not graphs or not (runs or logs):
        return None
    for what, several in (("graphs", graphs), ("logs of ops", logs)):
        if len(several) > 1:
            text = f"several {what}: {few(Path(one).name for one in several)}; choose with fastprof tfprof --graph"
            raise UsageError(text, path=shown(directory))
    return GraphFiles(absolute(graphs[0]), numbered([absolute(one) for one in runs]), logs[0] if logs else None)
