"""A kernel on a TPU with samples of its hardware units: tiles of a matrix product, whose results are then normalized.

Each tile loads its operands while the matrix units wait, multiplies, and adds up in the vector units.
"""

from __future__ import annotations

from trace_builder import Event, Metadata, event, line, plane, xspace

US = 10**6
LAST = 2**32 - 1
"""The id of counter lines of TPUs."""
CALLS, TILES = 4, 16
LOAD, MULTIPLY, NORMALIZE = 2 * US, 7 * US, 12 * US
_PHASES = {
    "load": {"MXU": 4.25, "XLU": 0.0, "Scalar ALU": 18.5, "Vector ALU": 6.0, "Vector Load": 93.75, "Vector Store": 2.0},
    "multiply": {
        "MXU": 91.5,
        "XLU": 3.125,
        "Scalar ALU": 9.0,
        "Vector ALU": 34.5,
        "Vector Load": 41.0,
        "Vector Store": 12.0,
    },
    "normalize": {
        "MXU": 0.0,
        "XLU": 22.0,
        "Scalar ALU": 11.25,
        "Vector ALU": 78.0,
        "Vector Load": 55.5,
        "Vector Store": 51.0,
    },
}
"""Percent by phase and unit."""
_SPILLS = {"multiply": (6.0, 8.0), "load": (0.0, 0.0), "normalize": (0.0, 2.0)}
"""Registers filled and spilled."""


class _Core:
    def __init__(self) -> None:
        self.now = 0
        self.samples: list[Event] = []
        self.ranges: list[Event] = []
        self.held: dict[str, float] = {}

    def run(self, phase: str, duration: int) -> None:
        """Samples what has changed, as the compiler writes it."""
        fills, spills = _SPILLS[phase]
        values = {unit: ("% util", value) for unit, value in _PHASES[phase].items()}
        for unit, (stat, value) in {
            **values,
            "Vector Fills": ("fills", fills),
            "Vector Spills": ("spills", spills),
        }.items():
            if self.held.get(unit) != value:
                self.samples.append(event(unit, self.now, duration, {stat: value}))
                self.held[unit] = value
        self.ranges.append(event(phase, self.now, duration))
        self.now += duration


def captured() -> bytes:
    core = _Core()
    modules, ops = [], []
    for call in range(CALLS):
        first = core.now
        for _ in range(TILES):
            core.run("load", LOAD)
            core.run("multiply", MULTIPLY)
        ops.append(event("%matmul = custom-call", first, core.now - first))
        last = core.now
        core.run("normalize", NORMALIZE)
        ops.append(event("%normalize = fusion", last, core.now - last))
        modules.append(event("jit_layer(77)", first, core.now - first, {"run_id": call + 1}))
    metadata = [
        Metadata("%matmul = custom-call", display_name="matmul", stats={"hlo_category": "custom-call"}),
        Metadata("%normalize = fusion", display_name="normalize", stats={"hlo_category": "loop fusion"}),
    ]
    lines = [
        line("XLA Modules", modules, id=2), line("XLA Ops", ops, id=3), line("Tensor Core", core.ranges, id=9),
        line("_counters_", core.samples, id=LAST),
    ]  # fmt: skip
    stats = {"device_type_string": "TPU v6 Lite"}
    return xspace(plane("/device:TPU:0", lines, id=2, stats=stats, event_metadata=metadata), hostnames=["worker0"])
