"""State that all routes share, and how a route is made of a function that answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from fastprof.schema.columns import Bools
from fastprof.viewer.answers import Body, make_json_answer
from fastprof.viewer.query import Query, RequestError
from fastprof.viewer.snapshot import HitList
from fastprof.viewer.threads import ComputedOnce, ThreadPool
from fastprof.viewer.viewed_run import ViewedRun
from fastprof.viewer.viewed_runs import NotOpenError, ViewedRuns

if TYPE_CHECKING:
    from fastprof.analyses.compare import RunFacts
    from fastprof.profile.report import Report
    from fastprof.tfprof.tfprof_views import TfprofView
    from fastprof.viewer.page_capture import PageCapture

_TILE_BYTES = _DOCUMENT_BYTES = 64 << 20
_REPORTS, _SEARCHES, _HIT_LISTS, _VIEWS = 24, 32, 4, 4
_QUICK, _SLOW = 8, 2
_TRIES = 3
T = TypeVar("T")
VERSION: Final = "fastprof-version"
"""Header that says which version of a run an answer is of."""


class BodyCache:
    """Bodies by request, of at most ``limit`` bytes: the least recently used goes first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._lock = Lock()
        self._bodies: OrderedDict[Hashable, tuple[int, Body]] = OrderedDict()

    def get(self, key: Hashable) -> Body | None:
        with self._lock:
            if key not in self._bodies:
                return None
            self._bodies.move_to_end(key)
            return self._bodies[key][1]

    def keep(self, key: Hashable, body: Body) -> None:
        """Store a body, or account for it again after encoding changed its size."""
        with self._lock:
            self.size -= self._bodies.pop(key, (0, body))[0]
            if body.size > self.limit // 4:
                return
            self._bodies[key] = (body.size, body)
            self.size += body.size
            while self.size > self.limit:
                self.size -= self._bodies.popitem(last=False)[1][0]


class ServerState:
    """State that all routes share. ``runs``: what is shown. ``quick``: threads for immediate answers; ``search``: for
    searches through all names; ``slow``: for analyses; ``querying``: for SQL; ``viewing``: for views of tfprof;
    ``opening``: for opening runs; ``listing``: for listing them. ``facts``: of runs that were compared; ``matches``:
    the names that matched recent searches, ``hit_lists`` the events; ``views``: of tfprof, ``trees`` their rows in an
    order, ``advice``: reports of its advisor. ``capture``: None if the page takes no captures."""

    def __init__(self, runs: ViewedRuns, capture: PageCapture | None = None) -> None:
        self.runs = runs
        self.capture = capture
        self.tiles = BodyCache(_TILE_BYTES)
        self.documents = BodyCache(_DOCUMENT_BYTES)
        self.reports: ComputedOnce[Hashable, Report] = ComputedOnce(_REPORTS)
        self.facts: ComputedOnce[Hashable, RunFacts] = ComputedOnce(_REPORTS)
        self.matches: ComputedOnce[Hashable, Bools] = ComputedOnce(_SEARCHES)
        self.hit_lists: ComputedOnce[Hashable, HitList] = ComputedOnce(_HIT_LISTS)
        self.views: ComputedOnce[Hashable, TfprofView] = ComputedOnce(_VIEWS)
        self.trees: ComputedOnce[Hashable, Any] = ComputedOnce(_VIEWS)
        self.advice: ComputedOnce[Hashable, Mapping[str, list[str]]] = ComputedOnce(_VIEWS)
        self.quick = ThreadPool("fastprof-quick", _QUICK)
        self.search = ThreadPool("fastprof-search", _SLOW)
        self.slow = ThreadPool("fastprof-slow", _SLOW)
        self.querying = ThreadPool("fastprof-querying", _SLOW)
        self.viewing = ThreadPool("fastprof-viewing", _SLOW)
        self.opening = ThreadPool("fastprof-opening", _SLOW)
        self.listing = ThreadPool("fastprof-listing", 1)

    async def on_open_run(self, pool: ThreadPool, call: Callable[[], ApiCall], work: Callable[[ApiCall], T]) -> T:
        """Return what ``work`` makes of a call in a thread of the pool. If its run is not open, it is opened in a
        thread for that, so that no other answer of the pool waits for it."""
        for _ in range(_TRIES):
            try:
                return await pool.run(lambda: work(call()))
            except NotOpenError as missing:
                wanted = missing.run, missing.version
                await self.opening.run(lambda wanted=wanted: self.runs.run(*wanted))  # type: ignore[misc]
        raise RequestError(503, "more runs are in use than the server keeps open; try again later")


class ApiCall(Query):
    """Request: its arguments, and ``run``, the version of a run that all of its answer is of, if it is open."""

    def __init__(self, state: ServerState, request: Request, fresh_s: float = 0.0) -> None:
        super().__init__(request)
        self.state = state
        self.request = request
        self._fresh_s = fresh_s

    @cached_property
    def run(self) -> ViewedRun:
        key = self.request.path_params.get("key")
        version = self.given("version") if key is None else key.partition("-")[0]
        return self.state.runs.run(self.given("run"), version, self._fresh_s, may_open=False)

    @property
    def version(self) -> str | None:
        """Version that has been answered from, or None if the answer took no run."""
        return self.run.version if "run" in self.__dict__ else None

    def check(self) -> None:
        """Raise RequestError 410 if the files changed since the answer was begun, which may be of both versions."""
        replaced = self.run.replaced(self._fresh_s) if self.version is not None else None
        if replaced is not None:
            raise RequestError(410, replaced)

    def answered(self, answer: Callable[[ApiCall], Any]) -> Response:
        """Return the response, of one version. ``answer``: makes one, or a value to send as JSON."""
        try:
            made = answer(self)
            response = made if isinstance(made, Response) else make_json_answer(self.request, made, self.version)
        except Exception:
            self.check()  # files that change look damaged
            raise
        self.check()
        if self.version is not None:
            response.headers[VERSION] = self.version
        return response


def make_endpoint(
    state: ServerState, answer: Callable[[ApiCall], Any], pool: ThreadPool, fresh_s: float = 0.0
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that answers in a thread of the pool. ``answer``: makes a response, or a value to send as
    JSON. ``fresh_s``: how long the files of a run need not be checked again, 0 if the answer reads them."""

    async def answered(request: Request) -> Response:
        return await state.on_open_run(
            pool, lambda: ApiCall(state, request, fresh_s), lambda call: call.answered(answer)
        )

    return answered
