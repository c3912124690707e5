"""`record_function` surrounds an explicit `next` of the loader's iterator, and another the compute. No schedule."""

import itertools
import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        number = 0
        while True:
            yield self.receive(number)
            number += 1

    def receive(self, number):
        time.sleep(0.0011)
        return torch.full((448,), number / 100), torch.tensor([number % 2], dtype=torch.float32)


def main(logdir):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(448, 384), nn.ReLU(), nn.Linear(384, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_fn = nn.BCEWithLogitsLoss()
    loader_iter = iter(DataLoader(Stream(), batch_size=8))
    begins, waits = [], []

    def forward_backward(x, y):
        optimizer.zero_grad()
        loss = loss_fn(model(x.repeat(16, 1)), y.repeat(16, 1))
        loss.backward()
        optimizer.step()
        return loss.item()

    forward_backward(*next(loader_iter))
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        for _ in range(12):
            begins.append(time.perf_counter_ns())
            with record_function("fetch"):
                x, y = next(loader_iter)
            waits.append(time.perf_counter_ns() - begins[-1])
            with record_function("forward_backward"):
                forward_backward(x, y)
        begins.append(time.perf_counter_ns())
    prof.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
