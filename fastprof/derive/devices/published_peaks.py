"""Figures that makers publish of devices, for captures that do not record them. Only certain ones are here.

TPUs: dense 16-bit arithmetic (bfloat16) and the bandwidth of HBM, per chip, as Google's documentation of Cloud TPU has
them (pages "TPU v2" to "TPU7x", system architecture); that of the TPU v4 Lite (v4i) is from Jouppi et al., "Ten Lessons
From Three Generations Shaped Google's TPUv4i", ISCA 2021. Figures of a core are those of its chip by its cores.

GPUs: dense 16-bit arithmetic and the bandwidth of HBM as the data sheets of NVIDIA and AMD have them, by the full name
of the model: of some there are versions with other memory, so a part of a name is not enough.
"""

from __future__ import annotations

from typing import Final

from fastprof.schema.value_classes import dataclass


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

LEAST_OF_AMD: Final = {"gfx942": 5300.0, "gfx950": 8000.0}
"""Bandwidth of HBM of the slowest model of an architecture (MI300A, MI300X; MI350X, MI355X), 10**9 bytes a second."""

NAMED: Final = {
    **{name: TPUS[name.lower()] for name in ("TPU v2", "TPU v3", "TPU v4", "TPU v5e", "TPU v5p", "TPU v6e", "TPU v7x")},
    "P100": Chip(18.7, 732, 1),
    "V100": Chip(125, 900, 1),
    "V100 PCIe": Chip(112, 900, 1),
    "T4": Chip(65, 320, 1),
    "A10": Chip(125, 600, 1),
    "A30": Chip(165, 933, 1),
    "A40": Chip(149.7, 696, 1),
    "A100": Chip(312, 2039, 1),
    "A100 40GB": Chip(312, 1555, 1),
    "A100 PCIe": Chip(312, 1935, 1),
    "L4": Chip(121, 300, 1),
    "L40": Chip(181.05, 864, 1),
    "L40S": Chip(362.05, 864, 1),
    "H100": Chip(989.4, 3350, 1),
    "H100 PCIe": Chip(756, 2000, 1),
    "H200": Chip(989.4, 4800, 1),
    "B200": Chip(2250, 8000, 1),
    "MI100": Chip(184.6, 1229, 1),
    "MI210": Chip(181, 1638, 1),
    "MI250": Chip(362.1, 3277, 2),
    "MI250X": Chip(383, 3277, 2),
    "MI300A": Chip(980.6, 5300, 1),
    "MI300X": Chip(1307.4, 5300, 1),
    "MI325X": Chip(1307.4, 6000, 1),
    "MI355X": Chip(2516.6, 8000, 1),
}
"""Devices that users may name. Dense 16-bit arithmetic on matrix units and the bandwidth of memory, as the data sheets
of the makers have them: of NVIDIA those named "NVIDIA … Tensor Core GPU" (P100: 16-bit arithmetic of the PCIe card; of
figures with sparsity half), of AMD those of "AMD Instinct" accelerators. Without a form factor, that of the board with
most bandwidth (SXM). An MI250 or MI250X is two devices to programs: figures of one are half.

B200: the HGX board of 1000 W in NVIDIA's Blackwell architecture brief (in a GB200 it reaches 2500); its driver reports
7680 bits at 3996 MHz, which are 7672 GB/s. H100: half of 1979, its PCIe card half of 1513, which are figures with
sparsity. T4: 256 bits at 10 Gbit/s, "320+ GB/s". AMD rounds in its sheets, so these are matrix cores x operations a
clock x clock:

    MI355X  1024 x 1024 x 2.4 GHz = 2516.6 (2.5 PFLOPS)     MI300A   912 x  512 x 2.1 GHz =  980.6
    MI300X, MI325X  1216 x 512 x 2.1 GHz = 1307.4           MI250X   880 x  256 x 1.7 GHz =  383.0
    MI250   832 x  256 x 1.7 GHz =  362.1                   MI210    416 x  256 x 1.7 GHz =  181.0
"""

GPUS: Final = {
    "tesla v100-sxm2-16gb": "V100",
    "tesla v100-sxm2-32gb": "V100",
    "tesla v100-pcie-16gb": "V100 PCIe",
    "tesla v100-pcie-32gb": "V100 PCIe",
    "a100-sxm4-40gb": "A100 40GB",
    "a100-sxm4-80gb": "A100",
    "a100-pcie-40gb": "A100 40GB",
    "a100 80gb pcie": "A100 PCIe",
    "h100 80gb hbm3": "H100",
    "h100 pcie": "H100 PCIe",
    "h200": "H200",
    "mi300x": "MI300X",
    "mi355x": "MI355X",
}
"""By model in small letters, without the maker's name, as captures have it: the device of NAMED that it is."""

SOURCES: Final = {
    "TPU": "Google publishes of a core of it",
    "GPU": "its maker publishes",
}
"""Who says so, by hardware, as the end of a sentence."""
