"""What a collective moves, and among which devices.

Bytes follow from the text of its instruction. They are those that bandwidth is usually stated for, as in the tests of
NCCL: the entire buffer of an all-reduce, what an all-gather has gathered, what a reduce-scatter is given, what one
device sends in other operations. What passes through each device's links, its bus bandwidth, is that times

    all-reduce                                  2 (n - 1) / n
    all-gather, reduce-scatter, all-to-all        (n - 1) / n
    others                                      1

of n devices that take part (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Final

from fastprof.derive.devices.communication_kinds import Kind
from fastprof.hlo.shape_reader import Expression, Leaf, Value, read_expression
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

MOST_DEVICES: Final = 1 << 20
"""Groups of more devices are not listed."""

_GROUPS: Final = pattern_of(r"\breplica_groups=(\{(?:\{[\d, ]*\},? ?)*\}|\[[\d,]+\]<=\[[\d,]+\](?:T\([\d,]+\))?)")
_PAIRS: Final = pattern_of(r"\bsource_target_pairs=(\{(?:\{\d+,\d+\},?)*\})")
_GLOBAL: Final = "use_global_device_ids=true"
IOTA: Final = pattern_of(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
LISTS: Final = pattern_of(r"\{([\d, ]*)\}")
_SHARED: Final = (Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL)


@dataclass(frozen=True, slots=True)
class Payload:
    """``bytes``: None: unknown. ``groups``: as the text has them, "": none; ``size``: devices of the largest group,
    None: not recorded, as if all take part; ``count``: of groups, None likewise."""

    bytes: int | None = None
    groups: str = ""
    size: int | None = None
    count: int | None = None
    is_global: bool = False

    def bus_factor(self, kind: Kind) -> float | None:
        """Bytes that pass the links of each device for each byte of ``bytes``; None: the number of devices is not
        known."""
        if kind is not Kind.ALL_REDUCE and kind not in _SHARED:
            return 1.0
        if not self.size:
            return None
        return (2 if kind is Kind.ALL_REDUCE else 1) * (self.size - 1) / self.size


NO_PAYLOAD: Final = Payload()


def payload(kind: Kind, text: str) -> Payload:
    """What an instruction moves that is all of an operation or its start."""
    read = read_expression(text)
    if read is None:
        return NO_PAYLOAD
    size = _bytes(kind, read)
    pairs = _PAIRS.search(read.attributes)
    listed = _GROUPS.search(read.attributes)
    groups = listed[1] if listed else pairs[1] if pairs else ""
    count, largest = _extent(listed[1]) if listed else (None, None)
    return Payload(size, groups, largest, count, _GLOBAL in read.attributes)


# ---- bytes


def _bytes(kind: Kind, read: Expression) -> int | None:
    sent = read.opcode in ("send", "outfeed") or kind is Kind.REDUCE_SCATTER
    if sent and read.opcode != "async-start" and read.operands:
        operands = read.operands[:1] if kind is not Kind.REDUCE_SCATTER else read.operands
        return _sum([leaf for operand in operands for leaf in operand.leaves])
    if read.opcode in ("recv", "infeed"):
        return _sum(_element(read.output, 0))
    if read.opcode.endswith("-start") and read.opcode != "all-reduce-start":
        return _sum(_element(read.output, 0 if read.opcode == "copy-start" or kind is Kind.REDUCE_SCATTER else 1))
    return _sum(list(read.output.leaves))


def _element(value: Value, place: int) -> list[Leaf]:
    """The arrays of an element of a tuple; of what is no tuple all."""
    return [leaf for leaf in value.leaves if not leaf.index or leaf.index[0] == place]


def _sum(leaves: list[Leaf]) -> int | None:
    sizes = [leaf.array.bytes for leaf in leaves]
    return sum(size for size in sizes if size is not None) if sizes and None not in sizes else None


# ---- who takes part


@lru_cache(4096)
def _extent(text: str) -> tuple[int | None, int | None]:
    """How many groups there are, and the size of the largest; (None, None): of all devices there is one."""
    if iota := IOTA.fullmatch(text):
        dimensions = numbers(iota[1])
        is_told = len(dimensions) > 1 and prod(dimensions) <= MOST_DEVICES
        return (dimensions[0], prod(dimensions[1:])) if is_told else (None, None)
    lengths = [len(numbers(one)) for one in LISTS.findall(text[1:-1])]
    return (len(lengths), max(lengths)) if any(lengths) else (None, None)


def numbers(text: str) -> list[int]:
    return [int(one) for one in text.replace(" ", "").split(",") if one and len(one) < 19]
