"""Devices: what is known of a device: its peaks, its environment, the names and the clock of its ops?"""

__all__ = [
    "chosen_peaks", "collective_kernels", "communication_kinds", "device_count", "device_events", "devices",
    "framework", "gpu_vendor", "kernel_launch", "kineto_categories", "nothing_ran", "op_names", "precision",
    "run_environment", "tensor_cores", "tracer_levels", "unit_samples",
]  # fmt: skip
