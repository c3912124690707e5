"""Frames of the Python tracer: the function, file and line in the name of an event.

A function of Python is ``$file.py:12 name``, with the name of its file and the line at which it begins. One that is
compiled is ``$module name``: ``$builtins len``, ``$<unknown> append``. PyTorch's profiler writes
``file.py(12): name``, ``<built-in method append of list object at 0x7f12>``, and for a call of a module
``nn.Module: Linear_3``. Of a compiled function it names no module, but the class of the object whose method it is,
which may have the name of its module: ``torch._C._EngineBase``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from fastprof.derive.devices.op_names import PYTHON_FRAME, is_frame
from fastprof.wording.patterns import pattern_of

_OF_FILE = pattern_of(r"\$(?P<file>.*?):(?P<line>\d{1,9}) (?P<function>.*)", re.DOTALL)
_OF_TORCH = pattern_of(r"(?P<file>.+)\((?P<line>\d{1,9})\): (?P<function>.+)", re.DOTALL)
_BUILT_IN = pattern_of(
    r"<built-in (?:function|method) (?P<function>\S*)(?: of (?:(?P<file>\w[\w.]*)\.)?\S+(?: object)?.*)?>", re.DOTALL
)
_ADDRESS = pattern_of(r" at 0x[0-9a-fA-F]+>$")
_MODULE = pattern_of(r"nn\.Module: (?P<function>.+)", re.DOTALL)
_COMPILED = pattern_of(r"\$(?P<file>[^ ]*) (?P<function>.*)", re.DOTALL)
_WAITING = pattern_of(
    r".*(?:block_until_ready|try_to_block)$"
    r"|.*(?:::Await\w*|BlockHostUntil\w*|BlockUntilReady|\(wait for completion\)|WaitForDependencies|WaitUntilDone)"
    r"|(?:cuda|hip)(?:Device|Stream|Event)Synchronize|cu(?:Ctx|Stream|Event)Synchronize|np\.asarray\(jax\.Array\)",
    re.DOTALL,
)


class Frame(NamedTuple):
    """``file``: its name, or the module of a compiled function, empty if it is not recorded; ``line``: None of a
    compiled function."""

    function: str
    file: str
    line: int | None


@lru_cache(maxsize=1 << 16)
def frame_of(name: str) -> Frame:
    """The function in the name of an event."""
    if match := _OF_FILE.fullmatch(name):
        return Frame(match["function"], match["file"], int(match["line"]))
    if match := _COMPILED.fullmatch(name):
        return Frame(match["function"], match["file"], None)
    if match := _OF_TORCH.fullmatch(name):
        return Frame(match["function"], match["file"], int(match["line"]))
    if match := _BUILT_IN.fullmatch(name):
        return Frame(match["function"] or "<built-in>", match["file"] or "", None)
    if match := _MODULE.fullmatch(name):
        return Frame(match["function"], "nn.Module", None)
    return Frame(name.removeprefix(PYTHON_FRAME), "", None)


def without_address(name: str) -> str:
    """The name without the address of an object, which says nothing of the function."""
    return _ADDRESS.sub(">", name) if name.endswith(">") else name


def has_line(name: str) -> bool:
    """Whether an event is a call of a Python function whose line of source is recorded."""
    return is_frame(name) and frame_of(name).line is not None


def is_built_in(name: str) -> bool:
    """Whether an event is a call of a Python function that is compiled, as ``next`` is."""
    return is_frame(name) and frame_of(name).line is None


@lru_cache(maxsize=1 << 16)
def waits_for_device(name: str) -> bool:
    """Whether what an event is called does nothing but wait for a device, or for what runs on one."""
    return _WAITING.match(name) is not None


_LOCKED_WAITS: Final = frozenset(("wait", "join", "acquire", "_wait_for_tstate_lock", "wait_for"))
_RESTS: Final = {
    "threading.py": _LOCKED_WAITS, "_base.py": frozenset(("result", "wait")), "thread.py": frozenset(("_worker",)),
    "queue.py": frozenset(("get", "put")), "queues.py": frozenset(("get", "put")),
    "selectors.py": frozenset(("select",)), "socket.py": frozenset(("accept", "readinto")),
    "connection.py": frozenset(("accept", "poll", "_poll", "recv", "_recv", "recv_bytes", "_recv_bytes", "wait")),
    "popen_fork.py": frozenset(("poll", "wait")), "subprocess.py": frozenset(("wait", "_wait", "_try_wait")),
}  # fmt: skip
_COMPILED_RESTS: Final = frozenset((
    "acquire", "select", "poll", "kqueue", "control", "accept", "recv", "recv_into", "recv_bytes", "sleep", "waitpid",
))  # fmt: skip


@lru_cache(maxsize=1 << 16)
def is_idle(name: str) -> bool:
    """Return whether a frame only waits: for a lock, a queue, a connection or a time."""
    if not is_frame(name):
        return False
    function, place, line = frame_of(name)
    if line is None:
        return function in _COMPILED_RESTS or (place == "_queue" and function == "get")
    return function in _RESTS.get(place.rpartition("/")[2], ())
