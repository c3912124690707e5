"""The analyses as methods. Made from the registry of analyses by `make docs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from fastprof.report import Report


class AnalysisMethods:
    """What Profile has a method of for each analysis."""

    def report(self, name: str, **params: Any) -> Report:
        """The report of the analysis called ``name``."""
        raise NotImplementedError

    def overview(self, *, top_ops: int = 10, steps_from: Literal["markers", "modules"] = "markers") -> Report:
        """How long steps take, what they spend it on, and what to do about it.

        top_ops: how many of the most expensive ops are listed
        steps_from: what makes a step: markers that the program or its framework set, or each execution of a
        compiled program

        Tables: steps, breakdown, stragglers, verdicts, top_ops, latency, hosts.
        Figures: step_count, incomplete_step_count, step_time_mean_ps, step_time_stdev_ps, step_time_min_ps,
        step_time_p50_ps, step_time_p90_ps, step_time_p99_ps, step_time_max_ps, input_percent, output_percent,
        step_time_shared_out_ps, compute_percent, idle_percent, input_verdict, host_count, task_count, device_type,
        device_count, is_training, duty_cycle_percent, duty_cycle_sure_percent, busy_ps, idle_ps,
        device_idle_percent, host_idle_percent, mxu_utilization_percent, hbm_utilization_percent,
        flops_utilization_percent, memory_utilization_percent, host_op_percent, device_op_percent,
        host_eager_percent, device_eager_percent, outside_compilation_percent, compute_16bit_percent,
        compute_32bit_percent.
        """
        return self.report("overview", top_ops=top_ops, steps_from=steps_from)

    def input_pipeline(self, *, steps_from: Literal["markers", "modules"] = "markers") -> Report:
        """How much of each step waits for input, and which input ops take the time.

        steps_from: what makes a step: markers that the program or its framework set, or each execution of a
        compiled program

        Tables: steps, step_breakdown, breakdown, input_ops, input_time.
        Figures: step_count, incomplete_step_count, step_time_mean_ps, step_time_stdev_ps, step_time_min_ps,
        step_time_p50_ps, step_time_p90_ps, step_time_p99_ps, step_time_max_ps, input_percent, output_percent,
        compute_percent, step_time_shared_out_ps, idle_percent, input_verdict, uses_tf_data, input_op_self_ps,
        enqueue_share.
        """
        return self.report("input_pipeline", steps_from=steps_from)

    def op_stats(self) -> Report:
        """Where time goes by op, on the host and on devices, most expensive first.

        Tables: ops, device_ops, sparse_core_ops, host_ops, hosts, ops_by_host, tf_functions.
        Figures: device_total_ps, device_op_ps, device_idle_ps, host_total_ps, host_op_ps, host_idle_ps,
        infeed_enqueue_ps, infeed_enqueue_start_diff_ps, is_training.
        """
        return self.report("op_stats")

    def kernel_stats(self) -> Report:
        """GPU kernels: time, launch dimensions, registers, shared memory, tensor cores.

        Tables: kernels, ops.
        Figures: kernel_count, occurrences, total_ps, tensor_core_ps, tensor_core_share, missed_tensor_core_ps,
        missed_tensor_core_share.
        """
        return self.report("kernel_stats")

    def memory_profile(
        self,
        *,
        at: int | str | None = None,
        request: int | str | None = None,
        short_lived_us: int = 1000,
        steps_from: Literal["markers", "modules"] = "markers",
    ) -> Report:
        """Memory by allocator: peaks, what is alive, fragmentation, lifetimes, growth from step to step.

        at: also tell what is alive at this time, from the start of each host's capture, as 1.5s or 20ms
        request: also tell when a request of this size would have fitted, in bytes or as 2GiB: failed allocations
        write no event, their error has the size
        short_lived_us: allocations that live no longer than so many microseconds are short-lived
        steps_from: what makes a step: markers that the program or its framework set, or each execution of a
        compiled program

        Tables: allocators, active_groups, active, at, steps, ops, growth, fragmentation, request, snapshots,
        allocations.
        Figures: peak_bytes, peak_allocator, peak_host, peak_ps, peak_step, capacity_bytes, peak_share,
        lifetime_peak_bytes, held_before_bytes, wasted_bytes, fragmentation_share, allocator_count, snapshot_count,
        allocation_count, free_count, held_at_end_count, replaced_count, short_lived_count, short_lived_share,
        short_lived_bytes.
        """
        return self.report(
            "memory_profile",
            at=at,
            request=request,
            short_lived_us=short_lived_us,
            steps_from=steps_from,
        )

    def tf_data(self, *, parallel: int = 4, slow_call_us: int = 50) -> Report:
        """Input pipelines of tf.data: the iterator graph, its critical path, the bottleneck, how to mend it.

        parallel: how many at a time iterators run in the what-if table
        slow_call_us: calls of a pipeline that take longer, in microseconds, are slow

        Tables: pipelines, iterators, critical_path, bottlenecks, self_time, step_waits, what_if, calls,
        call_iterators.
        Figures: pipeline_count, iterator_count, call_count, slow_call_count, max_call_ps, wait_share,
        slow_pipeline, bottleneck_name, bottleneck_share, batch_ps, best_change, best_batch_ps.
        """
        return self.report("tf_data", parallel=parallel, slow_call_us=slow_call_us)

    def pod_viewer(self, *, steps_from: Literal["markers", "modules"] = "markers") -> Report:
        """Each step on each core of all hosts: what it spent its time on, and its bottleneck.

        steps_from: what makes a step: markers that the program or its framework set, or each execution of a
        compiled program

        Tables: cores, collectives.
        Figures: step_count, host_count, core_count, device_type, slowest_core_step_ps, collective_wait_ps.
        """
        return self.report("pod_viewer", steps_from=steps_from)

    def inference(
        self,
        *,
        request_order: Literal[
            "latency",
            "batching_delay",
            "size",
            "host_preprocess",
            "host_batch_formation",
            "host_runtime",
            "write_to_device",
            "device_compute",
            "read_from_device",
            "host_postprocess",
            "idle",
        ] = "latency",
        batch_order: Literal["latency", "delay", "padding", "padded_size", "efficiency"] = "latency",
    ) -> Report:
        """Requests and batches of a model server: latency by percentile, and what it is made of.

        request_order: by what XProf's page picks the requests that it shows
        batch_order: by what XProf's page picks the batches that it shows

        Tables: models, breakdown, latency, requests, batches, batch_sizes, tensor_patterns.
        Figures: request_count, batch_count, model_count, requests_per_second, mean_latency_ps, p50_latency_ps,
        p75_latency_ps, p90_latency_ps, p99_latency_ps, p999_latency_ps, max_latency_ps.
        """
        return self.report("inference", request_order=request_order, batch_order=batch_order)

    def steps(self, *, steps_from: Literal["markers", "modules"] = "markers") -> Report:
        """Every step on every host and core: its time by category, stragglers, percentiles.

        steps_from: what makes a step: markers that the program or its framework set, or each execution of a
        compiled program

        Tables: steps, breakdown, step_summary, hosts, stragglers.
        Figures: step_count, incomplete_step_count, host_count, core_count, step_time_mean_ps, step_time_stdev_ps,
        step_time_min_ps, step_time_p50_ps, step_time_p90_ps, step_time_p99_ps, step_time_max_ps,
        module_execution_count.
        """
        return self.report("steps", steps_from=steps_from)
