"""Names of a plane's events as deriving lines knows them: those of the capture, and those that are made on the way.

An event has a name, and most often another that is displayed. A name that the capture has already stands for the
metadata of the capture, whose stats and display name its events show; where that has no display name, deriving may give
it one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from fastprof.derive.devices.op_names import Framework, parse
from fastprof.tables.host_events import HostEvents, Plane

_SPACES = " \t\n\v\f\r"


def metas_by_plane(events: HostEvents) -> Callable[[Plane], npt.NDArray[np.intp]]:
    """What gives the rows of metadata of each plane, ascending."""
    order = np.argsort(events.meta_plane, kind="stable")
    planes = events.meta_plane[order]
    return lambda plane: order[slice(*np.searchsorted(planes, [plane.number, plane.number + 1]))]


class PlaneNames:
    """``names``, ``displayed``: by number. ``metas``: the row of the capture's metadata, -1: there is none."""

    def __init__(self, events: HostEvents, metas: npt.NDArray[np.intp]) -> None:
        """``metas``: rows of metadata of the plane."""
        self.names: list[str] = []
        self.displayed: list[str] = []
        self.metas: list[int] = []
        self.renamed: dict[int, str] = {}
        """Display names that metadata of the capture gets, by row."""
        self._display_names = events.display_names
        self._rows: dict[str, int] = {}
        for row in metas[::-1].tolist():
            self._rows[events.names[row]] = row
        self._number: dict[str, int] = {}

    def number(self, name: str, displayed: str = "") -> int:
        """The number of a name. ``displayed``: how it is shown, unless another form is known already."""
        found = self._number.get(name)
        if found is None:
            row = self._rows.get(name, -1)
            found = self._number[name] = self._add(name, self._display_names[row] if row >= 0 else "", row)
        if displayed and not self.displayed[found]:
            self.displayed[found] = displayed
            if self.metas[found] >= 0:
                self.renamed[self.metas[found]] = displayed
        return found

    def numbers(self, names: Sequence[str]) -> list[int]:
        return [self.number(name) for name in names]

    def nameless(self, displayed: str) -> int:
        """The number of a new name that is empty, and so is no other's."""
        return self._add("", displayed, -1)

    def _add(self, name: str, displayed: str, row: int) -> int:
        self.names.append(name)
        self.displayed.append(displayed)
        self.metas.append(row)
        return len(self.names) - 1


def scopes_of(full_name: str) -> list[str]:
    """The scopes that an op of TensorFlow or JAX lies in, outermost first."""
    op = parse(full_name)
    return op.name.split("/")[:-1] if op.framework in (Framework.TENSORFLOW, Framework.JAX) else []


def displayed_op(full_name: str) -> str:
    """The op as trace viewers show it: its type."""
    op = parse(full_name)
    if op.framework is Framework.UNKNOWN:
        return op.name.rstrip(_SPACES)
    return "Iterator::" + op.name.split("::")[-1] if op.framework is Framework.TF_DATA else op.type


def number_of_op(names: PlaneNames, full_name: str) -> int:
    return names.number(full_name, displayed_op(full_name))
