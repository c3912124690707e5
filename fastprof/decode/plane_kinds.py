"""What a plane is, from its name."""

from __future__ import annotations

import re

_DEVICES = (
    (re.compile(r"^/device:TPU:\d+ SparseCore(?: [a-zA-Z]+)? (\d+)$"), "SPARSECORE"),
    (re.compile(r"^/device:TPU:(\d+)$"), "TPU"),
    (re.compile(r"^/device:GPU:(\d+)$"), "GPU"),
    (re.compile(r"^/device:CUSTOM:(?:.*:)?(\d+)$"), "CUSTOM"),
    (re.compile(r"^/device:CUSTOM:"), "CUSTOM"),
    (re.compile(r"^#Chip"), "CHIP"),
    (re.compile(r"^/host:CPU"), "CPU"),
)


def device_of(plane: str) -> tuple[str | None, int | None]:
    """The type and ordinal of the device that a plane shows; None where it shows none, or has no number."""
    for pattern, kind in _DEVICES:
        if found := pattern.match(plane):
            number = found.group(1) if found.groups() else None
            return kind, None if number is None or len(number) > 9 else int(number)
    return None, None
