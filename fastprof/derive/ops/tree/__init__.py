"""Ops as trees: by program, category or name scope, with what each part of the program cost."""
