"""Every third step ends with a validation of the model. Steps are marked, stacks of Python are not recorded: an
annotation names it."""

import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

STEPS = 6


def main(logdir):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(384, 768), nn.ReLU(), nn.Linear(768, 10))
    optimizer, planted = torch.optim.SGD(model.parameters(), 0.01), 0
    x, labels, held_out = torch.ones(512, 384), torch.zeros(512, dtype=torch.long), torch.ones(4096, 384)
    steps = schedule(wait=0, warmup=2, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps) as profiler:
        for number in range(2 + STEPS):
            if number == 2:
                planted, begun = 0, time.perf_counter_ns()
            loss = nn.functional.cross_entropy(model(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number % 3 == 0:
                since = time.perf_counter_ns()
                with record_function("validation"), torch.inference_mode():
                    (model(held_out).argmax(dim=1) == 0).float().mean().item()
                planted += time.perf_counter_ns() - since
            if number == 1 + STEPS:
                run = time.perf_counter_ns() - begun
            profiler.step()
    profiler.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
