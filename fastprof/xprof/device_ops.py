"""The ops of devices as XProf counts them: what its pages of ops need of each host, and of a session.

XProf counts no ops of compiled programs on threads of the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fastprof.analyses.contract import Keeper, Report, union
from fastprof.derive.host import GPU, TPU, Host
from fastprof.derive.ops import device_ops
from fastprof.derive.ops.tables import Ops
from fastprof.xprof import tpu_ops
from fastprof.xprof.op_sums import combined

if TYPE_CHECKING:
    from fastprof.derive.devices.devices import Peaks
    from fastprof.derive.ops.device_ops import SessionOps

_NAME: Final = "device ops"


def _of_host(host: Host, _params: Mapping[str, Any]) -> Ops:
    if host.raw.planes_of(TPU):
        ops = tpu_ops.device_ops(host)
    elif host.raw.planes_of(GPU):
        from fastprof.xprof import gpu_ops  # it takes long to import

        ops = gpu_ops.device_ops(host.events, host.groups, host.modules)
    else:
        ops = []
    return combined(ops) if ops else Ops.none()


KEEPS: Final = {_NAME: Keeper(union([Host.GROUPING, device_ops.READS]), _of_host)}


def of_session(report: Report) -> Ops:
    """The ops of all devices."""
    found: Sequence[Ops] = report.kept[_NAME]
    return combined(found)


def peaks_of(session: SessionOps) -> Peaks | None:
    """Arithmetic of the last host that records it, bandwidths of the first host that has devices, known or not."""
    recorded = [host.peaks for host in session.hosts if host.peaks is not None]
    computing = [one for one in recorded if one.teraflops_per_s > 0] or recorded
    return replace(computing[-1], bandwidths_gb_per_s=recorded[0].bandwidths_gb_per_s) if recorded else None
