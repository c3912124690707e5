"""Events as the page is told of them: where they lie and what they are called. Times are of the session, as text."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.viewer.request_error import RequestError
from fastprof.viewer.snapshot import SeenHost, Snapshot
from fastprof.viewer.store import StoredEvent

NAME_LETTERS: Final = 300
"""So much of a name is shown beside others; the details of an event have all of it."""


def shortened(name: str, letters: int = NAME_LETTERS) -> str:
    return name if len(name) <= letters else name[: letters - 1] + "…"


def event_at(host: SeenHost, at: int) -> StoredEvent:
    """The event of that number in the store of its host; RequestError where there is none."""
    if not 0 <= at < host.store.events:
        raise RequestError(
            404, f"host {host.name!r} has no event {at}: they are numbered up to {host.store.events - 1}"
        )
    return host.store.event(at)


def ref(seen: Snapshot, host: SeenHost, at: int) -> dict[str, Any]:
    event = event_at(host, at)
    return {
        "host": host.name,
        "at": at,
        "track": seen.track_id(host, event.track),
        "lane": event.lane,
        "name": shortened(host.store.name(event.name)),
        "start_ps": str(host.to_session(event.start_ps)),
        "duration_ps": str(event.duration_ps),
    }


def texts(numbers: npt.NDArray[np.int64]) -> list[str]:
    """Numbers of up to 64 bits as JSON carries them without loss."""
    return [str(number) for number in numbers.tolist()]
