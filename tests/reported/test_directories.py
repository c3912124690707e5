"""Directories as training and serving frameworks write them: which traces are read, and what is said of others."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import pytest
from reported_directories import put

import fastprof
from fastprof.inputs.formats import chrome_json


def codes(profile: fastprof.Profile) -> list[str]:
    codes: list[str] = profile.import_log["code"].to_pylist()
    return codes


LAYOUTS = {
    "torchtitan": ("profile_traces/iteration_10/rank{}_trace.json", "profile_traces/iteration_10"),
    "torchtune": ("out/profiling_outputs/iteration_3/rank{}_trace.json.gz", "out/profiling_outputs/iteration_3"),
    "torch.profiler.tensorboard_trace_handler": ("log/resnet/host_{}.17.pt.trace.json", "log/resnet"),
    "vLLM": ("vllm_profile/dp0_pp0_tp{0}_dcp0_ep0_rank{0}.17.pt.trace.json.gz", "vllm_profile"),
    "SGLang": ("sglang/1738923.5/1738923.5-TP-{}.trace.json.gz", "sglang/1738923.5"),
    "lightning": ("lightning_logs/version_0/profiler/fit-{}.pt.trace.json", "lightning_logs/version_0/profiler"),
    "accelerate": ("output_dir/profile_{}.json", "output_dir"),
    "DeepSpeed": ("ds/logs/trace_rank_{}.json", "ds/logs"),
    "NeMo": ("nemo_experiments/default/1/torch_profile/rank-{}.json.gz", "nemo_experiments/default/1/torch_profile"),
    "any other": ("a/b/c/step-{}.json", "a/b/c"),
}


@pytest.mark.parametrize("framework", LAYOUTS)
def test_the_layouts_of_frameworks_are_found_from_the_parent_directory(framework: str, tmp_path: Path) -> None:
    name, run = LAYOUTS[framework]
    for rank in range(2):
        put(tmp_path, name.format(rank), rank)
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    profile = fastprof.load(tmp_path)
    assert (profile.run, len(profile.host_names)) == (run, 2)
    assert [one.name for one in fastprof.runs(tmp_path)] == [run]
    assert profile.kernel_stats().scalars["occurrences"].value == 16


RANKS = {
    "directories of ranks": ("job/rank_{}/trace.json", "job", ["rank_0", "rank_1"]),
    "directories of ranks without a line between": ("out/it_10/rank{}/trace.json.gz", "out/it_10", ["rank0", "rank1"]),
    "directories called by a rank": ("logs/profile/{}/trace.json", "logs/profile", ["0", "1"]),
    "a trace of a handler in each": ("job/rank-{}/host_77.17.pt.trace.json", "job", ["rank-0", "rank-1"]),
}


@pytest.mark.parametrize("kind", RANKS)
def test_directories_of_ranks_are_hosts_of_one_run(kind: str, tmp_path: Path) -> None:
    name, run, hosts = RANKS[kind]
    for rank in (0, 1):
        put(tmp_path, name.format(rank), rank)
    [one] = fastprof.runs(tmp_path)
    for profile in (fastprof.load(tmp_path), fastprof.load(one), fastprof.load(tmp_path / run)):
        assert profile.host_names == hosts
        assert profile.kernel_stats().scalars["occurrences"].value == 16
        assert "newest_run" not in codes(profile)
    assert (one.name, one.hosts) == (run, hosts)
    if "rank" in name:
        assert fastprof.load(tmp_path, run=f"{run}/{hosts[1]}").kernel_stats().scalars["occurrences"].value == 8


def test_directories_called_by_other_numbers_are_runs(tmp_path: Path) -> None:
    for number in (1, 2):
        put(tmp_path, f"logs/{number}/trace.json", 0)
    assert sorted(one.name for one in fastprof.runs(tmp_path)) == ["logs/1", "logs/2"]


@pytest.mark.parametrize("folder", ["", "sglang/"])
def test_profiles_of_one_directory_are_runs(folder: str, tmp_path: Path) -> None:
    for profile in ("1738923.5", "1738999.1"):
        for rank in range(2):
            put(tmp_path, f"{folder}{profile}-TP-{rank}.trace.json", rank)
            os.utime(tmp_path / f"{folder}{profile}-TP-{rank}.trace.json", (1_700_000_000, 1_700_000_000))
    profile = fastprof.load(tmp_path)
    assert (profile.run, codes(profile)) == (f"{folder}1738999.1", ["newest_run"])
    assert profile.kernel_stats().scalars["occurrences"].value == 16
    assert fastprof.load(tmp_path, run="1738923.5").host_names == ["1738923.5-TP-0", "1738923.5-TP-1"]
    newest, older = fastprof.runs(tmp_path)
    assert [fastprof.load(one).run for one in (newest, older)] == [f"{folder}1738999.1", f"{folder}1738923.5"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_traces_in_utf_16_are_found(encoding: str, tmp_path: Path) -> None:
    for rank in range(2):
        put(tmp_path, f"out/rank{rank}.json", rank)
        text = (tmp_path / f"out/rank{rank}.json").read_text()
        (tmp_path / f"out/rank{rank}.json").write_bytes(
            f"\ufeff{text}".encode(encoding).replace(b"\xff\xfe" * 2, b"\xff\xfe")
        )
    assert fastprof.load(tmp_path).kernel_stats().scalars["occurrences"].value == 16
    assert fastprof.load(tmp_path / "out").kernel_stats().scalars["occurrences"].value == 16


def test_the_last_iteration_is_read_and_others_can_be_chosen(tmp_path: Path) -> None:
    for iteration in (5, 10, 20):
        for rank in range(2):
            name = f"profile_traces/iteration_{iteration}/rank{rank}_trace.json"
            put(tmp_path, name, rank, "i90-tree")
            os.utime(tmp_path / name, (1_700_000_000, 1_700_000_000))
    profile = fastprof.load(tmp_path)
    assert (profile.run, codes(profile)) == ("profile_traces/iteration_20", ["newest_run"])
    assert fastprof.load(tmp_path, run="iteration_5").run == "profile_traces/iteration_5"
    assert profile.kernel_stats().scalars["total_ps"].value == 2 * 1_200_000_000
    both = fastprof.load(tmp_path, run=["iteration_5", "iteration_10"])
    assert list(both.runs) == ["profile_traces/iteration_5", "profile_traces/iteration_10"]


def test_of_many_ranks_few_are_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    is_trace = chrome_json.is_trace
    monkeypatch.setattr(chrome_json, "is_trace", lambda head: looked.append("") or is_trace(head))
    for iteration in range(3):
        for rank in range(1, 8):
            put(tmp_path, f"out/iteration_{iteration}/rank{rank}_trace.json", rank)
        (tmp_path / f"out/iteration_{iteration}/rank0_trace.json").write_text("")
    (tmp_path / "out/iteration_2/config.json").write_text("{}")
    assert [len(run.files) for run in fastprof.runs(tmp_path)] == [8, 8, 8]
    assert len(looked) == 2 * 3 + 1


def test_traces_are_found_among_many_other_documents(tmp_path: Path) -> None:
    for number in range(1_100):
        (tmp_path / "a" / str(number % 20)).mkdir(parents=True, exist_ok=True)
        (tmp_path / "a" / str(number % 20) / f"{number}.json").write_text("{}")
    put(tmp_path, "b/c/d/rank0_trace.json")
    assert fastprof.load(tmp_path).run == "b/c/d"


def test_a_copy_for_perfetto_is_read_if_there_is_nothing_else(tmp_path: Path) -> None:
    run = "plugins/profile/2026_01_02_03_04_05"
    put(tmp_path, f"{run}/perfetto_trace.json.gz", case="i94-perfetto")
    profile = fastprof.load(tmp_path)
    assert (profile.run, profile.host_names) == ("2026_01_02_03_04_05", ["perfetto_trace"])
    assert profile.kernel_stats().scalars["occurrences"].value == 6
    put(tmp_path, f"{run}/vm.trace.json.gz")
    assert fastprof.load(tmp_path).host_names == ["vm"]


PHASES = {
    "SGLang": "1738923.5-TP-{rank}-{PHASE}.trace.json",
    "SGLang with more ranks": "1738923.5-TP-{rank}-DP-0-PP-0-{PHASE}.trace.json.gz",
    "a name of one's own": "{phase}_rank{rank}.json",
}


@pytest.mark.parametrize("names", PHASES)
def test_phases_of_a_rank_are_no_ranks(names: str, tmp_path: Path) -> None:
    for phase in ("decode", "extend"):
        for rank in range(2):
            put(tmp_path, PHASES[names].format(rank=rank, phase=phase, PHASE=phase.upper()), rank)
    profile = fastprof.load(tmp_path)
    kernels = profile.kernel_stats().scalars
    assert (kernels["occurrences"].value, kernels["total_ps"].value) == (16, 4_000_000_000)
    assert codes(profile) == ["other_phase", "other_phase"]
    assert len({"decode" in name.lower() for name in profile.host_names}) == 1


def test_phases_of_different_ranks_are_hosts(tmp_path: Path) -> None:
    """Of a deployment with servers for prefill and servers for decode."""
    put(tmp_path, "prefill-rank0.trace.json", 0)
    put(tmp_path, "decode-rank1.trace.json", 1)
    assert fastprof.load(tmp_path).host_names == ["prefill-rank0", "decode-rank1"]


FOREIGN = {
    "snapshot.pickle": (pickle.dumps({"segments": []}), "snapshot.pickle: a pickle, .*memory_viz"),
    "heap.pb.gz": (gzip.compress(b"\x0a\x04\x08\x01\x10\x02\x12\x02\x08\x01"), "heap.pb.gz: a profile in .* pprof"),
    "logs/rank0.sqlite": (b"SQLite format 3\x00", "logs/rank0.sqlite: an SQLite database"),
    "memory-timeline.html": (b"<html></html>", "memory-timeline.html: XML or HTML text"),
    "et.json": (b'{"schema": "1.1.1", "pid": 3, "nodes": []}', "et.json: an execution trace of PyTorch"),
    "a/b/trace.pftrace": (b"\x0a\x04\x40\x05\x50\x01" * 3, "a/b/trace.pftrace: a trace of Perfetto in protobuf"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_directory_of_a_foreign_file_names_its_format(name: str, tmp_path: Path) -> None:
    content, says = FOREIGN[name]
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(content)
    (tmp_path / "README.md").write_text("# plain text")
    with pytest.raises(fastprof.NotFoundError, match=says) as caught:
        fastprof.load(tmp_path)
    assert "README" not in str(caught.value)
    assert "read only if" not in str(caught.value)
