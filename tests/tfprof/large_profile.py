"""A profile as large as one likes: a network of layers, with code traces, several steps and a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from profile_messages import profile_class
from random_graphs import CPU, GPU, START

OPS = ("MatMul", "Relu", "Add", "Const", "VariableV2", "Identity", "Conv2D", "Mul")
WIDTH = 8
"""Nodes of a scope, and scopes of a scope."""
CHAIN = 64
"""The length of a chain of nodes: each takes the output of the one before."""


def large_profile(size: int, steps: int = 2) -> bytes:
    """Node n is in the scopes of its number in base 8, takes the outputs of two nodes before it, and is made by one of
    some hundreds of stacks."""
    profile = profile_class()()
    profile.steps.extend(range(steps))
    profile.has_trace = True
    for number in range(400):
        profile.id_to_string[number + 1] = f"model_{number % 20}.py" if number < 200 else f"build_layer_{number}"
    for number in range(size):
        node = profile.nodes[number]
        op = OPS[number % len(OPS)]
        node.name, node.id, node.op = f"{_scopes(number // WIDTH)}/{op}_{number}", number, op
        node.canonical_device = (CPU, GPU)[number % 2]
        node.op_types.extend([node.canonical_device, op])
        if op == "VariableV2":
            node.shape.extend([64, number % 100 + 1])
            node.op_types.append("_trainable_variables")
        node.float_ops = number % 7 * 1000
        for slot, other in enumerate((number - 1 if number % CHAIN else number // 2, number // 3) if number else ()):
            node.inputs[slot] = other
        for level in range(4):
            node.trace.traces.add(lineno=number // 8**level % 50, file_id=level + 1, function_id=201 + level, line_id=1)
        for step in range(steps):
            _run(node.execs[step], node.canonical_device, step, number)
    data: bytes = profile.SerializeToString()
    return data


def _scopes(number: int) -> str:
    digits = [f"scope_{number % WIDTH}"]
    while number := number // WIDTH:
        digits.append(f"block_{number % WIDTH}")
    return "/".join(reversed(digits))


def _run(run: Any, device: str, step: int, number: int) -> None:
    begin = START + step * 10_000_000 + number * 10
    run.run_count, run.all_start_micros, run.latest_end_micros = 1, begin, begin + 9
    run.cpu_execs[device].times.add(int64_values=[begin, 1 + number % 9])
    if device == GPU:
        run.accelerator_execs["/device:gpu:0/stream:all"].times.add(int64_values=[begin, 2 + number % 5])
    run.memory_execs.add(memory_micros=begin, requested_bytes=number % 1000, peak_bytes=number % 500,
                         residual_bytes=number % 10, output_bytes=number % 300)  # fmt: skip


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(large_profile(int(sys.argv[1])))
