"""Text for people, line by line."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from fastprof.render.as_text import lines, wrap_paragraph
from fastprof.render.table_forms import Look, render_table
from fastprof.wording.screen import measure_width


def rendered(table: pa.Table, look: Look | None = None) -> str:
    return "\n".join(lines(table, look or Look())) + "\n"


def test_numbers_lean_right_texts_left_and_nulls_are_blank() -> None:
    table = pa.table(
        {
            "name": ["a", None, "中文"],
            "count": [1, 2_000_000, None],
            "event_id": [1, 2_000_000, 3],
            "total_ps": [1_500_000, 2_000_000_000, 0],
            "size_bytes": [10, 1 << 20, None],
            "share": [0.5, None, 1e9],
        }
    )
    assert rendered(table) == (
        "name      count  event_id  total (µs)       size  share\n"
        "a             1         1       1.500       10 B    0.5\n"
        "      2,000,000   2000000   2,000.000  1.000 MiB\n"
        "中文                    3       0.000             1e+09\n"
    )


def test_values_of_every_type(awkward: pa.Table) -> None:
    assert rendered(awkward.drop_columns(["count", "total_ps"])) == (
        "name                value  raw      list       map                   flag\n"
        'plain                 0.1  3 bytes  [1, null]  {"k": "v"}            yes\n'
        'say "a, b"\\x1b[31m    nan                                            no\n'
        "                     -inf  0 bytes  []         []\n"
        '                           2 bytes  [3]        {"x": "1", "x": "2"}  yes\n'
    )


def test_no_table_is_wider_than_the_look_where_texts_can_give_way() -> None:
    table = pa.table({"plane": ["p" * 80, "q"], "count": [1, 2], "name": ["n" * 300, "short"]})
    shown = rendered(table, Look(width=60)).splitlines()
    assert max(measure_width(line) for line in shown) == 60
    assert shown[1].count("…") == 2
    assert "short" in shown[2]
    assert "n" * 300 in rendered(table, Look(width=None))


def test_numbers_are_never_cut() -> None:
    table = pa.table({f"count{n}": [(1 << 63) - 1] for n in range(4)})
    assert rendered(table, Look(width=40)).count("9,223,372,036,854,775,807") == 4


def test_all_times_share_a_unit_or_each_column_has_its_own() -> None:
    together = pa.table({"total_ps": [3 * 10**9], "least_ps": [2 * 10**8], "at_ns": [4_000_000]})
    assert rendered(together) == "total (ms)  least (ms)  at (ms)\n     3.000       0.200    4.000\n"
    apart = pa.table({"total_ps": [3 * 10**12], "least_ps": [200]})
    assert rendered(apart) == "total (s)  least (ps)\n    3.000         200\n"


def test_unix_time_is_a_date() -> None:
    table = pa.table({"start_unix_ns": [1_763_716_800_000_000_001, None]})
    assert rendered(table) == "                  start (UTC)\n2025-11-21 09:20:00.000000001\n\n"


def test_a_stream_goes_on_in_the_layout_of_its_first_block() -> None:
    pulled = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(5):
            pulled.append(number)
            yield pa.record_batch({"n": [number] * 1_000, "name": ["x" * (number + 1)] * 1_000})

    stream = lines(batches(), Look())
    assert [next(stream), next(stream)] == ["n  name", "0  x"]
    assert pulled == [0]
    rest = list(stream)
    assert len(rest) == 4_999
    assert rest[-1] == "4  xxxxx"


def test_ascii_only_where_the_encoding_has_no_more() -> None:
    table = pa.table({"total_ps": [2_000_000], "name": ["é" * 200]})
    shown = b"".join(render_table("table", table, name="t", look=Look(width=40, encoding="ascii")))
    assert shown.isascii()
    assert b"total (us)" in shown
    assert b"..." in shown
    assert b"\\xe9" in shown


def test_colour_only_in_the_title() -> None:
    table = pa.table({"name": ["\x1b[31mred"]})
    assert rendered(table, Look(color=True)) == "\x1b[1mname\x1b[0m\n\\x1b[31mred\n"


def test_no_rows_and_no_columns() -> None:
    assert rendered(pa.table({"a": pa.array([], pa.int64())})) == "a\n"
    assert rendered(pa.table({})) == "\n"


def test_a_paragraph_is_escaped_and_broken_at_the_width() -> None:
    assert wrap_paragraph("a\nb", Look()) == ["  a\\nb"]
    assert wrap_paragraph("one two three four", Look(width=20), "lead: ") == ["lead: one two three", "      four"]
    assert {measure_width(line) for line in wrap_paragraph("x" * 480, Look(width=50))} == {50}
    assert wrap_paragraph("x" * 480, Look(width=None)) == ["  " + "x" * 480]
    assert wrap_paragraph("", Look(), "a ") == ["a "]


def test_moments_show_how_they_differ() -> None:
    table = pa.table({"start_ps": [2_762_000_001_000, 2_762_000_004_000], "duration_ps": [2_000, 3_000]})
    assert rendered(table) == ("  start (s)  duration (ns)\n2.762000001          2.000\n2.762000004          3.000\n")


def fitted(table: pa.Table, columns: int, bar: str | None = None) -> tuple[list[str], list[str]]:
    left_out: list[str] = []
    return list(lines(table, Look(width=columns), bar=bar, left_out=left_out)), left_out


def test_titles_are_broken_where_there_is_little_room() -> None:
    table = pa.table({"name": ["alpha"], "device_compute_ps": [1_000_000], "host_compute_ps": [2_000_000]})
    assert fitted(table, 46)[0][0] == "name   device_compute (µs)  host_compute (µs)"
    assert fitted(table, 44) == (
        [
            "       device_compute  host_compute",
            "name             (µs)          (µs)",
            "alpha           1.000         2.000",
        ],
        [],
    )
    assert fitted(table, 24)[0][:3] == ["       device_    host_", "       compute  compute", "name      (µs)     (µs)"]


def test_columns_are_left_out_where_titles_take_too_much_still() -> None:
    table = pa.table({"name": ["n" * 60], "first": [10**12], "second": [10**12], "part": [0.5], "kind": ["k"]})
    assert fitted(table, 200)[1] == []
    shown, left_out = fitted(table, 58, bar="part")
    assert left_out == ["second"]
    assert max(map(measure_width, shown)) <= 58
    assert shown[0].split() == ["name", "first", "part", "kind"]
    assert fitted(table, 30)[1] == ["part", "second", "kind", "first"]
    assert fitted(table, 5)[0] == ["name", "nnnnnnnn…nnnnnnn"]


def test_nulls_are_shown_as_asked() -> None:
    table = pa.table({"name": ["a", None], "count": [None, 1]})
    assert list(lines(table, Look(), null="-")) == ["name  count", "a         -", "-         1"]


def test_figures_stand_in_their_unit() -> None:
    units = {"busy_share": "share", "idle_percent": "%", "rate_flops_per_s": "flop/s", "mean_us": "us", "held": "bytes"}
    fields = [pa.field(name, pa.float64(), metadata={"unit": unit}) for name, unit in units.items()]
    table = pa.table([pa.array([0.25 * 10**place]) for place in (0, 2, 12, 1, 4)], schema=pa.schema(fields))
    assert list(lines(table, Look())) == [
        "busy (%)  idle (%)  rate (FLOP/s)  mean (µs)       held",
        "    25.0      25.0          250 G        2.5  2.441 KiB",
    ]
    assert "mean (us)" in next(lines(table, Look(encoding="ascii")))


def test_a_text_that_wraps_is_shown_in_full_and_names_of_devices_are_not_cut() -> None:
    device, finding = "host005: /device:TPU:0", "devices wait for the host to launch work, and for input"
    table = pa.table(
        {"run": ["r"], "last_device": [device], "finding": [finding], "share": [0.5], "wait": [12_345_678]}
    )
    left_out: list[str] = []
    first, *rest = list(lines(table, Look(64), left_out=left_out, by_worth=True, wraps="finding"))[1:]
    assert left_out == ["wait"] and device in first and first.endswith(" 0.5")
    shown = [first.split(device)[1].removesuffix("0.5").strip(), *(one.strip() for one in rest)]
    assert len(shown) > 1 and " ".join(shown) == finding
    assert max(map(len, [first, *rest])) <= 64
