"""Profile: what do users of the Python API hold?"""
