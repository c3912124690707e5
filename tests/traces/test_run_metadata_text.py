"""RunMetadata as text gives what the protobuf gives."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from gate import rounds

import fastprof
from fastprof.errors import CaptureError
from fastprof.inputs.formats import run_metadata_text
from fastprof.schema.message_fields import put

TEXT = rb"""
# of one run
step_stats <
  dev_stats {
    device: "/job:w/replica:0/" "task:0/device:CPU:0"
    node_stats {
      node_name: 'a\'b\x41\101\n'; timeline_label: "a = MatMul(x, y)"
      all_start_micros: 1500000000000000, all_end_rel_micros: 0x10
      memory: { allocator_name: "cpu" total_bytes: 24
        allocation_records { alloc_micros: 1500000000000001 alloc_bytes: -24 } }
      output { slot: 1 tensor_description { dtype: DT_FLOAT shape { dim { size: 2 } dim { size: -1 } }
        allocation_description { requested_bytes: 8 allocated_bytes: 64 allocator_name: "cpu"
          has_single_reference: true } } }
      referenced_tensor { requested_bytes: 4 }
      something_new { deeper { text: "}" numbers: [1, 2.5, -3] } }
      memory_stats { temp_memory_size: 010 persistent_tensor_alloc_ids: [1, 2] }
    }
    thread_names { key: 0 value: "main" }
  }
>
cost_graph { node { name: "a" } }
"""


def message() -> bytes:
    records = put(1, 1_500_000_000_000_001) + put(2, -24)
    tensor = put(1, 1) + put(2, put(2, put(1, 2)) + put(2, put(1, -1))) + put(4, put(1, 8) + put(2, 64) + put(3, "cpu"))
    node = (
        put(1, "a'bAA\n") + put(8, "a = MatMul(x, y)") + put(2, 1_500_000_000_000_000) + put(5, 16)
        + put(6, put(1, "cpu") + put(2, 24) + put(6, records)) + put(7, put(1, 1) + put(3, tensor))
        + put(12, put(1, 8))
    )  # fmt: skip
    threads = put(1, 0) + put(2, "main")
    return put(1, put(1, put(1, "/job:w/replica:0/task:0/device:CPU:0") + put(2, node) + put(3, threads)))


def tables_of(data: bytes) -> list[pa.Table]:
    tables = fastprof.load(data).tables
    return [tables[name] for name in ("lines", "events", "event_stats")]


def test_text_gives_the_tables_of_the_protobuf() -> None:
    assert tables_of(TEXT) == tables_of(message())
    events = tables_of(TEXT)[1].to_pylist()
    assert [(row["line"], row["name"], row["duration_ps"]) for row in events if row["line"] == "main"] == [
        ("main", "a'bAA\n:MatMul", 16_000_000)
    ]


def test_damaged_text_is_an_error_with_its_place_or_salvaged() -> None:
    for broken, at, what in (
        (TEXT.replace(b"0x10", b"}"), None, "a field has no value"),
        (TEXT[: TEXT.index(b"cost_graph") - 3], TEXT.index(b"cost_graph") - 3, "the text ends within a message"),
        (TEXT.replace(b"dtype:", b"dtype %"), TEXT.index(b"dtype:") + 6, "a sign that texts of protobufs do not have"),
    ):
        with pytest.raises(CaptureError, match=f"{what}, reading RunMetadata") as caught:
            fastprof.load(broken)
        assert at is None or caught.value.offset == at
        codes = fastprof.load(broken, on_error="salvage").import_log["code"].to_pylist()
        assert "truncated" in codes


def test_changed_and_deep_texts_give_bytes_or_an_error() -> None:
    chance = random.Random(5)
    for _ in range(rounds(2000, 300)):
        changed = bytearray(TEXT)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.choice(b"{}<>[]\"'\\:,; \n0a-#")
        scribe = run_metadata_text.scribe("file", salvage=bool(chance.randrange(2)))
        scribe.push(bytes(changed))
        try:
            b"".join(scribe.finish())
        except CaptureError as fault:
            assert fault.offset is not None
    with pytest.raises(CaptureError, match="deeper than 64"):
        fastprof.load(b"step_stats {" + b"x {" * 100_000)


def test_of_a_text_that_is_cut_what_was_read_can_be_salvaged() -> None:
    cut = TEXT[: TEXT.index(b"memory_stats")]
    kept = fastprof.load(cut, on_error="salvage")
    assert "a'bAA\n:MatMul" in kept.events["name"].to_pylist()
    assert kept.import_log["code"].to_pylist() == ["truncated"]
