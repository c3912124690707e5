"""Memory spaces: their numbers in layouts and buffer assignments of HLO, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fastprof.errors import UsageError
from fastprof.wording.spelling import meant

_TPU: Final = ("HBM", "VMEM", "SFLAG", "CMEM", "SMEM", "host", "SparseCore")
_NAMES: Final[Mapping[str, Mapping[int, str]]] = {
    "TPU": dict(enumerate(_TPU)),
    "GPU": {0: "device", 5: "host"},
    "CPU_ONLY": {0: "host"},
}
"""By hardware. Other spaces of GPUs and CPUs have no public names."""
_REQUESTED: Final = {name.lower(): number for number, name in enumerate(_TPU)} | {"device": 0}
"""Names that a space may be requested by, besides its number."""
DEVICE, VMEM = 0, 1


def space_name(number: int, hardware: str) -> str | None:
    """``hardware``: TPU, GPU or CPU_ONLY. None: unknown."""
    return _NAMES.get(hardware, {}).get(number)


def space_text(number: int, hardware: str) -> str:
    """``HBM``, or ``memory space 7``."""
    return space_name(number, hardware) or f"memory space {number}"


def space_number(requested: str, hardware: str = "") -> int:
    """The number of a space given by number, also as in layouts, ``S(5)``, or by name, first among those of the
    hardware. UsageError: neither."""
    plain = requested.strip().lower()
    own = {name.lower(): number for number, name in _NAMES.get(hardware, {}).items()}
    names = _REQUESTED | own
    if plain in names:
        return names[plain]
    digits = plain[2:-1] if plain.startswith("s(") and plain.endswith(")") else plain
    if digits.isascii() and digits.isdigit() and len(digits) < 19:
        return int(digits)
    raise UsageError(
        f"no memory space {requested!r}; give a number, also as in layouts, S(5), or one of {', '.join(names)}"
        f"{meant(requested, names)}"
    )
