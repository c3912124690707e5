"""What HLO text has behind an instruction's operands, by opcode: ``dimensions={0}``, ``window={size=3x3}``, …

Each attribute is a name, the fields of the HloInstructionProto that it shows, and how they are printed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fastprof.hlo.text.shape_text import (
    ShapeTexts,
    escape_bytes,
    escape_to_one_line,
    format_replica_groups,
    format_sharding,
    join_numbers,
)
from fastprof.inputs.message import Message
from fastprof.schema.value_classes import dataclass

Words = Sequence[str]


@dataclass(frozen=True, slots=True)
class Given:
    """The fields of an instruction. ``configs``: whether configurations of infeeds and outfeeds are printed."""

    fields: Message
    shapes: ShapeTexts
    configs: bool


Attribute = Callable[[Given], str]
"""The text of an attribute; "" where the instruction does not have it."""


def format_attributes(opcode: str, fields: Message, shapes: ShapeTexts, configs: bool) -> list[str]:
    """Return the attributes of an instruction. CaptureError: a field of them does not decode."""
    given = Given(fields, shapes, configs)
    return [text for attribute in ATTRIBUTES.get(opcode, ()) if (text := attribute(given))]


def _format_braced(name: str, numbers: Sequence[int]) -> str:
    return f"{name}={{{join_numbers(numbers)}}}"


def _get_word(words: Words, number: int) -> str:
    """Return the name of an enum's value; the number itself where the name is unknown."""
    return words[number] if 0 <= number < len(words) else str(number)


def _format_truth(value: bool) -> str:
    return "true" if value else "false"


# ---- attributes of one field


def _integers(name: str, number: int) -> Attribute:
    return lambda given: _format_braced(name, given.fields.integers(number))


def _first(name: str, number: int) -> Attribute:
    return lambda given: "".join(f"{name}={value}" for value in given.fields.integers(number)[:1])


def _integer(name: str, number: int, hidden: Callable[[int], bool] = lambda _: False) -> Attribute:
    """Make an attribute. ``hidden``: values that are not printed."""

    def text(given: Given) -> str:
        value = given.fields.integer(number)
        return "" if hidden(value) else f"{name}={value}"

    return text


def _flag(name: str, number: int) -> Attribute:
    """Make an attribute that is printed if it is set."""
    return lambda given: f"{name}=true" if given.fields.flag(number) else ""


def _boolean(name: str, number: int) -> Attribute:
    return lambda given: f"{name}={_format_truth(given.fields.flag(number))}"


def _enum(name: str, number: int, words: Words, usual: int | None = None, prefix: str = "") -> Attribute:
    """Make an attribute. ``usual``: the value that is not printed."""

    def text(given: Given) -> str:
        value = given.fields.integer(number)
        return "" if value == usual else f"{name}={prefix}{_get_word(words, value)}"

    return text


def _where_present(number: int, attribute: Attribute) -> Attribute:
    return lambda given: attribute(given) if number in given.fields else ""


def _options(number: int, names: Words) -> tuple[Attribute, ...]:
    """Return the options of a solver that are set, each an attribute."""

    def option(place: int, name: str) -> Attribute:
        return lambda given: f"{name}=true" if given.fields.message(number).flag(place) else ""

    return tuple(option(place, name) for place, name in enumerate(names, 1))


def _config(name: str, number: int) -> Attribute:
    def text(given: Given) -> str:
        config = given.fields.data(number) if given.configs else b""
        return f'{name}="{escape_bytes(config)}"' if len(config) else ""

    return text


# ---- dimensions, slices and windows


def _format_slices(given: Given) -> str:
    slices = [(part.integer(1), part.integer(2), part.integer(3)) for part in given.fields.messages(17)]
    plain = all(stride == 1 for _, _, stride in slices)
    texts = (f"[{first}:{limit}]" if plain else f"[{first}:{limit}:{stride}]" for first, limit, stride in slices)
    return f"slice={{{', '.join(texts)}}}"


def _format_padding(given: Given) -> str:
    sides = [[side.integer(k) for k in (1, 2, 3)] for side in given.fields.message(21).messages(1)]
    inside = any(side[2] for side in sides)
    return "padding=" + "x".join("_".join(map(str, side if inside else side[:2])) for side in sides)


def _format_window(given: Given) -> str:
    """Format ``window={size=3x3 stride=2x2 pad=1_1x1_1}`` without usual values."""
    parts = given.fields.message(15).messages(1)

    def unusual(name: str, values: list[int], usual: int) -> str:
        return f" {name}={'x'.join(map(str, values))}" if any(value != usual for value in values) else ""

    size, stride, low, high, inner, outer, turned = ([part.integer(k) for part in parts] for k in range(1, 8))
    text = f"size={'x'.join(map(str, size))}" if parts else ""
    text += unusual("stride", stride, 1)
    if any(low) or any(high):
        text += " pad=" + "x".join(f"{left}_{right}" for left, right in zip(low, high, strict=True))
    text += unusual("lhs_dilate", outer, 1) + unusual("rhs_dilate", inner, 1) + unusual("rhs_reversal", turned, 0)
    return f"window={{{text}}}"


def _format_any_window(given: Given) -> str:
    text = _format_window(given)
    return "" if text == "window={}" else text


def _format_labels(given: Given) -> str:
    """``dim_labels=bf01_oi01->bf01``: what each dimension of input, kernel and output is."""
    numbers = given.fields.message(16)
    get, lists = numbers.integer, numbers.integers
    data = _format_label({"b": get(7), "f": get(8)}, lists(11))
    kernel = _format_label({"i": get(3), "o": get(4)}, lists(6))
    return f"dim_labels={data}_{kernel}->{_format_label({'b': get(9), 'f': get(10)}, lists(12))}"


def _format_label(letters: Mapping[str, int], spatial: list[int]) -> str:
    places = {place: letter for letter, place in letters.items()} | {p: str(k) for k, p in enumerate(spatial)}
    known = [place for place in places if 0 <= place < 64]
    return "".join(places.get(place, "?") for place in range(max(known, default=-1) + 1))


# ---- products, gathers


def _format_precision(given: Given) -> str:
    operands = given.fields.message(51).integers(1)
    words = ("default", "high", "highest", "packed_nibble")
    return (
        f"operand_precision={{{','.join(_get_word(words, operand) for operand in operands)}}}" if any(operands) else ""
    )


_PRODUCTS = (
    "any_f8_any_f8_f32 any_f8_any_f8_f32_fast_accum f16_f16_f16 f16_f16_f32 bf16_bf16_bf16 bf16_bf16_f32 "
    "bf16_bf16_f32_x3 bf16_bf16_f32_x6 tf32_tf32_f32 tf32_tf32_f32_x3 f32_f32_f32 f64_f64_f64 bf16_bf16_f32_x9"
)
_ALGORITHMS = ("unset", *(f"dot_{name}" for name in _PRODUCTS.split()))


def _format_algorithm(given: Given) -> str:
    number = given.fields.message(51).integer(2)
    return f"algorithm={_get_word(_ALGORITHMS, number)}" if number else ""


def _format_dot_numbers(numbers: Message) -> str:
    parts = []
    for number, name in ((3, "lhs_batch"), (1, "lhs_contracting"), (4, "rhs_batch"), (2, "rhs_contracting")):
        if number < 3 or number in numbers:
            parts.append(_format_braced(f"{name}_dims", numbers.integers(number)))
    return ", ".join(parts)


def _format_ragged_dot(given: Given) -> str:
    numbers = given.fields.message(90)
    text = _format_dot_numbers(numbers.message(1)) + ", " + _format_braced("lhs_ragged_dims", numbers.integers(2))
    return text + (", " + _format_braced("rhs_group_dims", numbers.integers(3)) if 3 in numbers else "")


def _places(number: int, names: Words) -> Attribute:
    """Dimension numbers of a gather or scatter: three lists, two more that may be empty, and where indices are."""

    def text(given: Given) -> str:
        numbers = given.fields.message(number)
        parts = [_format_braced(names[k], numbers.integers(k + 1)) for k in range(3)]
        parts += [_format_braced(names[k], numbers.integers(k + 2)) for k in (3, 4) if numbers.integers(k + 2)]
        return ", ".join([*parts, f"index_vector_dim={numbers.integer(4)}"])

    return text


# ---- communication


def _format_pairs(given: Given) -> str:
    pairs = (f"{{{pair.integer(1)},{pair.integer(2)}}}" for pair in given.fields.messages(52))
    return f"source_target_pairs={{{','.join(pairs)}}}"


def _format_domain(given: Given) -> str:
    """Format a domain. The fields call entry the side of the operand; the text calls entry the side of the users."""
    fields = given.fields
    entry, exit_ = (format_sharding(fields.data(number)) if number in fields else "{}" for number in (55, 54))
    return f'domain={{kind="sharding", entry={entry}, exit={exit_}}}'


# ---- others


def _format_total_order(given: Given) -> str:
    return "order=TOTAL" if given.fields.text(72) in ("TOTALORDER", "TOTAL") else ""


def _format_transpose_a(given: Given) -> str:
    transposed = given.fields.message(59).integer(4)
    words = ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
    return f"transpose_a={_get_word(words, transposed)}" if transposed else ""


def _format_replication(given: Given) -> str:
    leaves = given.fields.message(61).integers(1)
    return f"parameter_replication={{{','.join(_format_truth(leaf != 0) for leaf in leaves)}}}"


def _format_aliasing(given: Given) -> str:
    pairs = [
        f"{{{join_numbers(pair.integers(1))}}}: ({pair.integer(2)}, {{{join_numbers(pair.integers(3))}}})"
        for pair in given.fields.messages(74)
    ]
    return f"output_to_operand_aliasing={{{', '.join(pairs)}}}" if pairs else ""


def _format_associative(given: Given) -> str:
    value = given.fields.integer(96)
    return f"is_associative={_format_truth(value == 1)}" if value else ""


def _format_layout_constraints(given: Given) -> str:
    if not given.fields.flag(56):
        return ""
    return f"operand_layout_constraints={{{', '.join(map(given.shapes.text, given.fields.parts(57)))}}}"


def _format_literal(given: Given) -> str:
    from fastprof.hlo.text.literal_text import format_literal  # few instructions have one

    literal = given.fields.message(8)
    return f"literal={given.shapes.text(literal.data(1))} {''.join(format_literal(literal))}"


_API_VERSIONS = ("UNSPECIFIED", "ORIGINAL", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED", "TYPED_FFI")
_SCHEDULES = ("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")
_GATHER = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
           "start_indices_batching_dims")  # fmt: skip
_SCATTER = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims",
            "scatter_indices_batching_dims")  # fmt: skip

# ---- what each opcode has

_DIMENSIONS, _SORTED = _integers("dimensions", 14), _flag("indices_are_sorted", 67)
_PRECISION = (_format_precision, _format_algorithm)
_FEATURES = tuple(
    _integer(name, number, lambda count: count in (0, 1))
    for number, name in ((50, "feature_group_count"), (58, "batch_group_count"))
)
_DOT = (lambda given: _format_dot_numbers(given.fields.message(30)), *_PRECISION)
_CHANNEL = _integer("channel_id", 26, lambda channel: channel <= 0)
_GROUPS = (
    _CHANNEL,
    lambda given: f"replica_groups={format_replica_groups(given.fields)}",
    _flag("constrain_layout", 56),
)
_GLOBAL = _flag("use_global_device_ids", 71)

_BY_OPCODES: tuple[tuple[str, tuple[Attribute, ...]], ...] = (
    ("broadcast transpose reverse concatenate reduce map get-dimension-size set-dimension-size", (_DIMENSIONS,)),
    ("sort", (_DIMENSIONS, _flag("is_stable", 60))),
    ("reshape", (_first("inferred_dimension", 14),)),
    ("iota", (_first("iota_dimension", 14),)),
    ("get-tuple-element", (_integer("index", 13),)),
    ("rng-get-and-update-state", (_integer("delta", 66),)),
    ("slice", (_format_slices,)),
    ("dynamic-slice", (_integers("dynamic_slice_sizes", 20),)),
    ("pad", (_format_padding,)),
    ("reduce-window select-and-scatter", (_format_any_window,)),
    ("convolution", (_format_any_window, _format_labels, *_FEATURES, *_PRECISION)),
    ("dot scaled-dot", _DOT),
    ("ragged-dot", (_format_ragged_dot, *_PRECISION)),
    ("gather", (_places(33, _GATHER), _integers("slice_sizes", 34), _SORTED)),
    ("scatter", (_places(48, _SCATTER), _SORTED, _flag("unique_indices", 69))),
    ("all-reduce all-reduce-start", (*_GROUPS, _GLOBAL)),
    ("all-gather all-gather-start", (*_GROUPS, _DIMENSIONS, _GLOBAL)),
    ("reduce-scatter", (*_GROUPS, _GLOBAL, _DIMENSIONS)),
    ("all-to-all ragged-all-to-all", (*_GROUPS, _where_present(14, _DIMENSIONS))),
    ("collective-broadcast", (*_GROUPS, lambda _: "has_dynamic_root=false")),
    ("collective-permute collective-permute-start", (
        _CHANNEL,
        _format_pairs,
        _where_present(20, lambda given: f"slice_sizes={{{{{join_numbers(given.fields.integers(20))}}}}}"),
    )),
    ("send send-done recv recv-done", (_CHANNEL, _flag("is_host_transfer", 47))),
    ("infeed", (_config("infeed_config", 27),)),
    ("outfeed", (lambda given: f"outfeed_shape={given.shapes.text(given.fields.data(29))}",
                 _config("outfeed_config", 22))),
    ("domain", (_format_domain,)),
    ("compare", (lambda given: f"direction={escape_to_one_line(given.fields.text(63))}", _format_total_order)),
    ("batch-norm-training batch-norm-inference batch-norm-grad", (
        lambda given: f"epsilon={given.fields.single(24):.6g}",
        _integer("feature_index", 25),
    )),
    ("fft", (_enum("fft_type", 31, ("FFT", "IFFT", "RFFT", "IRFFT")), _integers("fft_length", 32))),
    ("rng", (_enum("distribution", 23, ("rng_invalid", "rng_uniform", "rng_normal")),)),
    ("rng-bit-generator", (_enum("algorithm", 70, ("rng_default", "rng_three_fry", "rng_philox")),)),
    ("reduce-precision", (_integer("exponent_bits", 18), _integer("mantissa_bits", 19))),
    ("cholesky", _options(62, ("lower",))),
    ("triangular-solve", (*_options(59, ("left_side", "lower", "unit_diagonal")), _format_transpose_a)),
    ("topk", (_integer("k", 81), _boolean("largest", 85), _boolean("is_stable", 60))),
    ("copy-start", (_where_present(80, _integer("cross_program_prefetch_index", 80)),)),
    ("parameter", (_where_present(61, _format_replication),)),
    ("fusion", (lambda given: f"kind={escape_to_one_line(given.fields.text(11))}", _format_aliasing)),
    ("scan", (_DIMENSIONS, _integer("num_carries", 95), _flag("is_reverse", 94), _format_associative)),
    ("custom-call", (
        _where_present(15, _format_window),
        _where_present(16, _format_labels),
        *_FEATURES,
        *_PRECISION,
        _enum("padding_type", 75, ("INVALID", "VALID", "SAME"), 0, "PADDING_"),
        lambda given: f'custom_call_target="{escape_bytes(given.fields.data(28))}"',
        _format_layout_constraints,
        _flag("custom_call_has_side_effect", 65),
        _where_present(8, _format_literal),
        _format_aliasing,
        _enum("schedule", 76, _SCHEDULES, 0),
        _enum("api_version", 77, _API_VERSIONS, 1, "API_VERSION_"),
    )),
)  # fmt: skip
ATTRIBUTES = {opcode: attributes for opcodes, attributes in _BY_OPCODES for opcode in opcodes.split()}
"""Attributes by opcode, in the order of the text; other opcodes have no attributes of their own."""
