"""Random traces give the events of the slow reader, however they are cut into chunks, and wherever they end."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator

import pytest
from gate import few, rounds
from loaded_traces import difference, log, slices, slow_slices
from random_documents import PHASES, damaged_document, dialect_of, document, several_documents
from slow_flows import Arrow, arrows_of
from slow_trace import read_trace

import fastprof
from fastprof.inputs.formats import chrome_json
from fastprof.inputs.formats.contract import FormatRemark

REMARKED = ("bad_time", "no_duration", "negative_duration", "end_without_begin", "begin_without_end", "name_mismatch",
            "mixed_steps", "step_without_begin")  # fmt: skip
DIALECTS = {"browser", "kineto", "xprof", "tf1"}


def differs(profile: fastprof.Profile, data: bytes) -> str:
    """What the slow reader reads otherwise."""
    slow = read_trace(data)
    counts = log(profile)
    remarks = {
        code: (counts.get(code, 0), slow.log[code]) for code in REMARKED if counts.get(code, 0) != slow.log[code]
    }
    return difference(slices(profile), slow_slices(slow)) + (f"\n{remarks}" if remarks else "")


def test_they_are_of_all_writers() -> None:
    assert {dialect_of(seed) for seed in range(50)} == DIALECTS
    assert {read_trace(document(seed)).dialect for seed in range(50)} == DIALECTS


@pytest.mark.parametrize("first", few(range(0, 200, 50), 2))
def test_random_documents(first: int) -> None:
    for seed in range(first, first + 50):
        data = document(seed)
        assert differs(fastprof.load(data), data) == "", f"seed {seed}"


def test_documents_that_follow_each_other() -> None:
    for seed in range(rounds(20, 10)):
        data = several_documents(seed)
        assert differs(fastprof.load(data), data) == "", f"seed {seed}"


def test_bytes_that_are_not_json_are_passed_over() -> None:
    for seed in range(rounds(40, 15)):
        damaged, sound = damaged_document(seed)
        with pytest.raises(fastprof.CaptureError, match=r"no JSON, reading .* \(at byte [0-9,]+\)"):
            fastprof.load(damaged)
        profile = fastprof.load(damaged, on_error="salvage")
        assert differs(profile, sound) == "", f"seed {seed}"
        assert 0 < log(profile)["lost_bytes"] <= len(damaged) - len(sound)


def _place(events: list[dict[str, object]], event_id: int | None) -> tuple[object, ...] | None:
    return None if event_id is None else tuple(events[event_id].values())


def test_flows() -> None:
    """Of slices that begin and end together, the innermost is the later one."""
    for seed in range(rounds(40, 15)):
        data = document(seed)
        profile = fastprof.load(data)
        events = profile.events.select(["plane", "line", "name", "start_ps", "duration_ps"]).to_pylist()
        found = Counter(
            Arrow(row["name"], row["category"], row["id"], _place(events, row["from_event_id"]),
                  _place(events, row["to_event_id"]), row["from_ps"], row["to_ps"])  # type: ignore[arg-type]
            for row in profile.flows.to_pylist()
        )  # fmt: skip
        wanted, _ = arrows_of(read_trace(data))
        assert found == wanted, f"seed {seed}"


# ---- chunks and ends


def transcribed(data: bytes, most: int) -> tuple[bytes, list[FormatRemark]]:
    """The XSpace, and what is remarked."""
    scribe = chrome_json.scribe("a trace", False)
    for at in range(0, len(data), most):
        scribe.push(data[at : at + most])
    space = b"".join(scribe.finish())
    scribe.close()
    return space, scribe.remarks


@pytest.mark.parametrize("most", [1, 7, 64, 4096])
def test_chunks_of_any_size(most: int) -> None:
    for seed in range(rounds(60, 20)):
        data = several_documents(seed)
        assert transcribed(data, most) == transcribed(data, len(data)), f"seed {seed}"


def test_a_stream_of_single_bytes() -> None:
    class Dripping(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(1, size or 1))

    data = document(1)
    assert differs(fastprof.load(Dripping(data)), data) == ""


def _ends(text: str) -> Iterator[int]:
    """Where the events of an array end."""
    at = 1
    while text[at] != "]":
        _, at = json.JSONDecoder(strict=False).raw_decode(text, at)
        yield at
        at += text[at] == ","


def test_documents_that_end_at_any_byte() -> None:
    """The events that are complete, as of an array that ends with them."""
    phases: set[str] = set()
    for seed in (13, 32, 47, 52):
        text = damaged_document(seed)[1].decode("utf8", "replace")
        phases |= {str(event["ph"]) for event in json.loads(text, strict=False)}
        data = text.encode()
        ends = [0, *(len(text[:end].encode()) for end in _ends(text))]
        spaces = [transcribed(data[:end] if end else b"[", len(data))[0] for end in ends]
        for cut in range(1, len(data)):
            count = sum(end <= cut for end in ends) - 1
            space, remarks = transcribed(data[:cut], len(data))
            assert space == spaces[count], f"seed {seed} cut at {cut}"
            is_whole = data[ends[count] : cut] in (b"", b",") or cut == 1
            assert ("truncated" in {one.code for one in remarks}) is not is_whole, f"seed {seed} cut at {cut}"
    assert phases == set(PHASES)
