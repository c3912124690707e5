"""Assistants: tools for programs that ask by a protocol, and a skill that explains the verbs."""
