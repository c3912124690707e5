"""The profile of tfprof that a capture carries."""

from __future__ import annotations

from fastprof.decode.carried_files import carried
from fastprof.decode.xspace_capture import Capture
from fastprof.inputs.profile_columns import PLANE, STAT, ProfileColumns


def carries_profile(capture: Capture) -> bool:
    """Whether it was made of a profile of tfprof."""
    return PLANE in capture.part_names


def profile_of(capture: Capture) -> ProfileColumns | None:
    """None: it carries none. CaptureError: the profile is damaged."""
    if not carries_profile(capture):
        return None
    if capture.source.profile is not None:
        return capture.source.profile
    pieces = list(carried(capture, PLANE, STAT))
    return ProfileColumns(b"".join(pieces), tolerant=capture.salvage) if pieces else None
