"""Times of day as people write them."""

from __future__ import annotations

from datetime import date, datetime


def moment_of(given: str | date) -> tuple[float, ...]:
    """Year, month, day, hour, minute and second in local time; of a date the first three. ``given``: ISO 8601,
    "2026-11-01" or "2026-11-01 12:30", as names of runs have it, 2026_11_01_12_30_00 or its beginning, or as
    ``datetime`` has it. ValueError: it is not a time."""
    if isinstance(given, str):
        day, of_day = given.split("_")[:3], given.split("_")[3:]
        written = " ".join(["-".join(day), ":".join(of_day)]).strip() if len(day) == 3 else given
        try:
            given = datetime.fromisoformat(written)
        except ValueError:
            raise ValueError(f"{given!r} is not a time; write 2026-11-01, or 2026-11-01 12:30") from None
    if not isinstance(given, date):
        raise ValueError(f"a time is a text or a datetime, not {type(given).__name__}")
    if not isinstance(given, datetime):
        return given.year, given.month, given.day
    local = given if given.tzinfo is None else given.astimezone()
    return (*local.timetuple()[:5], local.second + local.microsecond / 1e6)
