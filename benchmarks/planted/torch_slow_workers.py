"""Two workers of a DataLoader are slower than the steps. Steps are marked, Python is not traced."""

import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

STEPS = 6


class Slow(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, _):
        time.sleep(0.15)
        return torch.ones(256, 384), torch.zeros(256, dtype=torch.long)


def main(logdir):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(384, 768), nn.ReLU(), nn.Linear(768, 10))
    optimizer, planted = torch.optim.SGD(model.parameters(), 0.01), 0
    batches = iter(DataLoader(Slow(), batch_size=None, num_workers=2, prefetch_factor=2))
    steps = schedule(wait=0, warmup=2, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps) as profiler:
        for number in range(2 + STEPS):
            if number == 2:
                planted, begun = 0, time.perf_counter_ns()
            since = time.perf_counter_ns()
            x, labels = next(batches)
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


if __name__ == "__main__":
    main(sys.argv[1])
