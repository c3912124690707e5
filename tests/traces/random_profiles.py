"""Random ProfileProtos of tfprof, of any ids, names, steps and times that the format can hold."""

from __future__ import annotations

import random
from typing import Any

from tensorflow_descriptor import message

CPU = "/job:localhost/replica:0/task:0/device:cpu:0"
GPU = "/job:localhost/replica:0/task:0/device:gpu:0"
OTHER = "/job:worker/replica:0/task:1/device:cpu:0"
STREAM = "/device:gpu:0/stream:all"
START = 1_500_000_000_000_000


def random_profile(seed: int, nodes: int = 30) -> Any:
    """A ProfileProto message. Times are near each other, so that all executions are events."""
    chance = random.Random(seed)
    profile = message("ProfileProto")()
    profile.has_trace = chance.random() < 0.5
    profile.miss_accelerator_stream = chance.random() < 0.2
    steps = chance.sample([0, 1, 2, 3, 70, -5, 2**40], chance.randint(0, 4))
    profile.steps.extend(steps)
    for _ in range(12):
        profile.id_to_string[chance.choice([chance.randint(0, 20), chance.getrandbits(62)])] = _word(chance)
    ids = list({chance.choice([number, chance.getrandbits(63), -number - 1]) for number in range(nodes)})
    chance.shuffle(ids)
    names = list(dict.fromkeys(_name(chance) for _ in ids))
    ids = ids[: len(names)]
    for id_, name in zip(ids, names, strict=False):
        _fill(profile.nodes[id_], id_, name, chance, ids, steps or [0], list(profile.id_to_string))
    return profile


def _word(chance: random.Random) -> str:
    return "".join(chance.choice("abc/_:é水<&> ") for _ in range(chance.randint(0, 12)))


def _name(chance: random.Random) -> str:
    return "/".join(_word(chance) or "x" for _ in range(chance.randint(1, 4)))


def _sizes(chance: random.Random) -> list[int]:
    return [chance.choice([1, 3, 64, 1000, 2**40, -1]) for _ in range(chance.randint(0, 4))]


def _fill(node: Any, id_: int, name: str, chance: random.Random, ids: list[int], steps: list[int], texts: Any) -> None:
    node.name, node.id, node.op = name, id_, chance.choice(["MatMul", "Relu", "", "ü"])
    for number in range(chance.randint(0, 3)):
        other = chance.choice(ids)
        node.inputs[chance.choice([number, 2**31 - 1, -4])] = other
        if chance.random() < 0.7:
            node.src_output_index[other] = chance.randint(0, 3)
        node.outputs[number] = chance.choice(ids)
        node.output_shapes[number].int64_values.extend(_sizes(chance))
        node.input_shapes[-number].int64_values.extend(_sizes(chance))
        node.attrs[_word(chance)].s = b"NHWC"
        node.attrs["shape"].shape.dim.add(size=chance.randint(-1, 5))
    node.shape.extend(_sizes(chance))
    node.op_types.extend(chance.choice(["MatMul", "_trainable_variables", CPU, "é", "Z"]) for _ in range(3))
    node.canonical_device, node.host_device = chance.choice([("", ""), (CPU, CPU), (GPU, CPU)])
    node.float_ops = chance.choice([0, 12, 2**50])
    for _ in range(chance.randint(0, 5)):
        file, function, text = (chance.choice(texts) for _ in range(3))
        node.trace.traces.add(lineno=chance.randint(1, 3), func_start_line=-1, file_id=file, function_id=function,
                              line_id=text)  # fmt: skip
    for step in chance.sample(steps, chance.randint(0, len(steps))):
        _run(node.execs[step], chance)


def _run(run: Any, chance: random.Random) -> None:
    run.run_count, run.all_start_micros, run.latest_end_micros = chance.randint(0, 3), START, START + 9
    run.devices.extend(chance.sample([CPU, GPU, STREAM, "/device:gpu:0/memcpy"], 2))
    for times, devices in ((run.cpu_execs, [CPU, GPU, OTHER, "odd"]), (run.accelerator_execs, [STREAM, GPU])):
        for device in chance.sample(devices, chance.randint(0, 2)):
            for _ in range(chance.randint(0, 3)):
                when = [START + chance.randint(0, 200), chance.choice([0, 1, 7, 40])]
                times[device].times.add(int64_values=when)
    for _ in range(chance.randint(0, 2)):
        memory = run.memory_execs.add(memory_micros=START, requested_bytes=chance.randint(-9, 9), peak_bytes=2**40)
        memory.host_temp_bytes, memory.allocator_bytes_in_use = chance.getrandbits(40), 7
        memory.output_memory[chance.randint(-1, 3)].bytes = 5
        memory.output_memory[1].ptr = chance.getrandbits(64)
        run.allocations.add(alloc_micros=START + 2, alloc_bytes=chance.choice([5, -5]))
