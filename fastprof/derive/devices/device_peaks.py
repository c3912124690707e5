"""Device names and peak rates: arithmetic and memory bandwidth as recorded, as makers publish them, or as the user
chooses them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from fastprof.decode.plane_kinds import get_vendor_word
from fastprof.derive.devices.gpu_kernels import (
    NOT_RECORDED,
    VENDOR_STAT,
    find_least_capability,
    guess_vendor,
    list_gpu_models,
)
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late
from fastprof.wording.spelling import suggest_name


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
"""TPUs by their names in captures and in JAX, in small letters."""

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
"""Devices of NAMED by model as captures have it, in small letters and without the vendor."""

SOURCES: Final = {
    "TPU": "Google publishes of a core of it",
    "GPU": "its vendor publishes",
}
"""Who says so, by hardware, as the end of a sentence."""


GPU, TPU = "GPU", "TPU"

NVIDIA_FLOPS = {
    (2, 0): 64,
    (3, 0): 384,
    (5, 0): 256,
    (6, 0): 256,
    (6, 1): 256,
    (7, 0): 1024,
    (7, 5): 1024,
    (8, 0): 2048,
    (8, 6): 1024,
    (8, 9): 1024,
    (9, 0): 4096,
    (10, 0): 8192,
}
"""Floating-point operations per multiprocessor and cycle, by compute capability."""
AMD_FLOPS = {"gfx908": 1024, "gfx90a": 1024, "gfx942": 2048, "gfx950": 4096}
AMD_SHARED_BYTES = {"gfx908": 128, "gfx90a": 128, "gfx942": 128, "gfx950": 256}
"""Per compute unit and cycle."""

_NVIDIA_NAMES = {2: "Fermi", 3: "Kepler", 5: "Maxwell", 6: "Pascal", 9: "Hopper", 10: "Blackwell"}
_AMD_BY_CAPABILITY = {(9, 4): "gfx942", (9, 5): "gfx950"}
_GFX = compile_late(r"gfx[0-9a-f]{3,}")

_TPU_BANDWIDTHS = ("hbm", "sram_rd", "sram_wr", "cmem_rd", "cmem_wr", "vmem_rd", "vmem_wr")
HBM, SRAM_READ, SRAM_WRITE, CMEM_READ, CMEM_WRITE, VMEM_READ, VMEM_WRITE = range(7)
"""Places in ``bandwidths_gb_per_s``."""
COMPUTE: Final = -1
"""Stands for arithmetic among places of peaks."""

CAPTURE: Final = "capture"
PUBLISHED: Final = "published table"
CHOSEN: Final = "parameter"


class Device(Protocol):
    """A plane of events, as far as it describes its device."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str | None: ...

    @property
    def stats(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Peaks:
    """Best rates of one core of a TPU, or of one GPU. 0.0 if unknown; ``reasons`` say why."""

    hardware: str
    """GPU or TPU."""
    name: str
    teraflops_per_s: float
    bandwidths_gb_per_s: tuple[float, ...]
    """Bandwidth of HBM, SRAM read, SRAM write and, on a TPU, CMEM read, CMEM write, VMEM read, VMEM write."""
    has_merged_vmem: bool = False
    has_megacore: bool = False
    reasons: tuple[str, ...] = ()
    model: str = ""
    """What the maker calls a GPU, if the capture records it."""
    published: frozenset[int] = frozenset()
    """COMPUTE and places of bandwidths that are not the capture's but those that the maker publishes."""
    chosen: frozenset[int] = frozenset()
    """Places of the bandwidths that the user chose."""

    def peak(self, place: int) -> float:
        """Return a peak in 10**9 operations or bytes a second, or 0.0 if unknown."""
        if place == COMPUTE:
            return self.teraflops_per_s * 1000
        return self.bandwidths_gb_per_s[place] if place < len(self.bandwidths_gb_per_s) else 0.0

    def source(self, place: int) -> str | None:
        """Return where the peak is from, CAPTURE, PUBLISHED or CHOSEN, or None if it is unknown."""
        if not self.peak(place):
            return None
        if place in self.chosen:
            return CHOSEN
        return PUBLISHED if place in self.published else CAPTURE

    @property
    def ridge_point(self) -> float:
        """Flops per byte of HBM traffic from which on arithmetic, not memory, is the limit; 0.0 if unknown."""
        hbm = self.bandwidths_gb_per_s[HBM]
        return self.teraflops_per_s * 1000 / hbm if hbm else 0.0

    @property
    def has_cmem(self) -> bool:
        return any(rate > 0 for rate in self.bandwidths_gb_per_s[CMEM_READ : CMEM_WRITE + 1])


def find_peaks(planes: Sequence[Device]) -> Peaks | None:
    """Return the peaks of the first TPU among the planes, else of the first GPU, or None if there is neither."""
    for kind, read in ((TPU, _make_tpu_peaks), (GPU, _make_gpu_peaks)):
        for plane in planes:
            if plane.kind == kind:
                return read(plane)
    return None


def guess_peaks(planes: Sequence[Device], kernels: Iterable[str]) -> Peaks | None:
    """Return peaks of the first GPU if its vendor is not recorded, those of the vendor that other facts point to, with
    a reason that says so. None if the vendor is recorded, or nothing points to one. ``kernels``: names of what ran on
    the devices."""
    plane = next((plane for plane in planes if plane.kind == GPU), None)
    if plane is None or isinstance(plane.stats.get(VENDOR_STAT), str) or get_vendor_word(plane.name) is not None:
        return None
    likely = guess_vendor(plane.stats, list_gpu_models(plane.stats), kernels)
    if likely is None:
        return None
    vendor, why = likely
    known = _make_gpu_peaks(_Described(plane.name, plane.kind, {**plane.stats, VENDOR_STAT: vendor}))
    reasons = [NOT_RECORDED.format(vendor, why), *known.reasons]
    least = find_least_capability(kernels) if _NO_CAPABILITY in reasons else None
    if least is not None:
        (major, minor), name = least
        reasons.append(f"it runs kernels such as {name[:60]}, so its compute capability is {major}.{minor} or later")
    return replace(known, reasons=tuple(reasons))


def find_capability(planes: Iterable[Device]) -> tuple[int, int] | None:
    """Return the least compute capability of the GPUs, or None if it is not recorded. Some profilers write 0.0 for
    that."""
    recorded = [_get_capability(plane.stats) for plane in planes if plane.kind == GPU]
    return min((capability for capability in recorded if capability != _UNKNOWN_CAPABILITY), default=None)


@dataclass(frozen=True, slots=True)
class _Described:
    name: str
    kind: str | None
    stats: Mapping[str, Any]


_REMEDY: Final = "give the model of the device with --device, or its peaks with --peak"
_WORDS: Final = {COMPUTE: "peak FLOP/s", HBM: "the bandwidth of HBM"}


def add_published_peaks(given: Peaks) -> Peaks:
    """Return the peaks, with those that the capture does not record as the maker of the device publishes them: per
    TensorCore, or per GPU. Reasons then say so instead; also if the capture contradicts what is published."""
    listed = _find_published(given)
    if listed is None:
        doubt = _describe_doubt(given)
        return given if doubt is None else replace(given, reasons=(*given.reasons, doubt))
    teraflops, hbm, source = listed
    figures = {COMPUTE: teraflops, HBM: hbm}
    filled = frozenset(place for place, figure in figures.items() if figure and not given.peak(place))
    if not filled:
        return given
    words = " and ".join(text for place, text in _WORDS.items() if place in filled)
    reason = f"the capture does not record {words} of {given.model or given.name}: what {source} is used"
    own_hbm, *others = given.bandwidths_gb_per_s
    settled = (_NO_TERAFLOPS, _NO_BANDWIDTH, *((_NO_CAPABILITY, _NO_CLOCK) if COMPUTE in filled else ()))
    return replace(
        given,
        teraflops_per_s=given.teraflops_per_s or teraflops,
        bandwidths_gb_per_s=(own_hbm or hbm, *others),
        published=given.published | filled,
        reasons=(*(given_reason for given_reason in given.reasons if given_reason not in settled), reason),
    )


def add_remedy(given: Peaks) -> Peaks:
    """Return the peaks; if one of arithmetic or HBM is not known, with a reason more: how the user gives it."""
    if not given.name or (given.peak(COMPUTE) and given.peak(HBM)):
        return given
    return replace(given, reasons=(*given.reasons, _REMEDY))


def _describe_doubt(given: Peaks) -> str | None:
    """Say if the capture of an AMD GPU records far less bandwidth than the slowest of its architecture has. Drivers
    compute it from the memory clock, and HBM3 moves four bits a cycle, not two."""
    least, recorded = LEAST_OF_AMD.get(given.name.rpartition(" ")[2], 0.0), given.bandwidths_gb_per_s[HBM]
    if not 0 < recorded < 0.75 * least:
        return None
    return (
        f"the capture says that the HBM of {given.name} has {recorded:,.0f} GB/s, but AMD publishes {least:,.0f} or "
        f"more: its shares may be {least / recorded:.1f} times too high, and bounds and lost time are overestimated"
    )


def _find_published(given: Peaks) -> tuple[float, float, str] | None:
    """Return published TFLOP/s and HBM GB/s, 0.0 if not listed, and who says so, or None if the device is in no
    list."""
    if given.hardware == TPU:
        chip = TPUS.get(given.name.lower())
        return None if chip is None else (chip.teraflops / chip.cores, chip.hbm / chip.cores, SOURCES[TPU])
    named = GPUS.get(given.model.lower().removeprefix("nvidia ").removeprefix("amd instinct "))
    return None if named is None else (NAMED[named].teraflops, NAMED[named].hbm, SOURCES[GPU])


def describe_device(plane: Device) -> str:
    """Describe a device: ``Nvidia GPU (Hopper)``, ``AMD GPU - gfx942``, ``TPU v6 Lite``, or GPU, TPU, MTIA, … if its
    model is not recorded."""
    if plane.kind == GPU:
        return _describe_gpu(plane)
    named = plane.stats.get("device_type_string")
    return named if isinstance(named, str) and named else (plane.kind or "")


_LEAST, _MOST = 1e-9, 1e15
"""Figures of devices beyond these are damage, in any unit that captures have."""


def _get_number(stats: Mapping[str, Any], name: str) -> float:
    """Return a stat that is a number above 0 and may be a figure of a device, else 0.0."""
    value = stats.get(name)
    usable = isinstance(value, int | float) and _LEAST <= value <= _MOST
    return float(value) if usable else 0.0  # type: ignore[arg-type]


def _get_integer(stats: Mapping[str, Any], name: str) -> int:
    value = stats.get(name)
    return value if isinstance(value, int) else 0


# ---- TPU

_NO_TERAFLOPS: Final = "the capture does not record the TPU's peak FLOP/s (peak_teraflops_per_second)"
_NO_BANDWIDTH: Final = "the capture does not record the TPU's bandwidth (peak_hbm_bw_gigabytes_per_second)"


def _make_tpu_peaks(plane: Device) -> Peaks:
    stats = plane.stats
    teraflops = _get_number(stats, "peak_teraflops_per_second")
    bandwidths = tuple(_get_number(stats, f"peak_{memory}_bw_gigabytes_per_second") for memory in _TPU_BANDWIDTHS)
    missing = [] if teraflops else [_NO_TERAFLOPS]
    if not bandwidths[HBM]:
        missing.append(_NO_BANDWIDTH)
    return Peaks(
        TPU,
        describe_device(plane),
        teraflops,
        bandwidths,
        has_merged_vmem=bool(_get_integer(stats, "has_merged_vmem")),
        has_megacore=bool(_get_integer(stats, "has_megacore")),
        reasons=tuple(missing),
    )


# ---- GPU


_UNKNOWN_CAPABILITY: Final = (0, 0)
_NO_CLOCK: Final = "the capture does not record the device's clock (clock_rate) and cores (core_count)"
_NO_CAPABILITY: Final = "the capture does not record the device's compute capability, so its peak FLOP/s is unknown"


def _get_capability(stats: Mapping[str, Any]) -> tuple[int, int]:
    return _get_integer(stats, "compute_cap_major"), _get_integer(stats, "compute_cap_minor")


def _describe_gpu(plane: Device) -> str:
    stats = plane.stats
    major, minor = _get_capability(stats)
    match stats.get("device_vendor"):
        case "Nvidia":
            name = _NVIDIA_NAMES.get(major)
            if major == 7:
                name = "Volta" if minor < 5 else "Turing"
            elif major == 8:
                name = "Ampere" if minor < 9 else "Ada Lovelace"
            return f"Nvidia GPU ({name})" if name else "Nvidia GPU"
        case "AMD":
            if gfx := _get_gfx(stats):
                return f"AMD GPU - {gfx}"
            return f"AMD GPU - gfx-{major}XX series" if major in (9, 10, 11) else "AMD GPU"
    return get_vendor_word(plane.name) or "GPU"


def _get_gfx(stats: Mapping[str, Any]) -> str:
    """Return the architecture of an AMD GPU; "": unknown."""
    named = stats.get("gpu_device_name")
    if isinstance(named, str) and _GFX.fullmatch(named):
        return named
    return _AMD_BY_CAPABILITY.get(_get_capability(stats), "")


def _find_rates_per_cycle(stats: Mapping[str, Any]) -> tuple[int, int, str | None]:
    """Return flops, and bytes of shared memory, per core and cycle; 0 if unknown, and why."""
    vendor, capability = stats.get("device_vendor"), _get_capability(stats)
    if vendor == "Nvidia" and capability == _UNKNOWN_CAPABILITY:
        return 0, 0, _NO_CAPABILITY
    if vendor == "Nvidia":
        listed = max((known for known in NVIDIA_FLOPS if known <= capability), default=(2, 0))
        reason = None
        if listed != capability:
            said, used = (".".join(map(str, version)) for version in (capability, listed))
            reason = f"compute capability {said} is not in the table of peaks: peaks of {used} are used"
        return NVIDIA_FLOPS[listed], 64 if capability[0] <= 2 else 256, reason
    if vendor == "AMD":
        gfx = _get_gfx(stats)
        reason = None if gfx in AMD_FLOPS else f"the peaks of AMD GPU {gfx or '(which is not named)'} are unknown"
        return AMD_FLOPS.get(gfx, 0), AMD_SHARED_BYTES.get(gfx, 0), reason
    return 0, 0, "the capture does not record the device vendor (device_vendor), so its peaks are unknown"


def _make_gpu_peaks(plane: Device) -> Peaks:
    stats = plane.stats
    clock_ghz, cores = _get_number(stats, "clock_rate") / 1e6, _get_number(stats, "core_count")
    flops, shared, reason = _find_rates_per_cycle(stats)
    teraflops = _get_number(stats, "peak_teraflops_per_second") or cores * (flops * clock_ghz / 1e3)
    default = cores * (shared * clock_ghz * 1e9 / 1e9)
    sram = [_get_number(stats, f"peak_sram_{way}_bw_gigabytes_per_second") or default for way in ("rd", "wr")]
    reasons = [reason] if reason else []
    if not clock_ghz or not cores:
        reasons.append(_NO_CLOCK)
    model = next((name for name in list_gpu_models(stats) if not _GFX.fullmatch(name)), "")  # the vendor's name
    return Peaks(
        GPU,
        _describe_gpu(plane),
        teraflops,
        (_get_number(stats, "memory_bandwidth") / 1e9, *sram),
        reasons=tuple(reasons),
        model=model,
    )


CPU: Final = "CPU"
_PREFIXES: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_NUMBER: Final = compile_late(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?|\.\d+)\s*([kMGTPE]?)\s*(.*)", re.ASCII)
_UNITS: Final = {
    "flops": ("flop", "flops", "flop/s", "flops/s", "flop/sec"),
    "hbm": ("b/s", "bytes/s", "byte/s", "bps", "b/sec"),
}
_LEAST_CHOSEN, _MOST_CHOSEN = 1.0, 1e24
_LONGEST: Final = 200
_FORM: Final = "write peaks as flops=312T,hbm=2039GB/s: operations and bytes a second of one device"


@dataclass(frozen=True, slots=True)
class ChosenPeaks:
    """``device``: a name of the table; ``peak``: as ``format_peaks`` writes it; both precede the table. None if not
    chosen."""

    device: str | None = None
    peak: str | None = None

    def __bool__(self) -> bool:
        return self.device is not None or self.peak is not None


NOTHING: Final = ChosenPeaks()


def find_named_device(text: str) -> str:
    """Return the name of a device as the table has it. ValueError: it is not in the table."""
    plain = {_normalise_device(name): name for name in NAMED}
    known = plain.get(_normalise_device(text))
    if known is None:
        near = suggest_name(text, NAMED)
        raise ValueError(f"{text[:60]!r} is not in the table of peaks{near or '; it has ' + ', '.join(NAMED)}")
    return known


def _normalise_device(name: str) -> str:
    """Normalise what people write in several ways."""
    return re.sub(r"[\s_-]", "", name).casefold().removeprefix("nvidia").removeprefix("amd").removeprefix("instinct")


def format_peaks(text: str) -> str:
    """Return peaks in one form, such as ``flops=312000000000000.0,hbm=2039000000000.0``. ValueError: they are not
    peaks."""
    return ",".join(f"{name}={value!r}" for name, value in _parse_figures(text).items())


def _parse_figures(text: str) -> dict[str, float]:
    figures: dict[str, float] = {}
    for part in text.split(",") if len(text) <= _LONGEST else [text]:
        name, equals, value = (word.strip() for word in part.partition("="))
        match = _NUMBER.fullmatch(value)
        if name not in _UNITS:
            known = suggest_name(name, _UNITS) if name and equals else ""
            raise ValueError(f"{part.strip()[:60]!r} is not a peak{known}; {_FORM}")
        if match is None or (match[3] and match[3].lower() not in _UNITS[name]):
            raise ValueError(f"{value[:60]!r} is not a rate for {name}; {_FORM}")
        rate = float(match[1]) * _PREFIXES[match[2]]
        if name in figures or not _LEAST_CHOSEN <= rate <= _MOST_CHOSEN:
            raise ValueError(
                f"{part.strip()[:60]!r} {'repeats a peak' if name in figures else 'is not a rate of a device'}; {_FORM}"
            )
        figures[name] = rate
    return figures


def apply_chosen_peaks(given: Peaks | None, chosen: ChosenPeaks) -> Peaks | None:
    """Return the peaks, with the chosen ones in place of those that are recorded or published, and a reason that says
    so. For programs of a CPU, which have no peaks, they are the only ones."""
    if not chosen:
        return given
    figures: dict[int, float] = {}
    words = []
    if chosen.device is not None:
        chip = NAMED[chosen.device]
        figures = {COMPUTE: chip.teraflops / chip.cores, HBM: chip.hbm / chip.cores}
        words.append(f"those of {chosen.device} ({_format_figures(figures)})")
    if chosen.peak is not None:
        own = _parse_figures(chosen.peak)
        scaled = {COMPUTE: own.get("flops", 0.0) / 1e12, HBM: own.get("hbm", 0.0) / 1e9}
        scaled = {place: figure for place, figure in scaled.items() if figure}
        figures |= scaled
        words.append(f"those that were given ({_format_figures(scaled)})")
    old = given or Peaks(CPU, CPU, 0.0, (0.0,))
    reason = f"{' and '.join(words)} are used, as chosen"
    _, *others = old.bandwidths_gb_per_s or (0.0,)
    return replace(
        old,
        teraflops_per_s=figures.get(COMPUTE, old.teraflops_per_s),
        bandwidths_gb_per_s=(figures.get(HBM, old.peak(HBM)), *others),
        published=old.published - figures.keys(),
        chosen=frozenset(figures),
        reasons=(reason,) if len(figures) > 1 else (*old.reasons, reason),
    )


def _format_figures(figures: dict[int, float]) -> str:
    units = {COMPUTE: "TFLOP/s", HBM: "GB/s"}
    return ", ".join(f"{figure:g} {units[place]}" for place, figure in figures.items())
