"""The finding on kernels that compute element by element and were launched op by op, so that each reads and writes its
arrays: what fusing neighbours saves at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from fastprof.analyses.findings.facts import Facts
from fastprof.analyses.findings.finding import LIKELY, Finding
from fastprof.wording.quantities import counted, measured, time_text

CAUSE: Final = "elementwise"


def found(facts: Facts) -> Iterator[Finding]:
    rows = facts.table("kernel_stats", "kernels").to_pylist()
    every = sum(row["total_ps"] for row in rows)
    rows = [row for row in rows if row["kind"] == CAUSE]
    fusible = facts.per_device(sum(row["fusible_ps"] for row in rows))
    if not fusible:
        return
    total, count = (sum(row[name] for row in rows) for name in ("total_ps", "occurrences"))
    share = measured(total / every, "share")
    time_of_op: Counter[str | None] = Counter()
    for row in rows:
        time_of_op[row["op_name"]] += row["total_ps"]
    ops = [(name, time_ps) for name, time_ps in time_of_op.most_common() if name is not None][:_MOST_NAMED]
    named = f" Longest: {', '.join(f'{name} {time_text(time_ps)}' for name, time_ps in ops)}." if ops else ""
    yield Finding(
        CAUSE,
        f"Elementwise kernels take {share} of the time of kernels and are not fused",
        fusible,
        LIKELY,
        f"kernel_stats.kernels?kind={CAUSE}",
        facts.advise(CAUSE),
        is_bound=True,
        op=ops[0][0] if ops else None,
        detail=f"{counted(count, 'kernel takes', 'kernels take')} {time_text(total)} in all. Fused with their "
        "neighbours on their streams, they save at most the time given: of each run its shortest kernel, or a "
        f"reduction, stays.{named}",
    )


_MOST_NAMED: Final = 4
