"""Profile.to_trace: which form a file has, and that it appears whole or not at all."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from trace_builder import event, line, plane, xspace
from trace_readers import read_chrome, read_perfetto

import fastprof
from fastprof.errors import OutputError, UsageError
from fastprof.export import trace_files

SOURCE = xspace(plane("/host:CPU", [line("t", [event("a", 0, 1_000_000), event("b", 2_000_000, 1_000_000)])]))


@pytest.fixture
def profile() -> fastprof.Profile:
    return fastprof.load(io.BytesIO(SOURCE))


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("a.json", read_chrome),
        ("a.trace.json", read_chrome),
        ("A.JSON", read_chrome),
        ("a.pftrace", read_perfetto),
        ("a.perfetto-trace", read_perfetto),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_the_name_records_the_form(
    profile: fastprof.Profile, tmp_path: Path, name: str, reader: Any, packed: bool
) -> None:
    path = tmp_path / (name + ".gz" if packed else name)
    profile.to_trace(path)
    data = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    assert [one.name for one in reader(data).slices] == ["a", "b"]
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("form", ["xprof", "xprof-streaming"])
def test_xprofs_own_forms(profile: fastprof.Profile, tmp_path: Path, form: str) -> None:
    profile.to_trace(tmp_path / "x.json", format=form)
    events = json.loads((tmp_path / "x.json").read_bytes())["traceEvents"]
    assert [one["name"] for one in events if one.get("ph") == "X"] == ["a", "b"]


@pytest.mark.parametrize("form", ["xprof", "xprof-streaming"])
@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        ({"names": "^b$"}, {"b"}),
        ({"lines": "Modules"}, {"jit_f"}),
        ({"lines": "XLA Ops", "names": "a"}, {"a"}),
        ({"names": "^L|^a"}, {"L", "a"}),
    ],
)
def test_filters_of_xprofs_forms_only_take_away(
    tmp_path: Path, form: str, chosen: dict[str, str], wanted: set[str]
) -> None:
    """Derived tracks are those of all ops: scopes do not break where one is left out."""
    scoped = {"tf_op": "L/op:"}
    ops = [event(name, 10 * number, 10, stats=scoped) for number, name in enumerate("abab")]
    lines = [line("XLA Modules", [event("jit_f", 0, 40)], id=2), line("XLA Ops", ops, id=3)]
    whole = fastprof.load(io.BytesIO(xspace(plane("/device:TPU:0", lines))))

    def shown(profile: fastprof.Profile) -> Counter[tuple[str, float, float]]:
        profile.to_trace(tmp_path / "x.json", format=form, force=True)
        events = json.loads((tmp_path / "x.json").read_bytes())["traceEvents"]
        return Counter((one["name"], one["ts"], one["dur"]) for one in events if one.get("ph") == "X")

    everything, some = shown(whole), shown(whole.select(**chosen))
    assert {name for name, _, _ in some} == wanted
    assert not some - everything


def test_the_hosts_to_choose_from_are_reported(tmp_path: Path) -> None:
    for host in ("a", "b"):
        (tmp_path / f"{host}.xplane.pb").write_bytes(SOURCE)
    with pytest.raises(UsageError, match=r"not 2: choose one with --host \(hosts=\): a, b"):
        fastprof.load(tmp_path).to_trace(tmp_path / "x.json", format="xprof")


def test_the_streaming_form_has_the_window_that_is_selected(profile: fastprof.Profile, tmp_path: Path) -> None:
    profile.select(time_ps=(1_500_000, None)).to_trace(tmp_path / "x.json", format="xprof-streaming")
    events = json.loads((tmp_path / "x.json").read_bytes())["traceEvents"]
    assert [one["name"] for one in events if one.get("ph") == "X"] == ["b"]


def test_a_file_is_not_overwritten_unless_asked(profile: fastprof.Profile, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("mine")
    with pytest.raises(OutputError, match="already exists"):
        profile.to_trace(path)
    assert path.read_text() == "mine"
    profile.to_trace(path, force=True)
    assert read_chrome(path.read_bytes()).slices
    with pytest.raises(OutputError, match="directory"):
        profile.to_trace(tmp_path, format="chrome")
    with pytest.raises(OutputError, match="cannot write"):
        profile.to_trace(tmp_path / "no" / "a.json")


def test_a_file_that_fails_leaves_nothing(
    profile: fastprof.Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Any:
        yield b"{"
        raise ValueError("broken")

    monkeypatch.setattr(trace_files.TraceFile, "chunks", broken)
    with pytest.raises(ValueError, match="broken"):
        profile.to_trace(tmp_path / "a.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"out": "a.txt"}, "does not name a trace format"),
        ({"out": "a.json", "format": "perfeto"}, "perfetto"),
        ({"out": "a.json", "stats": "some"}, "stats must be one of"),
        ({"out": "a.json", "format": "xprof-streaming", "resolution": float("nan")}, "resolution"),
    ],
)
def test_arguments_that_make_no_sense(
    profile: fastprof.Profile, tmp_path: Path, arguments: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        profile.to_trace(tmp_path / arguments.pop("out"), **arguments)
    assert not list(tmp_path.iterdir())
