"""Meaning of event names and categories: framework, op name and type, and PyTorch's kinds of events."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from fastprof.decode.span_stats import has_tfprof_profile, read_recorded_environment
from fastprof.schema.columns import Bools
from fastprof.tables import host_reader
from fastprof.tables.host_events import HostEvents, compute_once
from fastprof.wording.patterns import MOST_SEARCHED, compile_late

OPS: Final = frozenset({"cpu_op", "operator"})
"""Ops of PyTorch, and of 2021 its annotations too."""
ANNOTATIONS: Final = frozenset({"user_annotation"})
GPU_ANNOTATIONS: Final = frozenset({"_user_annotation"})
"""What a stream runs of an annotation of a thread: from its first kernel to its last."""
PYTHON: Final = frozenset({"python_function"})
MEMORY: Final = frozenset({"cpu_instant_event"})
CALLS: Final = host_reader.CALLS
STEP: Final = "ProfilerStep#"
"""How the annotation of a step begins; its number follows."""
LOADERS: Final = ("enumerate(DataLoader)#", "enumerate(DataPipe)#")
"""How annotations begin in which the program waits for its next batch."""
COLLECTIVES: Final = ("gloo:", "nccl:", "mpi:", "ucc:", "xccl:", "hccl:")
"""How ops begin that communicate; what they do follows."""

ARGUMENTS: Final = ("Input Dims", "Input dims", "Input type", "Concrete Inputs")
"""Stats of ops: shapes of their arguments, which files of 2021 write small, types of these, and other arguments."""


@compute_once
def has_category(events: HostEvents, categories: frozenset[str]) -> Bools:
    """Return whether the category of each row of event metadata is one of these; the last row is for events without
    metadata."""
    has: Bools = host_reader.is_of_category(events, categories)
    return has


@compute_once
def is_op(events: HostEvents) -> Bools:
    """Return whether each row of event metadata is a PyTorch op: no step marker, and no other annotation that old files
    write as an op."""
    named = np.array([not name.startswith((STEP, "enumerate(", "Optimizer.")) for name in events.names], bool)
    are_ops: Bools = has_category(events, OPS) & named
    return are_ops


RECORD: Final = "record_param_comms"
"""What process groups write to record the arguments of a collective: an event in that of its op."""
_OF_GROUPS: Final = "c10d::"


@compute_once
def may_launch(events: HostEvents) -> Bools:
    """Return whether each row of event metadata is an op that GPU work belongs to: a record of arguments is none if ops
    of collectives, which newer versions have, are recorded around it."""
    is_record = np.array([name == RECORD for name in events.names], bool)
    if not is_record.any() or not any(name.startswith(_OF_GROUPS) for name in events.names):
        return is_op(events)
    is_framework: Bools = is_op(events) & ~is_record
    return is_framework


def is_kineto(events: HostEvents) -> bool:
    """Return whether events have categories of PyTorch's profiler."""
    return bool(has_category(events, OPS | CALLS | PYTHON | ANNOTATIONS).any())


PYTHON_FRAME: Final = "$"
"""How names of the Python tracer's events begin: ``$file.py:12 function``."""
_KINETO_FRAME = compile_late(r".+\(\d{1,9}\): .+|<built-in (?:function|method) .+>|nn\.Module: .+", re.DOTALL)
"""PyTorch's profiler: ``file.py(12): function``, ``<built-in function len>``, ``nn.Module: Linear_3``."""


_KINETO_BEGINNINGS: Final = ("<built-in ", "nn.Module: ")


def is_frame(name: str) -> bool:
    """Return whether a tracer of Python names a call so, that of TensorFlow and JAX or that of PyTorch."""
    if name.startswith(PYTHON_FRAME):
        return True
    may_be = "): " in name or name.startswith(_KINETO_BEGINNINGS)  # the pattern takes long for names of kilobytes
    return may_be and _KINETO_FRAME.fullmatch(name) is not None


class Framework(IntEnum):
    """What wrote the name."""

    UNKNOWN = 0
    TENSORFLOW = 1
    JAX = 2
    TF_DATA = 3
    MEMCPY_H2D = 4
    MEMCPY_D2H = 5
    MEMCPY_D2D = 6
    MEMCPY_H2H = 7


class TfOp(NamedTuple):
    """``type`` is empty if the name has none."""

    framework: Framework
    name: str
    type: str


_COPIES = (
    ("memcpyhtod", Framework.MEMCPY_H2D, "MemcpyHToD"),
    ("memcpydtoh", Framework.MEMCPY_D2H, "MemcpyDToH"),
    ("memcpydtod", Framework.MEMCPY_D2D, "MemcpyDToD"),
    ("memcpyhtoh", Framework.MEMCPY_H2H, "MemcpyHToH"),
)
_TF_NAME = compile_late(r"[A-Za-z0-9.][A-Za-z0-9_./>-]*")
_TF_TYPE = compile_late(r"[A-Z_][a-zA-Z0-9_]*")
_JAX_TYPE = compile_late(r"[a-z_][a-z0-9_]*(\[.*\])?", re.DOTALL)
_SERIAL = compile_late(r"\d+|clone|remat\d*")
_TRAILING_NUMBER = compile_late(r"\s*[+-]?\d+\s*", re.ASCII)
DATASET = "Dataset"


def parse_op_name(full_name: str) -> TfOp:
    """Return the op of a full name, as an event or a stat ``tf_op`` has it."""
    name, colon, kind = full_name.partition(":")
    if not colon:
        if full_name[:6].lower() == "memcpy":
            start = full_name[:10].lower()
            for prefix, framework, kind in _COPIES:
                if start == prefix:
                    return TfOp(framework, full_name, kind)
        return TfOp(Framework.UNKNOWN, full_name, "")
    if name == "Iterator":
        return TfOp(Framework.TF_DATA, full_name, DATASET)
    if _TF_NAME.fullmatch(name) and _TF_TYPE.fullmatch(kind):
        return TfOp(Framework.TENSORFLOW, name, kind)
    primitive = kind or _get_type(name)
    if _JAX_TYPE.fullmatch(primitive):
        return TfOp(Framework.JAX, name, primitive.partition("[")[0])
    if not kind:
        return TfOp(Framework.TENSORFLOW, name, primitive)
    return TfOp(Framework.UNKNOWN, full_name, "")


def _get_type(name: str) -> str:
    """Return the last component of a path, without a trailing number: ``scope/MatMul_1`` is a MatMul."""
    last = name.rpartition("/")[2]
    stem, bar, number = last.rpartition("_")
    return stem if bar and _TRAILING_NUMBER.fullmatch(number) else last


def drop_serial(name: str) -> str:
    """Return the name of an instruction without what XLA appends to those of copies: ``copy-start.3.clone`` is
    ``copy-start``. Takes time in proportion to the name, which may be damage of a megabyte."""
    end = len(name)
    while (dot := name.rfind(".", 0, end)) >= 0 and _SERIAL.fullmatch(name, dot + 1, end):
        end = dot
    return name[:end]


JAX, TENSORFLOW, PYTORCH, UNKNOWN = "JAX", "TensorFlow", "PyTorch", "unknown"
TENSORFLOW_1: Final = "TensorFlow 1"
"""TensorFlow 1, which has another profiler than TensorFlow 2; files that only it writes."""
FRAMEWORKS: Final = (JAX, TENSORFLOW, TENSORFLOW_1, PYTORCH, UNKNOWN)

_NAMES: Final = {
    PYTORCH: (
        compile_late(r"aten::|ProfilerStep#|SyncTensorsGraph|autograd::"),
        ("torch_xla", "torch/", "XLAGraphExecutor"),
    ),
    JAX: (compile_late(r"PjitFunction|jit_|jit\(|pmap_"), ("/jit(", "(jax.Array)")),
    TENSORFLOW: (
        compile_late(
            r"EagerExecute|EagerLocalExecute|EagerKernelExecute|ExecutorState::Process|FunctionRun|TFE_Py|SessionRun"
            r"|cluster_\d|TfOpRun|TraceContext|KernelAndDeviceFunc|RunMetadata$"
        ),
        ("__inference_", "tensorflow::"),
    ),
}
"""Beginnings of names by framework, and parts that names have anywhere."""


def find_framework(names: Iterable[str]) -> str:
    """Return the framework by the names of events, lines and ops of a capture."""
    every = list(dict.fromkeys(name[:MOST_SEARCHED] for name in names))
    text = "\n".join(every)  # searched at once: there may be a name of kilobytes for each op of each device
    for framework, (beginning, parts) in _NAMES.items():
        if any(part in text for part in parts) or any(map(beginning.match, every)):
            return framework
    return UNKNOWN


@compute_once
def find_host_framework(events: HostEvents) -> str:
    """Return the framework by all names in the events of a host, or by what only one profiler writes."""
    if has_tfprof_profile(events.capture) or read_recorded_environment(events.capture).get(
        "transcribed_from", ""
    ).startswith(TENSORFLOW_1):
        return TENSORFLOW_1
    return PYTORCH if is_kineto(events) else find_framework(events.names)


def choose_framework(frameworks: Iterable[str]) -> str:
    """Return the framework of a session, from those of its hosts: the first that is known."""
    return next((framework for framework in frameworks if framework != UNKNOWN), UNKNOWN)
