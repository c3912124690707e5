"""Chrome traces read slowly: the events of a document, by the plainest code.

Rules: J, T, P, M, C, X, K and R of the specification of traces. Written without a look at the reader that it checks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from slow_dialects import (
    CALLS,
    DEVICE,
    HOST_CATEGORIES,
    Stat,
    as_number,
    of_kineto,
    of_xprof,
    text_of,
    trailing_number,
)
from slow_json import INT64, Number, identity, is_number, picoseconds, read, stat

UNIX_PS = 10**21  # 10^15 microseconds
DAYS_PS = 106 * 86400 * 10**12


@dataclass
class Event:
    plane: str
    line: str
    name: str
    start_ps: int
    duration_ps: int
    order: int
    stats: list[Stat] = field(default_factory=list)
    thread: Any = None
    """Of slices, which flows may be bound to: process and thread."""


@dataclass
class Trace:
    dialect: str
    zero_ps: int
    events: list[Event]
    log: Counter[str]
    ends: list[tuple[int, Any, dict[str, Any]]] = field(default_factory=list)
    """Of flows, in the order of the document: time, thread, and what is written."""
    bound: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """Slices with a flow by ``bind_id``: their place in the document, and what is written."""


def read_trace(data: bytes) -> Trace:
    return _Reader(read(data)).trace()


def _own(event: dict[str, Any], key: str) -> Any:
    """A field; null is as if it were absent."""
    return event.get(key)


def is_set(flag: Any) -> bool:
    """Whether a flag of an event is true, or a number other than 0."""
    return flag is True or (isinstance(flag, Number) and flag.is_finite and flag.exact() != 0)


class _Reader:
    def __init__(self, documents: list[Any]) -> None:
        self.document: dict[str, Any] = {}
        self.rows: list[Any] = []
        for one in documents:
            self.rows += one if isinstance(one, list) else one["traceEvents"]
            self.document = {**one, **self.document} if isinstance(one, dict) else self.document
        self.log: Counter[str] = Counter()
        self.events: list[Event] = []
        self.ends: list[tuple[int, Any, dict[str, Any]]] = []
        self.bound: list[tuple[int, dict[str, Any]]] = []
        self.processes: dict[int | str, str] = {}
        self.process_names: set[str] = set()
        self.threads: dict[tuple[int | str, int | str | None], str] = {}
        self.frames = self.document.get("stackFrames") or {}
        for row in self.rows:
            if isinstance(row, dict) and row.get("ph") == "M":
                self._names(row)
        self.dialect = self._dialect()

    def _names(self, row: dict[str, Any]) -> None:
        name = (row.get("args") or {}).get("name")
        if not isinstance(name, str) or not name:
            return
        pid = identity(row.get("pid") if row.get("pid") is not None else "")
        if row.get("name") == "process_name":
            self.processes[pid] = name
            self.process_names.add(name)
        if row.get("name") == "thread_name":
            self.threads[pid, identity(row["tid"]) if row.get("tid") is not None else None] = name

    # ---- dialects

    def _dialect(self) -> str:
        if any(
            key in self.document
            for key in ("schemaVersion", "deviceProperties", "distributedInfo", "traceName", "baseTimeNanoseconds")
        ):
            return "kineto"
        slices = [row for row in self.rows if isinstance(row, dict) and row.get("ph") == "X"]
        if any(row.get("cat") == "Trace" and row.get("pid") in ("Spans", "Traces") for row in slices):
            return "kineto"
        if sum(text_of(row.get("cat")).lower() in DEVICE + HOST_CATEGORIES + CALLS for row in slices) * 2 > len(slices):
            return "kineto"
        if (
            self.document.get("displayTimeUnit") == "ns" and "highres-ticks" in (self.document.get("metadata") or {})
        ) or any(name.split(" ")[-1].startswith(("/host:", "/device:")) for name in self.process_names):
            return "xprof"
        of_tf1 = any(name == "Allocators" or name.endswith((" Compute", " Tensors")) for name in self.process_names)
        return "tf1" if of_tf1 else "browser"

    def trace(self) -> Trace:
        open_slices: dict[Any, list[tuple[int, int, dict[str, Any]]]] = defaultdict(list)
        nestable: dict[Any, list[tuple[int, int, dict[str, Any]]]] = defaultdict(list)
        legacy: dict[Any, list[tuple[int, int, dict[str, Any]]]] = defaultdict(list)
        times: list[int] = []
        for order, row in enumerate(self.rows):
            if not isinstance(row, dict) or not row:
                self.log["empty_event"] += order != len(self.rows) - 1
                continue
            phase = text_of(row.get("ph"))[:1]
            if phase == "M":
                continue
            if phase not in tuple("XBEIiRCbneSTpFstfPNODVvc()"):
                self.log["unknown_phase"] += 1
                continue
            ts = picoseconds(row.get("ts"))
            if ts is None:
                self.log["bad_time"] += 1
                continue
            if phase != "X" or row.get("dur") is None or picoseconds(row["dur"]) is not None:
                times.append(ts)
            if row.get("bind_id") is not None:
                if phase in "XB" and (is_set(row.get("flow_in")) or is_set(row.get("flow_out"))):
                    self.bound.append((order, row))
                else:
                    self.log["not_read"] += 1
            if phase == "X":
                self._slice(order, row, ts)
            elif phase in "BE":
                open_slices[self._thread(row)].append((ts, order, row))
            elif phase in "bne":
                nestable[self._async_key(row)].append((ts, order, row))
            elif phase in "STpF":
                legacy[text_of(row.get("cat")), identity(row.get("id", "")), self._thread(row)[0]].append(
                    (ts, order, row)
                )
            elif phase == "C":
                self._counter(order, row, ts)
            elif phase in "stf":
                self.ends.append((ts, self._thread(row), row))
            else:
                self._instant(order, row, ts, phase)
        for thread, rows in open_slices.items():
            self._pairs(thread, sorted(rows, key=lambda row: row[:2]))
        for rows in nestable.values():
            self._nested(sorted(rows, key=lambda row: row[:2]))
        for rows in legacy.values():
            self._stepped(sorted(rows, key=lambda row: row[:2]))
        return self._shifted(times)

    # ---- phases

    def _thread(self, row: dict[str, Any]) -> tuple[int | str, int | str | None]:
        pid, tid = _own(row, "pid"), _own(row, "tid")
        return identity(pid if pid is not None else ""), identity(tid) if tid is not None else None

    def _add(
        self,
        order: int,
        row: dict[str, Any],
        ts: int,
        duration: int,
        stats: list[Stat],
        place: tuple[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        plane, line = place or self._place(row)
        self.events.append(
            Event(
                plane,
                line,
                text_of(row.get("name")) if name is None else name,
                ts,
                duration,
                order,
                stats,
                self._thread(row) if row["ph"][0] in "XB" else None,
            )
        )

    def _slice(self, order: int, row: dict[str, Any], ts: int) -> None:
        duration = picoseconds(row["dur"]) if row.get("dur") is not None else None
        if duration is None and row.get("dur") is not None:
            self.log["bad_time"] += 1
            return
        extra: list[Stat] = [("unfinished", "int64", 1)] if duration is None else []
        self.log["no_duration"] += duration is None
        self.log["negative_duration"] += (duration or 0) < 0
        self._add(order, row, ts, duration or 0, self._stats(row, extra))

    def _pairs(self, thread: Any, rows: list[tuple[int, int, dict[str, Any]]]) -> None:
        stack: list[tuple[int, int, dict[str, Any]]] = []
        orders = self._orders(thread)
        ends = [event.start_ps + max(event.duration_ps, 0) for event in self.events if event.order in orders]
        for ts, order, row in rows:
            if row["ph"][0] == "B":
                stack.append((ts, order, row))
            elif not stack:
                self.log["end_without_begin"] += 1
            else:
                start, begun, begin = stack.pop()
                ends.append(ts)
                self.log["name_mismatch"] += row.get("name") is not None and row.get("name") != begin.get("name")
                self._add(begun, begin, start, ts - start, self._stats(begin, [], row))
        for start, begun, begin in stack:
            self.log["begin_without_end"] += 1
            end = max([start, *ends])
            self._add(begun, begin, start, end - start, self._stats(begin, [("unfinished", "int64", 1)]))

    def _orders(self, thread: Any) -> set[int]:
        return {
            order
            for order, row in enumerate(self.rows)
            if isinstance(row, dict) and row.get("ph") == "X" and self._thread(row) == thread
        }

    def _async_key(self, row: dict[str, Any]) -> Any:
        wide = row.get("id2")
        if isinstance(wide, dict) and "local" in wide:
            return text_of(row.get("cat")), identity(wide["local"]), text_of(row.get("scope")), self._thread(row)[0]
        value = wide["global"] if isinstance(wide, dict) and "global" in wide else row.get("id")
        return text_of(row.get("cat")), identity(value if value is not None else ""), text_of(row.get("scope"))

    def _nested(self, rows: list[tuple[int, int, dict[str, Any]]]) -> None:
        stack: list[tuple[int, int, dict[str, Any]]] = []
        plane = self._own_plane(rows[0][2])
        line = ""
        ends = [0, *(ts for ts, _, row in rows if row["ph"][0] == "e")]
        for ts, order, row in rows:
            if not stack:
                line = f"async: {text_of(row.get('cat'))}/{text_of(row.get('name'))}"
            if row["ph"][0] == "b":
                stack.append((ts, order, row))
            elif row["ph"][0] == "n":
                self._add(order, row, ts, 0, self._stats(row, [("_a", "int64", 1)]), (plane, line))
            elif not stack:
                self.log["end_without_begin"] += 1
            else:
                start, begun, begin = stack.pop()
                stats = self._stats(begin, [("_a", "int64", 1)], row)
                self._add(begun, begin, start, ts - start, stats, (plane, line))
        for start, begun, begin in stack:
            self.log["begin_without_end"] += 1
            self._add(
                begun,
                begin,
                start,
                max(start, *ends) - start,
                self._stats(begin, [("unfinished", "int64", 1), ("_a", "int64", 1)]),
                (plane, line),
            )

    def _stepped(self, rows: list[tuple[int, int, dict[str, Any]]]) -> None:
        """S opens, F closes; a child of T ends at the next T or F, one of p began at the last p or S. Of steps of both
        kinds the first counts. What is never closed lasts until the next S, or the last event of its id."""
        first: tuple[int, int, dict[str, Any]] | None = None
        steps: list[tuple[int, int, dict[str, Any]]] = []
        for ts, order, row in rows:
            phase = row["ph"][0]
            if phase == "S":
                if first is not None:
                    self._legacy_slice(first, steps, ts, None)
                first, steps = (ts, order, row), []
            elif first is None:
                self.log["end_without_begin" if phase == "F" else "step_without_begin"] += 1
            elif phase == "F":
                self._legacy_slice(first, steps, ts, row)
                first = None
            elif steps and steps[0][2]["ph"][0] != phase:
                self.log["mixed_steps"] += 1
            else:
                steps.append((ts, order, row))
        if first is not None:
            self._legacy_slice(first, steps, rows[-1][0], None)

    def _legacy_slice(
        self,
        first: tuple[int, int, dict[str, Any]],
        steps: list[tuple[int, int, dict[str, Any]]],
        end: int,
        closing: dict[str, Any] | None,
    ) -> None:
        start, order, row = first
        place = self._own_plane(row), f"async: {text_of(row.get('cat'))}/{text_of(row.get('name'))}"
        extra: list[Stat] = [("_a", "int64", 1)]
        if closing is None:
            self.log["begin_without_end"] += 1
            extra.insert(0, ("unfinished", "int64", 1))
        self._add(order, row, start, end - start, self._stats(row, extra, closing), place)
        for number, (ts, at, step) in enumerate(steps):
            into = step["ph"][0] == "T"
            begin = ts if into else steps[number - 1][0] if number else start
            stop = (steps[number + 1][0] if number + 1 < len(steps) else end) if into else ts
            args = step.get("args")
            name = f"{text_of(step.get('name'))}:{text_of(args.get('step')) if isinstance(args, dict) else ''}"
            self._add(at, step, begin, stop - begin, self._stats(step, [("_a", "int64", 1)]), place, name)

    def _counter(self, order: int, row: dict[str, Any], ts: int) -> None:
        name = text_of(row.get("name"))
        if row.get("id") is not None:
            name = f"{name}[{identity(row['id'])}]"
        series: dict[str, tuple[str, Any]] = {}  # of equal names the last counts, at the place of the first
        args = row.get("args")
        for key, value in args.items() if isinstance(args, dict) else ():
            kind, number = stat(value)
            if kind == "str" and isinstance(value, str):
                kind, number = stat(Number(value)) if is_number(value) else (kind, number)
            if value is not None and (isinstance(value, Number | bool) or kind in ("int64", "uint64", "double")):
                series[key or name] = kind, number
            elif isinstance(value, str) and self.dialect == "tf1":  # lists of the largest allocations
                series[key or name] = kind, value
            else:
                series.pop(key or name, None)
        stats = [(key, *value) for key, value in series.items()]
        self._add(order, row, ts, 0, stats, (self._own_plane(row), "_counters_"), name)

    def _instant(self, order: int, row: dict[str, Any], ts: int, phase: str) -> None:
        extra: list[Stat] = []
        place = None
        if phase in "IiR":
            extra = [("s", "str", "t")] if row.get("s") is None else []
        elif phase in "NOD":
            state = {"N": "created", "O": "snapshot", "D": "deleted"}[phase]
            extra = [("object", "str", state)]
            place = self._own_plane(row), f"objects: {text_of(row.get('cat'))}"
        elif phase in "Vv":
            place = self._own_plane(row), "memory dumps"
        elif phase in "()":
            extra = [("context", "str", "enter" if phase == "(" else "leave")]
        self._add(order, row, ts, 0, self._stats(row, extra), place)

    # ---- stats

    def _args(self, row: dict[str, Any] | None) -> list[Stat]:
        args = None if row is None else row.get("args")
        stats: list[Stat] = []
        if isinstance(args, dict):
            stats = [(key, *stat(value)) for key, value in args.items()]
        elif args is not None:
            stats = [("args", *stat(args))]
        return [as_number(one) for one in stats] if self.dialect == "xprof" else stats

    def _stats(self, row: dict[str, Any], extra: list[Stat], closing: dict[str, Any] | None = None) -> list[Stat]:
        """Stats of an event, and of the args of the event that closes it."""
        merged = {name: value for name, *value in [*self._args(row), *self._args(closing)]}
        stats: list[Stat] = [(name, *value) for name, value in merged.items()]
        fields: list[Stat] = []
        if isinstance(row.get("id2"), dict):
            which = next(iter(row["id2"]))
            fields = [("id", "str", str(identity(row["id2"][which]))), ("id2", "str", which)]
        elif row.get("id") is not None:
            fields = [("id", "str", str(identity(row["id"])))]
        for key in ("scope", "s", "bp", "cname"):
            if row.get(key) is not None:
                fields.append((key, "str", text_of(row[key])))
        for key, name in (("tts", "thread_start_ps"), ("tdur", "thread_duration_ps")):
            ps = picoseconds(row.get(key))
            if ps is not None and ps in INT64:
                fields.append((name, "int64", ps))
        stack = self._stack(row)
        if stack is not None:
            fields.append(("stack", *stack))
        fields += extra
        taken = {name for name, _, _ in stats}
        return (
            stats
            + [(f"event.{name}" if name in taken else name, kind, value) for name, kind, value in fields]
            + [one for one in self._derived(row) if one[0] not in taken]
        )

    def _stack(self, row: dict[str, Any]) -> tuple[str, str] | None:
        """Kind and text: frames of the document's list are referred to."""
        if isinstance(row.get("stack"), list):
            return "str", "\n".join(text_of(frame) for frame in row["stack"])
        if row.get("sf") is None:
            return None
        frames: list[str] = []
        at: Any = str(identity(row["sf"]))
        while at is not None and at in self.frames and len(frames) < len(self.frames):
            frames.append(text_of(self.frames[at].get("name")))
            parent = self.frames[at].get("parent")
            at = None if parent is None else text_of(parent)
        return "ref", "\n".join(reversed(frames))

    def _derived(self, row: dict[str, Any]) -> list[Stat]:
        if row["ph"][0] != "X":
            return []
        if self.dialect == "tf1":
            args = row["args"] if isinstance(row.get("args"), dict) else {}
            op = args.get("op")
            known = isinstance(args.get("name"), str) and isinstance(op, str) and op != "unknown"
            return [("tf_op", "str", f"{args['name']}:{op}")] if known else []
        if self.dialect == "xprof":
            return of_xprof(row, self._process(row))
        return of_kineto(row) if self.dialect == "kineto" else []

    # ---- planes and lines

    def _process(self, row: dict[str, Any]) -> str:
        pid = self._thread(row)[0]
        return self.processes.get(pid) or (str(pid) if pid != "" else "process")

    def _own_plane(self, row: dict[str, Any]) -> str:
        """The plane of what a process does, but for the work of devices."""
        if self.dialect != "kineto":
            return self._process(row)
        pid = self._thread(row)[0]
        if pid in ("Spans", "Traces", ""):
            return "/host:profiler"
        return "/host:overhead" if pid == -1 else "/host:CPU"

    def _line(self, row: dict[str, Any]) -> str:
        pid, tid = self._thread(row)
        name = "" if tid is None else self.threads.get((pid, tid)) or str(tid)
        return name or self._own_plane(row)

    def _place(self, row: dict[str, Any]) -> tuple[str, str]:
        if self.dialect != "kineto":
            return self._process(row), self._line(row)
        category = text_of(row.get("cat")).lower()
        if category not in DEVICE:
            return self._own_plane(row), self._line(row)
        args = row.get("args") or {}
        device = identity(args.get("device", row.get("pid")))
        stream = identity(args["stream"]) if "stream" in args else trailing_number(self._thread(row)[1])
        if stream in (4294967295, 18446744073709551615):
            stream = -1
        line = self.threads.get((device, stream)) or next(
            (name for (pid, tid), name in self.threads.items() if pid == device and trailing_number(tid) == stream),
            f"stream {stream}",
        )
        if category == "gpu_user_annotation":
            line += " annotations"
        elif category in ("cuda_sync", "xpu_sync"):
            line = f"stream {stream} (sync)"
        return f"/device:{self._device_word()}:{device}", line

    def _device_word(self) -> str:
        cats = {text_of(row.get("cat")).lower().split("_")[0] for row in self.rows if isinstance(row, dict)}
        return next((word for word in ("XPU", "HPU", "MTIA") if word.lower() in cats), "GPU")

    # ---- time

    def _shifted(self, times: list[int]) -> Trace:
        zero = 0 if self.dialect == "xprof" else self._zero(times)
        kept = []
        for event in self.events:
            event.start_ps -= zero
            if event.start_ps in INT64:
                kept.append(event)
            else:
                self.log["bad_time"] += 1
        ends = [(ts - zero, thread, row) for ts, thread, row in self.ends]
        return Trace(self.dialect, zero, kept, +self.log, ends, self.bound)

    def _zero(self, times: list[int]) -> int:
        if self.dialect == "kineto":
            for row in self.rows:
                if (
                    isinstance(row, dict)
                    and row.get("ph") == "X"
                    and text_of(row.get("cat")) == "Trace"
                    and (ps := picoseconds(row.get("ts"))) is not None
                ):
                    return ps // 1000 * 1000
        unix = [ps for ps in times if ps >= UNIX_PS]
        counted = unix if len(unix) * 2 >= len(times) else [ps for ps in times if ps < UNIX_PS]
        if not counted:
            return 0
        above = sorted(ps for ps in counted if ps != 0)
        if above and len(above) < len(counted) and above[0] >= 10**12:
            counted = above
        middle = sorted(counted)[len(counted) // 2]
        near = [ps for ps in counted if abs(ps - middle) <= DAYS_PS]
        return min(near) // 1000 * 1000
