"""Links between devices: known answers, a slow search that looks at each op and pair, and unknown ends."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from flight_spaces import FUSION, core, gpu, ran, report_of
from hlo_builder import packed
from reports import notices, records, rows
from step_captures import US, host, spaces
from trace_builder import Metadata, int_field, len_field, plane

import fastprof
from fastprof.derive.communication import device_links

CAPTURES = Path(__file__).parent.parent.parent.parent / "shared" / "captures" / "xspace"
SHOWN = ("source", "target", "measured_by", "occurrences", "bytes", "time_ps")
Ops = Sequence[tuple[str, float, float]]


def pairs_text(pairs: Sequence[tuple[int, int]]) -> str:
    return "{" + ",".join(f"{{{source},{target}}}" for source, target in pairs) + "}"


def permute(number: int, floats: int, pairs: Sequence[tuple[int, int]], channel: int = 1) -> str:
    attributes = f"channel_id={channel}, source_target_pairs={pairs_text(pairs)}"
    return f"%collective-permute.{number} = f32[{floats}]{{0}} collective-permute(f32[{floats}]{{0}} %x), {attributes}"


def halves(number: int, floats: int, pairs: Sequence[tuple[int, int]]) -> tuple[str, str]:
    """The start and the end of an asynchronous permute."""
    value = f"(f32[{floats}]{{0}}, f32[{floats}]{{0}}, u32[], u32[])"
    start = (
        f"%collective-permute-start.{number} = {value} collective-permute-start(f32[{floats}]{{0}} %x), channel_id=1"
    )
    done = f"%collective-permute-done.{number} = f32[{floats}]{{0}} collective-permute-done({value} "
    return f"{start}, source_target_pairs={pairs_text(pairs)}", f"{done}%collective-permute-start.{number})"


def category(text: str) -> str:
    opcode = text.partition(".")[0].removeprefix("%")
    return "loop fusion" if opcode == "fusion" else opcode


def capture(ids: Sequence[int], ops: Sequence[Ops], layout: Sequence[Sequence[int]] | None) -> bytes:
    """Cores with these numbers in the system; ``layout``: the program's devices, by partition."""
    categories = {text: category(text) for own in ops for text, _, _ in own}
    planes = [core(n, own, number=ids[n], categories=categories) for n, own in enumerate(ops)]
    if layout is not None:
        counts = int_field(1, len(layout[0])) + int_field(2, len(layout))
        assignment = counts + b"".join(len_field(3, packed(1, of_partition)) for of_partition in layout)
        proto = len_field(1, len_field(1, "jit_f") + len_field(15, assignment))
        planes.append(plane("/host:metadata", event_metadata=[Metadata("jit_f(1)", 1, stats={"Hlo Proto": proto})]))
    return spaces(*planes)


def test_a_ring_of_two_hosts() -> None:
    """The second host's core 3 takes longest to receive; core 9 is not captured."""
    text, layout = permute(1, 256, [(0, 1), (1, 2), (2, 3), (3, 0)]), [[9], [1], [2], [3]]
    first = capture([1], [[(text, 0, 4), (FUSION, 4, 1), (text, 5, 6)]], layout)
    second = capture([2, 3], [[(text, 0, 5)], [(text, 0, 20)]], layout)
    report = report_of(first, second)
    names = report.tables["devices"]["host"].to_pylist()
    one, two, three = (f"{name}: /device:TPU:{n}" for name, n in zip(names, (0, 0, 1), strict=True))
    assert rows(report, "links", *SHOWN, "source_host", "target_host") == [
        (two, three, "target", 1, 1024, 20 * US, names[1], names[1]),
        (three, "core 9", "source", 1, 1024, 20 * US, names[1], None),
        ("core 9", one, "target", 2, 2048, 10 * US, None, names[0]),
        (one, two, "target", 1, 1024, 5 * US, names[0], names[1]),
    ]
    rates = report.tables["links"].select(["bytes_per_s", "best_bytes_per_s"]).to_pylist()
    assert list(rates[2].values()) == pytest.approx([2048 / 10e-6, 1024 / 4e-6])


@pytest.mark.parametrize("seed", range(4))
def test_links_are_those_that_a_slow_search_finds(seed: int) -> None:
    random = Random(seed)
    hosts, cores = random.randint(1, 4), random.randint(1, 4)
    replicas, partitions = random.choice([(1, 12), (12, 1), (3, 4)])
    layout = [[0] * replicas for _ in range(partitions)]
    ids = random.sample(range(40), 12)
    for number, device in enumerate(ids):
        layout[number % partitions][number // partitions] = device
    own = random.sample(ids + [77], min(hosts * cores, 13))  # one core runs no part of the program
    size = partitions if partitions > 1 else replicas
    texts: list[tuple[list[tuple[int, int]], int, tuple[str, ...]]] = []
    for number in range(4):
        others, floats = random.sample(range(size), size), random.randint(1, 999)
        pairs = [(source, target) for source, target in enumerate(others) if random.random() < 0.8]
        whole = (permute(number, floats, pairs),)
        texts.append((pairs, 4 * floats, random.choice([whole, halves(number, floats, pairs)])))
    wanted: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    ran_ops: dict[int, list[tuple[str, float, float]]] = {}
    for device in own:
        clock, ran_ops[device] = 0.0, [(FUSION, 0, 1)]
        for pairs, moved, ops in random.choices(texts, k=10):
            start = clock = clock + 2
            for text in ops:
                took = random.randint(1, 9)
                ran_ops[device].append((text, clock, took))
                clock += took + 1
            for column, of_partition in enumerate(layout):
                for row, one in enumerate(of_partition):
                    if one != device:
                        continue
                    place = column if partitions > 1 else row
                    for source, target in pairs:
                        other = target if place == source else source
                        peer = layout[other][row] if partitions > 1 else layout[0][other]
                        if place in (source, target) and source != target:
                            key = (device, peer, "source") if place == source else (peer, device, "target")
                            of = wanted[key]
                            of[0], of[1], of[2] = of[0] + 1, of[1] + moved, of[2] + int((clock - 1 - start) * US)
    parts = [own[at : at + cores] for at in range(0, len(own), cores)]
    report = report_of(*(capture(part, [ran_ops[one] for one in part], layout) for part in parts))
    names = list(zip(*(report.tables["devices"][name].to_pylist() for name in ("host", "device")), strict=True))
    shown = {device: f"{name}: {of_plane}" for device, (name, of_plane) in zip(own, names, strict=True)}
    slow = sorted(
        (shown.get(source, f"core {source}"), shown.get(target, f"core {target}"), by, *values)
        for (source, target, by), values in wanted.items()
        if by == "target" or (source, target, "target") not in wanted
    )
    assert sorted(rows(report, "links", *SHOWN)) == slow
    rates = report.tables["links"]["bytes_per_s"].to_pylist()
    assert rates == sorted(rates) and (len(slow) > 4 or hosts * cores < 4)


def test_without_a_device_assignment_links_are_not_known() -> None:
    text = permute(1, 256, [(0, 1), (1, 0)])
    report = report_of(capture([0, 1], [[(text, 0, 4)], [(text, 0, 4)]], None))
    assert not records(report, "links")
    assert any(
        text.startswith("The devices that 2 permutes, sends, recvs and copies connect") for text in notices(report)
    )


def test_pairs_may_have_spaces_and_a_text_of_another_form_has_none() -> None:
    """To try each way to share out the spaces of a text would take ages."""
    text = permute(1, 4, [])
    for pairs in ("{{0,1},{2,3}}", "{ { 0 , 1 } , { 2 , 3 } , }", "{{0,1} {2,3}}"):
        read = device_links._parse_pairs(text.replace("{}", pairs))
        assert read is not None and (read.source.tolist(), read.target.tolist()) == ([0, 2], [1, 3])
    for pairs in ("{" + "{0,1} " * 100 + "x", "{{0,1}" + " " * 100_000 + "x", "{{0,1},,{2,3}}"):
        assert device_links._parse_pairs(text.replace("{}", pairs)) is None


def test_copies_of_gpus_record_where_they_go() -> None:
    def copy(at: float, took: float, details: str) -> Any:
        return ran("MemcpyP2P", at, took, memcpy_details=f"{details} async:1")

    own = [copy(0, 2, "kind_src:device kind_dst:device size:1000 dest:1"),
           copy(5, 8, "kind_src:device kind_dst:device size:2000 dest:1"),
           copy(20, 1, "kind_src:device kind_dst:device size:50 dest:5"),
           copy(30, 1, "kind:Unknown size:70 dest:2")]  # fmt: skip
    report = report_of(spaces(host(), gpu(0, own), gpu(1, [ran("gemm", 0, 5)])))
    assert rows(report, "links", *SHOWN, "kind") == [
        ("vm: /device:GPU:0", "vm: /device:GPU:5", "source", 1, 50, US, "copy between devices"),
        ("vm: /device:GPU:0", "vm: /device:GPU:1", "source", 2, 3000, 10 * US, "copy between devices"),
    ]
    assert report.tables["links"]["best_bytes_per_s"].to_pylist() == pytest.approx([50 / 1e-6, 1000 / 2e-6])
    assert any("The devices that 1 permute, send, recv or copy" in text for text in notices(report))


def test_sends_of_ranks_name_the_other_end(tmp_path: Path) -> None:
    """Rank 1 records what it receives; rank 7 is not captured."""

    def kernel(at: int, took: int, name: str, **ranks: int) -> dict[str, Any]:
        sent = {"Collective name": name, "In msg nelems": 100, "Out msg nelems": 100, "dtype": "Float"}
        args = {"device": 0, "stream": 7, "correlation": at, **sent, **ranks}
        where = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7}
        return {**where, "name": "ncclDevKernel_SendRecv(a)", "ts": at, "dur": took, "args": args}

    of_ranks = [
        [
            kernel(10, 5, "send", **{"Dst Rank": 1}),
            kernel(30, 5, "send", **{"Dst Rank": 7}),
            kernel(50, 5, "allreduce"),
        ],
        [kernel(11, 8, "recv", **{"Src Rank": 0})],
    ]
    for rank, events in enumerate(of_ranks):
        document = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 8}, "traceEvents": events}
        (tmp_path / f"rank{rank}.pt.trace.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    report = fastprof.load(tmp_path).communication()
    assert rows(report, "links", *SHOWN) == [
        ("rank0: /device:GPU:0", "rank1: /device:GPU:0", "target", 1, 400, 8 * US),
        ("rank0: /device:GPU:0", "rank 7", "source", 1, 400, 5 * US),
    ]


@pytest.mark.skipif(not CAPTURES.exists(), reason="the captures beside the project are missing")
def test_destinations_of_rocm_are_not_those_of_planes() -> None:
    """All copies are of GPU 0, by the only program, which runs on one GPU; their destination is 2."""
    report = fastprof.load(CAPTURES / "gpu-mi300x-jax-conv-minimal-legacy").communication()
    assert not records(report, "links")
    assert any(text.startswith("The devices that 53 permutes") for text in notices(report))


def test_of_many_links_the_slowest_of_each_host_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_links, "MOST_LINKS", 4)
    monkeypatch.setattr(device_links, "FEWEST_LINKS", 2)
    texts = [permute(number, 256, [(0, number), (number, 0)]) for number in range(1, 5)]
    ops = [(text, 30.0 * n, took) for n, (text, took) in enumerate(zip(texts, (4, 9, 8, 5), strict=True))]
    report = report_of(capture([0], [ops], [[n] for n in range(5)]), spaces(gpu(0, [ran("gemm", 0, 5)])))
    assert {row[:2] for row in rows(report, "links", *SHOWN)} == {
        ("core 2", "vm: /device:TPU:0"),
        ("vm: /device:TPU:0", "core 2"),
    }
    assert any("lacks 6 others" in text for text in notices(report))
