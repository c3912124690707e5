"""Figures of runs as lines that other programs read: JSON lines, and the text format of Prometheus."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa

_KEYS: Final = ("logdir", "run", "start_unix_ns", "figure", "value", "unit", "reason")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
"""Escapes of label values."""


def write_json_lines(figures: pa.Table) -> Iterator[bytes]:
    """Yield an object per row of the table ``figures``; unknown values are null."""
    for row in figures.select(_KEYS).to_pylist():
        yield json.dumps(row).encode() + b"\n"


def write_prometheus(figures: pa.Table) -> Iterator[bytes]:
    """Yield a metric per figure, with a sample per run. A run without a value has no sample."""
    rows = [row for row in figures.to_pylist() if row["value"] is not None]
    for figure in dict.fromkeys(row["figure"] for row in rows):
        of_figure = [row for row in rows if row["figure"] == figure]
        metric = f"fastprof_{figure.replace('.', '_')}"
        unit = of_figure[0]["unit"]
        lines = [f"# HELP {metric} {figure} of fastprof{f', in {unit}' if unit else ''}", f"# TYPE {metric} gauge"]
        for row in of_figure:
            labels = ",".join(f'{name}="{row[name].translate(_ESCAPES)}"' for name in ("logdir", "run"))
            lines.append(f"{metric}{{{labels}}} {row['value']!r}")
        yield "".join(f"{line}\n" for line in lines).encode()


FEEDS: Final[Mapping[str, Callable[[pa.Table], Iterator[bytes]]]] = {
    ".jsonl": write_json_lines,
    ".prom": write_prometheus,
}
"""Writers by the suffix of their files."""
