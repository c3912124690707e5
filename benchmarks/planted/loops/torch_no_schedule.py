"""The profiler surrounds the loop without a schedule, so that nothing marks steps. Samples are slow to read."""

import itertools
import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset


class Recordings(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        return self.read(index), index % 10

    def read(self, index):
        time.sleep(0.0012)
        return torch.full((1, 64, 64), index / 96)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, stride=2)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2)
        self.fc = nn.Linear(16 * 15 * 15, 10)

    def forward(self, x):
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        return self.fc(x.flatten(1))


def main(logdir):
    torch.set_num_threads(1)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Recordings(), batch_size=8)

    def train_batch(inputs, labels):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    train_batch(*next(iter(loader)))
    begins, waits, running = [], [], 0.0
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        begins.append(time.perf_counter_ns())
        for inputs, labels in loader:
            waits.append(time.perf_counter_ns() - begins[-1])
            running += train_batch(inputs, labels)
            begins.append(time.perf_counter_ns())
    prof.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
