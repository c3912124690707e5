"""The rivals: which version, how each is installed, and the command that does a job with it.

Each rival has a virtual environment of its own under ``.rivals``, built here with pip. Nothing of a
rival is imported into this process.

    python benchmarks/rivals.py            builds all of them, and says what is where
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measure import Job

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / ".rivals"

XPROF_RS_EVENTS = 5_000_001
"""Events after which ``aggregate_xplane_events`` stops counting, though it has read the whole file."""


class RivalMissingError(Exception):
    """A rival could not be installed; says what pip said."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A program or library to compare with: what pip installs, what people call it, and the one Python that it is
    made for, where there is one."""

    key: str
    title: str
    packages: tuple[str, ...]
    python: tuple[int, int] | None = None

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / self.key

    def program(self, name: str) -> str:
        """A program of the environment, which is built first if it is missing or of other versions."""
        self.build()
        return str(self.folder / "bin" / name)

    def build(self) -> None:
        stamp = self.folder / "packages.txt"
        wanted = "\n".join(self.packages)
        if stamp.exists() and stamp.read_text() == wanted:
            return
        print(f"installing {self.title}", file=sys.stderr, flush=True)
        done = subprocess.run(
            [self._interpreter(), "-m", "venv", "--clear", str(self.folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RivalMissingError(f"no environment for {self.title}: {done.stderr.strip() or done.stdout.strip()}")
        pip = [str(self.folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *self.packages]
        done = subprocess.run([*pip, "--disable-pip-version-check"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RivalMissingError(f"{self.title} could not be installed: {done.stderr.strip()}")
        stamp.write_text(wanted)

    def _interpreter(self) -> str:
        """A Python that the rival runs on."""
        if self.python in (None, sys.version_info[:2]):
            return sys.executable
        name = "python{}.{}".format(*self.python)
        if found := shutil.which(name):
            return found
        raise RivalMissingError(f"{self.title} needs {name}, which is not on the path")


XPROF_RS = Rival("xprof-rs", "xprof-rs 0.1.3", ("xprof-rs==0.1.3",))
XPROF = Rival("xprof", "XProf 2.24.2", ("xprof==2.24.2",))
JAX = Rival("jax", "JAX 0.10.2", ("jax==0.10.2", "jaxlib==0.10.2"))
PROTOBUF = Rival("protobuf", "protobuf 7.36.2", ("protobuf==7.36.2",))
TENSORFLOW = Rival("tensorflow", "TensorFlow 2.14.1", ("tensorflow-cpu==2.14.1",), (3, 11))
"""The last TensorFlow whose profiler analyses tf.data."""
SIMDJSON = Rival("simdjson", "pysimdjson 7.0.2", ("pysimdjson==7.0.2",))
HTA = Rival("hta", "HolisticTraceAnalysis 0.5.0", ("HolisticTraceAnalysis==0.5.0",))
ALL = (XPROF_RS, XPROF, JAX, PROTOBUF, TENSORFLOW, SIMDJSON, HTA)


def aggregate(capture: Path) -> Job:
    """xprof-rs groups all events by name: count, total, mean, least, most; it reads no stat."""
    return Job("xprof-rs", (XPROF_RS.program("xprof-rs"), "aggregate_xplane_events", str(capture)))


def profile_data(capture: Path, *, stats: bool) -> Job:
    """JAX reads a capture and walks every event in Python: name, start, duration and, if asked, stats."""
    what = "stats" if stats else "names"
    command = (
        JAX.program("python"),
        str(HERE / "jax_reader.py"),
        str(capture),
        "stats" if stats else "names",
    )
    return Job(f"jax-{what}", command, reports=True)


def protobuf(capture: Path) -> Job:
    """The protobuf runtime parses a capture; Python walks every event and every stat of it."""
    command = (PROTOBUF.program("python"), str(HERE / "protobuf_reader.py"), str(capture))
    return Job("protobuf", command, reports=True)


def create_events_db(capture: Path, scratch: Path) -> Job:
    """XProf writes the events of a capture to Parquet, its stats as one text a row."""
    command = (XPROF.program("xprof"), "create_events_db", str(capture), "--bypass_cache")
    return Job("create_events_db", command, environment={"TMPDIR": str(scratch)})


def get_overview(run: Path) -> Job:
    """xprof-rs computes the overview of a run directory."""
    return Job("get_overview", (XPROF_RS.program("xprof-rs"), "get_overview", str(run)))


def get_hlo_stats(run: Path) -> Job:
    """xprof-rs computes the HLO stats of a run directory: less than half of the columns of XProf's."""
    return Job("get_hlo_stats", (XPROF_RS.program("xprof-rs"), "get_hlo_stats", str(run), "--bypass_cache"))


def get_hlo_op_profile(run: Path) -> Job:
    """xprof-rs computes the op profile of a run directory: its top ops, by category."""
    return Job("get_hlo_op_profile", (XPROF_RS.program("xprof-rs"), "get_hlo_op_profile", str(run), "--bypass_cache"))


def xprof(run: Path, tool: str) -> Job:
    """XProf computes one of its pages of a run directory, and writes files there."""
    command = (XPROF.program("python"), str(HERE / "xprof_reader.py"), str(run), tool)
    return Job(tool, command, reports=True)


def get_memory_profile(run: Path) -> Job:
    """xprof-rs sums up the memory profile of a run directory: the peak and its parts, nothing more."""
    return Job("get_memory_profile", (XPROF_RS.program("xprof-rs"), "get_memory_profile", str(run)))


def tf_data(run: Path) -> Job:
    """TensorFlow analyses the tf.data pipelines of a run directory."""
    command = (TENSORFLOW.program("python"), str(HERE / "tensorflow_reader.py"), str(run))
    return Job("tf_data_bottleneck_analysis", command, reports=True)


MAKERS: dict[str, Callable[[Path], Job]] = {
    "xprof-rs": aggregate,
    "jax-names": lambda capture: profile_data(capture, stats=False),
    "jax-stats": lambda capture: profile_data(capture, stats=True),
    "protobuf": protobuf,
}
"""Jobs that need nothing but a capture."""

RUN_MAKERS: dict[str, Callable[[Path], Job]] = {
    "get_overview": get_overview,
    "get_memory_profile": get_memory_profile,
    "tf_data_bottleneck_analysis": tf_data,
    "get_hlo_stats": get_hlo_stats,
    "get_hlo_op_profile": get_hlo_op_profile,
    "op_profile": lambda run: xprof(run, "op_profile"),
    "hlo_stats": lambda run: xprof(run, "hlo_stats"),
    "roofline_model": lambda run: xprof(run, "roofline_model"),
    "overview_page": lambda run: xprof(run, "overview_page"),
    "framework_op_stats": lambda run: xprof(run, "framework_op_stats"),
    "input_pipeline_analyzer": lambda run: xprof(run, "input_pipeline_analyzer"),
    "memory_profile": lambda run: xprof(run, "memory_profile"),
}
"""Jobs that need a run directory."""


def main() -> int:
    for rival in ALL:
        rival.build()
        print(f"{rival.title:20} {rival.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
