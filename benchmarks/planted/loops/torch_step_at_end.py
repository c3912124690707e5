"""The profiler has a schedule, and its `step` ends the loop's body, as in PyTorch tutorials. Samples are slow to read,
and the DataLoader has no workers."""

import itertools
import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

WAIT, WARMUP, ACTIVE = 1, 1, 10


class Images(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((512,), index / 1000), index % 10


def main(logdir):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train_loader = DataLoader(Images(), batch_size=8, shuffle=True)

    def train(data):
        inputs, labels = data[0].repeat(16, 1), data[1].repeat(16)
        loss = criterion(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    begins, waits = [], []
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=WAIT, warmup=WARMUP, active=ACTIVE, repeat=1),
        on_trace_ready=lambda prof: prof.export_chrome_trace(f"{logdir}/host0.pt.trace.json"),
    ) as prof:
        begins.append(time.perf_counter_ns())
        for step, batch_data in enumerate(train_loader):
            if step >= WAIT + WARMUP + ACTIVE:
                break
            waits.append(time.perf_counter_ns() - begins[-1])
            train(batch_data)
            if step == WAIT + WARMUP + ACTIVE - 1:
                end = time.perf_counter_ns()
            prof.step()
            begins.append(time.perf_counter_ns())
    begins = [*begins[WAIT + WARMUP : -1], end]
    steps, waits = [end - begin for begin, end in itertools.pairwise(begins)], waits[WAIT + WARMUP :]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
