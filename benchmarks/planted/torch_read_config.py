"""Each step reads its settings from a large file again. Steps are marked, stacks of Python are recorded."""

import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

STEPS = 5


def read_config(path):
    with open(path) as file:
        return json.load(file)["rate"]


def main(logdir):
    torch.set_num_threads(1)
    with open("settings.json", "w") as file:
        json.dump({"rate": 0.01, "classes": [{"name": f"class {k}", "weight": k / 7} for k in range(30_000)]}, file)
    model = nn.Sequential(nn.Linear(384, 768), nn.ReLU(), nn.Linear(768, 10))
    optimizer, planted = torch.optim.SGD(model.parameters(), 0.01), 0
    x, labels = torch.ones(512, 384), torch.zeros(512, dtype=torch.long)
    steps = schedule(wait=0, warmup=2, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, with_stack=True) as profiler:
        for number in range(2 + STEPS):
            if number == 2:
                planted, begun = 0, time.perf_counter_ns()
            since = time.perf_counter_ns()
            optimizer.param_groups[0]["lr"] = read_config("settings.json")
            planted += time.perf_counter_ns() - since
            loss = nn.functional.cross_entropy(model(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number == 1 + STEPS:
                run = time.perf_counter_ns() - begun
            profiler.step()
    profiler.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
