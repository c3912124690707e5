"""`step` of the profiler begins the loop's body, after the DataLoader has given the batch. Python decodes
samples; stacks are recorded."""

import itertools
import json
import sys
import time
import zlib

import numpy as np
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

SKIP, ACTIVE = 2, 6
PACKED = zlib.compress(np.random.default_rng(0).random(90_000).astype(np.float32).tobytes(), 1)


class Spectra(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        values = np.frombuffer(zlib.decompress(PACKED), np.float32)
        return torch.from_numpy(values[index : index + 384].copy()), index % 10


def main(logdir):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(384, 512), nn.GELU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    begins, waits = [], []
    steps = schedule(wait=0, warmup=SKIP, active=ACTIVE, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, with_stack=True) as prof:
        since = time.perf_counter_ns()
        for number, (x, y) in enumerate(DataLoader(Spectra(), batch_size=4)):
            begins.append(time.perf_counter_ns())
            waits.append(begins[-1] - since)
            if number == SKIP + ACTIVE:
                break
            if number:
                prof.step()
            loss = nn.functional.cross_entropy(model(x.repeat(32, 1)), y.repeat(32))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            since = time.perf_counter_ns()
    prof.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    begins, waits = begins[SKIP:], waits[SKIP + 1 :]
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
