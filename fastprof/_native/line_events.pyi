"""Types of the compiled module."""

import numpy as np
import numpy.typing as npt
from _typeshed import ReadableBuffer

from fastprof.schema.columns import Int64s

def line_events(
    metadata_id: Int64s,
    offset_ps: Int64s,
    duration_ps: Int64s,
    first_stat: Int64s,
    stat_id: Int64s,
    value: Int64s,
    is_text: npt.NDArray[np.uint8],
    text_at: Int64s,
    texts: ReadableBuffer,
) -> bytes: ...
