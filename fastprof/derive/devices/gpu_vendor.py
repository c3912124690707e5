"""Who made a GPU, of captures that do not record it (stat ``device_vendor``): by its model, by its compute capability
if only one maker has it, else by the names of its kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from fastprof.decode.plane_kinds import vendor_word
from fastprof.derive.devices.tensor_cores import AMD, NVIDIA
from fastprof.wording.patterns import pattern_of

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents, Plane

VENDOR_STAT: Final = "device_vendor"
NOT_RECORDED: Final = "the capture does not say who made the device (device_vendor): it is taken to be {}, because {}"
_MODELS: Final = {
    NVIDIA: pattern_of(r"nvidia|tesla|quadro|geforce|\b[ablhpvt]\d{1,3}\b|\brtx\b|gh200|gb200", re.IGNORECASE),
    AMD: pattern_of(r"\bamd\b|instinct|radeon|^gfx[0-9a-f]{3,}|\bmi\d{2,3}[axp]?\b", re.IGNORECASE),
}
_OF_NVIDIA: Final = frozenset({
    (2, 0), (2, 1), (3, 0), (3, 2), (3, 5), (3, 7), (5, 0), (5, 2), (5, 3), (6, 0), (6, 1), (6, 2), (7, 0), (7, 2),
    (7, 5), (8, 6), (8, 7), (8, 9),
})  # fmt: skip
"""Compute capabilities of NVIDIA that no architecture of AMD has: gfx803 is 8.0, gfx906 to gfx90a are 9.0."""
_OF_AMD: Final = frozenset({(9, 4), (9, 5), (11, 5)})
_KERNELS: Final = {
    NVIDIA: pattern_of(
        r"^(volta|turing|ampere|hopper|sm\d\d|maxwell|cutlass|nccl|nvjet)|_sm\d\d|cudnn|cublas|cutlass|\bcub::"
    ),
    AMD: pattern_of(r"^Cijk_|\.kd$|rocclr|hipcub|rocprim|miopen|MIOpen|rccl|_mfma"),
}
_MOST_NAMES: Final = 200_000


def models_of(stats: Mapping[str, Any]) -> list[str]:
    """What the capture calls the GPU: its model, or its architecture."""
    names = (stats.get(stat) for stat in ("gpu_device_name", "device_name", "gpu_model"))
    return [one for one in names if isinstance(one, str) and one]


def vendors(
    planes: Mapping[int, Mapping[str, Any]], recorded: Mapping[int, str | None], names: Iterable[str]
) -> tuple[dict[int, str | None], tuple[str, ...]]:
    """Who made each GPU, as recorded or as its model, its compute capability or ``names`` of kernels show; and the
    sentences that say which of these did. ``planes``: the stats of GPUs by number, without devices of other kinds."""
    found, reasons = dict(recorded), []
    names = list(names) if None in recorded.values() else []
    kinds: dict[str, tuple[str, str] | None] = {}  # the same for planes of equal stats: the names are searched once
    for number in (number for number, vendor in recorded.items() if vendor is None and number in planes):
        stats = planes[number]
        kind = repr((models_of(stats), stats.get("compute_cap_major"), stats.get("compute_cap_minor")))
        if kind not in kinds:
            kinds[kind] = likely_vendor(stats, models_of(stats), names)
        likely = kinds[kind]
        if likely is not None:
            found[number] = likely[0]
            reasons.append(NOT_RECORDED.format(*likely))
    return found, tuple(dict.fromkeys(reasons))


def likely_vendor(stats: Mapping[str, Any], models: Iterable[str], kernels: Iterable[str]) -> tuple[str, str] | None:
    """The maker, and how it is known, in words; None: nothing decides. ``models``: what the capture calls the GPU."""
    for model in models:
        found = [vendor for vendor, pattern in _MODELS.items() if pattern.search(model)]
        if len(found) == 1:
            return found[0], f"its model is {model[:60]}"
    capability = stats.get("compute_cap_major"), stats.get("compute_cap_minor")
    for vendor, own in ((NVIDIA, _OF_NVIDIA), (AMD, _OF_AMD)):
        if capability in own:
            return vendor, f"only GPUs of {vendor} have compute capability {capability[0]}.{capability[1]}"
    return _by_kernels(kernels)


def stats_of_gpus(planes: Iterable[Plane]) -> dict[int, Mapping[str, Any]]:
    """Return the stats of the devices that nothing calls otherwise than GPU, by number."""
    return {plane.number: plane.stats for plane in planes if vendor_word(plane.name) is None}


def maker_of(events: HostEvents) -> str | None:
    """Return who made the GPUs of a host, by all that shows it; None: nothing does, or several made them."""
    planes = events.planes_of("GPU")
    recorded = {plane.number: plane.stats.get(VENDOR_STAT) for plane in planes}
    makers = set(vendors(stats_of_gpus(planes), recorded, events.names)[0].values())
    return makers.pop() if len(makers) == 1 else None


def _by_kernels(kernels: Iterable[str]) -> tuple[str, str] | None:
    """The maker whose kernels there are, unless there are kernels of several."""
    found: dict[str, str] = {}
    for name in islice(kernels, _MOST_NAMES):
        for vendor, pattern in _KERNELS.items():
            if vendor not in found and pattern.search(name):
                found[vendor] = name
    if len(found) != 1:
        return None
    ((vendor, name),) = found.items()
    return vendor, f"it runs kernels such as {name[:60]}"
