"""What HLO text says behind an instruction's operands, by its opcode: ``dimensions={0}``, ``window={size=3x3}``, …"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from fastprof.hlo.message import Message
from fastprof.hlo.text.escapes import escaped, one_line
from fastprof.hlo.text.literal_text import literal_text
from fastprof.hlo.text.shape_text import ShapeTexts
from fastprof.hlo.text.sharding_text import replica_groups_text, sharding_text

Words = Sequence[str]
Rule = Callable[["Attributes"], Iterator[str]]

_LITERAL, _TUPLE_INDEX, _DIMENSIONS, _WINDOW, _CONVOLUTION, _SLICES, _EXPONENT, _MANTISSA = (
    8,
    13,
    14,
    15,
    16,
    17,
    18,
    19,
)
_SLICE_SIZES, _PADDING, _OUTFEED_CONFIG, _DISTRIBUTION, _EPSILON, _FEATURE, _CHANNEL, _INFEED_CONFIG = range(20, 28)
_TARGET, _OUTFEED_SHAPE, _DOT, _FFT_TYPE, _FFT_LENGTH, _GATHER, _GATHER_SIZES = range(28, 35)
_HOST_TRANSFER, _SCATTER, _FEATURE_GROUPS, _PRECISION, _PAIRS, _ENTRY, _EXIT = 47, 48, 50, 51, 52, 54, 55
_CONSTRAINED, _OPERAND_SHAPES, _BATCH_GROUPS, _SOLVE, _STABLE, _REPLICATION, _CHOLESKY, _DIRECTION = range(56, 64)
_SIDE_EFFECT, _DELTA, _SORTED, _UNIQUE, _ALGORITHM, _GLOBAL_IDS, _COMPARISON = 65, 66, 67, 69, 70, 71, 72
_ALIASING, _PADDING_TYPE, _SCHEDULE, _API_VERSION, _THREAD, _PREFETCH, _K, _LARGEST = 74, 75, 76, 77, 79, 80, 81, 85
_RAGGED, _REVERSE, _CARRIES, _ASSOCIATIVE, _CONVOLUTION_KIND = 90, 94, 95, 96, 97

_PRECISIONS = ("default", "high", "highest", "packed_nibble")
_PRODUCTS = (
    "any_f8_any_f8_f32 any_f8_any_f8_f32_fast_accum f16_f16_f16 f16_f16_f32 bf16_bf16_bf16 bf16_bf16_f32 "
    "bf16_bf16_f32_x3 bf16_bf16_f32_x6 tf32_tf32_f32 tf32_tf32_f32_x3 f32_f32_f32 f64_f64_f64 bf16_bf16_f32_x9"
)
_ALGORITHMS = ("unset", *(f"dot_{name}" for name in _PRODUCTS.split()))
_TRANSPOSES = ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
_SCHEDULES = ("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")
_API_VERSIONS = ("UNSPECIFIED", "ORIGINAL", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED", "TYPED_FFI")
_ORIGINAL = 1


def _truth(value: bool) -> str:
    return "true" if value else "false"


def word(words: Words, number: int) -> str:
    """The name of an enum's value; the number itself where it has none that is known."""
    return words[number] if 0 <= number < len(words) else str(number)


def joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def listed(name: str, numbers: Sequence[int]) -> str:
    return f"{name}={{{joined(numbers)}}}"


class Attributes:
    """One instruction's fields, and how its attributes are written. ``configs``: with those of infeeds and outfeeds."""

    def __init__(self, fields: Message, opcode: str, shapes: ShapeTexts, configs: bool) -> None:
        self.fields = fields
        self.opcode = opcode
        self.shapes = shapes
        self.configs = configs

    def texts(self) -> list[str]:
        """CaptureError: a field of them does not decode."""
        rule = RULES.get(self.opcode)
        return list(rule(self)) if rule else []

    def flag(self, number: int, text: str) -> Iterator[str]:
        if self.fields.flag(number):
            yield f"{text}=true"


# ---- dimensions and windows


def _dimensions(one: Attributes) -> Iterator[str]:
    yield listed("dimensions", one.fields.integers(_DIMENSIONS))


def _sort(one: Attributes) -> Iterator[str]:
    yield from _dimensions(one)
    yield from one.flag(_STABLE, "is_stable")


def _first_dimension(name: str) -> Rule:
    def rule(one: Attributes) -> Iterator[str]:
        yield from (f"{name}={dimension}" for dimension in one.fields.integers(_DIMENSIONS)[:1])

    return rule


def _slice(one: Attributes) -> Iterator[str]:
    slices = [(part.integer(1), part.integer(2), part.integer(3)) for part in one.fields.messages(_SLICES)]
    plain = all(stride == 1 for _, _, stride in slices)
    texts = (f"[{first}:{limit}]" if plain else f"[{first}:{limit}:{stride}]" for first, limit, stride in slices)
    yield f"slice={{{', '.join(texts)}}}"


def _dynamic_slice(one: Attributes) -> Iterator[str]:
    yield listed("dynamic_slice_sizes", one.fields.integers(_SLICE_SIZES))


def _pad(one: Attributes) -> Iterator[str]:
    sides = [[side.integer(k) for k in (1, 2, 3)] for side in one.fields.message(_PADDING).messages(1)]
    inside = any(side[2] for side in sides)
    yield "padding=" + "x".join("_".join(map(str, side if inside else side[:2])) for side in sides)


def _window_text(window: Message) -> str:
    """``size=3x3 stride=2x2 pad=1_1x1_1``: what is not told is the usual."""
    parts = window.messages(1)
    if not parts:
        return ""

    def told(name: str, values: list[int], usual: int) -> str:
        return f" {name}={'x'.join(map(str, values))}" if any(value != usual for value in values) else ""

    size, stride, low, high, inner, outer, turned = ([part.integer(k) for part in parts] for k in range(1, 8))
    text = "size=" + "x".join(map(str, size)) + told("stride", stride, 1)
    if any(low) or any(high):
        text += " pad=" + "x".join(f"{one}_{other}" for one, other in zip(low, high, strict=True))
    return text + told("lhs_dilate", outer, 1) + told("rhs_dilate", inner, 1) + told("rhs_reversal", turned, 0)


def _window(one: Attributes) -> Iterator[str]:
    text = _window_text(one.fields.message(_WINDOW))
    if text:
        yield f"window={{{text}}}"


def _labels(numbers: Message) -> str:
    """``bf01_oi01->bf01``: what each dimension of input, kernel and output is."""
    get, lists = numbers.integer, numbers.integers
    return (
        _label({"b": get(7), "f": get(8)}, lists(11))
        + "_"
        + _label({"i": get(3), "o": get(4)}, lists(6))
        + "->"
        + _label({"b": get(9), "f": get(10)}, lists(12))
    )


def _label(letters: Mapping[str, int], spatial: list[int]) -> str:
    places = {place: letter for letter, place in letters.items()} | {p: str(k) for k, p in enumerate(spatial)}
    known = [place for place in places if 0 <= place < 64]
    return "".join(places.get(place, "?") for place in range(max(known, default=-1) + 1))


def _groups_of_features(one: Attributes) -> Iterator[str]:
    for number, name in ((_FEATURE_GROUPS, "feature_group_count"), (_BATCH_GROUPS, "batch_group_count")):
        count = one.fields.integer(number)
        if count not in (0, 1):
            yield f"{name}={count}"


def _precision(one: Attributes) -> Iterator[str]:
    config = one.fields.message(_PRECISION)
    operands = config.integers(1)
    if any(operands):
        yield f"operand_precision={{{','.join(word(_PRECISIONS, operand) for operand in operands)}}}"
    if config.integer(2):
        yield f"algorithm={word(_ALGORITHMS, config.integer(2))}"


def _convolution(one: Attributes) -> Iterator[str]:
    yield from _window(one)
    yield f"dim_labels={_labels(one.fields.message(_CONVOLUTION))}"
    yield from _groups_of_features(one)
    yield from _precision(one)


# ---- products, gathers


def _dot_numbers(numbers: Message) -> str:
    parts = []
    for number, name in ((3, "lhs_batch"), (1, "lhs_contracting"), (4, "rhs_batch"), (2, "rhs_contracting")):
        if number < 3 or number in numbers:
            parts.append(listed(f"{name}_dims", numbers.integers(number)))
    return ", ".join(parts)


def _dot(one: Attributes) -> Iterator[str]:
    yield _dot_numbers(one.fields.message(_DOT))
    yield from _precision(one)


def _ragged_dot(one: Attributes) -> Iterator[str]:
    numbers = one.fields.message(_RAGGED)
    text = _dot_numbers(numbers.message(1)) + ", " + listed("lhs_ragged_dims", numbers.integers(2))
    yield text + (", " + listed("rhs_group_dims", numbers.integers(3)) if 3 in numbers else "")
    yield from _precision(one)


def _places(numbers: Message, names: Words) -> str:
    """Dimension numbers of a gather or scatter: three lists, two more where there are any, and where indices are."""
    parts = [listed(names[k], numbers.integers(k + 1)) for k in range(3)]
    parts += [listed(names[k], numbers.integers(k + 2)) for k in (3, 4) if numbers.integers(k + 2)]
    return ", ".join([*parts, f"index_vector_dim={numbers.integer(4)}"])


_GATHER_NAMES = (
    *("offset_dims", "collapsed_slice_dims", "start_index_map"),
    *("operand_batching_dims", "start_indices_batching_dims"),
)
_SCATTER_NAMES = (
    *("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"),
    *("input_batching_dims", "scatter_indices_batching_dims"),
)


def _gather(one: Attributes) -> Iterator[str]:
    yield _places(one.fields.message(_GATHER), _GATHER_NAMES)
    yield listed("slice_sizes", one.fields.integers(_GATHER_SIZES))
    yield from one.flag(_SORTED, "indices_are_sorted")


def _scatter(one: Attributes) -> Iterator[str]:
    yield _places(one.fields.message(_SCATTER), _SCATTER_NAMES)
    yield from one.flag(_SORTED, "indices_are_sorted")
    yield from one.flag(_UNIQUE, "unique_indices")


# ---- talk between devices


def _channel(one: Attributes) -> Iterator[str]:
    if one.fields.integer(_CHANNEL) > 0:
        yield f"channel_id={one.fields.integer(_CHANNEL)}"


def _collective(one: Attributes) -> Iterator[str]:
    yield from _channel(one)
    yield f"replica_groups={replica_groups_text(one.fields)}"
    yield from one.flag(_CONSTRAINED, "constrain_layout")


def _reduced(one: Attributes) -> Iterator[str]:
    yield from _collective(one)
    yield from one.flag(_GLOBAL_IDS, "use_global_device_ids")


def _gathered(one: Attributes) -> Iterator[str]:
    yield from _collective(one)
    yield from _dimensions(one)
    yield from one.flag(_GLOBAL_IDS, "use_global_device_ids")


def _scattered(one: Attributes) -> Iterator[str]:
    yield from _reduced(one)
    yield from _dimensions(one)


def _exchanged(one: Attributes) -> Iterator[str]:
    yield from _collective(one)
    if _DIMENSIONS in one.fields:
        yield from _dimensions(one)


def _permuted(one: Attributes) -> Iterator[str]:
    yield from _channel(one)
    pairs = (f"{{{pair.integer(1)},{pair.integer(2)}}}" for pair in one.fields.messages(_PAIRS))
    yield f"source_target_pairs={{{','.join(pairs)}}}"
    if _SLICE_SIZES in one.fields:
        yield f"slice_sizes={{{{{joined(one.fields.integers(_SLICE_SIZES))}}}}}"


def _sent(one: Attributes) -> Iterator[str]:
    yield from _channel(one)
    yield from one.flag(_HOST_TRANSFER, "is_host_transfer")


def _infeed(one: Attributes) -> Iterator[str]:
    if one.configs and one.fields.data(_INFEED_CONFIG):
        yield f'infeed_config="{escaped(one.fields.data(_INFEED_CONFIG))}"'


def _outfeed(one: Attributes) -> Iterator[str]:
    yield f"outfeed_shape={one.shapes.text(one.fields.data(_OUTFEED_SHAPE))}"
    if one.configs and one.fields.data(_OUTFEED_CONFIG):
        yield f'outfeed_config="{escaped(one.fields.data(_OUTFEED_CONFIG))}"'


# ---- all others


def _compare(one: Attributes) -> Iterator[str]:
    yield f"direction={one_line(one.fields.text(_DIRECTION))}"
    order = one.fields.text(_COMPARISON)
    if order == "TOTALORDER" or order == "TOTAL":
        yield "order=TOTAL"


def _number(name: str, number: int) -> Rule:
    def rule(one: Attributes) -> Iterator[str]:
        yield f"{name}={one.fields.integer(number)}"

    return rule


def _batch_norm(one: Attributes) -> Iterator[str]:
    yield f"epsilon={one.fields.single(_EPSILON):.6g}"
    yield f"feature_index={one.fields.integer(_FEATURE)}"


def _fft(one: Attributes) -> Iterator[str]:
    yield f"fft_type={word(('FFT', 'IFFT', 'RFFT', 'IRFFT'), one.fields.integer(_FFT_TYPE))}"
    yield listed("fft_length", one.fields.integers(_FFT_LENGTH))


def _rng(one: Attributes) -> Iterator[str]:
    yield f"distribution={word(('rng_invalid', 'rng_uniform', 'rng_normal'), one.fields.integer(_DISTRIBUTION))}"


def _random_bits(one: Attributes) -> Iterator[str]:
    yield f"algorithm={word(('rng_default', 'rng_three_fry', 'rng_philox'), one.fields.integer(_ALGORITHM))}"


def _reduce_precision(one: Attributes) -> Iterator[str]:
    yield f"exponent_bits={one.fields.integer(_EXPONENT)}"
    yield f"mantissa_bits={one.fields.integer(_MANTISSA)}"


def _options(one: Attributes, number: int, names: Words) -> Iterator[str]:
    """The options of a solver, those that are set."""
    options = one.fields.message(number)
    yield from (f"{name}=true" for k, name in enumerate(names, 1) if options.flag(k))


def _cholesky(one: Attributes) -> Iterator[str]:
    yield from _options(one, _CHOLESKY, ("lower",))


def _triangular_solve(one: Attributes) -> Iterator[str]:
    yield from _options(one, _SOLVE, ("left_side", "lower", "unit_diagonal"))
    transposed = one.fields.message(_SOLVE).integer(4)
    if transposed:
        yield f"transpose_a={word(_TRANSPOSES, transposed)}"


def _top_k(one: Attributes) -> Iterator[str]:
    yield f"k={one.fields.integer(_K)}"
    yield f"largest={_truth(one.fields.flag(_LARGEST))}"
    yield f"is_stable={_truth(one.fields.flag(_STABLE))}"


def _copy_start(one: Attributes) -> Iterator[str]:
    if _PREFETCH in one.fields:
        yield f"cross_program_prefetch_index={one.fields.integer(_PREFETCH)}"


def _parameter(one: Attributes) -> Iterator[str]:
    if _REPLICATION in one.fields:
        leaves = one.fields.message(_REPLICATION).integers(1)
        yield f"parameter_replication={{{','.join(_truth(leaf != 0) for leaf in leaves)}}}"


def _aliasing(one: Attributes) -> Iterator[str]:
    pairs = [
        f"{{{joined(pair.integers(1))}}}: ({pair.integer(2)}, {{{joined(pair.integers(3))}}})"
        for pair in one.fields.messages(_ALIASING)
    ]
    if pairs:
        yield f"output_to_operand_aliasing={{{', '.join(pairs)}}}"


def _fusion(one: Attributes) -> Iterator[str]:
    yield f"kind={one_line(one.fields.text(11))}"
    yield from _aliasing(one)


def _scan(one: Attributes) -> Iterator[str]:
    yield from _dimensions(one)
    yield f"num_carries={one.fields.integer(_CARRIES)}"
    yield from one.flag(_REVERSE, "is_reverse")
    if one.fields.integer(_ASSOCIATIVE):
        yield f"is_associative={_truth(one.fields.integer(_ASSOCIATIVE) == 1)}"


def _broadcast_to_all(one: Attributes) -> Iterator[str]:
    yield from _collective(one)
    yield "has_dynamic_root=false"


def _domain(one: Attributes) -> Iterator[str]:
    """Its fields call entry what is on the side of the operand, its text what is on the side of the users."""
    sides = (sharding_text(one.fields.data(k)) if k in one.fields else "{}" for k in (_EXIT, _ENTRY))
    yield f'domain={{kind="sharding", entry={next(sides)}, exit={next(sides)}}}'


def _custom_call(one: Attributes) -> Iterator[str]:
    fields = one.fields
    if _WINDOW in fields:
        yield f"window={{{_window_text(fields.message(_WINDOW))}}}"
    if _CONVOLUTION in fields:
        yield f"dim_labels={_labels(fields.message(_CONVOLUTION))}"
    yield from _groups_of_features(one)
    yield from _precision(one)
    if fields.integer(_PADDING_TYPE):
        yield f"padding_type=PADDING_{word(('INVALID', 'VALID', 'SAME'), fields.integer(_PADDING_TYPE))}"
    yield f'custom_call_target="{escaped(fields.data(_TARGET))}"'
    if fields.flag(_CONSTRAINED):
        shapes = ", ".join(one.shapes.text(part) for part in fields.parts(_OPERAND_SHAPES))
        yield f"operand_layout_constraints={{{shapes}}}"
    yield from one.flag(_SIDE_EFFECT, "custom_call_has_side_effect")
    if _LITERAL in fields:
        literal = fields.message(_LITERAL)
        yield f"literal={one.shapes.text(literal.data(1))} {''.join(literal_text(literal))}"
    yield from _aliasing(one)
    if fields.integer(_SCHEDULE):
        yield f"schedule={word(_SCHEDULES, fields.integer(_SCHEDULE))}"
    if fields.integer(_API_VERSION) != _ORIGINAL:
        yield f"api_version=API_VERSION_{word(_API_VERSIONS, fields.integer(_API_VERSION))}"


def _windowed(one: Attributes) -> Iterator[str]:
    yield from _window(one)


RULES: dict[str, Rule] = {
    **dict.fromkeys(["broadcast", "transpose", "reverse", "concatenate", "reduce", "map"], _dimensions),
    **dict.fromkeys(["get-dimension-size", "set-dimension-size"], _dimensions),
    **dict.fromkeys(["reduce-window", "select-and-scatter"], _windowed),
    **dict.fromkeys(["all-reduce", "all-reduce-start"], _reduced),
    **dict.fromkeys(["all-gather", "all-gather-start"], _gathered),
    **dict.fromkeys(["all-to-all", "ragged-all-to-all"], _exchanged),
    **dict.fromkeys(["collective-permute", "collective-permute-start"], _permuted),
    **dict.fromkeys(["send", "send-done", "recv", "recv-done"], _sent),
    **dict.fromkeys(["batch-norm-training", "batch-norm-inference", "batch-norm-grad"], _batch_norm),
    "sort": _sort,
    "reshape": _first_dimension("inferred_dimension"),
    "iota": _first_dimension("iota_dimension"),
    "get-tuple-element": _number("index", _TUPLE_INDEX),
    "rng-get-and-update-state": _number("delta", _DELTA),
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "pad": _pad,
    "convolution": _convolution,
    "dot": _dot,
    "ragged-dot": _ragged_dot,
    "scaled-dot": _dot,
    "gather": _gather,
    "scatter": _scatter,
    "reduce-scatter": _scattered,
    "collective-broadcast": _broadcast_to_all,
    "domain": _domain,
    "infeed": _infeed,
    "outfeed": _outfeed,
    "compare": _compare,
    "fft": _fft,
    "rng": _rng,
    "rng-bit-generator": _random_bits,
    "reduce-precision": _reduce_precision,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "topk": _top_k,
    "copy-start": _copy_start,
    "parameter": _parameter,
    "fusion": _fusion,
    "scan": _scan,
    "custom-call": _custom_call,
}
"""By opcode, in the order in which texts tell them; opcodes that are not here have no attributes of their own."""
