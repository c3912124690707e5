"""Runs below a directory: where they are found, which is read, and what is said where there are none."""

from __future__ import annotations

import builtins
import io
import os
import subprocess
import time
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from log_directories import MIDDLE, NEW, OLD, codes, hosts, paths, profile, put

from fastprof.errors import NotFoundError, UsageError
from fastprof.inputs import log_directory
from fastprof.inputs.resolve import choose_for_times, list_runs, resolve

# Log directories


def test_every_shape_of_log_directory(tmp_path: Path) -> None:
    put(tmp_path, profile(NEW), "events.out.tfevents.1.vm.profile-empty", "plugins/profile/empty/x.txt")
    for below in ("", "plugins", "plugins/profile", f"plugins/profile/{NEW}"):
        top = tmp_path / below
        session = resolve(top)
        assert (session.run, paths(session, tmp_path), session.remarks) == (NEW, [profile(NEW)], ())
        assert [run.name for run in list_runs(top)] == [NEW]


def test_run_names_say_where_the_runs_lie(tmp_path: Path) -> None:
    put(tmp_path, profile(OLD), f"train/{profile(MIDDLE)}", f"a/b/eval/{profile(NEW)}")
    put(tmp_path, f"{OLD[:-1]}8/x.xplane.pb")
    found = list_runs(tmp_path)
    assert [run.name for run in found] == [f"a/b/eval/{NEW}", f"train/{MIDDLE}", OLD, f"{OLD[:-1]}8"]
    assert found[1].path == str(tmp_path / f"train/plugins/profile/{MIDDLE}")
    assert found[1].hosts == ["vm"]
    assert [file.source for file in found[1].files] == [file.source for file in resolve(found[1].path).files]
    assert {file.run for file in found[1].files} == {f"train/{MIDDLE}"}
    assert resolve(tmp_path).run == f"a/b/eval/{NEW}"


def test_a_run_is_read_before_its_repetition_without_python(tmp_path: Path) -> None:
    put(tmp_path, profile(NEW), profile(f"{NEW}_without_python"), profile("mine"), profile("mine_without_python"))
    names = [run.name for run in list_runs(tmp_path)]
    assert names.index(NEW) < names.index(f"{NEW}_without_python")
    assert names.index("mine") < names.index("mine_without_python")


def test_a_second_window_without_python_is_for_times(tmp_path: Path) -> None:
    put(tmp_path, profile(OLD), profile(NEW), profile(f"{NEW}_without_python"))
    log = resolve(tmp_path)
    assert log.run == NEW
    run = resolve(tmp_path / Path(profile(NEW)).parent)
    for session in (log, run):
        (remark,) = (remark for remark in session.remarks if remark.code == "second_window")
        assert (
            remark.message == f"the second window of {NEW}, without Python functions: use it for step times and rates"
        )
        assert remark.path is not None and remark.path.endswith(f"{NEW}_without_python")
    assert "second_window" not in {remark.code for remark in resolve(tmp_path, run=OLD).remarks}
    runs = list_runs(tmp_path)
    assert [run.name for run in runs] == [NEW, f"{NEW}_without_python", OLD]
    assert [run.name for run in choose_for_times(runs)] == [f"{NEW}_without_python", OLD]
    assert choose_for_times(runs[1:]) == runs[1:]


def test_a_directory_of_run_directories(tmp_path: Path) -> None:
    put(tmp_path, "tpu/host0.xplane.pb", "tpu/host1.xplane.pb", "cpu/vm.xplane.pb", "none/readme.txt")
    assert sorted(run.name for run in list_runs(tmp_path)) == ["cpu", "tpu"]
    assert hosts(resolve(tmp_path, run="tpu")) == ["host0", "host1"]


def test_the_newest_run_is_the_default_and_the_others_are_named(tmp_path: Path) -> None:
    put(tmp_path, profile(OLD), profile(NEW), profile(MIDDLE))
    session = resolve(tmp_path)
    assert session.run == NEW
    (remark,) = session.remarks
    assert (remark.severity, remark.code) == ("info", "newest_run")
    assert all(word in remark.message for word in (NEW, "2 other runs", "run=", OLD, MIDDLE))
    assert [run.name for run in list_runs(tmp_path)] == [NEW, MIDDLE, OLD]


def test_time_stamps_are_times_and_other_names_have_the_time_of_their_captures(tmp_path: Path) -> None:
    put(tmp_path, profile("2026_2_1_0_0_0"), profile("2026_11_01_00_00_00"), profile("aaa"), profile("zzz"))
    put(tmp_path, profile("2026_13_99_00_00_00"))

    def touched(run: str, year: int, month: int, day: int) -> None:
        at = time.mktime((year, month, day, 0, 0, 0, 0, 0, -1))
        os.utime(tmp_path / profile(run), (at, at))

    touched("aaa", 2026, 12, 1)
    touched("zzz", 2026, 1, 1)
    touched("2026_13_99_00_00_00", 2026, 3, 1)
    assert [run.name for run in list_runs(tmp_path)] == [
        "aaa", "2026_11_01_00_00_00", "2026_13_99_00_00_00", "2026_2_1_0_0_0", "zzz",
    ]  # fmt: skip


def test_impossible_times_do_not_stop_the_search(tmp_path: Path) -> None:
    put(tmp_path, profile("old"), profile("0000_00_00_00_00_00"))
    (tmp_path / "plugins/profile/dangling").mkdir()
    (tmp_path / profile("dangling")).symlink_to("gone")
    os.utime(tmp_path / profile("old"), (-1e9, -1e9))
    assert len(list_runs(tmp_path)) == 3


def test_run_picks_by_name_or_unique_last_part(tmp_path: Path) -> None:
    put(tmp_path, f"train/{profile(OLD)}", f"eval/{profile(OLD, 'tpu')}", f"train/{profile(NEW)}")
    assert resolve(tmp_path, run=f"eval/{OLD}").files[0].host == "tpu"
    assert resolve(tmp_path, run=NEW).run == f"train/{NEW}"
    assert resolve(tmp_path, run=NEW).remarks == ()
    with pytest.raises(UsageError, match=f"full name: .*eval/{OLD}"):
        resolve(tmp_path, run=OLD)
    with pytest.raises(NotFoundError, match=f"there is no run 2024; .*train/{NEW}, .*{OLD}") as caught:
        resolve(tmp_path, run="2024")
    assert caught.value.path == str(tmp_path)


def test_run_needs_a_directory_to_pick_from(tmp_path: Path) -> None:
    put(tmp_path, "a.xplane.pb", "logs/r/b.xplane.pb")
    for what in (tmp_path / "a.xplane.pb", b"", [tmp_path / "a.xplane.pb"], f"{tmp_path}/*.pb"):
        with pytest.raises(UsageError, match="no directory is given"):
            resolve(what, run="r")
    with pytest.raises(UsageError, match="run is empty"):
        resolve(tmp_path, run="")
    assert resolve([tmp_path / "a.xplane.pb", tmp_path / "logs"], run="r").run is None


def test_two_runs_of_one_name_are_distinguished_by_directory(tmp_path: Path) -> None:
    put(tmp_path, profile("r"), "r/vm.xplane.pb")
    with pytest.raises(UsageError, match=r"2 runs are called r; give a directory: .*plugins/profile/r"):
        resolve(tmp_path, run="r")


def test_captures_in_the_directory_named_go_before_runs_below(tmp_path: Path) -> None:
    put(tmp_path, "vm.xplane.pb", profile(NEW), profile(OLD))
    session = resolve(tmp_path)
    assert session.run == tmp_path.name
    assert codes(session) == [("info", "runs_below")]
    assert "2 other runs" in session.remarks[0].message
    assert resolve(tmp_path, run=OLD).run == OLD


def test_captures_that_lie_deeper_are_remarked(tmp_path: Path) -> None:
    put(tmp_path, "run/a.xplane.pb", "archive/run/b.xplane.pb")
    session = resolve(tmp_path)
    assert (hosts(session), codes(session)) == (["a"], [("info", "captures_deeper")])
    assert "archive/run" in session.remarks[0].message


def test_hidden_and_unfinished_directories_are_no_runs(tmp_path: Path) -> None:
    put(tmp_path, profile(".hidden"), profile("copy.tmp"), f".cache/{profile(NEW)}", profile(OLD))
    assert [run.name for run in list_runs(tmp_path)] == [OLD]
    assert hosts(resolve(tmp_path / "plugins/profile/.hidden")) == ["vm"]


@pytest.mark.parametrize("name", ["~", ".hidden", "copy.tmp"])
def test_a_run_that_is_named_as_unfinished_copies_are_can_be_chosen(tmp_path: Path, name: str) -> None:
    put(tmp_path, profile(name), profile(OLD), f"train/{profile(name, 'tpu')}", f"other/{profile(NEW)}", "~/a/x.txt")
    assert resolve(tmp_path, run=f"train/{name}").files[0].host == "tpu"
    assert resolve(tmp_path, run=name).run == name
    assert resolve(tmp_path / "train", run=name).run == name
    assert resolve(tmp_path / "plugins/profile", run=name).run == name
    with pytest.raises(NotFoundError, match="no run ~x; runs, newest first: "):
        resolve(tmp_path, run="~x")
    with pytest.raises(NotFoundError):
        resolve(tmp_path / "other", run=name)


def test_a_link_to_a_run_is_an_alias_of_it(tmp_path: Path) -> None:
    put(tmp_path / "logs", profile(OLD), profile(NEW))
    put(tmp_path, "elsewhere/vm.xplane.pb")
    (tmp_path / "logs/plugins/profile/latest").symlink_to(NEW)
    (tmp_path / "logs/plugins/profile/2024_01_01_00_00_00").symlink_to(tmp_path / "elsewhere")
    assert [run.name for run in list_runs(tmp_path / "logs")] == [NEW, OLD, "2024_01_01_00_00_00"]
    assert resolve(tmp_path / "logs", run="latest").files[0].path.endswith("latest/vm.xplane.pb")


def test_circles_of_links_end(tmp_path: Path) -> None:
    put(tmp_path, f"a/{profile(NEW)}")
    for place in ("", "a", "a/plugins", "a/plugins/profile", f"a/plugins/profile/{NEW}"):
        (tmp_path / place / "loop").symlink_to(tmp_path)
        (tmp_path / place / "loop2").symlink_to(tmp_path / "a")
    (tmp_path / "self").symlink_to("self")
    assert [run.name for run in list_runs(tmp_path)] == [f"a/{NEW}"]
    assert len(resolve(f"{tmp_path}/**/*.xplane.pb").files) == 1
    with pytest.raises(NotFoundError):
        resolve(f"{tmp_path}/**/*.nothing")


def test_a_deep_tree_is_searched_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["d"] * 1500  # deeper than Python recurses
    for depth in range(1, len(names) + 1):
        Path(*names[:depth]).mkdir()
    put(Path(*names), profile(NEW))
    assert resolve(".").run == "/".join(names) + f"/{NEW}"
    assert len(resolve("**/*.pb").files) == 1
    subprocess.run(["rm", "-rf", "d"], check=True)  # pytest would recurse


def test_run_directories_are_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, profile(NEW), f"plugins/profile/{NEW}/cache/deep/file", f"top/{profile(OLD)}")
    listed: list[str] = []
    scandir = os.scandir

    def watched(path: str) -> object:
        listed.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", watched)
    resolve(tmp_path)
    assert str(tmp_path / "plugins/profile" / NEW) in listed
    assert not [path for path in listed if "cache" in path]


def test_nothing_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, profile(NEW))

    def refuse(*_: object, **__: object) -> object:
        raise AssertionError("opened")

    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr(io, "open", refuse)
    monkeypatch.setattr(os, "open", refuse)
    for what in (tmp_path, tmp_path / profile(NEW), f"{tmp_path}/**/*.pb", [tmp_path]):
        assert len(resolve(what).files) == 1


# Nothing there


def test_a_directory_without_captures_says_what_was_looked_for(tmp_path: Path) -> None:
    for ask in (resolve, list_runs):
        looked_for = r"HOST\.xplane\.pb.*directly below.*plugins/profile/RUN"
        with pytest.raises(NotFoundError, match=looked_for) as caught:
            ask(tmp_path)
        assert caught.value.path == str(tmp_path)
        assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (["a/b/vm.xplane.pb"], "captures deeper, give their directory: .*a/b"),
        ([f"plugins/profile/user/{NEW}/vm.xplane.pb"], f"captures deeper.*profile/user/{NEW}"),
        ([f"plugins/profile/{NEW}/vm.xplane.pb.tmp"], "vm.xplane.pb.tmp: unfinished or hidden"),
        (["saved_model.pb", "NO_MODULE.hlo_proto.pb"], "saved_model.pb: read only if the file itself is named"),
    ],
)
def test_near_misses_are_named(tmp_path: Path, files: list[str], says: str) -> None:
    put(tmp_path, *sorted(files))
    with pytest.raises(NotFoundError, match=says.replace("(", r"\(")):
        resolve(tmp_path)


def test_links_that_were_not_followed_are_named(tmp_path: Path) -> None:
    put(tmp_path, f"real/{profile(NEW)}", "logs/x")
    (tmp_path / "logs/train").symlink_to(tmp_path / "real")
    with pytest.raises(NotFoundError, match=r"links are not followed, give their target: .*logs/train"):
        resolve(tmp_path / "logs")
    assert resolve(tmp_path / "logs/train").run == NEW


def test_a_missing_path_is_met_with_the_closest_names(tmp_path: Path) -> None:
    put(tmp_path, "training/host0.xplane.pb", "training/host1.xplane.pb.gz", "training/.hidden")
    with pytest.raises(NotFoundError, match=r"did you mean .*/training\?") as caught:
        resolve(tmp_path / "trainin")
    assert caught.value.path == str(tmp_path / "trainin")
    with pytest.raises(NotFoundError, match=r"did you mean .*host1\.xplane\.pb\.gz"):
        resolve(tmp_path / "training/host1.xplane.pb")
    with pytest.raises(NotFoundError, match=f"missing folder {tmp_path}/trainng; did you mean .*training"):
        resolve(tmp_path / "trainng/host0.xplane.pb")
    with pytest.raises(NotFoundError, match=r"host0\.xplane\.pb is not a directory"):
        resolve(tmp_path / "training/host0.xplane.pb/x")
    with pytest.raises(NotFoundError, match=r"no such file or directory$"):
        resolve(tmp_path / "training/qqq")
    with pytest.raises(NotFoundError, match="~ is not expanded"):
        resolve("~/no-such-directory-of-captures")
    with pytest.raises(NotFoundError, match="did you mean"):
        list_runs(tmp_path / "trainin")
    with pytest.raises(NotFoundError):
        resolve("x" * 5000)


def test_runs_since_a_time(tmp_path: Path) -> None:
    """By their names, or of others the last change of their files, in local time."""
    names = ["2026_11_01_00_00_00", "2026_11_02_12_30_00", "2026_10_31_23_59_59", "changed"]
    put(tmp_path, *(f"{name}/vm.xplane.pb" for name in names))
    changed = datetime(2026, 11, 2, 12, 29, 59)
    os.utime(tmp_path / "changed/vm.xplane.pb", (changed.timestamp(),) * 2)
    newest = [names[1], names[3], names[0], names[2]]
    assert [run.name for run in list_runs(tmp_path)] == newest
    for since, count in (
        ("2026-10-31", 4), ("2026-11-01", 3), ("2026-11-01 00:00:01", 2), ("2026-11-02 12:29", 2), (changed, 2),
        ("2026-11-02 12:30", 1), (datetime(2026, 11, 2, 12, 30).astimezone(UTC), 1), (date(2026, 11, 2), 2),
        ("2026-11-02 12:30:00.5", 0), ("2026_11_01", 3), ("2026_11_02_12_30_00", 1), ("2026_11_02_12_29", 2),
    ):  # fmt: skip
        assert [run.name for run in list_runs(tmp_path, since)] == newest[:count], since
    for wrong, says in (
        ("soon", "'soon' is not a time; write 2026-11-01"),
        ("2026_13_01", "is not a time"),
        (7, "a text or a datetime, not int"),
    ):
        with pytest.raises(UsageError, match=says):
            list_runs(tmp_path, wrong)  # type: ignore[arg-type]


def test_runs_takes_a_directory(tmp_path: Path) -> None:
    put(tmp_path, "a.xplane.pb")
    with pytest.raises(UsageError, match="is a file"):
        list_runs(tmp_path / "a.xplane.pb")
    with pytest.raises(UsageError, match="not bytes"):
        list_runs(b"logs")  # type: ignore[arg-type]


def test_a_link_to_a_pipe_is_not_a_capture(tmp_path: Path) -> None:
    """Opening it would wait for ever."""
    put(tmp_path, "a.xplane.pb")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "b.xplane.pb").symlink_to("pipe")
    (tmp_path / "c.xplane.pb").symlink_to("nothing")
    assert [file.host for file in resolve(tmp_path).files] == ["a", "c"]


def test_listing_runs_looks_at_each_directory_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        folder = tmp_path / "plugins" / "profile" / f"2026_01_01_{number // 60:02}_{number % 60:02}_00"
        folder.mkdir(parents=True)
        (folder / "vm.xplane.pb").write_bytes(b"")
    calls: Counter[str] = Counter()
    for name in ("scandir", "stat", "lstat", "readlink"):
        made = getattr(os, name)

        def counted(*args: Any, name: str = name, made: Any = made, **rest: Any) -> Any:
            calls[name] += 1
            return made(*args, **rest)

        monkeypatch.setattr(os, name, counted)
    assert len(list_runs(tmp_path)) == 300
    assert calls["scandir"] == 303
    assert calls["stat"] + calls["lstat"] + calls["readlink"] < 10


def test_a_search_ends_after_many_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those near to the one named come first."""
    put(tmp_path / "logs", profile(NEW))
    for number in range(20):
        (tmp_path / f"a{number:02}" / "b" / "c" / "d").mkdir(parents=True)
    listed = 0
    scandir = os.scandir

    def counted(path: str) -> object:
        nonlocal listed
        listed += 1
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    monkeypatch.setattr(log_directory, "MOST_DIRECTORIES", 70)
    session = resolve(tmp_path)
    assert session.run == f"logs/{NEW}" and listed <= 70 + 8
    (remark,) = [remark for remark in session.remarks if remark.code == "search_ended"]
    assert "the search ended after 70 directories" in remark.message
    monkeypatch.setattr(log_directory, "MOST_DIRECTORIES", 10)
    with pytest.raises(NotFoundError, match=r"the search ended after 10 directories, with .* not searched"):
        resolve(tmp_path)
