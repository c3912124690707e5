"""The profilers inside a program: how does a program record itself? Imports no framework that it has not imported."""

__all__ = ["frameworks"]
