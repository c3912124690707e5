from typing import Any

SIZES: dict[str, int]
MOST_KINDS: int
SUM_KINDS: int

def innermost_stretches(start: Any, duration: Any, marks: Any, lines: Any) -> tuple[bytes, bytes]: ...
def overlaps(work: Any, transfers: Any, by_end: Any, times: Any, sums: Any, kinds: int) -> None: ...
