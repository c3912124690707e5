"""Copies and fills of a GPU's memory: which way they go, from the many names that drivers give them.

CUPTI writes ``MemcpyH2D`` and ``Memset``, TensorFlow ``MEMCPYHtoD``, ROCm ``CopyHostToDevice`` and ``FillBuffer``,
newer ROCm the kernel that copies, ``__amd_rocclr_copyBuffer.kd``, of which only the call that launched it tells the
way: ``hipMemcpyHtoDAsync``.
"""

from __future__ import annotations

import re
from typing import Final

MEMSET: Final = "memset"
_WAYS = {
    "H2D": ("memcpyhtod", "memcpyh2d", "copyhosttodevice"),
    "D2H": ("memcpydtoh", "memcpyd2h", "copydevicetohost"),
    "D2D": ("memcpydtod", "memcpyd2d", "copydevicetodevice"),
    "P2P": ("memcpyptop", "memcpyp2p", "memcpypeer", "copypeertopeer"),
    "H2H": ("memcpyhtoh", "memcpyh2h", "copyhosttohost"),
}
_COPY = ("memcpy", "copy", "__amd_rocclr_copybuffer", "__amd_rocclr_copyimage")
_FILLS = ("memset", "fillbuffer", "__amd_rocclr_fillbuffer", "__amd_rocclr_fillimage")
_CALLS = re.compile(r"^(?:cuda|cu|hip)(?=mem)")


def copy_category(name: str) -> str:
    """The category of a copy or fill, by its name or that of the call that launched it: ``copy (H2D)``, ``copy`` where
    it does not tell the way, ``memset``; "" of all else."""
    plain = _CALLS.sub("", name.lower())
    for way, beginnings in _WAYS.items():
        if plain.startswith(beginnings):
            return f"copy ({way})"
    if plain.startswith(_FILLS):
        return MEMSET
    return "copy" if plain.startswith(_COPY) and _is_copy(plain) else ""


def _is_copy(plain: str) -> bool:
    """Kernels of XLA are named after instructions, such as ``copy_fusion``, which are no copies of the driver."""
    return plain.startswith(("memcpy", "__amd")) or plain in ("copybuffer", "copy buffer", "copyimage")
