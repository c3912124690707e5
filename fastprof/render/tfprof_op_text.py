"""The rows of tfprof's op view: figures with the shares of all that is accounted, and the shapes of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from fastprof._native.kernels import rank_order
from fastprof.derive.tfprof.forest import Ints
from fastprof.derive.tfprof.options import Options
from fastprof.derive.tfprof.recorded import FIGURES, Recorded
from fastprof.derive.tfprof.views import Shown
from fastprof.render.tfprof_amounts import amount, memory, time
from fastprof.render.tfprof_members import devices_of, summed, types_of

_BYTES: Final = ("bytes", "peak_bytes", "residual_bytes", "output_bytes")
_NAME_BYTES: Final = 25
_RUNS: Final = FIGURES.index("run_count")


def op_lines(shown: Shown, recorded: Recorded, options: Options) -> Iterator[str]:
    """The text of each op. The root, which has the sums of all, has none."""
    forms: dict[str, Callable[[int], str]] = {name: memory for name in _BYTES if name in options.select}
    forms |= dict.fromkeys(summed(options.select), time)
    forms |= {"params": lambda value: f"{amount(value)} params"} if "params" in options.select else {}
    forms |= {"float_ops": lambda value: f"{amount(value)} float_ops"} if "float_ops" in options.select else {}
    runs = recorded.figures(options.step)[_RUNS]
    names = shown.names.to_pylist()
    for place in range(1, len(names)):
        nodes = shown.members(place)
        cells = [_shares(shown, FIGURES.index(name), place, form) for name, form in forms.items()]
        if "device" in options.select:
            cells.append("|".join(devices_of(recorded, nodes)))
        if "op_types" in options.select:
            cells.append("|".join(types_of(recorded, nodes)))
        if "occurrence" in options.select:
            cells.append(f"{f'{runs[nodes].sum()}|{len(nodes)}':>10}")
        gap = " " * (_NAME_BYTES - len(names[place].encode()))
        line = f"{names[place]}{gap}{', '.join(cells)}\n"
        if "input_shapes" in options.select and len(nodes):
            line = f"{line}\n{_input_types(recorded, nodes, options)}\n\n"
        yield line


def _shares(shown: Shown, figure: int, place: int, form: Callable[[int], str]) -> str:
    """The figure, and how much of the root's sum are the sum from this row on and the figure itself. tfprof shows no
    share of bytes if a row has none itself, and of others if neither it nor those after it have any."""
    own, total, root = (int(value) for value in (shown.figures[figure, place], *shown.totals[figure, [place, 0]]))
    some = own if FIGURES[figure] in _BYTES else total
    from_here, here = (100.0 * total / root, 100.0 * own / root) if some > 0 else (0.0, 0.0)
    return f"{f'{form(own)} ({from_here:.2f}%, {here:.2f}%)':>30}"


def _input_types(recorded: Recorded, nodes: Ints, options: Options) -> str:
    """The different shapes of inputs with runs, nodes and time, the most runs first."""
    figures = recorded.figures(options.step)
    runs, micros = figures[_RUNS][nodes].tolist(), figures[FIGURES.index("micros")][nodes].tolist()
    sums: dict[str, list[int]] = {}
    for spelt, run_count, time_us in zip(_spelt_inputs(recorded, nodes), runs, micros, strict=True):
        one = sums.setdefault(spelt, [0, 0, 0])
        one[0] += 1
        one[1] += run_count
        one[2] += time_us
    ordered = sorted(sums, key=str.encode)
    ordered = [ordered[place] for place in _most_first([sums[spelt][1] for spelt in ordered])]
    return "\n".join(
        f"{spelt}\t(run*{sums[spelt][1]}|defined*{sums[spelt][0]})\texec_time: {time(sums[spelt][2])}"
        for spelt in ordered
    )


def _spelt_inputs(recorded: Recorded, nodes: Ints) -> list[str]:
    values = recorded.input_shapes.take(nodes).to_pylist()
    return ["input_type: " + ",\t".join(map(_spelt_shape, inputs)) for inputs in values]


def _spelt_shape(one: dict[str, Any]) -> str:
    return f"{one['slot']}:{'x'.join(map(str, one['shape'])) or 'unknown'}"


def _most_first(counts: list[int]) -> list[int]:
    """Places by falling counts; ties as the C++ library that tfprof uses leaves them."""
    places = np.arange(len(counts), dtype=np.int32)
    rank_order(np.array(counts, np.int64), places)
    return places.tolist()
