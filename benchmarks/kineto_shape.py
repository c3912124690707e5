"""A trace of PyTorch's profiler with the shape of real ones: ops and calls on two threads, kernels on streams, flows.

Of seven events two are ops, one is a Python function, one a call, one a kernel and two are ends of flows. Text is laid
out as Kineto does it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

import numpy as np

_OPS = ("aten::mm", "aten::add", "aten::linear", "aten::layer_norm", "aten::empty_strided", "aten::to", "aten::copy_")
_HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85045542912, "computeMajor": 9, "numSms": 132}
  ],
  "baseTimeNanoseconds": 1751410836000000000,
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
  "traceEvents": [
"""
_GROUP = 7


def _kernel_name(number: int) -> str:
    kind = ("elementwise", "reduce", "vectorized_layer_norm", "gemm_bf16")[number % 4]
    of = "at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float> >"
    return f"void at::native::{kind}_kernel<{number}, 4, {of} >(int)"


def _micros(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _slice(cat: str, name: str, place: tuple[int, int], ns: int, duration: int, args: str) -> str:
    head = f'"ph": "X", "cat": "{cat}", "name": "{name}", "pid": {place[0]}, "tid": {place[1]}'
    times = f'"ts": {_micros(ns)}, "dur": {_micros(duration)}'
    return f'  {{\n    {head},\n    {times},\n    "args": {{\n      {args}\n    }}\n  }}'


def _end(phase: str, number: int, place: tuple[int, int], ns: int, more: str) -> str:
    head = f'"ph": "{phase}", "id": {number}, "pid": {place[0]}, "tid": {place[1]}, "ts": {_micros(ns)}'
    return f'  {{\n    {head},\n    "cat": "ac2g", "name": "ac2g"{more}\n  }}'


def _group(number: int, rng: np.random.Generator, ns: int) -> list[str]:
    """An op of a Python function, the call in it, and the kernel that it launches."""
    thread = (4321, 4321 + number % 2)
    kind, width = int(rng.integers(len(_OPS))), int(rng.integers(1, 4096))
    stream = (7, 7, 7, 20)[number % 4]
    op = f'"External id": {number},"Record function id": 0, "Ev Idx": {number}'
    dims = f'"Input Dims": [[{width}, 1024], [1024, {width}]], "Input type": ["c10::BFloat16", "c10::BFloat16"]'
    call = f'"External id": {number},"cbid": 211,"correlation": {number}'
    launch = (
        f'"External id": {number},"queued": 0,"device": 0,"context": 1,"stream": {stream},"correlation": {number},'
        f'"registers per thread": {32 + number % 96},"shared memory": 49152,"blocks per SM": {width / 132:.6f},'
        f'"warps per SM": {width / 33:.6f},"grid": [{width}, 1, 1],"block": [128, 1, 1],'
        f'"est. achieved occupancy %": {number % 100}'
    )
    python = f'"Python id": {number},"Python parent id": {number // 2}, "Python thread": 0, "Ev Idx": {number}'
    kernel = _kernel_name(int(rng.integers(200)))
    return [
        _slice("cpu_op", _OPS[kind], thread, ns, 9_000, f"{op}, {dims}"),
        _slice("cpu_op", _OPS[kind - 1], thread, ns + 500, 7_800, op),
        _slice("cuda_runtime", "cudaLaunchKernel", thread, ns + 2_000, 3_104, call),
        _slice(
            "kernel",
            kernel,
            (0, stream),
            ns + 12_345,
            int(rng.integers(900, 90_000)),
            launch,
        ),
        _end("s", number, thread, ns + 2_000, ""),
        _end("f", number, (0, stream), ns + 12_345, ', "bp": "e"'),
        _slice("python_function", f"model/layers.py({width % 300}): forward", thread, ns - 400, 9_600, python),
    ]


def write_kineto(path: Path, events: int, seed: int) -> tuple[int, int, int]:
    """Writes a trace of about ``events`` events; how many events, stats and lines it becomes."""
    rng = np.random.default_rng(seed)
    groups = max(1, events // _GROUP)
    with path.open("w") as out:
        out.write(_HEAD)
        _write_names(out)
        ns = 1_428_625_731_896_179
        for number in range(1, groups + 1):
            ns += int(rng.integers(9_000, 14_000))
            out.write(",\n".join(_group(number, rng, ns)) + ",\n")
        out.write('  {\n    "name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": ')
        out.write(f'{ns // 1000 + 10}.000\n  }}\n  ],\n  "traceName": "{path.name}"\n}}\n')
    return groups * 5 + 1, groups * 27 + 1, 5


def _write_names(out: TextIO) -> None:
    for pid, label in ((4321, "CPU"), (0, "GPU 0")):
        for name, args in (("process_name", {"name": "python"}), ("process_labels", {"labels": label})):
            row = {"name": name, "ph": "M", "ts": 1428625731896.179, "pid": pid, "tid": 0, "args": args}
            out.write(f"  {json.dumps(row)},\n")
