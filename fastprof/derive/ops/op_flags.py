"""Flags of ops, by name and text: containers, rematerialized ops, collectives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from fastprof.derive.ops.op_table import OpTable
from fastprof.schema.columns import Bools
from fastprof.wording.patterns import compile_late

_TO_HOST: Final = (":XlaSendToHost", ":XlaRecvFromHost")
"""Ends of the provenance of ops that hand over to the host what XLA did not compile."""

_REPLICA_GROUPS: Final = compile_late(
    r"\breplica_groups=(\{\s*(?:\{[\d,\s]*\},?\s*)*\}|\[[\d,]*\]<=\[[\d,]*\](?:T\([\d,]*\))?|[^\s,]+)"
)


_CONTAINERS: Final = ("call", "conditional", "while", "megacore fusion")


def is_container(table: OpTable) -> Bools:
    """Ops whose work is that of ops within them."""
    return np.array([category in _CONTAINERS for category in table.category], bool)


def is_rematerialized(table: OpTable) -> Bools:
    """Ops that compute again what was computed before, to save memory: those that XLA names so, and those in a
    computation that the program marks to be repeated."""
    marked = [
        ".remat" in text.partition("=")[0] or "/rematted_computation/" in provenance
        for text, provenance in zip(table.long_name, table.provenance, strict=True)
    ]
    return np.array(marked, bool)


def is_outside_compilation(table: OpTable) -> Bools:
    """Ops that serve what runs on the host because XLA did not compile it."""
    marked = [
        provenance.endswith(_TO_HOST) or ("send-done" in text and "is_host_transfer=true" in text)
        for provenance, text in zip(table.provenance, table.long_name, strict=True)
    ]
    return np.array(marked, bool)


def parse_replica_groups(long_names: Sequence[str]) -> list[str | None]:
    """The groups of devices of collective ops, as their texts have them; None: there are none."""
    matches = (_REPLICA_GROUPS.search(text) if "replica_groups=" in text else None for text in long_names)
    return [match[1] if match else None for match in matches]


def parse_group_size(groups: str) -> int | None:
    """The number of devices in each group; None: they differ, or it is unknown."""
    if groups.startswith("["):
        listed = re.match(r"\[(\d{1,9}),(\d{1,9})\]", groups)
        return int(listed[2]) if listed else None
    counts = {
        len([device for device in group.split(",") if device.strip()])
        for group in re.findall(r"\{([\d,\s]*)\}", groups)
    }
    return counts.pop() if len(counts) == 1 and 0 not in counts else None


def measure_eager_percent(table: OpTable) -> float | None:
    """Self time of ops executed eagerly, in percent of all; None: there is none."""
    return _measure_percent(table, table.is_eager)


def measure_outside_compilation_percent(table: OpTable) -> float | None:
    """Self time of device ops that serve the host, in percent of all; None: there is none."""
    return _measure_percent(table, is_outside_compilation(table))


def _measure_percent(table: OpTable, chosen: Bools) -> float | None:
    total = int(table.self_ps.sum())
    return 100.0 * int(table.self_ps[chosen].sum()) / total if total else None
