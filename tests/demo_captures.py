"""The captures of demo/ that are made, not recorded. ``python tests/demo_captures.py`` writes them again."""

from __future__ import annotations

from pathlib import Path

import demo_kernel
import demo_training
from allocator_captures import KIB, MIB, MS, US, Device, captured

DEMO = Path(__file__).resolve().parent.parent / "demo"
MEMORY = DEMO / "memory/plugins/profile/2026_11_21_20_00_00/worker0.xplane.pb"
XLA = DEMO / "xla/plugins/profile/2026_11_22_00_00_00/worker0.xplane.pb"
KERNEL = DEMO / "kernel/plugins/profile/2026_11_23_00_00_00/worker0.xplane.pb"
STEPS = 12


def training() -> tuple[Device, Device]:
    """A model that trains on a GPU of 256 MiB: an op keeps a little more each step, and what it keeps lies between
    activations; another takes and gives back its workspace; and the batches lie in memory of the host."""
    gpu, pinned = Device(256 * MIB, "GPU_0_bfc"), Device(64 * MIB, "gpu_host_bfc")
    gpu.recording = pinned.recording = False
    for layer in range(6):
        gpu.allocate(f"layer{layer}/weights", 12 * MIB, region="persist/dynamic", shape=f"[{3072 + layer},1024]")
    for number in range(STEPS + 2):
        gpu.recording = pinned.recording = number >= 2
        with gpu.step(number):
            _step(gpu, pinned)
        gpu.wait(300 * US)
    gpu.free(gpu.allocate("evaluation/logits/MatMul", 96 * MIB, region="output", shape="[8192,3072]"))
    return gpu, pinned


def _step(gpu: Device, pinned: Device) -> None:
    pinned.now_ps = gpu.now_ps
    batch = pinned.allocate("IteratorGetNext", 3 * MIB, thread="input", region="output", shape="[256,3072]")
    layers = []
    for layer in range(6):
        layers.append(gpu.allocate(f"layer{layer}/Relu", (10 - layer) * MIB, region="output", shape="[256,1024,10]"))
        with gpu.using(f"layer{layer}/Conv2D", 6 * MIB):
            gpu.wait(150 * US)
        if layer == 2:
            gpu.allocate("metrics/history/ConcatV2", 700 * KIB, region="persist/dynamic", shape="[179200]")
    for layer in reversed(range(6)):
        with gpu.using(f"gradients/layer{layer}/MatMul", 12 * MIB, shape=f"[{3072 + layer},1024]"):
            gpu.wait(MS // 2)
            gpu.free(layers[layer])
    pinned.now_ps = gpu.now_ps
    pinned.free(batch, thread="input")


def made() -> dict[Path, bytes]:
    return {
        MEMORY: captured(*training(), hostnames=["worker0"]),
        XLA: demo_training.captured(),
        KERNEL: demo_kernel.captured(),
    }


def main() -> None:
    for path, written in made().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(written)


if __name__ == "__main__":
    main()
