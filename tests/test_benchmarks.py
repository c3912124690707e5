"""The benchmarks on tiny captures: what the generators write, and each section of analyses from start to end."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from gate import left_to_test_all, rounds

import fastprof

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
TINY = {
    "host-120mb": ("host", "--events", "12000"),
    "host-500k": ("host", "--events", "3000"),
    "host-1m": ("host", "--events", "6000"),
    "host-2m": ("host", "--events", "9000"),
    "host-1mb": ("host", "--events", "2000"),
    "host-10mb": ("host", "--events", "6000"),
    "device-1mb": ("device", "--events", "2000"),
    "device-1m": ("device", "--events", "4000"),
    "device-10mb": ("device", "--events", "4000"),
    "memory-250k": ("memory", "--events", "2800"),
    "memory-500k": ("memory", "--events", "5600"),
    "memory-1m": ("memory", "--events", "8400"),
    "memory-2m": ("memory", "--events", "11200"),
    "pipelines-500k": ("pipelines", "--events", "2000"),
    "pipelines-1m": ("pipelines", "--events", "4000"),
    "pipelines-2m": ("pipelines", "--events", "5000"),
    "pipelines-4m": ("pipelines", "--events", "6000"),
    "program-25k": ("program", "--events", "600"),
    "program-50k": ("program", "--events", "1200"),
    "program-100k": ("program", "--events", "2400"),
    "pod-64": ("pod", "--hosts", "2", "--steps", "4"),
}


class Benchmarks:
    """The modules of benchmarks/ by name; captures are tiny and lie in ``data``."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def __getattr__(self, name: str) -> ModuleType:
        return importlib.import_module(name)


@pytest.fixture(scope="module")
def tiny_captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all tests that only read captures: each is made once."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def benchmarks(tiny_captures: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Benchmarks]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    loaded = Benchmarks(tiny_captures)
    monkeypatch.setattr(loaded.captures, "DATA", loaded.data)
    monkeypatch.setattr(loaded.captures, "RECIPES", loaded.captures.RECIPES | TINY)
    yield loaded
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


@pytest.fixture
def rivals_are_played(benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rivals are not installed for the tests: fastprof plays them, twice as slow at least."""
    measure, rivals = benchmarks.measure, benchmarks.rivals
    verbs = {
        "overview_page": "overview",
        "framework_op_stats": "op-stats",
        "input_pipeline_analyzer": "input-pipeline",
        "memory_profile": "memory-profile",
        "tf_data_bottleneck_analysis": "tf-data",
        "op_profile": "op-profile",
        "hlo_stats": "hlo-stats",
    }

    def get_overview(run: Path) -> object:
        assert [path.name for path in run.iterdir()] != []
        return measure.Job("get_overview", (sys.executable, "-m", "fastprof", "overview", str(run), "-q"))

    def xprof(run: Path, tool: str) -> object:
        reader = str(BENCHMARKS / "fastprof_reader.py")
        return measure.Job(tool, (sys.executable, reader, str(run), verbs[tool], "--repeat", "1"), reports=True)

    def get_memory_profile(run: Path) -> object:
        command = (sys.executable, "-m", "fastprof", "memory-profile", str(run), "-q")
        return measure.Job("get_memory_profile", command)

    def command(name: str, verb: str) -> object:
        return lambda run: measure.Job(name, (sys.executable, "-m", "fastprof", verb, str(run), "-q"))

    monkeypatch.setattr(rivals, "aggregate", command("xprof-rs", "events"))
    monkeypatch.setattr(rivals, "get_overview", get_overview)
    monkeypatch.setattr(rivals, "get_hlo_stats", command("get_hlo_stats", "hlo-stats"))
    monkeypatch.setattr(rivals, "get_hlo_op_profile", command("get_hlo_op_profile", "op-profile"))
    monkeypatch.setattr(rivals, "get_memory_profile", get_memory_profile)
    monkeypatch.setattr(rivals, "xprof", xprof)
    monkeypatch.setattr(rivals, "tf_data", lambda run: xprof(run, "tf_data_bottleneck_analysis"))


def plan(benchmarks: Benchmarks) -> object:
    return benchmarks.section.Plan(rounds=1, slow_every=1, huge=False)


# ---- captures ------------------------------------------------------------------------------------


def test_pod_has_the_hosts_cores_and_steps_that_were_asked_for(benchmarks: Benchmarks) -> None:
    pod = benchmarks.captures.capture("pod-64")
    profile = fastprof.load(pod.path)

    assert profile.hosts["host"].to_pylist() == ["host000", "host001"]
    assert (profile.events.num_rows, profile.event_stats.num_rows, profile.lines.num_rows) == (
        pod.events,
        pod.stats,
        pod.lines,
    )
    cores = profile.report("pod_viewer").tables["cores"]
    assert cores.num_rows == 4 * 2 * benchmarks.pod_shape.CHIPS
    assert sorted(set(cores["host"].to_pylist())) == ["host000", "host001"]


def test_pod_has_a_slow_host_and_a_slow_step(benchmarks: Benchmarks) -> None:
    profile = fastprof.load(benchmarks.captures.capture("pod-64").path)
    steps = profile.report("steps").tables["steps"].to_pylist()

    slow, other = (
        [row["duration_ps"] for row in steps if (row["host"], row["core_name"]) == (host, f"{host}:0")]
        for host in ("host000", "host001")
    )
    assert len(slow) == len(other) == 4
    assert all(1.2 < of_slow / of_other < 1.3 for of_slow, of_other in zip(slow, other, strict=True))
    assert other.index(max(other)) == 4 // 2


def test_a_capture_is_made_once_and_rebuilt_when_its_recipe_changes(
    benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    captures = benchmarks.captures
    monkeypatch.setattr(captures, "DATA", tmp_path)
    monkeypatch.setitem(captures.RECIPES, "pod-64", ("pod", "--hosts", "2", "--steps", "1"))
    first = captures.capture("pod-64")
    made = [path.stat().st_mtime_ns for path in first.files]
    assert [path.stat().st_mtime_ns for path in captures.capture("pod-64").files] == made

    monkeypatch.setitem(captures.RECIPES, "pod-64", ("pod", "--hosts", "1", "--steps", "1"))
    again = captures.capture("pod-64")
    assert [path.name for path in again.files] == ["host000.xplane.pb"]
    assert again.bytes == sum(path.stat().st_size for path in again.files)


def test_scaling_repeats_the_events_of_the_planes_that_are_asked_for(benchmarks: Benchmarks, tmp_path: Path) -> None:
    source = benchmarks.captures.capture("device-1m")
    target = tmp_path / "scaled.xplane.pb"
    events, stats, lines = benchmarks.trace_scale.scale(source.path, target, 3, "TPU:[01]$")
    part = fastprof.load(source.path).select(planes="TPU:[01]$")
    scaled = fastprof.load(target)

    assert scaled.planes["name"].to_pylist() == ["/device:TPU:0", "/device:TPU:1"]
    assert (events, stats, lines) == (3 * part.events.num_rows, 3 * part.event_stats.num_rows, part.lines.num_rows)
    assert (scaled.events.num_rows, scaled.event_stats.num_rows) == (events, stats)


def test_allocators_record_the_truth_about_themselves(benchmarks: Benchmarks) -> None:
    """Memory in use is what was allocated and not taken back, and what was there before."""
    stats = ["allocator_name", "allocation_bytes", "bytes_allocated", "bytes_available", "addr", "fragmentation"]
    profile = fastprof.load(benchmarks.captures.capture("memory-1m").path).select(names="^Memory.*llocation$")
    rows = profile.event_table(columns=["name", "start_ps"], stats=stats).sort_by("start_ps").to_pylist()
    assert {row["allocator_name"] for row in rows} == set(benchmarks.memory_workload.ALLOCATORS)
    before = benchmarks.memory_workload.PARAMETERS * benchmarks.memory_workload.PARAMETER_BYTES
    for allocator in benchmarks.memory_workload.ALLOCATORS:
        held: dict[int, int] = {}
        in_use = before
        own = [row for row in rows if row["allocator_name"] == allocator]
        for row in own:
            if row["name"] == "MemoryAllocation":
                assert row["addr"] not in held
                held[row["addr"]] = row["allocation_bytes"]
                in_use += row["allocation_bytes"]
            else:
                in_use -= held.pop(row["addr"], row["allocation_bytes"])
            assert row["bytes_allocated"] == in_use
        assert len({row["bytes_allocated"] + row["bytes_available"] for row in own}) == 1
    assert any(row["fragmentation"] for row in rows)


def test_an_arena_gives_the_smallest_chunk_that_fits_and_joins_what_it_takes_back(benchmarks: Benchmarks) -> None:
    arena = benchmarks.memory_arena.Arena(1000, 100)
    first, second, third = (arena.allocate(size) for size in (30, 10, 30))
    assert (first, second, third, arena.in_use, arena.largest()) == (1000, 1030, 1040, 70, 30)
    arena.free(second, 10)
    assert (arena.allocate(10), arena.fragmentation()) == (1030, 0.0)
    arena.free(first, 30)
    arena.free(third, 30)
    assert (arena.largest(), arena.available, arena.peak, arena.fragmentation()) == (60, 90, 70, 30 / 90)
    with pytest.raises(MemoryError, match="61 bytes do not fit: 90 are free, 60 in one chunk"):
        arena.allocate(61)
    arena.free(1030, 10)
    assert (arena.largest(), arena.allocate(100), arena.largest(), arena.fragmentation()) == (100, 1000, 0, 0.0)


def test_a_batch_is_made_a_step_before_it_is_used(benchmarks: Benchmarks) -> None:
    profile = fastprof.load(benchmarks.captures.capture("pipelines-4m").path)
    ends = profile.event_table(columns=["name"], stats=["element_id"]).to_pylist()
    ids: dict[str, list[int]] = {}
    for row in ends:
        if row["element_id"] is not None:
            ids.setdefault(row["name"], []).append(row["element_id"])
    assert ids["PrefetchConsume"][1:] == ids["PrefetchProduce"][:-1]
    assert ids["MapAndBatchConsume"][1:] == ids["MapAndBatchProduce"][:-16:16]
    report = profile.report("tf_data")
    assert report.tables["pipelines"]["call_count"].to_pylist() == [len(ids["PrefetchConsume"])] * 2
    assert len(report.tables["iterators"]) == len(benchmarks.pipeline_shape.ITERATORS)


# ---- jobs ----------------------------------------------------------------------------------------


def test_a_job_that_complains_at_length_ends_and_says_what_it_said_last(benchmarks: Benchmarks) -> None:
    code = "import sys; sys.stderr.write('x' * 500_000 + '\\nthe end'); sys.exit(3)"
    job = benchmarks.measure.Job("talker", (sys.executable, "-c", code), reports=True)
    with pytest.raises(benchmarks.measure.JobFailedError, match=r"talker ended with 3: .*the end"):
        benchmarks.measure.interleave([job], 1, quiet=True)


def test_a_run_directory_holds_the_captures_under_their_names(benchmarks: Benchmarks) -> None:
    captures = benchmarks.captures
    taken = captures.capture("host-500k")
    with captures.scratch() as folder:
        run = captures.as_run(folder, taken.files)
        assert run.relative_to(folder).parts[:2] == ("plugins", "profile")
        assert [path.name for path in run.iterdir()] == [taken.path.name]
        assert fastprof.load(run).events.num_rows == taken.events
    assert taken.path.exists() and not folder.exists()


def test_line_through_points_of_a_line_is_that_line(benchmarks: Benchmarks) -> None:
    growth = benchmarks.section_growth
    assert growth.line_through([1, 2, 4, 8], [3, 5, 9, 17]) == pytest.approx([3, 5, 9, 17])
    assert growth.farthest([1, 2, 4, 8], [3, 5, 9, 17]) == pytest.approx(0)
    assert growth.farthest([0, 1, 2], [10, 13, 10]) == pytest.approx(2 / 11)


def test_a_line_through_sizes_that_differ_much_passes_the_smallest_too(benchmarks: Benchmarks) -> None:
    farthest = benchmarks.section_limits.farthest_in_proportion
    assert farthest([1, 10, 100], [2, 11, 101]) == pytest.approx(0)
    assert farthest([1, 10, 40], [1, 10, 50]) == pytest.approx(0.12, abs=0.02)
    assert benchmarks.section_growth.farthest([1, 10, 40], [1, 10, 50]) > 1


# ---- sections ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("rivals_are_played")
def test_analyses_are_compared_with_both_rivals_in_three_ways(
    benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["overview", "op stats", "input pipeline"][: rounds(3, 1)]
    analyses = benchmarks.section_analyses
    monkeypatch.setattr(analyses, "COMPARED", analyses.COMPARED[: len(names)])
    section = analyses.analyses(plan(benchmarks))

    assert len(section.rows) == 3 * (1 + len(names))
    assert [row[0].split(",")[0] for row in section.rows[3::3]] == names
    assert all(row[-1].startswith(("at most 0.5", "at least 15")) for row in section.rows)
    assert "| overview, in process: " in benchmarks.page.render([section])


@left_to_test_all
@pytest.mark.usefixtures("rivals_are_played")
def test_memory_of_analyses_is_of_every_program(benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch) -> None:
    analyses = benchmarks.section_analyses
    monkeypatch.setattr(analyses, "COMPARED", analyses.COMPARED[1:2])
    section = analyses.analyses_memory(plan(benchmarks))

    assert [(row[0], row[-1] != "") for row in section.rows] == [
        ("op stats: from `load` to the report", True),
        ("op stats: `fastprof op-stats`", True),
        ("`xprof-rs get_overview`", False),
        ("XProf `framework_op_stats`", False),
    ]


@left_to_test_all
@pytest.mark.usefixtures("rivals_are_played")
def test_device_captures_are_the_made_one_and_the_real_one_where_it_is_at_hand(
    benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    analyses, captures = benchmarks.section_analyses, benchmarks.captures
    monkeypatch.setattr(analyses, "ON_DEVICES", analyses.ON_DEVICES[:1])
    monkeypatch.setattr(captures, "REAL_TPU", tmp_path / "absent")
    section = analyses.million_device_events(plan(benchmarks))
    assert len(section.rows) == 3 and "not at hand" in section.prose
    assert captures.devices() == ("device-1m",)

    captures.REAL_TPU.touch()
    assert captures.devices() == ("tpu-1m", "device-1m")


def test_an_answer_with_other_counts_than_the_rivals_is_not_a_result(benchmarks: Benchmarks) -> None:
    mine, rival = (benchmarks.measure.Outcome(name, facts={"steps": n}) for name, n in (("mine", 3), ("theirs", 4)))
    with pytest.raises(benchmarks.measure.JobFailedError, match="mine counts 3 steps, theirs 4"):
        benchmarks.section_analyses.agree(mine, rival)


@left_to_test_all
@pytest.mark.usefixtures("rivals_are_played")
def test_the_memory_profile_and_tf_data_meet_their_rivals_in_time_and_memory(benchmarks: Benchmarks) -> None:
    section = benchmarks.section_memory_tf_data.memory_profile(plan(benchmarks))
    assert len(section.rows) == 2 * (3 + 2 + 1)
    assert [row[-1].split(":")[0] for row in section.rows[:6]] == ["at least 10"] * 3 + ["at most 5"] * 2 + [""]
    assert "The report has counted: allocators 5, peak bytes " in section.remarks[0]

    section = benchmarks.section_memory_tf_data.tf_data(plan(benchmarks))
    assert [row[-1].split(":")[0] for row in section.rows] == ["at least 15"] * 3 + ["at most 5"] * 2
    assert "counted: pipelines 2, calls 26." in section.remarks[0]


def test_a_rival_that_finds_nothing_is_not_a_rival(benchmarks: Benchmarks) -> None:
    mine, rival = (benchmarks.measure.Outcome(name, facts={"calls": n}) for name, n in (("mine", 3), ("theirs", 0)))
    with pytest.raises(benchmarks.measure.JobFailedError, match="theirs has found nothing"):
        benchmarks.section_memory_tf_data.agree(mine, rival)
    rival.facts = {"calls": 4}
    with pytest.raises(benchmarks.measure.JobFailedError, match="mine counts 3 calls, theirs 4"):
        benchmarks.section_memory_tf_data.agree(mine, rival)


def test_a_rival_made_for_one_python_needs_it(benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch) -> None:
    rivals = benchmarks.rivals
    monkeypatch.setenv("PATH", "")
    rival = rivals.Rival("old", "Old 1.0", (), (3, 1))
    with pytest.raises(rivals.RivalMissingError, match=r"Old 1\.0 needs python3\.1, which is not on the path"):
        rival.program("old")


@left_to_test_all
@pytest.mark.usefixtures("rivals_are_played")
def test_compiled_programs_meet_both_rivals_in_three_ways(
    benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(benchmarks.captures, "REAL_TPU", tmp_path / "absent")
    section = benchmarks.section_xla.xla(plan(benchmarks))
    assert len(section.rows) == 2 * 3 * 2
    assert [row[-1].split(":")[0] for row in section.rows[:2]] == ["at most 1", "at least 30"]
    assert section.rows[0][0].startswith("`device-1m`: op-profile, in process: time over that of one `xprof-rs get_hlo")


@left_to_test_all
def test_a_large_program_has_a_row_for_each_thing_that_is_done_with_it(
    benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmarks.section_xla, "PROGRAMS_GROWING", ("program-25k", "program-50k"))
    section = benchmarks.section_xla.programs(plan(benchmarks))
    assert [row[0] for row in section.rows] == list(benchmarks.section_xla.WORK)
    assert len(section.header) == len(section.rows[0]) == 1 + 2 + 3
    profile = fastprof.load(benchmarks.captures.capture("program-25k").path)
    per_layer = benchmarks.program_shape.A_LAYER
    layers = 600 // per_layer
    assert profile.tables["hlo_instructions"].num_rows == layers * per_layer + 4  # the adder's, and the parameter
    assert profile.report("hlo_stats").tables["ops"].num_rows == 3 * layers
    assert profile.report("memory_viewer").scalars["peak_bytes"].value == 3 * benchmarks.program_shape.BUFFER_BYTES


@left_to_test_all
def test_growth_has_a_row_for_each_analysis(benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch) -> None:
    growth = benchmarks.section_growth
    assert growth.VERBS == ("overview", "op-stats", "input-pipeline")
    monkeypatch.setattr(growth, "VERBS", ("op-stats",))
    for sizes in ("GROWING", "MEMORY_GROWING", "PIPELINES_GROWING"):
        monkeypatch.setattr(growth, sizes, getattr(growth, sizes)[:2])
    section = growth.growth(plan(benchmarks))

    assert [row[0] for row in section.rows] == ["op-stats"]
    assert len(section.header) == len(section.rows[0]) == 1 + 2 + 2
    others = [growth.memory_growth(plan(benchmarks)), growth.pipelines_growth(plan(benchmarks))]
    assert [[row[0] for row in one.rows] for one in others] == [["memory-profile"], ["tf-data"]]


def test_limits_has_a_row_for_each_shape_and_verb(benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = benchmarks.section_limits
    monkeypatch.setattr(limits, "VERBS", {verb: limits.VERBS[verb] for verb in ("overview", "trace")})
    monkeypatch.setattr(limits, "SMALL_SIZES", {"host": limits.SMALL_SIZES["host"]})
    section = limits.limits(plan(benchmarks))

    assert [row[:2] for row in section.rows] == [("host, 0, 0 MiB", "`overview`"), ("host, 0, 0 MiB", "`trace`")]
    assert all(len(row) == len(section.header) and row[-1] == "at most 600: met" for row in section.rows)
    assert all(int(row[5].removesuffix(" MiB")) > 10 for row in section.rows)


@pytest.mark.usefixtures("rivals_are_played")
def test_starting_has_a_row_for_each_import_and_verb(benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch) -> None:
    module = benchmarks.section_starting
    monkeypatch.setattr(module, "interleave", lambda jobs, _: benchmarks.measure.interleave(jobs, 1))
    section = module.starting(plan(benchmarks))
    assert [row[0].strip("`") for row in section.rows] == [
        "Python itself", "import fastprof", "import numpy, pyarrow`, OpenBLAS's threads included", "fastprof --version",
        "fastprof info`, host capture", "fastprof events`, host capture", "fastprof diagnosis`, host capture",
        "fastprof op-profile`, device capture",
    ]  # fmt: skip
    filled = [[cell > "0" if cell else None for cell in row[1:-1]] for row in section.rows[4:]]
    assert filled == [[True, True, None, None], [True, True, True, None], [True] * 4, [True] * 4]


def test_sections_are_replaced_in_the_page(benchmarks: Benchmarks) -> None:
    def section(title: str, cell: str) -> object:
        return benchmarks.section.Section(title, "Prose.", ("a",), [(cell,)])

    page = benchmarks.page
    before = page.render([section("One", "1"), section("Two", "2")])
    after = page.replace_sections(before, [section("One", "new"), section("Three", "3")])
    assert after.startswith(before[: before.index("\n## One")])
    titles = [line for line in after.splitlines() if line.startswith("## ")]
    assert titles == ["## One", "## Two", "## Three"]
    one, rest = after.partition("## Two")[::2]
    assert "| a |\n| --- |\n| new |\n\nMeasured on 2" in one
    assert "| 1 |" not in after
    assert rest.startswith(before.partition("## Two")[2])


@left_to_test_all
def test_pod_has_a_row_for_each_size_and_counts_every_step(
    benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    growth, measure = benchmarks.section_growth, benchmarks.measure
    monkeypatch.setattr(growth, "POD_SIZES", (1, 2))
    monkeypatch.setattr(growth, "POD_STEPS", 4)
    section = growth.pod(plan(benchmarks))
    rows = [f"{verb}, {size} hosts" for verb in ("overview", "pod-viewer") for size in (1, 2)]
    assert [row[0] for row in section.rows] == rows
    assert [row[-1] != "" for row in section.rows] == [False, True, False, True]

    lost = measure.Outcome("overview 1", facts={"steps": 2})
    with pytest.raises(measure.JobFailedError, match="overview of 1 hosts counts 2 steps, not 4"):
        growth.check_steps("overview", [lost])


@left_to_test_all
def test_in_process_benchmarks_of_analyses_run(
    benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    captures = benchmarks.captures
    monkeypatch.setattr(captures, "DATA", tmp_path)
    for name in ("host-10mb", "device-10mb"):
        captures.capture(name).path.with_name(f"{name}.xplane.pb.recipe").write_text(captures_of_size(captures, name))
    command = [
        sys.executable, "-m", "pytest", "-q", str(BENCHMARKS / "bench_analyses.py"), "-p", "no:cacheprovider",
        "-o", "python_files=bench_*.py", "-o", "python_functions=bench_*", "--benchmark-disable",
    ]  # fmt: skip
    environment = {**os.environ, "FASTPROF_BENCHMARK_DATA": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=BENCHMARKS.parent, check=False)
    assert done.returncode == 0, done.stdout
    assert "10 passed" in done.stdout


def captures_of_size(captures: ModuleType, name: str) -> str:
    """What is noted beside the capture of full size, so that the tiny one passes for it."""
    return f"generator {captures.GENERATOR}: {' '.join(captures.SHAPES[name])}\n"


def test_every_section_of_the_page_has_a_name(benchmarks: Benchmarks) -> None:
    names = {"analyses", "analyses-memory", "devices", "growth", "limits", "pod", "in-process"}
    assert names | {"memory-profile", "tf-data", "memory-growth", "pipelines-growth"} <= set(benchmarks.run.ALL)
