"""The one worker of the DataLoader is slower than the step, which waits for its queue. A schedule, and `step` of the
profiler at the end of the loop."""

import itertools
import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

SKIP, ACTIVE = 2, 10


class Crops(Dataset):
    def __len__(self):
        return 8 * (SKIP + ACTIVE + 4)

    def __getitem__(self, index):
        time.sleep(0.0018)
        return torch.full((384,), index / 1000), index % 10


def main(logdir):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(384, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    begins, waits, ends = [], [], []
    steps = schedule(wait=0, warmup=SKIP, active=ACTIVE, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps) as prof:
        begins.append(time.perf_counter_ns())
        for x, y in DataLoader(Crops(), batch_size=8, num_workers=1):
            waits.append(time.perf_counter_ns() - begins[-1])
            loss = nn.functional.cross_entropy(model(x.repeat(16, 1)), y.repeat(16))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            ends.append(time.perf_counter_ns())
            prof.step()
            begins.append(time.perf_counter_ns())
            if len(waits) == SKIP + ACTIVE:
                break
    prof.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    begins, waits = [*begins[SKIP:-1], ends[-1]], waits[SKIP:]
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


if __name__ == "__main__":
    main(sys.argv[1])
