"""Types of the compiled module, which is for its siblings."""

from typing import final

@final
class Array:
    """A checked array, held for as long as C may use it."""

__pyx_capi__: dict[str, object]
"""What its siblings call."""
