"""Wording: how do people write and read times, sizes, steps and names?"""
