"""Paths of Windows whose backslashes nobody has escaped appear as they were written, and escapes of JSON are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fastprof

HERE = Path(__file__).parent


def test_a_reported_path_is_whole() -> None:
    profile = fastprof.load(HERE / "i07-winpath.json.gz")
    names = profile.events["name"].to_pylist()
    assert r"C:\Users\xuser\envs\torch\nn\modules\module.py(1102): _call_impl" in names
    assert not [name for name in names if "\t" in name or "\n" in name]
    assert "unescaped_backslash" in profile.import_log["code"].to_pylist()
    assert profile.kernel_stats().scalars["total_ps"].value == 2_000_000_000


WRITTEN = {
    r"C:\Users\torch\nn\a.py(3): f": r"C:\Users\torch\nn\a.py(3): f",
    r"C:\temp\new\bin\run.py(3): f": r"C:\temp\new\bin\run.py(3): f",
    r"D:\users\tables\x.dll": r"D:\users\tables\x.dll",
    r"\\server\share\new\a.py": r"\\server\share\new\a.py",
    r"load \"a\data\tab\"": r'load "a\data\tab"',
    r"<string>(1): \lambda\n": r"<string>(1): \lambda\n",
}
ESCAPED = ["C:\\Users\\new\\a.py", "a:\nb\n0.5", "x:\nhello\tworld.", 'ä \\d {} "q"', "a\tb\nc", "C:\n", "🙂 \\"]
MIXED = {r"a\\b \d \t": "a\\b \\d \t", r"\u00e4\d\t": "ä\\d\t"}


def recorded(path: Path, texts: list[str]) -> tuple[list[str], list[str], fastprof.Profile]:
    """The names and the values of args of events with these texts, as they stand in the file."""
    events = [
        f'{{"ph": "X", "name": "{text}", "pid": 1, "tid": 1, "ts": {10 * at}, "dur": 5, '
        f'"args": {{"Call": "{text}", "list": ["{text}", {{"{text}": 1}}]}}}}'
        for at, text in enumerate(texts)
    ]
    path.write_text(f'{{"schemaVersion": 1, "traceEvents": [{", ".join(events)}]}}', "utf-8")
    profile = fastprof.load(path)
    table = profile.event_table(["name"], ["Call", "list"]).to_pydict()
    for text, value in zip(table["Call"], table["list"], strict=True):
        assert json.loads(value) == [text, {text: 1}]
    return table["name"], table["Call"], profile


@pytest.mark.parametrize("text", WRITTEN)
def test_texts_whose_backslashes_are_not_escaped_stand_as_written(text: str, tmp_path: Path) -> None:
    names, values, profile = recorded(tmp_path / "t.json", [text])
    assert names == values == [WRITTEN[text]]
    assert profile.import_log["code"].to_pylist() == ["unescaped_backslash"]


@pytest.mark.parametrize("ascii_only", [True, False])
def test_escaped_texts_are_read_as_json(ascii_only: bool, tmp_path: Path) -> None:
    names, values, profile = recorded(
        tmp_path / "t.json", [json.dumps(text, ensure_ascii=ascii_only)[1:-1] for text in ESCAPED]
    )
    assert names == values == ESCAPED
    assert not profile.import_log.num_rows


def test_a_wrong_escape_beside_escaped_backslashes_is_remarked(tmp_path: Path) -> None:
    names, values, profile = recorded(tmp_path / "t.json", list(MIXED))
    assert names == values == list(MIXED.values())
    assert profile.import_log["code"].to_pylist() == ["unescaped_backslash"]
