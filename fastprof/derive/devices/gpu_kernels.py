"""GPU kernels by name and recorded launch: matrix units, vendor, number type, launch
configuration."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fastprof.decode.plane_kinds import get_vendor_word
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents, Plane


NVIDIA, AMD = "Nvidia", "AMD"
"""The stat device_vendor of a GPU plane."""

_NVIDIA = (
    "16816|c1688|conv1x1|conv2d_c1_k1|dgrad_1x1_stride_2x2|direct_group|first_layer_wgrad_kernel|h1688|h884|hmma"
    "|i16832|i8816|s884|s1688|xmma_gemm|xmma_implicit_gemm|xmma_sparse_conv|xmma_sparse_gemm"
    "|xmma_warp_specialized_implicit_gemm"
)
_AMD = (
    r"Custom_Cijk_|_xdl|attn_fwd|gemm_fusion|mfma|wmma|gtcx|miopenSp3AsmConvRage|TileFmhaShape<|TileFmhaBwdShape<"
    r"|TileGemmShape<|bwd_kernel_|moe_gemm|_MI[0-9]+x[0-9]+x[0-9]+"
)
_OF_XPROF = {NVIDIA: _NVIDIA, AMD: f"{_AMD}|aiter"}
"""Parts of kernel names by which XProf recognises Tensor Core use."""
_INSTRUCTIONS = (
    r"(?i:tf32|tensorop|tensor\d+x\d+x\d+|wgmma|tcgen05|umma|mma_?sync|[hiqod]mma|wmma|m(?:8|16|32|64)n\d+k\d+)"
    r"|MainloopSm90\w*Gmma|MainloopSm1\d\d|MMA_Atom<\S*SM(?:[789]\d|1\d\d)_\w*\d+x\d+x\d+"
)
"""Types and instructions of Tensor Cores alone, as PTX and CUTLASS name them."""
_LIBRARIES = (
    r"(?:^|\W)nvjet_"  # cuBLAS since Hopper
    r"|deep_gemm::(?:sm\d+_)?\w*(?:gemm|mqa_logits)"
    r"|(?:^|\W)Marlin(?:_24)?<"
    r"|flash_fwd_(?:splitkv_)?(?:mla_)?kernel|flash_bwd_dq_dk_dv_|compute_attn_ws<"
    r"|FlashAttn(?:Fwd|Bwd)Sm\d|FlashAttention(?:Forward|Backward)Sm\d"  # FlashAttention 2, 3 and 4, FlashMLA
    r"|flashinfer::\w*(?:Prefill\w*|MLAPagedAttention)Kernel"
    r"|fmha_cutlass[FB]_b?f16_|fmha_v2_\w*(?:b?f16|fp16|e4m3)|cudnn\w*_sdpa_\w*(?:flash|knob)"
    r"|(?:^|\W)fmhaSm\d+\w*Kernel_Q|(?:^|\W)(?:bmm|gemm)_\w*(?:E2m1|E4m3|Fp16|Bfloat16)\w*_t\d+x\d+x\d+"  # TensorRT-LLM
)
"""Library kernels that always use Tensor Cores. Their helper kernels, which add partial sums or convert results, do
not."""
_UNITS = {
    NVIDIA: f"{_NVIDIA}|{_INSTRUCTIONS}|{_LIBRARIES}",
    AMD: rf"{_AMD}|aiter\W*\d*\w*(?:fmha_|mla_|fmoe|flatmm|gemm)|ck_tile::\w*Fmha(?:Fwd|Bwd)\w*(?<!Combine)Kernel<",
}
_WITHOUT_UNITS = {
    NVIDIA: r"(?i:simt|ffma|dp4a|(?:^|[_\W])(?:fp32_)?[sdcz]gemm)|[_\W]gemm_f32f32_f32f32_f32_(?!.*(?:tf32|tensor\d))",
    AMD: r"(?!)",
}
"""Instructions of other units, in names that also match _UNITS."""
_OPEN = compile_late(
    r"(?:^|\W)(?:triton_tem_\w*|fused_moe_kernel|matmul_kernel|_matmul_ogs|\w+_matmul)\b|(?:^|\W)mul_mat_q<"
)
"""Products compiled with or without Tensor Cores under one name, depending on type and GPU."""
_BEFORE_TF32 = compile_late(r"^(?:maxwell|pascal|volta|turing)_|(?:^|_)sm[567]\d_")
_SINCE_TF32 = compile_late(
    r"^(?:ampere|ada|hopper|blackwell|nvjet)_|(?:^|_)sm_?(?:[89]\d|1\d\d)|cutlass_(?:[89]\d|1\d\d)_|tf32"
)

_FAMILIES = tuple((compile_late(pattern), capability) for pattern, capability in (
    (r"^maxwell_|(?:^|_)sm_?5\d_", (5, 0)),
    (r"^pascal_|(?:^|_)sm_?6\d_", (6, 0)),
    (r"^volta_|(?:^|_)sm_?7[0-4]_", (7, 0)),
    (r"^turing_|(?:^|_)sm_?75_|cutlass_75_", (7, 5)),
    (r"^ampere_|(?:^|_)sm_?8[0-8]_|cutlass_80_", (8, 0)),
    (r"^ada_|(?:^|_)sm_?89_", (8, 9)),
    (r"^(?:hopper|nvjet)_|(?:^|_)sm_?90_|cutlass_90_", (9, 0)),
    (r"^blackwell_|(?:^|_)sm_?1\d\d_|cutlass_1\d\d_", (10, 0)),
))  # fmt: skip
"""What names of kernels begin with that libraries wrote for GPUs of a compute capability."""

_OP_ENDS = (
    "Conv2D",
    "Conv2DBackpropFilter",
    "Conv2DBackpropInput",
    "Conv3D",
    "DepthwiseConv2dNative",
    "DepthwiseConv2dNativeBackpropFilter",
    "DepthwiseConv2dNativeBackpropInput",
    "/MatMul",
    "FusedMatMul",
    "/CudnnRNN",
    "XlaDot",
    "XlaDotV2",
)
_OP_PARTS = (
    "BatchMatMul",
    "CudnnRNNV",
    "CudnnRNNForward",
    "CudnnRNNBackprop",
    "dot_general",
    "conv_general_dilated",
)


_MOVES = compile_late(r"transpose|copy|im[0-9]*d?2col|nchwtonhwc|nhwctonchw|memset", re.IGNORECASE)
_MULTIPLIES = compile_late(r"gemm|conv|cijk|_dot_|nvjet", re.IGNORECASE)


def get_matrix_units(vendor: str | None) -> str:
    """Return the vendor's name for its matrix units."""
    return {NVIDIA: "Tensor Cores", AMD: "Matrix Cores"}.get(vendor or "", "matrix units")


def knows_kernels(vendor: str | None) -> bool:
    """Return whether names of the kernels on the matrix units of this vendor's GPUs are known."""
    return vendor in _UNITS


def only_moves(kernel: str) -> bool:
    """Return whether a kernel of this name only reorders data, which no matrix unit does."""
    return _MOVES.search(kernel) is not None and not multiplies(kernel)


def multiplies(kernel: str) -> bool:
    """Return whether a kernel of this name multiplies matrices or convolves, whatever else it does."""
    return _MULTIPLIES.search(kernel) is not None


def uses_matrix_units(kernel: str, vendor: str | None) -> bool:
    """Return whether XProf counts a kernel of this name as using the vendor's matrix units."""
    names = _OF_XPROF.get(vendor or "")
    return names is not None and re.search(names, kernel) is not None


def runs_on_units(kernel: str, vendor: str | None) -> bool | None:
    """Return whether a kernel name shows use of the vendor's matrix units, or None if it leaves that open or the
    vendor's kernel names are unknown."""
    names = _UNITS.get(vendor or "")
    if names is None or vendor is None:
        return None
    if re.search(_WITHOUT_UNITS[vendor], kernel):
        return False
    return True if re.search(names, kernel) else None if _OPEN.search(kernel) else False


SINCE_TF32 = (8, 0)
"""The compute capability of Ampere."""


def lack_tf32(kernels: Iterable[str]) -> bool:
    """Return whether these kernels are of families before Ampere, whose Tensor Cores have neither TF32 nor bfloat16."""
    names = list(kernels)
    return any(map(_BEFORE_TF32.search, names)) and not any(map(_SINCE_TF32.search, names))


def find_least_capability(kernels: Iterable[str]) -> tuple[tuple[int, int], str] | None:
    """Return the compute capability that a GPU has at least which runs these kernels, and one of them that shows it. It
    is a lower bound: libraries use kernels of older GPUs on newer ones, too. None if no name shows any."""
    shown = ((capability, name) for name in kernels for pattern, capability in _FAMILIES if pattern.search(name))
    return max(shown, key=lambda shown_by: shown_by[0], default=None)


def can_multiply(op: str) -> bool:
    """Return whether a framework op of this name is a matrix product or a convolution."""
    return op.endswith(_OP_ENDS) or any(part in op for part in _OP_PARTS)


_TORCH_OPS = compile_late(
    r"(?:aten::)?(?:_?convolution(?:_backward)?|conv[123]d|conv_tbc|conv_transpose[123]d|cudnn_convolution\w*|prelu"
    r"|addmm|addmv|addr|matmul|mm|mv|linear|addbmm|baddbmm|bmm|chain_matmul|linalg_multi_dot"
    r"|_thnn_fused_(?:lstm|gru)_cell|(?:lstm|gru|rnn_tanh|rnn_relu)_cell)"
    r"|(?:Cudnn)?(?:Conv\w*|Mm|Mv|Addmm|Addmv|Addr|Bmm|Baddbmm|Linear|MatMul)Backward\d*"
)
"""Ops of PyTorch that are products of matrices or convolutions, and their backward nodes."""


def can_torch_op_multiply(op: str) -> bool:
    """Return whether an op of PyTorch is a matrix product or a convolution."""
    return _TORCH_OPS.fullmatch(op) is not None


def can_einsum_multiply(equation: str) -> bool:
    """Return whether an einsum has two operands, as ``ab,bc->ac`` has."""
    sides = equation.split("->")
    return len(sides) == 2 and sides[0].count(",") == 1


VENDOR_STAT: Final = "device_vendor"
NOT_RECORDED: Final = "the capture does not record the device vendor (device_vendor): {} is assumed, because {}"
_MODELS: Final = {
    NVIDIA: compile_late(r"nvidia|tesla|quadro|geforce|\b[ablhpvt]\d{1,3}\b|\brtx\b|gh200|gb200", re.IGNORECASE),
    AMD: compile_late(r"\bamd\b|instinct|radeon|^gfx[0-9a-f]{3,}|\bmi\d{2,3}[axp]?\b", re.IGNORECASE),
}
_OF_NVIDIA: Final = frozenset({
    (2, 0), (2, 1), (3, 0), (3, 2), (3, 5), (3, 7), (5, 0), (5, 2), (5, 3), (6, 0), (6, 1), (6, 2), (7, 0), (7, 2),
    (7, 5), (8, 6), (8, 7), (8, 9),
})  # fmt: skip
"""Compute capabilities of NVIDIA that no architecture of AMD has: gfx803 is 8.0, gfx906 to gfx90a are 9.0."""
_OF_AMD: Final = frozenset({(9, 4), (9, 5), (11, 5)})
_VENDOR_KERNELS: Final = {
    NVIDIA: compile_late(
        r"^(volta|turing|ampere|hopper|sm\d\d|maxwell|cutlass|nccl|nvjet)|_sm\d\d|cudnn|cublas|cutlass|\bcub::"
    ),
    AMD: compile_late(r"^Cijk_|\.kd$|rocclr|hipcub|rocprim|miopen|MIOpen|rccl|_mfma"),
}
_MOST_NAMES: Final = 200_000


def list_gpu_models(stats: Mapping[str, Any]) -> list[str]:
    """Return names of the GPU in the capture: its model, or its architecture."""
    names = (stats.get(stat) for stat in ("gpu_device_name", "device_name", "gpu_model"))
    return [name for name in names if isinstance(name, str) and name]


def find_vendors(
    planes: Mapping[int, Mapping[str, Any]], recorded: Mapping[int, str | None], names: Iterable[str]
) -> tuple[dict[int, str | None], tuple[str, ...]]:
    """Return the vendor of each GPU, as recorded or as its model, its compute capability or ``names`` of kernels show;
    and the sentences that say which of these did. ``planes``: GPU stats by number, without devices of other kinds."""
    makers, reasons = dict(recorded), []
    names = list(names) if None in recorded.values() else []
    kinds: dict[str, tuple[str, str] | None] = {}  # the same for planes of equal stats: the names are searched once
    for number in (number for number, vendor in recorded.items() if vendor is None and number in planes):
        stats = planes[number]
        kind = repr((list_gpu_models(stats), stats.get("compute_cap_major"), stats.get("compute_cap_minor")))
        if kind not in kinds:
            kinds[kind] = guess_vendor(stats, list_gpu_models(stats), names)
        likely = kinds[kind]
        if likely is not None:
            makers[number] = likely[0]
            reasons.append(NOT_RECORDED.format(*likely))
    return makers, tuple(dict.fromkeys(reasons))


def guess_vendor(stats: Mapping[str, Any], models: Iterable[str], kernels: Iterable[str]) -> tuple[str, str] | None:
    """Return the maker, and how it is known, in words, or None if nothing decides. ``models``: what the capture calls
    the GPU."""
    for model in models:
        vendors = [vendor for vendor, pattern in _MODELS.items() if pattern.search(model)]
        if len(vendors) == 1:
            return vendors[0], f"its model is {model[:60]}"
    capability = stats.get("compute_cap_major"), stats.get("compute_cap_minor")
    for vendor, own in ((NVIDIA, _OF_NVIDIA), (AMD, _OF_AMD)):
        if capability in own:
            return vendor, f"only GPUs of {vendor} have compute capability {capability[0]}.{capability[1]}"
    kernel_of_vendor: dict[str, str] = {}
    for name in islice(kernels, _MOST_NAMES):
        for vendor, pattern in _VENDOR_KERNELS.items():
            if vendor not in kernel_of_vendor and pattern.search(name):
                kernel_of_vendor[vendor] = name
    if len(kernel_of_vendor) != 1:
        return None
    ((vendor, name),) = kernel_of_vendor.items()
    return vendor, f"it runs kernels such as {name[:60]}"


def stats_of_gpus(planes: Iterable[Plane]) -> dict[int, Mapping[str, Any]]:
    """Return the stats of the devices that nothing calls otherwise than GPU, by number."""
    return {plane.number: plane.stats for plane in planes if get_vendor_word(plane.name) is None}


def maker_of(events: HostEvents) -> str | None:
    """Return who made the GPUs of a host, by all that shows it, or None if nothing does, or several made them."""
    planes = events.planes_of("GPU")
    recorded = {plane.number: plane.stats.get(VENDOR_STAT) for plane in planes}
    makers = set(find_vendors(stats_of_gpus(planes), recorded, events.names)[0].values())
    return makers.pop() if len(makers) == 1 else None


_TENSILE: Final = compile_late(r"Cijk_A[a-z]+_B[a-z]+_(4xi8|I8|F8|B8|[HBSDCZ])")
"""Names of AMD's library of products. Cijk_Ailk_Bljk_BBS_BH_MT128x128x32 reads bf16 (B), writes bf16 and adds up in f32
(S); BH says that it scales what it adds to, and adds up in more bits."""
_OF_TENSILE: Final = {
    "4xi8": "s8", "I8": "s8", "F8": "f8", "B8": "f8", "H": "f16", "B": "bf16", "S": "f32", "D": "f64", "C": "c64",
    "Z": "c128",
}  # fmt: skip
_COMMUNICATES: Final = compile_late(r"^[nr]ccl")
_NAMED: Final = tuple((name, compile_late(pattern, re.IGNORECASE)) for name, pattern in (
    ("f4", r"e2m1|^nvjet_(?:sm\d+_)?oo"),
    ("f8", r"e[45]m[23]|float8|fp8_\w*(?:gemm|matmul|mqa)|^nvjet_(?:sm\d+_)?q"),
    ("s8", r"i8816|i16832|imma|i8i8_"),
    ("bf16", r"bf(?:loat)?16|^nvjet_(?:sm\d+_)?t"),
    ("f16", r"(?<!b)f(?:p|loat)?16(?!\d)|(?<![a-z])half(?![a-z])|h884|h1688|h16816|s884|(?<![a-z])h(?:gemm|cudnn)"
            r"|^nvjet_(?:sm\d+_)?h"),
    ("tf32", r"tf32|(?<!turing_)s1688"),
    ("f32", r"f(?:p|loat)?32(?!\d)|(?<!\w)float\d?(?!\w)|(?<![a-z])s(?:gemm|cudnn|kudnn)|ffma"),
    ("f64", r"f(?:p|loat)?64(?!\d)|(?<!\w)double\d?(?!\w)|(?<![a-z])d(?:gemm|cudnn|884)"),
))  # fmt: skip
_FLOATS: Final = compile_late(r"b?f\d|c64|c128")
_NARROW: Final = compile_late(r"b?f(?:16|8|4)|s8")


def find_precision(kernel: str, types_read: Callable[[], Collection[str]]) -> str | None:
    """Return the type, such as bf16, in the name of a kernel, else that of the only floats that its instruction reads,
    or None if neither shows one or the kernel only communicates. ``types_read``: called if the name has none."""
    if _COMMUNICATES.match(kernel):
        return None
    tensile = _TENSILE.search(kernel)
    if tensile:
        return _OF_TENSILE[tensile[1]]
    named = next((name for name, pattern in _NAMED if pattern.search(kernel)), None)
    if named is not None:
        return named
    floats = [type_ for type_ in types_read() if _FLOATS.match(type_)]
    return floats[0] if len(floats) == 1 else None


def is_narrow(name: str) -> bool:
    """Return whether numbers of this type have at most 16 bits."""
    return _NARROW.match(name) is not None


Dim = tuple[int, int, int]

_SEPARATORS = compile_late("[ \n]")
_NUMBER = compile_late(r"\s*\+?[0-9]{1,20}\s*", re.ASCII)
_MOST = 2**32 - 1

MOST_REGISTERS = 1024
MOST_SHARED = 2**20
MOST_THREADS = 1024
MOST_BLOCKS = 2**31 - 1
"""More than any GPU has: registers of a thread, bytes of shared memory and threads of a block, blocks along an axis."""


class Launch(NamedTuple):
    """Registers of a thread; bytes of shared memory that the kernel declares, that its launch adds, and (ROCm) both;
    blocks of the grid; threads of a block; warps that fit on a multiprocessor in percent of its limit, and an estimate
    for the launch, whose grid may be smaller; blocks and warps of the grid for each multiprocessor of the device. None
    if not recorded."""

    registers: int | None = None
    static_shared: int | None = None
    dynamic_shared: int | None = None
    group_shared: int | None = None
    grid: Dim | None = None
    block: Dim | None = None
    occupancy: float | None = None
    estimated_occupancy: float | None = None
    blocks_per_sm: float | None = None
    warps_per_sm: float | None = None

    @property
    def shared(self) -> int | None:
        """Shared memory of a block in bytes, as far as it is recorded."""
        if self.static_shared is None and self.dynamic_shared is None:
            return self.group_shared
        return (self.static_shared or 0) + (self.dynamic_shared or 0)


def parse_launch(details: str) -> Launch:
    """Parse the launch in a string. Tokens that make no sense are ignored; of several with one name the last counts."""
    dims: dict[str, int | float | Dim] = {}
    for token in _SEPARATORS.split(details):
        key, _, text = token.partition(":")
        if key in _FIELDS:
            field, read = _FIELDS[key]
            value = read(text)
            if value is not None:
                dims[field] = value
    return Launch(**dims)  # type: ignore[arg-type]


def drop_incredible(launch: Launch) -> Launch:
    """Drop figures that no kernel on any GPU has, such as a theoretical occupancy of 0. They come from memory that
    was not set: if registers or shared memory are wrong, neither they nor the occupancy are trusted. ``occupancy`` is
    the estimate if there is one: 0 if rounded so, negative if the profiler does not know the device."""
    registers, static, dynamic, group, grid, block, occupancy, estimate, blocks, warps = launch
    if estimate is not None:
        occupancy = estimate if estimate >= 0 else None
    elif occupancy == 0:
        occupancy = None
    sound = (registers or 0) <= MOST_REGISTERS and (launch.shared or 0) <= MOST_SHARED
    return Launch(
        registers if sound else None,
        static if sound else None,
        dynamic if sound else None,
        group if sound else None,
        grid if grid is not None and min(grid) > 0 and max(grid) <= MOST_BLOCKS else None,
        block if block is not None and 0 < math.prod(block) <= MOST_THREADS else None,
        occupancy if sound and occupancy is not None and 0 <= occupancy <= 100 else None,
        blocks_per_sm=blocks if blocks is not None and blocks > 0 else None,
        warps_per_sm=warps if warps is not None and warps > 0 else None,
    )


def is_garbled(launch: Launch) -> bool:
    """Return whether registers, shared memory or dimensions are incredible."""
    no_occupancy = dict.fromkeys(("occupancy", "estimated_occupancy", "blocks_per_sm", "warps_per_sm"))
    return drop_incredible(launch)._replace(**no_occupancy) != launch._replace(**no_occupancy)


def _parse_integer(text: str) -> int | None:
    if not _NUMBER.fullmatch(text):
        return None
    value = int(text)
    return value if value <= _MOST else None


def _parse_dim(text: str) -> Dim | None:
    parts = [value for value in map(_parse_integer, text.split(",")) if value is not None]
    return (parts[0], parts[1], parts[2]) if len(parts) == text.count(",") + 1 == 3 else None


def _read_real(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


_FIELDS = {
    "regs": ("registers", _parse_integer),
    "static_shared": ("static_shared", _parse_integer),
    "dynamic_shared": ("dynamic_shared", _parse_integer),
    "group_mem": ("group_shared", _parse_integer),
    "grid": ("grid", _parse_dim),
    "block": ("block", _parse_dim),
    "occ_pct": ("occupancy", _read_real),
    "est_occ_pct": ("estimated_occupancy", _read_real),
    "blocks_per_sm": ("blocks_per_sm", _read_real),
    "warps_per_sm": ("warps_per_sm", _read_real),
}
