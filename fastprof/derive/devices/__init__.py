"""Devices: what is known of a device: its peaks, its environment, the names and the clock of its ops?"""

__all__ = ["communication_kinds", "device_events", "device_peaks", "gpu_kernels", "op_names", "run_environment"]
