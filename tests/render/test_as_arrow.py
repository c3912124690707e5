"""Arrow IPC, read back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from fastprof.render.table_forms import FORMATS, Look, render_table


def read(data: Any, *, file: bool) -> pa.Table:
    text = b"".join(render_table("arrow", data, name="t", look=Look(file=file)))
    return (pa.ipc.open_file(text) if file else pa.ipc.open_stream(text)).read_all()


@pytest.mark.parametrize("file", [False, True])
def test_a_table_comes_back_with_its_types_and_metadata(awkward: pa.Table, file: bool) -> None:
    back = read(awkward, file=file)
    assert back.schema.equals(awkward.schema, check_metadata=True)
    assert back.to_pylist()[2:] == awkward.to_pylist()[2:]
    assert back.num_rows == 4


def batches() -> Iterator[pa.RecordBatch]:
    for names in ([], ["a", "b"], ["a", "b"], ["c", None, "a"], ["b", "d"]):
        numbers = pa.array(range(len(names)), pa.int64())
        encoded = pa.array(names, pa.string()).dictionary_encode()
        width = pa.int8() if len(names) == 3 else pa.int32()  # as narrow as the batch allows
        narrowed = pa.DictionaryArray.from_arrays(encoded.indices.cast(width), encoded.dictionary)
        yield pa.record_batch({"name": narrowed, "n": numbers})


@pytest.mark.parametrize("file", [False, True])
def test_dictionaries_may_change_from_batch_to_batch(file: bool) -> None:
    back = read(batches(), file=file)
    assert back.column("name").to_pylist() == ["a", "b", "a", "b", "c", None, "a", "b", "d"]


def test_a_file_holds_one_dictionary_a_column() -> None:
    back = read(batches(), file=True)
    dictionaries = {tuple(chunk.dictionary.to_pylist()) for chunk in back.column("name").chunks}
    assert dictionaries == {("a", "b", "c", "d")}


@pytest.mark.parametrize("file", [False, True])
def test_a_table_whose_chunks_differ(file: bool) -> None:
    widest = pa.schema([("name", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int64())])
    table = pa.concat_tables(pa.Table.from_batches([batch]).cast(widest) for batch in batches())
    assert read(table, file=file).column("name").to_pylist() == table.column("name").to_pylist()


@pytest.mark.parametrize("file", [False, True])
def test_no_rows(file: bool) -> None:
    empty = pa.table({"name": pa.array([], pa.dictionary(pa.int8(), pa.string()))})
    assert read(empty, file=file).num_rows == 0
    assert read(iter([pa.record_batch({"a": pa.array([], pa.int64())})]), file=file).num_rows == 0


def test_batches_are_passed_on_as_they_come() -> None:
    pulled = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal pulled
        for _ in range(5):
            pulled += 1
            yield pa.record_batch({"a": [1, 2]})

    stream = render_table("arrow", counted(), name="t", look=Look())
    next(stream)
    assert pulled == 1
    list(stream)
    assert pulled == 5


def test_an_error_of_the_data_passes_through() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        raise RuntimeError("mid-stream")

    for form in FORMATS:
        with pytest.raises(RuntimeError, match="mid-stream"):
            list(render_table(form, broken(), name="t", look=Look()))


def test_a_form_that_is_not_offered() -> None:
    with pytest.raises(KeyError):
        render_table("xml", pa.table({}), name="t", look=Look())


def test_a_dictionary_may_be_empty_at_first() -> None:
    batches = [
        pa.record_batch([pa.DictionaryArray.from_arrays(pa.array(at, pa.int32()), pa.array(texts, pa.string()))], ["s"])
        for at, texts in (([None, None], []), ([0, 1], ["a", "b"]))
    ]
    assert read(iter(batches), file=True)["s"].to_pylist() == [None, None, "a", "b"]
