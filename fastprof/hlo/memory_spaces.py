"""Memory spaces by number, as layouts of HLO and buffer assignments have them, and what they are called."""

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
"""By what computes. Other spaces of GPUs and CPUs have no public names."""
ASKED: Final = {name.lower(): number for number, name in enumerate(_TPU)} | {"device": 0}
"""What a space may be asked for as, besides its number."""
DEVICE, VMEM = 0, 1


def space_name(number: int, hardware: str) -> str | None:
    """``hardware``: TPU, GPU or CPU_ONLY. None: not known."""
    return _NAMES.get(hardware, {}).get(number)


def space_text(number: int, hardware: str) -> str:
    """``HBM``, or ``memory space 7``."""
    return space_name(number, hardware) or f"memory space {number}"


def space_number(asked: str, hardware: str = "") -> int:
    """The number of a space from its number, also as layouts write it, ``S(5)``; or from its name, first among those of
    the hardware. Raises UsageError: it is neither."""
    plain = asked.strip().lower()
    own = {name.lower(): number for number, name in _NAMES.get(hardware, {}).items()}
    names = ASKED | own
    if plain in names:
        return names[plain]
    digits = plain[2:-1] if plain.startswith("s(") and plain.endswith(")") else plain
    if digits.isascii() and digits.isdigit() and len(digits) < 19:
        return int(digits)
    raise UsageError(
        f"no memory space {asked!r}; it is a number, also as in layouts, S(5), or one of {', '.join(names)}"
        f"{meant(asked, names)}"
    )
