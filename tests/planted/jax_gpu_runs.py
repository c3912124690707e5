"""Runs of JAX on A100 GPUs with one planted cause each, and healthy ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_machine import US, Compiled, Kernel, Machine, Thread, Written, dense, executing, requesting
from trace_builder import Plane

STEPS = 8


@dataclass
class Loop:
    """A training loop: the main thread marks steps, calls the compiled step and waits for it."""

    machine: Machine
    compiled: Compiled
    steps: int = STEPS

    def run(self, device: Callable[[int, Thread], None], between: Callable[[int, Thread], None] | None = None) -> int:
        """``device`` launches what a GPU runs in a step; how long the loop took."""
        main = self.machine.thread("python")
        begun = main.now
        for step in range(self.steps):
            with main.within("train", _r=1, step_num=step):
                if between:
                    between(step, main)
                with main.within("PjitFunction(train_step)"):
                    main.run("ParseArguments", 3 * US)
                    with requesting(self.machine, main) as flow:
                        for gpu in self.machine.gpus:
                            thread = self.executor(gpu.ordinal)
                            thread.now = main.now + 8 * US
                            with executing(thread, self.compiled.program.name, flow):
                                device(gpu.ordinal, thread)
                            main.now += 2 * US
                self.together()
                main.wait("CommonPjRtBuffer::Await", max(gpu.done for gpu in self.machine.gpus) + 5 * US)
        return main.now - begun

    def executor(self, ordinal: int) -> Thread:
        return self.machine.thread(f"py_xla_execute/{9000 + ordinal}")

    def launch(self, ordinal: int, thread: Thread, kernel: Kernel, took: int, **rest: Any) -> int:
        stats = self.compiled.stats(kernel)
        return self.machine.launch(thread, self.machine.gpus[ordinal], kernel.name, took, stats, **rest)

    def together(self) -> None:
        """Nobody is done with a sum over devices before the last has come: the sum ends at once everywhere."""
        streams = [gpu.streams.get("Collective", []) for gpu in self.machine.gpus]
        for place in zip(*streams, strict=True):
            if (last := max((one.offset_ps or 0) + one.duration_ps for one in place)) and len(place) > 1:
                for gpu, one in zip(self.machine.gpus, place, strict=True):
                    kept = gpu.streams["Collective"]
                    longer = last - (one.offset_ps or 0)
                    kept[kept.index(one)] = type(one)(one.name, one.offset_ps, longer, one.stats)
                    gpu.free["Collective"] = max(gpu.free["Collective"], last)
                    gpu.free["Compute"] = max(gpu.free["Compute"], last)

    def captured(self, cost: int, run: int, most: int | None = None, *planes: Plane) -> Written:
        return Written({"host0": self.machine.written(self.compiled.plane(), *planes)}, cost, run, most)


def _healthy(efficiency: float) -> Written:
    loop = Loop(Machine(), dense(8))

    def device(ordinal: int, thread: Thread) -> None:
        for kernel in loop.compiled.kernels:
            loop.launch(ordinal, thread, kernel, int(kernel.best_ps() / efficiency))

    return loop.captured(0, loop.run(device))


def at_its_peak() -> Written:
    """Matrix products at 97 % of the peak, back to back."""
    return _healthy(0.97)


def as_good_as_it_gets() -> Written:
    """Matrix products at 82 % of the peak, as good libraries reach it, back to back."""
    return _healthy(0.82)


def exposed_all_reduce() -> Written:
    """Four GPUs sum gradients after all compute, at the same time, for a third of the step."""
    compiled = dense(4)
    last = compiled.ops[-1]
    compiled.all_reduce(last, 4096, 8192, devices=4)
    loop, took = Loop(Machine(4), compiled), 4500 * US

    def device(ordinal: int, thread: Thread) -> None:
        *products, summed = compiled.kernels
        done = max(loop.launch(ordinal, thread, one, int(one.best_ps() / 0.9)) for one in products)
        loop.machine.gpus[ordinal].free["Collective"] = done
        loop.launch(ordinal, thread, summed, took, stream="Collective")

    run = loop.run(device)
    return loop.captured(_spent(loop, "nccl"), run)


def _spent(loop: Loop, name: str) -> int:
    """On the first GPU, by kernels of this name."""
    streams = loop.machine.gpus[0].streams.values()
    return sum(one.duration_ps for stream in streams for one in stream if str(one.name).startswith(name))


def slow_gpu() -> Written:
    """One GPU of four computes 40 % longer; the others wait for it in a sum that itself takes little."""
    compiled = dense(4)
    compiled.all_reduce(compiled.ops[-1], 4096, 8192, devices=4)
    loop, lost = Loop(Machine(4), compiled), [0]

    def device(ordinal: int, thread: Thread) -> None:
        *products, summed = compiled.kernels
        slow = 1.4 if ordinal == 2 else 1.0
        for one in products:
            took = int(one.best_ps() / 0.9 * slow)
            done = loop.launch(ordinal, thread, one, took)
            lost[0] += took - int(one.best_ps() / 0.9)
        loop.machine.gpus[ordinal].free["Collective"] = done
        loop.launch(ordinal, thread, summed, 150 * US, stream="Collective")

    run = loop.run(device)
    return loop.captured(lost[0], run)


def late_launches() -> Written:
    """Kernels of 60 us, and each launch takes 100 us of the host."""
    loop = Loop(Machine(), dense(64, rows=256, width=4096))
    gap = [0]

    def device(ordinal: int, thread: Thread) -> None:
        free = 0
        for kernel in loop.compiled.kernels:
            done = loop.launch(ordinal, thread, kernel, 60 * US, launch=100 * US)
            gap[0] += done - 60 * US - free if free else 0
            free = done

    run = loop.run(device)
    return loop.captured(gap[0], run)


def tiny_functions() -> Written:
    """Hundreds of compiled functions of one kernel of 2 us, each called from Python by itself."""
    compiled = Compiled("jit_add")
    compiled.loop(compiled.parameter(1024), 1024, inner=("add",))
    loop = Loop(Machine(), compiled, steps=4)
    main, (kernel,), gpu = loop.machine.thread("python"), compiled.kernels, loop.machine.gpus[0]
    begun, busy = main.now, 0
    for step in range(4):
        with main.within("train", _r=1, step_num=step):
            for _ in range(100):
                with main.within("PjitFunction(add)"):
                    main.run("ParseArguments", 2 * US)
                    with requesting(loop.machine, main) as flow, executing(main, "jit_add", flow):
                        loop.launch(0, main, kernel, 2 * US, launch=4 * US)
                    main.now += 4 * US
                main.now += 4 * US
                busy += 2 * US
            main.wait("CommonPjRtBuffer::Await", gpu.done + 2 * US)
    return loop.captured(main.now - begun - busy, main.now - begun)


def few_warps() -> Written:
    """Elementwise fusions occupy a quarter of the GPU and reach a quarter of its memory bandwidth."""
    compiled = Compiled()
    x, weight = compiled.parameter(4096, 8192), compiled.parameter(8192, 8192)
    for _ in range(12):
        x = compiled.loop(x, 4096, 8192)
    compiled.gemm(x, weight, 4096, 8192, 8192)
    loop, lost = Loop(Machine(), compiled), [0]

    def device(ordinal: int, thread: Thread) -> None:
        for kernel in compiled.kernels:
            best = int(kernel.best_ps() / 0.97)
            if kernel.op.startswith("loop"):
                lost[0] += 3 * best
                loop.launch(ordinal, thread, kernel, 4 * best, occupancy=25, grid="27,1,1")
            else:
                loop.launch(ordinal, thread, kernel, best)

    run = loop.run(device)
    return loop.captured(lost[0], run)


def at_the_memory() -> Written:
    """Elementwise fusions that read and write each array again and again, at 93 % of the memory bandwidth."""
    compiled = Compiled()
    x, weight = compiled.parameter(4096, 8192), compiled.parameter(8192, 8192)
    for _ in range(40):
        x = compiled.loop(x, 4096, 8192)
    compiled.gemm(x, weight, 4096, 8192, 8192)
    loop, spent = Loop(Machine(), compiled), [0, 0]

    def device(ordinal: int, thread: Thread) -> None:
        for kernel in compiled.kernels:
            took = int(kernel.best_ps() / 0.93)
            if kernel.op.startswith("loop"):
                spent[0] += took - kernel.flops * 1_000_000_000_000 // int(2048 * 108 * 1.41e9)
                spent[1] += took
            loop.launch(ordinal, thread, kernel, took)

    run = loop.run(device)
    return loop.captured(spent[0], run, spent[1])


def alone_at_the_memory() -> Written:
    """One fusion takes most of each step, at 88 % of the memory bandwidth: nothing is beside it to be fused with."""
    compiled = Compiled()
    x, weight = compiled.parameter(65536, 8192), compiled.parameter(8192, 8192)
    y = compiled.loop(x, 65536, 8192)
    compiled.gemm(y, weight, 2048, 8192, 8192)
    loop = Loop(Machine(), compiled)

    def device(ordinal: int, thread: Thread) -> None:
        for kernel in compiled.kernels:
            loop.launch(
                ordinal, thread, kernel, int(kernel.best_ps() / (0.88 if kernel.op.startswith("loop") else 0.95))
            )

    return loop.captured(0, loop.run(device))
