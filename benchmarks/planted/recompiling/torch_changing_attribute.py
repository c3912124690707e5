"""An attribute of a module changes in each call: torch.compile compiles its value into the code, until it reaches the
limit of compilations. What a call costs without compilation is measured with what is compiled by then."""

import json
import sys
import time

import torch

torch._dynamo.config.recompile_limit = 3


class Clipped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.limit = 0.0

    def forward(self, x):
        return torch.clamp(x, max=self.limit).sum()


def main(logdir):
    module, x = Clipped(), torch.ones(16, 32)
    compiled = torch.compile(module, backend="aot_eager", dynamic=False)
    with torch.profiler.profile(record_shapes=True) as profiler:
        begun = time.perf_counter_ns()
        for number in range(4):
            module.limit = 1 / (1 + number)
            compiled(x)
        run = time.perf_counter_ns() - begun
    since = time.perf_counter_ns()
    for number in range(4):
        module.limit = 1 / (1 + number)
        compiled(x)
    again = time.perf_counter_ns() - since
    profiler.export_chrome_trace(f"{logdir}/train.pt.trace.json")
    print(json.dumps({"planted_ns": run - again, "run_ns": run}))


main(sys.argv[1])
