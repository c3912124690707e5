"""Python functions of a program whose profiler cannot record them: each becomes an annotation, named as profilers name
Python functions. TensorFlow 2.21 ignores the tracer levels that a program gives, and leaves its Python tracer off.

Functions of libraries are left out unless the program itself calls them: frameworks call hundreds a step.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import PurePath
from types import CodeType, FrameType
from typing import Any, Final

_LIBRARIES: Final = (*{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}, "<frozen ")
_CALLBACKS: Final = ("tensorflow.python.ops.script_ops", "FuncRegistry")
"""Class that calls Python functions from threads of TensorFlow, which Python does not know."""
_COMPILED: Final = ("tensorflow.python.eager.polymorphic_function.polymorphic_function", "Function")
"""Class of compiled functions: between the call and the return of one there is only Python of TensorFlow itself."""
_OWN: Final = PurePath(__file__).parent
_PENDING: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class PythonCalls:
    """``mark``: makes an annotation of the framework from its name."""

    def __init__(self, mark: Callable[[str], AbstractContextManager[object]]) -> None:
        self._mark = mark
        self._is_on = False
        self._names: dict[CodeType, tuple[str, bool]] = {}
        self._pending: Any = None  # the interpreter calls it later
        self._hooked: list[tuple[Any, Any]] = []

    def start(self) -> None:
        """Trace the main thread, threads that begin later, functions that TensorFlow calls, and from Python 3.12 on all
        other threads. A thread with a profile function keeps it."""
        self._is_on = True
        self._hook(_CALLBACKS, self._call_traced)
        self._hook(_COMPILED, self._call_untraced)
        if hasattr(threading, "setprofile_all_threads"):
            if sys.getprofile() is None:
                threading.setprofile_all_threads(self._begin)
            return
        if threading.getprofile() is None:
            threading.setprofile(self._begin)
        if threading.current_thread() is threading.main_thread():
            self._trace_thread()
        else:
            self._pending = _PENDING(lambda _nothing: self._trace_thread())
            ctypes.pythonapi.Py_AddPendingCall(self._pending, None)

    def stop(self) -> None:
        """Stop; other threads notice at their next call."""
        self._is_on = False
        if threading.getprofile() == self._begin:
            threading.setprofile(None)
        while self._hooked:
            kind, usual = self._hooked.pop()
            kind.__call__ = usual

    def _trace_thread(self) -> int:
        if self._is_on and sys.getprofile() is None:
            sys.setprofile(self._begin)
        return 0

    def _hook(self, path: tuple[str, str], call: Callable[..., object]) -> None:
        module, name = path
        kind = getattr(sys.modules.get(module), name, None)
        if kind is None:
            return
        usual = kind.__call__

        def hooked(*words: object, **others: object) -> object:
            return call(usual, *words, **others)

        self._hooked.append((kind, usual))
        kind.__call__ = hooked

    def _call_traced(self, usual: Callable[..., object], *words: object, **others: object) -> object:
        self._trace_thread()
        return usual(*words, **others)

    def _call_untraced(self, usual: Callable[..., object], *words: object, **others: object) -> object:
        trace = sys.getprofile()
        if getattr(trace, "__module__", None) != __name__:
            return usual(*words, **others)
        sys.setprofile(None)
        try:
            return usual(*words, **others)
        finally:
            sys.setprofile(trace)

    def _begin(self, frame: FrameType, event: str, value: object) -> None:
        """Trace this thread with a tracer of its own."""
        trace = self._make_tracer()
        sys.setprofile(trace)
        trace(frame, event, value)

    def _make_tracer(self) -> Callable[[FrameType, str, object], None]:
        opened: list[tuple[FrameType, AbstractContextManager[object]]] = []

        def trace(frame: FrameType, event: str, _value: object) -> None:
            if not self._is_on:
                sys.setprofile(None)
                while opened:
                    opened.pop()[1].__exit__(None, None, None)
            elif event == "call":
                name, is_library = self._describe(frame.f_code)
                caller = frame.f_back
                if name and not (is_library and (caller is None or self._describe(caller.f_code)[1])):
                    mark = self._mark(name)
                    mark.__enter__()
                    opened.append((frame, mark))
            elif event == "return" and opened and opened[-1][0] is frame:
                opened.pop()[1].__exit__(None, None, None)

        return trace

    def _describe(self, code: CodeType) -> tuple[str, bool]:
        """Return the name of a function in captures, "" for fastprof's own, and whether it is of a library."""
        known = self._names.get(code)
        if known is None:
            file = PurePath(code.co_filename)
            is_own = file.parent == _OWN
            name = "" if is_own else f"${file.name}:{code.co_firstlineno} {code.co_name}"
            known = self._names[code] = (name, is_own or code.co_filename.startswith(_LIBRARIES))
        return known
