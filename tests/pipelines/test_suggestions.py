"""What kind an iterator is, and what is suggested for it."""

from __future__ import annotations

import pytest

from fastprof.derive.pipelines.recorded_pipelines import (
    Helps,
    IteratorKind,
    find_iterator_kind,
    is_true,
    suggest_change,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Map", IteratorKind.FUNCTION),
        ("MapV2", IteratorKind.FUNCTION),
        ("BatchV2", IteratorKind.FUNCTION),
        ("ParallelMapV2", IteratorKind.PARALLEL),
        ("MapAndBatch", IteratorKind.PARALLEL),
        ("ParallelInterleaveV4", IteratorKind.PARALLEL_INTERLEAVING),
        ("Interleave[3]", IteratorKind.INTERLEAVING),
        ("FixedLengthRecordV2[0]", IteratorKind.SOURCE),
        ("TFRecordV2", IteratorKind.SOURCE),
        ("DataServiceV4", IteratorKind.SERVICE),
        ("Prefetch", IteratorKind.BUFFER),
        ("Filter", IteratorKind.SEQUENTIAL),
        ("Model", IteratorKind.WRAPPER),
        ("map", IteratorKind.OTHER),
        ("MapVolume2", IteratorKind.OTHER),
        ("Zip", IteratorKind.OTHER),
        ("", IteratorKind.OTHER),
    ],
)
def test_kinds_by_name_whatever_the_version(name: str, kind: IteratorKind) -> None:
    assert find_iterator_kind(name) is kind


@pytest.mark.parametrize(
    ("name", "recorded", "said"),
    [
        ("Map", {}, "num_parallel_calls"),
        ("BatchV2", {}, "batch(..., num_parallel_calls"),
        (
            "ParallelMapV2",
            {"parallelism": 2, "autotune": "false"},
            "It runs 2 calls at a time: raise num_parallel_calls",
        ),
        ("ParallelMapV2", {"parallelism": 1}, "It runs 1 call at a time"),
        ("ParallelMapV2", {"parallelism": 8, "autotune": "true"}, "Its function is slow"),
        ("ParallelMapV2", {"parallelism": "many"}, "Its function is slow"),
        ("TFRecord", {}, "interleave(..., num_parallel_calls"),
        ("Generator", {}, "A Python generator"),
        ("Prefetch", {}, "elements are made more slowly"),
        ("Shuffle", {}, "one after another"),
        ("DataServiceV2", {}, "tf.data service"),
        ("Take", {}, "prefetch(tf.data.AUTOTUNE)"),
    ],
)
def test_suggestions_fit_the_iterator(name: str, recorded: dict[str, int | float | str | None], said: str) -> None:
    assert said in suggest_change(name, f"Iterator::Root::{name}", recorded)


def test_what_surrounds_it_decides_too() -> None:
    behind = suggest_change("TFRecord", "Iterator::Root::ParallelInterleaveV4[0]::TFRecord", {})
    assert behind == suggest_change("ParallelInterleaveV4", "Iterator::Root::ParallelInterleaveV4", {})
    assert "host's pipeline" in suggest_change("Generator", "Iterator::Prefetch::Generator", {}, to_device=True)
    assert "reading files" in suggest_change("Map", "Iterator::Map", {}, reading=0.5)
    assert "reading files" not in suggest_change("Map", "Iterator::Map", {}, reading=0.4)


def test_nothing_is_advised_that_saves_nothing() -> None:
    def said(name: str, helps: Helps) -> str:
        return suggest_change(name, f"Iterator::Root::{name}", {"parallelism": 2}, helps=helps)

    nothing = Helps(faster=False, several=None, any_change=False)
    for name in ("MapAndBatch", "Prefetch", "ParallelInterleaveV4"):
        assert "were late for another reason" in said(name, nothing) and "num_parallel_calls" not in said(name, nothing)
    assert said("Map", nothing) == "No change of one iterator makes batches faster."
    assert "other iterators set the pace" in said("Map", Helps(faster=False, several=False, any_change=True))
    cheaper = said("Map", Helps(faster=True, several=False, any_change=True, cores=2))
    assert cheaper.startswith("Make its work cheaper") and cheaper.endswith("saves nothing, as there are 2 cores.")
    assert said("Map", Helps(faster=True, several=True, any_change=True)) == suggest_change(
        "Map", "Iterator::Root::Map", {}
    )
    assert said("Map", Helps()) == suggest_change("Map", "Iterator::Root::Map", {}), "where nothing is predicted"


def test_truths_as_they_are_written() -> None:
    assert [is_true(value) for value in ("true", "False", 1, 0, None, "maybe")] == [
        True,
        False,
        True,
        False,
        None,
        None,
    ]
