"""A healthy program: the DataLoader takes batches from memory, and ops are large. Steps are marked, stacks of
Python are recorded."""

import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

STEPS = 5


def main(logdir):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    samples = TensorDataset(torch.ones(4096, 512), torch.zeros(4096, dtype=torch.long))
    batches = iter(DataLoader(samples, sampler=BatchSampler(SequentialSampler(samples), 512, True), batch_size=None))
    steps = schedule(wait=0, warmup=2, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, with_stack=True) as profiler:
        for number in range(2 + STEPS):
            if number == 2:
                begun = time.perf_counter_ns()
            x, labels = next(batches)
            loss = nn.functional.cross_entropy(model(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number == 1 + STEPS:
                run = time.perf_counter_ns() - begun
            profiler.step()
    profiler.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    print(json.dumps({"planted_ns": 0, "run_ns": run}))


main(sys.argv[1])
