"""Export: how do the tables of a session become files?"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastprof.export.exports import write

__all__ = [
    "by_workers", "destinations", "exports", "folders", "new_files", "table_formats", "trace_batches", "trace_files",
    "write", "writers", "xspace_files",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """``fastprof.export.write`` is public; what it needs is imported when it is used."""
    if name != "write":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fastprof.export.exports import write

    return write
