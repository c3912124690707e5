"""Kinds of planes, by their names.

All devices of streams and kernels are of type GPU, whoever makes them and whatever their planes are called:
``/device:GPU:0``, ``/device:MTIA:9``, ``/device:NPU:0``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fastprof.wording.patterns import compile_late

DEVICE_PLANES: Final = r"^/device:(?!CUSTOM:|\w*CPU:)\w+:"
"""Planes of TPUs and GPUs."""
GPU_PLANES: Final = r"^/device:(?!CUSTOM:|\w*CPU:|TPU)\w+:"

_GPU = compile_late(GPU_PLANES)
_DEVICES = (
    (compile_late(r"^/device:TPU:\d+ SparseCore(?: [a-zA-Z]+)? (\d+)$"), "SPARSECORE"),
    (compile_late(r"^/device:TPU:(\d+)$"), "TPU"),
    (compile_late(GPU_PLANES + r"(?:-\d+|(\d+))$"), "GPU"),
    (compile_late(r"^/device:CUSTOM:(?:.*:)?(\d+)$"), "CUSTOM"),
    (compile_late(r"^/device:CUSTOM:"), "CUSTOM"),
    (compile_late(r"^#Chip"), "CHIP"),
    (compile_late(r"^/host:CPU"), "CPU"),
)


def is_gpu_plane(plane: str) -> bool:
    """Return whether a plane is of a device of type GPU, even if its name has no number."""
    return _GPU.match(plane) is not None


def get_vendor_word(plane: str) -> str | None:
    """Return the name a plane gives its GPU-type device, such as NPU or MTIA; None if it is GPU."""
    word = plane.split(":")[1] if is_gpu_plane(plane) else "GPU"
    return None if word == "GPU" else word


def get_device_word(planes: Iterable[str]) -> str:
    """Return the display name of the GPU-type devices on these planes: GPU, NPU, MTIA, …; device for several kinds, GPU
    for none."""
    words = {get_vendor_word(plane) or "GPU" for plane in planes}
    return "device" if len(words) > 1 else next(iter(words), "GPU")


def pluralise_device(word: str) -> str:
    """Return the plural of a device name: GPUs, MTIA devices."""
    return f"{word}s" if word.endswith(("PU", "device")) else f"{word} devices"


def find_device_of_plane(plane: str) -> tuple[str | None, int | None]:
    """Return the type and ordinal of the device that a plane shows; None where it shows none, or has no number."""
    for pattern, kind in _DEVICES:
        if match := pattern.match(plane):
            number = match.group(1) if match.groups() else None
            return kind, None if number is None or len(number) > 9 else int(number)
    return None, None
