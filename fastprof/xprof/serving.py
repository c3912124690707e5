"""Requests of model servers as XProf times them.

It takes the batch of the least group for the first and the last of a request, of several events that mark a stage the
last one it comes by, but for launches of programs, and counts time on TPUs alone. A part of no length takes the time up
to the next.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastprof.derive.serving import breakdown
from fastprof.derive.serving.breakdown import Stamps, Timed
from fastprof.derive.serving.host_rows import NONE
from fastprof.derive.serving.of_host import HostServing
from fastprof.derive.serving.requests import NO_MODEL
from fastprof.derive.serving.session import RequestColumns, numbered_models, request_columns
from fastprof.schema.array_types import Int64s


def shown_requests(hosts: Sequence[HostServing]) -> RequestColumns:
    """The requests of a session, in the order of their latency."""
    return request_columns([_timed(host) for host in hosts], hosts, numbered_models(hosts)[1])


def first_models(hosts: Sequence[HostServing]) -> Int64s:
    """By number of host, its first model: requests whose model is not recorded count for it."""
    _, places = numbered_models(hosts)
    return np.array([place[0] if len(place) > 2 else NO_MODEL for place in places], np.int64)


def _timed(host: HostServing) -> Timed:
    batch = host.requests.batches.first(np.arange(len(host.requests)))
    begin, end = np.append(host.batches.begin, NONE)[batch], np.append(host.batches.end, NONE)[batch]
    requests, delay = breakdown.in_batches(host.requests, begin, end)
    spans = breakdown.parts(requests, host.tpu, _stamps(host), host.links)
    return Timed(requests, delay, breakdown.part_times(spans, len(requests)))


def _stamps(host: HostServing) -> Stamps:
    stamps = breakdown.stamps(host.marks, host.links.count)
    for stage in stamps.keys() - {"launch"}:
        group, start = host.marks[stage]
        stamps[stage][:] = NONE
        stamps[stage][group] = start
    return stamps
