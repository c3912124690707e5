"""Reports of other analyses, as far as findings read them: a named tuple of figures, and one of columns for each table.

mypy holds each use against these names, and tests/analyses/test_diagnosis.py holds the names against the analyses,
which are not imported here.
"""

from __future__ import annotations

import re
from collections import namedtuple
from typing import Final


class Report:
    """The base of reports. The name of a subclass is that of its analysis in camel case."""

    def __init_subclass__(cls) -> None:
        analysis = re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        tables = {table: (analysis, name) for name, table in vars(cls).items() if isinstance(table, type)}
        PLACES.update({cls: (analysis, ""), **tables})


PLACES: Final[dict[type, tuple[str, str]]] = {}
"""Analysis and table of each named tuple; the table is "" for figures."""


class Communication(Report, namedtuple("Figures", "rank_count step_count compared_step_count straggler_host "
                                                  "straggler_before_ps")):  # fmt: skip
    blame = namedtuple("blame", "host")
    devices = namedtuple("devices", "duration_ps compute_ps")
    kinds = namedtuple("kinds", "kind scope occurrences time_ps exposed_ps moved_bytes")
    operations = namedtuple("operations", "name kind scope occurrences total_ps hidden_ps exposed_ps payload_bytes "
                                          "device_count")  # fmt: skip
    stragglers = namedtuple("stragglers", "host caused_ps")


class Gaps(Report, namedtuple("Figures", "device_count used_device_count")):
    by_cause = namedtuple("by_cause", "host device event cause time_ps count longest_ps")
    devices = namedtuple("devices", "host device window_ps compute_ps communication_ps")


class HloStats(Report, namedtuple("Figures", "program_count outside_compilation_share unknown_work_share")):
    ops = namedtuple("ops", "name source self_ps padding_share")


class KernelStats(Report, namedtuple("Figures", "occurrences total_ps")):
    kernels = namedtuple("kernels", "name op_name kind occurrences total_ps fusible_ps occupancy_percent "
                                    "uses_tensor_cores could_use_tensor_cores")  # fmt: skip


class MemoryProfile(Report, namedtuple("Figures", "snapshot_count allocation_count peak_bytes capacity_bytes "
                                                  "peak_share peak_allocator fragmentation_share")):  # fmt: skip
    growth = namedtuple("growth", "host allocator op_name")
    ops = namedtuple("ops", "allocated_bytes")


class OpStats(Report, namedtuple("Figures", "host_total_ps")):
    device_ops = namedtuple("device_ops", "name")
    ops = namedtuple("ops", "name type occurrences total_ps")
    tf_functions = namedtuple("tf_functions", "name mode compiler calls tracing_count self_ps")


class Roofline(Report, namedtuple("Figures", "peak_flops_per_s")):
    ops = namedtuple("ops", "bound_by lost_ps roofline_percent compute_peak_percent flops_source")


class Steps(
    Report,
    namedtuple("Figures", "step_count incomplete_step_count step_time_p50_ps steps_source module_execution_count"),
):
    hosts = namedtuple("hosts", "host category excess_ps excess_share slowest_count compared_count waited_between_ps")
    slow_steps = namedtuple("slow_steps", "step name host duration_ps median_ps excess_ps kind what time_ps usual_ps "
                                          "difference_ps")  # fmt: skip
    slowdowns = namedtuple("slowdowns", "host step step_count before_ps after_ps excess_ps longer_share op "
                                        "op_before_ps op_after_ps")  # fmt: skip


class TfData(Report, namedtuple("Figures", "pipeline_count slow_pipeline batch_ps best_change best_batch_ps")):
    bottlenecks = namedtuple("bottlenecks", "host pipeline name critical_ps critical_share total_ps suggestion")
    iterators = namedtuple("iterators", "host pipeline iterator_id parent_id depth name event_count function_ps "
                                        "is_bottleneck is_async deterministic")  # fmt: skip
    self_time = namedtuple("self_time", "host pipeline iterator_id part time_ps")
