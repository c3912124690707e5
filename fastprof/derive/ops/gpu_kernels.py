"""GPU kernels: the instructions that their names stand for, and rows of equal kernels.

XLA names a kernel after the instruction or fusion that it computes, with ``_`` for what names of functions cannot
contain: ``add_fusion.3`` runs as ``add_fusion_3``. Kernels that compute the same are made once, and are named after
the first instruction that they are for. So a name identifies an instruction only if no other fusion of its program
could run as the same kernel: none with operands and a result of the same shapes, and the same opcodes in the same
order.

Copies and fills of a GPU's memory have names of their own. CUPTI writes ``MemcpyH2D`` and ``Memset``, TensorFlow
``MEMCPYHtoD``, PyTorch ``Memcpy HtoD (Pageable -> Device)``, ROCm ``CopyHostToDevice`` and ``FillBuffer``, newer ROCm
the kernel that copies, ``__amd_rocclr_copyBuffer.kd``: there only the call that launched it says which way it goes,
``hipMemcpyHtoDAsync``. MTIA calls all copies ``dma_request``, and records their direction.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final, NamedTuple

import numpy as np

from fastprof.derive.devices import gpu_kernels
from fastprof.derive.devices.device_events import NothingRan
from fastprof.derive.devices.gpu_kernels import Dim, Launch, is_narrow
from fastprof.hlo.module import HloModule
from fastprof.hlo.programs import Modules
from fastprof.schema.columns import Int64s, find_least_by, sum_by
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

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
_CALLS = compile_late(r"^(?:cuda|cu|hip)(?=mem)")
_BYTES = compile_late(r"(?:^|[\s:])(?:num_bytes|size):\s*(\d{1,18})(?!\d)", re.ASCII)
_NO_LETTER = compile_late(r"[^A-Za-z0-9_]")
_KERNEL = compile_late(r"[A-Za-z_][A-Za-z0-9_]*(?:\.kd)?")


def classify_copy(name: str) -> str:
    """Return the category of a copy or fill, by its name or that of the call that launched it: ``copy (H2D)``, ``copy``
    if the direction is unknown, ``memset``; "" for others."""
    plain = _CALLS.sub("", name.lower().replace("memcpy ", "memcpy"))
    for way, beginnings in _WAYS.items():
        if plain.startswith(beginnings):
            return f"copy ({way})"
    if plain.startswith(_FILLS):
        return MEMSET
    # XLA names kernels after instructions such as ``copy_fusion``
    is_of_driver = plain.startswith(("memcpy", "__amd")) or plain in _WHOLE
    return "copy" if plain.startswith(_COPY) and is_of_driver else ""


def parse_copy_bytes(details: str) -> int:
    """Return the bytes that a copy moved, from its details: ``num_bytes:4096`` or ``size:4096 dest:0``; 0 if it is not
    recorded."""
    match = _BYTES.search(details)
    return int(match.group(1)) if match else 0


def normalize_kernel_name(name: str) -> str:
    """Return a name in the form of a function's, without the ending that AMD's compiler adds to kernels."""
    return _NO_LETTER.sub("_", name.removesuffix(".kd"))


def may_be_of_xla(kernel: str) -> bool:
    """Return whether XLA may have made a kernel of this name: library kernels often have types and arguments in their
    names, and copies have names of their own."""
    return _KERNEL.fullmatch(kernel) is not None and not classify_copy(kernel)


@dataclass(slots=True)
class KernelNames:
    """Looks up instructions by the names of kernels; each program is read at first use."""

    modules: Modules
    _of_program: dict[int, dict[str, str]] = field(default_factory=dict)
    _of_name: dict[str, list[int]] | None = None

    def instruction(self, program_id: int, kernel: str) -> str:
        """Return the instruction of a program that a kernel is named after; "" if there is none, or several."""
        if not may_be_of_xla(kernel):
            return ""
        return self._names(program_id).get(normalize_kernel_name(kernel), "")

    def programs(self, kernel: str) -> list[int]:
        """Return the programs that have such an instruction, or several. All of them are read, unless the name is none
        of XLA's."""
        if not may_be_of_xla(kernel):
            return []
        if self._of_name is None:
            self._of_name = {}
            for program_id in self.modules.program_ids:
                for name in self._names(program_id):
                    self._of_name.setdefault(name, []).append(program_id)
        return self._of_name.get(normalize_kernel_name(kernel), [])

    def _names(self, program_id: int) -> dict[str, str]:
        if program_id not in self._of_program:
            module = self.modules.module(program_id)
            self._of_program[program_id] = {} if module is None else _index_kernel_names(module)
        return self._of_program[program_id]


def _index_kernel_names(module: HloModule) -> dict[str, str]:
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
    fusions_of_key: dict[object, list[int]] = {}
    for row in np.flatnonzero(runs & (opcode == "fusion")).tolist():
        fusions_of_key.setdefault(_make_kernel_key(module, row), []).append(row)
    alike = {row for fusions in fusions_of_key.values() if len(fusions) > 1 for row in fusions}
    instruction_of: dict[str, str] = {}
    for row in np.flatnonzero(runs).tolist():
        name = opcodes[module.instructions["name"][row]]
        key = normalize_kernel_name(name)
        instruction_of[key] = "" if key in instruction_of or row in alike else name
    instruction_of.pop("", None)
    return instruction_of


def _make_kernel_key(module: HloModule, row: int) -> object:
    """Equal for fusions that may run as one kernel; for a damaged fusion its row."""
    try:
        fusion = module.instruction(row)
        inner = tuple(module.text(int(module.instructions["opcode"][at])) for at in module.rows_of(fusion.calls[0]))
        shapes = (fusion.shape, *(module.instruction(operand).shape for operand in fusion.operands))
        arrays = [
            (leaf.element_type, leaf.dimensions, leaf.minor_to_major) for shape in shapes for _, leaf in shape.leaves()
        ]
        return fusion.fusion_kind, inner, tuple(arrays)
    except LookupError:
        return row


NO_OPS: Final = ("", "(null)", "XlaModule", "XlaModule:")
"""Texts for an unknown framework op; XLA writes them on all kernels."""


class KernelKey(NamedTuple):
    """What distinguishes kernels of a host, and orders rows of equal totals. What is not recorded is 0, dimensions
    1, an op the empty text."""

    name: str
    grid: Dim
    block: Dim
    registers: int
    static_shared: int
    dynamic_shared: int
    uses: bool
    could: bool
    op: str


class KernelRow(NamedTuple):
    """A kernel of a host. ``vendor``: who made the GPU, as recorded or as other facts show; ``uses``: whether the
    kernel runs on matrix units; None if its name does not show it; ``op_could``: whether its op could. ``kernel`` has
    both by the recorded vendor alone. ``kind``, ``fusible``: see KINDS and estimate_fusible_time. ``precision``: the
    type of the numbers that it computes with; None if it is unknown. ``ps``: count, total, minimum and maximum of its
    durations; ``ns``: the same in whole nanoseconds, as XProf adds them up, which leaves out durations of 0.
    ``detailed``: whether anything is recorded of its launch, without which XProf knows no kernel. ``percentiles``: of
    its durations, as PERCENTILES; empty if they are not asked for.

    A row of ``merge_kernels`` sums several rows, and is otherwise the longest of them, which takes ``most_ps``.
    ``starved_ps``, ``most_starved_ps``: sum and maximum of ``estimate_starved_time`` over them. Each is None if the row
    is not merged. Merged rows have neither ``ns`` nor ``percentiles``, and of a launch only what occupancy needs."""

    host: str
    kernel: KernelKey
    launch: Launch
    vendor: str | None
    uses: bool | None
    op_could: bool
    kind: int
    devices: int
    fusible: int
    precision: str | None
    ps: tuple[int, int, int, int]
    ns: tuple[int, int, int, int]
    detailed: bool
    percentiles: tuple[int, ...] = ()
    most_ps: int | None = None
    starved_ps: int | None = None
    most_starved_ps: int | None = None

    @property
    def order(self) -> tuple[int, KernelKey, str]:
        """Longest first, then by name and configuration."""
        return -(self.ps[1] if self.most_ps is None else self.most_ps), self.kernel, self.host

    @property
    def op(self) -> str:
        """The framework op that launched it; "" if it is unknown."""
        return "" if self.kernel.op in NO_OPS else self.kernel.op

    @property
    def is_on_units(self) -> bool:
        """Return whether the kernel runs on matrix units, or at least could if its name does not show it."""
        return self.could if self.uses is None else self.uses

    @property
    def could(self) -> bool:
        return self.op_could and (bool(self.uses) or not gpu_kernels.only_moves(self.kernel.name))

    @property
    def misses(self) -> bool:
        """Return whether the kernel is known not to run on matrix units, but could."""
        return self.could and self.uses is False


FEW_WARPS_PERCENT: Final = 30.0
"""Occupancy below which kernels without Tensor Cores hide little memory latency."""


def estimate_occupancy(row: KernelRow) -> float | None:
    """Return the occupancy of a kernel in percent, or None if it is not recorded.

    Tensor Core kernels need few warps: for them it is the percentage of multiprocessors that have a block."""
    launch = gpu_kernels.drop_incredible(row.launch)
    if row.is_on_units:
        return None if launch.blocks_per_sm is None else 100.0 * min(launch.blocks_per_sm, 1.0)
    return launch.occupancy


def estimate_starved_time(row: KernelRow) -> int:
    """Return the time that a kernel would save with all warps, in proportion to missing warps; 0 if few are missing."""
    percent = estimate_occupancy(row)
    return 0 if percent is None or percent >= FEW_WARPS_PERCENT else round(row.ps[1] * (1.0 - percent / 100.0))


def merge_kernels(rows: Iterable[KernelRow]) -> list[KernelRow]:
    """Merge kernels that have the same name and op, on all hosts and with any launch, longest kernels first.

    Kernels stay apart if they differ in ``uses``, ``op_could``, ``kind``, ``precision``, ``vendor``, or only one of
    them has an occupancy. Findings depend on nothing else."""
    merged: dict[tuple[object, ...], KernelRow] = {}
    for row in rows:
        mergeable = row if row.most_ps is not None else _make_mergeable(row)
        lacks = mergeable.launch.estimated_occupancy is None, mergeable.launch.blocks_per_sm is None
        key = (row.kernel.name, row.op, row.uses, row.op_could, row.vendor, row.kind, row.precision, lacks)
        other = merged.get(key)
        merged[key] = mergeable if other is None else _merge_pair(other, mergeable)
    return sorted(merged.values(), key=lambda row: row.order)


def _make_mergeable(row: KernelRow) -> KernelRow:
    launch, starved = gpu_kernels.drop_incredible(row.launch), estimate_starved_time(row)
    return row._replace(
        launch=Launch(
            estimated_occupancy=launch.occupancy, blocks_per_sm=launch.blocks_per_sm if row.is_on_units else None
        ),
        ns=(0, 0, 0, 0),
        percentiles=(),
        most_ps=row.ps[1],
        starved_ps=starved,
        most_starved_ps=starved,
    )


def _merge_pair(left: KernelRow, right: KernelRow) -> KernelRow:
    longest = min(left, right, key=lambda row: row.order)
    return longest._replace(
        fusible=left.fusible + right.fusible,
        ps=(
            left.ps[0] + right.ps[0],
            left.ps[1] + right.ps[1],
            min(left.ps[2], right.ps[2]),
            max(left.ps[3], right.ps[3]),
        ),
        starved_ps=(left.starved_ps or 0) + (right.starved_ps or 0),
        most_starved_ps=max(left.most_starved_ps or 0, right.most_starved_ps or 0),
    )


def sum_tensor_core_time(rows: Sequence[KernelRow]) -> int | None:
    uses = [row.uses for row in rows]
    return None if None in uses else sum(row.ps[1] for row, does in zip(rows, uses, strict=True) if does)


class PrecisionTimes(NamedTuple):
    """Time of kernels that compute in 16 bits or fewer, in more, and whose precision is unknown."""

    narrow_ps: int = 0
    wide_ps: int = 0
    unknown_ps: int = 0

    @property
    def to_judge(self) -> tuple[int, int]:
        """Narrow and wide; nothing if the precision of most of the time is unknown."""
        known = self.narrow_ps + self.wide_ps
        return (self.narrow_ps, self.wide_ps) if known >= self.unknown_ps else (0, 0)

    @property
    def percents(self) -> tuple[float | None, float | None, float | None]:
        """Percent of the time of all kernels; None, see why_unknown."""
        total = sum(self)
        if not total:
            return None, None, None
        unknown = 100 * self.unknown_ps / total
        if self.unknown_ps == total:
            return None, None, unknown
        return 100 * self.narrow_ps / total, 100 * self.wide_ps / total, unknown

    @property
    def why_unknown(self) -> str:
        if self.unknown_ps:
            return "neither names of kernels nor their programs show it"
        return NothingRan("the capture has no GPU kernels, and other devices do not record precision")


def sum_precision_times(rows: Sequence[KernelRow]) -> PrecisionTimes:
    times = [0, 0, 0]
    for row in rows:
        times[2 if row.precision is None else not is_narrow(row.precision)] += row.ps[1]
    return PrecisionTimes(*times)


def group_kernels_by_op(rows: Sequence[KernelRow]) -> list[tuple[str, list[KernelRow], int]]:
    """Ops with their kernels and the time of these, longest first."""
    kernels: dict[str, list[KernelRow]] = {}
    for row in rows:
        kernels.setdefault(row.op, []).append(row)
    ops = [(op, of_op, sum(row.ps[1] for row in of_op)) for op, of_op in kernels.items()]
    return sorted(ops, key=lambda op: (-op[2], op[0]))


def find_longest_kernel(rows: Sequence[KernelRow]) -> tuple[str, int] | None:
    """Return the name with the most time, over ops and launch configurations, and its time; None if there is none."""
    time: Counter[str] = Counter()
    for row in rows:
        time[row.kernel.name] += row.ps[1]
    return next(iter(time.most_common(1)), None)


# ---- fusion of neighbours

# Kernels that compute element by element, launched op by op, and what fusing neighbours may save.
#
# Kernels of PyTorch are known by their templates, those of TensorFlow by the types of their ops, those of JAX by the
# names of their programs: outside of ``jax.jit`` each op is a program of its own. What XLA, Inductor or Triton compiled
# has other names and is fused already.
#
#     stream  |copy|pow|mean|rsqrt|mul| |gemm| |silu|mul| |gemm| |add| |gemm|
#     may go   copy+pow +    rsqrt+mul          mul                           of silu and mul the longer one may go
#
# Neighbours on a stream, with reductions among them, are a run. Fused, a run takes at least as long as its reductions,
# or without any as its shortest kernel: the rest is an upper bound of what fusion saves. A kernel without neighbours
# stays. Whether neighbours work on the same arrays is not recorded.

KINDS: Final = (None, "elementwise", "reduction", None)

OTHER, ELEMENTWISE, REDUCTION, UNKNOWN = range(len(KINDS))
"""UNKNOWN: neither an op nor a program is recorded, and only kernels of PyTorch say it by their names."""

_TORCH: Final = compile_late(
    r"\A(?>.*?at::native).*?\b(?:(?:vectorized_|unrolled_|vectorized_templated_)?elementwise_kernel(?:_with_index)?"
    r"|distribution_elementwise_grid_stride_kernel|CatArrayBatchedCopy\w*)\s*<"
    r"|^void \(anonymous namespace\)::elementwise_kernel_with_index<"
)

_TORCH_REDUCES: Final = compile_late(
    r"\A(?>.*?at::native).*?\b(?:reduce_kernel|(?=\w*(?:softmax|layer_norm))\w++)\s*<", re.IGNORECASE
)
"""The first place and each word are tried once, so that time grows with the length of a name."""

_OWN_KERNELS: Final = "aten::"
"""Ops of PyTorch itself: compilers know no others."""

_TYPES: Final = compile_late(
    "Abs|Add(?:N|V2)?|BiasAdd|Cast|ClipByValue|Concat(?:V2)?|Cos|Div|Erf|Exp|Expm1|Fill|Floor|Inv|Log|Log1p|Maximum"
    "|Minimum|Mul|Neg|OnesLike|Pow|RealDiv|Reciprocal|Round|Select(?:V2)?|Sign|Sin|Softsign|Square|SquaredDifference"
    "|Sub|Tile|ZerosLike|(?:Not)?Equal|(?:Greater|Less)(?:Equal)?|Logical(?:And|Not|Or)"
    "|(?:Elu|LeakyRelu|Relu6?|Rsqrt|Selu|Sigmoid|Softplus|Sqrt|Tanh)(?:Grad)?"
)

_REDUCING_TYPES: Final = compile_late("All|Any|BiasAddGrad|LogSoftmax|Max|Mean|Min|Prod|Softmax|Sum")

_PROGRAMS: Final = compile_late(
    r"jit__?(?:abs|absolute|add|astype|broadcast_in_dim|clip|concatenate|convert_element_type|cos|div|divide|equal|erf|"
    r"exp|expm1|floor|floor_divide|gelu|greater|greater_equal|integer_pow|less|less_equal|log|log1p|logical_and|"
    r"logical_not|logical_or|logistic|max|maximum|min|minimum|mul|multiply|ne|neg|negative|not_equal|pow|power|relu|"
    r"round|rsqrt|select_n|sigmoid|sign|silu|sin|sqrt|square|sub|subtract|tanh|true_divide|where)"
)

_REDUCING_PROGRAMS: Final = compile_late(
    r"jit__?(?:reduce_(?:sum|max|min|prod)|sum|mean|var|std|prod|amax|amin|softmax|log_softmax|logsumexp)"
)
"""Named after functions of jax.numpy, jax.nn and jax.lax."""


def classify_kernel(kernel: str, op: str, op_type: str, program: str) -> int:
    """Return the place in KINDS of a kernel. ``op``, ``op_type``: of the framework; ``program``: that XLA compiled; ""
    if it is unknown."""
    if program:
        return _choose_kind(_PROGRAMS.fullmatch(program), _REDUCING_PROGRAMS.fullmatch(program))
    if op_type:
        return _choose_kind(_TYPES.fullmatch(op_type), _REDUCING_TYPES.fullmatch(op_type))
    if op and not op.startswith(_OWN_KERNELS):
        return OTHER
    return _choose_kind(_TORCH.search(kernel), _TORCH_REDUCES.search(kernel))


def _choose_kind(elementwise: object, reduces: object) -> int:
    return ELEMENTWISE if elementwise else REDUCTION if reduces else OTHER


def estimate_fusible_time(kind: Int64s, duration_ps: Int64s, line: Int64s) -> Int64s:
    """Return, per kernel, how much time fusing its run may save. The kernels are line by line, in order of time."""
    belongs = (kind == ELEMENTWISE) | (kind == REDUCTION)
    apart = np.append(True, (line[1:] != line[:-1]) | ~belongs[1:] | ~belongs[:-1])[: len(kind)]
    run = np.cumsum(apart) - 1
    count = int(run[-1]) + 1 if len(run) else 0
    may_go = np.where(kind == ELEMENTWISE, duration_ps, 0)
    reduces = sum_by(run, (kind == REDUCTION).astype(np.int64), count) > 0
    stays = np.flatnonzero((kind == ELEMENTWISE) & ~reduces[run])
    shortest = find_least_by(run[stays], duration_ps[stays], count)
    rows = stays[duration_ps[stays] == shortest[run[stays]]][::-1]
    first = np.full(count, -1, np.int64)
    first[run[rows]] = rows  # of equal ones the first is written last
    may_go[first[first >= 0]] = 0
    return may_go
