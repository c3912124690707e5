"""What a plane is, from its name."""

from __future__ import annotations

from fastprof.wording.patterns import pattern_of

_DEVICES = (
    (pattern_of(r"^/device:TPU:\d+ SparseCore(?: [a-zA-Z]+)? (\d+)$"), "SPARSECORE"),
    (pattern_of(r"^/device:TPU:(\d+)$"), "TPU"),
    (pattern_of(r"^/device:GPU:(\d+)$"), "GPU"),
    (pattern_of(r"^/device:CUSTOM:(?:.*:)?(\d+)$"), "CUSTOM"),
    (pattern_of(r"^/device:CUSTOM:"), "CUSTOM"),
    (pattern_of(r"^#Chip"), "CHIP"),
    (pattern_of(r"^/host:CPU"), "CPU"),
)


def device_of(plane: str) -> tuple[str | None, int | None]:
    """The type and ordinal of the device that a plane shows; None where it shows none, or has no number."""
    for pattern, kind in _DEVICES:
        if found := pattern.match(plane):
            number = found.group(1) if found.groups() else None
            return kind, None if number is None or len(number) > 9 else int(number)
    return None, None
