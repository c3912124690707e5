"""Random profiles and random options for tfprof's views."""

from __future__ import annotations

import random
from typing import Any

from profile_messages import profile_class

from fastprof.derive.tfprof.options import ORDERS, ViewOptions

CPU = "/job:localhost/replica:0/task:0/device:cpu:0"
GPU = "/job:localhost/replica:0/task:0/device:gpu:0"
START = 1_500_000_000_000_000
WORDS = ("a", "b", "tower_0", "gradients", "conv", "MatMul_grad", "a-b", "BatchNorm", "é", "w<&>")
FILES = ("a/b.py", "c.py", "x/y/zz", "/q/w.e.py")
FUNCTIONS = ("f", "<module>", "a_very_long_function_name_indeed", "g" * 19, "h" * 20)


def random_profile(seed: int, size: int) -> bytes:
    """A profile with cycles, loops, several devices, gradients and nodes that never ran."""
    chance, profile = random.Random(seed), profile_class()()
    profile.steps.extend(sorted(chance.sample([0, 1, 2, 3, 70], chance.randint(1, 4))))
    for number, text in enumerate((*FILES, *FUNCTIONS), 1):
        profile.id_to_string[number] = text
    names: list[str] = []
    while len(names) < size:
        name = "/".join(chance.choice(WORDS) for _ in range(chance.randint(1, 5)))
        if name not in names:
            names.append(name)
    stacks = [[_frame(chance) for _ in range(chance.randint(1, 5))] for _ in range(8)]
    for number, name in enumerate(names):
        node = profile.nodes[number]
        _fill(node, number, name, chance, size)
        node.trace.traces.extend(chance.choice(stacks)[: chance.randint(0, 5)])
        for step in profile.steps:
            if chance.random() < 0.5:
                _run(node.execs[step], node.canonical_device, START + step * 10_000, chance)
    profile.has_trace = True
    data: bytes = profile.SerializeToString()
    return data


def _frame(chance: random.Random) -> Any:
    frames = profile_class()().nodes[0].trace.traces
    file, function = chance.randint(1, len(FILES)), len(FILES) + chance.randint(1, len(FUNCTIONS))
    return frames.add(lineno=chance.randint(1, 3), file_id=file, function_id=function, line_id=1)


def _fill(node: Any, number: int, name: str, chance: random.Random, size: int) -> None:
    node.name, node.id, node.op = name, number, chance.choice(["MatMul", "Relu", "Conv2D", "é"])
    node.canonical_device = chance.choice(["", CPU, GPU])
    types = {node.op, node.canonical_device, chance.choice(["", "", "_trainable_variables"])}
    node.op_types.extend(sorted(types - {""}))
    node.shape.extend(chance.choice([[], [3, 4], [64, -1], [1000, 1000], [0]]))
    node.float_ops = chance.choice([0, 12, 5000, 2 * 10**9])
    for slot in range(chance.randint(0, 3)):
        node.inputs[slot] = chance.randrange(size if chance.random() < 0.2 else max(1, number))


def _run(run: Any, device: str, begin: int, chance: random.Random) -> None:
    run.run_count, run.all_start_micros, run.latest_end_micros = chance.randint(0, 3), begin, begin + 500
    for _ in range(chance.randint(0, 3) if device else 0):
        run.cpu_execs[device].times.add(int64_values=[begin + chance.randint(0, 900), chance.choice([1, 20, 1500])])
    for _ in range(chance.randint(0, 2) if device == GPU else 0):
        times = run.accelerator_execs["/device:gpu:0/stream:all"].times
        times.add(int64_values=[begin + chance.randint(0, 900), chance.choice([1, 20, 2_500_000])])
    for _ in range(chance.choice([0, 1, 1, 2])):
        run.memory_execs.add(memory_micros=begin, requested_bytes=chance.choice([0, 5, 5000, 7 * 10**9]),
                             peak_bytes=chance.choice([0, 8]), residual_bytes=chance.choice([0, 4]),
                             output_bytes=chance.choice([0, 10**7]))  # fmt: skip


def random_options(chance: random.Random, steps: list[int]) -> ViewOptions:
    given: dict[str, Any] = {
        "max_depth": chance.choice([10_000, 10, 3, 2, 1]),
        "order_by": chance.choice(ORDERS),
        "step": chance.choice([-1, -1, *steps]),
        "account_displayed_op_only": chance.random() < 0.5,
        "account_type_regexes": chance.choice(
            [[".*"], [".*"], ["MatMul"], ["MatMul", ".*gpu.*"], ["_kTFScopeParent"], ["_trainable_variables"], []]
        ),
        "start_name_regexes": chance.choice([[".*"], [".*"], ["a.*"], ["gradients", "b"], ["MatMul"], [".*:f"], []]),
        "show_name_regexes": chance.choice([[".*"], [".*"], [".*conv.*"], ["a/.*", "b", "MatMul"], ["é|.*é.*"]]),
        "hide_name_regexes": chance.choice([[], [], ["a"], [".*/b", "Relu"], [".*:g+"], [".*module.*"]]),
        "trim_name_regexes": chance.choice([[], [], ["a"], ["tower_0.*", "Conv2D"], [".*:<module>"]]),
    }
    for name in [option for option in ViewOptions.__slots__ if option.startswith("min_")]:
        if chance.random() < 0.07:
            given[name] = chance.choice([1, 20, 5000])
    return ViewOptions().replaced(**given)
