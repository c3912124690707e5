"""The queries of docs/sql.md have answers, whose values the tables have without SQL too."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastprof

CAPTURES = Path(__file__).resolve().parents[2] / "shared" / "captures"
GPU = str(CAPTURES / "chrome" / "kineto" / "alexnet.json.gz")
PAGE = Path(__file__).parents[1] / "docs" / "sql.md"


def questions() -> Iterator[tuple[str, str, str]]:
    """Yield the sentence, the sessions and the query of each question."""
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        usual = re.search(r"These queries are about (?:`([^`]*)`|a capture\nof a GPU)", section)
        for sentence, query in re.findall(r"([^\n]*)\n\n```sql\n(.*?)^```", section, re.DOTALL | re.MULTILINE):
            own = re.search(r"\(`(demo/[^`]*)`\)", sentence) or usual
            assert own is not None, sentence
            yield sentence, own[1] or GPU, query


QUESTIONS = list(questions())


@cache
def load(sessions: str) -> fastprof.Profile:
    return fastprof.load(sessions.split() if " " in sessions else sessions)


def test_there_are_many_questions() -> None:
    assert len(QUESTIONS) >= 25
    assert len({query for _, _, query in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize(("sentence", "sessions", "query"), QUESTIONS, ids=[sentence for sentence, _, _ in QUESTIONS])
def test_a_question_has_an_answer(sentence: str, sessions: str, query: str) -> None:
    assert sentence.endswith("?")
    if sessions == GPU and not Path(GPU).exists():
        pytest.skip("the capture of a GPU is absent")
    assert load(sessions).sql(query).num_rows > 0


def test_python_of_the_page_runs() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    exec(compile(code, "sql.md", "exec"), names)  # our own page
    assert names["ops"].num_rows > 3  # type: ignore[attr-defined]


# ---- values, computed from the tables without SQL

Row = dict[str, Any]
V6E = str(CAPTURES / "xspace" / "tpu-v6e-jax-inference")


def ask(sentence: str, sessions: str | None = None) -> list[tuple[Any, ...]]:
    """Return the rows of the query under the sentence that begins so."""
    ((_, usual, query),) = [question for question in QUESTIONS if question[0].startswith(sentence)]
    return [tuple(row.values()) for row in load(sessions or usual).sql(query).to_pylist()]


def near(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(pytest.approx(value) if isinstance(value, float) else value for value in row) for row in rows]


def read(sessions: str, table: str) -> list[Row]:
    profile = load(sessions)
    report, dot, name = table.partition(".")
    rows: list[Row] = (profile.report(report).tables[name] if dot else profile.tables[table]).to_pylist()
    return rows


def list_ops(sessions: str) -> list[Row]:
    return [row for row in read(sessions, "events") if row["line"] == "XLA Ops"]


def cover(events: list[Row]) -> list[list[int]]:
    """Return the time that events cover, as spans that do not touch."""
    spans: list[list[int]] = []
    for start, end in sorted((row["start_ps"], row["start_ps"] + row["duration_ps"]) for row in events):
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([start, end])
    return spans


def list_gaps(events: list[Row]) -> list[tuple[int, int]]:
    """Return length and end of the gaps of each line, longest first."""
    lines = defaultdict(list)
    for row in events:
        lines[row["line_id"]].append(row)
    spans = map(cover, lines.values())
    return sorted(((start - end, start) for line in spans for (_, end), (start, _) in pairwise(line)), reverse=True)


def test_slowest_steps() -> None:
    steps = read("demo/xla", "steps.steps")
    steps.sort(key=lambda row: (-row["duration_ps"], row["step"], row["core_id"]))
    columns = ("duration_ps", "device_compute_ps", "input_ps")
    expected = [(row["step"], row["core_id"], *(row[name] / 1e9 for name in columns)) for row in steps[:5]]
    assert ask("Which steps are the slowest") == near(expected)


def test_time_by_kind_of_work() -> None:
    sums: Counter[str] = Counter()
    for row in read("demo/xla", "steps.breakdown"):
        sums[row["kind"]] += row["time_ps"]
    expected = [(kind, ps / 1e9, ps / sums.total()) for kind, ps in sums.most_common()]
    assert ask("How much of the time goes to each kind of work") == near(expected)


def test_compute_time_by_core() -> None:
    cores = defaultdict(list)
    for row in read("demo/xla", "steps.steps"):
        cores[row["core_id"]].append(row["device_compute_ps"] / 1e9)
    expected = [(core, *map(float, np.quantile(times, (0.5, 0.95)))) for core, times in sorted(cores.items())]
    assert len(expected) == 2 and expected[0][1] != expected[1][1]
    assert ask("What are the median and the 95th percentile") == near(expected)


def test_slow_steps() -> None:
    steps = read("demo/xla", "steps.steps")
    typical = float(np.median([row["duration_ps"] for row in steps]))
    excess = [(row["step"], row["core_id"], row["duration_ps"] / typical - 1) for row in steps]
    assert ask("Which steps are more than a tenth") == near(sorted(row for row in excess if row[2] > 0.1))


def test_time_by_op() -> None:
    runs: Counter[str] = Counter(row["name"] for row in list_ops("demo/xla"))
    sums: Counter[str] = Counter()
    for row in list_ops("demo/xla"):
        sums[row["name"]] += row["duration_ps"]
    expected = near([(name, runs[name], ps / 1e9) for name, ps in sums.most_common(10)])
    assert ask("Which events take the most time") == expected
    assert [row[:3] for row in ask("How long do ops take by the clock of the TPU")] == expected


def test_busy_share_counts_time_once() -> None:
    lines = defaultdict(list)
    for row in read("demo/xla", "events"):
        lines[row["plane"], row["line"], row["line_id"]].append(row)
    expected = []
    for (plane, line, line_id), events in lines.items():
        spans = cover(events)
        whole = spans[-1][1] - spans[0][0]
        expected.append((plane, line, len(events), sum(end - start for start, end in spans) / whole, line_id))
    expected.sort(key=lambda row: (row[0], -row[3], row[4]))
    rows = ask("How busy is each line")
    assert rows == near([row[:4] for row in expected])
    assert max(row[3] for row in rows) == 1


@pytest.mark.parametrize("sessions", ["demo/pod", "demo/logdir", V6E])
def test_busy_share_is_never_above_one(sessions: str) -> None:
    if not Path(sessions).exists():
        pytest.skip("the capture is absent")
    shares = [row[3] for row in ask("How busy is each line", sessions)]
    assert all(share is None or 0 <= share <= 1 for share in shares) and max(filter(None, shares)) > 0


def test_durations_in_powers_of_two() -> None:
    times = [row["duration_ps"] for row in list_ops("demo/xla") if "all-reduce" in row["name"] and row["duration_ps"]]
    powers = Counter(float(ps.bit_length() - 1) for ps in times)
    assert ask("How is the duration of an op") == sorted(powers.items())


def test_longest_gaps() -> None:
    expected = [(start / 1e9, gap / 1e6) for gap, start in list_gaps(list_ops("demo/xla"))[:5]]
    assert [(row[1], row[3]) for row in ask("Which gaps")] == near(expected)


@pytest.mark.usefixtures("captures")
def test_gaps_of_nested_ops_are_idle_time() -> None:
    query = next(query for sentence, _, query in QUESTIONS if sentence.startswith("Which gaps")).replace("limit 5", "")
    (row,) = load(V6E).sql(f"select sum(gap_us) as us from ({query})").to_pylist()
    assert row["us"] == pytest.approx(sum(gap for gap, _ in list_gaps(list_ops(V6E))) / 1e6)
    assert round(row["us"] / 1e3) == 48_612  # 57,866 ms with the end of the event before


def test_ops_by_millisecond() -> None:
    events: Counter[int] = Counter()
    sums: Counter[int] = Counter()
    for row in list_ops("demo/xla"):
        events[row["start_ps"] // 10**9] += 1
        sums[row["start_ps"] // 10**9] += row["duration_ps"]
    assert ask("How many ops start") == near([(at, events[at], sums[at] / 1e9) for at in sorted(events)])


def test_stats_of_events() -> None:
    of_stats = defaultdict(list)
    for row in read("demo/xla", "event_stats"):
        numbers = (row["int_value"], row["double_value"], row["str_value"])
        of_stats[row["stat"], row["kind"]].append(next(value for value in numbers if value is not None))
    rows = [(*key, len(listed), len(set(listed))) for key, listed in of_stats.items()]
    assert ask("Which stats do events have") == sorted(rows, key=lambda row: (-row[2], row[0]))


def test_device_times() -> None:
    table = load("demo/xla").event_table(["plane", "line", "name"], stats=["device_offset_ps", "device_duration_ps"])
    rows = [tuple(row.values()) for row in table.to_pylist() if row["line"] == "XLA Ops"]
    rows.sort(key=lambda row: (row[3], row[0]))
    assert ask("When does each op start") == [(plane, name, *times) for plane, _, name, *times in rows[:5]]


@pytest.mark.usefixtures("captures")
def test_device_times_differ_from_the_times_of_events() -> None:
    host, device = np.sum([row[2:] for row in ask("How long do ops take by the clock", V6E)], axis=0)
    sums: Counter[str] = Counter()
    for row in load(V6E).event_table(["name", "line"], stats=["device_duration_ps"]).to_pylist():
        if row["line"] == "XLA Ops":
            sums[row["name"]] += row["device_duration_ps"]
    assert device == pytest.approx(sum(ps for _, ps in sums.most_common(10)) / 1e9, rel=1e-12)
    assert host > device + 4


@pytest.mark.usefixtures("captures")
def test_kernels_of_gpus() -> None:
    of_report = read(GPU, "kernel_stats.kernels")
    rows = ask("Which events are kernels")
    assert sum(row[2] for row in rows) == sum(row["occurrences"] for row in of_report) == 79
    assert sum(row[3] for row in rows) == pytest.approx(sum(row["total_ps"] for row in of_report) / 1e9)


def test_largest_buffers() -> None:
    category = {row["allocation"]: row["category"] for row in read("demo/xla", "hlo_allocations")}
    buffers = sorted(read("demo/xla", "hlo_buffers"), key=lambda row: (-row["size_bytes"], row["buffer"]))[:5]
    expected = []
    for row in buffers:
        padding = 1 - row["unpadded_bytes"] / row["size_bytes"]
        size = row["size_bytes"] / 1e6
        expected.append((row["module"], row["instruction"], size, padding, category[row["allocation"]]))
    assert ask("Which instructions have the largest results") == near(expected)


def test_time_by_category() -> None:
    category = {row["name"]: row["category"] for row in read("demo/xla", "hlo_instructions")}
    own = {row["event_id"]: row["self_time_ps"] for row in read("demo/xla", "nesting")}
    sums: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for row in list_ops("demo/xla"):
        kind = category[row["name"].split(" ")[0].removeprefix("%")]
        sums[kind] += own[row["event_id"]]
        runs[kind] += 1
    rows = ask("How much time does each category")
    assert dict(sums) == {row[0]: round(row[2] * 1e9) for row in rows}
    assert dict(runs) == {row[0]: row[1] for row in rows}


def test_flops_by_source_line_count_once() -> None:
    flops = {row["name"]: row["flops"] for row in read("demo/xla", "hlo_costs")}
    lines: Counter[tuple[str, int]] = Counter()
    for row in read("demo/xla", "hlo_instructions"):
        if row["computation"] == "main" and row["source_file"]:
            lines[row["source_file"], row["source_line"]] += flops[row["name"]] or 0
    expected = [(*line, total / 1e9) for line, total in lines.most_common(5)]
    assert ask("Which lines of source code") == near(expected)
    assert [round(gflops) for *_, gflops in expected[:3]] == [894, 825, 537]


def test_collectives_by_bytes() -> None:
    rows = ask("Which collectives move")
    operations = [row for row in read("demo/xla", "communication.operations") if row["kind"].startswith("all-")]
    assert {row[1] for row in rows} == {"all-reduce"}
    assert [row[3] for row in rows] == sorted((row["moved_bytes"] for row in operations), reverse=True)[:5]


def test_differences_of_hosts() -> None:
    sums: Counter[tuple[str, str]] = Counter()
    for row in list_ops("demo/pod"):
        sums[row["name"], row["host"]] += row["duration_ps"]
    rows = [(name, sums[name, "host0"] / 1e9, sums[name, "host1"] / 1e9) for name in {name for name, _ in sums}]
    assert ask("How do the hosts differ") == near(sorted(rows, key=lambda row: -abs(row[1] - row[2]))[:5])


def test_waits_for_unknown_devices_are_there() -> None:
    waits = sum(row["waited_ps"] for row in read("demo/pod", "communication.stragglers")) / 1e6
    assert ask("How long do devices wait") == near([("unknown", 5, waits)])


def test_slow_requests() -> None:
    models = defaultdict(list)
    for row in read("demo/serving", "inference.requests"):
        models[row["model"]].append(row["latency_ps"] / 1e6)
    slowest = {model: sorted(times)[-10:] for model, times in sorted(models.items())}
    expected = [(model, 10, float(np.mean(times))) for model, times in slowest.items()]
    assert [row[:3] for row in ask("Where does the slowest tenth")] == near(expected)


def test_changes_between_runs() -> None:
    changes: Counter[str] = Counter()
    for row in read("demo/xla demo/logdir", "events"):
        is_second = row["run"] == "2026_11_22_00_00_00"
        changes[row["name"]] += row["duration_ps"] if is_second else -row["duration_ps"]
    assert ask("Which events take more time in one run") == sorted(changes.items(), key=lambda item: -abs(item[1]))[:5]
