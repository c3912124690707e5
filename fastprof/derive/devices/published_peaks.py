"""Figures that makers publish of devices, for captures that do not record them. Only certain ones are here.

TPUs: dense 16-bit arithmetic (bfloat16) and the bandwidth of HBM, per chip, as Google's documentation of Cloud TPU has
them (pages "TPU v2" to "TPU7x", system architecture); that of the TPU v4 Lite (v4i) is from Jouppi et al., "Ten Lessons
From Three Generations Shaped Google's TPUv4i", ISCA 2021. Figures of a core are those of its chip by its cores.

GPUs: the bandwidth of HBM as the data sheets of NVIDIA and AMD have it, by the full name of the model: of some there
are versions with other memory, so a part of a name is not enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Chip:
    """``teraflops``: 10**12 bfloat16 operations a second; ``hbm``: 10**9 bytes a second; both of all ``cores``."""

    teraflops: float
    hbm: float
    cores: int


_V5E, _V5P, _V6E, _V7X = Chip(197, 819, 1), Chip(459, 2765, 2), Chip(918, 1638, 1), Chip(2307, 7380, 2)
TPUS: Final = {
    "tpu v2": Chip(45, 700, 2),
    "tpu v3": Chip(123, 900, 2),
    "tpu v4": Chip(275, 1200, 2),
    "tpu v4 lite": Chip(138, 614, 1),
    "tpu v4i": Chip(138, 614, 1),
    "tpu v5": _V5P,
    "tpu v5p": _V5P,
    "tpu v5 lite": _V5E,
    "tpu v5e": _V5E,
    "tpu v6 lite": _V6E,
    "tpu v6e": _V6E,
    "tpu v7x": _V7X,
    "tpu7x": _V7X,
}
"""By what captures and JAX call them, in small letters."""

GPUS: Final = {
    "tesla v100-sxm2-16gb": 900.0,
    "tesla v100-sxm2-32gb": 900.0,
    "tesla v100-pcie-16gb": 900.0,
    "tesla v100-pcie-32gb": 900.0,
    "a100-sxm4-40gb": 1555.0,
    "a100-sxm4-80gb": 2039.0,
    "a100-pcie-40gb": 1555.0,
    "a100 80gb pcie": 1935.0,
    "h100 80gb hbm3": 3350.0,
    "h100 pcie": 2000.0,
    "h200": 4800.0,
    "mi300x": 5300.0,
    "mi355x": 8000.0,
}
"""Bandwidth of HBM, 10**9 bytes a second, by model in small letters, without the maker's name."""

LEAST_OF_AMD: Final = {"gfx942": 5300.0, "gfx950": 8000.0}
"""The same of the slowest model of an architecture (MI300A, MI300X; MI350X, MI355X), 10**9 bytes a second."""

SOURCES: Final = {
    "TPU": "Google publishes of a core of it",
    "GPU": "its maker publishes",
}
"""Who says so, by hardware, as the end of a sentence."""
