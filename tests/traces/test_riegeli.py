"""Riegeli gives the tables of the XSpace that it holds, in all its forms, and says what is damaged."""

from __future__ import annotations

import io
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from gate import few
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof._native.riegeli import RiegeliHash, riegeli_hash
from fastprof.inputs.formats import riegeli

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "captures"
FOLDER = CAPTURES / "riegeli"
FORMS = ("chunks", "none", "simple", "snappy", "transposed", "zstd")
HASHES = {
    0: 0x72C3B1E9C0139FE1, 1: 0x2CD57BC47907559D, 3: 0x3BBB8DA470C80319, 4: 0x4D9E82979AB17CE7,
    15: 0x3402CB26FB217163, 16: 0x3E13BE3A4140F4A7, 17: 0xA7084C614077EACA, 31: 0x4D262A709C34AE7D,
    32: 0xB73F6DF550F9DCE4, 33: 0xEC2F920014EAA741, 63: 0xBEA28B7A087E1493, 65: 0xB4125566520CE871,
    100: 0xE809487465A44F74,
}  # fmt: skip


def written(*records: bytes) -> bytes:
    """A file of uncompressed simple chunks, one for each record, laid out as the format is defined."""
    out = bytearray()

    def put(data: bytes, begin: int, end: int) -> None:
        for byte in data:
            if len(out) % riegeli.BLOCK == 0:
                places = (len(out) - begin).to_bytes(8, "little") + (end - len(out)).to_bytes(8, "little")
                out.extend(riegeli_hash(places).to_bytes(8, "little") + places)
            out.append(byte)

    def chunk(kind: bytes, data: bytes, count: int, size: int) -> None:
        begin = len(out)
        sizes = (len(data).to_bytes(8, "little"), riegeli_hash(data).to_bytes(8, "little"), kind)
        header = b"".join(sizes) + count.to_bytes(7, "little") + size.to_bytes(8, "little")
        end = riegeli.find_chunk_end(begin, len(data), count)
        put(riegeli_hash(header).to_bytes(8, "little") + header + data, begin, end)
        out.extend(bytes(end - len(out)))

    chunk(b"s", b"", 0, 0)
    for record in records:
        length, size = bytearray(), len(record)
        while size > 0x7F:
            length.append(size & 0x7F | 0x80)
            size >>= 7
        length.append(size)
        chunk(b"r", bytes([0, len(length)]) + length + record, 1, len(record))
    return bytes(out)


def spaces(count: int = 3) -> list[bytes]:
    """XSpaces of one plane each, which repeat host name and error."""
    return [
        xspace(
            plane("/host:CPU", [line("main", [event(f"op{i}", 1000 * i, 10, stats={"i": i})], id=1)], id=1),
            hostnames=["vm"],
            errors=["lost"],
        )
        for i in range(count)
    ]


def names(profile: fastprof.Profile) -> list[str]:
    return [str(name) for name in profile.events.column("name").cast(pa.string()).to_pylist()]


@pytest.mark.parametrize("length", HASHES)
def test_hash(length: int) -> None:
    assert riegeli_hash(bytes(range(length))) == HASHES[length]


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    """Rows without the numbers of each record's own, and without the host, which the name of the file gives."""
    columns = [name for name in table.column_names if not name.endswith("_id") and name != "host"]
    return sorted((tuple(row.values()) for row in table.select(columns).to_pylist()), key=repr)


@pytest.mark.captures
@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_the_tables_of_its_capture(form: str) -> None:
    wanted = fastprof.load(CAPTURES / "xspace" / "cpu-jax-train" / "vm.xplane.pb")
    profile = fastprof.load(FOLDER / f"cpu-jax-train.{form}.xplane.riegeli")
    for table in ("events", "lines", "planes", "event_stats", "plane_stats"):
        assert _rows(profile.tables[table]) == _rows(wanted.tables[table]), table


@pytest.mark.captures
def test_ids_are_those_of_each_record() -> None:
    profile = fastprof.load(FOLDER / "swapped-ids.xplane.riegeli")
    table = profile.event_table(columns=["line", "name", "duration_ps"], stats=["akey", "bkey"])
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert [(row[1], *map(str, row[3:])) for row in sorted(rows, key=repr)] == [
        ("op_one", "xval", "None"), ("op_two", "yval", "42"), ("shared", "xval", "None"), ("shared", "yval", "None"),
        ("op_two", "None", "yval"),
    ]  # fmt: skip


def test_records_are_one_capture_that_repeats_nothing() -> None:
    profile = fastprof.load(written(*spaces()))
    assert names(profile) == ["op0", "op1", "op2"]
    assert profile.tables["planes"].num_rows == 1
    assert profile.tables["hosts"].column("errors").to_pylist() == [["lost"]]


def _padding(part: bytes) -> bytes:
    """A chunk of padding to the end of the block."""
    data = bytes(riegeli.BLOCK - len(part) % riegeli.BLOCK - riegeli.CHUNK_HEADER)
    header = len(data).to_bytes(8, "little") + riegeli_hash(data).to_bytes(8, "little") + b"p" + bytes(15)
    return riegeli_hash(header).to_bytes(8, "little") + header + data


def test_parts_that_were_appended() -> None:
    """Each part is padded to a block and begins with a signature."""
    parts = [written(one) for one in spaces()]
    whole = b"".join(part + _padding(part) for part in parts)
    assert names(fastprof.load(whole)) == ["op0", "op1", "op2"]


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_pieces_of_any_size(size: int) -> None:
    data = written(*spaces(), xspace(plane("/host:CPU", [line("big", [event("x" * 70_000, 5, 1)], id=2)], id=1)))
    scribe = riegeli.scribe("f", False)
    found = [piece for at in range(0, len(data), size) for piece in scribe.push(scribe.scan(data[at : at + size]))]
    whole = riegeli.scribe("f", False)
    assert b"".join([*found, *scribe.finish()]) == b"".join([*whole.push(whole.scan(data)), *whole.finish()])


def _in_place(data: bytes) -> bytes | None:
    return riegeli.find_parts(lambda at, size: data[at : at + size], len(data), "f")


def _scribed(data: bytes) -> bytes:
    scribe = riegeli.scribe("f", False)
    return b"".join([*scribe.push(scribe.scan(data)), *scribe.finish()])


def test_the_hash_of_pieces_is_that_of_all() -> None:
    data, draw = random.Random(3).randbytes(500), random.Random(4)
    for length in range(200):
        hasher, at = RiegeliHash(), 0
        while at < length:
            size = draw.randrange(1, 70)
            hasher.add(data[at : min(length, at + size)])
            at += size
        assert hasher.value() == riegeli_hash(data[:length])


def test_damage_is_refused_alike_wherever_a_file_is_read() -> None:
    """Bits that are flipped, and files that are cut: the same place and words, or the same bytes."""
    big = xspace(plane("/host:CPU", [line("big", [event("x" * 200_000, 5, 1)], id=2)], id=1), hostnames=["vm"])
    data, draw = written(*spaces(), big, *spaces()), random.Random(7)
    near = [at for at in range(len(data)) if at < 3000 or at % 65536 < 30 or at > len(data) - 1500]
    for at in draw.sample(near, 150):
        flipped = bytearray(data)
        flipped[at] ^= 1 << draw.randrange(8)
        for damaged in (bytes(flipped), data[:at]):
            try:
                wanted = _scribed(damaged)
            except fastprof.CaptureError as error:
                with pytest.raises(fastprof.CaptureError) as refused:
                    _in_place(damaged)
                assert (refused.value.message, refused.value.offset) == (error.message, error.offset)
            else:
                parts = np.frombuffer(_in_place(damaged) or b"", np.uint64).reshape(-1, 2).tolist()
                assert b"".join(damaged[place : place + size] for place, size in parts) == wanted


def test_a_file_whose_records_are_plain_is_read_where_they_stand(tmp_path: Path) -> None:
    """It gives what the same bytes give that are copied; texts that repeat are left out of both."""
    big = xspace(plane("/host:CPU", [line("big", [event("x" * 200_000, 5, 1)], id=2)], id=1), hostnames=["vm"])
    data, path = written(*spaces(), big, *spaces()), tmp_path / "vm.xplane.riegeli"
    path.write_bytes(data)
    places = _in_place(data)
    assert places is not None and len(places) > 16 * 9  # of the large record, 4 parts between headers of blocks
    for table in ("events", "event_stats", "planes", "lines"):
        assert _rows(fastprof.load(path).tables[table]) == _rows(fastprof.load(data).tables[table])
    assert fastprof.load(path).tables["hosts"].column("size_bytes").to_pylist() == [len(data)]
    path.write_bytes(data[:-5])
    with pytest.raises(fastprof.CaptureError, match="the file ends in a chunk"):
        fastprof.load(path)


def test_a_file_that_is_cut_short() -> None:
    """An error with the offset of the chunk; salvage keeps what came before, and says so."""
    data = written(*spaces())
    ends = [len(written(*spaces()[:count])) for count in (1, 2)]
    for end in range(ends[0], len(data), 3):
        if end not in ends:
            with pytest.raises(fastprof.CaptureError, match="reading Riegeli: the file ends in"):
                fastprof.load(data[:end])
        kept = fastprof.load(data[:end], on_error="salvage")
        assert names(kept) == ["op0", "op1"][: 1 + (end >= ends[1])]
        assert ("damaged_chunk" in kept.tables["import_log"].column("code").to_pylist()) is (end not in ends)


@pytest.mark.parametrize("what", ["data", "header"])
def test_a_bit_that_is_flipped(what: str) -> None:
    """The record is lost, and with a damaged header what follows in its block."""
    data = bytearray(written(*spaces()))
    data[len(written(spaces()[0])) + (10 if what == "header" else 60)] ^= 4
    with pytest.raises(fastprof.CaptureError, match="damaged"):
        fastprof.load(bytes(data))
    kept = fastprof.load(bytes(data), on_error="salvage")
    assert names(kept) == (["op0", "op2"] if what == "data" else ["op0"])


def test_a_record_of_something_else() -> None:
    with pytest.raises(fastprof.CaptureError, match="record 0 is not an XSpace"):
        fastprof.load(written(spaces()[0], b"abc"))


def test_the_first_fault_is_the_one_that_is_raised() -> None:
    """The records of a chunk are read after the next chunk has been scanned."""
    first = written(b"\x0f")
    data = first + _padding(first) + written(*spaces())[:-1]
    with pytest.raises(fastprof.CaptureError, match="record 0 is not an XSpace") as error:
        fastprof.load(data)
    assert error.value.offset == riegeli.BLOCK_HEADER + riegeli.CHUNK_HEADER
    with pytest.raises(fastprof.CaptureError, match="the file ends in a chunk"):
        fastprof.load(data[len(first + _padding(first)) :])


def _claiming(data: bytes, at: int, place: int, size: int, value: int) -> bytes:
    """A file whose chunk at an offset says something else in its header, with the right hash."""
    changed = bytearray(data)
    changed[at + place : at + place + size] = value.to_bytes(size, "little")
    changed[at : at + 8] = riegeli_hash(bytes(changed[at + 8 : at + 40])).to_bytes(8, "little")
    return bytes(changed)


@pytest.mark.parametrize(
    ("place", "size", "value", "fault"),
    [
        (8, 8, 1 << 20, "the file ends in a chunk"),
        (8, 8, 1 << 62, "a chunk of more than 4.000 GiB"),
        (25, 7, 1 << 40, "more records, or larger ones, than its data can hold"),
        (25, 7, 3, "it ends early"),
        (32, 8, 1 << 50, "more records, or larger ones, than its data can hold"),
        (32, 8, 1 << 30, "more records, or larger ones, than its data can hold"),
        (32, 8, 1 << 20, "records of another size than recorded"),
        (24, 1, 0x79, "an unknown kind of chunk"),
    ],
)
def test_what_a_chunk_claims_is_not_believed(place: int, size: int, value: int, fault: str) -> None:
    data = written(*spaces(1))
    with pytest.raises(fastprof.CaptureError, match=f"reading Riegeli: .*{fault}.*at byte 64"):
        fastprof.load(_claiming(data, 64, place, size, value))


@pytest.mark.captures
@pytest.mark.parametrize("form", FORMS)
def test_claims_take_no_memory(form: str) -> None:
    """A gigabyte of records in each form, which is refused before any of it is made."""
    data = (FOLDER / f"cpu-jax-train.{form}.xplane.riegeli").read_bytes()
    tracemalloc.start()
    with pytest.raises(fastprof.CaptureError, match="reading Riegeli"):
        fastprof.load(_claiming(data, 64, 32, 8, 1 << 30))
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("codec", "code", "fault"),
    [
        ("brotli", 0x62, "a block that decompresses to more than its data can hold"),
        ("zstd", 0x7A, "a block that decompresses to more than its data can hold"),
        ("snappy", 0x73, "bytes are left over"),
    ],
)
def test_zeros_that_were_compressed(codec: str, code: int, fault: str) -> None:
    """32 MiB of zeros are 30 bytes of brotli."""
    sizes, zeros = (bytes(pa.compress(data, codec=codec, asbytes=True)) for data in (b"\5", bytes(1 << 25)))
    data = bytes([code, 1 + len(sizes), 1]) + sizes + b"\x80\x80\x80\x10" + zeros
    with pytest.raises(riegeli.DamagedChunkError, match=fault):
        riegeli.decode_records(ord("r"), data, 1, 5)


@pytest.mark.captures
@pytest.mark.parametrize("form", few(["chunks", "none", "snappy", "transposed", "zstd"], 2))
def test_files_that_are_changed_or_cut_anywhere(form: str) -> None:
    """Tables, or an error with the place; salvage always gives tables. What is read has no more than was written."""
    whole = (FOLDER / f"cpu-jax-train.{form}.xplane.riegeli").read_bytes()
    intact = len(b"".join(_space(whole, salvage=True)))
    choose = random.Random(form)
    refused = 0
    for at in range(0, len(whole), max(1, len(whole) // 100)):
        changed = bytearray(whole)
        changed[at] ^= 1 << choose.randrange(8)
        for data in (bytes(changed), whole[:at]):
            assert len(b"".join(_space(data, salvage=True))) <= intact
            try:
                _space(data, salvage=False)
            except fastprof.CaptureError as error:
                assert error.offset is not None and error.offset <= len(whole)
                assert str(error).startswith("vm.riegeli: reading Riegeli: ")
                refused += 1
    assert refused > 100


def _space(data: bytes, *, salvage: bool) -> list[memoryview]:
    scribe = riegeli.scribe("vm.riegeli", salvage)
    try:
        return [*scribe.push(scribe.scan(data)), *scribe.finish()]
    finally:
        scribe.close()


@pytest.mark.captures
def test_a_transposed_chunk_with_any_byte_changed() -> None:
    """Records or an error, never more: hashes would hide what decoding itself refuses."""
    whole = (FOLDER / "cpu-jax-train.transposed.xplane.riegeli").read_bytes()
    size, count, decoded = (int.from_bytes(whole[64 + a : 64 + b], "little") for a, b in ((8, 16), (25, 32), (32, 40)))
    data = whole[104 : 104 + size]
    assert len(riegeli.decode_records(ord("t"), data, count, decoded).values) == decoded
    refused = 0
    for at in range(0, len(data), 97):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        try:
            riegeli.decode_records(ord("t"), bytes(changed), count, decoded)
        except riegeli.DamagedChunkError:
            refused += 1
    assert refused > 100


def test_a_stream() -> None:
    assert names(fastprof.load(io.BytesIO(written(*spaces())))) == ["op0", "op1", "op2"]
