"""Derive: what do several analyses compute of a host? A wing of rooms, and the host that analyses receive."""

__all__ = ["host"]
