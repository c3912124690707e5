"""HLO: the compiled programs that a capture carries, and what their instructions cost."""

from __future__ import annotations

METADATA_STATS = ("Hlo Proto", "HLO Proto", "program_id")
"""Stats of event metadata that ``HostEvents.programs`` needs, and with it ``modules.Modules``."""
PLANES = (r"^/host:metadata$",)
"""Planes that have them."""
