"""Layouts of arrays in tiles: what they pad, against memory laid out element by element and against XLA's buffers."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random

import pytest
from gate import typical_captures
from hlo_builder import Op, Program, shape

import fastprof
from fastprof.hlo.module import HloModule
from fastprof.hlo.shapes import COMBINE, OPAQUE, TOKEN, UNBOUNDED, ArrayLayout
from fastprof.inputs.message import Message


def array(*dimensions: int, tiles: tuple[tuple[int, ...], ...] = (), kind: str = "f32", **rest: int) -> ArrayLayout:
    return ArrayLayout(kind, dimensions, tuple(range(len(dimensions) - 1, -1, -1)), tiles, **rest)


def test_an_array_without_tiles_takes_its_elements() -> None:
    one = array(5, 130)
    assert (one.bytes, one.padded_bytes, one.wasted_share, one.padded_dimensions) == (2600, 2600, 0.0, (5, 130))


def test_tiles_are_stored_in_whole() -> None:
    one = array(3, 5, 130, tiles=((8, 128),), kind="bf16")
    assert one.padded_dimensions == (3, 8, 256)
    assert (one.bytes, one.padded_bytes) == (3 * 5 * 130 * 2, 3 * 8 * 256 * 2)
    assert one.wasted_share == 1 - (5 * 130) / (8 * 256)


def test_the_tile_lies_over_the_most_minor_dimensions_whichever_these_are() -> None:
    one = ArrayLayout("f32", (130, 5), (0, 1), ((8, 128),))
    assert one.padded_dimensions == (256, 8)
    assert one.padded_bytes == 8 * 256 * 4


def test_tiles_within_tiles_pad_only_what_they_do_not_divide() -> None:
    assert array(8, 128, tiles=((8, 128), (2, 1)), kind="bf16").padded_bytes == 8 * 128 * 2
    assert array(300, tiles=((512,), (128,), (2, 1)), kind="bf16").padded_bytes == 512 * 2
    assert array(1, 128, tiles=((1, 128), (2, 1)), kind="bf16").padded_bytes == 2 * 128 * 2


def test_a_tile_of_more_dimensions_than_the_array_pads_these_too() -> None:
    assert array(7, tiles=((8, 128),)).padded_bytes == 8 * 128 * 4
    scalar = array(tiles=((128,),))
    assert (scalar.bytes, scalar.padded_bytes, scalar.padded_dimensions) == (4, 512, ())


def test_dimensions_that_a_tile_makes_one_are_padded_together() -> None:
    one = array(3, 5, 7, tiles=((COMBINE, 8),))
    assert one.padded_bytes == 3 * 40 * 4  # 5 x 7 = 35 in tiles of 8
    assert one.padded_dimensions is None


@pytest.mark.parametrize(
    ("kind", "bits", "wanted"), [("s4", 0, 9), ("s4", 4, 5), ("pred", 0, 9), ("f8e4m3fn", 0, 9), ("c128", 0, 144)]
)
def test_elements_take_whole_bytes_unless_the_layout_packs_them(kind: str, bits: int, wanted: int) -> None:
    assert array(9, kind=kind, element_bits=bits).bytes == wanted


def test_the_end_is_aligned() -> None:
    assert array(9, alignment=4).padded_bytes == 12 * 4


def test_what_is_not_known_has_no_size() -> None:
    for one in (array(UNBOUNDED, 4), array(4, kind="f99")):
        assert (one.bytes, one.padded_bytes, one.wasted_share) == (None, None, None)


def test_an_array_of_no_elements_takes_nothing_and_wastes_nothing() -> None:
    one = array(0, 5, tiles=((8, 128),))
    assert (one.bytes, one.padded_bytes, one.wasted_share) == (0, 0, None)


def test_sizes_beyond_64_bits_are_not_known() -> None:
    one = array(2**62, 2**62, tiles=((8, 2**62),))
    assert (one.bytes, one.padded_bytes) == (None, None)
    packed = ArrayLayout("s4", (2**62,), element_bits=4)
    assert (packed.bytes, packed.padded_bytes) == (None, None)
    assert array(2**59).bytes == 2**61


def test_padded_dimensions_beyond_64_bits_are_not_known() -> None:
    one = array(2**63 - 1, 3, tiles=((2**62, 2),))
    assert (one.padded_dimensions, one.padded_bytes) == (None, None)


def test_tiles_in_tiles_without_end_are_not_counted() -> None:
    assert array(8, tiles=((1,),) * 64).padded_bytes == 32
    assert array(8, tiles=((1,),) * 100_000).padded_bytes is None


def test_a_tile_of_size_0_pads_nothing() -> None:
    assert array(5, 6, tiles=((0, 4),)).padded_bytes == 5 * 8 * 4


# ---- against memory laid out element by element


def place_of(index: tuple[int, ...], sizes: list[int], tiles: list[tuple[int, ...]]) -> int:
    """Where an element lies, by the rules of tiled layouts, in elements."""
    place, extent = list(index), list(sizes)
    for tile in tiles:
        missing = len(tile) - len(extent)
        place, extent = [0] * missing + place, [1] * missing + extent
        outside = len(extent) - len(tile)
        inner = [p % t for p, t in zip(place[outside:], tile, strict=True)]
        outer = [p // t for p, t in zip(place[outside:], tile, strict=True)]
        counts = [-(-s // t) for s, t in zip(extent[outside:], tile, strict=True)]
        place, extent = place[:outside] + outer + inner, extent[:outside] + counts + list(tile)
    at = 0
    for p, size in zip(place, extent, strict=True):
        at = at * size + p
    return at


def test_every_element_has_a_place_of_its_own_within_the_padded_array() -> None:
    random = Random(7)
    for _ in range(200):
        dims = tuple(random.randrange(1, 6) for _ in range(random.randrange(1, 4)))
        order = list(range(len(dims)))
        random.shuffle(order)
        tiles = [
            tuple(random.randrange(1, 5) for _ in range(random.randrange(1, 4))) for _ in range(random.randrange(3))
        ]
        one = ArrayLayout("u8", dims, tuple(order), tuple(tiles))
        sizes = [dims[d] for d in reversed(order)]
        places = {
            place_of(tuple(index[d] for d in reversed(order)), sizes, tiles) for index in product(*map(range, dims))
        }
        padded = one.padded_bytes
        assert padded is not None and one.bytes is not None
        assert len(places) == one.bytes <= padded
        assert max(places) < padded


# ---- of modules


def test_the_layout_of_a_module_s_array_is_read_from_its_bytes() -> None:
    made = Program("m")
    made.entry(
        Op("p", "parameter", shape("bf16", 5, 130, order=(0, 1), space=1, tiles=((8, 128), (2, 1)), alignment=4))
    )
    module = HloModule(made.proto())
    one = module.instruction(0).shape.array
    assert one == ArrayLayout("bf16", (5, 130), (0, 1), ((8, 128), (2, 1)), 0, 1, 4)
    assert one.tile_text == "(8,128)(2,1)"


@typical_captures
def test_buffers_of_real_programs_are_as_large_as_their_padded_arrays(capture: Path) -> None:
    """XLA's buffer assignment says what each array takes."""
    stats = fastprof.load(capture).event_metadata_stats
    protos = [row["bytes_value"] for row in stats.to_pylist() if row["stat"] in ("Hlo Proto", "HLO Proto")]
    compared = 0
    for proto in filter(None, protos):
        module = HloModule(proto)
        row_of = {int(number): row for row, number in enumerate(module.instructions["id"])}
        for buffer in Message(module.data).message(3).messages(1):
            defined = buffer.message(3)
            found = module.instruction(row_of[defined.integer(4)]).shape
            for k in defined.integers(3):
                found = found.elements[k]
            if found.is_tuple or found.element_type in (TOKEN, OPAQUE):
                continue
            compared += 1
            assert found.array.padded_bytes == buffer.integer(2), found
    if not compared:
        pytest.skip("the capture carries no programs with buffers")
