"""Ops as trees: by program, category or name scope, with what each part of the program cost."""

__all__ = ["fused_instructions", "name_scopes", "node_figures", "op_paths", "op_trees", "scope_trees", "tree_tables"]
