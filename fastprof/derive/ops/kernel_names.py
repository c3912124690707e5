"""Instructions by the names of their kernels: XLA names the kernels that it makes after the instruction, or the fusion,
that they compute, with ``_`` for what names of functions cannot contain: ``add_fusion.3`` runs as ``add_fusion_3``.

Kernels that compute the same are made once, and are named after the first instruction that they are for. So a name
identifies an instruction only if no other fusion of its program could run as the same kernel: none with operands and
a result of the same shapes, and the same opcodes in the same order.

Copies and fills of a GPU's memory have names of their own. CUPTI writes ``MemcpyH2D`` and ``Memset``, TensorFlow
``MEMCPYHtoD``, PyTorch ``Memcpy HtoD (Pageable -> Device)``, ROCm ``CopyHostToDevice`` and ``FillBuffer``, newer ROCm
the kernel that copies, ``__amd_rocclr_copyBuffer.kd``: there only the call that launched it says which way it goes,
``hipMemcpyHtoDAsync``. MTIA calls all copies ``dma_request``, and records their direction.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Final

import numpy as np

from fastprof.hlo.module import HloModule
from fastprof.hlo.modules import Modules
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

MEMSET: Final = "memset"
_WAYS = {
    "H2D": ("memcpyhtod", "memcpyh2d", "copyhosttodevice"),
    "D2H": ("memcpydtoh", "memcpyd2h", "copydevicetohost"),
    "D2D": ("memcpydtod", "memcpyd2d", "copydevicetodevice"),
    "P2P": ("memcpyptop", "memcpyp2p", "memcpypeer", "copypeertopeer"),
    "H2H": ("memcpyhtoh", "memcpyh2h", "copyhosttohost"),
}
_WHOLE: Final = ("copybuffer", "copy buffer", "copyimage", "dma_request")
_COPY = ("memcpy", "copy", "dma_request", "__amd_rocclr_copybuffer", "__amd_rocclr_copyimage")
_FILLS = ("memset", "fillbuffer", "__amd_rocclr_fillbuffer", "__amd_rocclr_fillimage")
KERNEL_DETAILS: Final = "kernel_details"
DETAILS_OF_MEMORY: Final = ("memcpy_details", "memset_details")
"""Stats that copies and fills of a GPU's memory have."""
_CALLS = pattern_of(r"^(?:cuda|cu|hip)(?=mem)")
_BYTES = pattern_of(r"(?:^|[\s:])(?:num_bytes|size):\s*(\d{1,18})(?!\d)", re.ASCII)
_NO_LETTER = pattern_of(r"[^A-Za-z0-9_]")
_KERNEL = pattern_of(r"[A-Za-z_][A-Za-z0-9_]*(?:\.kd)?")


def copy_category(name: str) -> str:
    """The category of a copy or fill, by its name or that of the call that launched it: ``copy (H2D)``, ``copy`` if the
    direction is unknown, ``memset``; "" for others."""
    plain = _CALLS.sub("", name.lower().replace("memcpy ", "memcpy"))
    for way, beginnings in _WAYS.items():
        if plain.startswith(beginnings):
            return f"copy ({way})"
    if plain.startswith(_FILLS):
        return MEMSET
    return "copy" if plain.startswith(_COPY) and _is_copy(plain) else ""


def _is_copy(plain: str) -> bool:
    """Kernels of XLA are named after instructions, such as ``copy_fusion``, which are no copies of the driver."""
    return plain.startswith(("memcpy", "__amd")) or plain in _WHOLE


def num_bytes(details: str) -> int:
    """The bytes that a copy moved, from its details: ``num_bytes:4096`` or ``size:4096 dest:0``; 0: not recorded."""
    match = _BYTES.search(details)
    return int(match.group(1)) if match else 0


def plain(name: str) -> str:
    """A name in the form of a function's, without the ending that AMD's compiler adds to kernels."""
    return _NO_LETTER.sub("_", name.removesuffix(".kd"))


def may_be_of_xla(kernel: str) -> bool:
    """Whether XLA may have made a kernel of this name: those of libraries often have types and arguments in theirs, and
    copies have names of their own."""
    return _KERNEL.fullmatch(kernel) is not None and not copy_category(kernel)


@dataclass(slots=True)
class KernelNames:
    """Looks up instructions by the names of kernels; each program is read at first use."""

    modules: Modules
    _of_program: dict[int, dict[str, str]] = field(default_factory=dict)
    _of_name: dict[str, list[int]] | None = None

    def instruction(self, program_id: int, kernel: str) -> str:
        """The instruction of a program that a kernel is named after; "": there is none, or several."""
        if not may_be_of_xla(kernel):
            return ""
        return self._names(program_id).get(plain(kernel), "")

    def programs(self, kernel: str) -> list[int]:
        """The programs that have such an instruction, or several. All of them are read, unless the name is none of
        XLA's."""
        if not may_be_of_xla(kernel):
            return []
        if self._of_name is None:
            self._of_name = {}
            for program_id in self.modules.program_ids:
                for name in self._names(program_id):
                    self._of_name.setdefault(name, []).append(program_id)
        return self._of_name.get(plain(kernel), [])

    def _names(self, program_id: int) -> dict[str, str]:
        if program_id not in self._of_program:
            module = self.modules.module(program_id)
            self._of_program[program_id] = {} if module is None else _names_of(module)
        return self._of_program[program_id]


def _names_of(module: HloModule) -> dict[str, str]:
    """Instructions that run by themselves, by the names that their kernels have; "" if they are several, or another
    may run as the same kernel."""
    opcodes = np.array(module.texts.to_pylist(), object)
    opcode = opcodes[module.instructions["opcode"]]
    fused = np.zeros(len(module.computations) + 1, bool)
    for row in np.flatnonzero(opcode == "fusion").tolist():
        first, count = (int(module.instructions[row][name]) for name in ("first_call", "call_count"))
        fused[module.calls[first : first + count]] = True
    fused[-1] = False  # of calls of computations that are not there
    runs = ~fused[module.instructions["computation"]] & ~np.isin(opcode, ["parameter", "get-tuple-element", "tuple"])
    alike = _alike(module, np.flatnonzero(runs & (opcode == "fusion")).tolist())
    found: dict[str, str] = {}
    for row in np.flatnonzero(runs).tolist():
        name = opcodes[module.instructions["name"][row]]
        key = plain(name)
        found[key] = "" if key in found or row in alike else name
    found.pop("", None)
    return found


def _alike(module: HloModule, fusions: list[int]) -> set[int]:
    """The rows of fusions that may share a kernel with another."""
    rows_of: dict[object, list[int]] = {}
    for row in fusions:
        rows_of.setdefault(_kernel_key(module, row), []).append(row)
    return {row for rows in rows_of.values() if len(rows) > 1 for row in rows}


def _kernel_key(module: HloModule, row: int) -> object:
    """Equal for fusions that may run as one kernel; for a damaged fusion its row."""
    try:
        one = module.instruction(row)
        inner = tuple(module.text(int(module.instructions["opcode"][at])) for at in module.rows_of(one.calls[0]))
        shapes = (one.shape, *(module.instruction(operand).shape for operand in one.operands))
        arrays = [
            (leaf.element_type, leaf.dimensions, leaf.minor_to_major) for shape in shapes for _, leaf in shape.leaves()
        ]
        return one.fusion_kind, inner, tuple(arrays)
    except LookupError:
        return row
