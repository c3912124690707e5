"""A function compiled by torch.compile gets batches of changing size and a Python number that changes: guards fail, and
it is compiled again. What a step costs without that is measured with what is compiled by then."""

import json
import sys
import time

import torch


@torch.compile(backend="aot_eager", dynamic=False)
def train_step(x, w, step):
    return torch.tanh(x @ w).sum() * step


def main(logdir):
    w = torch.eye(32)
    batches = [(torch.ones(rows, 32), number) for rows, number in ((16, 1), (16, 1), (12, 1), (12, 2), (9, 2))]
    with torch.profiler.profile(record_shapes=True) as profiler:
        begun, planted = time.perf_counter_ns(), 0
        for batch, number in batches:
            since = time.perf_counter_ns()
            train_step(batch, w, number)
            planted += time.perf_counter_ns() - since
            profiler.step()
        run = time.perf_counter_ns() - begun
    since = time.perf_counter_ns()
    for batch, number in batches:
        train_step(batch, w, number)
    again = time.perf_counter_ns() - since
    profiler.export_chrome_trace(f"{logdir}/train.pt.trace.json")
    print(json.dumps({"planted_ns": planted - again, "run_ns": run}))


main(sys.argv[1])
