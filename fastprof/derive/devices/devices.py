"""What a device is and how fast it could be at best: its name, its peak arithmetic and memory bandwidths.

Captures of TPUs mostly give the figures. Those of GPUs give clock and cores; the rest is in the tables below:
operations per core and cycle, of the fastest unit of 32 or 16 bits (narrower types and sparsity count for nothing), and
bytes per core and cycle of shared memory. What a capture does not record is taken from what the makers publish
(published_peaks) on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from fastprof.decode.plane_kinds import vendor_word
from fastprof.derive.devices.gpu_vendor import NOT_RECORDED, VENDOR_STAT, likely_vendor, models_of
from fastprof.derive.devices.published_peaks import GPUS, LEAST_OF_AMD, NAMED, SOURCES, TPUS
from fastprof.derive.devices.tensor_cores import least_capability
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

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
_GFX = pattern_of(r"gfx[0-9a-f]{3,}")

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
    """What one core of a TPU, or one GPU, could do at best. 0.0: unknown; ``reasons`` say why."""

    hardware: str
    """GPU or TPU."""
    name: str
    teraflops_per_s: float
    bandwidths_gb_per_s: tuple[float, ...]
    """Of HBM, SRAM read, SRAM write and, of a TPU, CMEM read, CMEM write, VMEM read, VMEM write."""
    has_merged_vmem: bool = False
    has_megacore: bool = False
    reasons: tuple[str, ...] = ()
    model: str = ""
    """What the maker calls a GPU, if the capture records it."""
    published: frozenset[int] = frozenset()
    """COMPUTE and places of bandwidths that are not the capture's but those that the maker publishes."""
    chosen: frozenset[int] = frozenset()
    """The same of those that the user chose."""

    def peak(self, place: int) -> float:
        """In 10**9 operations or bytes a second; 0.0: not known."""
        if place == COMPUTE:
            return self.teraflops_per_s * 1000
        return self.bandwidths_gb_per_s[place] if place < len(self.bandwidths_gb_per_s) else 0.0

    def source(self, place: int) -> str | None:
        """Where the peak is from: CAPTURE, PUBLISHED or CHOSEN; None: it is not known."""
        if not self.peak(place):
            return None
        if place in self.chosen:
            return CHOSEN
        return PUBLISHED if place in self.published else CAPTURE

    @property
    def ridge_point(self) -> float:
        """Flops per byte of HBM traffic from which on arithmetic, not memory, is the limit; 0.0: not known."""
        hbm = self.bandwidths_gb_per_s[HBM]
        return self.teraflops_per_s * 1000 / hbm if hbm else 0.0

    @property
    def has_cmem(self) -> bool:
        return any(rate > 0 for rate in self.bandwidths_gb_per_s[CMEM_READ : CMEM_WRITE + 1])


def peaks(planes: Sequence[Device]) -> Peaks | None:
    """Of the first TPU among the planes, else of the first GPU; None: there is neither."""
    for kind, read in ((TPU, _tpu_peaks), (GPU, _gpu_peaks)):
        for plane in planes:
            if plane.kind == kind:
                return read(plane)
    return None


def likely_peaks(planes: Sequence[Device], kernels: Iterable[str]) -> Peaks | None:
    """Of the first GPU, whose maker is not recorded, those of the maker that other facts point to, with a reason that
    says so; None: the maker is recorded, or nothing points to one. ``kernels``: names of what ran on the devices."""
    plane = next((plane for plane in planes if plane.kind == GPU), None)
    if plane is None or isinstance(plane.stats.get(VENDOR_STAT), str) or vendor_word(plane.name) is not None:
        return None
    likely = likely_vendor(plane.stats, models_of(plane.stats), kernels)
    if likely is None:
        return None
    vendor, why = likely
    known = _gpu_peaks(_Described(plane.name, plane.kind, {**plane.stats, VENDOR_STAT: vendor}))
    reasons = [NOT_RECORDED.format(vendor, why), *known.reasons]
    least = least_capability(kernels) if _NO_CAPABILITY in reasons else None
    if least is not None:
        (major, minor), name = least
        reasons.append(f"it runs kernels such as {name[:60]}, so its compute capability is {major}.{minor} or later")
    return replace(known, reasons=tuple(reasons))


def recorded_capability(planes: Iterable[Device]) -> tuple[int, int] | None:
    """The least compute capability of the GPUs; None: it is not recorded. Some profilers write 0.0 for that."""
    recorded = [_capability(plane.stats) for plane in planes if plane.kind == GPU]
    return min((one for one in recorded if one != _UNKNOWN_CAPABILITY), default=None)


@dataclass(frozen=True, slots=True)
class _Described:
    name: str
    kind: str | None
    stats: Mapping[str, Any]


_REMEDY: Final = "give the model of the device with --device, or its peaks with --peak"
_WORDS: Final = {COMPUTE: "peak FLOP/s", HBM: "the bandwidth of HBM"}


def with_published(given: Peaks) -> Peaks:
    """The peaks, with those that the capture does not record as the maker of the device publishes them: per TensorCore,
    or per GPU. Reasons then say so instead; also if the capture contradicts what is published."""
    listed = _published(given)
    if listed is None:
        doubt = _doubt(given)
        return given if doubt is None else replace(given, reasons=(*given.reasons, doubt))
    teraflops, hbm, source = listed
    figures = {COMPUTE: teraflops, HBM: hbm}
    filled = frozenset(place for place, figure in figures.items() if figure and not given.peak(place))
    if not filled:
        return given
    words = " and ".join(text for place, text in _WORDS.items() if place in filled)
    reason = f"the capture does not record {words} of {given.model or given.name}: what {source} is taken"
    own_hbm, *others = given.bandwidths_gb_per_s
    settled = (_NO_TERAFLOPS, _NO_BANDWIDTH, *((_NO_CAPABILITY, _NO_CLOCK) if COMPUTE in filled else ()))
    return replace(
        given,
        teraflops_per_s=given.teraflops_per_s or teraflops,
        bandwidths_gb_per_s=(own_hbm or hbm, *others),
        published=given.published | filled,
        reasons=(*(one for one in given.reasons if one not in settled), reason),
    )


def with_remedy(given: Peaks) -> Peaks:
    """The peaks; if one of arithmetic or HBM is not known, with a reason more: how the user gives it."""
    if not given.name or (given.peak(COMPUTE) and given.peak(HBM)):
        return given
    return replace(given, reasons=(*given.reasons, _REMEDY))


def _doubt(given: Peaks) -> str | None:
    """That the capture of an AMD GPU records far less bandwidth than the slowest of its architecture has. Drivers
    compute it from the clock of the memory, and that of HBM3 moves four bits a cycle, not two."""
    least, recorded = LEAST_OF_AMD.get(given.name.rpartition(" ")[2], 0.0), given.bandwidths_gb_per_s[HBM]
    if not 0 < recorded < 0.75 * least:
        return None
    return (
        f"the capture says that the HBM of {given.name} has {recorded:,.0f} GB/s, but AMD publishes {least:,.0f} or "
        f"more: shares of it may be {least / recorded:.1f} times too high, and what is bound by it or lost, too much"
    )


def _published(given: Peaks) -> tuple[float, float, str] | None:
    """TFLOP/s and GB/s of HBM, 0.0: not listed, and who says so; None: the device is in no list."""
    if given.hardware == TPU:
        chip = TPUS.get(given.name.lower())
        return None if chip is None else (chip.teraflops / chip.cores, chip.hbm / chip.cores, SOURCES[TPU])
    named = GPUS.get(given.model.lower().removeprefix("nvidia ").removeprefix("amd instinct "))
    return None if named is None else (NAMED[named].teraflops, NAMED[named].hbm, SOURCES[GPU])


def device_name(plane: Device) -> str:
    """``Nvidia GPU (Hopper)``, ``AMD GPU - gfx942``, ``TPU v6 Lite``; if it is not recorded, GPU, TPU, MTIA, …"""
    if plane.kind == GPU:
        return _gpu_name(plane)
    named = plane.stats.get("device_type_string")
    return named if isinstance(named, str) and named else (plane.kind or "")


_LEAST, _MOST = 1e-9, 1e15
"""Figures of devices beyond these are damage, in any unit that captures have."""


def _number(stats: Mapping[str, Any], name: str) -> float:
    """A stat that is a number above 0, and may be a figure of a device; else 0.0."""
    value = stats.get(name)
    usable = isinstance(value, int | float) and _LEAST <= value <= _MOST
    return float(value) if usable else 0.0  # type: ignore[arg-type]


def _integer(stats: Mapping[str, Any], name: str) -> int:
    value = stats.get(name)
    return value if isinstance(value, int) else 0


# ---- TPU

_NO_TERAFLOPS: Final = "the capture does not say the TPU's peak FLOP/s (peak_teraflops_per_second)"
_NO_BANDWIDTH: Final = "the capture does not say the TPU's bandwidth (peak_hbm_bw_gigabytes_per_second)"


def _tpu_peaks(plane: Device) -> Peaks:
    stats = plane.stats
    teraflops = _number(stats, "peak_teraflops_per_second")
    bandwidths = tuple(_number(stats, f"peak_{one}_bw_gigabytes_per_second") for one in _TPU_BANDWIDTHS)
    missing = [] if teraflops else [_NO_TERAFLOPS]
    if not bandwidths[HBM]:
        missing.append(_NO_BANDWIDTH)
    return Peaks(
        TPU,
        device_name(plane),
        teraflops,
        bandwidths,
        has_merged_vmem=bool(_integer(stats, "has_merged_vmem")),
        has_megacore=bool(_integer(stats, "has_megacore")),
        reasons=tuple(missing),
    )


# ---- GPU


_UNKNOWN_CAPABILITY: Final = (0, 0)
_NO_CLOCK: Final = "the capture does not say the device's clock (clock_rate) and cores (core_count)"
_NO_CAPABILITY: Final = "the capture does not say the device's compute capability, so its peak FLOP/s is not known"


def _capability(stats: Mapping[str, Any]) -> tuple[int, int]:
    return _integer(stats, "compute_cap_major"), _integer(stats, "compute_cap_minor")


def _gpu_name(plane: Device) -> str:
    stats = plane.stats
    major, minor = _capability(stats)
    match stats.get("device_vendor"):
        case "Nvidia":
            name = _NVIDIA_NAMES.get(major)
            if major == 7:
                name = "Volta" if minor < 5 else "Turing"
            elif major == 8:
                name = "Ampere" if minor < 9 else "Ada Lovelace"
            return f"Nvidia GPU ({name})" if name else "Nvidia GPU"
        case "AMD":
            if gfx := _gfx(stats):
                return f"AMD GPU - {gfx}"
            return f"AMD GPU - gfx-{major}XX series" if major in (9, 10, 11) else "AMD GPU"
    return vendor_word(plane.name) or "GPU"


def _gfx(stats: Mapping[str, Any]) -> str:
    """The architecture of an AMD GPU; "": unknown."""
    named = stats.get("gpu_device_name")
    if isinstance(named, str) and _GFX.fullmatch(named):
        return named
    return _AMD_BY_CAPABILITY.get(_capability(stats), "")


def _per_cycle(stats: Mapping[str, Any]) -> tuple[int, int, str | None]:
    """Flops, and bytes of shared memory, per core and cycle; 0: unknown, and why."""
    vendor, capability = stats.get("device_vendor"), _capability(stats)
    if vendor == "Nvidia" and capability == _UNKNOWN_CAPABILITY:
        return 0, 0, _NO_CAPABILITY
    if vendor == "Nvidia":
        listed = max((one for one in NVIDIA_FLOPS if one <= capability), default=(2, 0))
        reason = None
        if listed != capability:
            said, used = (".".join(map(str, one)) for one in (capability, listed))
            reason = f"compute capability {said} is not in the table of peaks: those of {used} are used"
        return NVIDIA_FLOPS[listed], 64 if capability[0] <= 2 else 256, reason
    if vendor == "AMD":
        gfx = _gfx(stats)
        reason = None if gfx in AMD_FLOPS else f"the peaks of AMD GPU {gfx or '(which is not named)'} are not known"
        return AMD_FLOPS.get(gfx, 0), AMD_SHARED_BYTES.get(gfx, 0), reason
    return 0, 0, "the capture does not say who made the device (device_vendor), so its peaks are not known"


def _gpu_peaks(plane: Device) -> Peaks:
    stats = plane.stats
    clock_ghz, cores = _number(stats, "clock_rate") / 1e6, _number(stats, "core_count")
    flops, shared, reason = _per_cycle(stats)
    teraflops = _number(stats, "peak_teraflops_per_second") or cores * (flops * clock_ghz / 1e3)
    default = cores * (shared * clock_ghz * 1e9 / 1e9)
    sram = [_number(stats, f"peak_sram_{way}_bw_gigabytes_per_second") or default for way in ("rd", "wr")]
    reasons = [reason] if reason else []
    if not clock_ghz or not cores:
        reasons.append(_NO_CLOCK)
    return Peaks(
        GPU,
        _gpu_name(plane),
        teraflops,
        (_number(stats, "memory_bandwidth") / 1e9, *sram),
        reasons=tuple(reasons),
        model=_model(stats),
    )


def _model(stats: Mapping[str, Any]) -> str:
    """What the maker calls the GPU; "": not recorded."""
    return next((one for one in models_of(stats) if not _GFX.fullmatch(one)), "")
