"""Types of the compiled module, which is for its siblings."""

from typing import final

@final
class Array:
    """A checked array, held for as long as C may use it."""

@final
class Items:
    """Bytes of a vector that C made, read-only."""

__pyx_capi__: dict[str, object]
"""What its siblings call."""

def bind_blocks(bound: int, folder: bytes, large: int = ..., beside: int = ...) -> bool:
    """Put large blocks beyond ``bound`` bytes into files in ``folder``. False: its path is too long."""

def adopt_arrays(capsule: object) -> None:
    """Make numpy keep arrays that the calling thread makes among the large blocks. ``capsule``: numpy's C API."""

def sum_blocks() -> tuple[int, int, int, int, int]:
    """Bytes in memory, in files, the most of both since the bound was set, and how many blocks found no file."""
