"""A graph, its runs and its log of ops, in files of their own, are the profile that tfprof would make of them."""

from __future__ import annotations

import gzip
import pickle
import shutil
from pathlib import Path

import pytest

import fastprof
from fastprof.cli.main import main
from fastprof.errors import CaptureError, NotFoundError, UsageError
from fastprof.inputs.directory_content import GraphFiles, number_runs
from fastprof.inputs.profile_model import make_profile

SHARED = Path(__file__).resolve().parents[3] / "shared"
INPUTS, TF1 = SHARED / "conformance" / "tfprof" / "inputs", SHARED / "captures" / "tf1"
pytestmark = [pytest.mark.captures, pytest.mark.skipif(not INPUTS.is_dir(), reason="the inputs are absent")]


def expected(view: str, step: int = -1) -> str:
    runs = [(step, (INPUTS / f"gpu_run_metadata_{step}.pb").read_bytes()) for step in (0, 1)]
    made = make_profile((INPUTS / "gpu_graph.pb").read_bytes(), runs, (INPUTS / "gpu_op_log").read_bytes())
    return fastprof.load(made).tfprof(view, step=step).text


def copied(folder: Path, *names: str) -> Path:
    for name in names:
        shutil.copyfile(INPUTS / name, folder / name)
    return folder


def test_a_directory_of_them_is_a_session(tmp_path: Path) -> None:
    folder = copied(tmp_path, "gpu_graph.pb", "gpu_run_metadata_1.pb", "gpu_run_metadata_0.pb", "gpu_op_log")
    profile = fastprof.load(folder)
    assert profile.tfprof_profiles["steps"].to_pylist() == [[0, 1]]
    assert [profile.tfprof("code", step=step).text for step in (0, 1)] == [expected("code", 0), expected("code", 1)]
    (run,) = fastprof.runs(folder)
    assert run.hosts == ["gpu_graph"] and fastprof.load(run).tfprof_nodes.equals(profile.tfprof_nodes)


def test_flags_name_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "graph.pb.gz"
    packed.write_bytes(gzip.compress((INPUTS / "gpu_graph.pb").read_bytes()))
    runs = [text for step in (1, 0) for text in ("--run-metadata", str(INPUTS / f"gpu_run_metadata_{step}.pb"))]
    files = ["--graph", str(packed), *runs, "--op-log", str(INPUTS / "gpu_op_log")]
    assert main(["tfprof", *files, "scope", "--format", "tfprof"]) == 0
    assert expected("scope") in capsys.readouterr().out


def test_python_names_them() -> None:
    runs = [INPUTS / f"gpu_run_metadata_{step}.pb" for step in (1, 0)]
    graph, log = INPUTS / "gpu_graph.pb", str(INPUTS / "gpu_op_log")
    profile = fastprof.load_graph(graph, run_metadata=runs, op_log=log)
    again = pickle.loads(pickle.dumps(profile))
    assert profile.tfprof("code").text == again.tfprof("code").text == expected("code")
    other = fastprof.load_graph(graph, run_metadata={70: runs[0], 5: runs[1]}, op_log=log)
    assert other.tfprof_profiles["steps"].to_pylist() == [[5, 70]]
    assert other.tfprof("scope", step=70).text == expected("scope", 1)
    with pytest.raises(UsageError, match="run_metadata is a list of files"):
        fastprof.load_graph(graph, run_metadata=log)


def test_a_graph_may_be_text(tmp_path: Path) -> None:
    (tmp_path / "g.pbtxt").write_text('node { name: "a" op: "Const" }\nnode { name: "b" op: "Neg" input: "a" }\n')
    (tmp_path / "run_meta").write_text(
        'step_stats { dev_stats { device: "/job:x/replica:0/task:0/cpu:0"\n'
        '  node_stats { node_name: "b" all_start_micros: 5 op_end_rel_micros: 7 } } }\n'
    )
    view = fastprof.load(tmp_path).tfprof("graph")
    assert view.table.select(["name", "micros"]).to_pylist()[1:] == [
        {"name": "b", "micros": 7},
        {"name": "a", "micros": 0},
    ]


def test_steps_have_the_last_numbers_in_names() -> None:
    assert number_runs(["d1/run_12.pb", "d1/x2_run_3.pb"]) == ((3, "d1/x2_run_3.pb"), (12, "d1/run_12.pb"))
    assert number_runs(["run_b.pb", "run_1.pb"]) == ((0, "run_b.pb"), (1, "run_1.pb"))
    assert number_runs(["a/x7.run_3", "a/x7.run_12.pb.gz"]) == ((3, "a/x7.run_3"), (12, "a/x7.run_12.pb.gz"))
    assert number_runs(["a/run_1.pb", "b/run_1.pb"]) == ((0, "a/run_1.pb"), (1, "b/run_1.pb"))


def test_what_does_not_fit_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, run = str(TF1 / "graph.pb"), str(TF1 / "run_metadata.pb")
    for files, message in (
        (GraphFiles(run), "run_metadata.pb: this is not a GraphDef"),
        (GraphFiles(graph, ((0, graph),)), "graph.pb: this is not RunMetadata"),
        (GraphFiles(graph, (), run), "run_metadata.pb: this is not an OpLogProto of tfprof"),
        (GraphFiles(graph, ((0, str(tmp_path / "none.pb")),)), "none.pb"),
    ):
        with pytest.raises(fastprof.FastprofError) as error:
            fastprof.load(files)
        assert message in str(error.value)
    cut = tmp_path / "cut.pb"
    cut.write_bytes(Path(run).read_bytes()[:-9])
    with pytest.raises(CaptureError, match=r"cut\.pb.*at byte"):
        fastprof.load(GraphFiles(graph, ((0, str(cut)),)))
    for argv, message in (
        (["scope"], "a SESSION is missing"),
        ([graph, "scope", "--graph", graph], "replaces SESSION"),
        ([graph, "scope", "--op-log", graph], "need --graph"),
        (["scope", "--graph", graph, "--run-metadata", str(cut), "--format", "json", "-o", str(cut)], "cut.pb"),
    ):
        assert main(["tfprof", *argv]) != 0
        assert message in capsys.readouterr().err
    assert cut.read_bytes() == Path(run).read_bytes()[:-9]


def test_a_directory_with_only_a_part_of_them_is_none(tmp_path: Path) -> None:
    copied(tmp_path, "gpu_op_log", "gpu_run_metadata_0.pb")
    with pytest.raises(NotFoundError, match="no captures"):
        fastprof.load(tmp_path)
    copied(tmp_path, "gpu_graph.pb")
    shutil.copyfile(TF1 / "graph.pb", tmp_path / "other.pb")
    with pytest.raises(UsageError, match=r"several graphs: gpu_graph\.pb, other\.pb"):
        fastprof.load(tmp_path)
