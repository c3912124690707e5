"""Ops as nodes of a graph: their names, scopes, code, inputs and work."""

__all__ = ["capture_nodes"]
