"""Which framework a program was written in, by the names in its capture: JAX, TensorFlow, PyTorch, or unknown.

Programs of JAX and PyTorch may read with tf.data, and those of PyTorch may call JAX, so names that only one of them
writes decide, in the order PyTorch, JAX, TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from fastprof.decode.task_environment import recorded_environment
from fastprof.decode.tfprof_profile import carries_profile
from fastprof.derive.devices.kineto_categories import is_kineto
from fastprof.tables.once import once
from fastprof.wording.patterns import pattern_of

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents

JAX, TENSORFLOW, PYTORCH, UNKNOWN = "JAX", "TensorFlow", "PyTorch", "unknown"
TENSORFLOW_1: Final = "TensorFlow 1"
"""Of files that only it writes; it has another profiler than TensorFlow 2."""
FRAMEWORKS: Final = (JAX, TENSORFLOW, TENSORFLOW_1, PYTORCH, UNKNOWN)

_NAMES: Final = {
    PYTORCH: pattern_of(r"^aten::|^ProfilerStep#|torch_xla|torch/|^SyncTensorsGraph|^autograd::|XLAGraphExecutor"),
    JAX: pattern_of(r"^PjitFunction|^jit_|^jit\(|/jit\(|^pmap_|\(jax\.Array\)"),
    TENSORFLOW: pattern_of(
        r"^EagerExecute|^EagerLocalExecute|^EagerKernelExecute|^ExecutorState::Process|^FunctionRun|^TFE_Py|^SessionRun"
        r"|^cluster_\d|__inference_|^TfOpRun|^TraceContext|^KernelAndDeviceFunc|tensorflow::|^RunMetadata$"
    ),
}


def framework_of(names: Iterable[str]) -> str:
    """The framework by the names of events, lines and ops of a capture."""
    every = list(dict.fromkeys(names))
    for framework, pattern in _NAMES.items():
        if any(pattern.search(name) for name in every):
            return framework
    return UNKNOWN


@once
def framework_of_host(events: HostEvents) -> str:
    """The framework by all names in the events of a host, or by what only one profiler writes."""
    if carries_profile(events.capture) or recorded_environment(events.capture).get("transcribed_from", "").startswith(
        TENSORFLOW_1
    ):
        return TENSORFLOW_1
    return PYTORCH if is_kineto(events) else framework_of(events.names)


def together(frameworks: Iterable[str]) -> str:
    """The framework of a session, from those of its hosts: the first that is known."""
    return next((one for one in frameworks if one != UNKNOWN), UNKNOWN)
