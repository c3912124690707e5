"""What the texts of ops say of them: computed a second time, left to the host, by which groups of devices; and shares
of op time that such ops have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.tables import OpTable

_TO_HOST: Final = (":XlaSendToHost", ":XlaRecvFromHost")
"""How the provenance of ops ends that hand over to the host what XLA did not compile."""

_REPLICA_GROUPS: Final = re.compile(
    r"\breplica_groups=(\{\s*(?:\{[\d,\s]*\},?\s*)*\}|\[[\d,]*\]<=\[[\d,]*\](?:T\([\d,]*\))?|[^\s,]+)"
)


CONTAINERS: Final = ("call", "conditional", "while", "megacore fusion")
"""Categories of ops whose work is that of ops within."""


def is_rematerialized(table: OpTable) -> npt.NDArray[np.bool_]:
    """Ops that compute again what was computed before, to save memory: XLA's own, of which the name says so, and those
    in a computation that the program asks to be done again."""
    marked = [
        ".remat" in text.partition("=")[0] or "/rematted_computation/" in provenance
        for text, provenance in zip(table.long_name, table.provenance, strict=True)
    ]
    return np.array(marked, bool)


def is_outside_compilation(table: OpTable) -> npt.NDArray[np.bool_]:
    """Ops that serve what runs on the host instead, as XLA did not compile it."""
    marked = [
        provenance.endswith(_TO_HOST) or ("send-done" in text and "is_host_transfer=true" in text)
        for provenance, text in zip(table.provenance, table.long_name, strict=True)
    ]
    return np.array(marked, bool)


def replica_groups(long_names: Sequence[str]) -> list[str | None]:
    """Which devices a collective op is among, as its text has them; None: it says nothing of any."""
    return [
        found[1] if "replica_groups=" in text and (found := _REPLICA_GROUPS.search(text)) else None
        for text in long_names
    ]


def group_size(groups: str) -> int | None:
    """How many devices are in each group; None: they differ, or it is not told."""
    if groups.startswith("["):
        listed = re.match(r"\[(\d{1,9}),(\d{1,9})\]", groups)
        return int(listed[2]) if listed else None
    counts = {len([one for one in group.split(",") if one.strip()]) for group in re.findall(r"\{([\d,\s]*)\}", groups)}
    return counts.pop() if len(counts) == 1 and 0 not in counts else None


def by_self_time(table: OpTable) -> OpTable:
    """Largest self time first, then by name."""
    self_ps, name = table.self_ps.tolist(), table.name
    order = sorted(range(len(table)), key=lambda row: (-self_ps[row], name[row]))
    return table.take(np.array(order, np.int64))


def occurrences(table: OpTable) -> int:
    return int(table.occurrences.sum())


def eager_percent(table: OpTable) -> float | None:
    """Self time of ops executed eagerly, in percent of all; None: there is none."""
    return _percent(table, table.is_eager)


def outside_compilation_percent(table: OpTable) -> float | None:
    """Self time of device ops that serve what runs on the host instead, in percent of all; None: there is none."""
    return _percent(table, is_outside_compilation(table))


def _percent(table: OpTable, chosen: npt.NDArray[np.bool_]) -> float | None:
    whole = int(table.self_ps.sum())
    return 100.0 * int(table.self_ps[chosen].sum()) / whole if whole else None
