"""What a file is that is not an XSpace, for the error message: known by its content, with the way to read it."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from fastprof.errors import CaptureError
from fastprof.inputs.message import BadMessageError, BegunField, read_begun_fields
from fastprof.wording.patterns import compile_late

_REFUSED = "the file is not a capture"
_CAPTURES = "captures are files NAME.xplane.pb"
_JSON = f"JSON text; {_CAPTURES}, which profilers write beside traces in JSON"
_MARKUP = f"XML or HTML text; {_CAPTURES}"
_TEXTS = ((compile_late(r'\{|\[\s*[]\[{"\d-]'), _JSON), (compile_late("<"), _MARKUP))
_PLAIN = f"plain text; {_CAPTURES}"
_TABLE = compile_late(rb'(?:\xef\xbb\xbf)?"?[A-Z][^,\n"{\0]*"?(?:,"?[^,\n"{\0]+"?){3,}\r?(?:\n|$)')
_NSYS = "fastprof does not read it; `nsys stats` shows it"
_LOOKS_LIKE = (
    (compile_late(rb"PK\x03\x04[\s\S]{0,96}?\.npy"), "arrays of NumPy (.npz)"),
    (compile_late(rb"PK\x03\x04"), "a ZIP archive; unpack it first"),
    (compile_late(rb"SQLite"), "an SQLite database, such as `nsys export` and rocprofv3 write; fastprof does not "
     "read it, `nsys stats` and `rocpd` show these"),
    (compile_late(rb"\0{8}\x03\0{15}|\0{4}\x03\0{7}"), "a CPU profile of gperftools; `pprof` shows it"),
    (compile_late(rb"PAR1"), "a Parquet file"),
    (compile_late(rb"ARROW1"), "an Arrow file"),
    (compile_late(rb"BZh"), "bzip2 data; unpack it first"),
    (compile_late(rb"\xfd7zXZ"), "xz data; unpack it first"),
    (compile_late(rb"[\s\S]{257}ustar"), "a tar archive; unpack it first"),
    (compile_late(rb"\x93NUMPY"), "an array of NumPy (.npy)"),
    (compile_late(rb"\x89HDF\r\n"), "an HDF5 file"),
    (compile_late(rb"\x7fELF|MZ\x90\x00|[\xce\xcf]\xfa\xed\xfe|\xca\xfe\xba\xbe"), "an executable or a library"),
    (compile_late(rb"PERFILE2|2ELIFREP"), "a recording of Linux perf; `perf report` shows it"),
    (compile_late(rb"NVR\0"), "a report of Nsight Compute (.ncu-rep); `ncu --import` shows it"),
    (compile_late(rb"version https://git-lfs\.github\.com/"), "a pointer of Git LFS; `git lfs pull` downloads it"),
    (compile_late(rb"NVIDIA Tegra Profiler Report"), f"a report of Nsight Systems (.nsys-rep); {_NSYS}"),
    (compile_late(rb"\x80[\x02-\x05][\x80-\x95(cX}\]KJMGN]"), "a pickle, such as a memory snapshot of PyTorch; "
     "https://pytorch.org/memory_viz shows memory snapshots"),
    (_TABLE, f"a table in CSV, such as rocprof and `nsys stats` write; {_CAPTURES}"),
    (compile_late(rb"[{\xfb][\x00()\xa8\xa9]"), "statistics of cProfile; `python -m pstats` shows them"),
)  # fmt: skip
_PPROF = "a profile in the format of pprof, such as jax.profiler.save_device_memory_profile writes; `pprof` shows it"
_PERFETTO = (
    "a trace of Perfetto in protobuf; https://ui.perfetto.dev shows it. JAX, TensorFlow and PyTorch profilers write "
    "NAME.xplane.pb or JSON traces"
)
_DOCUMENTS = (
    (frozenset(("schema", "nodes")), "an execution trace of PyTorch (ExecutionTraceObserver) without times; "
     "torch.profiler.profile records times"),
    (frozenset(("rocprofiler-sdk-tool",)), "the results of rocprofv3 in JSON; `rocprofv3 --output-format pftrace` "
     "writes a trace for https://ui.perfetto.dev"),
    (frozenset(("$schema", "profiles")), "a profile in the format of speedscope; https://www.speedscope.app shows it"),
    (frozenset(("nodes", "startTime", "endTime")), "a CPU profile of V8; Chrome's developer tools show it"),
)  # fmt: skip
"""JSON documents by keys that they have at their top."""
_FIRST_KEY = compile_late(rb'\s*\{\s*"([^"\\]+)"')
_KEY = compile_late(rb'"([^"\\]+)"\s*:')
_VALUE = compile_late(
    r'(?P<value>null|true|false)|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<text>"(?:[^"\\\x00-\x1f]|\\.)*"?)'
)
_VALUES = {"value": "null, true or false", "number": "a number", "text": "a text"}
_LEAST_TEXT = 9  # a shorter file may be text by chance, if its name does not say that it is
_SHOWN = 40
_BEGIN = 512
_PROGRAM = "a compiled program (HLO); rename it to NAME.hlo_proto.pb to read it"


def explain_error(error: CaptureError, head: bytes, *, is_program: bool = False) -> CaptureError:
    """Return the error, with what the file looks like by its first bytes; ``is_program``: it was read as a program."""
    if error.message.startswith(_REFUSED):
        return error
    # The keys of a JSON document show its format.
    keys = (error.excerpt or "").removeprefix("its keys are ").split(", ")
    if (known := next((text for needed, text in _DOCUMENTS if needed.issubset(keys)), None)) is not None:
        text = f"{_REFUSED} but {known}; {error.message.partition(': ')[2]}"
        return CaptureError(text, path=error.path, offset=0, salvageable=False, excerpt=error.excerpt)
    if (known := _find_known_format(head)) is not None:
        return CaptureError(f"{_REFUSED} but {known}", path=error.path, offset=0, salvageable=False)
    value = _find_json_value(head)
    if value is not None and not is_program:
        text = (
            f"JSON that is not a trace: it is {_VALUES[value[0]]}; a trace is an object with traceEvents, or an array"
        )
        return _make_error(error, f"{text} of events", value[1])
    guess = _find_other_format(head, named_json=".json" in Path(error.path or "").name)
    if guess == _PLAIN and not is_program:
        text = f"the file looks like plain text, neither an XSpace nor JSON; {_CAPTURES}"
        return _make_error(error, text, head.decode("utf-8-sig", "ignore").strip())
    if guess is None and not is_program and _has_text_first(head, 0):  # an HloModuleProto
        guess = _PROGRAM
    if guess is None:
        return error
    message = f"{error.message}; the file looks like {guess}"
    return CaptureError(message, path=error.path, offset=error.offset, salvageable=False)


def _make_error(error: CaptureError, text: str, begin: str) -> CaptureError:
    excerpt = f"it begins with {begin[:_SHOWN]!r}"
    return CaptureError(text, path=error.path, offset=error.offset, salvageable=False, excerpt=excerpt)


def _find_json_value(head: bytes) -> tuple[str, str] | None:
    """Return the kind and text of a document that is a single JSON value; None for others, and for several lines, as
    tables have."""
    match = _VALUE.fullmatch(head.decode("utf-8-sig", "ignore").strip())
    if match is None:
        return None
    return next(name for name, text in match.groupdict().items() if text is not None), match[0]


def refuse_other(head: bytes, path: str) -> None:
    """Raise CaptureError for a damaged file that looks like one of another format: nothing of it can be salvaged."""
    if _find_json_value(head) is not None or _find_known_format(head) is not None:
        raise explain_error(CaptureError("", path=path, offset=0), head)
    guess = _find_other_format(head)
    if guess is not None:
        text = f"{_REFUSED}; it looks like {guess}"
        raise CaptureError(text, path=path, offset=0, salvageable=False)


def name_foreign_format(head: bytes) -> str | None:
    """Return the format of a file that begins so, with what reads it; None: a capture, other text, or unknown."""
    markup = _MARKUP if _find_other_format(head[:_BEGIN]) == _MARKUP else None
    return _find_begun_format(head) or _find_known_format(head) or markup


def _find_begun_format(head: bytes) -> str | None:
    """Return the format of JSON that begins so, by its first key and others, or None."""
    if (begin := _FIRST_KEY.match(head)) is None:
        return None
    first, keys = begin[1].decode("utf-8", "replace"), {key.decode("utf-8", "replace") for key in _KEY.findall(head)}
    return next((text for needed, text in _DOCUMENTS if first in needed and needed.issubset(keys)), None)


def _find_known_format(head: bytes) -> str | None:
    """Return the format with this magic number or with these protobuf fields, or None."""
    return next((text for begin, text in _LOOKS_LIKE if begin.match(head)), None) or _find_protobuf_format(head)


def _find_other_format(head: bytes, *, named_json: bool = False) -> str | None:
    """Return what these first bytes look like, if the file cannot be read as a capture. Those of a capture that is
    damaged further on include bytes that no text has."""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)  # the end may be half a character
    except UnicodeDecodeError:
        return None
    if any(char < " " and char not in "\t\r\n\f" for char in text) or "\x7f" in text:
        return None
    start = text.lstrip()
    plain = _PLAIN if len(start) >= (1 if named_json else _LEAST_TEXT) else None
    return next((kind for beginning, kind in _TEXTS if beginning.match(start)), plain)


def refuse_other_protobuf(head: bytes, path: str) -> None:
    """Raise CaptureError for an HloProto, a trace of Perfetto and a profile of pprof, which would be read as planes
    that hold nothing known."""
    form = _PROGRAM if _has_text_first(head, 1) else _find_protobuf_format(head)
    if form is not None:
        raise CaptureError(f"{_REFUSED} but {form}", path=path, offset=0, salvageable=False)


_OF_PACKETS = frozenset(((8, 0), (10, 0), (50, 2)))
"""Fields of Perfetto's packets and their wire types: time, sequence, packets that are compressed. Planes have none."""


_ONNX = compile_late(rb"\x08[\x01-\x1f]\x12[\x01-\x7f](?:pytorch|onnx|tf2onnx|keras2onnx|skl2onnx)")
"""Beginning of a model: its version, and the program that wrote it."""


def _find_protobuf_format(head: bytes) -> str | None:
    """Return the format that the first fields show: ONNX, Perfetto packets, pprof sample types (pairs of numbers)."""
    if _ONNX.match(head):
        return "a model in ONNX"
    starts = ((number, value) for number, _, value, _ in _read_beginning(head))
    messages = [value for number, value in islice(starts, 2) if number == 1 and isinstance(value, memoryview)]
    begin = [[(number, kind) for number, kind, _, _ in _read_beginning(message)] for message in messages]
    if not begin:
        return None
    if any(not _OF_PACKETS.isdisjoint(tags) for tags in begin):
        return _PERFETTO
    return _PPROF if begin[0] in ([(1, 0), (2, 0)], [(2, 0)]) else None


def _read_beginning(message: bytes | memoryview) -> Iterator[BegunField]:
    """Yield fields from bytes that may begin a message, up to the first that is none."""
    with suppress(BadMessageError):
        yield from read_begun_fields(memoryview(message), True)


def _has_text_first(start: bytes, depth: int) -> bool:
    """Return whether the first field is number 1 and a text, ``depth`` messages deep."""
    length = 0
    for _ in range(depth + 1):
        if start[:1] != b"\x0a":
            return False
        rest = start[1:].lstrip(bytes(range(0x80, 0x100)))
        length = rest[0] if rest else 0  # of texts of 128 bytes and more only some of it
        start = rest[1:]
    text = start[: min(length, 8)]
    return text >= b"0" and text.isascii() and text.decode().isprintable()
