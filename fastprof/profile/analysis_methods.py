"""The analyses as methods of Profile. Generated from the registry of analyses by `make docs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from fastprof.profile.report import Report


class AnalysisMethods:
    """The part of Profile with one method per analysis."""

    def report(self, name: str, **params: Any) -> Report:
        """Return the report of the analysis ``name``."""
        raise NotImplementedError

    def overview(
        self,
        *,
        top_ops: int = 10,
        steps_from: str = "auto",
        device: str | None = None,
        peak: str | None = None,
    ) -> Report:
        """How long steps take, what they spend it on, and what to do about it.

        top_ops: how many of the most expensive ops to list
        steps_from: step source: program or framework markers, as in XProf (markers), data loader calls (loader),
        compiled program executions (modules), repeated annotations (annotations) or launch patterns (launches);
        auto: the first of these in the capture, with markers extended to the work that they launched. Any other
        value names markers or an annotation, without the step number
        device: compare ops with the published peaks of this device, such as H100 or TPU v5e
        peak: compare ops with these per-device peaks: flops=312T,hbm=2039GB/s, or only one of the two

        Tables: findings, steps, breakdown, stragglers, verdicts, top_ops, latency, hosts.
        Figures: headline, window_ps, compute_share, incomplete, steps_source, steps_certainty, steps_inferred,
        step_count, incomplete_step_count, step_time_mean_ps, step_time_stdev_ps, step_time_min_ps,
        step_time_p50_ps, step_time_p90_ps, step_time_p99_ps, step_time_max_ps, step_time_is_bound, slow_step_count,
        slow_step_excess_ps, between_steps_ps, between_steps_share, input_percent, output_percent,
        step_time_shared_out_ps, compute_percent, idle_percent, input_verdict, host_count, task_count, device_type,
        device_count, framework, is_training, duty_cycle_percent, duty_cycle_sure_percent, busy_ps, idle_ps,
        device_idle_percent, host_idle_percent, mxu_utilization_percent, hbm_utilization_percent,
        flops_utilization_percent, memory_utilization_percent, host_op_percent, device_op_percent,
        host_eager_percent, device_eager_percent, outside_compilation_percent, compute_16bit_percent,
        compute_32bit_percent, compute_unknown_percent.
        """
        return self.report("overview", top_ops=top_ops, steps_from=steps_from, device=device, peak=peak)

    def diagnosis(
        self,
        *,
        recorded_with: Literal["unknown", "run", "record", "capture"] = "unknown",
        steps_from: str = "auto",
        device: str | None = None,
        peak: str | None = None,
    ) -> Report:
        """Causes of lost time, the one to fix first on top, with evidence and advice.

        recorded_with: command that recorded the run; hints use its flags
        steps_from: step source: program or framework markers, as in XProf (markers), data loader calls (loader),
        compiled program executions (modules), repeated annotations (annotations) or launch patterns (launches);
        auto: the first of these in the capture, with markers extended to the work that they launched. Any other
        value names markers or an annotation, without the step number
        device: compare ops with the published peaks of this device, such as H100 or TPU v5e
        peak: compare ops with these per-device peaks: flops=312T,hbm=2039GB/s, or only one of the two

        Tables: findings, examined, unrecorded, recompilations.
        Figures: headline, finding_count, window_ps, start_up_ps, compute_share, incomplete, device_count,
        used_device_count, computing_device_count, framework.
        """
        return self.report("diagnosis", recorded_with=recorded_with, steps_from=steps_from, device=device, peak=peak)

    def input_pipeline(self, *, steps_from: str = "auto", device: str | None = None, peak: str | None = None) -> Report:
        """How much of each step waits for input, and which input ops take the time.

        steps_from: step source: program or framework markers, as in XProf (markers), data loader calls (loader),
        compiled program executions (modules), repeated annotations (annotations) or launch patterns (launches);
        auto: the first of these in the capture, with markers extended to the work that they launched. Any other
        value names markers or an annotation, without the step number
        device: compare ops with the published peaks of this device, such as H100 or TPU v5e
        peak: compare ops with these per-device peaks: flops=312T,hbm=2039GB/s, or only one of the two

        Tables: steps, step_breakdown, breakdown, input_ops, input_time.
        Figures: steps_source, steps_certainty, steps_inferred, step_count, incomplete_step_count,
        step_time_mean_ps, step_time_stdev_ps, step_time_min_ps, step_time_p50_ps, step_time_p90_ps,
        step_time_p99_ps, step_time_max_ps, step_time_is_bound, slow_step_count, slow_step_excess_ps,
        between_steps_ps, between_steps_share, input_percent, output_percent, compute_percent,
        step_time_shared_out_ps, idle_percent, input_verdict, uses_tf_data, input_op_self_ps, enqueue_share.
        """
        return self.report("input_pipeline", steps_from=steps_from, device=device, peak=peak)

    def op_stats(self, *, device: str | None = None, peak: str | None = None) -> Report:
        """Time by op, on hosts and devices, most expensive first.

        device: compare ops with the published peaks of this device, such as H100 or TPU v5e
        peak: compare ops with these per-device peaks: flops=312T,hbm=2039GB/s, or only one of the two

        Tables: ops, device_ops, sparse_core_ops, host_ops, hosts, ops_by_host, tf_functions.
        Figures: device_total_ps, device_op_ps, device_overlapped_ps, device_idle_ps, host_total_ps, host_op_ps,
        host_idle_ps, infeed_enqueue_ps, infeed_enqueue_start_diff_ps, is_training.
        """
        return self.report("op_stats", device=device, peak=peak)

    def kernel_stats(self) -> Report:
        """GPU kernels: time, launch dimensions, registers, shared memory, tensor cores.

        Tables: kernels, ops.
        Figures: kernel_count, occurrences, total_ps, tensor_core_ps, tensor_core_share, missed_tensor_core_ps,
        missed_tensor_core_share, longest_kernel, longest_kernel_share, longest_op, longest_op_share.
        """
        return self.report("kernel_stats")

    def streams(
        self,
        *,
        kernel_wait_us: int = 30,
        queue_length: int = 1024,
        long_call_us: int = 50,
        long_delay_us: int = 100,
        sequence_length: int = 64,
    ) -> Report:
        """GPU streams: overlapping kernels, waits of idle streams, launches, queues, copies.

        kernel_wait_us: gaps between kernels shorter than this, in microseconds, count as kernel wait
        queue_length: queue length at which launch calls wait
        long_call_us: launch calls longer than this, in microseconds, count as long
        long_delay_us: launch delays longer than this, in microseconds, count as long
        sequence_length: leave op calls with more kernels than this out of the table sequences

        Tables: devices, streams, kinds, names, idle, launches, sequences, queues, copies.
        Figures: stream_count, launch_count, unlaunched_count, main_stream, idle_share, hidden_share, break_ps,
        host_wait_ps, host_wait_share, delay_mean_ps, short_launch_share, long_call_count, long_delay_count,
        longest_queue.
        """
        return self.report(
            "streams",
            kernel_wait_us=kernel_wait_us,
            queue_length=queue_length,
            long_call_us=long_call_us,
            long_delay_us=long_delay_us,
            sequence_length=sequence_length,
        )

    def critical_path(self, *, annotation: str = "", instance: int = -1, steps_from: str = "auto") -> Report:
        """Critical path of a step: the longest chain of dependent ops and kernels.

        annotation: annotation to examine: the one whose name contains this text (default: a step, or everything
        recorded if there are no steps)
        instance: index of the annotation or step to examine, from 0 in order of time (-1: median duration)
        steps_from: step source: program or framework markers, as in XProf (markers), data loader calls (loader),
        compiled program executions (modules), repeated annotations (annotations) or launch patterns (launches);
        auto: the first of these in the capture, with markers extended to the work that they launched. Any other
        value names markers or an annotation, without the step number

        Tables: windows, kinds, names, path.
        Figures: path_ps, window_ps, path_share, host_share, kernel_share, collective_share, copy_share,
        launch_share, break_share, longest, longest_share.
        """
        return self.report("critical_path", annotation=annotation, instance=instance, steps_from=steps_from)

    def op_profile(
        self,
        *,
        group_by: Literal["program", "category", "provenance"] = "program",
        device: str | None = None,
        peak: str | None = None,
    ) -> Report:
        """Device time by program, category or name scope, its utilization, and the contents of fusions.

        group_by: how the tree groups ops
        device: compare ops with the published peaks of this device, such as H100 or TPU v5e
        peak: compare ops with these per-device peaks: flops=312T,hbm=2039GB/s, or only one of the two

        Tables: tree, scopes, layers, memory, devices.
        Figures: device_total_ps, device_busy_ps, device_idle_ps, op_ps, compute_peak_percent, hbm_peak_percent,
        lost_ps, work_known_share, unattributed_share, program_count, op_count.
        """
        return self.report("op_profile", group_by=group_by, device=device, peak=peak)

    def hlo_stats(self, *, device: str | None = None, peak: str | None = None, percentiles: bool = False) -> Report:
        """Compiled instructions: time, arithmetic, memory traffic, padding, by program and category.

        device: compare ops with the published peaks of this device, such as H100 or TPU v5e
        peak: compare ops with these per-device peaks: flops=312T,hbm=2039GB/s, or only one of the two
        percentiles: fill the table durations with percentiles of op durations

        Tables: ops, categories, programs, rematerialization, outside_compilation, replica_groups, attribution,
        padding, layouts, durations, sparse_core_ops.
        Figures: device_total_ps, device_op_ps, device_idle_ps, op_count, program_count, unknown_work_share,
        unattributed_share, rematerialized_share, outside_compilation_share, padding_share.
        """
        return self.report("hlo_stats", device=device, peak=peak, percentiles=percentiles)

    def roofline(self, *, steps_from: str = "auto", device: str | None = None, peak: str | None = None) -> Report:
        """How close ops, steps and programs come to the device peaks, and what bounds them.

        steps_from: step source: program or framework markers, as in XProf (markers), data loader calls (loader),
        compiled program executions (modules), repeated annotations (annotations) or launch patterns (launches);
        auto: the first of these in the capture, with markers extended to the work that they launched. Any other
        value names markers or an annotation, without the step number
        device: compare ops with the published peaks of this device, such as H100 or TPU v5e
        peak: compare ops with these per-device peaks: flops=312T,hbm=2039GB/s, or only one of the two

        Tables: device, totals, ops, lost_time, memory.
        Figures: device_type, device_count, core_count, peak_flops_per_s, peak_hbm_bytes_per_s,
        ridge_flops_per_byte, flops_per_s, hbm_bytes_per_s, compute_peak_percent, hbm_peak_percent, bound_by,
        ops_roofline_percent, lost_ps, unknown_ps, clock_share.
        """
        return self.report("roofline", steps_from=steps_from, device=device, peak=peak)

    def hardware_units(self) -> Report:
        """Utilization of matrix units, vector units, loads and stores of devices, by program and op.

        Tables: units, programs, ops, peaks, counters.
        Figures: device_count, sampled_device_count, sample_count, busiest_unit, busiest_percent, matrix_percent,
        spills, counter_count.
        """
        return self.report("hardware_units")

    def memory_viewer(self, *, module: str | int | None = None, memory_space: str | int = "0") -> Report:
        """Memory of compiled programs: the peak, the buffers alive at it, padding, lifetimes, allocations.

        module: program to show: its title, with parentheses, its name, or its id (default: the largest)
        memory_space: memory space to show: a number, optionally as S(5), or device, hbm, vmem, sflag, cmem, smem,
        host, sparsecore

        Tables: modules, buffers_at_peak, peak_by_op, by_allocation_type, heap, allocations, lifetimes.
        Figures: module, host, memory_space, memory_space_name, peak_bytes, peak_instruction, peak_point,
        unpadded_peak_bytes, padding_bytes, padding_share, allocated_bytes, fragmentation_bytes,
        fragmentation_share, whole_run_bytes, parameter_bytes, aliased_bytes, output_bytes, constant_bytes,
        temporary_bytes, thread_local_bytes, program_points, scoped_vmem_bytes, scoped_vmem_instruction.
        """
        return self.report("memory_viewer", module=module, memory_space=memory_space)

    def communication(self, *, steps_from: str = "auto") -> Report:
        """Collectives, copies and feeds: the part hidden by compute, and the cost of the rest.

        steps_from: step source: program or framework markers, as in XProf (markers), data loader calls (loader),
        compiled program executions (modules), repeated annotations (annotations) or launch patterns (launches);
        auto: the first of these in the capture, with markers extended to the work that they launched. Any other
        value names markers or an annotation, without the step number

        Tables: steps, devices, kinds, step_kinds, operations, meetings, stragglers, links, clocks, blame,
        host_steps.
        Figures: device_count, used_device_count, rank_count, recorded_ps, compute_share, exposed_share, idle_share,
        exposed_ps, hidden_ps, costliest_kind, costliest_operation, step_count, step_device_mean_ps,
        step_exposed_mean_ps, step_if_hidden_mean_ps, step_gain_share, compared_step_count, meeting_count,
        meeting_wait_ps, last_device, path_ps, path_transfer_ps, straggler_host, straggler_excess_ps,
        straggler_saved_ps, straggler_before_ps.
        """
        return self.report("communication", steps_from=steps_from)

    def memory_profile(
        self,
        *,
        at: int | str | None = None,
        request: int | str | None = None,
        short_lived_us: int = 1000,
        steps_from: str = "auto",
    ) -> Report:
        """Memory by allocator: peaks, live allocations, fragmentation, lifetimes, growth over steps.

        at: also report live memory at this time after the start of each host's capture, such as 1.5s or 20ms
        request: also report when a request of this size would fit, in bytes or as 2GiB; the error message of a
        failed allocation has its size
        short_lived_us: allocations that live no longer than this, in microseconds, are short-lived
        steps_from: step source: program or framework markers, as in XProf (markers), data loader calls (loader),
        compiled program executions (modules), repeated annotations (annotations) or launch patterns (launches);
        auto: the first of these in the capture, with markers extended to the work that they launched. Any other
        value names markers or an annotation, without the step number

        Tables: allocators, active_groups, active, at, steps, ops, growth, fragmentation, request, timeline,
        snapshots, allocations.
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

    def gaps(self, *, top: int = 50, steps_from: str = "auto") -> Report:
        """Gaps: device time by kind, and what the program did while devices did not compute.

        top: how many of the longest gaps to list
        steps_from: step source: program or framework markers, as in XProf (markers), data loader calls (loader),
        compiled program executions (modules), repeated annotations (annotations) or launch patterns (launches);
        auto: the first of these in the capture, with markers extended to the work that they launched. Any other
        value names markers or an annotation, without the step number

        Tables: devices, by_cause, by_step, gaps.
        Figures: device_count, used_device_count, unused_device_count, window_ps, busy_ps, compute_ps,
        communication_ps, copy_ps, wait_ps, idle_ps, compute_share, idle_share, largest_cause, largest_cause_ps,
        largest_cause_share, largest_cause_meaning, between_steps_ps.
        """
        return self.report("gaps", top=top, steps_from=steps_from)

    def tf_data(self, *, parallel: int = 4, slow_call_us: int = 50) -> Report:
        """tf.data input pipelines: the iterator graph, its critical path, the bottleneck, how to fix it.

        parallel: number of elements that parallel iterators process at a time in the what-if table
        slow_call_us: pipeline calls longer than this, in microseconds, are slow

        Tables: pipelines, iterators, critical_path, bottlenecks, self_time, step_waits, what_if, calls,
        call_iterators.
        Figures: pipeline_count, iterator_count, call_count, slow_call_count, max_call_ps, wait_share,
        slow_pipeline, bottleneck_name, bottleneck_share, batch_ps, best_change, best_batch_ps.
        """
        return self.report("tf_data", parallel=parallel, slow_call_us=slow_call_us)

    def pod_viewer(self, *, steps_from: str = "auto") -> Report:
        """Each step on each core of all hosts: its time by category, and its bottleneck.

        steps_from: step source: program or framework markers, as in XProf (markers), data loader calls (loader),
        compiled program executions (modules), repeated annotations (annotations) or launch patterns (launches);
        auto: the first of these in the capture, with markers extended to the work that they launched. Any other
        value names markers or an annotation, without the step number

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
        """Requests and batches of a model server: latency by percentile and by part.

        request_order: order in which XProf's page samples requests
        batch_order: order in which XProf's page samples batches

        Tables: models, breakdown, latency, requests, batches, batch_sizes, tensor_patterns.
        Figures: request_count, batch_count, model_count, requests_per_second, mean_latency_ps, p50_latency_ps,
        p75_latency_ps, p90_latency_ps, p99_latency_ps, p999_latency_ps, max_latency_ps.
        """
        return self.report("inference", request_order=request_order, batch_order=batch_order)

    def annotations(self, *, steps_from: str = "auto", device: str | None = None, peak: str | None = None) -> Report:
        """User annotations: time by name and step, device activity during them; time by named scope.

        steps_from: step source: program or framework markers, as in XProf (markers), data loader calls (loader),
        compiled program executions (modules), repeated annotations (annotations) or launch patterns (launches);
        auto: the first of these in the capture, with markers extended to the work that they launched. Any other
        value names markers or an annotation, without the step number
        device: compare ops with the published peaks of this device, such as H100 or TPU v5e
        peak: compare ops with these per-device peaks: flops=312T,hbm=2039GB/s, or only one of the two

        Tables: annotations, steps, gpu_annotations, scopes.
        Figures: annotation_count, occurrences, annotated_ps, longest, longest_ps, longest_share, scope_count.
        """
        return self.report("annotations", steps_from=steps_from, device=device, peak=peak)

    def python_time(self, *, nodes: int = 5000) -> Report:
        """Python: self and total time by function, callers, callees, ops and kernels below, flame graphs.

        nodes: maximum rows of the stacks table per host; smaller stacks are summed

        Tables: functions, stacks, threads, thread_functions, calls.
        Figures: window_ps, run_ps, longest, longest_ps, longest_share, idle_ps, python_ps, native_ps, waited_ps,
        device_ps, outside_ps, call_count, function_count, thread_count.
        """
        return self.report("python_time", nodes=nodes)

    def steps(self, *, steps_from: str = "auto") -> Report:
        """Every step on every host and core: its time by category, stragglers, percentiles.

        steps_from: step source: program or framework markers, as in XProf (markers), data loader calls (loader),
        compiled program executions (modules), repeated annotations (annotations) or launch patterns (launches);
        auto: the first of these in the capture, with markers extended to the work that they launched. Any other
        value names markers or an annotation, without the step number

        Tables: steps, breakdown, step_summary, hosts, slow_steps, slowdowns, between_steps, stragglers.
        Figures: steps_source, steps_certainty, steps_inferred, step_count, incomplete_step_count, host_count,
        core_count, step_time_mean_ps, step_time_stdev_ps, step_time_min_ps, step_time_p50_ps, step_time_p90_ps,
        step_time_p99_ps, step_time_max_ps, step_time_is_bound, slow_step_count, slow_step_excess_ps,
        between_steps_ps, between_steps_share, module_execution_count.
        """
        return self.report("steps", steps_from=steps_from)
