"""HLO: which compiled programs does a capture carry, and what do their instructions cost?"""

from __future__ import annotations

__all__ = [
    "capture_tables", "cost", "module", "opcodes", "program_changes", "program_graph", "program_memory",
    "program_memory_tables", "program_tables", "programs", "shapes", "text", "work",
]  # fmt: skip

METADATA_STATS = ("Hlo Proto", "HLO Proto", "program_id")
"""Stats of event metadata that ``HostEvents.programs`` needs, and with it ``modules.Modules``."""
PLANES = (r"^/host:metadata$",)
"""Planes that have them."""
