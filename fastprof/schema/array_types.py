"""Names of NumPy array types for signatures."""

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Float64s = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Records = npt.NDArray[np.void]
"""Structs in the layout of the native code."""
UInt64s = npt.NDArray[np.uint64]
UInt8s = npt.NDArray[np.uint8]
