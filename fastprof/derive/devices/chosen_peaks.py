"""Peaks that the user chooses: those of a device that is named, or the figures themselves."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from fastprof.derive.devices.devices import COMPUTE, HBM, Peaks
from fastprof.derive.devices.published_peaks import NAMED
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of
from fastprof.wording.spelling import meant

CPU: Final = "CPU"
_PREFIXES: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_NUMBER: Final = pattern_of(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?|\.\d+)\s*([kMGTPE]?)\s*(.*)", re.ASCII)
_UNITS: Final = {
    "flops": ("flop", "flops", "flop/s", "flops/s", "flop/sec"),
    "hbm": ("b/s", "bytes/s", "byte/s", "bps", "b/sec"),
}
_LEAST, _MOST = 1.0, 1e24
_LONGEST: Final = 200
_FORM: Final = "write peaks as flops=312T,hbm=2039GB/s: operations and bytes a second of one device"


@dataclass(frozen=True, slots=True)
class Chosen:
    """``device``: a name of the table; ``peak``: as ``peak_text`` writes it; they go before the table. None: not
    chosen."""

    device: str | None = None
    peak: str | None = None

    def __bool__(self) -> bool:
        return self.device is not None or self.peak is not None


NOTHING: Final = Chosen()


def named_device(text: str) -> str:
    """The name of a device as the table has it. ValueError: it is not in the table."""
    plain = {_plain(name): name for name in NAMED}
    found = plain.get(_plain(text))
    if found is None:
        near = meant(text, NAMED)
        raise ValueError(f"{text[:60]!r} is not in the table of peaks{near or '; it has ' + ', '.join(NAMED)}")
    return found


def _plain(name: str) -> str:
    """Without what people write in several ways."""
    return re.sub(r"[\s_-]", "", name).casefold().removeprefix("nvidia").removeprefix("amd").removeprefix("instinct")


def peak_text(text: str) -> str:
    """Peaks in one form, such as ``flops=312000000000000.0,hbm=2039000000000.0``. ValueError: they are not peaks."""
    return ",".join(f"{name}={value!r}" for name, value in _figures(text).items())


def _figures(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in text.split(",") if len(text) <= _LONGEST else [text]:
        name, equals, value = (word.strip() for word in part.partition("="))
        match = _NUMBER.fullmatch(value)
        if name not in _UNITS:
            known = meant(name, _UNITS) if name and equals else ""
            raise ValueError(f"{part.strip()[:60]!r} is not a peak{known}; {_FORM}")
        if match is None or (match[3] and match[3].lower() not in _UNITS[name]):
            raise ValueError(f"{value[:60]!r} is not a rate for {name}; {_FORM}")
        rate = float(match[1]) * _PREFIXES[match[2]]
        if name in found or not _LEAST <= rate <= _MOST:
            raise ValueError(
                f"{part.strip()[:60]!r} {'repeats a peak' if name in found else 'is not a rate of a device'}; {_FORM}"
            )
        found[name] = rate
    return found


def with_chosen(given: Peaks | None, chosen: Chosen) -> Peaks | None:
    """The peaks, with the chosen ones in place of those that are recorded or published, and a reason that says so. For
    programs of a CPU, which have no peaks, they are the only ones."""
    if not chosen:
        return given
    figures: dict[int, float] = {}
    words = []
    if chosen.device is not None:
        chip = NAMED[chosen.device]
        figures = {COMPUTE: chip.teraflops / chip.cores, HBM: chip.hbm / chip.cores}
        words.append(f"those of {chosen.device} ({_words(figures)})")
    if chosen.peak is not None:
        own = _figures(chosen.peak)
        scaled = {COMPUTE: own.get("flops", 0.0) / 1e12, HBM: own.get("hbm", 0.0) / 1e9}
        scaled = {place: figure for place, figure in scaled.items() if figure}
        figures |= scaled
        words.append(f"those that were given ({_words(scaled)})")
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


def _words(figures: dict[int, float]) -> str:
    units = {COMPUTE: "TFLOP/s", HBM: "GB/s"}
    return ", ".join(f"{figure:g} {units[place]}" for place, figure in figures.items())
