"""Recompilations in reports: the table, the sentences of the finding, and the advice.

Programs show arguments and constants. They do not show that an argument is static, or that a function is a new object:
sentences mark this as likely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Final

import numpy as np
import pyarrow as pa

from fastprof.derive.causes.compilations import REACHED_LIMIT, Compilation
from fastprof.derive.causes.recompilations import EARLIER_NOT_RUN, NO_ARGUMENTS, NO_PROGRAM, NO_SHAPES
from fastprof.derive.devices.op_names import JAX, PYTORCH, TENSORFLOW
from fastprof.derive.steps.step_alignment import find_session_steps
from fastprof.derive.steps.step_database import StepDatabase
from fastprof.hlo.program_changes import (
    ARGUMENTS,
    CONSTANT,
    FUNCTION,
    INSTRUCTIONS,
    LAYOUT,
    NOTHING,
    RESULT,
    SHAPE,
    SHARDING,
    TYPE,
    Change,
)
from fastprof.schema.tables import Column, Count, Picoseconds, String, TableSchema, Text
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import format_time

KINDS: Final = (SHAPE, TYPE, LAYOUT, SHARDING, ARGUMENTS, RESULT, CONSTANT, INSTRUCTIONS, FUNCTION, NOTHING)
_NO_VALUES: Final = (INSTRUCTIONS, FUNCTION, NOTHING)
_SHOWN: Final = 3
"""Most values, arguments and groups of changes in a sentence."""


@dataclass(frozen=True, slots=True)
class Recompilation:
    """A compilation of a function that was compiled before. ``number``: its position among the function's compilations
    in the capture, from 1; ``step``: number of the step, or None."""

    host: str
    number: int
    step: int | None
    compilation: Compilation

    @property
    def changes(self) -> tuple[Change, ...]:
        return self.compilation.changes

    @property
    def kind(self) -> str:
        """Kind of the first change, or "" if the change is unknown."""
        return self.changes[0].kind if self.changes else ""


RECOMPILATIONS: Final = TableSchema("recompilations", "a recompilation: a compilation of a function that was compiled "
                                    "before, ordered by time", (
    Text("host", "host"),
    Text("function", "function as the framework names it; PyTorch records its name only together with Python",
         lambda rows: [each.function for each in rows.compilations]),
    Column("number", pa.int32(), "position among the function's compilations in the capture or the chosen steps, "
           "from 1", of=lambda rows: rows.number),
    Column("step", pa.int64(), "step number; null: outside of steps", True),
    Picoseconds("start_ps", "start of the compiling call, or of the compilation if no call is recorded",
                lambda rows: [each.start_ps for each in rows.compilations]),
    Picoseconds("duration_ps", "time from start_ps until the program is compiled, or until the call that traces "
                "the function returns", lambda rows: [each.duration_ps for each in rows.compilations]),
    String("program", "compiled program, or compile id of torch.compile, such as 0/1; null: not recorded",
           lambda rows: [each.program for each in rows.compilations]),
    String("compared_program", "earlier program for the comparison: the one with the fewest different arguments; "
           "null: none", lambda rows: [each.compared_program for each in rows.compilations]),
    Text("change", f"what changed: {', '.join(KINDS)}; null: unknown",
         lambda rows: [change and change.kind for change in rows.changes]),
    String("argument", "first changed argument (PyTorch: op input); null: none, or unknown",
           lambda rows: [change and change.argument for change in rows.changes]),
    String("before", "shape and type of the argument or result, or the constant, in the earlier program; null: unknown",
           lambda rows: [(change and change.before) or None for change in rows.changes]),
    String("after", "shape and type of the argument or result, or the constant, in the program; null: unknown",
           lambda rows: [(change and change.after) or None for change in rows.changes]),
    Count("change_count", "number of changed arguments, results or constants, as far as known",
          lambda rows: [sum(change.kind not in _NO_VALUES for change in each.changes)
                        for each in rows.compilations]),
    String("source", "file and line of the call, as the program records it; null: not recorded",
           lambda rows: [each.source for each in rows.compilations]),
    String("reason", "why the change is unknown; null: known",
           lambda rows: [each.reason for each in rows.compilations]),
), derived=True)  # fmt: skip


def build_table(rows: Sequence[Recompilation]) -> pa.Table:
    return RECOMPILATIONS.of(
        SimpleNamespace(
            host=[row.host for row in rows],
            number=[row.number for row in rows],
            step=[row.step for row in rows],
            compilations=[row.compilation for row in rows],
            changes=[row.changes[0] if row.changes else None for row in rows],
        )
    )


def number_recompilations(
    hosts: Iterable[tuple[str, Sequence[Compilation]]], database: StepDatabase
) -> list[Recompilation]:
    """Return the recompilations of all hosts, with step numbers. ``hosts``: names and compilations."""
    rows = []
    for place, (host, compilations) in enumerate(hosts):
        counts: Counter[str] = Counter()
        keys = find_session_steps(database, place, np.array([each.step for each in compilations], np.int64))
        for each, step in zip(compilations, database.numbers_of(keys).tolist(), strict=True):
            counts[each.function] += 1
            if each.is_repeated:
                rows.append(Recompilation(host, counts[each.function], None if step < 0 else step, each))
    return rows


# ---- words


def group_by_function(rows: Iterable[Recompilation]) -> list[list[Recompilation]]:
    """Return the recompilations of each named function on the host where they take longest, the costliest function
    first."""
    functions: dict[tuple[str, str], dict[str, list[Recompilation]]] = {}
    for row in rows:
        if row.compilation.function:
            hosts = functions.setdefault((row.compilation.framework, row.compilation.function), {})
            hosts.setdefault(row.host, []).append(row)
    return sorted((max(hosts.values(), key=sum_time) for hosts in functions.values()), key=sum_time, reverse=True)


def sum_time(own: Iterable[Recompilation]) -> int:
    return sum(row.compilation.duration_ps for row in own)


def name_functions(functions: Sequence[Sequence[Recompilation]], cost_ps: int) -> tuple[str, int] | None:
    """Return the names of the costliest functions that together take half of a cost, and their time, or None."""
    names, time_ps = [], 0
    for own in functions:
        names.append(own[0].compilation.function)
        time_ps += sum_time(own)
        if 0 < cost_ps <= 2 * time_ps:
            shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 1], f"{len(names) - _SHOWN + 1:,} more"]
            return join_words(shown), min(time_ps, cost_ps)
    return None


def find_source(own: Iterable[Recompilation]) -> str | None:
    """Return the most frequent line that calls a function, or None if none is recorded."""
    sources = Counter(row.compilation.source for row in own if row.compilation.source)
    return max(sources, key=lambda source: sources[source], default=None)


def describe_function(own: Sequence[Recompilation], host_count: int = 1) -> str:
    """Describe how often and when a function was recompiled on a host, the time that this took, and the changes."""
    framework, function = own[0].compilation.framework, own[0].compilation.function
    name = f"{function} of torch.compile" if framework == PYTORCH and function.startswith("frame ") else function
    if source := find_source(own):
        name += f" (called at {source})"
    traced = framework == TENSORFLOW and not any(row.compilation.program for row in own)
    times = f"{'retraced' if traced else 'recompiled'} {_count_times(len(own))}{_format_steps(own)}"
    where = f" on {own[0].host}" if host_count > 1 else ""
    groups: dict[tuple[str, tuple[str | None, ...]], list[Compilation]] = {}
    for row in own:
        arguments = tuple(change.argument for change in row.changes if change.kind == row.kind)
        groups.setdefault((row.kind, arguments[:_SHOWN]), []).append(row.compilation)
    ordered = sorted(groups.values(), key=lambda group: -len(group))
    texts = [_describe_group(group) for group in ordered[:_SHOWN]]
    if len(ordered) > 1:
        texts = [f"{_count_times(len(group))} {text}" for group, text in zip(ordered, texts, strict=False)]
    if left := len(own) - sum(map(len, ordered[:_SHOWN])):
        texts.append(f"{_count_times(left)} other changes")
    return f"{name} was {times}{where}, taking {format_time(sum_time(own))}: {'; '.join(texts)}."


def _count_times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _format_steps(own: Sequence[Recompilation]) -> str:
    """Return the steps in parentheses, or "" if any is unknown."""
    steps = sorted({row.step for row in own if row.step is not None})
    if not steps or any(row.step is None for row in own):
        return ""
    if len(steps) == 1:
        return f" (step {steps[0]})"
    if steps[-1] - steps[0] == len(steps) - 1 and len(steps) > _SHOWN:
        return f" (steps {steps[0]} to {steps[-1]})"
    shown = ", ".join(map(str, steps[:_SHOWN]))
    return f" (steps {shown} and {len(steps) - _SHOWN:,} more)" if len(steps) > _SHOWN else f" (steps {shown})"


def _describe_group(group: Sequence[Compilation]) -> str:
    first = group[0]
    if not first.changes:
        reasons = Counter(each.reason or NO_PROGRAM for each in group)
        reason = reasons.most_common(1)[0][0]
        return reason if reason == REACHED_LIMIT else f"an unknown change ({reason})"
    kind = first.changes[0].kind
    chain = _format_chain([each.changes[0] for each in group])
    if kind in (NOTHING, FUNCTION):
        return _describe_equal(first, kind)
    if kind == INSTRUCTIONS:
        if first.framework == PYTORCH:
            return f"different ops in the compiled code ({chain})"
        return f"equal argument shapes and types, but a different program ({chain}): {_OTHER_PATH[first.framework]}"
    if kind == RESULT:
        return f"equal argument shapes and types, but a new result shape ({chain}): {_SIZE[first.framework]}"
    if kind == CONSTANT and first.changes[0].argument is None:
        return f"equal argument shapes and types, but a new constant ({chain}): {_GUESS[first.framework]}"
    changes = [change for change in first.changes if change.kind == kind]
    texts = []
    for change in changes[:_SHOWN]:
        key = kind, change.argument
        same = [other for each in group for other in each.changes if (other.kind, other.argument) == key]
        texts.append(f"{change.argument} ({_format_chain(same)})")
    if len(changes) > _SHOWN:
        texts.append(f"{len(changes) - _SHOWN:,} more")
    guess = f": {_GUESS[PYTORCH]}" if kind == CONSTANT and first.framework == PYTORCH else ""
    return f"{_CHANGED[kind][len(texts) > 1]} {join_words(texts)}{guess}"


def join_words(texts: Sequence[str], word: str = "and") -> str:
    """Return texts as a list in a sentence, such as ``x, y and z``."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {word} {texts[-1]}"


_CHANGED: Final = {
    SHAPE: ("a new shape of", "new shapes of"),
    TYPE: ("a new type of", "new types of"),
    LAYOUT: ("a new layout of", "new layouts of"),
    SHARDING: ("a new sharding of", "new shardings of"),
    ARGUMENTS: ("an added or removed argument,", "added or removed arguments,"),
    CONSTANT: ("a new value of", "new values of"),
}
_GUESS: Final = {
    JAX: "likely a static argument (static_argnums, static_argnames), or a Python value that the function reads",
    TENSORFLOW: "likely a Python number that is passed as an argument",
    PYTORCH: "likely a Python number that a guard checks",
}
_OTHER_PATH: Final = {
    JAX: "likely a static argument, or Python code that branches differently",
    TENSORFLOW: "likely a Python argument, or Python code that branches differently",
}
_SIZE: Final = {
    JAX: "likely a static argument that sets a size",
    TENSORFLOW: "likely a Python argument that sets a size",
}


def _describe_equal(each: Compilation, kind: str) -> str:
    """Guess why an equal program was compiled."""
    if each.framework == PYTORCH:
        return "equal shapes and types of op inputs: likely a guard on a Python value failed"
    if kind == FUNCTION:
        return "its first trace each time: likely a new tf.function each time, or several functions of this name"
    if each.framework == TENSORFLOW:
        return (
            f"equal {'programs' if each.program else 'arguments'}: likely the function was retraced for another Python "
            "argument or fewer known dimensions, or is a new tf.function each time"
        )
    new = (
        "likely the function, or a static argument, is a new object each time, as with jax.jit of a lambda or "
        "functools.partial in the loop"
    )
    if not each.scalars:
        return f"equal programs: {new}"
    scalars = join_words(each.scalars[:_SHOWN], "or")
    weak = f"likely {scalars} is a Python number in one call and an array in another"
    return f"equal programs: {weak}, or {new.removeprefix('likely ')}"


def _format_chain(changes: Sequence[Change]) -> str:
    """Return the values in order: ``f32[200,512], then f32[207,512]``."""
    values: list[str] = []
    for change in changes:
        for value in (change.before or "none", change.after or "none"):
            if not values or values[-1] != value:
                values.append(value)
    shown = ", then ".join(values[:_SHOWN])
    return f"{shown} and {len(values) - _SHOWN:,} more" if len(values) > _SHOWN else shown


# ---- advice

_OWN_MEANS: Final = {
    JAX: "jax.config.update(\"jax_explain_cache_misses\", True) logs why a call compiles; jax_compilation_cache_dir "
         "saves programs for later runs.",
    PYTORCH: "TORCH_LOGS=recompiles names the guard that failed; beyond torch._dynamo.config.recompile_limit (8) the "
             "function runs eagerly.",
}  # fmt: skip
"""How each framework itself shows the change."""

_ADVICE: Final[dict[str, dict[str, str]]] = {
    JAX: {
        SHAPE: "Give {} the same shapes in every step: drop or pad the last batch, and pad sequences to a few lengths "
               "(buckets).",
        TYPE: "Give {} the same types in every step: convert before the call (x.astype, jnp.float32 of a Python "
              "number).",
        LAYOUT: "Pass arrays of one layout to {}.",
        SHARDING: "Give the arguments of {} the same sharding in every step: jax.device_put with one sharding, or "
                  "in_shardings of jax.jit.",
        ARGUMENTS: "Pass the same arguments to {} in every step: dictionaries with the same keys, and never None "
                   "instead of an array.",
        RESULT: "Give {} the same sizes in every step: pad to a few sizes, or slice a larger result.",
        CONSTANT: "Pass the changing value to {} as an array argument: not by static_argnums or static_argnames, nor "
                  "as a variable or attribute that the function reads.",
        INSTRUCTIONS: "Pass the changing value to {} as an array: remove it from static_argnums and "
                      "static_argnames, and branch on it with jax.lax.cond.",
        NOTHING: "Define the jitted {} once, outside of the loop; give static arguments __eq__ and __hash__; and pass "
                 "Python numbers as arrays (jnp.float32(rate)).",
    },
    TENSORFLOW: {
        SHAPE: "XLA compiles {} for each shape: use batch(drop_remainder=True), pad sequences to a few lengths "
               "(padded_batch, bucket_by_sequence_length), or leave jit_compile off and give input_signature with "
               "dimensions of None.",
        TYPE: "Give {} the same types in every step: tf.cast before the call, or input_signature.",
        CONSTANT: "Pass tensors to {} instead of Python numbers (tf.constant), or fix its arguments with "
                  "input_signature.",
        ARGUMENTS: "Pass the same arguments to {} in every step: lists and dictionaries of one structure, and never "
                   "None instead of a tensor.",
        RESULT: "Pass tensors to {} instead of Python numbers (tf.constant), or pad results to a few sizes.",
        FUNCTION: "Define the tf.function {} once, outside of the loop, such as at module or class level.",
        NOTHING: "Define the tf.function {} once, outside of the loop, and pass tensors instead of Python objects.",
    },
    PYTORCH: {
        SHAPE: "Mark the dimension that changes with torch._dynamo.mark_dynamic(x, 0), compile with "
               "torch.compile(dynamic=True), or pad batches to one shape.",
        TYPE: "Pass tensors of the same type in every step.",
        CONSTANT: "Pass numbers that change to {} as tensors: Python numbers and attributes of a module are compiled "
                  "into the code.",
        INSTRUCTIONS: "Take Python branches out of the compiled function, or pass the tested value as a tensor.",
        NOTHING: "Pass numbers that change as tensors, and let the compiled function read no globals or attributes "
                 "that change.",
    },
}  # fmt: skip
_SHAPES_OF_TRACES: Final = (
    "Let one trace of {} take all shapes: tf.function(reduce_retracing=True), or input_signature with dimensions of "
    "None. Or keep shapes: batch(drop_remainder=True), padded_batch."
)
"""Advice for a tf.function that XLA does not compile."""
_OF_KERAS: Final = ("one_step_on_data", "one_step_on_iterator", "multi_step_on_iterator")
"""Functions that Keras traces for fit, evaluate and predict."""
_SHAPES_OF_KERAS: Final = (
    "Keras compiles its step for each shape of a batch: drop or pad the last batch, pad sequences to a few lengths "
    "(keras.utils.pad_sequences), or call Model.compile with jit_compile=False."
)
_TO_RECORD: Final = {
    (JAX, NO_PROGRAM): "Record compiled programs (ProfileOptions.enable_hlo_proto = True, the default) or log "
                       "cache misses (jax.config.update(\"jax_explain_cache_misses\", True)) to see what changed.",
    (TENSORFLOW, NO_ARGUMENTS): "To see what changed, record with `fastprof run`, Python functions "
                                "included, or print({}.pretty_printed_concrete_signatures()) at the end.",
    (PYTORCH, EARLIER_NOT_RUN): "To see what changed, start the profiler before the first compilation.",
    (PYTORCH, NO_SHAPES): "Record with torch.profiler.profile(record_shapes=True) to see what changed.",
}  # fmt: skip
"""Advice on recording, for unknown changes."""


def advise(functions: Sequence[Sequence[Recompilation]], general: str) -> str:
    """Return the advice for functions, each by its most frequent change. ``general``: that for unknown changes."""
    named: dict[str, list[str]] = {}
    for own in functions:
        framework, function = own[0].compilation.framework, own[0].compilation.function
        counts = Counter(row.kind for row in own)
        kind = max(counts, key=lambda kind: (counts[kind], kind not in ("", NOTHING)))
        by_kind = _ADVICE.get(framework, {})
        change = by_kind.get(kind, by_kind.get(CONSTANT, general) if kind == INSTRUCTIONS else general)
        if framework == TENSORFLOW and function in _OF_KERAS:
            change = _SHAPES_OF_KERAS
        elif framework == TENSORFLOW and kind == SHAPE and not any(row.compilation.program for row in own):
            change = _SHAPES_OF_TRACES
        reasons = dict.fromkeys(row.compilation.reason or "" for row in own)
        recording = [_TO_RECORD.get((framework, reason)) for reason in reasons]
        for text in (change, *filter(None, recording)):
            named.setdefault(text, []).append(function)
    texts = [text.replace("{}", join_words(list(dict.fromkeys(names)))) for text, names in named.items()]
    frameworks = dict.fromkeys(own[0].compilation.framework for own in functions)
    return " ".join([*texts, *(_OWN_MEANS[each] for each in frameworks if each in _OWN_MEANS and texts[0] != general)])
