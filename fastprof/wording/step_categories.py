"""Categories of step time in plain words."""

from __future__ import annotations

from typing import Final

_IN_WORDS: Final = {
    "device_compute": "devices compute",
    "device_to_device": "copies between devices",
    "device_collectives": "collectives",
    "host_compute": "host computes",
    "kernel_launch": "preparing launches",
    "input": "loading or waiting for input",
    "output": "copies to the host",
    "compilation": "compiling",
    "all_others": "nothing computes",
    "compute": "compute",
    "copies": "copies",
    "not_training": "evaluation, logging and saving",
    "idle": "devices idle",
    "sparse_core_v0_compute": "waiting for SparseCores",
    "sparse_core_v0_input": "input of SparseCores",
}


def in_words(category: str) -> str:
    """What a category of step time is; a name that is none stays as it is."""
    return _IN_WORDS.get(category, category)
