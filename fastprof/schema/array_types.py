"""Names of NumPy array types for signatures."""

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Float64s = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Objects = npt.NDArray[np.object_]
Records = npt.NDArray[np.void]
"""Structs in the layout of the native code."""
UInt16s = npt.NDArray[np.uint16]
UInt32s = npt.NDArray[np.uint32]
UInt64s = npt.NDArray[np.uint64]
UInt8s = npt.NDArray[np.uint8]
Flags = UInt8s | Bools
"""A byte each: the native code takes both."""
