"""The model is saved in every step. Steps are marked, stacks of Python are recorded."""

import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

STEPS = 3


def main(logdir):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(1024, 3072), nn.ReLU(), nn.Linear(3072, 10))
    optimizer, planted = torch.optim.SGD(model.parameters(), 0.01), 0
    x, labels = torch.ones(96, 1024), torch.zeros(96, dtype=torch.long)
    steps = schedule(wait=0, warmup=2, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, with_stack=True) as profiler:
        for number in range(2 + STEPS):
            if number == 2:
                planted, begun = 0, time.perf_counter_ns()
            loss = nn.functional.cross_entropy(model(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            since = time.perf_counter_ns()
            torch.save({"model": model.state_dict(), "step": number}, "model.pt")
            planted += time.perf_counter_ns() - since
            if number == 1 + STEPS:
                run = time.perf_counter_ns() - begun
            profiler.step()
    profiler.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
