"""Each step counts in Python how often each class is predicted, for a log. Steps are marked, stacks of Python are
recorded."""

import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

STEPS = 5


def update_metrics(predicted, counts):
    for _ in range(100):
        for one in predicted:
            counts[one] += 1 if one else 2


def main(logdir):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(384, 768), nn.ReLU(), nn.Linear(768, 10))
    optimizer, planted, counts = torch.optim.SGD(model.parameters(), 0.01), 0, [0] * 10
    x, labels = torch.ones(2048, 384), torch.zeros(2048, dtype=torch.long)
    steps = schedule(wait=0, warmup=2, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, with_stack=True) as profiler:
        for number in range(2 + STEPS):
            if number == 2:
                planted, begun = 0, time.perf_counter_ns()
            scores = model(x)
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            predicted = scores.argmax(dim=1).tolist()
            since = time.perf_counter_ns()
            update_metrics(predicted, counts)
            planted += time.perf_counter_ns() - since
            if number == 1 + STEPS:
                run = time.perf_counter_ns() - begun
            profiler.step()
    profiler.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
