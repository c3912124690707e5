"""The compiled programs of a capture, in its metadata plane or in files beside it, undecoded; those of a host, each
read at first use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from fastprof._native import records
from fastprof.decode.import_log import ImportLog
from fastprof.decode.span_stats import SpanStats
from fastprof.decode.xspace_capture import Capture
from fastprof.errors import CaptureError, ChangedError, FastprofError, UnreadableError
from fastprof.hlo.shapes import TYPE_NAMES
from fastprof.inputs.foreign_files import explain_error
from fastprof.inputs.log_directory import PROGRAM_SUFFIXES
from fastprof.inputs.message import read_varint
from fastprof.inputs.paths import show_path
from fastprof.inputs.source import CaptureSource, open_source
from fastprof.schema.columns import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    from fastprof.hlo.cost import CostModel
    from fastprof.hlo.module import HloModule
    from fastprof.hlo.work import Cost, Counting


METADATA_PLANE = "/host:metadata"
PROTO_STATS = ("Hlo Proto", "HLO Proto")
OWN_ID = "program_id"
STATS = (*PROTO_STATS, OWN_ID)
"""Stats of event metadata that are read."""
_PIECE = 1 << 20
_MODULE_TAG = b"\x0a"
"""Tag of field 1: of an HloProto the module, of an HloModuleProto its name."""
_NAMED = compile_late(r".*\((\d+)\)", re.DOTALL)


class BytesOfProgram:
    """Bytes of a program whose capture is not open. ``fetch`` returns the bytes that the capture has from ``offset``
    on."""

    def __init__(self, offset: int, fetch: Callable[[], bytes]) -> None:
        self._offset = offset
        self._fetch = fetch

    def check_unchanged(self) -> None:
        """Do nothing: the bytes stay what they are."""

    def read(self, offset: int, length: int) -> bytes:
        at = offset - self._offset
        return self._fetch()[at : at + length]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """``id``: a uint64 as an int64 (two's complement). ``title``: how it is listed, ``jit_f(12)``. ``path``: its file,
    from byte ``offset`` on; ``embedded``: whether that is the capture. ``head``: bytes put before those of a file that
    holds only an HloModuleProto, to make it an HloProto. ``known_digest``: its digest, if another process computed it.

    A pickled program has its bytes with it.
    """

    id: int
    title: str
    path: str
    offset: int
    length: int
    embedded: bool
    source: CaptureSource | BytesOfProgram
    head: bytes = b""
    known_digest: bytes = b""

    def __reduce__(self) -> tuple[Any, ...]:
        own = self.source.read(self.offset, self.length)
        return make_program, (self.described(), own)

    def described(self) -> tuple[Any, ...]:
        """Return all but the source, for ``make_program``. Reads the source once, for the digest."""
        return self.id, self.title, self.path, self.offset, self.length, self.embedded, self.head, self.digest

    @property
    def digest(self) -> bytes:
        """Digest, equal for programs that are the same to the byte."""
        import hashlib  # which loads OpenSSL

        return self.known_digest or hashlib.blake2b(self.data, digest_size=16).digest()

    @property
    def data(self) -> memoryview:
        """The HloProto, read again each time. Raises ChangedError."""
        self.source.check_unchanged()
        own = self.source.read(self.offset, self.length)
        return memoryview(self.head + own) if self.head else memoryview(own)

    def is_same(self, other: Program) -> bool:
        """Return whether two programs are equal to the byte."""
        if self is other or self.length != other.length:
            return self is other
        pieces = zip(self._pieces(), other._pieces(), strict=True)
        return self.head == other.head and all(mine == theirs for mine, theirs in pieces)

    def _pieces(self) -> Iterator[bytes]:
        """Yield the bytes, a few at a time."""
        for at in range(0, self.length, _PIECE):
            yield self.source.read(self.offset + at, min(_PIECE, self.length - at))

    def read(self, log: ImportLog) -> HloModule:
        """Decode the program. CaptureError: it does not decode, which is logged, too."""
        from fastprof.hlo.module import HloModule  # most captures carry no programs

        try:
            return HloModule(self.data)
        except CaptureError as error:
            self.note(log, error)
            raise

    def note(self, log: ImportLog, error: CaptureError) -> None:
        """Log once what part of the program does not decode."""
        fault, _, what = error.message.rpartition(", reading ")
        text = f"the program {self.title} does not decode: {fault}"
        log.add_faults([("broken_program", text, what, 1, self.offset + self.place(error))], self.path)

    def problem(self, error: CaptureError) -> str:
        """Return why it could not be read, in words."""
        at = f"at byte {self.place(error):,} of its HLO"
        return f"the program {self.title} does not decode: {error.message}, {at}"

    def place(self, error: CaptureError) -> int:
        """Return the offset of an error in its bytes."""
        return max((error.offset or 0) - len(self.head), 0)


def make_program(described: tuple[Any, ...], own: bytes | Callable[[], bytes]) -> Program:
    """Return a program that was described. ``own``: its bytes, or what returns them."""
    number, title, path, offset, length, embedded, head, digest = described
    source = BytesOfProgram(offset, own if callable(own) else lambda: own)
    return Program(number, title, path, offset, length, embedded, source, head, digest)


def list_programs_of_capture(
    capture: Capture, owners: Int64s, stats: SpanStats, numbers: Mapping[str, int]
) -> list[Program]:
    """Return the programs of a capture, then of files beside it, the first of several of one id.

    ``owners``, ``stats``: of event metadata; ``numbers``: the number of each of ``STATS`` in ``stats``.
    """
    programs: dict[int, Program] = {}
    for program in _list_embedded(capture, owners, stats, numbers):
        _add_program(program, programs, capture.log)
    own = set(programs)
    for file in capture.program_files:
        named = parse_program_id(get_program_stem(file))
        if named is None or named not in own:
            opened = _open_program_file(file, named, capture.log)
            if opened is not None and opened.id not in own:
                _add_program(opened, programs, capture.log)
    return list(programs.values())


def _add_program(program: Program, programs: dict[int, Program], log: ImportLog) -> None:
    first = programs.setdefault(program.id, program)
    if first.is_same(program):
        return
    title, number = program.title, program.id % 2**64
    text = f"two programs have the id {number}: {title} is ignored, and the earlier {first.title} is used"
    log.add("data_loss", "duplicate_program", text, program.path, offset=program.offset)


# ---- in the capture


def _list_embedded(capture: Capture, owners: Int64s, stats: SpanStats, numbers: Mapping[str, int]) -> Iterator[Program]:
    """Yield programs in the order of the metadata."""
    protos: dict[int, tuple[int, int]] = {}
    for name in reversed(PROTO_STATS):
        places = stats.places_of_bytes(stats.first_rows(owners, numbers[name]))
        protos |= {int(owners[row]): place for row, place in places.items()}
    chosen = np.array(sorted(protos), np.int64)
    rows = stats.first_rows(owners, numbers[OWN_ID])
    rows = rows[np.isin(owners[rows], chosen)]
    own_ids = dict(zip(owners[rows].tolist(), rows.tolist(), strict=True))
    metas = capture.metas[chosen]
    planes = capture.plane_of_part[metas["part"]].tolist()
    ids = capture.event_metadata_ids()
    titles = capture.texts(metas, b"XEventMetadata.name", "name_")
    for owner, plane, title in zip(chosen.tolist(), planes, titles, strict=True):
        if capture.plane_keys[plane][0] != METADATA_PLANE:
            continue
        own = own_ids.get(owner)
        if own is not None and stats.kind[own] in (records.INT64, records.UINT64):
            number = int(stats.int_value[own])
        else:
            named = parse_program_id(title)
            number = int(ids[owner]) if named is None else named
        yield Program(number, title, capture.path, *protos[owner], True, capture.source)


def parse_program_id(title: str) -> int | None:
    """Return the number in parentheses at the end of a title; None if no number, or not a program id."""
    named = _NAMED.fullmatch(title)
    if named is None or len(named.group(1)) > 20 or (number := int(named.group(1))) >= 1 << 64:
        return None
    return number - (1 << 64) if number >> 63 else number


# ---- in files


def get_program_stem(path: str) -> str:
    """Return the title of the program that a file is named after."""
    name = Path(path).name
    for ending in (".gz", ".zst", *PROGRAM_SUFFIXES):
        name = name.removesuffix(ending)
    return name


def _open_program_file(file: str, named: int | None, log: ImportLog) -> Program | None:
    """Return the program of a file, with the id in the file's name or else its own; None if it cannot be read, which is
    logged."""
    path = show_path(file)
    try:
        source = open_program(file)
        program = Program(
            named or 0, show_path(get_program_stem(file)), path, 0, source.size, False, source, find_head(source)
        )
        return program if named is not None else replace(program, id=program.read(log).id)
    except ChangedError:
        raise
    except FastprofError as error:
        if not isinstance(error, CaptureError) or error.path is not None:
            log.add("error", "unreadable_program", error.message, path, offset=error.offset)
    return None


def open_program(file: str) -> CaptureSource:
    """Return the bytes of a file that holds a program. Raises UnreadableError, CaptureError."""
    try:
        return open_source(file, show_path(file), lambda _: None)
    except CaptureError as error:
        if not error.message.startswith("the file is empty"):
            raise
        text = "the file is empty; XProf writes an empty file beside captures without programs"
        raise CaptureError(text, path=error.path, offset=0) from None


def find_head(source: CaptureSource) -> bytes:
    """Return bytes that make a file an HloProto: empty, or for a file of an HloModuleProto alone, as written from
    ``as_serialized_hlo_module_proto``, its tag and length. An HloModuleProto begins with its name, a text; an HloProto
    begins with a module, whose first byte no text begins with."""
    start = source.read(0, 12)
    try:
        length, at = read_varint(memoryview(start), 1)
    except CaptureError:
        return b""
    is_module = start[:1] == _MODULE_TAG and length > 0 and at < len(start) and start[at] >= ord("0")
    if not is_module:
        return b""
    digits = [source.size >> shift & 0x7F for shift in range(0, max(source.size.bit_length(), 1), 7)]
    return _MODULE_TAG + bytes([*(digit | 0x80 for digit in digits[:-1]), digits[-1]])  # a varint


def check_sizes(files: Sequence[str]) -> list[int]:
    """Decompressed sizes of the programs of those files that can be read. UnreadableError, CaptureError: no file can be
    read, for the first one."""
    sizes: list[int] = []
    failures: list[FastprofError] = []
    for file in files:
        try:
            sizes.append(_check_size(file))
        except (CaptureError, UnreadableError) as error:
            failures.append(error)
    if not sizes and failures:
        raise failures[0]
    return sizes


def _check_size(file: str) -> int:
    source = open_program(file)
    program = Program(0, "", show_path(file), 0, source.size, False, source, find_head(source))
    try:
        if not len(program.read(ImportLog()).computations):
            raise CaptureError("the file holds no compiled program: no computation", offset=0)
    except CaptureError as error:
        placed = CaptureError(error.message, path=show_path(file), offset=program.place(error))
        raise explain_error(placed, source.read(0, 64), is_program=True) from None
    return source.size


T = TypeVar("T")
_OF_TWO: Final = frozenset(("dot", "convolution", "custom-call"))
"""Opcodes of instructions whose further operands are scales, biases and results so far."""
_LOOKED_INTO: Final = 8 << 20
"""Byte budget for programs that are read only to check that they decode, which takes some hundredths of a second."""


@dataclass(frozen=True, slots=True)
class Found:
    """An instruction as device ops show it. Figures are for one execution."""

    name: str
    category: str
    framework_op: str
    """``op_name:op_type``, "" where unknown."""
    cost: Cost
    long_name: str
    """The instruction in full."""
    deduplicated_name: str
    source: tuple[str, int, str]
    """File, line and stack; "", -1 and "" where unknown."""
    device_cost: Cost
    """``cost``, plus what XLA's model of GPUs leaves out."""


class Modules:
    """Programs by program id, a uint64 as an int64 (two's complement), from the capture and from files beside it.
    Events must have been read with the stats ``METADATA_STATS`` of metadata.

    ``problems``: what could not be read, in words; it grows as modules are read.
    """

    def __init__(self, programs: Iterable[Program], log: ImportLog) -> None:
        self.problems: list[str] = []
        self._log = log
        self._programs: dict[int, Program] = {program.id: program for program in programs}
        self._read: dict[int, HloModule | None] = {}
        self._costs: dict[tuple[int, Counting], CostModel] = {}

    def __len__(self) -> int:
        return len(self._programs)

    @property
    def program_ids(self) -> list[int]:
        return list(self._programs)

    def title(self, program_id: int) -> str | None:
        """Return how the capture lists the program: ``jit_f(12)``; None if no such program."""
        program = self._programs.get(program_id)
        return None if program is None else program.title

    def program(self, program_id: int) -> Program:
        """Return a program, undecoded. KeyError: it is unknown."""
        return self._programs[program_id]

    def module(self, program_id: int) -> HloModule | None:
        """Return a module; None if there is no such program, or it does not decode."""
        if program_id not in self._read:
            program, module = self._programs.get(program_id), None
            if program is not None:
                try:
                    module = program.read(self._log)
                except CaptureError as error:
                    self.problems.append(program.problem(error))
            self._read[program_id] = module
        return self._read[program_id]

    def look_into(self) -> None:
        """Read the first programs, up to a total size, so that ``problems`` covers them even if none is needed."""
        left = _LOOKED_INTO
        for number, program in self._programs.items():
            left -= program.length
            if left < 0:
                return
            self.module(number)

    # ---- instructions

    def op_name(self, program_id: int, instruction: str) -> str | None:
        """Return the framework's name of an instruction's op, "" if it is unknown; None if there is no such
        instruction."""
        module = self.module(program_id)
        row = -1 if module is None else int(module.find([instruction])[0])
        return None if module is None or row < 0 else module.op_name(row)

    def types_read(self, program_id: int, instruction: str) -> frozenset[str]:
        """Return the types, as XLA writes them, of the arrays that an instruction reads, or makes if it reads none; of
        a product, convolution or library call those of the first two. Empty if there is no such program or instruction,
        or it is damaged."""
        module = self.module(program_id)
        row = -1 if module is None else int(module.find([instruction])[0])
        if module is None or row < 0:
            return frozenset()
        try:
            reader = module.instruction(row)
            operands = reader.operands[:2] if reader.opcode in _OF_TWO else reader.operands
            shapes = [module.instruction(operand).shape for operand in operands if operand >= 0] or [reader.shape]
            leaves = [leaf.element_type for shape in shapes for _, leaf in shape.leaves()]
        except (LookupError, ValueError, CaptureError):
            return frozenset()
        return frozenset(TYPE_NAMES[number].lower() for number in leaves if 0 < number < len(TYPE_NAMES))

    def find(
        self, program_id: int, instructions: Sequence[str], counting: Counting | None = None
    ) -> list[Found | None]:
        """Return the instructions of a program; None if no such program or instruction. ``counting``: what counts as an
        operation; None if as XLA counts for GPUs."""
        return self._each(_find_cost, program_id, instructions, counting)

    def costs(self, program_id: int, instructions: Sequence[str], counting: Counting) -> list[tuple[str, Cost] | None]:
        """Opcode and cost of instructions of a program; None if no such program or instruction."""

        def cost(model: CostModel, row: int) -> tuple[str, Cost]:
            return model.module.instruction(row).opcode, model.cost(row)

        return self._each(cost, program_id, instructions, counting)

    def _each(
        self, of: Callable[[CostModel, int], T], program_id: int, instructions: Sequence[str], counting: Counting | None
    ) -> list[T | None]:
        from fastprof.hlo.cost import CostModel
        from fastprof.hlo.work import OF_GPUS

        module = self.module(program_id)
        if module is None:
            return [None] * len(instructions)
        key = program_id, counting or OF_GPUS
        if key not in self._costs:
            self._costs[key] = CostModel(module, key[1])
        model = self._costs[key]
        return [None if row < 0 else of(model, row) for row in module.find(instructions).tolist()]

    def metadata_ops(self) -> Iterator[tuple[str, str]]:
        """Yield (op_name, op_type) of the instructions of all programs, each pair once per program."""
        for program_id in self._programs:
            module = self.module(program_id)
            if module is not None:
                yield from module.framework_ops()


def _find_cost(costs: CostModel, row: int) -> Found:
    from fastprof.hlo.cost import find_device_cost
    from fastprof.hlo.opcodes import get_category
    from fastprof.hlo.text.instruction_text import format_expression

    module = costs.module
    instruction, source = module.instruction(row), module.source_of(row)
    return Found(
        instruction.name,
        get_category(instruction),
        module.framework_op(row),
        costs.cost(row),
        format_expression(module, row),
        module.text(module.instructions["deduplicated_name"][row]),
        (source.file, source.line, source.stack),
        find_device_cost(costs, row),
    )
