"""`record_function` surrounds only the compute of each step. A slow generator yields the batches. The profiler has no
schedule and records stacks."""

import itertools
import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function


def sample_trajectories(count):
    for number in range(count):
        time.sleep(0.010)
        states = torch.full((128, 384), number / count)
        yield states, states.sum(1, keepdim=True)


def main(logdir):
    torch.set_num_threads(1)
    policy = nn.Sequential(nn.Linear(384, 384), nn.Tanh(), nn.Linear(384, 1))
    optimizer = torch.optim.SGD(policy.parameters(), lr=1e-4)

    def update(states, returns):
        loss = nn.functional.mse_loss(policy(states), returns)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    for states, returns in sample_trajectories(2):
        update(states, returns)
    begins, waits = [], []
    with profile(activities=[ProfilerActivity.CPU], with_stack=True) as prof:
        begins.append(time.perf_counter_ns())
        for states, returns in sample_trajectories(8):
            waits.append(time.perf_counter_ns() - begins[-1])
            with record_function("train_step"):
                update(states, returns)
            begins.append(time.perf_counter_ns())
    prof.export_chrome_trace(f"{logdir}/host0.pt.trace.json")
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
