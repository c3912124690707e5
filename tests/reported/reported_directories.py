"""Traces of tests as the ranks of a directory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def put(
    root: Path, name: str, rank: int | None = 0, case: str = "i39b-sglang", later_s: int = 0, **members: Any
) -> None:
    """Write the trace of a case, of a rank of 2. ``rank``: None: it records none; ``later_s``: how many seconds it was
    recorded later; ``members``: others of the document that are replaced."""
    document = json.loads(gzip.decompress((HERE / f"{case}.json.gz").read_bytes()))
    document.pop("distributedInfo", None)
    if rank is not None:
        document["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    for event in document["traceEvents"]:
        event["ts"] += later_s * 1_000_000
    text = json.dumps(document | members).encode()
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
