"""Event files of TensorFlow: the runs that they hold are steps; records with wrong checksums end them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import fastprof
from fastprof._native.riegeli import crc32c
from fastprof.errors import CaptureError
from fastprof.inputs.formats import event_file
from fastprof.schema.message_fields import put

SHARED = Path(__file__).resolve().parents[3] / "shared"
INPUTS = SHARED / "conformance" / "tfprof" / "inputs"
(SAMPLE,) = (INPUTS / "events").iterdir()
RUN = (SHARED / "captures" / "tf1" / "run_metadata.pb").read_bytes()


def record(event: bytes) -> bytes:
    def sum_of(data: bytes) -> bytes:
        found = crc32c(data)
        return (((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")

    length = len(event).to_bytes(8, "little")
    return length + sum_of(length) + event + sum_of(event)


def written(*runs: tuple[str, int, bytes]) -> bytes:
    """``runs``: tag, step of the event, RunMetadata."""
    return record(put(3, "brain.Event:2")) + b"".join(
        record(put(2, step) + put(8, put(1, tag) + put(2, run))) for tag, step, run in runs
    )


def later(run: bytes, name: bytes) -> bytes:
    return run.replace(b"random_normal/shape", name)


def names_of_steps(data: bytes) -> list[str]:
    return fastprof.load(data).report("steps").tables["steps"]["name"].to_pylist()


def test_the_sample_has_the_events_of_both_files_that_it_was_made_of() -> None:
    def events(profile: fastprof.Profile) -> list[tuple[str, str, int, int]]:
        tables = profile.tables
        zero = {row["line_id"]: row["timestamp_ns"] * 1000 for row in tables["lines"].to_pylist()}
        columns = ("plane", "name", "duration_ps")
        return sorted(
            (*(row[name] for name in columns), zero[row["line_id"]] + row["start_ps"])
            for row in tables["events"].to_pylist()
            if row["line"] != "Steps"  # their names are the numbers of the runs
        )

    parts = [events(fastprof.load(INPUTS / f"gpu_run_metadata_{number}.pb")) for number in (0, 1)]
    assert events(fastprof.load(SAMPLE)) == sorted(parts[0] + parts[1])


def test_runs_are_steps_by_their_tags() -> None:
    first, second = RUN, later(RUN, b"random_later/shape ")
    data = written(("step_9", 1, first), ("step_10", 2, second), ("last", 3, first))
    assert names_of_steps(data) == ["3", "9", "10"]
    data = written(("step_9", 1, second), ("step_9", 2, first))
    assert names_of_steps(data) == ["9"]
    assert "random_later/shape :Const" not in fastprof.load(data).tables["events"]["name"].to_pylist()


def test_a_record_with_a_wrong_checksum_ends_the_file() -> None:
    data = bytearray(written(("step_1", 0, RUN), ("step_2", 0, RUN)))
    data[-100] ^= 1
    profile = fastprof.load(bytes(data))
    assert profile.report("steps").tables["steps"]["name"].to_pylist() == ["1"]
    (row,) = (row for row in profile.import_log.to_pylist() if row["code"] == "truncated")
    assert "a record does not fit its checksum" in row["example"]


def test_a_file_without_runs_is_refused() -> None:
    with pytest.raises(CaptureError, match="this event file has neither RunMetadata nor a graph"):
        fastprof.load(record(put(3, "brain.Event:2")))


def test_chunks_cuts_and_changes_give_the_same_an_end_or_an_error() -> None:
    data = written(("step_1", 0, RUN), ("step_2", 0, RUN))

    def transcribed(data: bytes, size: int) -> bytes:
        scribe = event_file.scribe("file", salvage=True)
        for at in range(0, len(data), size):
            scribe.push(data[at : at + size])
        return b"".join(scribe.finish())

    whole = transcribed(data, len(data))
    assert all(transcribed(data, size) == whole for size in (1, 7, 64, 4096))
    chance = random.Random(3)
    for end in range(0, len(data), 37):
        transcribed(data[:end], 1000)
    for _ in range(300):
        changed = bytearray(data)
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        transcribed(bytes(changed), 1000)


def test_runs_on_a_gpu_are_steps_of_its_kernels() -> None:
    profile = fastprof.load(SAMPLE)
    steps = profile.report("steps").tables["steps"].to_pylist()
    assert [row["name"] for row in steps] == ["0", "1"]
    kernels = [row for row in profile.events.to_pylist() if row["line"] in ("stream 7", "stream 13", "memcpy")]
    first = min(row["start_ps"] for row in kernels)
    (shown,) = (row for row in profile.events.to_pylist() if (row["line"], row["name"]) == ("Steps", "0"))
    assert shown["start_ps"] == first
    assert [row["duration_ps"] for row in steps] == [1_453_011_000] * 2
