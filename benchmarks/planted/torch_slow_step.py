"""One step of nine looks at every weight in Python, twice. Steps are marked, stacks of Python are recorded."""

import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

STEPS = 9


def log_weights(model):
    largest = 0.0
    for one in model.parameters():
        for value in one.detach().flatten().tolist() * 2:
            largest = value if value > largest else largest
    return largest


def main(logdir):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(384, 768), nn.ReLU(), nn.Linear(768, 10))
    optimizer, planted = torch.optim.SGD(model.parameters(), 0.01), 0
    x, labels = torch.ones(512, 384), torch.zeros(512, dtype=torch.long)
    steps = schedule(wait=0, warmup=2, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, with_stack=True) as profiler:
        for number in range(2 + STEPS):
            if number == 2:
                begun = time.perf_counter_ns()
            loss = nn.functional.cross_entropy(model(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number == 7:
                since = time.perf_counter_ns()
                log_weights(model)
                planted = time.perf_counter_ns() - since
            if number == 1 + STEPS:
                run = time.perf_counter_ns() - begun
            profiler.step()
    profiler.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
