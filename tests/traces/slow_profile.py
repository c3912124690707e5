"""The tables of tfprof by another way: the protobuf runtime reads the profile, and Python makes a row at a time."""

from __future__ import annotations

from typing import Any

from tensorflow_descriptor import message
from test_graph_def import value_text

Row = dict[str, Any]
MEMORY = (
    "host_temp_bytes", "host_persistent_bytes", "accelerator_temp_bytes", "accelerator_persistent_bytes",
    "requested_bytes", "peak_bytes", "residual_bytes", "output_bytes", "allocator_bytes_in_use",
)  # fmt: skip


def signed(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def tables(data: bytes) -> dict[str, list[Row]]:
    """Rows of each table, without the host and the times in picoseconds."""
    profile = message("ProfileProto").FromString(data)
    every = sorted(profile.nodes.values(), key=lambda node: node.name.encode())
    found: dict[str, list[Row]] = {"nodes": [], "executions": [], "memory": []}
    for node in every:
        found["nodes"].append(_node(node, profile))
        for step in sorted(node.execs):
            key, run = {"name": node.name, "step": step}, node.execs[step]
            found["executions"] += [key | row for row in _executions(run)]
            found["memory"] += [key | _memory(one) for one in run.memory_execs]
    head = {"steps": sorted(set(profile.steps)), "has_trace": profile.has_trace}
    return found | {"profiles": [head | {"misses_accelerator_stream": profile.miss_accelerator_stream}]}


def _node(node: Any, profile: Any) -> Row:
    parameters = 1 if node.shape else 0
    for size in node.shape:
        parameters = signed(parameters * size)
    by_name = {profile.nodes[id_].name: output for id_, output in sorted(node.src_output_index.items())}
    producer = {slot: profile.nodes[id_].name for slot, id_ in node.inputs.items()}
    return {
        "name": node.name, "op": node.op, "types": sorted(set(node.op_types), key=str.encode),
        "canonical_device": node.canonical_device or None, "host_device": node.host_device or None,
        "shape": list(node.shape) or None, "parameters": 0 if min(node.shape, default=0) < 0 else parameters,
        "float_ops": node.float_ops,
        "inputs": [{"slot": slot, "node": producer[slot], "output": by_name.get(producer[slot], 0)}
                   for slot in sorted(producer)],
        "outputs": [{"slot": slot, "node": profile.nodes[node.outputs[slot]].name} for slot in sorted(node.outputs)],
        "input_shapes": _shapes(node.input_shapes), "output_shapes": _shapes(node.output_shapes),
        "attrs": [{"name": name, "value": value_text(node.attrs[name])} for name in sorted(node.attrs, key=str.encode)],
        "trace": [_frame(one, profile.id_to_string) for one in node.trace.traces],
        "runs": [{"step": step, **_run(node.execs[step])} for step in sorted(node.execs)],
    }  # fmt: skip


def _shapes(slots: Any) -> list[Row]:
    return [{"slot": slot, "shape": list(slots[slot].int64_values)} for slot in sorted(slots)]


def _frame(one: Any, texts: Any) -> Row:
    file, function, text = (texts.get(id_) for id_ in (one.file_id, one.function_id, one.line_id))
    return {
        "file": file, "line": one.lineno, "function": function, "function_line": one.func_start_line, "text": text,
    }  # fmt: skip


def _run(run: Any) -> Row:
    return {
        "run_count": run.run_count, "start_us": run.all_start_micros, "end_us": run.latest_end_micros,
        "devices": sorted(set(run.devices), key=str.encode),
        "allocations": [{"time_us": one.alloc_micros, "bytes": one.alloc_bytes} for one in run.allocations],
    }  # fmt: skip


def _executions(run: Any) -> list[Row]:
    devices = [(name.encode(), is_accelerator, name, times) for is_accelerator, every in
               ((False, run.cpu_execs), (True, run.accelerator_execs)) for name, times in every.items()]  # fmt: skip
    return [
        {"device": name, "is_accelerator": is_accelerator, "start_us": one.int64_values[0],
         "duration_us": one.int64_values[1]}
        for _, is_accelerator, name, times in sorted(devices, key=lambda device: device[:2]) for one in times.times
    ]  # fmt: skip


def _memory(one: Any) -> Row:
    outputs = [{"slot": slot, "bytes": one.output_memory[slot].bytes, "pointer": signed(one.output_memory[slot].ptr)}
               for slot in sorted(one.output_memory)]  # fmt: skip
    return {"end_us": one.memory_micros, **{name: getattr(one, name) for name in MEMORY}, "output_memory": outputs}
