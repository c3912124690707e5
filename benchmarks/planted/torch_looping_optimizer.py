"""The optimizer updates its parameters slice by slice, in Python. Steps are marked, Python is not traced. What the
optimizer of the framework takes for the same parameters is measured afterwards."""

import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

STEPS = 3


class Sliced(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                values, slopes = parameter.view(-1), parameter.grad.view(-1)
                size = max(1, len(values) // 60)
                for at in range(0, len(values), size):
                    values[at : at + size].add_(slopes[at : at + size], alpha=-0.01)


def main(logdir):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 100))
    optimizer, planted, begun = Sliced(model.parameters()), 0, 0
    x, labels = torch.ones(64, 128), torch.zeros(64, dtype=torch.long)

    def compute():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), labels).backward()

    steps = schedule(wait=0, warmup=2, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps) as profiler:
        for number in range(2 + STEPS):
            if number == 2:
                planted, begun = 0, time.perf_counter_ns()
            compute()
            since = time.perf_counter_ns()
            optimizer.step()
            planted += time.perf_counter_ns() - since
            if number == 1 + STEPS:
                run = time.perf_counter_ns() - begun
            profiler.step()
    profiler.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    fast, taken = torch.optim.SGD(model.parameters(), 0.01), []
    for _ in range(20):
        since = time.perf_counter_ns()
        fast.step()
        taken.append(time.perf_counter_ns() - since)
    print(json.dumps({"planted_ns": planted - STEPS * int(statistics.median(taken)), "run_ns": run}))


main(sys.argv[1])
