"""Runs that are being captured, ``LOGDIR/plugins/profile/RUN``, into which each host's capture is written when it
arrives; what a fresh capture lacks, with the flags by which the next one gets it; and programs that record themselves:
``with fastprof.record(logdir, steps=(10, 15)) as recording: …``."""

from __future__ import annotations

import os
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from socket import gethostname
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastprof.derive.ops.record_checks import CODES, PROFILER_ERROR
from fastprof.errors import FastprofError, NotFoundError, OutputError, UsageError
from fastprof.export.new_files import LOGDIR, make_hidden_folder, move_file, open_new_file, wrap_output_errors
from fastprof.export.xspace_files import SUFFIX, name_files
from fastprof.inputs.framework_profilers import ProfilerLevels, find_profiler
from fastprof.inputs.log_directory import PROFILE, WITHOUT_PYTHON
from fastprof.inputs.own_profiler import RecordedWindow, Recorder
from fastprof.inputs.step_times import RecordingCost
from fastprof.profile.run_names import is_run_name, number_name, suggest_run_names
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import count_noun, format_time

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile
    from fastprof.profile.report import Report
    from fastprof.profile.run_upload import RunUpload


_MOST_TRIES: Final = 600
_CAPTURES: Final = ("*.xplane.pb", "*.pt.trace.json")
_PIECE: Final = 1 << 26
_NAMED: Final[deque[Path]] = deque(maxlen=_MOST_TRIES)
"""Runs that this process has named by the time. A name is not given again when its run is removed, so that names sort
by the time they were taken."""


class CapturedRun:
    """Run that is being captured. ``name``: name of the run (see ``is_run_name``); None: the next time, in whole
    seconds, that no other run has. ``is_shared``: other processes write to the named run, too. Raises OutputError."""

    def __init__(self, log_directory: str, name: str | None = None, *, is_shared: bool = False) -> None:
        self._made: list[Path] = []
        self._hosts: list[str] = []
        self._files: list[Path] = []
        self._lock = threading.Lock()
        profile = Path(log_directory, *PROFILE)
        with wrap_output_errors(log_directory, "cannot make the directory of the run"):
            for folder in (*reversed(profile.parents), profile):
                self._make(folder, is_shared=True)
            self.path = self._named(profile, name, is_shared) if name is not None else self._timed(profile)

    @property
    def name(self) -> str:
        return self.path.name

    def save(self, host: str, pieces: Sequence[memoryview]) -> str:
        """Write the capture of a host, and return its path. Threads may call it. Raises OutputError."""
        with self._lock:
            self._hosts.append(host)
            path = str(self.path / name_files(self._hosts)[-1])
        with open_new_file(path, force=False) as write:
            for piece in pieces:
                for at in range(0, len(piece), _PIECE):
                    write(piece[at : at + _PIECE])
        with self._lock:
            self._files.append(Path(path))
        return path

    def take(self, file: Path) -> Path:
        """Move a complete capture here from the same file system; if its name is taken, it gets a number, too."""
        with wrap_output_errors(str(self.path)):
            for name in number_name(file.name):
                target = self.path / name
                if move_file(file, target):
                    break
        return target

    def remove(self) -> None:
        """Remove what was saved here; the directory goes if others have put nothing into it. Raises OutputError."""
        with wrap_output_errors(str(self.path), "cannot delete"):
            for file in self._files:
                file.unlink(missing_ok=True)
        _remove_if_empty(self.path)

    def remove_if_empty(self) -> None:
        """Remove the run if it is empty, and the directories above it that were made for it."""
        for folder in reversed(self._made):
            _remove_if_empty(folder)

    def _named(self, profile: Path, name: str, is_shared: bool) -> Path:
        path = profile / name
        if not self._make(path, is_shared=is_shared) and not is_shared:
            raise OutputError("already exists; give the run another name", path=str(path))
        return path

    def _timed(self, profile: Path) -> Path:
        for name in islice(suggest_run_names(), _MOST_TRIES):
            path = profile / name
            if path not in _NAMED and self._make(path):
                _NAMED.append(path)
                return path
        raise OutputError("has runs of all of the next seconds", path=str(profile))

    def _make(self, folder: Path, *, is_shared: bool = False) -> bool:
        """Make the directory, and return whether it was made. ``is_shared``: another process may make it meanwhile."""
        if is_shared and folder.is_dir():
            return False
        try:
            folder.mkdir()
        except FileExistsError:
            if is_shared and not folder.is_dir():
                raise
            return False
        self._made.append(folder)
        return True


class NewestRuns:
    """Newest runs of repeated captures: the newest ``most`` stay; None keeps all."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._runs: deque[CapturedRun] = deque()

    def add(self, run: CapturedRun) -> None:
        """Add a run, and remove what is too old. Raises OutputError."""
        self._runs.append(run)
        while self._most is not None and len(self._runs) > self._most:
            self._runs.popleft().remove()


@contextmanager
def make_unfinished_folder(log_directory: str) -> Iterator[Path]:
    """Make a hidden folder in a log directory, for what a profiler writes before it moves to a run. If nothing does, a
    log directory that was made for it goes, too. Raises OutputError."""
    path = Path(log_directory)
    with wrap_output_errors(log_directory, "cannot write to the log directory"), ExitStack() as made:
        if not path.is_dir():
            path.mkdir(parents=True)
            made.callback(_remove_if_empty, path)
        # Locks of a file system may not reach other machines: each only deletes what its own processes have left.
        folder = made.enter_context(
            make_hidden_folder(path / f"recording-{name_files([gethostname()])[0].removesuffix(SUFFIX)}")
        )
        made = made.pop_all()
    with made:
        yield folder


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def move_to_run(folder: Path, log_directory: str, name: str | None) -> str | None:
    """Move what a profiler wrote somewhere below the folder to a run, which other processes may write to if it has a
    name. Returns the run, or None if nothing was written. Raises OutputError."""
    files = sorted(file for pattern in _CAPTURES for file in folder.rglob(pattern))
    if not files:
        return None
    run = CapturedRun(log_directory, name, is_shared=True)
    try:
        for file in files:
            run.take(file)
    finally:
        run.remove_if_empty()
    return str(run.path)


def open_upload(log_directory: str, *, is_named: bool) -> RunUpload | None:
    """Return what uploads runs if the log directory is the URL of a store. ``is_named``: the user has named the run.
    Raises UsageError, OutputError."""
    from fastprof.inputs.stores.store_path import is_url

    if not is_url(log_directory):
        return None
    from fastprof.profile.run_upload import RunUpload  # late: most runs stay here

    return RunUpload(log_directory, is_named=is_named)


def name_without_python(path: str) -> str:
    """Return the name of the second run, without Python functions, of the run at ``path``."""
    return Path(path).name + WITHOUT_PYTHON


_FEWEST_STEPS: Final = 3
_ENOUGH_STEPS: Final = 10
_OF_DURATION: Final = 0.9
_MOST_TEXTS: Final = 5
_LONGEST: Final = 300
DAMAGED: Final = "damaged"
_SALVAGE: Final = "read it with on_error=salvage, which keeps the intact parts"


@dataclass(frozen=True, slots=True)
class Check:
    """Something that a capture lacks. ``code``: for programs; ``host``: None if it applies to all hosts."""

    code: str
    host: str | None
    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class _Words:
    host_tracer: str
    device_tracer: str
    longer: str
    fewer_events: str


_LESS: Final = "--python-level 0 or --host-level 1"
_OFF: Final = ("--host-level 2", "--device-level 1")
_LONGER: Final = "--steps 10:20, or --duration {seconds}s if the program marks no steps"
_WORDS: Final = {
    "capture": _Words(*_OFF, "--duration {seconds}s", f"a shorter --duration, {_LESS}"),
    "run": _Words(*_OFF, _LONGER, f"fewer --steps, a shorter --duration, {_LESS}"),
    "record": _Words("host_level=2", "device_level=1", "steps=(10, 20)", "fewer steps, python_level=0 or host_level=1"),
}


def check_capture(
    profile: Profile, duration_ps: int, host_level: int, device_level: int, verb: str = "capture"
) -> list[Check]:
    """Return what a run that was captured with these levels lacks. ``duration_ps``: as requested, or 0 if not for a
    time. ``verb``: what captured it: "capture", "run", or "record" of the API. Reads all events."""
    words = _WORDS[verb]
    reports = profile.reports_together("steps", "diagnosis")
    lacks = {row["what"]: row["how"] for row in reports["diagnosis"].tables["unrecorded"].to_pylist()}
    checks = list(_check_steps(reports["steps"], lacks, duration_ps, words)) if host_level else []
    if host_level == 0:
        checks.append(Check("host_tracer_off", None, "the host tracer was off: host threads and the causes of device "
                            "waits are not recorded", words.host_tracer))  # fmt: skip
    elif "host threads" in lacks:
        checks.append(Check("no_host_threads", None, "a host has no thread events: its program had no activity that "
                            "the profiler records", "check whether the program was running or waiting"))  # fmt: skip
    if device_level == 0:
        checks.append(Check("device_tracer_off", None, "the device tracer was off: device work is not recorded",
                            words.device_tracer))  # fmt: skip
    for host in profile.tables["hosts"].to_pylist():
        checks += _check_host(host, duration_ps, words)
    return [*_check_losses(profile), *checks]


def describe_content(profile: Profile) -> str:
    """Return the content of a run in one line: time, steps, and kinds of events."""
    reports = profile.reports_together("steps", "diagnosis")
    lacks = {row["what"] for row in reports["diagnosis"].tables["unrecorded"].to_pylist()}
    hosts = [(host["start_unix_ns"], host["stop_unix_ns"]) for host in profile.tables["hosts"].to_pylist()]
    times = [1000 * (stop - start) for start, stop in hosts if start is not None and stop is not None]
    time_ps = max(times, default=0) or _get_whole(reports["diagnosis"].scalars["window_ps"].value)
    steps = _get_whole(reports["steps"].scalars["step_count"].value)
    devices = {kind for kind in profile.tables["planes"]["device_type"].to_pylist() if kind and kind != "CPU"}
    kinds = ["host ops"] if "host threads" not in lacks else []
    kinds += ["Python functions"] if "Python functions" not in lacks else []
    kinds += [f"devices ({', '.join(sorted(devices))})"] if devices else []
    return f"{format_time(time_ps)}, {count_noun(steps, 'step', 'steps')}: {', '.join(kinds) or 'no events'}"


def _check_losses(profile: Profile) -> Iterator[Check]:
    """Yield what is damaged in captures that were loaded with ``on_error="salvage"``, and which records contradict
    others. What the profiler itself recorded as errors is in the table of hosts."""
    for row in profile.tables["import_log"].to_pylist():
        if row["code"] in CODES:
            if row["code"] != PROFILER_ERROR:
                yield Check(row["code"], row["path"], f"the capture is incomplete: {row['example'][:_LONGEST]}", "")
        elif row["severity"] == "data_loss":
            yield Check(DAMAGED, row["path"], f"the capture is damaged: {row['example'][:_LONGEST]}", _SALVAGE)


def _check_steps(steps: Report, lacks: dict[str, str], duration_ps: int, words: _Words) -> Iterator[Check]:
    count, time = (_get_whole(steps.scalars[name].value) for name in ("step_count", "step_time_mean_ps"))
    if not count:
        why = "; ".join(notice.text.rstrip(".") for notice in steps.notices if notice.severity == "warning")
        yield Check(
            "no_steps", None, f"there are no steps{why and f': {why}'}", lacks.get("steps", "mark steps in the program")
        )
    elif count < _FEWEST_STEPS:
        longest = max(duration_ps // count, time)
        enough = -(-_ENOUGH_STEPS * longest // 10**12)
        yield Check("few_steps", None,
                    f"the run has only {count_noun(count, 'complete step', 'complete steps')}; means and "
                    "outliers need about ten", words.longer.format(seconds=enough))  # fmt: skip


def _get_whole(figure: object) -> int:
    """0: unknown."""
    return round(figure) if isinstance(figure, int | float) else 0


def _check_host(host: dict[str, Any], duration_ps: int, words: _Words) -> Iterator[Check]:
    name, start, stop = host["host"], host["start_unix_ns"], host["stop_unix_ns"]
    if start is not None and stop is not None and 0 <= (took := 1000 * (stop - start)) < _OF_DURATION * duration_ps:
        yield Check("too_short", name, f"{format_time(took)} of the requested {format_time(duration_ps)} were recorded",
                    "the capture ended early: it was interrupted, or the program ended")  # fmt: skip
    for code in ("errors", "warnings"):
        for text in host[code][:_MOST_TEXTS]:
            dropped = "drop" in text.casefold()
            advice = f"fewer events fit: {words.fewer_events}" if dropped else ""
            yield Check("events_dropped" if dropped else f"profiler_{code}", name, text[:_LONGEST], advice)


# ---- a program that records itself


_WAIT: Final = "next_batch"
"""Name that analyses know as input."""

Item = TypeVar("Item")


def record(
    logdir: str | os.PathLike[str] = LOGDIR,
    *,
    steps: tuple[int, int] | None = None,
    run: str | None = None,
    host_level: int = 2,
    device_level: int = 1,
    python_level: int | None = None,
    advanced: Mapping[str, str | bool | int] | None = None,
    framework: str | None = None,
) -> Recording:
    """Record this program with the profiler of its framework: JAX, TensorFlow or PyTorch. Use it in ``with``.

    ``logdir``: the capture becomes ``LOGDIR/plugins/profile/RUN/HOST.xplane.pb`` (PyTorch: ``….pt.trace.json``). By
    default LOGDIR is the folder fastprof-runs in the working directory. It may be the URL of a store, such as
    ``gs://bucket/logs``: the capture is uploaded when it is complete.
    ``steps``: record from step ``steps[0]`` to ``steps[1]`` (exclusive), counted from 0 in the block by
    ``Recording.steps``, ``step`` or ``keras_callback``. Without it the entire block is recorded.
    ``run``: name of the run; default: the time. Processes of one program that give the same name share the run.
    ``host_level`` 0 to 3, ``device_level`` 0 or 1, ``python_level`` 0 or 1: what the tracers record. Without
    ``python_level`` it is 1; if recorded steps take over 5 % longer than unrecorded steps in the block, equally many
    later steps become the run ``RUN_without_python``.
    ``advanced``: options of JAX's profiler, such as those of TPUs. ``framework``: "jax", "tensorflow" or "torch";
    default: the first of these that the program has imported.

    Raises UsageError: an argument is invalid, nothing is imported, or a profiler is recording already; OutputError.
    """
    if steps is not None and not (isinstance(steps, tuple | list) and len(steps) == 2 and 0 <= steps[0] < steps[1]):
        raise UsageError(f"steps is a first step and the one after the last, as in (10, 15), not {steps!r}")
    if run is not None and not is_run_name(run):
        raise UsageError(f"{run!r} cannot be the name of a run: it is the name of one directory")
    levels = ProfilerLevels(host_level, device_level, 1 if python_level is None else python_level, dict(advanced or {}))
    levels.check()
    without_python = replace(levels, python=0) if python_level is None and steps is not None else None
    return Recording(os.fspath(logdir), steps, run, levels, framework, without_python)


class Recording:
    """Recording in progress: counts steps, and has the ``profile`` when it ends."""

    def __init__(
        self,
        logdir: str,
        steps: tuple[int, int] | None,
        run: str | None,
        levels: ProfilerLevels,
        framework: str | None,
        without_python: ProfilerLevels | None = None,
    ) -> None:
        self._logdir, self._steps, self._run_name, self._levels = logdir, steps, run, levels
        self._upload: RunUpload | None = None
        self._framework, self._without_python = framework, without_python
        self._recorder: Recorder | None = None
        self._folder = Path()
        self._unfinished = ExitStack()
        self.path: str | None = None
        """Directory of the run, or None until there is one."""
        self.path_without_python: str | None = None
        """Directory of the second run, without Python functions, or None."""

    def __enter__(self) -> Recording:
        if self._recorder is not None:
            raise UsageError("a recording is used once; call fastprof.record again")
        profiler = find_profiler(self._framework)
        self._upload = open_upload(self._logdir, is_named=self._run_name is not None)
        if self._upload is not None:
            self._unfinished.callback(self._upload.discard)
            self._logdir = self._upload.folder
        self._folder = self._unfinished.enter_context(make_unfinished_folder(self._logdir))
        self._recorder = Recorder(
            lambda: profiler, str(self._folder), self._levels, self._steps, self._deliver, self._without_python
        )
        try:
            if self._steps is None:
                self._recorder.begin()
        except BaseException:
            self._unfinished.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        recorder = self._entered()
        try:
            recorder.end_step()
            recorder.end()
        except Exception as fault:  # the program's own exception matters more
            if error is None:
                raise
            error.add_note(f"fastprof: {fault}")
        finally:
            recorder.is_over = True
            self._unfinished.close()
        if self.path is None and error is None:
            warnings.warn(self._why_nothing(), stacklevel=2)

    def step(self) -> None:
        """Begin a step here, and end the one before: call it first in the body of the loop."""
        self._entered().count(is_marked=True)

    def steps(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items, one a step: ``for batch in recording.steps(batches)``. A step lasts until the next item is
        there, so that waiting for input belongs to steps; the wait is marked as such."""
        rest, recorder = iter(items), self._entered()
        try:
            while True:
                with recorder.section(_WAIT):
                    try:
                        item = next(rest)
                    except StopIteration:
                        return
                recorder.count(is_marked=True)
                yield item
        finally:
            recorder.end_step()

    def keras_callback(self) -> Any:
        """Return a callback for ``fit``, of the Keras that the program has imported: a step is a batch of training."""
        from fastprof.inputs.own_profiler import make_callback

        return make_callback(self._entered())

    @cached_property
    def profile(self) -> Profile:
        """Profile of the recording. Raises NotFoundError if nothing is recorded yet."""
        if self.path is None:
            raise NotFoundError(self._why_nothing())
        from fastprof.profile.loading import load

        return load(self.path)

    @cached_property
    def remarks(self) -> list[Check]:
        """Missing records of the capture, each with ``text`` and ``advice``; reads all events."""
        return check_capture(self.profile, 0, self._levels.host, self._levels.device, "record")

    def __repr__(self) -> str:
        steps = "" if self._steps is None else f" of steps {self._steps[0]} to {self._steps[1] - 1}"
        return f"<fastprof recording{steps}: {self.path or self._why_nothing()}>"

    def _entered(self) -> Recorder:
        if self._recorder is None:
            raise UsageError("a recording is used in with: with fastprof.record(…) as recording")
        return self._recorder

    @property
    def cost(self) -> RecordingCost:
        """Step times with and without recording so far; ``str(cost)`` is a sentence."""
        recorder = self._recorder
        if recorder is None or not recorder.windows:
            return RecordingCost(why=self._why_nothing())
        if self._steps is None:
            return RecordingCost(why="the entire block was recorded, so there are no unrecorded steps to compare")
        return recorder.measure_cost(0)

    def _deliver(self, window: RecordedWindow) -> None:
        name = self._run_name if self.path is None else name_without_python(self.path)
        path = move_to_run(Path(window.folder), self._logdir, name)
        if path is not None and self._upload is not None:
            path = self._upload.send(path)
        if self.path is None:
            self.path = path
        else:
            self.path_without_python = path
        if self.path is None:
            raise FastprofError("the profiler has written no capture")

    def _why_nothing(self) -> str:
        recorder = self._recorder
        if recorder is not None and recorder.is_recording:
            return "it is still recording"
        if recorder is not None and self._steps is not None and recorder.counted <= self._steps[0]:
            return (
                f"nothing was recorded: step {self._steps[0]} has not begun; {recorder.counted} steps were counted, by "
                "recording.steps(…), recording.step() or recording.keras_callback()"
            )
        return "nothing was recorded"
