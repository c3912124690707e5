"""The hard cases of trace files, by their numbers in the specification of traces.

The name of a test begins with the number of its case, here and in the other files of this folder and of tests/torch.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from loaded_traces import log, slices, zeros

import fastprof
from fastprof.errors import CaptureError

DEVICES = '"deviceProperties":[{"id":0,"name":"NVIDIA H100","numSms":132,"computeMajor":9,"computeMinor":0}]'


BUILT_ELSEWHERE = {31, 32}
"""Cases of tfprof."""


def test_each_case_has_a_test() -> None:
    tests = Path(__file__).resolve().parents[1]
    texts = [path.read_text() for folder in ("traces", "torch") for path in (tests / folder).glob("test_*.py")]
    numbers = {
        int(number)
        for text in texts
        for several in re.findall(r"^def test((?:_[0-9]+)+)_[a-z]", text, re.MULTILINE)
        for number in several[1:].split("_")
    }
    assert numbers >= set(range(1, 41)) - BUILT_ELSEWHERE


def array(*events: str) -> bytes:
    return ("[" + ",".join(events) + "]").encode()


def kineto(*events: str, more: str = "") -> bytes:
    return ("{" + DEVICES + ',"schemaVersion":1,' + more + '"traceEvents":[' + ",".join(events) + "]}").encode()


def x(name: str, ts: str, dur: str = "1", *, pid: str = "1", tid: str = "1", more: str = "") -> str:
    return f'{{"ph":"X","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur}{more}}}'


def rows(data: bytes | Path, **options: Any) -> list[str]:
    """PLANE | LINE | NAME | start + duration | stats: one row an event, in order."""
    found = slices(fastprof.load(data, **options)).elements()
    return sorted(
        f"{one.plane} | {one.line} | {one.name} | {one.start_ps} + {one.duration_ps}"
        + "".join(f" | {name}={value}" for name, _, value in one.stats)
        for one in found
    )


def only(data: bytes, name: str) -> tuple[str, Any]:
    """Kind and value of the stat of that name."""
    (one,) = slices(fastprof.load(data))
    return next((kind, value) for stat, kind, value in one.stats if stat == name)


def test_1_times_are_the_decimal_text() -> None:
    noise = array(x("a", "0"), x("b", "9.8719999999999999", "51.668999999999997"))
    assert rows(noise) == ["1 | 1 | a | 0 + 1000000", "1 | 1 | b | 9872000 + 51669000"]

    unix = fastprof.load(array(x("a", "1.587074269993629e15"), x("b", '"1587074269993630"')))
    assert sorted(unix.events.column("start_ps").to_pylist()) == [0, 1_000_000]
    assert zeros(unix) == {1587074269993629 * 10**6}


def test_2_text_and_number_are_one_thread() -> None:
    assert rows(array(x("a", "0", tid='"3004819264"'), x("b", "1", tid="3004819264"))) == [
        "1 | 3004819264 | a | 0 + 1000000",
        "1 | 3004819264 | b | 1000000 + 1000000",
    ]


def test_3_a_host_thread_on_the_pid_of_a_gpu() -> None:
    python = x("f.py(1): f", "1", pid="0", tid="0", more=',"cat":"python_function","args":{"Python id":1}')
    kernel = x("k", "2", pid="0", tid="7", more=',"cat":"kernel","args":{"device":0,"stream":7}')
    found = rows(kineto(python, kernel))
    assert [row.split(" | ")[:3] for row in found] == [
        ["/device:GPU:0", "stream 7", "k"],
        ["/host:CPU", "0", "f.py(1): f"],
    ]


def test_4_an_external_id_that_is_that_of_another_op_by_accident() -> None:
    """Some files give calls and kernels their correlation as External id."""
    op = ',"cat":"cpu_op","args":{"External id":%d}'
    ids = ',"args":{"External id":50,"correlation":50%s}'
    profile = fastprof.load(kineto(
        x("aten::relu", "0", "5", more=op % 50),
        x("aten::mm", "10", "20", more=op % 9),
        x("cudaLaunchKernel", "12", "3", more=',"cat":"cuda_runtime"' + ids % ""),
        x("gemm", "20", "30", pid="0", tid="7", more=',"cat":"kernel"' + ids % ',"stream":7,"device":0,"grid":[1,1,1]'),
    ))  # fmt: skip
    (row,) = profile.kernel_stats().tables["kernels"].to_pylist()
    assert (row["name"], row["op_name"]) == ("gemm", "aten::mm")


def test_5_annotations_of_a_gpu_have_a_line_of_their_own() -> None:
    span = x("step", "1.999", "3.002", pid="0", tid="7", more=',"cat":"gpu_user_annotation","args":{}')
    kernel = x("k", "2", pid="0", tid="7", more=',"cat":"kernel","args":{"device":0,"stream":7}')
    name = '{"ph":"M","name":"thread_name","pid":0,"tid":7,"ts":0,"args":{"name":"stream 7 "}}'
    profile = fastprof.load(kineto(name, span, kernel))

    assert sorted({one.line for one in slices(profile)}) == ["stream 7 ", "stream 7  annotations"]
    assert profile.tables["nesting"].column("depth").to_pylist() == [0, 0]


def test_6_waits_of_a_stream_have_a_line_of_their_own() -> None:
    wait = x("Stream Sync", "1", "9", pid="0", tid="7", more=',"cat":"cuda_sync","args":{"stream":7}')
    kernel = x("k", "2", pid="0", tid="7", more=',"cat":"kernel","args":{"device":0,"stream":7}')
    assert sorted({one.line for one in slices(fastprof.load(kineto(wait, kernel)))}) == ["stream 7", "stream 7 (sync)"]


def test_12_copies_with_a_blank_are_copies() -> None:
    copies = [
        x(f"Memcpy {way} (Pageable -> Device)", str(10 * at), "5", pid="0", tid="7",
          more=f',"cat":"gpu_memcpy","args":{{"device":0,"stream":7,"bytes":4096,"correlation":{at}}}')
        for at, way in enumerate(["HtoD", "DtoH"])
    ]  # fmt: skip
    kinds = fastprof.load(kineto(*copies)).communication().tables["kinds"]
    assert sorted(kinds.column("kind").to_pylist()) == ["copy device to host", "copy host to device"]


@pytest.mark.parametrize(
    ("text", "stat"),
    [
        ("18446744073709551615", ("uint64", 2**64 - 1)),
        ("10159970886766084423", ("uint64", 10159970886766084423)),
        ("1180591620717411303424", ("str", "1180591620717411303424")),
        ("9223372036854775807", ("int64", 2**63 - 1)),
        ("-9223372036854775808", ("int64", -(2**63))),
        ("-0", ("int64", 0)),
        ("1.0", ("double", "1.0")),
    ],
)
def test_14_integers_of_any_size(text: str, stat: tuple[str, Any]) -> None:
    assert only(array(x("a", "0", more=f',"args":{{"n":{text}}}')), "n") == stat


def test_15_numbers_that_are_none() -> None:
    assert only(array(x("a", "0", more=',"args":{"n":inf}')), "n") == ("double", "inf")
    assert only(array(x("a", "0", more=',"args":{"n":-Infinity}')), "n") == ("double", "-inf")
    counter = '{"ph":"C","name":"c","pid":1,"ts":0,"args":{"v":NaN}}'
    assert rows(array(counter)) == ["1 | _counters_ | c | 0 + 0 | v=nan"]
    profile = fastprof.load(array(x("a", "nan"), x("b", "0")))
    assert profile.events.column("name").to_pylist() == ["b"]
    assert log(profile)["bad_time"] == 1


def test_16_begins_and_ends() -> None:
    def half(phase: str, ts: int, name: str, args: str = "{}") -> str:
        return f'{{"ph":"{phase}","ts":{ts},"pid":1,"tid":1,"name":"{name}","args":{args}}}'

    profile = fastprof.load(array(
        half("E", 1, "early"),
        half("B", 2, "outer"),
        half("B", 3, "a", '{"k":1,"l":2}'),
        half("E", 4, "b", '{"k":3,"m":4}'),
    ))  # fmt: skip
    assert sorted(f"{s.name} {s.start_ps} + {s.duration_ps} {s.stats}" for s in slices(profile)) == [
        "a 2000000 + 1000000 (('k', 'int64', 3), ('l', 'int64', 2), ('m', 'int64', 4))",
        "outer 1000000 + 2000000 (('unfinished', 'int64', 1),)",
    ]
    assert {code: log(profile)[code] for code in ("end_without_begin", "begin_without_end", "name_mismatch")} == {
        "end_without_begin": 1, "begin_without_end": 1, "name_mismatch": 1,
    }  # fmt: skip


def test_17_pairs_match_by_time() -> None:
    halves = [(5, "E"), (1, "B"), (4, "E"), (2, "B")]
    data = array(
        *(f'{{"ph":"{phase}","ts":{ts},"pid":1,"tid":1,"name":"{ts if phase == "B" else ""}"}}' for ts, phase in halves)
    )
    assert [row.split(" | ", 2)[2] for row in rows(data)] == ["1 | 0 + 4000000", "2 | 1000000 + 2000000"]


def test_20_documents_that_end_early() -> None:
    whole = b'{"traceEvents":[' + x("a", "0").encode() + b"," + x("b\\u00e9\xc3\xa9", "1").encode() + b"]}"
    for end in range(16 + len(x("a", "0")), len(whole) - 2):
        profile = fastprof.load(whole[:end])
        is_cut = end < len(whole) - 2
        assert profile.events.num_rows == 1, end
        assert log(profile).get("truncated", 0) == int(is_cut), end
    assert fastprof.load(whole[:-2]).events.num_rows == 2


@pytest.mark.parametrize("tail", [b"", b",", b" ,\n", b"\0\0"])
def test_20_an_array_that_is_not_closed_is_whole(tail: bytes) -> None:
    profile = fastprof.load(b"[" + x("a", "0").encode() + tail)
    assert profile.events.num_rows == 1
    assert "truncated" not in log(profile)


def test_20_members_of_gzip_are_one_document() -> None:
    data = array(*(x(f"e{i}", str(i)) for i in range(10)))
    assert fastprof.load(gzip.compress(data[:100]) + gzip.compress(data[100:])).events.num_rows == 10


def test_21_what_stands_after_the_events() -> None:
    data = (
        b'{"traceEvents":['
        + x("k", "5", pid="0", tid="7", more=',"cat":"kernel","args":{"device":0,"stream":7}').encode()
        + b"],"
        b'"displayTimeUnit":"ms","baseTimeNanoseconds":1700000000000000000,"distributedInfo":{"rank":3,"world_size":8},'
        + DEVICES.encode()
        + b"}"
    )
    profile = fastprof.load(data)
    assert profile.tables["planes"].column("name").to_pylist().count("/device:GPU:0") == 1
    assert profile.tables["hosts"].column("start_unix_ns").to_pylist() == [1700000000000000000 + 5000]


def test_22_keys_that_repeat() -> None:
    two = b'{"traceEvents":[' + x("a", "0").encode() + b'],"traceEvents":[' + x("b", "1").encode() + b"]}"
    assert fastprof.load(two).events.column("name").to_pylist() == ["a", "b"]
    args = array(x("a", "0", more=',"args":{"old":1},"args":{"k":1,"l":2,"k":3}'))
    (one,) = slices(fastprof.load(args))
    assert one.stats == (("k", "int64", 3), ("l", "int64", 2))
    assert log(fastprof.load(args))["duplicate_key"] == 2
    many = ",".join(f'"k{n % 40}": {n}' for n in range(99))  # also inside a value, which is kept as text
    nested = array(
        x("a", "0", more=f',"args":{{"v":[{{"b":1, "c":{{"d":2,"d":3}},"\\u0062": [4]}}, {{}}, {{{many}}}]}}')
    )
    (one,) = slices(fastprof.load(nested))
    last = ",".join(f'"k{n}":{n + 80 if n < 19 else n + 40}' for n in range(40))
    assert one.stats == (("v", "str", '[{"b":[4],"c":{"d":3}},{},{' + last + "}]"),)
    assert log(fastprof.load(nested))["duplicate_key"] == 2 + 59
    names = [
        ("process_name", '"name":"p","name":"q","x":{"a":1,"a":2}'), ("thread_name", '"name":1,"name":"t"'),
        ("process_labels", '"labels":"a","labels":"b"'),
    ]  # fmt: skip
    named = [f'{{"ph":"M","name":"{name}","pid":1,"tid":1,"args":{{{args}}}}}' for name, args in names]
    profile = fastprof.load(array(x("a", "0"), *named))
    assert log(profile)["duplicate_key"] == 2 + 1 + 1
    assert profile.planes["name"][0].as_py() == "q"


def test_arrays_are_kept_without_blanks() -> None:
    chance = random.Random(3)

    def made(depth: int) -> Any:
        kinds = [
            lambda: chance.randint(-(10**20), 10**20),
            lambda: chance.randint(-1, 9),
            lambda: "a [1], {b}",
            lambda: "",
        ]
        if depth < 5:
            kinds += [lambda: [made(depth + 1) for _ in range(chance.randint(0, 3))]] * 3
        return chance.choice(kinds)()

    values = [[made(0) for _ in range(4)] for _ in range(200)]
    texts = [json.dumps(value, separators=chance.choice([(",", ":"), (", ", ": "), (" ,\t", ":")])) for value in values]
    events = [x("a", str(at), more=f',"args":{{"v":{text.replace("[", chance.choice(["[", "[ "]), 1)}}}')
              for at, text in enumerate(texts)]  # fmt: skip
    kept = [one.stats[0][2] for one in slices(fastprof.load(array(*events)))]
    assert kept == [json.dumps(value, separators=(",", ":")) for value in values]


@pytest.mark.parametrize(
    ("text", "kept"),
    [("[1,]", "[1]"), ("[ [ ] , -0 ]", "[[],-0]"), ("[true,1.50,{}]", "[true,1.50,{}]"),
     (r'["\u0061","\/"]', '["a","/"]'), ("[01]", None), ("[1 2]", None), ("[,1]", None), ("[-]", None),
     ("[1,,2]", None), ("[+1]", None), ("[1,[2]3]", None), ('["a""b"]', None), ("[1]]", None)],
)  # fmt: skip
def test_arrays_that_are_unusual(text: str, kept: str | None) -> None:
    data = array(x("a", "0", more=f',"args":{{"v":{text}}}'))
    if kept is None:
        with pytest.raises(CaptureError, match="JSON"):
            fastprof.load(data)
    else:
        (one,) = slices(fastprof.load(data))
        assert one.stats == (("v", "str", kept),)


@pytest.mark.parametrize(("second", "remarks"), [("second", 1), ("first", 0)])
def test_29_threads_with_one_id(second: str, remarks: int) -> None:
    """XProf writes the lower half of the id of a line."""
    process = '{"ph":"M","name":"process_name","pid":1,"args":{"name":"/host:CPU"}}'
    names = [
        f'{{"ph":"M","name":"thread_name","pid":1,"tid":5,"args":{{"name":"{name}"}}}}' for name in ("first", second)
    ]
    data = array(process, names[0], x("a", "0", tid="5"), names[1], x("b", "1", tid="5"))
    assert [row.split(" | ")[1] for row in rows(data)] == [second, second]
    assert log(fastprof.load(data)).get("renamed_thread", 0) == remarks


@pytest.mark.parametrize(("pause", "waits_for"), [("29.999999", "kernel wait"), ("30", "other")])
def test_33_a_stream_that_waits_for_less_than_30_microseconds_waits_for_the_next_kernel(
    pause: str, waits_for: str
) -> None:
    """HTA's documentation says 30 ns. Both kernels are launched before the first one ends."""
    kernel = ',"cat":"kernel","args":{"correlation":%d,"stream":7,"device":0,"grid":[1,1,1]}'
    call = ',"cat":"cuda_runtime","args":{"correlation":%d}'
    report = fastprof.load(kineto(
        x("cudaLaunchKernel", "0", "1", more=call % 1), x("cudaLaunchKernel", "2", "1", more=call % 2),
        x("a", "10", "10", pid="0", tid="7", more=kernel % 1),
        x("b", str(20 + Decimal(pause)), "10", pid="0", tid="7", more=kernel % 2),
    )).streams()  # fmt: skip
    (row,) = report.tables["idle"].to_pylist()
    assert (row["waits_for"], row["time_ps"]) == (waits_for, int(Decimal(pause) * 10**6))


@pytest.mark.parametrize("document", ['{"$schema":"x","shared":{},"profiles":[]}', '{"meta":{},"threads":[]}'])
def test_36_other_json(document: str) -> None:
    with pytest.raises(fastprof.CaptureError) as error:
        fastprof.load(document.encode())
    for key in json.loads(document):
        assert key in (error.value.excerpt or "")


@pytest.mark.captures
def test_36_a_profile_of_speedscope() -> None:
    path = Path(__file__).resolve().parents[3] / "shared" / "captures" / "corrupt" / "incomplete-trace.json"
    with pytest.raises(fastprof.CaptureError, match="no traceEvents") as error:
        fastprof.load(path)
    assert error.value.excerpt == "its keys are $schema, shared, profiles"


def test_38_one_time_of_zero_among_unix_times() -> None:
    times = ["0", *(str(1_700_000_000_000_000 + i) for i in range(10))]
    profile = fastprof.load(array(*(x(f"e{i}", ts) for i, ts in enumerate(times))))
    assert sorted(profile.events.column("start_ps").to_pylist()) == [i * 10**6 for i in range(10)]
    assert log(profile)["bad_time"] == 1


def test_40_ids_of_any_form() -> None:
    def half(phase: str, ts: int, **fields: Any) -> str:
        return json.dumps({"ph": phase, "ts": ts, "pid": 1, "tid": 1, "cat": "c", "name": "a", **fields})

    wide = "0x1ffffffffffffffffffff"
    pairs = array(
        half("b", 1, id=wide), half("e", 3, id=wide), half("b", 2, id=0), half("e", 5, id="0"),
        half("b", 1, id2={"local": "1"}), half("e", 9, id2={"local": 1}),
    )  # fmt: skip
    assert sorted(one.duration_ps for one in slices(fastprof.load(pairs))) == [2_000_000, 3_000_000, 8_000_000]

    both = array(
        half("b", 1, id=7, id2={"global": "g"}), half("e", 3, id="g"),
        half("b", 1, id2={"global": "x", "local": "l"}), half("e", 5, id2={"local": "l"}), half("e", 9, id="x"),
    )  # fmt: skip
    profile = fastprof.load(both)
    assert sorted(one.duration_ps for one in slices(profile)) == [2_000_000, 4_000_000]
    assert (log(profile)["both_ids"], log(profile)["end_without_begin"]) == (1, 1)


def test_20_a_member_of_gzip_that_is_cut_short_gives_what_came() -> None:
    packed = gzip.compress(array(*(x(f"event {number}", str(number)) for number in range(2000))))
    with pytest.raises(fastprof.errors.CaptureError, match="the gzip data are damaged or cut off"):
        fastprof.load(packed[: len(packed) // 2])
    kept = fastprof.load(packed[: len(packed) // 2], on_error="salvage")
    names = kept.events.column("name").to_pylist()
    assert names == [f"event {number}" for number in range(len(names))]
    assert 500 < len(names) < 1500
    assert {"damaged_stream", "truncated"} <= set(kept.import_log.column("code").to_pylist())


@pytest.mark.parametrize("of", ["checksum", "length", "a second member"])
def test_20_a_member_of_gzip_that_is_damaged_at_its_end_is_read(of: str) -> None:
    data = array(x("a", "0"), x("b", "1"))
    packed = gzip.compress(data)
    damaged = {
        "checksum": packed[:-8] + bytes(4) + packed[-4:],
        "length": packed[:-4] + bytes(4),
        "a second member": gzip.compress(data[:70]) + gzip.compress(data[70:])[:-8] + bytes(8),
    }[of]
    profile = fastprof.load(damaged, on_error="salvage")
    assert profile.events.column("name").to_pylist() == ["a", "b"]
    assert log(profile) == {"damaged_stream": 1}


def test_26_events_without_duration_stay_so() -> None:
    ops = (x("outer", "4", "3", more=',"cat":"cpu_op"'), x("empty", "5", "0", more=',"cat":"cpu_op"'))
    assert rows(kineto(*ops)) == [
        "/host:CPU | 1 | empty | 1000000 + 0",
        "/host:CPU | 1 | outer | 0 + 3000000",
    ]


def test_39_the_largest_number_of_a_stream_means_none() -> None:
    wait = x(
        "Context Sync", "1", "9", pid="0", tid="-1", more=',"cat":"cuda_sync","args":{"device":0,"stream":4294967295}'
    )
    kernel = x("k", "2", pid="0", tid="7", more=',"cat":"kernel","args":{"device":0,"stream":7}')
    assert [row.split(" | ")[1:3] for row in rows(kineto(wait, kernel))] == [
        ["stream -1 (sync)", "Context Sync"], ["stream 7", "k"]
    ]  # fmt: skip


def test_28_steps_of_xprofs_traces_are_those_of_the_capture() -> None:
    """XProf writes ``"step_num":"0"`` and leaves out what marks a step; ops with such a number are not steps."""
    names = '{"ph":"M","name":"process_name","pid":%s,"args":{"name":"%s"}}'
    found = rows(
        array(
            names % (1, "/host:CPU"),
            names % (2, "/device:TPU:0"),
            x("train", "0", more=',"args":{"step_num":"3"}'),
            x("a:Op", "5", more=',"args":{"step_num":"3"}'),
            x("train", "5", pid="2", more=',"args":{"step_num":"3"}'),
        )
    )
    assert found == [
        "/device:TPU:0 | 1 | train | 5000000 + 1000000 | step_num=3",
        "/host:CPU | 1 | a:Op | 5000000 + 1000000 | step_num=3",
        "/host:CPU | 1 | train | 0 + 1000000 | step_num=3 | _r=1",
    ]


def test_28_steps_count_wherever_their_process_is_named() -> None:
    name, step = '{"ph":"M","name":"process_name","pid":1,"args":{"name":"%s"}}', ',"args":{"step_num":"3"}'
    events = [
        x("train", "0", more=step),
        x("in it", "0.5", "0.1"),
        x("a:Op", "5", more=step),
        x("next", "9", more=step),
    ]
    for process, root in (("/host:CPU", " | _r=1"), ("/device:TPU:0", "")):
        other = '{"ph":"M","name":"process_name","pid":2,"args":{"name":"/host:other"}}'
        assert rows(array(other, *events[:3], name % process, events[3])) == [
            f"{process} | 1 | a:Op | 5000000 + 1000000 | step_num=3",
            f"{process} | 1 | in it | 500000 + 100000",
            f"{process} | 1 | next | 9000000 + 1000000 | step_num=3{root}",
            f"{process} | 1 | train | 0 + 1000000 | step_num=3{root}",
        ]


@pytest.mark.captures
def test_28_steps_of_a_real_trace() -> None:
    folder = Path(__file__).resolve().parents[3] / "shared" / "captures" / "xspace" / "cpu-jax-train"
    trace, space = (fastprof.load(folder / name).steps() for name in ("vm.trace.json.gz", "vm.xplane.pb"))
    assert trace.scalars["steps_source"].value == space.scalars["steps_source"].value
    for column in ("step", "name", "start_ps", "duration_ps"):
        assert trace.tables["steps"][column].to_pylist() == space.tables["steps"][column].to_pylist()


@pytest.mark.parametrize(
    ("name", "more", "wanted"),
    [
        ("Memcpy DtoH (Device -> Pinned)", "", "kind:DtoH size:4096 dest:0"),
        ("Memcpy PtoP (Device -> Device)", ',"toDevice":1,"fromDevice":0', "kind:PtoP size:4096 dest:1"),
        ("CopyHostToDevice", "", "kind:HtoD size:4096 dest:0"),
        ("Memcpy", "", "size:4096 dest:0"),
    ],
)
def test_copies_of_kineto_have_details(name: str, more: str, wanted: str) -> None:
    args = f'"device":0,"stream":7,"bytes":4096{more}'
    copy = x(name, "0", pid="0", tid="7", more=f',"cat":"gpu_memcpy","args":{{{args}}}')
    assert only(kineto(copy), "memcpy_details") == ("str", wanted)


def test_19_a_flow_may_end_with_a_step() -> None:
    """TensorFlow 1 writes t where others write f."""
    names = '{"ph":"M","name":"process_name","pid":%d,"args":{"name":"/cpu:0 %s"}}'
    profile = fastprof.load(
        array(
            names % (1, "Compute"),
            x("producer", "0", "5"),
            x("consumer", "7", "5", tid="2"),
            '{"ph":"s","name":"n","cat":"DataFlow","id":1,"pid":1,"tid":1,"ts":5}',
            '{"ph":"t","name":"n","cat":"DataFlow","id":1,"pid":1,"tid":2,"ts":7}',
        )
    )
    (row,) = profile.table_set["flows"].to_pylist()
    names_of = profile.events["name"].to_pylist()
    assert (names_of[row["from_event_id"]], names_of[row["to_event_id"]]) == ("producer", "consumer")
