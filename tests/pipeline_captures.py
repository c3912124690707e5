"""Input pipelines whose slow stage is known, run in virtual time, and captures of the run as TensorFlow writes them.

A pipeline is stages inside one another, the outermost first::

    Root(Prefetch(Batch(Map(Source(read=20 * US), function=300 * US), 16), buffer=2))

A training loop takes batches from the outermost stage and computes on each. So how long a batch takes is known,
whatever the capture makes of it, and so it is with any change of a stage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from trace_builder import Line, Value, line, plane, u64, xspace
from virtual_time import Asleep, Clock, Running, Signal, Steps, Thread

US, MS = 1_000_000, 1_000_000_000
"""In picoseconds."""


def hashed(text: str) -> Value:
    """An id as TensorFlow writes it: 64 bits of no order, int64 where they fit, else uint64."""
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    return number if number < 1 << 63 else u64(number)


def decimal(id: Value) -> str:
    """An id as it reads."""
    assert isinstance(id, int | u64)
    return str(id.value if isinstance(id, u64) else id)


# ---- stages ---------------------------------------------------------------------------------------


@dataclass
class Stage:
    """``own``: time of a call besides what its inputs and functions take, in picoseconds; ``index``: which input of its
    consumer it is, where the consumer has several."""

    name: str
    inputs: tuple[Stage, ...] = ()
    own: int = 0
    index: int | None = None
    stats: dict[str, Value] = field(default_factory=dict)
    long_name = ""

    def open(self, clock: Clock, parent: Stage | None = None, salt: str = "") -> None:
        """Places the stage below its parent; threads begin with the first call."""
        self.clock = clock
        self.parent = parent
        at = "" if self.index is None else f"[{self.index}]"
        self.long_name = f"{'Iterator' if parent is None else parent.long_name}{at}::{self.name}"
        self.salt = salt
        self.id = hashed(salt + self.long_name)
        self.started = False
        for each in self.inputs:
            each.open(clock, self, salt)

    def every(self) -> Iterator[Stage]:
        waiting = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting.extend(reversed(one.inputs))

    def get(self, thread: Thread) -> Steps:
        """An element, taken on a thread: the event of the iterator."""
        if not self.started:
            self.started = True
            self.start()
        parent: dict[str, Value] = {} if self.parent is None else {"parent_id": self.parent.id}
        with thread.event(self.long_name, id=self.id, **parent, **self.stats):
            yield self.own
            yield from self.produce(thread)

    def start(self) -> None: ...

    def produce(self, thread: Thread) -> Steps:
        for each in self.inputs:
            yield from each.get(thread)


def element(stage: Stage, number: int) -> int:
    digest = hashlib.blake2b(f"{stage.salt}{stage.long_name} {number}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big")


class Source(Stage):
    """Reads from a file."""

    def __init__(self, read: int, name: str = "TFRecord", asleep: bool = False) -> None:
        super().__init__(name)
        self.read, self.asleep = read, asleep

    def produce(self, thread: Thread) -> Steps:  # noqa: ARG002 - all of it is the reader's own
        yield worked(self.read, self.asleep)


class Passing(Stage):
    """Hands on what its input gives: Root, Model, Shuffle."""

    def __init__(self, name: str, input: Stage, own: int = 0) -> None:
        super().__init__(name, (input,), own)


class Outermost(Passing):
    """What the program calls. It records how many cores and threads there are, if that is known."""

    def __init__(self, input: Stage) -> None:
        super().__init__("Root", input)

    def open(self, clock: Clock, parent: Stage | None = None, salt: str = "") -> None:
        stats = {"cpu_budget": clock.cores, "threadpool_size": clock.pool}
        self.stats |= {name: value for name, value in stats.items() if value is not None}
        super().open(clock, parent, salt)


def Root(input: Stage) -> Stage:  # noqa: N802 - makes a stage
    return Outermost(input)


def worked(time_ps: int, asleep: bool) -> int | Asleep:
    return Asleep(time_ps) if asleep else time_ps


class Map(Stage):
    """A function of the user, one element after the other."""

    def __init__(self, input: Stage, function: int, own: int = 0, asleep: bool = False) -> None:
        super().__init__("Map", (input,), own)
        self.function, self.asleep = function, asleep

    def produce(self, thread: Thread) -> Steps:
        yield from self.inputs[0].get(thread)
        with thread.event("InstantiatedCapturedFunction::Run", id=element(self, self.clock.now_ps)):
            yield worked(self.function, self.asleep)


class Batch(Stage):
    def __init__(self, input: Stage, size: int, own: int = 20 * US) -> None:
        super().__init__("BatchV2", (input,), own, stats={"batch_size": size, "drop_remainder": "false"})
        self.size = size

    def produce(self, thread: Thread) -> Steps:
        for _ in range(self.size):
            yield from self.inputs[0].get(thread)


class Interleave(Stage):
    """One input after the other, on the thread of the consumer."""

    def __init__(self, inputs: Sequence[Stage]) -> None:
        super().__init__("Interleave", tuple(inputs), US, stats={"cycle_length": len(inputs), "block_length": 1})
        for index, each in enumerate(inputs):
            each.index = index
        self.taken = 0

    def produce(self, thread: Thread) -> Steps:
        self.taken += 1
        yield from self.inputs[self.taken % len(self.inputs)].get(thread)


class Ahead(Stage):
    """Elements made by threads of its own, before they are asked for; taken in the order in which they were begun.

    ``ready``: ids of elements by number, from when they are there; at most ``limit`` are begun and not yet taken."""

    produced = consumed = ""
    take = hand_over = US
    """Picoseconds that taking an element takes, and that handing it to a thread takes."""

    def __init__(self, name: str, inputs: Sequence[Stage], limit: int, stats: dict[str, Value], own: int = 0) -> None:
        super().__init__(name, tuple(inputs), own, stats=stats)
        self.limit = limit
        self.ready: set[int] = set()
        self.begun = self.taken = 0

    def start(self) -> None:
        self.changed = Signal()
        for number, runner in enumerate(self.runners()):
            self.clock.begin(runner(self.clock.thread(f"{self.long_name} {number}")))

    def runners(self) -> Sequence[Callable[[Thread], Running]]:
        return [self.run]

    def run(self, thread: Thread) -> Running:
        """A thread that makes elements, one inside the event of each."""
        while True:
            number = yield from self.room()
            with thread.event(self.produced, element_id=element(self, number)):
                yield from self.inputs[0].get(thread)
            self.done(number)

    def room(self) -> Steps:
        """Waits until another element may be begun; its number."""
        while self.begun - self.taken >= self.limit:
            yield self.changed
        self.begun += 1
        return self.begun - 1

    def done(self, number: int) -> None:
        self.ready.add(number)
        self.clock.wake(self.changed)

    def produce(self, thread: Thread) -> Steps:
        while self.taken not in self.ready:
            yield self.changed
        with thread.event(self.consumed, element_id=element(self, self.taken)):
            yield self.take
        self.ready.discard(self.taken)
        self.taken += 1
        self.clock.wake(self.changed)


class Prefetch(Ahead):
    """A thread that keeps a buffer full."""

    produced, consumed = "PrefetchProduce", "PrefetchConsume"

    def __init__(self, input: Stage, buffer: int, own: int = 0) -> None:
        super().__init__("Prefetch", [input], buffer, {"buffer_limit": buffer, "autotune": "false"}, own)


class ParallelMap(Ahead):
    """A function of the user for several elements at a time; one thread takes them and hands them to others."""

    produced, consumed = "ParallelMapProduce", "ParallelMapConsume"

    def __init__(self, input: Stage, function: int, calls: int, own: int = 0, asleep: bool = False) -> None:
        stats: dict[str, Value] = {"parallelism": calls, "autotune": "false", "deterministic": "true"}
        super().__init__("ParallelMapV2", [input], calls, stats, own)
        self.function, self.asleep = function, asleep

    def start(self) -> None:
        self.idle = [self.clock.thread(f"{self.long_name} function {number}") for number in range(self.limit)]
        super().start()

    def run(self, thread: Thread) -> Running:
        while True:
            number = yield from self.room()
            with thread.event(self.produced, element_id=element(self, number)):
                yield from self.inputs[0].get(thread)
                with thread.event("InstantiatedCapturedFunction::RunAsync", id=element(self, -number)):
                    yield self.hand_over
            self.clock.begin(self.apply(self.idle.pop(), number))

    def apply(self, thread: Thread, number: int) -> Running:
        yield from self.clock.in_pool()
        with thread.event("ExecutorState::Process", id=element(self, -number), iter_num=0):
            yield worked(self.function, self.asleep)
        self.clock.leave_pool()
        self.idle.append(thread)
        self.done(number)


class ParallelInterleave(Ahead):
    """A thread for each of several inputs, which take turns: element n is of input n modulo their number."""

    produced, consumed = "ParallelInterleaveProduce", "ParallelInterleaveConsume"

    def __init__(self, inputs: Sequence[Stage], ahead: int = 1, own: int = 0) -> None:
        stats: dict[str, Value] = {"cycle_length": len(inputs), "block_length": 1, "parallelism": len(inputs)}
        super().__init__("ParallelInterleaveV4", inputs, ahead * len(inputs), stats, own)
        for index, each in enumerate(inputs):
            each.index = index

    def runners(self) -> Sequence[Callable[[Thread], Running]]:
        return [partial(self.read, input, number) for number, input in enumerate(self.inputs)]

    def read(self, input: Stage, number: int, thread: Thread) -> Running:
        while True:
            while number - self.taken >= self.limit:
                yield self.changed
            with thread.event(self.produced, element_id=element(self, number)):
                yield from input.get(thread)
            self.done(number)
            number += len(self.inputs)


class Generator(Stage):
    """On a device: asks the host's pipeline for the batch, which a thread of the host has copied to the device."""

    def __init__(self, fed: Fed) -> None:
        super().__init__("Generator")
        self.fed = fed

    def produce(self, thread: Thread) -> Steps:
        with thread.event("MultiDeviceIteratorGetNextFromShard:MultiDeviceIteratorGetNextFromShard"):
            yield from self.fed.take(thread)


class Fed:
    """Batches of a host's pipeline, taken by a thread of their own and copied to a device."""

    def __init__(self, host: Stage, copy: int, buffer: int) -> None:
        self.host, self.copy, self.buffer = host, copy, buffer
        self.there = 0

    def open(self, clock: Clock, salt: str) -> None:
        self.clock, self.changed = clock, Signal()
        self.host.open(clock, salt=salt)
        clock.begin(self.run(clock.thread("multi_device_iterator_background_thread")))

    def run(self, thread: Thread) -> Running:
        while True:
            while self.there >= self.buffer:
                yield self.changed
            yield from self.host.get(thread)
            yield self.copy
            self.there += 1
            self.clock.wake(self.changed)

    def take(self, thread: Thread) -> Steps:  # noqa: ARG002 - as stages are asked
        while not self.there:
            yield self.changed
        self.there -= 1
        self.clock.wake(self.changed)


# ---- a training loop ------------------------------------------------------------------------------


@dataclass
class Run:
    """What happened: begin of each step, how long each waited for its batch, in picoseconds."""

    clock: Clock
    begun: list[int]
    waited: list[int]
    first: int

    @property
    def batch_ps(self) -> float:
        """How long a batch takes, once the pipeline runs evenly: from step to step, since the capture began."""
        steps = self.begun[self.first :]
        return (steps[-1] - steps[0]) / (len(steps) - 1)

    def capture(self, hostnames: Sequence[str] = ("vm",)) -> bytes:
        """What a profiler sees that watches from the begin of step ``first`` to the begin of the last."""
        return xspace(plane("/host:CPU", self.lines()), hostnames=list(hostnames))

    def lines(self) -> list[Line]:
        begin, end = self.begun[self.first], self.begun[-1]
        threads = [(one.name, one.between(begin, end)) for one in self.clock.threads]
        return [line(name, events, id=number) for number, (name, events) in enumerate(threads, 1) if events]


def train(
    *outermost: Stage,
    compute: int,
    steps: int = 12,
    first: int = 4,
    fed: Fed | None = None,
    salt: str = "",
    cores: int | None = None,
    pool: int | None = None,
    on_device: bool = False,
) -> Run:
    """A loop that takes a batch of each pipeline, then computes, on a device or a core. The first steps are not
    captured: buffers fill. ``cores``, ``pool``: how many, and threads that run functions; None: always enough."""
    clock = Clock(cores, pool)
    for number, each in enumerate(outermost):
        each.open(clock, salt=f"{salt}{number or ''}")
    if fed is not None:
        fed.open(clock, f"{salt}fed")
    run = Run(clock, [], [], first)
    clock.begin(_loop(run, outermost, worked(compute, on_device)))
    clock.run_until(lambda: len(run.begun) > steps)
    return run


def _loop(run: Run, outermost: Sequence[Stage], compute: int | Asleep) -> Running:
    thread = run.clock.thread("main")
    while True:
        number, begin = len(run.begun), run.clock.now_ps
        run.begun.append(begin)
        with thread.event("train", _r=1, step_num=number):
            for place, each in enumerate(outermost):
                with thread.event("IteratorGetNextOp::DoCompute", id=number * 10 + place, iter_num=0):
                    yield from each.get(thread)
            run.waited.append(run.clock.now_ps - begin)
            with thread.event("model/MatMul:MatMul"):
                yield compute
