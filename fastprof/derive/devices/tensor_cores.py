"""Which GPU kernels run on matrix units, and which ops could, by name and vendor.

Nvidia calls the units Tensor Cores, AMD Matrix Cores. Neither records their use in a trace. Libraries write the
instruction or the template into the names of their kernels. A kernel of any other name counts as one that does without,
unless it is compiled for either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fastprof.wording.patterns import pattern_of

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
"""What XProf finds in the names of kernels that use the units."""
_INSTRUCTIONS = (
    r"(?i:tf32|tensorop|tensor\d+x\d+x\d+|wgmma|tcgen05|umma|mma_?sync|[hiqod]mma|wmma|m(?:8|16|32|64)n\d+k\d+)"
    r"|MainloopSm90\w*Gmma|MainloopSm1\d\d|MMA_Atom<\S*SM(?:[789]\d|1\d\d)_\w*\d+x\d+x\d+"
)
"""Types and instructions that only Tensor Cores have, also as CUTLASS names them."""
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
"""Kernels of libraries that multiply in 16 bits or fewer, or in TF32, by no other means. Kernels beside them that add
up parts or convert the result do without."""
_UNITS = {
    NVIDIA: f"{_NVIDIA}|{_INSTRUCTIONS}|{_LIBRARIES}",
    AMD: rf"{_AMD}|aiter\W*\d*\w*(?:fmha_|mla_|fmoe|flatmm|gemm)|ck_tile::\w*Fmha(?:Fwd|Bwd)\w*(?<!Combine)Kernel<",
}
_WITHOUT_UNITS = {
    NVIDIA: r"(?i:simt|ffma|dp4a|(?:^|[_\W])(?:fp32_)?[sdcz]gemm)|[_\W]gemm_f32f32_f32f32_f32_(?!.*(?:tf32|tensor\d))",
    AMD: r"(?!)",
}
"""Instructions of other units in names that have what _UNITS has, too."""
_OPEN = pattern_of(
    r"(?:^|\W)(?:triton_tem_\w*|fused_moe_kernel|matmul_kernel|_matmul_ogs|\w+_matmul)\b|(?:^|\W)mul_mat_q<"
)
"""Products whose kernels are compiled for the units or without them, by type and GPU, under one name."""
_BEFORE_TF32 = pattern_of(r"^(?:maxwell|pascal|volta|turing)_|(?:^|_)sm[567]\d_")
_SINCE_TF32 = pattern_of(
    r"^(?:ampere|ada|hopper|blackwell|nvjet)_|(?:^|_)sm_?(?:[89]\d|1\d\d)|cutlass_(?:[89]\d|1\d\d)_|tf32"
)

_FAMILIES = tuple((pattern_of(pattern), capability) for pattern, capability in (
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


_MOVES = pattern_of(r"transpose|copy|im[0-9]*d?2col|nchwtonhwc|nhwctonchw|memset", re.IGNORECASE)
_MULTIPLIES = pattern_of(r"gemm|conv|cijk|_dot_|nvjet", re.IGNORECASE)


def units_of(vendor: str | None) -> str:
    """What a vendor calls its matrix units."""
    return {NVIDIA: "Tensor Cores", AMD: "Matrix Cores"}.get(vendor or "", "matrix units")


def knows(vendor: str | None) -> bool:
    """Whether names of the kernels on the matrix units of this vendor's GPUs are known."""
    return vendor in _UNITS


def only_moves(kernel: str) -> bool:
    """Whether a kernel of this name only reorders data, which no matrix unit does."""
    return _MOVES.search(kernel) is not None and not multiplies(kernel)


def multiplies(kernel: str) -> bool:
    """Whether a kernel of this name multiplies matrices or convolves, whatever else it does."""
    return _MULTIPLIES.search(kernel) is not None


def kernel_uses(kernel: str, vendor: str | None) -> bool:
    """Whether XProf finds that a kernel of this name runs on matrix units of the vendor's GPUs."""
    names = _OF_XPROF.get(vendor or "")
    return names is not None and re.search(names, kernel) is not None


def runs_on_units(kernel: str, vendor: str | None) -> bool | None:
    """Return whether a kernel runs on matrix units of the vendor's GPUs, as its name says; None: kernels of this name
    may do either, or names of this vendor's kernels are not known."""
    names = _UNITS.get(vendor or "")
    if names is None or vendor is None:
        return None
    if re.search(_WITHOUT_UNITS[vendor], kernel):
        return False
    return True if re.search(names, kernel) else None if _OPEN.search(kernel) else False


SINCE_TF32 = (8, 0)
"""The compute capability of Ampere."""


def lack_tf32(kernels: Iterable[str]) -> bool:
    """Whether these kernels are of families before Ampere, whose Tensor Cores have neither TF32 nor bfloat16."""
    names = list(kernels)
    return any(map(_BEFORE_TF32.search, names)) and not any(map(_SINCE_TF32.search, names))


def least_capability(kernels: Iterable[str]) -> tuple[tuple[int, int], str] | None:
    """The compute capability that a GPU has at least which runs these kernels, and one of them that shows it. It is a
    lower bound: libraries use kernels of older GPUs on newer ones, too. None: no name shows any."""
    found = ((capability, name) for name in kernels for pattern, capability in _FAMILIES if pattern.search(name))
    return max(found, key=lambda one: one[0], default=None)


def op_could(op: str) -> bool:
    """Whether a framework op of this name is a matrix product or a convolution."""
    return op.endswith(_OP_ENDS) or any(part in op for part in _OP_PARTS)


_TORCH_OPS = pattern_of(
    r"(?:aten::)?(?:_?convolution(?:_backward)?|conv[123]d|conv_tbc|conv_transpose[123]d|cudnn_convolution\w*|prelu"
    r"|addmm|addmv|addr|matmul|mm|mv|linear|addbmm|baddbmm|bmm|chain_matmul|linalg_multi_dot"
    r"|_thnn_fused_(?:lstm|gru)_cell|(?:lstm|gru|rnn_tanh|rnn_relu)_cell)"
    r"|(?:Cudnn)?(?:Conv\w*|Mm|Mv|Addmm|Addmv|Addr|Bmm|Baddbmm|Linear|MatMul)Backward\d*"
)
"""Ops of PyTorch that are products of matrices or convolutions, and their backward nodes."""


def torch_op_could(op: str) -> bool:
    """Whether an op of PyTorch is a matrix product or a convolution."""
    return _TORCH_OPS.fullmatch(op) is not None


def einsum_could(equation: str) -> bool:
    """Whether an einsum has two operands, as ``ab,bc->ac`` has."""
    sides = equation.split("->")
    return len(sides) == 2 and sides[0].count(",") == 1
