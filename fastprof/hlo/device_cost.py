"""What an instruction costs on a GPU, where XLA's cost model leaves something out.

Matrix products that a library does (cuBLAS, hipBLASLt) tell their dimensions in their configuration: two operations for
each product that is added up, and the bytes of the operands and of the result. Scratch space, the last array of bytes
in the result of such a call, is no work. And all bytes are in the memory of the device unless a layout says otherwise:
those of results that are tuples, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fastprof.errors import CaptureError
from fastprof.hlo.cost import Cost
from fastprof.hlo.opcodes import dot_flops, gemm_contracting
from fastprof.hlo.shapes import BITS, TYPE_NAMES, Shape

if TYPE_CHECKING:
    from fastprof.hlo.cost import CostModel
    from fastprof.hlo.module import Instruction

_GEMMS: Final = ("__cublas$gemm", "__cublas$lt$matmul", "__hipblaslt$")
"""How targets of calls begin that multiply two matrices."""
_BYTES: Final = frozenset((TYPE_NAMES.index("S8"), TYPE_NAMES.index("U8")))
_FASTER: Final = {8: 2, 4: 4}
"""As in cost.py: operations on types of so many bits count as the fraction of the time that they take."""
_FAILURES: Final = (LookupError, ValueError, CaptureError)


def device_cost(model: CostModel, row: int) -> Cost:
    """Of one execution. As XLA's where that knows all, or where the instruction is damaged."""
    known = model.cost(row)
    try:
        one = model.module.instruction(row)
        if not known.is_known and one.opcode == "custom-call" and one.custom_call_target.startswith(_GEMMS):
            return _of_product(model, one)
        return _all_placed(known, has_tuple=one.shape.is_tuple)
    except _FAILURES:
        return known


def _of_product(model: CostModel, one: Instruction) -> Cost:
    inputs = [model.module.instruction(row).shape for row in one.operands]
    outputs = _results(one.shape)
    flops = int(dot_flops(inputs[0], gemm_contracting(one), outputs[0]))
    elsewhere: dict[int, list[int]] = {}
    for way, shapes in enumerate((inputs, outputs)):
        for shape in shapes:
            for _, leaf in shape.leaves():
                elsewhere.setdefault(leaf.memory_space, [0, 0])[way] += leaf.bytes
    read, written = elsewhere.pop(0, [0, 0])
    return Cost(
        flops=flops // _FASTER.get(BITS.get(inputs[0].element_type, 0), 1),
        model_flops=flops,
        bytes_accessed=read + written + sum(map(sum, elsewhere.values())),
        hbm_read_bytes=read,
        hbm_write_bytes=written,
        is_known=True,
        elsewhere=tuple((space, a, b) for space, (a, b) in sorted(elsewhere.items())),
    )


def _results(shape: Shape) -> list[Shape]:
    """What a call gives, without its scratch space."""
    if not shape.is_tuple:
        return [shape]
    last = shape.elements[-1]
    is_scratch = len(shape.elements) > 1 and last.element_type in _BYTES and len(last.dimensions) == 1
    return list(shape.elements[: -1 if is_scratch else None])


def _all_placed(known: Cost, *, has_tuple: bool) -> Cost:
    """With the bytes of HBM being all that are nowhere else. What is missing was written where the result is a tuple,
    of which XLA's model does not tell the parts; else it was read, as is what is too much."""
    missing = known.bytes_accessed - sum(a + b for _, a, b in known.elsewhere)
    missing -= known.hbm_read_bytes + known.hbm_write_bytes
    if not missing or known.bytes_accessed <= 0:
        return known
    if missing > 0 and has_tuple:
        return replace(known, hbm_write_bytes=known.hbm_write_bytes + missing)
    read = max(known.hbm_read_bytes + missing, 0)
    left = missing - (read - known.hbm_read_bytes)
    return replace(known, hbm_read_bytes=read, hbm_write_bytes=max(known.hbm_write_bytes + left, 0))
