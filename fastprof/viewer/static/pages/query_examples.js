// A query for each analysis, as a begin.

export const EXAMPLES = [
  [
    "Events by name",
    "select name, count(*) as events, sum(duration_ps) / 1e9 as ms\nfrom events group by name order by ms desc",
  ],
  ["Overview", "select name, value, text, unit, reason from overview.figures"],
  ["Diagnosis", "select rank, title, cost_ps / 1e9 as ms, advice from diagnosis.findings order by rank"],
  [
    "Steps",
    "select step, max(duration_ps) / 1e9 as ms, arg_max(host, duration_ps) as slowest\nfrom steps.steps group by step order by step",
  ],
  ["Input pipeline", "select step, input_ps / 1e9 as input_ms, input_share from overview.steps order by step"],
  [
    "Op stats",
    "select name, self_ps / 1e9 as self_ms, self_share, bound_by\nfrom op_stats.ops order by self_ps desc limit 50",
  ],
  [
    "Kernel stats",
    "select name, occurrences, total_ps / 1e9 as ms, occupancy_percent\nfrom kernel_stats.kernels order by total_ps desc limit 50",
  ],
  ["Streams", "select name, value, unit, reason from streams.figures"],
  ["Critical path", "select * from critical_path.kinds"],
  ["Op profile", "select name, value, unit, reason from op_profile.figures"],
  [
    "HLO stats",
    "select category, count(*) as ops, sum(self_ps) / 1e9 as self_ms\nfrom hlo_stats.ops group by category order by self_ms desc",
  ],
  [
    "Roofline",
    "select name, flops_per_hbm_byte, flops_per_s / 1e12 as tflops, bound_by\nfrom roofline.ops order by self_ps desc limit 50",
  ],
  ["Hardware units", "select name, value, unit, reason from hardware_units.figures"],
  [
    "Memory viewer",
    "select module, instruction, size_bytes / 1e6 as mb\nfrom hlo_buffers order by size_bytes desc limit 50",
  ],
  [
    "Communication",
    "select kind, occurrences, exposed_ps / 1e9 as exposed_ms, moved_bytes / 1e6 as mb\nfrom communication.kinds order by exposed_ps desc",
  ],
  [
    "Memory profile",
    "select host, allocator, peak_bytes / 1e9 as peak_gb, fragmentation_at_peak\nfrom memory_profile.allocators order by peak_bytes desc",
  ],
  ["Gaps", "select * from gaps.by_cause"],
  [
    "tf.data",
    "select pipeline, name, self_ps / 1e9 as self_ms, critical_share, is_bottleneck\nfrom tf_data.iterators order by self_ps desc",
  ],
  [
    "Pod viewer",
    "select host, core_id, bottleneck, count(*) as steps\nfrom pod_viewer.cores group by all order by steps desc",
  ],
  [
    "Inference",
    "select model, count(*) as requests, median(latency_ps) / 1e9 as p50_ms, max(latency_ps) / 1e9 as max_ms\nfrom inference.requests group by model",
  ],
  [
    "Annotations",
    "select name, count, total_ps / 1e9 as ms, device_idle_ps / 1e9 as idle_ms\nfrom annotations.annotations order by total_ps desc limit 50",
  ],
  [
    "Python time",
    "select function, file, line, self_ps / 1e9 as self_ms\nfrom python_time.functions order by self_ps desc limit 50",
  ],
  [
    "Compiled programs",
    "select module, opcode, count(*) as instructions, sum(padded_bytes) / 1e6 as mb\nfrom hlo_instructions group by all order by mb desc nulls last",
  ],
];
