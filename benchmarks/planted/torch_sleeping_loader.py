"""Reading a sample sleeps, as one does that reads from a slow disk, and the DataLoader has no workers. Steps are
marked, stacks of Python are recorded."""

import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

STEPS = 5


class Samples(Dataset):
    planted = 0

    def __len__(self):
        return 1000

    def __getitem__(self, number):
        since = time.perf_counter_ns()
        time.sleep(0.002)
        Samples.planted += time.perf_counter_ns() - since
        return torch.ones(384), number % 10


def main(logdir):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(384, 768), nn.ReLU(), nn.Linear(768, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batches = iter(DataLoader(Samples(), batch_size=8))
    steps = schedule(wait=0, warmup=2, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, with_stack=True) as profiler:
        for number in range(2 + STEPS):
            if number == 2:
                Samples.planted, begun = 0, time.perf_counter_ns()
            x, labels = next(batches)
            loss = nn.functional.cross_entropy(model(x.repeat(64, 1)), labels.repeat(64))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number == 1 + STEPS:
                planted, run = Samples.planted, time.perf_counter_ns() - begun
            profiler.step()
    profiler.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
