"""What all routes share, and how a route is made of a function that answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from threading import Lock

from starlette.requests import Request
from starlette.responses import Response

from fastprof.viewer.answers import Body
from fastprof.viewer.query import Query
from fastprof.viewer.threads import Pool
from fastprof.viewer.viewed_run import ViewedRun
from fastprof.viewer.viewed_runs import ViewedRuns

_TILE_BYTES = 128 << 20
_DOCUMENT_BYTES = 256 << 20
_QUICK, _SLOW = 8, 2

Answer = Callable[["Asked"], Response]


class KeptBodies:
    """Bodies by what was asked, of at most ``limit`` bytes: the one asked for longest ago goes first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._lock = Lock()
        self._bodies: OrderedDict[Hashable, tuple[int, Body]] = OrderedDict()

    def get(self, key: Hashable) -> Body | None:
        with self._lock:
            found = self._bodies.get(key)
            if found is None:
                return None
            self._bodies.move_to_end(key)
            return found[1]

    def keep(self, key: Hashable, body: Body) -> None:
        """Keeps it, as large as it is now; again where it has been encoded meanwhile."""
        with self._lock:
            self.size -= self._bodies.pop(key, (0, body))[0]
            if body.size > self.limit // 4:
                return
            self._bodies[key] = (body.size, body)
            self.size += body.size
            while self.size > self.limit:
                self.size -= self._bodies.popitem(last=False)[1][0]


class ServerState:
    """``runs``: what is shown. ``quick``: threads for what answers at once; ``search``: for what looks through all
    names; ``slow``: for analyses."""

    def __init__(self, runs: ViewedRuns) -> None:
        self.runs = runs
        self.tiles = KeptBodies(_TILE_BYTES)
        self.documents = KeptBodies(_DOCUMENT_BYTES)
        self.quick = Pool("fastprof-quick", _QUICK)
        self.search = Pool("fastprof-search", _SLOW)
        self.slow = Pool("fastprof-slow", _SLOW)

    def route(self, answer: Answer, pool: Pool | None = None) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint that answers from a thread, without a pool from a quick one."""
        pool = pool or self.quick

        async def endpoint(request: Request) -> Response:
            return await pool.run(partial(answer, Asked(self, request)))

        return endpoint


class Asked:
    """A request: ``query``, and ``run``, the run that it is about."""

    def __init__(self, state: ServerState, request: Request) -> None:
        self.state = state
        self.request = request
        self.query = Query(request)

    @property
    def run(self) -> ViewedRun:
        return self.state.runs.run(self.query.given("run"))
